"""Elements picked from each slice, `x[arange(n), labels]`, and written back into it.

One of the index arrays counts the slices, so each slice picks from itself only.
"""

from collections.abc import Sequence

from graphc.ir.graph.build import cast, size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import INT64, product
from graphc.ops.indexing.counting_indices import (
    axes_after,
    counting_distance,
    end_distance,
    gather_axes,
    scatter_axes,
    with_numbers,
)
from graphc.rewriting.loops.find.access import Tile, part_shape, reapply, without_axis
from graphc.rewriting.match.sizes import at_most


def gather_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    """Gather from one slice, or from a tile."""
    axes = gather_axes(node, axis)
    assert axes is not None and axes[0] is not None
    if tile is not None:
        return _apply_to_tiles(node, 1, axes[0], parts, tile.size)
    indices = _without_shared_axis(node.inputs[1:], parts[1:], end_distance(node, axis))
    return _apply_to_slices(node, axes[0], [parts[0], *indices], 1)


def _apply_to_tiles(
    node: Node, before: int, axis: int, tiles: Sequence[Value], count: Size
) -> Value:
    """Apply the op with an index array that counts the positions of the tile."""
    at = before + node.params["axes"].index(axis)
    numbers = F.arange(size_value(count), dtype=tiles[at].dtype)
    tile_numbers = with_numbers(tiles[at], numbers)
    return reapply(node, [*tiles[:at], tile_numbers, *tiles[at + 1 :]])


def _without_shared_axis(
    values: Sequence[Value], rows: Sequence[Value], axes_behind: int
) -> list[Value]:
    """Return the slices, dropping the axis of size 1 from values that all share."""
    slices = []
    for value, row in zip(values, rows, strict=True):
        at = value.type.rank - axes_behind
        whole = row.type.rank == value.type.rank and at >= 0
        thin = whole and is_one(value.type.shape[at])
        slices.append(F.squeeze(row, at) if thin else row)
    return slices


def scatter_tile_axes(node: Node, axis: int) -> list[int | None] | None:
    """Return, per input, the axis whose tiles make the tiles of a scatter's result.

    Along an indexed axis, updates are written to the tile that has their position.
    """
    if is_placed_scatter(node, axis):
        return [axis, *[None] * (len(node.inputs) - 1)]
    return scatter_axes(node, axis)


def is_placed_scatter(node: Node, axis: int) -> bool:
    """Whether a scatter writes once for each position of the other indexed axes."""
    axes = node.params["axes"]
    if axis not in axes or scatter_axes(node, axis) is not None:
        return False
    others = all(counting_distance(node, a) is not None for a in axes if a != axis)
    x, update = node.inputs[0].type, node.inputs[1].type
    return others and at_most(update.size, product(part_shape(x.shape, axis, None)))


def _scatter_into_tile(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile
) -> Value:
    """Scatter into a tile; updates of other tiles are out of bounds."""
    assert tile.first is not None
    i = node.params["axes"].index(axis)
    count = size_value(tile.size)
    index = positions_from(parts[2 + i], node.inputs[0].type.shape[axis], tile.first)
    is_inside = F.logical_and(index >= 0, index < count)
    inside_index = F.where(is_inside, index, count)
    inside = (*node.params["inside"][:i], False, *node.params["inside"][i + 1 :])
    inputs = [*parts[: 2 + i], inside_index, *parts[3 + i :]]
    return reapply(node, inputs, inside=inside)


def positions_from(index: Value, size: Size, first: Value) -> Value:
    """Convert indices into an axis of `size` to positions counted from `first`."""
    wide = cast(index, INT64)
    positive = F.where(wide < 0, wide + size_value(size), wide)
    return F.subtract(positive, cast(first, INT64))


def scatter_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    """Scatter into one slice, or into a tile."""
    if tile is not None and is_placed_scatter(node, axis):
        return _scatter_into_tile(node, axis, parts, tile)
    if tile is not None:
        return _apply_to_tiles(node, 2, axis, parts, tile.size)
    _, update, *indices = node.inputs
    axes_behind = counting_distance(node, axis)
    assert axes_behind is not None
    slices = _without_shared_axis([update], parts[1:2], axes_behind + axes_after(node))
    slices += _without_shared_axis(indices, parts[2:], axes_behind)
    return _apply_to_slices(node, axis, [parts[0], *slices], 2)


def _apply_to_slices(
    node: Node, axis: int, rows: Sequence[Value], before: int
) -> Value:
    """Apply the op to slices, without the index array that counts them."""
    axes, inside = node.params["axes"], node.params["inside"]
    i = axes.index(axis)
    other_axes = without_axis(axes, axis)
    others_inside = inside[:i] + inside[i + 1 :]
    inputs = [*rows[: before + i], *rows[before + i + 1 :]]
    if other_axes:
        return reapply(node, inputs, axes=other_axes, inside=others_inside)
    if before == 1:
        return rows[0]
    return F.add(*rows[:2]) if node.params["how"] == "add" else rows[1]
