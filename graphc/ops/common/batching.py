"""Batching rules that op families share: they apply an op along a new first axis."""

from collections.abc import Sequence
from typing import Any

from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size

Batched = Sequence[bool]


def with_batch(n: Size, batched: bool, x: Value) -> Value:
    """Return `x` with the batch axis first, repeated along it unless `batched`."""
    return x if batched else F.broadcast_to(x, (n, *x.type.shape))


def align_batches(batched: Batched, values: Sequence[Value]) -> list[Value]:
    """Insert axes of size 1 after the batch axis, so that batched values broadcast."""
    ranks = [v.type.rank - b for v, b in zip(values, batched, strict=True)]
    most = max(ranks)
    return [
        F.expand_dims(v, tuple(range(1, 1 + most - r))) if b and r < most else v
        for v, b, r in zip(values, batched, ranks, strict=True)
    ]


def where_each(mask: Value, new: Value, old: Value) -> Value:
    """For each example, `new` where its `mask` holds, else `old`."""
    elements: Value = F.where(*align_batches((True,) * 3, (mask, new, old)))
    return elements


def shifted(param: Any) -> Any:
    """Add one to an axis, or to each of a tuple, for the batch axis before it."""
    if isinstance(param, tuple):
        return tuple(map(shifted, param))
    return param + 1


def batch_with_axes(primitive: Primitive, *names: str) -> None:
    """Define the batching rule of a one-input op whose params `names` hold axes."""

    @primitive.batch
    def _(n: Size, batched: Batched, x: Value, **params: Param) -> Value:
        moved = {name: shifted(params[name]) for name in names}
        return primitive(x, **(params | moved))


def batch_last_axes(primitive: Primitive) -> None:
    """Define the batching rule of an op on the last axes, applied at each index before.

    All inputs must have the same leading axes, or none at all if not batched.
    """

    @primitive.batch
    def _(n: Size, batched: Batched, *inputs: Value, **params: Param) -> Value:
        spread_out = map(with_batch, [n] * len(inputs), batched, inputs)
        return primitive(*spread_out, **params)
