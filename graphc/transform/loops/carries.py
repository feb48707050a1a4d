"""Carries: values that keep their types from step to step."""

from collections.abc import Sequence
from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_value, cast, strong, variable
from graphc.ir.dims import equal
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import same_shape


def value_of(x: Any) -> Value:
    """What a user gives as a carry or an output, as an array."""
    return strong(as_value(x))


def fresh(value: Value) -> Value:
    """A variable that stands for a value of this type."""
    return variable(value.name or "value", value.type)


def as_before(before: Sequence[Value], after: Sequence[Value], op: str) -> list[Value]:
    """The carry behind a step; Python numbers take the dtype that was there.

    Raises GraphError where a step changes the structure or the type of the carry.
    """
    if len(before) != len(after):
        raise graph_error(
            "a step changes the structure of the carry",
            op=op,
            got=f"{len(after)} values behind it",
            expected=f"{len(before)}, as before it",
        )
    return [
        _as_before(i, old, new, op)
        for i, (old, new) in enumerate(zip(before, after, strict=True))
    ]


def _as_before(i: int, old: Value, new: Value, op: str) -> Value:
    value = cast(new, old.dtype) if new.type.weak else new
    same = value.dtype == old.dtype and value.type.rank == old.type.rank
    if same and not same_shape(value.type.shape, old.type.shape):
        sizes = zip(value.type.shape, old.type.shape, strict=True)
        same = all(equal(a, b) is not False for a, b in sizes)
        value = F.specify_shape(value, old.type.shape) if same else value
    if not same:
        raise graph_error(
            f"a step changes the type of value {i} of the carry",
            op=op,
            got=f"{value.type} behind it",
            expected=f"{old.type}, as before it",
            hint="convert it, or start from another type",
        )
    return value
