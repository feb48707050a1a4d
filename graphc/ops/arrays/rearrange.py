"""Functions that rearrange arrays, composed of the primitives for shapes and joins."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike
from graphc.ir.graph.build import as_strong_value, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, views_of_inputs
from graphc.ir.integers import as_integer, integer_error, integer_or_none
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType
from graphc.ops.common.axes import at_axis, with_rank
from graphc.ops.common.batching import Batched, align_batches
from graphc.ops.common.broadcasting import broadcast, promoted_as_arrays, summed_to
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _broadcast_arrays(*arrays: Array) -> tuple[TensorType, ...]:
    """All arrays, stretched to their common shape."""
    shape = broadcast(*(a.type.shape for a in arrays))
    return tuple(a.type.like(shape) for a in arrays)


_broadcast_arrays.rounding = "none"
_broadcast_arrays.several = True
_broadcast_arrays.emit("{xp}.broadcast_arrays({arrays})")
_broadcast_arrays.sizes = lambda *arrays: np.broadcast_arrays(*arrays)[0]
_broadcast_arrays.views = views_of_inputs
_broadcast_arrays.stretches = True


@_broadcast_arrays.vjp
def _(g: tuple[Value | None, ...], *arrays: Value) -> tuple[Value | None, ...]:
    return tuple(
        None if part is None else summed_to(part, x.type.shape)
        for part, x in zip(g, arrays, strict=True)
    )


@_broadcast_arrays.batch
def _(n: Size, batched: Batched, *arrays: Value) -> tuple[Value, ...]:
    return _broadcast_arrays.bind(tuple(align_batches(batched, arrays)), {}).outputs


@_broadcast_arrays.padding
def _(pad: Padding, *arrays: PaddedValue) -> tuple[Value, ...]:
    return _broadcast_arrays.bind(tuple(x.value for x in arrays), {}).outputs


@public()
def broadcast_arrays(*arrays: ArrayLike) -> list[Value]:
    """All arrays stretched to their common shape, each with its own dtype."""
    values = [as_strong_value(a) for a in arrays]
    return list(_broadcast_arrays.bind(tuple(values), {}).outputs) if values else []


@public()
def atleast_1d(*arrays: ArrayLike) -> Any:
    """Arrays of rank 1 or more; one array alone is returned as it is."""
    results = [with_rank(as_strong_value(a), 1) for a in arrays]
    return results[0] if len(results) == 1 else results


@public()
def atleast_2d(*arrays: ArrayLike) -> Any:
    """Arrays of rank 2 or more: new axes come first."""
    results = [with_rank(as_strong_value(a), 2) for a in arrays]
    return results[0] if len(results) == 1 else results


@public()
def atleast_3d(*arrays: ArrayLike) -> Any:
    """Arrays of rank 3 or more: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    results = [_with_3_axes(as_strong_value(a)) for a in arrays]
    return results[0] if len(results) == 1 else results


def _with_3_axes(value: Value) -> Value:
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}.get(value.type.rank, ())
    return F.expand_dims(value, new)


@public()
def hstack(arrays: Sequence[ArrayLike]) -> Value:
    """The arrays side by side: joined along axis 1, or vectors along axis 0."""
    values = [with_rank(a, 1) for a in promoted_as_arrays(*arrays)]
    vectors = all(v.type.rank == 1 for v in values[:1])
    return F.concatenate(values, axis=0 if vectors else 1)


@public()
def vstack(arrays: Sequence[ArrayLike]) -> Value:
    """The arrays on top of each other: joined along axis 0, with vectors as rows."""
    values = [with_rank(a, 2) for a in promoted_as_arrays(*arrays)]
    return F.concatenate(values, axis=0)


@public()
def dstack(arrays: Sequence[ArrayLike]) -> Value:
    """The arrays behind each other: joined along axis 2."""
    return F.concatenate(list(map(_with_3_axes, promoted_as_arrays(*arrays))), axis=2)


@public()
def column_stack(arrays: Sequence[ArrayLike]) -> Value:
    """The arrays side by side, with vectors as columns."""
    return F.concatenate(list(map(_as_matrix, promoted_as_arrays(*arrays))), axis=1)


def _as_matrix(value: Value) -> Value:
    return F.reshape(value, (-1, 1)) if value.type.rank < 2 else value


@public()
def array_split(
    x: ArrayLike, indices_or_sections: ShapeLike, axis: int = 0
) -> list[Value]:
    """Pieces along `axis`, as `split`, but sizes may differ by one."""
    parts = integer_or_none(indices_or_sections)
    if parts is None:
        return F.split(x, indices_or_sections, axis)
    value = as_strong_value(x)
    if parts < 1:
        raise graph_error(f"cannot split into {parts} parts", op="array_split")
    n = value.shape[normal_axis(axis, value.type.rank, "array_split")]
    each, longer = n // parts, n % parts
    cuts = [each * i + F.minimum(longer, i) for i in range(1, parts)]
    return F.split(value, cuts, axis)


def _split_along(name: str, axis: int) -> None:
    least = 1 if name == "hsplit" else axis + 1 + (name == "vsplit")

    @public(name=name, doc=f"`split` along axis {axis}, as `numpy.{name}`.")
    def function(x: ArrayLike, indices_or_sections: ShapeLike) -> list[Value]:
        value = as_strong_value(x)
        if value.type.rank < least:
            problem = f"needs at least {least} axes"
            raise graph_error(problem, op=name, got=str(value.type))
        along = 0 if name == "hsplit" and value.type.rank == 1 else axis
        return F.split(value, indices_or_sections, along)


_split_along("hsplit", 1)
_split_along("vsplit", 0)
_split_along("dsplit", 2)


@public()
def unstack(x: ArrayLike, /, axis: int = 0) -> tuple[Value, ...]:
    """The slices along an axis of static size."""
    value = as_strong_value(x)
    at = normal_axis(axis, value.type.rank, "unstack")
    n = value.type.shape[at]
    if not isinstance(n, int):
        hint = "index the slices that are needed"
        problem = f"the number of slices, {n}, is not static"
        raise graph_error(problem, op="unstack", got=str(value.type), hint=hint)
    return tuple(value[at_axis(at, i)] for i in range(n))


@public()
def rot90(x: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Value:
    """The array rotated by `k` quarter turns from the first axis towards the second."""
    value = as_strong_value(x)
    a, b = (normal_axis(i, value.type.rank, "rot90") for i in axes)
    if a == b:
        raise graph_error("needs two different axes", op="rot90", got=f"{axes}")
    if isinstance(k, Value):
        problem = "the number of turns must be an integer"
        raise integer_error(k, problem, "rot90", str(k.type))
    turns = k % 4
    if turns == 2:
        return F.flip(value, (a, b))
    if turns == 1:
        return F.swapaxes(F.flip(value, b), a, b)
    return F.flip(F.swapaxes(value, a, b), b) if turns else value


@public()
def flipud(x: ArrayLike) -> Value:
    """The array with its rows in reverse order."""
    return F.flip(x, 0)


@public()
def fliplr(x: ArrayLike) -> Value:
    """The array with its columns in reverse order."""
    return F.flip(x, 1)


@public()
def block(arrays: ArrayLike) -> Value:
    """An array built from nested lists of blocks, innermost along the last axis."""
    depth = _depth(arrays)
    blocks = iter(promoted_as_arrays(*_leaves(arrays)))
    return _block(arrays, depth, max(depth, _deepest(arrays)), blocks)


def _depth(item: ArrayLike) -> int:
    """The depth of nested lists; raises GraphError where depths differ."""
    if isinstance(item, tuple):
        raise graph_error("blocks are nested in lists, not tuples", op="block")
    if not isinstance(item, list):
        return 0
    depths = {_depth(part) for part in item}
    if len(depths) != 1:
        problem = "lists differ in depth" if depths else "a list is empty"
        raise graph_error(problem, op="block")
    return depths.pop() + 1


def _deepest(item: ArrayLike) -> int:
    return (
        max(map(_deepest, item))
        if isinstance(item, list)
        else as_strong_value(item).ndim
    )


def _leaves(item: ArrayLike) -> list[ArrayLike]:
    """The blocks in nested lists, in order."""
    if not isinstance(item, list):
        return [item]
    return [leaf for part in item for leaf in _leaves(part)]


def _block(item: ArrayLike, depth: int, rank: int, blocks: Iterator[Value]) -> Value:
    """Join the next `blocks`, nested as `item` is."""
    if not isinstance(item, list):
        return with_rank(next(blocks), rank)
    parts = [_block(i, depth - 1, rank, blocks) for i in item]
    return F.concatenate(parts, axis=-depth)


@public(method=True)
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The diagonal of two axes, as a new last axis."""
    offset = as_integer(offset, "the offset must be an integer", "diagonal")
    value = F.moveaxis(as_strong_value(x), (axis1, axis2), (-2, -1))
    rows, columns = value.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    length = F.maximum(F.minimum(rows - down, columns - right), 0)
    i = F.arange(length, dtype="int32")
    last = (value.ndim - 2, value.ndim - 1)
    return F._gather(value, i + down, i + right, axes=last, inside=(True, True))


@public()
def diag(x: ArrayLike, k: int = 0) -> Value:
    """A vector as the diagonal `k` of a matrix, or the diagonal of a matrix."""
    k = as_integer(k, "the diagonal must be an integer", "diag")
    value = as_strong_value(x)
    if value.type.rank == 2:
        return diagonal(value, k)
    if value.type.rank != 1:
        raise graph_error("needs a vector or a matrix", op="diag", got=str(value.type))
    n = value.shape[0] + abs(k)
    i = F.arange(value.shape[0])
    zero = F.zeros((n, n), value.dtype)
    return zero.at[i + max(-k, 0), i + max(k, 0)].set(value)


@public()
def diagflat(x: ArrayLike, k: int = 0) -> Value:
    """The flattened array as the diagonal `k` of a matrix."""
    return diag(F.ravel(x), k)
