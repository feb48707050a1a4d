"""Basic indices, item by item: the positions along one axis that they read or write."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import rebuild
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ops.indexing.parse import BasicItem

SizeT = TypeVar("SizeT")
NAMES = ("kinds", "starts", "stops", "steps")


class Tile(NamedTuple):
    """The number of positions in a tile of an axis, and the number of the first.

    `first` is None where nothing that is computed depends on it.
    """

    size: Size
    first: Value | None = None

    def numbers(self) -> Value:
        """Return the numbers of the tile's positions along the axis."""
        assert self.first is not None
        return F.arange(size_value(self.size), dtype="int32") + self.first


class Slice(NamedTuple):
    """Position j along an axis is position `first + step * j` of the sliced axis.

    `declared` is the first position as the program declares it, without clipping to an
    end.
    """

    axis: int
    first: Size
    step: int
    declared: Size


def slice_of(node: Node, axis: int) -> Slice | None:
    """Return the slice of an input axis that forms `axis` of the result, or None."""
    is_index = node.primitive is OP.basic_index
    indexed = item_of_result_axis(node, axis) if is_index else None
    if indexed is None:
        return None
    item, input_axis = indexed
    kind, start, _, step = items_of(node)[item]
    step_size = 1 if step is None else step
    if kind != "s" or not isinstance(step_size, int):
        return None
    n = node.inputs[0].type.shape[input_axis]
    if step_size > 0:
        first = 0 if start is None else dims.clip(start, n)
        if start is None or less_equal(0, start) is not True:
            return Slice(input_axis, first, step_size, first)
        return Slice(input_axis, first, step_size, start)
    if start is None:
        return Slice(input_axis, n - 1, step_size, n - 1)
    if less_equal(0, start) is True:
        first = dims.minimum(start, n - 1)
        return Slice(input_axis, first, step_size, first)
    return Slice(input_axis, dims.maximum(start + n, -1), step_size, start + n)


def picked_position(node: Node, axis: int) -> Size | None:
    """The position that an index picks along an axis of the input, or None."""
    if node.primitive is not OP.basic_index:
        return None
    input_axis = 0
    for kind, start, _, _ in items_of(node):
        if input_axis == axis and kind == "i":
            n = node.inputs[0].type.shape[axis]
            if less_equal(0, start) is True:
                return start
            return start + n if less_equal(start, -1) is True else None
        input_axis += kind != "n"
    return None


def index_picked_row(node: Node, axis: int, row: Value) -> Value:
    """Apply a basic index to the slice at the position that it picks along `axis`."""
    item, _ = _item_of_input_axis(node, axis)
    other_items = without_item(node, item)
    return reapply(node, [row], **other_items) if other_items["kinds"] else row


class WrittenPositions(NamedTuple):
    """The positions that an update writes along one axis of its target."""

    part: Slice | None  # None: all positions in order, or `at`
    at: Size | None  # the one position, where there is only one
    size: Size  # the number of positions
    axis: int | None  # the axis of the update, if it has one
    items: dict[str, Any]  # the params of the index into one row


def written_positions(node: Node, axis: int) -> WrittenPositions | None:
    """Return how a slice_update writes along an axis; None if positions are unknown."""
    x, update = node.inputs
    items = {name: node.params[name] for name in NAMES}
    region: Value = OP.basic_index(x, **items)
    extra = region.type.rank - update.type.rank
    if axis >= sum(kind != "n" for kind in node.params["kinds"]):
        region_axis = axis + region.type.rank - x.type.rank
        place = region_axis - extra if region_axis >= extra else None
        return WrittenPositions(None, None, x.type.shape[axis], place, items)
    at = picked_position(region.node, axis)
    i, region_axis = _item_of_input_axis(node, axis)
    other_items = without_item(node, i)
    if at is not None:
        return WrittenPositions(None, at, 1, None, other_items)
    part = slice_of(region.node, region_axis)
    if part is None:
        return None
    place = region_axis - extra if region_axis >= extra else None
    size = region.type.shape[region_axis]
    return WrittenPositions(part, None, size, place, other_items)


def _item_of_input_axis(node: Node, axis: int) -> tuple[int, int]:
    """Return the item that indexes an axis, and the axis of the result it makes."""
    result_axis = input_axis = 0
    for i, kind in enumerate(node.params["kinds"]):
        if input_axis == axis and kind != "n":
            return i, result_axis
        result_axis += kind != "i"
        input_axis += kind != "n"
    raise AssertionError("no item indexes this axis")


def items_of(node: Node) -> list[tuple[Any, ...]]:
    """The items of a basic index: kind, start, stop and step of each."""
    return list(zip(*(node.params[name] for name in NAMES), strict=True))


def same_item(a: BasicItem, b: BasicItem) -> bool:
    """Whether two items are provably the same; symbolic bounds may leave it open."""
    pairs = zip(a[1:], b[1:], strict=True)
    return a[0] == b[0] and all(_same_bound(x, y) for x, y in pairs)


def _same_bound(a: Size | None, b: Size | None) -> bool:
    if a is None or b is None:
        return a is b
    return dims.equal(a, b) is True


def without_item(node: Node, i: int) -> dict[str, object]:
    """Return the params of a basic index without one of its items."""
    parts = {name: node.params[name] for name in NAMES}
    return {name: part[:i] + part[i + 1 :] for name, part in parts.items()}


def without_axis(axes: Sequence[int], dropped: int) -> tuple[int, ...]:
    """Renumber `axes` without the axis `dropped`."""
    return tuple(a - (a > dropped) for a in axes if a != dropped)


def item_of_result_axis(node: Node, axis: int) -> tuple[int, int] | None:
    """Return the item that makes an axis of the result, and the input axis indexed."""
    result_axis = input_axis = 0
    for i, kind in enumerate(node.params["kinds"]):
        if kind != "i":
            if result_axis == axis:
                return i, input_axis
            result_axis += 1
        input_axis += kind != "n"
    return None


def reapply(node: Node, inputs: Sequence[Value], **params: Param) -> Value:
    """Apply the op of a node to other inputs, with some params changed."""
    return rebuild(node, tuple(inputs), {**node.params, **params}).outputs[0]


def part_shape(
    shape: Sequence[SizeT], axis: int, tile: Tile | None
) -> tuple[SizeT | Size, ...]:
    """Return the shape of a tile along an axis, or of a slice if `tile` is None."""
    tile_axis = () if tile is None else (tile.size,)
    return (*shape[:axis], *tile_axis, *shape[axis + 1 :])
