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
from graphc.ops.indexing.counted import gather_axes
from graphc.ops.indexing.parse import is_adjacent
from graphc.rewriting.loops.find.access import picked, resized, row_of_picked, same_op
from graphc.rewriting.loops.find.affine_reads import ALL, Stream, View
from graphc.rewriting.loops.find.axis_gathers import normal
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carry,
    PartsRead,
    ReductionStep,
    StreamReduction,
)
from graphc.rewriting.match.sizes import at_most


def picks(node: Node, axis: int) -> bool:
    """Whether a node picks at most one element for each position of other axes."""
    if node.primitive is not OP.gather or axis not in node.params["axes"]:
        return picked(node, axis) is not None
    x, out = node.inputs[0].type, node.outputs[0].type
    along = (gather_axes(node, a) for a in range(out.rank))
    if any(gathered is not None and gathered[0] == axis for gathered in along):
        return False
    return at_most(out.size, product(resized(x.shape, axis, None)))


def picking(
    node: Node, view: View, stream: Stream, last: bool = False
) -> StreamReduction:
    """Return the fold that keeps picked elements; `last`: the slice comes last."""
    with standing_at(node.place.plain):
        at, type = picked(node, view.axis), node.outputs[0].type
        step = _of_gathered(node, view) if at is None else _at(node, view, at, stream)
        start = F.zeros(type.shape, type.dtype)
    shared = [(x, ALL) for x in node.inputs[1:]]
    reduction = StreamReduction(
        [(node.inputs[0], view), *shared],
        lambda _: [start],
        _latest(node, view) if last else step,
        lambda carry, _: carry[0],
        placed=not last,
    )
    return reduction.seen(view, stream.length)


def _latest(node: Node, view: View) -> ReductionStep:
    place = node.inputs[0], view
    return lambda carry, parts, _: [row_of_picked(node, view.axis, parts[place])]


def _at(node: Node, view: View, at: Size, stream: Stream) -> ReductionStep:
    """Keep the slice at one position, taken from the tile that has it."""
    place, axis = (node.inputs[0], view), view.axis
    number = cast(as_value(size_value(at)), INT32)

    def of_slice(carry: Carry, parts: PartsRead, position: Value) -> Carry:
        row = row_of_picked(node, axis, parts[place])
        return [F.where(F.equal(position, number), row, carry[0])]

    def of_tile(carry: Carry, tiles: PartsRead, first: Value) -> Carry:
        offset = F.subtract(number, first)
        held = _is_within(offset, tiles[place], axis)
        index = F.where(held, offset, as_value(0))
        row = F._gather(tiles[place], index, axes=(axis,), inside=(True,))
        return [F.where(held, row_of_picked(node, axis, row), carry[0])]

    return of_tile if stream.tiled else of_slice


def _of_gathered(node: Node, view: View) -> ReductionStep:
    """Keep the picked elements that a tile has."""
    (x, *indices), axes = node.inputs, node.params["axes"]
    i, size = axes.index(view.axis), x.type.shape[view.axis]
    inside = (*node.params["inside"][:i], True, *node.params["inside"][i + 1 :])

    def step(carry: Carry, tiles: PartsRead, first: Value) -> Carry:
        tile, tile_indices = tiles[x, view], [tiles[index, ALL] for index in indices]
        at = (
            tile_indices[i]
            if node.params["inside"][i]
            else _clamped(tile_indices[i], size)
        )
        at = normal(at, size, first)
        held = _is_within(at, tile, view.axis)
        tile_indices[i] = F.where(held, at, 0)
        rows = same_op(node, [tile, *tile_indices], inside=inside)
        return [F.where(_over(node, held), rows, carry[0])]

    return step


def _clamped(index: Value, size: Size) -> Value:
    """Clamp indices out of bounds to the nearest valid ones, as a gather does."""
    n = size_value(size)
    return F.clip(index, 0 if index.dtype.kind == "u" else -n, n - 1)


def _is_within(index: Value, tile: Value, axis: int) -> Value:
    """Return whether positions lie within a tile."""
    count = size_value(tile.type.shape[axis])
    return F.logical_and(index >= 0, index < count)


def _over(node: Node, held: Value) -> Value:
    """Align a condition for each pick with the axes of the result."""
    axes, indices = node.params["axes"], node.inputs[1:]
    rank, points = held.type.rank, max(i.type.rank for i in indices)
    before = axes[0] if is_adjacent(axes) else 0
    trailing = node.outputs[0].type.rank - points - before
    return F.expand_dims(held, tuple(range(rank, rank + trailing)))
