"""Elements picked from each slice, `x[arange(n), labels]`, and written back into it.

One of the index arrays counts the slices, so each slice picks from itself only.
"""

from collections.abc import Sequence
from typing import Any

from graphc.ir.graph.build import cast, size_value
from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import INT64, product, same_size
from graphc.rewriting.loops.find.access import Tile, resized, same_op
from graphc.rewriting.match.sizes import at_most, is_one


def of_gathered(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose slices make the slices along `axis` of a gather."""
    x, *indices = node.inputs
    axes, behind = node.params["axes"], _behind(node, axis)
    if not 0 < behind <= _points(indices):
        return None
    counting = _counting(x, indices, axes, behind)
    if counting is None:
        return None
    along = [_along(i, behind) for i in indices]
    along[counting] = None
    return [axes[counting], *along]


def _points(indices: Sequence[Value]) -> int:
    """The rank that the index arrays have once they are broadcast."""
    return max(i.type.rank for i in indices)


def _behind(node: Node, axis: int) -> int:
    """The distance of an axis of the result from the end of the index arrays' axes."""
    first, *_ = axes = node.params["axes"]
    adjacent = list(axes) == list(range(first, first + len(axes)))
    return _points(node.inputs[1:]) - axis + (first if adjacent else 0)


def part_of_gathered(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    """Gather from one slice, or from a tile."""
    axes = of_gathered(node, axis)
    assert axes is not None and axes[0] is not None
    if tile is not None:
        return _counted(node, 1, axes[0], parts, tile.size)
    own_rows = _own_rows(node.inputs[1:], parts[1:], _behind(node, axis))
    return _without(node, axes[0], [parts[0], *own_rows], 1)


def _counted(
    node: Node, before: int, axis: int, tiles: Sequence[Value], count: Size
) -> Value:
    """Apply the op with an index array that counts the positions of the tile."""
    at = before + node.params["axes"].index(axis)
    numbers = F.arange(size_value(count), dtype=tiles[at].dtype)
    mine = _counter(tiles[at], numbers)
    return same_op(node, [*tiles[:at], mine, *tiles[at + 1 :]])


def _own_rows(
    values: Sequence[Value], rows: Sequence[Value], behind: int
) -> list[Value]:
    """Slices, with the axis of size 1 dropped from values that have one for all."""
    slices = []
    for value, row in zip(values, rows, strict=True):
        at = value.type.rank - behind
        whole = row.type.rank == value.type.rank and at >= 0
        thin = whole and is_one(value.type.shape[at])
        slices.append(F.squeeze(row, at) if thin else row)
    return slices


def of_scattered(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose slices make the slices of the result of a scatter."""
    _, update, *indices = node.inputs
    first, *_ = axes = node.params["axes"]
    if list(axes) != list(range(first, first + len(axes))) or axis not in axes:
        return None
    behind = _behind_counting(node, axis)
    if behind is None:
        return None
    along = [_along(i, behind) for i in indices]
    along[axes.index(axis)] = None
    return [axis, _along(update, behind + _after(node)), *along]


def tiles_of_scattered(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose tiles make the tiles of the result of a scatter.

    Along an indexed axis, updates are written to the tile that has their position.
    """
    if is_placed(node, axis):
        return [axis, *[None] * (len(node.inputs) - 1)]
    return of_scattered(node, axis)


def is_placed(node: Node, axis: int) -> bool:
    """Whether a scatter writes once for each position of the other indexed axes."""
    axes = node.params["axes"]
    if axis not in axes or of_scattered(node, axis) is not None:
        return False
    others = all(_behind_counting(node, a) is not None for a in axes if a != axis)
    x, update = node.inputs[0].type, node.inputs[1].type
    return others and at_most(update.size, product(resized(x.shape, axis, None)))


def _written(node: Node, axis: int, parts: Sequence[Value], tile: Tile) -> Value:
    """Scatter into a tile; updates of other tiles are out of bounds."""
    assert tile.first is not None
    i = node.params["axes"].index(axis)
    count = size_value(tile.size)
    index = normal(parts[2 + i], node.inputs[0].type.shape[axis], tile.first)
    held = F.logical_and(index >= 0, index < count)
    inside_index = F.where(held, index, count)
    inside = (*node.params["inside"][:i], False, *node.params["inside"][i + 1 :])
    inputs = [*parts[: 2 + i], inside_index, *parts[3 + i :]]
    return same_op(node, inputs, inside=inside)


def normal(index: Value, size: Size, first: Value) -> Value:
    """Indices of an axis of `size` as those of a tile, from its first position on."""
    wide = cast(index, INT64)
    positive = F.where(wide < 0, wide + size_value(size), wide)
    return F.subtract(positive, cast(first, INT64))


def _behind_counting(node: Node, axis: int) -> int | None:
    """How far from the end the axis is along which an index array counts slices.

    None if no index array counts them.
    """
    x, _, *indices = node.inputs
    axes = node.params["axes"]
    for behind in range(_points(indices), 0, -1):
        counting = _counting(x, indices, axes, behind)
        if counting is not None and axes[counting] == axis:
            return behind
    return None


def _after(node: Node) -> int:
    """The number of axes after the indexed axes, which are adjacent."""
    return int(node.inputs[0].type.rank - 1 - node.params["axes"][-1])


def part_of_scattered(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    """Scatter into one slice, or into a tile."""
    if tile is not None and is_placed(node, axis):
        return _written(node, axis, parts, tile)
    if tile is not None:
        return _counted(node, 2, axis, parts, tile.size)
    _, update, *indices = node.inputs
    behind = _behind_counting(node, axis)
    assert behind is not None
    own_rows = _own_rows([update], parts[1:2], behind + _after(node))
    own_rows += _own_rows(indices, parts[2:], behind)
    return _without(node, axis, [parts[0], *own_rows], 2)


def _along(index: Value, behind: int) -> int | None:
    """The axis of an index array that is `behind` from the end once broadcast."""
    at = index.type.rank - behind
    return None if at < 0 or is_one(index.type.shape[at]) else at


def _counting(
    x: Value, indices: Sequence[Value], axes: Sequence[int], behind: int
) -> int | None:
    """The number of the index array that counts along the axis `behind` the end."""
    for i, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        at = _along(index, behind)
        if at is not None and counts(index, at, x.type.shape[axis]):
            return i
    return None


def counts(index: Value, axis: int, size: Size) -> bool:
    """Whether an array is 0, 1, 2 ... along an axis, up to a size."""
    if axis < 0:
        return False
    node = index.node
    while node.primitive in (OP.expand_dims, OP.maximum, OP.minimum):
        if node.primitive is OP.expand_dims:
            axes = node.params["axes"]
            if axis in axes:
                return False
            axis -= sum(a < axis for a in axes)
        elif not _clips(node, size):
            return False
        node = node.inputs[0].node
    params = node.params
    if node.primitive is not OP.iota or not same_size(params["start"], 0):
        return False
    whole = same_size(params["length"], size)
    return same_size(params["step"], 1) and whole


def _clips(node: Node, size: Size) -> bool:
    """Whether a node only clips indices to the range of their axis."""
    sizes = known_sizes(plain(node.inputs[1]))
    if sizes is None or sizes.ndim:
        return False
    bound: Any = sizes[()]
    if node.primitive is OP.maximum:
        return less_equal(bound, 0) is True
    return equal(bound, size - 1) is True


def _counter(index: Value, numbers: Value) -> Value:
    """Other numbers along the axis that an index array counts, with its rank."""
    node, at = index.node, 0
    shapes = []
    while node.primitive is not OP.iota:
        if node.primitive is OP.expand_dims:
            shapes.append((node.outputs[0].type.rank, node.params["axes"]))
        node = node.inputs[0].node
    for rank, added in reversed(shapes):
        at = [a for a in range(rank) if a not in added][at]
    others = tuple(a for a in range(index.type.rank) if a != at)
    counter: Value = F.expand_dims(numbers, others) if others else numbers
    return counter


def plain(value: Value) -> Value:
    """The value before any conversions of dtype."""
    while value.node.primitive is OP.convert:
        value = value.node.inputs[0]
    return value


def _without(node: Node, axis: int, rows: Sequence[Value], before: int) -> Value:
    """Apply the op to slices, without the index array that counts them."""
    axes, inside = node.params["axes"], node.params["inside"]
    i = axes.index(axis)
    left = tuple(a - (a > axis) for a in axes if a != axis)
    others_inside = inside[:i] + inside[i + 1 :]
    inputs = [*rows[: before + i], *rows[before + i + 1 :]]
    if left:
        return same_op(node, inputs, axes=left, inside=others_inside)
    if before == 1:
        return rows[0]
    result: Value = F.add(*rows[:2]) if node.params["how"] == "add" else rows[1]
    return result
