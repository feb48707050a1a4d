"""Picks: elements at some positions of an axis, of which each part has a few or none.

`z[arange(n), labels]` needs one element of each row of z. Where z is computed in tiles
of its columns, each tile supplies the elements that it has, and the carry the others.
"""

from graphc.errors import standing_at
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, product
from graphc.ops.indexing.counting_indices import gather_axes
from graphc.ops.indexing.parse import is_adjacent
from graphc.rewriting.loops.find.access import (
    index_picked_row,
    part_shape,
    picked_position,
    reapply,
)
from graphc.rewriting.loops.find.affine_reads import ALL, Stream, View
from graphc.rewriting.loops.find.axis_gathers import positions_from
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carry,
    PartsRead,
    ReductionStep,
    StreamReduction,
)
from graphc.rewriting.match.sizes import at_most


def is_pick(node: Node, axis: int) -> bool:
    """Whether a node picks at most one element for each position of other axes."""
    if node.primitive is not OP.gather or axis not in node.params["axes"]:
        return picked_position(node, axis) is not None
    x, out = node.inputs[0].type, node.outputs[0].type
    along = (gather_axes(node, a) for a in range(out.rank))
    if any(gathered is not None and gathered[0] == axis for gathered in along):
        return False
    return at_most(out.size, product(part_shape(x.shape, axis, None)))


def fold_of_pick(
    node: Node, view: View, stream: Stream, last: bool = False
) -> StreamReduction:
    """Return the fold that keeps picked elements; `last`: the slice comes last."""
    with standing_at(node.place.plain):
        position, type = picked_position(node, view.axis), node.outputs[0].type
        if position is None:
            step = _step_for_gather(node, view)
        else:
            step = _step_for_position(node, view, position, stream)
        start = F.zeros(type.shape, type.dtype)
    shared = [(x, ALL) for x in node.inputs[1:]]
    reduction = StreamReduction(
        [(node.inputs[0], view), *shared],
        lambda _: [start],
        _step_for_last(node, view) if last else step,
        lambda carry, _: carry[0],
        placed=not last,
    )
    return reduction.by_iterations(view, stream.length)


def _step_for_last(node: Node, view: View) -> ReductionStep:
    place = node.inputs[0], view
    return lambda carry, parts, _: [index_picked_row(node, view.axis, parts[place])]


def _step_for_position(
    node: Node, view: View, at: Size, stream: Stream
) -> ReductionStep:
    """Keep the slice at one position, taken from the tile that has it."""
    place, axis = (node.inputs[0], view), view.axis
    number = cast(as_value(size_value(at)), INT32)

    def step_for_slice(carry: Carry, parts: PartsRead, position: Value) -> Carry:
        row = index_picked_row(node, axis, parts[place])
        return [F.where(F.equal(position, number), row, carry[0])]

    def step_for_tile(carry: Carry, tiles: PartsRead, first: Value) -> Carry:
        offset = F.subtract(number, first)
        is_inside = _is_within(offset, tiles[place], axis)
        index = F.where(is_inside, offset, as_value(0))
        row = F._gather(tiles[place], index, axes=(axis,), inside=(True,))
        return [F.where(is_inside, index_picked_row(node, axis, row), carry[0])]

    return step_for_tile if stream.tiled else step_for_slice


def _step_for_gather(node: Node, view: View) -> ReductionStep:
    """Keep the picked elements that a tile has."""
    (x, *indices), axes = node.inputs, node.params["axes"]
    i, size = axes.index(view.axis), x.type.shape[view.axis]
    inside = (*node.params["inside"][:i], True, *node.params["inside"][i + 1 :])

    def step(carry: Carry, tiles: PartsRead, first: Value) -> Carry:
        tile, tile_indices = tiles[x, view], [tiles[index, ALL] for index in indices]
        at = (
            tile_indices[i]
            if node.params["inside"][i]
            else _clamp_index(tile_indices[i], size)
        )
        at = positions_from(at, size, first)
        is_inside = _is_within(at, tile, view.axis)
        tile_indices[i] = F.where(is_inside, at, 0)
        rows = reapply(node, [tile, *tile_indices], inside=inside)
        return [F.where(_align_with_result(node, is_inside), rows, carry[0])]

    return step


def _clamp_index(index: Value, size: Size) -> Value:
    """Clamp indices out of bounds to the nearest valid ones, as a gather does."""
    n = size_value(size)
    return F.clip(index, 0 if index.dtype.kind == "u" else -n, n - 1)


def _is_within(index: Value, tile: Value, axis: int) -> Value:
    """Return whether positions lie within a tile."""
    count = size_value(tile.type.shape[axis])
    return F.logical_and(index >= 0, index < count)


def _align_with_result(node: Node, condition: Value) -> Value:
    """Align a condition for each pick with the axes of the result."""
    axes, indices = node.params["axes"], node.inputs[1:]
    rank, points = condition.type.rank, max(i.type.rank for i in indices)
    before = axes[0] if is_adjacent(axes) else 0
    trailing = node.outputs[0].type.rank - points - before
    return F.expand_dims(condition, tuple(range(rank, rank + trailing)))
