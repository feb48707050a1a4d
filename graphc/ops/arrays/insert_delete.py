"""Copies of arrays with elements left out, inserted, or overwritten."""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike
from graphc.ir.graph.build import (
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    check_shape,
    literal_of,
    size_value,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size, is_one, less_equal
from graphc.ir.types import BOOL, INT64, NDArray, is_integer
from graphc.ops.common.axes import at_axis, on_axis, with_size
from graphc.ops.common.broadcasting import promoted_as_arrays


def _is_number(index: object) -> TypeGuard[int]:
    return isinstance(index, (int, np.integer)) and not isinstance(index, bool)


def _as_positions(index: ArrayLike, name: str, flat: bool = False) -> Value:
    """Positions or a mask as a scalar or vector; `flat` accepts more axes."""
    if isinstance(index, (list, tuple)) and not len(index):
        index = np.zeros(0, "int64")
    value = as_strong_value(index)
    if flat and value.type.rank > 1 and is_integer(value.dtype):
        value = F.ravel(value)
    integers = value.dtype == BOOL or is_integer(value.dtype)
    if value.type.rank > 1 or not integers:
        problem = "needs a position, a vector of positions, a mask or a slice"
        raise graph_error(problem, op=name, got=str(value.type))
    return value


@public()
def delete(x: ArrayLike, obj: ArrayLike | slice, axis: int | None = None) -> Value:
    """A copy without the elements at `obj`: a position, several, a mask or a slice.

    The array is flattened if no axis is given. Where `obj` is a mask, or a vector that
    is not a constant, the remaining elements are counted when the function runs.
    """
    value, at = on_axis(x, axis, "delete")
    n = value.type.shape[at]
    if isinstance(obj, slice):
        removed = F.sort(F.arange(size_value(n))[obj])
        return _without_sorted(value, at, removed)
    if _is_number(obj):
        return _without_number(value, at, int(obj))
    place = _as_positions(obj, "delete", flat=True)
    known = literal_of(place)
    if place.type.rank == 0 and place.dtype != BOOL:
        return _without_one(value, at, place)
    if place.dtype == BOOL:
        return value[at_axis(at, F.logical_not(F.atleast_1d(place)))]
    if known is not None and not known.size:
        return value
    if known is not None and isinstance(n, int):
        return value[at_axis(at, _remaining_positions(n, known))]
    if known is not None and ((known >= 0).all() or (known < 0).all()):
        return _without_known(value, at, np.unique(known))
    stays = F.full((n,), True).at[place].set(False)
    return value[at_axis(at, stays)]


def _remaining_positions(n: int, removed: NDArray) -> NDArray:
    try:
        return np.delete(np.arange(n), removed)
    except IndexError as error:
        raise graph_error(str(error), op="delete") from None


def _without_number(value: Value, axis: int, index: int) -> Value:
    """Join the parts around one position, which must be within the axis at the call."""
    n = value.type.shape[axis]
    _require_within(value, axis, [index])
    head = value[at_axis(axis, slice(None, index))]
    tail = value[at_axis(axis, slice(index + 1 or size_value(n), None))]
    shape = with_size(value.type.shape, axis, n - 1)
    return F.specify_shape(F.concatenate([head, tail], axis=axis), shape)


def _require_within(
    value: Value, axis: int, positions: Sequence[int] | NDArray
) -> None:
    """Raise GraphError for constant positions that are surely out of bounds."""
    n = value.type.shape[axis]
    for index in (min(positions), max(positions)):
        if less_equal(n, index) is True or less_equal(0, n + index) is False:
            problem = f"index {index} is out of bounds for axis {axis} of size {n}"
            raise graph_error(problem, op="delete", got=str(value.type))


def _without_one(value: Value, axis: int, index: Value) -> Value:
    """Leave out one position, which may be traced: the size does not depend on it."""
    n = value.shape[axis]
    place = F.arange(n)[index]  # indexing checks it
    positions = F.arange(n - 1)
    return F.take(value, positions + F.greater_equal(positions, place), axis=axis)


def _without_known(value: Value, axis: int, removed: NDArray) -> Value:
    """Leave out constant positions, all counted from the front or all from the back."""
    n = value.type.shape[axis]
    least = int(removed[-1]) + 1 if removed[0] >= 0 else -int(removed[0])
    problem = f"index {removed[-1] if removed[0] >= 0 else removed[0]} is out of bounds"
    value = F._at_most(least, n, problem, value, "delete", "index")
    places = as_value(removed)
    return _without_sorted(value, axis, places if removed[0] >= 0 else places + n)


def _without_sorted(value: Value, axis: int, removed: Value) -> Value:
    """Leave out ascending, distinct positions."""
    positions = F.arange(value.shape[axis] - removed.shape[0])
    # The number of removed elements before each of the remaining ones.
    gone = F.searchsorted(removed - F.arange(removed.shape[0]), positions, side="right")
    return F.take(value, positions + gone, axis=axis)


@public()
def insert(
    x: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Value:
    """A copy with `values` inserted before the position(s) `obj` along `axis`.

    The array is flattened if no axis is given. `obj` is an integer, several, a slice or
    a mask; integers that are data do not affect the size.
    """
    value, at = on_axis(x, axis, "insert")
    new = cast(as_value(values), value.dtype)
    n = value.shape[at]
    if isinstance(obj, slice):
        obj = F.arange(n)[obj]
    place = as_value(obj) if _is_number(obj) else _as_positions(obj, "insert")
    if place.dtype == BOOL:
        place = F.flatnonzero(place)
    if axis is None:
        new = F.ravel(new)
    missing = value.type.rank - new.type.rank
    new = F.expand_dims(new, tuple(range(missing)))
    if new.type.rank > value.type.rank:
        got = f"{new.type} into {value.type}"
        raise graph_error("the values have more axes than the array", got=got)
    if place.type.rank == 0:
        new = F.moveaxis(new, 0, at)
    several = place.type.rank == 1 and not is_one(place.type.shape[0])
    count = place.type.shape[0] if several else new.type.shape[at]
    new = F.broadcast_to(new, with_size(value.type.shape, at, count))
    if _is_number(obj):
        return _inserted_before(value, at, int(obj), new)
    known = literal_of(place)
    value = value if known is None else _with_end_check(value, at, known)
    places = F.broadcast_to(place, (count,))
    return _insert(value, at, places, new)


def _inserted_before(value: Value, axis: int, index: int, new: Value) -> Value:
    value = _with_end_check(value, axis, np.asarray(index))
    head = value[at_axis(axis, slice(None, index))]
    tail = value[at_axis(axis, slice(index, None))]
    return F.concatenate([head, new, tail], axis=axis)


def _with_end_check(value: Value, axis: int, places: NDArray) -> Value:
    """The array, with a check that constant positions are not past its end."""
    if not places.size:
        return value
    far = max(int(places.max()), -int(places.min()))
    reason = f"index {far} is out of bounds for axis {axis}"
    n = value.type.shape[axis]
    return F._at_most(far, n, reason, value, "insert", "index")


def _insert(value: Value, axis: int, places: Value, new: Value) -> Value:
    """Insert element i of `new` before the element that was at places[i]."""
    n, more = value.shape[axis], new.shape[axis]
    places = cast(strong(places), INT64)
    outside = n + more  # of the result, where writing checks bounds
    before = F.where(places < -n, outside, places + n)
    places = F.where(places < 0, before, places)
    order = F.argsort(places)
    ordered = places[order]
    old = F.arange(n)
    source = F.zeros((size_value(as_size(n) + as_size(more)),), "int64")
    source = source.at[old + F.searchsorted(ordered, old, side="right")].set(old)
    source = source.at[ordered + F.arange(more)].set(n + order)
    return F.take(F.concatenate([value, new], axis=axis), source, axis=axis)


@public()
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Value:
    """`x` followed by `values` along `axis`; both are flattened by default."""
    return F.concatenate(promoted_as_arrays(x, values), axis=axis)


@public()
def resize(x: ArrayLike, new_shape: ShapeLike) -> Value:
    """Repeat the elements in order to fill a new shape; zeros if there are none."""
    value = F.ravel(x)
    shape = check_shape(as_shape(new_shape), "resize")
    total: Size = 1
    for n in shape:
        total = total * n
    length = value.type.shape[0]
    if less_equal(1, length) is not True:  # a zero stands for an empty array
        value = F.pad(value, (0, F.maximum(1 - size_value(length), 0)))
    index = F.arange(size_value(total)) % F.maximum(size_value(length), 1)
    return F.reshape(value[index], shape)


@public()
def fill_diagonal(x: ArrayLike, val: ArrayLike, wrap: bool = False) -> Value:
    """A copy with `val` on its main diagonal, with elements repeated as needed.

    With more than two axes, which must be equal, the diagonal goes through all of them.
    `wrap` starts it again below the last column of a tall matrix.
    """
    array = as_strong_value(x)
    rank = array.type.rank
    if rank < 2:
        raise graph_error("needs at least two axes", op="fill_diagonal")
    if rank == 2 and wrap:
        columns = array.shape[1]
        places = F.arange(0, array.size, columns + 1)
        new = _cycle(val, places, array)
        return F.reshape(F.ravel(array).at[places].set(new), array.shape)
    if rank == 2:
        i = F.arange(F.minimum(*array.shape))
    else:
        array = F.specify_shape(array, (array.type.shape[0],) * rank)
        i = F.arange(array.shape[0])
    return array.at[(i,) * rank].set(_cycle(val, i, array))


def _cycle(new: ArrayLike, places: Value, array: Value) -> Value:
    """One number for all places, or numbers repeated to fill the places."""
    numbers = cast(as_value(new), array.dtype)
    return resize(numbers, places.type.shape) if numbers.type.rank else numbers
