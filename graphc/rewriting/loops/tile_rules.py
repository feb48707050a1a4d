"""Tile rules: how to apply an op to a tile of the positions along one axis.

Unlike a slice, a tile keeps its axis: a product of tiles is as large a product as the
tile has positions.
"""

from collections.abc import Callable, Sequence

from graphc.ir.build import size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.op import rebuild
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.rewriting.loops.access import same_op
from graphc.rewriting.loops.axis_gathers import counter, of_gathered, of_scattered
from graphc.rewriting.loops.slice_rules import OperandAxesOf, source

Block = Callable[[Node, int, Sequence[Value], Size], Value]
TILE_AXES: RuleTable[OperandAxesOf] = RuleTable("axes of tiles")  # unlike slices
TILES: RuleTable[Block] = RuleTable("tiles")


def block_source(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose tiles make the tiles along `axis` of the result.

    None for an input that all tiles share; None for all inputs if one tile of the
    result needs more than one tile of an input.
    """
    return (TILE_AXES.find(node.primitive) or source)(node, axis)


def block(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    """A tile of `count` positions of the result, from a tile of each input."""
    rule = TILES.find(node.primitive)
    if rule is None or node.primitive.elementwise:
        return rebuild(node, tuple(blocks), node.params).outputs[0]
    return rule(node, axis, blocks, count)


def _of_product(node: Node, axis: int) -> list[int | None] | None:
    """Rows of the left side, columns of the right, or matrices of both."""
    x, y = node.inputs
    rows, columns = x.type.rank > 1, y.type.rank > 1
    rank = node.outputs[0].type.rank
    if columns and axis == rank - 1:
        return [None, y.type.rank - 1]
    behind = rank - axis - columns  # 1 for the rows of the left side
    if rows and behind == 1:
        return [x.type.rank - 2, None]
    behind += not rows
    of_x, of_y = x.type.rank - 1 - behind, y.type.rank - 1 - behind
    return [of_x if of_x >= 0 else None, of_y if of_y >= 0 else None]


def _of_tensordot(node: Node, axis: int) -> list[int | None] | None:
    """Axes of the left side that are not summed over, then of the right."""
    x, y = node.inputs
    left, right = node.params["axes"]
    free_x = [a for a in range(x.type.rank) if a not in left]
    free_y = [a for a in range(y.type.rank) if a not in right]
    if axis < len(free_x):
        return [free_x[axis], None]
    return [None, free_y[axis - len(free_x)]]


def _of_vecdot(node: Node, axis: int) -> list[int | None] | None:
    behind = node.outputs[0].type.rank - axis + 1
    ranks = [v.type.rank for v in node.inputs]
    return [n - behind if n >= behind else None for n in ranks]


def _no_source(node: Node, axis: int) -> list[int | None] | None:
    return None


def _resized(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    shape = node.params["shape"]
    return same_op(node, blocks, shape=(*shape[:axis], count, *shape[axis + 1 :]))


def _reshaped(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    found: Value = F.reshape(blocks[0], (count, *node.outputs[0].type.shape[1:]))
    return found


def _broadcast(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    shape = node.params["shape"]
    sizes = (*shape[:axis], count, *shape[axis + 1 :])
    found: Value = F.broadcast_to(blocks[0], sizes)
    return found


def _gathered(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    found = of_gathered(node, axis)
    assert found is not None and found[0] is not None
    return _counted(node, 1, found[0], blocks, count)


def _scattered(node: Node, axis: int, blocks: Sequence[Value], count: Size) -> Value:
    return _counted(node, 2, axis, blocks, count)


def _counted(
    node: Node, before: int, axis: int, blocks: Sequence[Value], count: Size
) -> Value:
    """Apply the op with an index array that counts the positions of the tile."""
    at = before + node.params["axes"].index(axis)
    numbers = F.arange(size_value(count), dtype=blocks[at].dtype)
    mine = counter(blocks[at], numbers)
    return same_op(node, [*blocks[:at], mine, *blocks[at + 1 :]])


TILE_AXES.of(OP.matmul)(_of_product)
TILE_AXES.of(OP.tensordot)(_of_tensordot)
TILE_AXES.of(OP.vecdot)(_of_vecdot)
TILE_AXES.of(OP.gather)(of_gathered)
TILE_AXES.of(OP.scatter)(of_scattered)
TILE_AXES.of(OP.assert_)(_no_source)
TILES.of(OP.broadcast_to)(_broadcast)
TILES.of(OP.full, OP.specify_shape)(_resized)
TILES.of(OP.reshape)(_reshaped)
TILES.of(OP.gather)(_gathered)
TILES.of(OP.scatter)(_scattered)
