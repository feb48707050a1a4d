"""Axes of arrays: which one is meant, which are the others, and vectors along one."""

from collections.abc import Sequence

from graphc.ir.graph.accepted_types import ArrayLike, IndexItem
from graphc.ir.graph.build import Shape, as_strong_value, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size

AxisArgument = int | tuple[int, ...] | None


def on_axis(x: ArrayLike, axis: int | None, op_name: str) -> tuple[Value, int]:
    """The array and the number of its axis; if `axis` is None, the flattened array."""
    value = as_strong_value(x)
    if axis is None:
        return F.ravel(value), 0
    return value, normal_axis(axis, value.type.rank, op_name)


def other_axes(rank: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array of this rank that are not among `axes`."""
    return tuple(a for a in range(rank) if a not in axes)


def with_size(shape: Shape, axis: int, n: Size) -> Shape:
    """The shape with another size along one axis."""
    return (*shape[:axis], n, *shape[axis + 1 :])


def with_rank(x: Value, rank: int) -> Value:
    """The array with axes of size 1 in front, up to `rank` axes."""
    expanded: Value = F.expand_dims(x, tuple(range(rank - x.type.rank)))
    return expanded


def along_axis(vector: Value, axis: int, rank: int) -> Value:
    """A vector along one of `rank` axes, with size 1 along all others."""
    expanded: Value = F.expand_dims(vector, other_axes(rank, (axis,)))
    return expanded


def at_axis(axis: int, item: IndexItem) -> tuple[object, ...]:
    """The index that holds `item` for one axis, and leaves the others whole."""
    return (*(slice(None),) * axis, item)


def row_places(places: Value, axis: int, shape: Sequence[int | Value]) -> list[Value]:
    """The index arrays that take, in each row along `axis`, the elements at `places`.

    `shape` tells the size of each axis of the indexed array.
    """
    return [
        places if a == axis else along_axis(F.arange(n), a, len(shape))
        for a, n in enumerate(shape)
    ]


def inverse_order(order: Sequence[int]) -> list[int]:
    """The order of axes that undoes a transposition to `order`."""
    return sorted(range(len(order)), key=order.__getitem__)
