"""Predicated writes: writes under a condition, expressed as writes that always happen.

`where(c, x.at[i].set(v), x)` makes a new array of the size of `x` in every step of a
loop. `x.at[i].set(where(c, v, x[i]))` gives the same result, and is done in place.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import rebuild_with, region_between
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import less_equal
from graphc.ir.types import is_inexact, same_shape
from graphc.ops.indexing.basic import BASIC_INDEX
from graphc.ops.indexing.gather import GATHER
from graphc.ops.indexing.parse import first_of_points
from graphc.ops.indexing.scatter import SCATTER, SLICE_UPDATE

WRITES = (SCATTER, SLICE_UPDATE)


def read_where_written(
    write: Node, x: Value, indices: Sequence[Value] | None = None
) -> Value:
    """The elements of `x` that a write overwrites, here or at other indices."""
    params = {k: p for k, p in write.params.items() if k != "how"}
    if write.primitive is SLICE_UPDATE:
        return cast(Value, BASIC_INDEX(x, **params))
    places = write.inputs[2:] if indices is None else indices
    return cast(Value, GATHER(x, *places, **params))


def apply_write(
    write: Node, x: Value, v: Value, indices: Sequence[Value] | None = None
) -> Value:
    """Apply a write to another array and another update, or at other indices."""
    places = write.inputs[2:] if indices is None else indices
    return cast(Value, write.primitive(x, v, *places, **write.params))


def write_if_any(write: Node, x: Value, v: Value, indices: Sequence[Value]) -> Value:
    """Like `apply_write`, but also for an array without elements to write to.

    JAX refuses a single index into an axis without elements, but accepts an array of
    such indices.
    """
    if write.primitive is not SCATTER or any(i.type.rank for i in indices):
        return apply_write(write, x, v, indices)
    axes = write.params["axes"]
    if all(less_equal(1, x.type.shape[a]) for a in axes):
        return apply_write(write, x, v, indices)
    v = F.broadcast_to(v, read_where_written(write, x, indices).type.shape)
    v = F.expand_dims(v, first_of_points(axes))
    return apply_write(write, x, v, [F.expand_dims(i, 0) for i in indices])


def idle_update(
    write: Node, x: Value, indices: Sequence[Value] | None = None
) -> Value | None:
    """The update with which a write leaves `x` unchanged; None if there is none."""
    v, how = write.inputs[1], write.params["how"]
    if how == "add":  # -0.0 changes no float, 0.0 changes -0.0
        zero = np.zeros((), v.dtype)
        return constant(np.negative(zero) if is_inexact(v.dtype) else zero)
    if how == "multiply":  # a complex 1 times an infinity has NaN
        return None if v.dtype.kind == "c" else constant(np.ones((), v.dtype))
    return read_where_written(write, x, indices)


def writes_between(value: Value, start: Value) -> list[Node] | None:
    """The writes and reshapes between `start` and a value, in order.

    None if there are other ops between the two.
    """
    writes = []
    while value is not start:
        node = value.node
        if node.primitive not in WRITES and node.primitive is not OP.reshape:
            return None
        writes.append(node)
        value = node.inputs[0]
    return writes[::-1]


def masked_writes(outputs: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
    """Replace choices between arrays with and without writes by predicated writes."""
    replacements: dict[Value, Value] = {}
    for old in region_between(outputs, inputs):
        node = rebuild_with(old, replacements, old.place.plain)
        if node.primitive is OP.where:
            replacement = next(_equal_writes(node), None)
            if replacement is not None:
                replacements[old.outputs[0]] = replacement
    return [replacements.get(v, v) for v in outputs]


def _equal_writes(node: Node) -> Iterator[Value]:
    """Yield values equal to a `where` that predicated writes compute."""
    condition, new, old = node.inputs
    for mask, x, y in ((condition, new, old), (F.logical_not(condition), old, new)):
        writes = writes_between(x, y)
        if writes and same_shape(x.type.shape, node.outputs[0].type.shape):
            replacement = _apply_where(writes, mask, y)
            if replacement is not None:
                yield replacement


def _apply_where(writes: list[Node], mask: Value, x: Value) -> Value | None:
    for node in writes:
        if node.primitive is OP.reshape:
            shape = node.outputs[0].type.shape
            if mask.type.rank:
                mask = F.reshape(F.broadcast_to(mask, x.type.shape), shape)
            x = F.reshape(x, shape)
            continue
        idle = idle_update(node, x)
        if idle is None:
            return None
        holds = mask
        if mask.type.rank:
            holds = read_where_written(node, F.broadcast_to(mask, x.type.shape))
        x = apply_write(node, x, F.where(holds, node.inputs[1], idle))
    return x
