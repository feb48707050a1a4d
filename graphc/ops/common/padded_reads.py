"""Helpers for mask rules of ops that move the elements of an axis by its true size."""

from collections.abc import Sequence

import numpy as np

from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal, maximum
from graphc.ir.types import INT32
from graphc.ops.common.axes import along_axis
from graphc.ops.common.padding import Padding


def as_int32(pad: Padding, size: Size) -> Value:
    """A true size as int32."""
    return cast(pad.length(size), INT32)


def is_known(pad: Padding, size: Size) -> bool:
    """Whether a size does not depend on any padded size."""
    return all(equal(n, size) is True for n in (pad.exact(size), pad.stored(size)))


def iota(size: Size) -> Value:
    """The positions 0, 1, 2 ... on an axis of this size, as int32."""
    positions: Value = F.arange(F.size_value(size), dtype="int32")
    return positions


def nonempty(x: Value, axis: int) -> Value:
    """Append one element to an axis if it is empty, so that reads work.

    The elements of other axes stay where they are, counted from either end.
    """
    n = x.type.shape[axis]
    if less_equal(1, n) is True:
        return x
    widths: list[tuple[int, Size]] = [(0, 0)] * x.type.rank
    widths[axis] = (0, maximum(1 - n, 0))
    at_least_one: Value = F.pad(x, widths)
    return at_least_one


def read_at(x: Value, axis: int, at: Value) -> Value:
    """The elements at these places of an axis; any element for places outside of it."""
    elements: Value = F._gather(nonempty(x, axis), at, axes=(axis,), inside=(False,))
    return elements


def moved(
    pad: Padding,
    x: Value,
    axis: int,
    n: Size,
    start: Value,
    size: Size,
    fill: Value,
    step: Size = 1,
) -> Value:
    """Move `n` elements of an axis to `start` in an axis of `size`.

    They stand `step` places apart there, and all other places hold `fill`.
    """
    at = iota(size) - start
    inside = at >= 0
    if not is_one(step):
        apart = cast(as_value(size_value(step)), INT32)
        inside, at = F.logical_and(inside, at % apart == 0), at // apart
    inside = F.logical_and(inside, at < as_int32(pad, n))
    inside = F.expand_dims(inside, tuple(range(1, x.type.rank - axis)))
    row: Value = F.where(inside, read_at(x, axis, at), as_value(fill))
    return row


def flat_places(pad: Padding, shape: Sequence[Size]) -> Value:
    """The row-major index of each element, counted in the true sizes of `shape`."""
    place = as_value(np.zeros((1,) * len(shape), "int32"))
    for axis, n in enumerate(shape):
        positions = along_axis(pad.positions(n), axis, len(shape))
        place = place * as_int32(pad, n) + positions
    numbers: Value = F.broadcast_to(place, tuple(map(pad.stored, shape)))
    return numbers


def at_flat_places(
    pad: Padding, x: Value, shape: Sequence[Size], place: Value, first: int = 0
) -> Value:
    """The elements of `x` at row-major indices `place` within a true shape.

    `shape` is that of the axes of `x` from `first` on.
    """
    coordinates = []
    for n in reversed(shape):
        length = F.maximum(as_int32(pad, n), 1)
        coordinates.append(F.remainder(place, length))
        place = F.floor_divide(place, length)
    axes = tuple(range(first, first + len(shape)))
    for axis in axes:
        x = nonempty(x, axis)
    every = (False,) * len(axes)
    elements: Value = F._gather(x, *reversed(coordinates), axes=axes, inside=every)
    return elements
