"""checkpoint: a part of a graph that is recomputed in the backward pass.

Only the values that the part starts from are kept from the forward pass, not its inner
values. (Griewank and Walther, Evaluating Derivatives, 2nd ed., ch. 12.)
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from graphc.control.pytree import flatten, unflatten
from graphc.ir.graph.build import CONSTANT, as_strong_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Array, op
from graphc.ir.graph.replay import rebuilt, region_between
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType, is_inexact
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.padding import first_values
from graphc.transform.derivatives.autodiff import pull

_WAITS = ContextVar("recomputed parts wait for their cotangents", default=True)


@contextmanager
def without_waiting() -> Generator[None]:
    """Within: recomputed parts do not wait for their cotangents.

    Derivatives that are transposed once more must depend on their cotangents linearly,
    and in no other way, also within the bodies of loops.
    """
    token = _WAITS.set(False)
    try:
        yield
    finally:
        _WAITS.reset(token)


@op()
def _checkpointed(*values: Array, count: int) -> tuple[TensorType, ...]:
    """The first `count` values; the others are those that they are computed from."""
    return tuple(v.type for v in values[:count])


_checkpointed.rounding = "none"
_checkpointed.passes_on = True
_checkpointed.emit("{values}")


@_checkpointed.vjp
def _(
    g: Value | tuple[Value | None, ...], *values: Value, count: int
) -> tuple[Value | None, ...]:
    outputs, saved = values[:count], values[count:]
    cotangents = g if isinstance(g, tuple) else (g,)
    # Built on the same values, the nodes would be those of the forward pass.
    after = [c for c in cotangents if c is not None and _WAITS.get()]
    again = [F._barrier(v, *after) if is_inexact(v.dtype) else v for v in saved]
    new = dict(zip(saved, again, strict=True))
    recomputed = rebuilt(outputs, new)
    return (*[None] * count, *pull(recomputed, cotangents, again))


@_checkpointed.batch
def _(n: Size, batched: Batched, *values: Value, count: int) -> tuple[Value, ...]:
    spread_out = map(with_batch, [n] * len(values), batched, values)
    return _checkpointed.bind(tuple(spread_out), {"count": count}).outputs


_checkpointed.padding(first_values)


def checkpoint(function: Callable[..., object]) -> Callable[..., Any]:
    """Have the inner values of `function` computed again where a gradient needs them.

    This trades time for memory: only the arguments, and values from outside that
    `function` uses, are kept until the backward pass. The results are the same.
    """

    @wraps(function)
    def recomputed(*args: object, **named: object) -> object:
        arguments, form = flatten([args, named], leaf=as_strong_value)
        positional, keywords = unflatten(form, arguments)
        result = function(*positional, **keywords)
        outputs, like = flatten(result, leaf=as_strong_value)
        region = region_between(outputs, arguments)
        saved = (*dict.fromkeys(arguments), *_used_from_outside(region, arguments))
        node = _checkpointed.bind((*outputs, *saved), {"count": len(outputs)})
        return unflatten(like, list(node.outputs))

    return recomputed


def _used_from_outside(
    region: Sequence[Node], arguments: Sequence[Value]
) -> list[Value]:
    inside = set(region)
    outside = {
        v: None
        for node in region
        for v in node.inputs
        if v.node not in inside and v.node.primitive is not CONSTANT
    }
    return [v for v in outside if v not in set(arguments)]
