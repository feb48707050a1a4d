"""Sets of elements: distinct ones, and those that arrays share.

Most results have a size that depends on the data: it is counted and read once, and the
rest is compiled for it.
"""

from typing import Any, NamedTuple

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, cast, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, type_error
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BOOL, INT64, TensorType, is_float, is_inexact, product
from graphc.ops.common.broadcasting import promoted
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.sorting.orders import print_lexsort_rows


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Value
    indices: Value
    inverse_indices: Value
    counts: Value


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Value
    counts: Value


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Value
    inverse_indices: Value


def _run_starts(changed: Value, n: int | Value) -> Value:
    """A mask of `n` sorted elements: the first one and those unlike the one before."""
    return F.concatenate([F.full((F.minimum(n, 1),), True), changed])


def _first_of_runs(ordered: Value, equal_nan: bool) -> Value:
    """A mask of the first of each run of equal elements in a sorted vector."""
    before, after = ordered[:-1], ordered[1:]
    changed = F.not_equal(after, before)
    if equal_nan and is_inexact(ordered.dtype):
        both = F.logical_and(F.isnan(before), F.isnan(after))
        changed = F.logical_and(changed, F.logical_not(both))
    return _run_starts(changed, ordered.shape[0])


@public()
def unique(
    x: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements in ascending order, as `numpy.unique`.

    With `axis`, the distinct slices along it, in lexicographic order. On request there
    follow: the position where each occurs first, the positions that rebuild `x` from
    them, and how often each occurs. The result is sorted whatever `sorted` is. NaNs are
    one element unless `equal_nan` is False; slices of several elements with NaN differ.
    """
    value = as_strong_value(x)
    more_results = (return_index, return_inverse, return_counts)
    if axis is not None and value.type.rank == 1:  # its slices are its elements
        normal_axis(axis, 1, "unique")
        axis = None
    if axis is None:
        flat = F.ravel(value)
        if not any(more_results):
            ordered = F.sort(flat)
            return ordered[_first_of_runs(ordered, equal_nan)]
        order = F.argsort(flat)
        first = _first_of_runs(flat[order], equal_nan)
        shape: Any = value.shape
    else:
        at = normal_axis(axis, value.type.rank, "unique")
        order, first = _slice_order(F.moveaxis(value, at, 0))
        shape = (value.shape[at],)
        flat = value
    source = order[first]
    results = [flat[source] if axis is None else F.take(value, source, axis=axis)]
    results += [source] if return_index else []
    results += [F.reshape(_inverse(order, first), shape)] if return_inverse else []
    results += [_group_sizes(first)] if return_counts else []
    return tuple(results) if any(more_results) else results[0]


def _inverse(order: Value, first: Value) -> Value:
    """The number of the group that each element belongs to."""
    group = F.cumsum(first) - 1
    return F.zeros_like(order).at[order].set(group)


def _group_sizes(first: Value) -> Value:
    starts = F.flatnonzero(first)
    return F.diff(starts, append=F.reshape(F.asarray(first.shape[0]), (1,)))


@op()
def _lexsort_rows(keys: Array) -> TensorType:
    """The order along the last axis; the last key on the first axis counts most."""
    if keys.type.rank < 2:
        raise type_error("needs a matrix")
    return TensorType(INT64, keys.type.shape[1:])


_lexsort_rows.emit(print_lexsort_rows)
_lexsort_rows.no_gradient("its results are integers")
_lexsort_rows.batch(lambda n, batched, keys: _lexsort_rows(F.swapaxes(keys, 0, 1)))


@_lexsort_rows.padding
def _(pad: Padding, keys: PaddedValue) -> Value:
    """Make the keys of padding all the same, and add one that sorts padding last."""
    value, axis = pad.filled(keys, (0,), 0), keys.type.rank - 1
    if axis in keys.axes:
        inside = pad.mask(keys.type.shape[axis], axis, keys.type.rank)
        behind = cast(F.logical_not(inside), value.dtype)
        row = F.broadcast_to(behind, (1, *value.type.shape[1:]))
        value = F.concatenate([value, row], axis=0)
    return _lexsort_rows(value)


def _slice_order(rows: Value) -> tuple[Value, Value]:
    """The order that sorts rows, and where a row differs from the one before."""
    n = rows.shape[0]
    flat = F.reshape(rows, (n, F.size_value(product(rows.type.shape[1:]))))
    # A constant key that counts least, since there may be no columns at all.
    keys = F.concatenate([F.zeros((1, n), flat.dtype), F.flip(flat.T, 0)])
    order = _lexsort_rows(keys)
    ordered = flat[order]
    changed = F.any(F.not_equal(ordered[1:], ordered[:-1]), axis=1)
    return order, _run_starts(changed, n)


@public()
def unique_all(x: ArrayLike, /) -> UniqueAll:
    """Distinct elements, first positions, inverse positions and counts.

    As in the Array API, every NaN is distinct. The values are sorted.
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


@public()
def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """The distinct elements, sorted, and how often each occurs; NaNs are distinct."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


@public()
def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """The sorted distinct elements and what rebuilds `x`; NaNs are distinct."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


@public()
def unique_values(x: ArrayLike, /) -> Value:
    """The distinct elements, sorted; NaNs are distinct."""
    return unique(x, equal_nan=False)


@public()
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """A mask of the elements that equal some element of `test_elements`.

    `assume_unique` has no effect.
    """
    a, b = promoted(element, F.ravel(test_elements))
    if b.dtype.kind == "c" or _is_small(b.type.shape[0]):
        is_member = F.any(F.equal(F.expand_dims(a, -1), b), axis=-1)
    else:
        is_member = _is_member(a, F.sort(b))
    return F.logical_not(is_member) if invert else is_member


def _is_small(size: Size) -> bool:
    """Whether comparing with each element is faster than searching."""
    return isinstance(size, int) and size <= 16


def _is_member(x: Value, table: Value) -> Value:
    """A mask of the elements of `x` in the sorted `table`, which may be empty."""
    if x.dtype == BOOL:
        x, table = cast(x, INT64), cast(table, INT64)
    first = F.searchsorted(table, x, side="left")
    is_member = F.searchsorted(table, x, side="right") > first
    if not is_float(x.dtype):
        return is_member
    return F.logical_and(is_member, F.logical_not(F.isnan(x)))


def _vectors(x: ArrayLike, y: ArrayLike) -> tuple[Value, Value]:
    a, b = promoted(x, y)
    return F.ravel(a), F.ravel(b)


@public()
def union1d(x: ArrayLike, y: ArrayLike) -> Value:
    """The distinct elements of both arrays together, sorted."""
    return unique(F.concatenate(_vectors(x, y)))


@public()
def intersect1d(
    x: ArrayLike,
    y: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
) -> Any:
    """The distinct elements that both arrays have, sorted.

    With `return_indices`, the first position of each in either flattened array follows.
    `assume_unique` has no effect.
    """
    a, b = _vectors(x, y)
    if not return_indices:
        ordered = F.sort(a)
        return ordered[F.logical_and(_first_of_runs(ordered, True), isin(ordered, b))]
    order, other = F.argsort(a), F.argsort(b)
    ordered = a[order]
    shared = F.logical_and(_first_of_runs(ordered, True), isin(ordered, b))
    values = ordered[shared]
    return values, order[shared], other[F.searchsorted(b[other], values)]


@public()
def setdiff1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> Value:
    """The distinct elements of `x` that `y` does not have, sorted.

    With `assume_unique`, the elements of `x` are kept as they are, in their order.
    """
    elements = F.ravel(as_strong_value(x))
    if assume_unique:
        return elements[isin(elements, y, invert=True)]
    ordered = F.sort(elements)
    return ordered[
        F.logical_and(_first_of_runs(ordered, True), isin(ordered, y, invert=True))
    ]


@public()
def setxor1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> Value:
    """The distinct elements that exactly one of both arrays has, sorted.

    `assume_unique` has no effect.
    """
    a, b = _vectors(x, y)
    both = F.concatenate([a, b])
    order = F.argsort(both)
    ordered = both[order]
    in_one = F.not_equal(isin(ordered, a), isin(ordered, b))
    first = _first_of_runs(ordered, True)
    if is_inexact(a.dtype):  # NaN counts as in neither, and occurs once per array
        second = order >= a.shape[0]
        changed = _run_starts(F.not_equal(second[1:], second[:-1]), both.shape[0])
        missing = F.isnan(ordered)
        first = F.where(missing, F.logical_or(first, changed), first)
        in_one = F.logical_or(in_one, missing)
    return ordered[F.logical_and(first, in_one)]
