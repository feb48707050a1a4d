"""Mask rules of reads and writes at positions: index arrays, or starts of slices."""

import numpy as np

from graphc.ir.graph.build import as_value, cast, number_constant
from graphc.ir.graph.nodes import Guard, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, INT64, UINT64, same_size
from graphc.ops.common.padded_reads import nonempty
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.counting_indices import is_counting, with_numbers
from graphc.ops.indexing.gather import DYNAMIC_SLICE, GATHER
from graphc.ops.indexing.padding import fit_item
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.ops.indexing.scatter import SCATTER


@GATHER.padding
def _(
    pad: Padding,
    x: PaddedValue,
    *indices: PaddedValue,
    axes: tuple[int, ...],
    inside: tuple[bool, ...],
) -> Value:
    array = x.value
    if len(indices) == 1 and axes[0] in x.axes:
        front = _front_elements(pad, x, axes[0])
        if front is not None:
            return front
    places, within = [], []
    for i, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        numbers = _counting_all(pad, i + 1, x, axis)
        if numbers is not None:
            places.append(numbers)
            within.append(True)
            continue
        place, size = pad.filled(index, index.axes, 0), x.type.shape[axis]
        low, high = _is_within_ends(pad, i + 1, size)
        known = inside[i] or (low and high)
        if index.axes:
            array = nonempty(array, axis)
        if not known and (index.axes or axis in x.axes):
            _require_element(pad, size, axis)
        if axis in x.axes:
            place, n = _count_from_front(pad, x, axis, place, low)
            if not known:
                place = place if low else F.maximum(place, 0)
                if not _is_below(pad, i + 1, dims.maximum(pad.exact(size), 1)):
                    place = F.minimum(place, F.maximum(n - 1, 0))
                known = dims.less_equal(1, array.type.shape[axis]) is True
        places.append(place)
        within.append(known)
    elements: Value = GATHER(array, *places, axes=axes, inside=tuple(within))
    return elements


def _require_element(pad: Padding, n: Size, axis: int) -> None:
    """Require that an axis has an element to read, unless nothing is read.

    In an empty axis no element is nearest to an index.
    """
    least: Size = 1
    for size in (n for index in pad.node.inputs[1:] for n in index.type.shape):
        least = dims.minimum(least, size)
    if not dims.less_equal(least, n):
        reason = f"axis {axis} has no element to read"
        pad.requires(Guard("<=", least, n, reason, kind="index"))


def _counting_all(pad: Padding, i: int, x: PaddedValue, axis: int) -> Value | None:
    """An index array that counts the slices of a padded axis, those of padding too.

    Each slice then reads from, or writes to, itself alone. None for other index arrays.
    """
    index, n = pad.node.inputs[i], x.type.shape[axis]
    if axis not in x.axes or not same_size(pad.stored(n), x.value.type.shape[axis]):
        return None
    if not any(is_counting(index, a, n) for a in range(index.type.rank)):
        return None
    return with_numbers(index, F.arange(F.size_value(pad.stored(n)), dtype=index.dtype))


def _front_elements(pad: Padding, x: PaddedValue, axis: int) -> Value | None:
    """The first elements of an axis if the index reads 0, 1, 2 ... in it, else None."""
    index = pad.node.inputs[1]
    if index.node.primitive is not OP.iota or not all(
        _is_within_ends(pad, 1, x.type.shape[axis])
    ):
        return None
    params = index.node.params
    plain = same_size(params["start"], 0) and same_size(params["step"], 1)
    length, n = pad.stored(params["length"]), x.value.type.shape[axis]
    item = fit_item(("s", None, length, None), n, length) if plain else None
    if item is None:
        return None
    return basic(x.value, (*[FULL_ITEM] * axis, item))


def _is_within_ends(pad: Padding, i: int, n: Size) -> tuple[bool, bool]:
    """Whether indices are known to be at least 0, and known to be at most `n - 1`.

    In an empty axis -1 counts as at least 0: from either end it is the same position.
    """
    size, low = pad.exact(n), pad.range_of(pad.node.inputs[i]).low
    is_ahead = low is not None and dims.less_equal(dims.minimum(0, size - 1), low)
    return is_ahead is True, _is_below(pad, i, size)


def _is_below(pad: Padding, i: int, limit: Size) -> bool:
    """Whether indices are known to be less than this size."""
    high = pad.range_of(pad.node.inputs[i]).high
    return high is not None and dims.less_equal(high + 1, limit) is True


def _count_from_front(
    pad: Padding, x: PaddedValue, axis: int, place: Value, is_ahead: bool = False
) -> tuple[Value, Value]:
    """Count positions from the front; return them and the true size in one dtype.

    Positions that are known to be `is_ahead` count from the front already.
    """
    is_ahead = is_ahead or place.dtype.kind == "u"
    place = _signed(place)
    n = cast(pad.length(x.type.shape[axis]), place.dtype)
    return place if is_ahead else F.where(place < 0, place + n, place), n


def _signed(place: Value) -> Value:
    """Positions as int32 or int64; those that neither holds are moved, but outside."""
    if place.dtype.itemsize < 4 or place.dtype == INT32:
        return cast(place, INT32)
    if place.dtype == UINT64:
        most = number_constant(np.iinfo(INT64).max, place.dtype)
        place = F.minimum(place, most)
    return cast(place, INT64)


@SCATTER.padding
def _(
    pad: Padding,
    x: PaddedValue,
    v: PaddedValue,
    *indices: PaddedValue,
    axes: tuple[int, ...],
    how: str,
    inside: tuple[bool, ...],
) -> Value:
    places, within = [], []
    for i, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        numbers = _counting_all(pad, i + 2, x, axis)
        if numbers is not None:
            places.append(numbers)
            within.append(True)
            continue
        place, end = index.value, as_value(F.size_value(x.value.type.shape[axis]))
        known = inside[i]
        if axis in x.axes:
            low, high = _is_within_ends(pad, i + 2, x.type.shape[axis])
            known = known or (low and high)
            place, n = _count_from_front(pad, x, axis, place, low)
            if not known:
                stray = F.logical_or(place < 0, place >= n)
                place = F.where(stray, cast(end, place.dtype), place)
        if index.axes:
            place = _signed(place)
            mask = pad.inside(index, sorted(index.axes))
            place = F.where(mask, place, cast(end, place.dtype))
        places.append(place)
        within.append(known and not index.axes)
    new_array: Value = SCATTER(
        x.value, v.value, *places, axes=axes, how=how, inside=tuple(within)
    )
    return new_array


@DYNAMIC_SLICE.padding
def _(
    pad: Padding, x: PaddedValue, start: PaddedValue, *, axis: int, length: int
) -> Value:
    first = start.value
    if axis in x.axes:
        low, high = _is_within_ends(pad, 1, x.type.shape[axis])
        first, n = _count_from_front(pad, x, axis, first, low)
        first = first if low else F.maximum(first, 0)
        if not (high and length == 1):
            first = F.minimum(first, F.maximum(n - length, 0))
    part: Value = DYNAMIC_SLICE(x.value, first, axis=axis, length=length)
    return part
