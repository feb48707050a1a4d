"""Slice rules: the axes of the inputs that one axis of a result comes from.

A loop computes a value slice by slice: where an op works on each slice by itself,
`source` gives the sliced axis of each input, and `row` builds the node of one slice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphc.ir.dims import Size, equal, less_equal
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.op import rebuild
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.types import product, same_size
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.loops.access import (
    item_of,
    items_of,
    same_op,
    without_item,
)
from graphc.rewriting.loops.axis_gathers import (
    of_gathered,
    of_scattered,
    row_of_gathered,
    row_of_scattered,
)
from graphc.rewriting.sizes import is_one

OperandAxesOf = Callable[[Node, int], "list[int | None] | None"]
Row = Callable[[Node, int, Sequence[Value]], Value]

REDUCTIONS = (
    *(OP.sum, OP.prod, OP.max, OP.min, OP.any, OP.all, OP.max_from, OP.min_from),
)
ENOUGH_ROWS = 32  # in a product of matrices
ALONG = (
    *(OP.peak, OP.argmax, OP.argmin, OP.sort, OP.argsort),
    *(OP.cumsum, OP.cumprod, OP.cummax, OP.cummin),
)


class SliceRule(NamedTuple):
    """How the slices of a result come about from slices of the inputs."""

    operand_axes: OperandAxesOf
    part: Row


SLICES: RuleTable[SliceRule] = RuleTable("slices along an axis")


def source(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose slices make the slices along `axis` of the result.

    None for an input that all slices share; None for all inputs if one slice of the
    result needs more than one slice of an input.
    """
    if len(node.outputs) > 1:
        return None
    if node.primitive.elementwise:
        return _of_elementwise(node, axis)
    rule = SLICES.find(node.primitive)
    return rule.operand_axes(node, axis) if rule else None


def row(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    """One slice of the result, from one slice of each input."""
    if node.primitive.elementwise:
        return rebuild(node, tuple(rows), node.params).outputs[0]
    return SLICES.rules[node.primitive].part(node, axis, rows)


def _of_elementwise(node: Node, axis: int) -> list[int | None]:
    behind = node.outputs[0].type.rank - axis
    ranks = [x.type.rank for x in node.inputs]
    return [n - behind if n >= behind else None for n in ranks]


def _of_broadcast(node: Node, axis: int) -> list[int | None]:
    return _of_elementwise(node, axis)


def _of_transposed(node: Node, axis: int) -> list[int | None]:
    return [node.params["axes"][axis]]


def _of_expanded(node: Node, axis: int) -> list[int | None] | None:
    axes = node.params["axes"]
    return None if axis in axes else [axis - sum(a < axis for a in axes)]


def _of_squeezed(node: Node, axis: int) -> list[int | None]:
    rank, axes = node.inputs[0].type.rank, node.params["axes"]
    return [[a for a in range(rank) if a not in axes][axis]]


def _of_reduced(node: Node, axis: int) -> list[int | None] | None:
    """The first input is reduced; the start of `max_from` is a scalar."""
    axes = node.params["axes"]
    more: list[int | None] = [None] * (len(node.inputs) - 1)
    if node.params["keepdims"]:
        return None if axis in axes else [axis, *more]
    rank = node.inputs[0].type.rank
    return [[a for a in range(rank) if a not in axes][axis], *more]


def _of_along(node: Node, axis: int) -> list[int | None] | None:
    along, rank = node.params["axis"], node.inputs[0].type.rank
    if node.outputs[0].type.rank == rank:
        return None if axis == along else [axis]
    return [axis + (axis >= along)]


def _of_product(node: Node, axis: int) -> list[int | None] | None:
    """Slices of the left side, or of both, if products of slices are large enough."""
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
    """Whether a product of so many rows is about as fast as one of many more."""
    return less_equal(ENOUGH_ROWS, rows) is True


def _row_of_product(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    return same_op(node, rows)


def _of_reshaped(node: Node, axis: int) -> list[int | None] | None:
    """The first axis stays where the others hold as many elements as before."""
    before, after = node.inputs[0].type.shape, node.outputs[0].type.shape
    if axis or not before or not same_size(before[0], after[0]):
        return None
    return [0] if equal(product(before[1:]), product(after[1:])) is True else None


def _of_indexed(node: Node, axis: int) -> list[int | None] | None:
    """Other axes may be indexed at will."""
    at = item_of(node, axis)
    if at is None:
        return [axis + node.inputs[0].type.rank - node.outputs[0].type.rank]
    item, taken = at
    return [taken] if items_of(node)[item] == FULL_ITEM else None


def _of_joined(node: Node, axis: int) -> list[int | None] | None:
    joined = node.params["axis"]
    if axis == joined:
        return None
    taken = axis - (node.primitive is OP.stack and axis > joined)
    return [taken] * len(node.inputs)


def _row_of_joined(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    joined = node.params["axis"]
    return same_op(node, rows, axis=joined - (joined > axis))


def _without(axes: Sequence[int], gone: int) -> tuple[int, ...]:
    """Renumber axes after one other axis is dropped."""
    return tuple(a - (a > gone) for a in axes if a != gone)


def _row_of_broadcast(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    shape = node.params["shape"]
    found: Value = F.broadcast_to(rows[0], shape[:axis] + shape[axis + 1 :])
    return found


def _row_of_transposed(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    axes = node.params["axes"]
    order = _without(axes, axes[axis])
    found: Value = F.transpose(rows[0], order)
    return found


def _row_of_expanded(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    axes = _without(node.params["axes"], axis)
    return same_op(node, rows, axes=axes)


def _row_of_squeezed(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    (taken,) = _of_squeezed(node, axis)
    assert taken is not None
    return same_op(node, rows, axes=_without(node.params["axes"], taken))


def _row_of_reduced(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    found = _of_reduced(node, axis)
    assert found is not None and found[0] is not None
    return same_op(node, rows, axes=_without(node.params["axes"], found[0]))


def _row_of_along(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    found = _of_along(node, axis)
    assert found is not None and found[0] is not None
    along = node.params["axis"]
    return same_op(node, rows, axis=along - (along > found[0]))


def _row_of_reshaped(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    found: Value = F.reshape(rows[0], node.outputs[0].type.shape[1:])
    return found


def _row_of_indexed(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    at = item_of(node, axis)
    if at is None:
        return same_op(node, rows)
    left = without_item(node, at[0])
    return same_op(node, rows, **left) if left["kinds"] else rows[0]


def _row_of_specified(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    shape: tuple[Size | None, ...] = node.params["shape"]
    return same_op(node, rows, shape=shape[:axis] + shape[axis + 1 :])


def _of_filled(node: Node, axis: int) -> list[int | None]:
    return [None] * len(node.inputs)


def _row_of_filled(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    shape = node.params["shape"]
    return same_op(node, rows, shape=shape[:axis] + shape[axis + 1 :])


def _first(node: Node, axis: int) -> list[int | None]:
    """A check is of all slices: it is repeated on the results of the loop."""
    return [axis, *[None] * (len(node.inputs) - 1)]


def _row_of_checked(node: Node, axis: int, rows: Sequence[Value]) -> Value:
    return rows[0]


SLICES.of(OP.broadcast_to)(SliceRule(_of_broadcast, _row_of_broadcast))
SLICES.of(OP.full)(SliceRule(_of_filled, _row_of_filled))
SLICES.of(OP.transpose)(SliceRule(_of_transposed, _row_of_transposed))
SLICES.of(OP.expand_dims)(SliceRule(_of_expanded, _row_of_expanded))
SLICES.of(OP.squeeze)(SliceRule(_of_squeezed, _row_of_squeezed))
SLICES.of(OP.reshape)(SliceRule(_of_reshaped, _row_of_reshaped))
SLICES.of(OP.basic_index)(SliceRule(_of_indexed, _row_of_indexed))
SLICES.of(OP.gather)(SliceRule(of_gathered, row_of_gathered))
SLICES.of(OP.scatter)(SliceRule(of_scattered, row_of_scattered))
SLICES.of(OP.concatenate, OP.stack)(SliceRule(_of_joined, _row_of_joined))
SLICES.of(OP.matmul)(SliceRule(_of_product, _row_of_product))
SLICES.of(OP.assert_)(SliceRule(_first, _row_of_checked))
SLICES.of(OP.specify_shape)(SliceRule(_first, _row_of_specified))
SLICES.of(*REDUCTIONS)(SliceRule(_of_reduced, _row_of_reduced))
SLICES.of(*ALONG)(SliceRule(_of_along, _row_of_along))
