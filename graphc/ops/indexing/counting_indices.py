"""Index arrays that count the slices of an array, as in `x[arange(n), labels]`.

Each slice is then read, or written to, by itself.
"""

from collections.abc import Sequence
from typing import Any

from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.ir.types import same_size
from graphc.ops.common.axes import along_axis, other_axes
from graphc.ops.indexing.parse import first_of_points, is_adjacent


def gather_axes(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose slices make the slices along `axis` of a gather.

    None if no index array counts these slices.
    """
    x, *indices = node.inputs
    axes, behind = node.params["axes"], end_distance(node, axis)
    if not 0 < behind <= _points_rank(indices):
        return None
    counting = _counting_array(x, indices, axes, behind)
    if counting is None:
        return None
    along = [_axis_at_distance(i, behind) for i in indices]
    along[counting] = None
    return [axes[counting], *along]


def counters(node: Node) -> list[Node]:
    """The nodes that make index arrays which count rows: 0, 1, 2 ...

    A body that has these nodes itself shows that its rows do not depend on one another.
    """
    nodes: list[Node] = []
    for index in node.inputs[1:]:
        chain = [index.node]
        while chain[-1].primitive is OP.expand_dims:
            chain.append(chain[-1].inputs[0].node)
        nodes += chain if chain[-1].primitive is OP.iota else []
    return nodes


def _points_rank(indices: Sequence[Value]) -> int:
    """The rank of the index arrays once they are broadcast."""
    return max(i.type.rank for i in indices)


def end_distance(node: Node, axis: int) -> int:
    """The distance of an axis of the result from the end of the index arrays' axes."""
    axes = node.params["axes"]
    first = first_of_points(axes)
    return _points_rank(node.inputs[1:]) - axis + first


def scatter_axes(node: Node, axis: int) -> list[int | None] | None:
    """Per input, the axis whose slices make the slices along `axis` of a scatter.

    None if no index array counts these slices.
    """
    _, update, *indices = node.inputs
    axes = node.params["axes"]
    if not is_adjacent(axes) or axis not in axes:
        return None
    behind = counting_distance(node, axis)
    if behind is None:
        return None
    along = [_axis_at_distance(i, behind) for i in indices]
    along[axes.index(axis)] = None
    return [axis, _axis_at_distance(update, behind + axes_after(node)), *along]


def counting_distance(node: Node, axis: int) -> int | None:
    """The distance from the end of the axis along which an index array counts slices.

    None if no index array counts those of `axis`.
    """
    x, _, *indices = node.inputs
    axes = node.params["axes"]
    for behind in range(_points_rank(indices), 0, -1):
        counting = _counting_array(x, indices, axes, behind)
        if counting is not None and axes[counting] == axis:
            return behind
    return None


def axes_after(node: Node) -> int:
    """The number of axes after the indexed axes, which are adjacent."""
    return int(node.inputs[0].type.rank - 1 - node.params["axes"][-1])


def _axis_at_distance(index: Value, behind: int) -> int | None:
    """The axis of an index array that is `behind` from the end once broadcast.

    None if the index array stretches along it.
    """
    at = index.type.rank - behind
    return None if at < 0 or is_one(index.type.shape[at]) else at


def _counting_array(
    x: Value, indices: Sequence[Value], axes: Sequence[int], behind: int
) -> int | None:
    """The number of the index array that counts along the axis `behind` the end."""
    for i, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        at = _axis_at_distance(index, behind)
        if at is not None and is_counting(index, at, x.type.shape[axis]):
            return i
    return None


def is_counting(index: Value, axis: int, size: Size) -> bool:
    """Whether an array is 0, 1, 2 ... along `axis`, up to `size`."""
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
    sizes = known_sizes(unconverted(node.inputs[1]))
    if sizes is None or sizes.ndim:
        return False
    bound: Any = sizes[()]
    if node.primitive is OP.maximum:
        return less_equal(bound, 0) is True
    return equal(bound, size - 1) is True


def with_numbers(index: Value, numbers: Value) -> Value:
    """Put other numbers along the axis that an index array counts, with its rank."""
    node, at = index.node, 0
    shapes = []
    while node.primitive is not OP.iota:
        if node.primitive is OP.expand_dims:
            shapes.append((node.outputs[0].type.rank, node.params["axes"]))
        node = node.inputs[0].node
    for rank, added in reversed(shapes):
        at = other_axes(rank, added)[at]
    return along_axis(numbers, at, index.type.rank)


def unconverted(value: Value) -> Value:
    """The value before any conversions of dtype."""
    while value.node.primitive is OP.convert:
        value = value.node.inputs[0]
    return value
