"""Reading, writing and adding to parts of arrays."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import graphc.tensor as gt
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.pytensor.registry import rule

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

IndexEntries = tuple[Any, ...]


def index_of(op: "Op", inputs: Sequence[object]) -> IndexEntries:
    """The index of a node: its inputs, put into slices as `idx_list` says.

    Entries of `idx_list` are numbers of inputs, or types that stand for the next input.
    """
    pattern = getattr(op, "idx_list", None)
    if pattern is None:
        return tuple(inputs)
    remaining = iter(inputs)
    return tuple(_index_entry(entry, remaining) for entry in pattern)


def _index_entry(entry: object, remaining: Iterator[object]) -> object:
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        return slice(*[None if p is None else next(remaining) for p in parts])
    return next(remaining)


@rule("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
def _(op: "Op", node: "Apply", x: Value, *inputs: ArrayLike) -> Value:
    return x[index_of(op, inputs)]


@rule("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
def _(op: "Op", node: "Apply", x: Value, y: Value, *inputs: ArrayLike) -> Value:
    dtype = gt.result_type(x, y) if y.dtype.kind == "c" else x.dtype
    place = gt.astype(x, dtype).at[index_of(op, inputs)]
    value = gt.astype(y, dtype)
    return place.set(value) if op.set_instead_of_inc else place.add(value)


rule("MakeSlice")(lambda op, node, start, stop, step: slice(start, stop, step))
