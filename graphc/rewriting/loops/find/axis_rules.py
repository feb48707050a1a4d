"""Axis rules: how parts along an axis of a result are computed from parts of operands.

A loop computes a value part by part: slices, of one position, lack this axis; tiles, of
several, keep it. Where an op works on each part by itself, `operand_axes` tells which
axis of each operand corresponds to an axis of the result, and `part` builds the node.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphc.analysis.cost import here
from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.ir.types import product, same_size
from graphc.ops.common.monoids import MONOIDS
from graphc.ops.indexing.counted import gather_axes, scatter_axes
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.loops.find.access import (
    Tile,
    item_of,
    items_of,
    resized,
    same_op,
    without_item,
    written,
)
from graphc.rewriting.loops.find.axis_gathers import (
    is_placed,
    part_of_gathered,
    part_of_scattered,
    tiles_of_scattered,
)

OperandAxes = list[int | None] | None
OperandAxesOf = Callable[[Node, int], OperandAxes]
SliceOf = Callable[[Node, int, Sequence[Value]], Value]
PartOf = Callable[[Node, int, Sequence[Value], Tile | None], Value]

REDUCTIONS = tuple(MONOIDS.rules)
ALONG = (
    *(OP.peak, OP.argmax, OP.argmin, OP.sort, OP.argsort),
    *(OP.cumsum, OP.cumprod, OP.cummax, OP.cummin),
)


class AxisRule(NamedTuple):
    """The axes of the operands that an axis of a result belongs to, and its parts.

    `part` is given the extent of a tile, or None for a slice.
    """

    operand_axes: OperandAxesOf
    part: PartOf


AXES: RuleTable[AxisRule] = RuleTable("parts along an axis")
TILE_AXES: RuleTable[OperandAxesOf] = RuleTable("axes of tiles, unlike slices")


def operand_axes(node: Node, axis: int, tiled: bool = False) -> OperandAxes:
    """Return, per operand, the axis whose parts make the result's parts along `axis`.

    The axis is None for an operand that all parts share. The list is None if one part
    of the result needs more than one part of an operand.
    """
    tile_rule = TILE_AXES.find(node.primitive) if tiled else None
    if tile_rule is not None:
        return tile_rule(node, axis)
    if len(node.outputs) > 1:
        return None
    if node.primitive.elementwise:
        return _of_elementwise(node, axis)
    rule = AXES.find(node.primitive)
    return rule.operand_axes(node, axis) if rule else None


def part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None = None
) -> Value:
    """Build one part of the result, slice or tile, from one part of each operand."""
    rule = AXES.find(node.primitive)
    if rule is None or node.primitive.elementwise:
        return same_op(node, parts)
    return rule.part(node, axis, parts, tile)


def _sliced(of_slice: SliceOf) -> PartOf:
    """Make a rule for all parts from one for slices.

    Only slices need other params: a tile keeps its axis, so the params of the node fit.
    """

    def found(
        node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
    ) -> Value:
        if tile is not None:
            return same_op(node, parts)
        return of_slice(node, axis, parts)

    return found


def _of_elementwise(node: Node, axis: int) -> OperandAxes:
    behind = node.outputs[0].type.rank - axis
    ranks = [x.type.rank for x in node.inputs]
    return [n - behind if n >= behind else None for n in ranks]


def _of_transposed(node: Node, axis: int) -> OperandAxes:
    return [node.params["axes"][axis]]


def _of_expanded(node: Node, axis: int) -> OperandAxes:
    axes = node.params["axes"]
    return None if axis in axes else [axis - sum(a < axis for a in axes)]


def _of_squeezed(node: Node, axis: int) -> OperandAxes:
    return [_left(node, node.params["axes"])[axis]]


def _left(node: Node, axes: Sequence[int]) -> list[int]:
    """Return the axes of the first operand that are not among `axes`."""
    return [a for a in range(node.inputs[0].type.rank) if a not in axes]


def _of_reduced(node: Node, axis: int) -> OperandAxes:
    """Return axes of the first operand only: the start of `max_from` is a scalar."""
    axes = node.params["axes"]
    more: list[int | None] = [None] * (len(node.inputs) - 1)
    if node.params["keepdims"]:
        return None if axis in axes else [axis, *more]
    return [_left(node, axes)[axis], *more]


def _of_along(node: Node, axis: int) -> OperandAxes:
    along, rank = node.params["axis"], node.inputs[0].type.rank
    if node.outputs[0].type.rank == rank:
        return None if axis == along else [axis]
    return [axis + (axis >= along)]


def _of_product(node: Node, axis: int) -> OperandAxes:
    """Slice the left side, or both sides, if products of slices are large enough."""
    x, y = node.inputs
    if x.type.rank < 2:
        return None
    rank = node.outputs[0].type.rank + (y.type.rank == 1)  # with a column of y
    if axis >= rank - 1:
        return None
    of_x, of_y = axis - (rank - x.type.rank), axis - (rank - y.type.rank)
    together = axis < rank - 2 and of_y >= 0 and not is_one(y.type.shape[of_y])
    if together:
        return [of_x, of_y] if of_x >= 0 else None
    if of_x < 0 or y.type.rank > 2:
        return None
    others = [n for a, n in enumerate(x.type.shape[:-1]) if a != of_x]
    return [of_x, None] if is_large(product(others)) else None


def is_large(rows: Size) -> bool:
    """Whether a product of `rows` rows is about as fast per row as a larger one."""
    return less_equal(here().rows, rows) is True


def _tiles_of_product(node: Node, axis: int) -> OperandAxes:
    """Tile rows of the left side, columns of the right, or the matrices of both."""
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


def _tiles_of_tensordot(node: Node, axis: int) -> OperandAxes:
    """Tile the axes of the left side that are not summed over, then of the right."""
    x, y = node.inputs
    left, right = node.params["axes"]
    free_x = [a for a in range(x.type.rank) if a not in left]
    free_y = [a for a in range(y.type.rank) if a not in right]
    if axis < len(free_x):
        return [free_x[axis], None]
    return [None, free_y[axis - len(free_x)]]


def _tiles_of_vecdot(node: Node, axis: int) -> OperandAxes:
    behind = node.outputs[0].type.rank - axis + 1
    ranks = [v.type.rank for v in node.inputs]
    return [n - behind if n >= behind else None for n in ranks]


def _of_reshaped(node: Node, axis: int) -> OperandAxes:
    """Keep the first axis if the other axes hold as many elements as before."""
    before, after = node.inputs[0].type.shape, node.outputs[0].type.shape
    if axis or not before or not same_size(before[0], after[0]):
        return None
    return [0] if equal(product(before[1:]), product(after[1:])) is True else None


def _of_indexed(node: Node, axis: int) -> OperandAxes:
    """Require a full item for this axis; other axes may be indexed at will."""
    at = item_of(node, axis)
    if at is None:
        return [axis + node.inputs[0].type.rank - node.outputs[0].type.rank]
    item, taken = at
    return [taken] if items_of(node)[item] == FULL_ITEM else None


def _of_joined(node: Node, axis: int) -> OperandAxes:
    joined = node.params["axis"]
    if axis == joined:
        return None
    taken = axis - (node.primitive is OP.stack and axis > joined)
    return [taken] * len(node.inputs)


def _of_filled(node: Node, axis: int) -> OperandAxes:
    return [None for _ in node.inputs]


def _first(node: Node, axis: int) -> OperandAxes:
    """Slice the first operand only.

    A check covers all slices, so it is repeated on the results of the loop.
    """
    return [axis, *[None] * (len(node.inputs) - 1)]


def _tiles_of_update(node: Node, axis: int) -> OperandAxes:
    """Tile the target, and the update too if it writes all positions and not one."""
    if _only_place(node, axis) is not None:
        return [axis, None]
    write, n = written(node, axis), node.inputs[0].type.shape[axis]
    if write is None or write.at is not None or not same_size(write.size, n):
        return None
    step = 1 if write.part is None else write.part.step
    return [axis, write.axis] if step == 1 else None


def _only_place(node: Node, axis: int) -> Size | None:
    """Return the one position along an axis that an update writes, in full, or None."""
    write = written(node, axis)
    if write is None or node.params["how"] not in ("add", "set"):
        return None
    full = all(item == FULL_ITEM for item in zip(*write.items.values(), strict=True))
    return write.at if full else None


def _none(node: Node, axis: int) -> OperandAxes:
    return None


def _own_axis(node: Node, axis: int) -> int:
    """The axis of the first operand that an axis of the result belongs to."""
    axes = operand_axes(node, axis)
    assert axes is not None and axes[0] is not None
    return axes[0]


def _without(axes: Sequence[int], gone: int) -> tuple[int, ...]:
    """Renumber `axes` after axis `gone` is dropped."""
    return tuple(a - (a > gone) for a in axes if a != gone)


def _broadcast(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    return F.broadcast_to(parts[0], resized(node.params["shape"], axis, tile))


def _reshaped(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    shape = resized(node.outputs[0].type.shape, axis, tile)
    return F.reshape(parts[0], shape)


def _resized(node: Node, axis: int, parts: Sequence[Value], tile: Tile | None) -> Value:
    return same_op(node, parts, shape=resized(node.params["shape"], axis, tile))


def _updated(node: Node, axis: int, parts: Sequence[Value], tile: Tile | None) -> Value:
    """Update all positions of a tile, or the one position written if in the tile."""
    at = _only_place(node, axis)
    if at is None:
        return same_op(node, parts)
    assert tile is not None
    old, new = parts
    row = F.expand_dims(F.broadcast_to(new, resized(old.type.shape, axis, None)), axis)
    others = tuple(a for a in range(old.type.rank) if a != axis)
    held = F.expand_dims(F.equal(tile.numbers(), size_value(at)), others)
    if node.params["how"] == "add":
        row = F.add(old, row)
    return F.where(held, row, old)


def is_placed_tile(node: Node, axis: int) -> bool:
    """Whether a tile of a result depends on its place, not on its operands alone."""
    if node.primitive is OP.scatter:
        return is_placed(node, axis)
    return node.primitive is OP.slice_update and _only_place(node, axis) is not None


@_sliced
def _transposed(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    axes = node.params["axes"]
    return F.transpose(parts[0], _without(axes, axes[axis]))


@_sliced
def _expanded(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return same_op(node, parts, axes=_without(node.params["axes"], axis))


@_sliced
def _reduced(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    gone = _own_axis(node, axis)
    return same_op(node, parts, axes=_without(node.params["axes"], gone))


@_sliced
def _along(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    along = node.params["axis"]
    return same_op(node, parts, axis=along - (along > _own_axis(node, axis)))


@_sliced
def _indexed(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    at = item_of(node, axis)
    if at is None:
        return same_op(node, parts)
    left = without_item(node, at[0])
    return same_op(node, parts, **left) if left["kinds"] else parts[0]


@_sliced
def _joined(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    joined = node.params["axis"]
    return same_op(node, parts, axis=joined - (joined > axis))


@_sliced
def _checked(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return parts[0]


@_sliced
def _multiplied(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return same_op(node, parts)


AXES.of(OP.broadcast_to)(AxisRule(_of_elementwise, _broadcast))
AXES.of(OP.full)(AxisRule(_of_filled, _resized))
AXES.of(OP.transpose)(AxisRule(_of_transposed, _transposed))
AXES.of(OP.expand_dims)(AxisRule(_of_expanded, _expanded))
AXES.of(OP.squeeze)(AxisRule(_of_squeezed, _reduced))
AXES.of(OP.reshape)(AxisRule(_of_reshaped, _reshaped))
AXES.of(OP.basic_index)(AxisRule(_of_indexed, _indexed))
AXES.of(OP.gather)(AxisRule(gather_axes, part_of_gathered))
AXES.of(OP.scatter)(AxisRule(scatter_axes, part_of_scattered))
AXES.of(OP.concatenate, OP.stack)(AxisRule(_of_joined, _joined))
AXES.of(OP.matmul)(AxisRule(_of_product, _multiplied))
AXES.of(OP.assert_)(AxisRule(_first, _checked))
AXES.of(OP.specify_shape)(AxisRule(_first, _resized))
AXES.of(OP.slice_update)(AxisRule(_none, _updated))
AXES.of(*REDUCTIONS)(AxisRule(_of_reduced, _reduced))
AXES.of(*ALONG)(AxisRule(_of_along, _along))
TILE_AXES.of(OP.matmul)(_tiles_of_product)
TILE_AXES.of(OP.tensordot)(_tiles_of_tensordot)
TILE_AXES.of(OP.vecdot)(_tiles_of_vecdot)
TILE_AXES.of(OP.scatter)(tiles_of_scattered)
TILE_AXES.of(OP.slice_update)(_tiles_of_update)
TILE_AXES.of(OP.assert_)(_none)
