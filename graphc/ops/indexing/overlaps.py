"""Writes of elements that are read at other places of the same array, in JAX's texts.

On CPUs, XLA (of JAX 0.10 to 0.12) may write such a part into the memory of the array
while it still reads from there: in `y.at[1:].set(y[:-1])[None]`, where y is computed,
all rows become the first (openxla/xla, issue 49176). Such updates are printed as the
parts of the array joined, none of which is overwritten; in stencils that is no slower.
A row whose number is data is written together with another that lies beyond the array.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import JaxArray
from graphc.ops.indexing.basic import items_of
from graphc.ops.indexing.parse import (
    FULL_ITEM,
    BasicItem,
    SliceBound,
    forward_range,
    without_offset,
)

_STEPS = 256  # at most so many nodes are followed back from an update
_READS = OP.basic_index, OP.gather
_RELAID = OP.reshape, OP.expand_dims, OP.squeeze  # XLA does nothing for these
_Bounds = tuple[Size, Size]
_Row = dict[int, Any]


def reads_other_places(write: Node) -> bool:
    """Whether a write takes elements that it overwrites from other places.

    Only writes to a slice or to a single row count, and an element that is computed
    from itself alone does not. If it takes long to find out, the answer is True.
    """
    if not _is_in_one_piece(write):
        return False
    x, update = write.inputs[:2]
    stored = _memory_owner(x)
    if stored.node.primitive is OP.full:  # its elements are the same at all places
        return False
    arrays, first = {x, stored}, stored.node.serial
    stack = [(update, True)]  # with whether elements are at their places so far
    seen = set(stack)
    while stack:
        value, in_place = stack.pop()
        node = value.node
        if value in arrays or len(seen) > _STEPS:
            return True
        if node.serial < first:  # it is older than the array
            continue
        operands = _operands(node)
        if node.primitive in _READS and node.inputs[0] is x:
            if not _is_harmless(node, write, in_place):
                return True
            operands = operands[1:]
        for operand, in_its_place in operands:
            step = operand, in_place and in_its_place
            if step not in seen:
                seen.add(step)
                stack.append(step)
    return False


def _is_in_one_piece(write: Node) -> bool:
    """Whether a write is to one block: neither to all, nor an element, nor places."""
    row, x = _row(write), write.inputs[0]
    if row is not None:
        return 0 < len(row) < x.type.rank
    if write.primitive is not OP.slice_update:
        return False
    steps = write.params["steps"]
    return all(step is None or equal(step, 1) is True for step in steps)


def _memory_owner(x: Value) -> Value:
    """The array whose memory `x` shares, before reshapes that move nothing."""
    while x.node.primitive in _RELAID:
        x = x.node.inputs[0]
    return x


def _operands(node: Node) -> list[tuple[Value, bool]]:
    """The operands of a node, and whether their elements stay at their places."""
    if node.primitive is OP.slice_update:
        x, update = node.inputs
        return [(x, True), (update, not _items(node))]  # without items, to all of x
    stay = bool(node.primitive.elementwise)
    return [(operand, stay) for operand in node.inputs]


def _is_harmless(read: Node, write: Node, in_place: bool) -> bool:
    """Whether a part that is read is at its place in the write, or is not written."""
    if _are_harmless_rows(_row(read), _row(write), in_place):
        return True
    if OP.gather is read.primitive or OP.scatter is write.primitive:
        return False
    if in_place and _is_same(read, write):
        return True
    pairs = zip(_bounds(read), _bounds(write), strict=True)
    return any(
        less_equal(a_stop, b_start) is True or less_equal(b_stop, a_start) is True
        for (a_start, a_stop), (b_start, b_stop) in pairs
    )


def _are_harmless_rows(read: _Row | None, write: _Row | None, in_place: bool) -> bool:
    """Do the test of `_is_harmless` for rows; those along the same axes fit."""
    if read is None or write is None or read.keys() != write.keys():
        return False
    return in_place or any(_are_apart(read[axis], write[axis]) for axis in read)


def _row(node: Node) -> _Row | None:
    """The numbers of the row read or written, by axis; None for other parts."""
    if node.primitive is OP.gather or node.primitive is OP.scatter:
        axes = node.params["axes"]
        numbers = node.inputs[-len(axes) :]
        is_one = all(number.type.rank == 0 for number in numbers)
        return dict(zip(axes, numbers, strict=True)) if is_one else None
    items = _items(node)
    if any(item != FULL_ITEM and item[0] != "i" for item in items):
        return None
    return {i: start for i, (kind, start, *_) in enumerate(items) if kind == "i"}


def _are_apart(a: ArrayLike, b: ArrayLike) -> bool:
    """Whether the numbers of two rows differ by a constant."""
    (of_a, more_a), (of_b, more_b) = without_offset(a), without_offset(b)
    return of_a is not None and of_a is of_b and equal(more_a, more_b) is False


def _is_same(a: Node, b: Node) -> bool:
    """Whether two slices of arrays of one shape have the same items."""
    ours, theirs = _items(a), _items(b)
    return len(ours) == len(theirs) and all(
        k == other_k and all(map(_are_equal, bounds, other_bounds))
        for (k, *bounds), (other_k, *other_bounds) in zip(ours, theirs, strict=True)
    )


def _items(node: Node) -> list[BasicItem]:
    """The items of a slice, without whole axes at its end."""
    items = items_of(node)
    while items and items[-1] == FULL_ITEM:
        items.pop()
    return items


def _are_equal(a: SliceBound, b: SliceBound) -> bool:
    return a is b or (a is not None and b is not None and equal(a, b) is True)


def _bounds(node: Node) -> list[_Bounds]:
    """The range that a slice lies in along each axis of the array."""
    sizes = iter(node.inputs[0].type.shape)
    bounds = [
        _item_bounds(kind, start, stop, step, next(sizes))
        for kind, start, stop, step in _items(node)
        if kind != "n"
    ]
    return bounds + [(0, size) for size in sizes]


def _item_bounds(
    kind: str, start: SliceBound, stop: SliceBound, step: SliceBound, size: Size
) -> _Bounds:
    if kind == "s" and (step is None or less_equal(1, step) is True):
        return forward_range(start, stop, size)
    if kind == "i" and start is not None:
        if less_equal(0, start) is True:
            return start, start + 1
        if less_equal(start, -1) is True:
            return size + start, size + start + 1
    return 0, size


def updated_jax(jnp: ModuleType, part: JaxArray, v: JaxArray, how: str) -> JaxArray:
    """Printed into JAX programs: a part of an array, all of it updated by `v`."""
    names = {"min": "minimum", "max": "maximum", "add": "add", "multiply": "multiply"}
    new = v if how == "set" else getattr(jnp, names[how])(part, v)
    return jnp.broadcast_to(new, part.shape).astype(part.dtype)


def joined_jax(
    jnp: ModuleType, x: JaxArray, v: JaxArray, items: object, how: str
) -> JaxArray:
    """Printed into JAX programs: `x` updated by joining parts; `v` is read from it."""
    new = updated_jax(jnp, x[items], v, how)
    listed = items if type(items) is tuple else (items,)
    axes = [item for item in listed if item is not None and item is not ...]
    axes += [slice(None)] * (x.ndim - len(axes))
    ranges = []
    for item, size in zip(axes, x.shape, strict=True):
        if type(item) is not slice:
            start = item % size
            item = slice(start, start + 1)
        start, stop, _ = item.indices(size)
        ranges.append((start, max(start, stop)))
    new = new.reshape([stop - start for start, stop in ranges])
    for axis in reversed(range(x.ndim)):
        start, stop = ranges[axis]
        within = x[tuple(slice(*bounds) for bounds in ranges[:axis])]
        before = within[(slice(None),) * axis + (slice(None, start),)]
        after = within[(slice(None),) * axis + (slice(stop, None),)]
        parts = [part for part in (before, new, after) if part.shape[axis]]
        new = jnp.concatenate(parts or [new], axis)
    return new


def row_apart_jax(
    jnp: ModuleType,
    x: JaxArray,
    v: JaxArray,
    indices: Sequence[object],
    axes: Sequence[int],
    at: int,
    how: str,
) -> JaxArray:
    """Printed into JAX programs: a row of `x` updated, where `v` is computed from `x`.

    XLA writes two rows one after the other, from a copy; the second is out of bounds
    and dropped. `at` is the axis of the two rows in the update that JAX takes.
    """
    items: list[Any] = [slice(None)] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        items[axis] = index
    first, beyond = (jnp.asarray(i, int) for i in (indices[0], x.shape[axes[0]]))
    items[axes[0]] = jnp.stack([first, beyond])
    shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    rows = jnp.expand_dims(jnp.broadcast_to(v, shape), at)
    return getattr(x.at[tuple(items)], how)(rows, mode="drop")
