"""Axis rules: how parts along an axis of a result are computed from parts of operands.

A loop computes a value part by part: slices, of one position, lack this axis; tiles, of
several, keep it. Where an op works on each part by itself, `operand_axes` tells which
axis of each operand corresponds to an axis of the result, and `build_part` builds the
node.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphc.analysis.cost import current_costs
from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.ir.types import product, same_size
from graphc.ops.common.monoids import MONOIDS
from graphc.ops.indexing.counting_indices import gather_axes, scatter_axes
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.loops.find.access import (
    Tile,
    item_of_result_axis,
    items_of,
    part_shape,
    reapply,
    without_axis,
    without_item,
    written_positions,
)
from graphc.rewriting.loops.find.axis_gathers import (
    gather_part,
    is_placed_scatter,
    scatter_part,
    scatter_tile_axes,
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
        return _elementwise_axes(node, axis)
    rule = AXES.find(node.primitive)
    return rule.operand_axes(node, axis) if rule else None


def build_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None = None
) -> Value:
    """Build one part of the result, slice or tile, from one part of each operand."""
    rule = AXES.find(node.primitive)
    if rule is None or node.primitive.elementwise:
        return reapply(node, parts)
    return rule.part(node, axis, parts, tile)


def _rule_from_slices(build_slice: SliceOf) -> PartOf:
    """Make a rule for all parts from one for slices.

    Only slices need other params: a tile keeps its axis, so the params of the node fit.
    """

    def build(
        node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
    ) -> Value:
        if tile is not None:
            return reapply(node, parts)
        return build_slice(node, axis, parts)

    return build


def axes_from_end(values: Sequence[Value], behind: int) -> list[int | None]:
    """The axis that is `behind` places from the end of each value, where it has one."""
    ranks = [v.type.rank for v in values]
    return [n - behind if n >= behind else None for n in ranks]


def _elementwise_axes(node: Node, axis: int) -> OperandAxes:
    return axes_from_end(node.inputs, node.outputs[0].type.rank - axis)


def _transpose_axes(node: Node, axis: int) -> OperandAxes:
    return [node.params["axes"][axis]]


def _expand_dims_axes(node: Node, axis: int) -> OperandAxes:
    axes = node.params["axes"]
    return None if axis in axes else [axis - sum(a < axis for a in axes)]


def _squeeze_axes(node: Node, axis: int) -> OperandAxes:
    return [_other_axes(node, node.params["axes"])[axis]]


def _other_axes(node: Node, axes: Sequence[int]) -> list[int]:
    """Return the axes of the first operand that are not among `axes`."""
    return [a for a in range(node.inputs[0].type.rank) if a not in axes]


def _reduction_axes(node: Node, axis: int) -> OperandAxes:
    """Return axes of the first operand only: the start of `max_from` is a scalar."""
    axes = node.params["axes"]
    more: list[int | None] = [None] * (len(node.inputs) - 1)
    if node.params["keepdims"]:
        return None if axis in axes else [axis, *more]
    return [_other_axes(node, axes)[axis], *more]


def _axes_beside(node: Node, axis: int) -> OperandAxes:
    along, rank = node.params["axis"], node.inputs[0].type.rank
    if node.outputs[0].type.rank == rank:
        return None if axis == along else [axis]
    return [axis + (axis >= along)]


def _product_axes(node: Node, axis: int) -> OperandAxes:
    """Slice the left side, or both sides, if products of slices are large enough."""
    x, y = node.inputs
    if x.type.rank < 2:
        return None
    rank = node.outputs[0].type.rank + (y.type.rank == 1)  # with a column of y
    if axis >= rank - 1:
        return None
    of_x, of_y = axis - (rank - x.type.rank), axis - (rank - y.type.rank)
    is_batched = axis < rank - 2 and of_y >= 0 and not is_one(y.type.shape[of_y])
    if is_batched:
        return [of_x, of_y] if of_x >= 0 else None
    if of_x < 0 or y.type.rank > 2:
        return None
    others = [n for a, n in enumerate(x.type.shape[:-1]) if a != of_x]
    return [of_x, None] if is_large_product(product(others)) else None


def is_large_product(rows: Size) -> bool:
    """Whether a product of `rows` rows is about as fast per row as a larger one."""
    return less_equal(current_costs().rows, rows) is True


def _product_tile_axes(node: Node, axis: int) -> OperandAxes:
    """Tile rows of the left side, columns of the right, or the matrices of both."""
    x, y = node.inputs
    rows, columns = x.type.rank > 1, y.type.rank > 1
    rank = node.outputs[0].type.rank
    if columns and axis == rank - 1:
        return [None, y.type.rank - 1]
    from_end = rank - axis - columns  # 1 for the rows of the left side
    if rows and from_end == 1:
        return [x.type.rank - 2, None]
    from_end += not rows
    of_x, of_y = x.type.rank - 1 - from_end, y.type.rank - 1 - from_end
    return [of_x if of_x >= 0 else None, of_y if of_y >= 0 else None]


def _tensordot_tile_axes(node: Node, axis: int) -> OperandAxes:
    """Tile the axes of the left side that are not summed over, then of the right."""
    x, y = node.inputs
    left, right = node.params["axes"]
    free_x = [a for a in range(x.type.rank) if a not in left]
    free_y = [a for a in range(y.type.rank) if a not in right]
    if axis < len(free_x):
        return [free_x[axis], None]
    return [None, free_y[axis - len(free_x)]]


def _vecdot_tile_axes(node: Node, axis: int) -> OperandAxes:
    return axes_from_end(node.inputs, node.outputs[0].type.rank - axis + 1)


def _reshape_axes(node: Node, axis: int) -> OperandAxes:
    """Keep the first axis if the other axes hold as many elements as before."""
    before, after = node.inputs[0].type.shape, node.outputs[0].type.shape
    if axis or not before or not same_size(before[0], after[0]):
        return None
    return [0] if equal(product(before[1:]), product(after[1:])) is True else None


def _index_axes(node: Node, axis: int) -> OperandAxes:
    """Require a full item for this axis; other axes may be indexed at will."""
    indexed = item_of_result_axis(node, axis)
    if indexed is None:
        return [axis + node.inputs[0].type.rank - node.outputs[0].type.rank]
    item, input_axis = indexed
    return [input_axis] if items_of(node)[item] == FULL_ITEM else None


def _join_axes(node: Node, axis: int) -> OperandAxes:
    joined = node.params["axis"]
    if axis == joined:
        return None
    input_axis = axis - (node.primitive is OP.stack and axis > joined)
    return [input_axis] * len(node.inputs)


def _fill_axes(node: Node, axis: int) -> OperandAxes:
    return [None for _ in node.inputs]


def _first_operand_axes(node: Node, axis: int) -> OperandAxes:
    """Slice the first operand only.

    A check covers all slices, so it is repeated on the results of the loop.
    """
    return [axis, *[None] * (len(node.inputs) - 1)]


def _update_tile_axes(node: Node, axis: int) -> OperandAxes:
    """Tile the target, and the update too if it writes all positions and not one."""
    if _only_position(node, axis) is not None:
        return [axis, None]
    write, n = written_positions(node, axis), node.inputs[0].type.shape[axis]
    if write is None or write.at is not None or not same_size(write.size, n):
        return None
    step = 1 if write.part is None else write.part.step
    return [axis, write.axis] if step == 1 else None


def _only_position(node: Node, axis: int) -> Size | None:
    """Return the one position along an axis that an update writes, in full, or None."""
    write = written_positions(node, axis)
    if write is None or node.params["how"] not in ("add", "set"):
        return None
    full = all(item == FULL_ITEM for item in zip(*write.items.values(), strict=True))
    return write.at if full else None


def _no_axes(node: Node, axis: int) -> OperandAxes:
    return None


def _own_axis(node: Node, axis: int) -> int:
    """The axis of the first operand that an axis of the result belongs to."""
    axes = operand_axes(node, axis)
    assert axes is not None and axes[0] is not None
    return axes[0]


def _broadcast_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    return F.broadcast_to(parts[0], part_shape(node.params["shape"], axis, tile))


def _reshape_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    shape = part_shape(node.outputs[0].type.shape, axis, tile)
    return F.reshape(parts[0], shape)


def _fill_part(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    return reapply(node, parts, shape=part_shape(node.params["shape"], axis, tile))


def _update_tile(
    node: Node, axis: int, parts: Sequence[Value], tile: Tile | None
) -> Value:
    """Update all positions of a tile, or the one position written if in the tile."""
    at = _only_position(node, axis)
    if at is None:
        return reapply(node, parts)
    assert tile is not None
    old, new = parts
    row_shape = part_shape(old.type.shape, axis, None)
    row = F.expand_dims(F.broadcast_to(new, row_shape), axis)
    others = tuple(a for a in range(old.type.rank) if a != axis)
    is_written = F.expand_dims(F.equal(tile.numbers(), size_value(at)), others)
    if node.params["how"] == "add":
        row = F.add(old, row)
    return F.where(is_written, row, old)


def is_placed_tile(node: Node, axis: int) -> bool:
    """Whether a tile of a result depends on its place, not on its operands alone."""
    if node.primitive is OP.scatter:
        return is_placed_scatter(node, axis)
    return node.primitive is OP.slice_update and _only_position(node, axis) is not None


@_rule_from_slices
def _transpose_slice(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    axes = node.params["axes"]
    return F.transpose(parts[0], without_axis(axes, axes[axis]))


@_rule_from_slices
def _expand_dims_slice(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return reapply(node, parts, axes=without_axis(node.params["axes"], axis))


@_rule_from_slices
def _reduce_slice(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    dropped = _own_axis(node, axis)
    return reapply(node, parts, axes=without_axis(node.params["axes"], dropped))


@_rule_from_slices
def _slice_beside(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    along = node.params["axis"]
    return reapply(node, parts, axis=along - (along > _own_axis(node, axis)))


@_rule_from_slices
def _index_slice(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    indexed = item_of_result_axis(node, axis)
    if indexed is None:
        return reapply(node, parts)
    other_items = without_item(node, indexed[0])
    return reapply(node, parts, **other_items) if other_items["kinds"] else parts[0]


@_rule_from_slices
def _join_slices(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    joined = node.params["axis"]
    return reapply(node, parts, axis=joined - (joined > axis))


@_rule_from_slices
def _unchecked_slice(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return parts[0]


@_rule_from_slices
def _multiply_slices(node: Node, axis: int, parts: Sequence[Value]) -> Value:
    return reapply(node, parts)


AXES.of(OP.broadcast_to)(AxisRule(_elementwise_axes, _broadcast_part))
AXES.of(OP.full)(AxisRule(_fill_axes, _fill_part))
AXES.of(OP.transpose)(AxisRule(_transpose_axes, _transpose_slice))
AXES.of(OP.expand_dims)(AxisRule(_expand_dims_axes, _expand_dims_slice))
AXES.of(OP.squeeze)(AxisRule(_squeeze_axes, _reduce_slice))
AXES.of(OP.reshape)(AxisRule(_reshape_axes, _reshape_part))
AXES.of(OP.basic_index)(AxisRule(_index_axes, _index_slice))
AXES.of(OP.gather)(AxisRule(gather_axes, gather_part))
AXES.of(OP.scatter)(AxisRule(scatter_axes, scatter_part))
AXES.of(OP.concatenate, OP.stack)(AxisRule(_join_axes, _join_slices))
AXES.of(OP.matmul)(AxisRule(_product_axes, _multiply_slices))
AXES.of(OP.assert_)(AxisRule(_first_operand_axes, _unchecked_slice))
AXES.of(OP.specify_shape)(AxisRule(_first_operand_axes, _fill_part))
AXES.of(OP.slice_update)(AxisRule(_no_axes, _update_tile))
AXES.of(*REDUCTIONS)(AxisRule(_reduction_axes, _reduce_slice))
AXES.of(*ALONG)(AxisRule(_axes_beside, _slice_beside))
TILE_AXES.of(OP.matmul)(_product_tile_axes)
TILE_AXES.of(OP.tensordot)(_tensordot_tile_axes)
TILE_AXES.of(OP.vecdot)(_vecdot_tile_axes)
TILE_AXES.of(OP.scatter)(scatter_tile_axes)
TILE_AXES.of(OP.slice_update)(_update_tile_axes)
TILE_AXES.of(OP.assert_)(_no_axes)
