"""Quantiles, percentiles and medians, by all methods of NumPy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    constant,
    literal_of,
    normal_axes,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.types import BOOL, FLOAT64, INT64, DType, is_inexact, is_integer
from graphc.ops.common.axes import AxisArgument, other_axes
from graphc.ops.common.broadcasting import common_dtype

Position = tuple[Value, Value | None]  # a position, and how far on to the next one


def _interpolation(
    alpha: float, beta: float
) -> Callable[[Value | int, Value], Position]:
    """Interpolation between positions shifted by `alpha` and `beta`."""

    def place(n: int | Value, q: Value) -> Position:
        at = n * q + (alpha + q * (1 - alpha - beta)) - 1
        return F.floor(at), at - F.floor(at)

    return place


def _linear(n: int | Value, q: Value) -> Position:
    at = (n - 1) * q
    return F.floor(at), at - F.floor(at)


def _midpoint(n: int | Value, q: Value) -> Position:
    at = (n - 1) * q
    low = F.floor(at)
    return low, F.where(F.equal(at, low), 0.0, 0.5)


# Where a method jumps, nothing is subtracted from a product before it is rounded: a
# compiler may round once for both, and would jump elsewhere.


def _inverted(n: int | Value, q: Value) -> Position:
    return F.ceil(n * q) - 1, None


def _averaged(n: int | Value, q: Value) -> Position:
    at = n * q
    low = F.floor(at)
    return low - 1, F.where(F.equal(at, low), 0.5, 1.0)


def _closest(n: int | Value, q: Value) -> Position:
    """The closest position; halves go to the even one, counted from 1."""
    twice = 2 * n * q
    whole = F.floor(twice)
    low = F.floor((whole - 3) / 2)
    half = F.logical_and(F.equal(twice, whole), F.equal(whole % 2, 1))
    stay = F.logical_and(half, F.equal(low % 2, 1))
    return F.where(stay, low, low + 1), None


_METHODS: dict[str, Callable[[Any, Value], Position]] = {
    "inverted_cdf": _inverted,
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _interpolation(0, 1),
    "hazen": _interpolation(0.5, 0.5),
    "weibull": _interpolation(0, 0),
    "linear": _linear,
    "median_unbiased": _interpolation(1 / 3, 1 / 3),
    "normal_unbiased": _interpolation(3 / 8, 3 / 8),
    "lower": lambda n, q: (F.floor((n - 1) * q), None),
    "higher": lambda n, q: (F.ceil((n - 1) * q), None),
    "midpoint": _midpoint,
    "nearest": lambda n, q: (F.rint((n - 1) * q), None),
}
_PICKING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")


def _last_axis(
    value: Value, axis: AxisArgument, name: str
) -> tuple[Value, tuple[int, ...]]:
    """Join the reduced axes into one last axis; also return them."""
    axes = normal_axes(axis, value.type.rank, name)
    others = other_axes(value.type.rank, axes)
    moved = F.transpose(value, (*others, *axes))
    count = math.prod(value.shape[a] for a in axes)
    return F.reshape(moved, (*(value.shape[a] for a in others), count)), axes


def _as_valid(
    x: ArrayLike, q: ArrayLike, method: str, name: str
) -> tuple[Value, Value]:
    """Convert the array and the quantiles to values. Raises GraphError if unfit."""
    value, at = as_strong_value(x), as_value(q)
    if at.dtype == BOOL:
        at = cast(at, INT64)
    if method not in _METHODS:
        expected = ", ".join(_METHODS)
        raise graph_error(f"unknown method {method!r}", op=name, expected=expected)
    if value.dtype.kind == "c":
        raise graph_error("needs real numbers", op=name, got=str(value.type))
    if value.dtype == BOOL and method not in _PICKING:
        hint = "choose a method that picks an element, such as 'nearest'"
        raise graph_error("cannot interpolate bools", op=name, hint=hint)
    if at.type.rank > 2:
        problem = "q must be a scalar, a vector or a matrix"
        raise graph_error(problem, op=name, got=str(at.type))
    known = literal_of(at)
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise graph_error("a quantile is not in 0..1", op=name, got=f"q = {known}")
    return value, at


Take = Callable[[Value], Value]  # sorted rows read at positions in their last axis


def _read_quantiles(
    value: Value, q: Value, method: str, n: int | Value, take: Take
) -> Value:
    """Read quantiles from sorted rows of `n` elements: a size, or a count per row."""
    whole = is_integer(q.dtype)  # 0 or 1: the first or the last element
    wide = cast(q, FLOAT64) if q.type.weak or whole else q
    low, share = _METHODS[method](_as_number(n, wide.dtype), wide)
    last = F.maximum(n - 1, 0)
    below = cast(low, INT64)
    a = take(F.clip(below, 0, last))
    if share is None or (method == "linear" and whole):
        return a
    b = take(F.clip(below + 1, 0, last))
    to = common_dtype([value, as_value(0.5) if wide is not q else q])
    if not is_inexact(value.dtype):
        a, b = cast(a, to), cast(b, to)
    return _interpolate(a, b, cast(share, to))


def _as_number(n: int | Value, dtype: DType) -> int | Value:
    """Cast `n` to `dtype`, unless it adapts to the other operand by itself."""
    if isinstance(n, Value) and not n.type.weak:
        return cast(n, dtype)
    return n


def _interpolate(a: Value, b: Value, share: Value) -> Value:
    """Interpolate from the nearer of `a` and `b`, as NumPy; NaN beside infinities."""
    gap = b - a
    return F.where(share >= 0.5, b - gap * (1 - share), a + gap * share)


def _nan_rows(rows: Value) -> Value | None:
    """Which rows hold a NaN; None if their dtype has none."""
    return F.any(F.isnan(rows), axis=-1) if is_inexact(rows.dtype) else None


def _with_result_axes(
    values: Value,
    nan_rows: Value | None,
    axes: tuple[int, ...],
    rank: int,
    keepdims: bool,
) -> Value:
    """Put NaN in bad rows, the axes of q first, and the reduced axes back if asked."""
    if nan_rows is not None:
        values = F.where(_append_axes(nan_rows, rank), np.nan, values)
    front = tuple(range(rank))
    values = F.moveaxis(values, tuple(range(-rank, 0)), front)
    return F.expand_dims(values, tuple(a + rank for a in axes)) if keepdims else values


def _append_axes(x: Value, count: int) -> Value:
    return F.expand_dims(x, tuple(range(-count, 0)))


def _row_reader(ordered: Value, rank: int) -> Take:
    """Return a reader of each row at its own positions, in the last `rank` axes."""

    def take(index: Value) -> Value:
        rows = ordered.shape[:-1]
        flat = F.reshape(index, (*rows, math.prod(index.shape[index.ndim - rank :])))
        elements = F.take_along_axis(ordered, flat, axis=-1)
        return F.reshape(elements, (*rows, *index.shape[index.ndim - rank :]))

    return take


def _quantile(
    value: Value,
    q: Value,
    axis: AxisArgument,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
) -> Value:
    rows, axes = _last_axis(value, axis, "quantile")
    problem = "there is no element to choose from"
    rows = F._at_most(1, rows.type.shape[-1], problem, rows, "quantile")
    if weights is not None:
        share = _last_axis(_weights(value, weights, axes, method), axes, "quantile")[0]
        quantiles = _weighted_quantiles(rows, share, q)
    else:
        ordered = F.sort(rows)
        last = ordered.type.rank - 1
        quantiles = _read_quantiles(
            value, q, method, ordered.shape[-1],
            lambda i: F._gather(ordered, strong(i), axes=(last,), inside=(True,)),
        )
    nan_rows = _nan_rows(rows)
    return _with_result_axes(quantiles, nan_rows, axes, q.type.rank, keepdims)


def _weights(
    value: Value, weights: ArrayLike, axes: tuple[int, ...], method: str
) -> Value:
    """The weights in the shape of the array, as float64."""
    if method != "inverted_cdf":
        raise graph_error(f"the method {method!r} takes no weights", op="quantile")
    return cast(F._weights_of(value, weights, axes, "quantile"), FLOAT64)


def _weighted_quantiles(rows: Value, weights: Value, q: Value) -> Value:
    """The first element of each row at which its share `q` of the weight is reached."""
    order = F.argsort(rows)
    ordered = F.take_along_axis(rows, order, axis=-1)
    total = F.cumsum(F.take_along_axis(weights, order, axis=-1), axis=-1)
    share = total / F.expand_dims(total[..., -1], -1)
    if not q.type.weak and not is_integer(q.dtype):
        share = cast(share, q.dtype)
    rank = q.type.rank
    share = F.where(F.equal(share, 0), -1, share)
    middle = tuple(range(-rank - 1, -1))
    share = F.expand_dims(share, middle)
    index = F.sum(F.less(share, F.expand_dims(q, -1)), axis=-1)
    return _row_reader(ordered, rank)(F.minimum(index, ordered.shape[-1] - 1))


def _hundredth(q: ArrayLike) -> Value:
    """Return `q / 100`, as a constant if `q` is one."""
    percent = as_value(q)
    known = literal_of(percent)
    if known is None:
        # XLA multiplies by the reciprocal of a constant, which rounds otherwise.
        dtype = percent.dtype if is_inexact(percent.dtype) else FLOAT64
        share = cast(percent, dtype, percent.type.weak)
        share = F.true_divide(share, F.where(F.isnan(share), share, 100))
        return cast(share, dtype, percent.type.weak)
    return constant(np.true_divide(known, 100), percent.type.weak)


@public()
def median(x: ArrayLike, axis: AxisArgument = None, keepdims: bool = False) -> Value:
    """The median over `axis`: the mean of the two middle elements; NaN if one is.

    The median of no elements is NaN.
    """
    rows, axes = _last_axis(as_strong_value(x), axis, "median")
    n = rows.shape[-1]
    low, high = F.maximum(n - 1, 0) // 2, n // 2  # one, two or no elements
    medians = F.mean(F.sort(rows)[..., low : high + 1], axis=-1)
    return _with_result_axes(medians, _nan_rows(rows), axes, 0, keepdims)


def _sorted_rows(
    x: ArrayLike, axis: AxisArgument, name: str
) -> tuple[Value, Value, tuple[int, ...]]:
    """Sorted rows, how many elements of each are not NaN, and the reduced axes.

    Rows that may be empty get a NaN at the end, so that there is an element to read.
    """
    value = as_strong_value(x)
    rows, axes = _last_axis(value, axis, name)
    present = F.sum(F.logical_not(F.isnan(rows)), axis=-1)
    ordered = F.sort(rows)
    if dims.less_equal(1, rows.type.shape[-1]) is not True:
        shape = (*rows.type.shape[:-1], 1)
        ordered = F.concatenate([ordered, F.full(shape, np.nan, rows.dtype)], axis=-1)
    return ordered, present, axes


def _nan_quantile(
    value: Value,
    q: Value,
    axis: AxisArgument,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
) -> Value:
    if not is_inexact(value.dtype):
        return _quantile(value, q, axis, method, keepdims, weights)
    if weights is not None:
        problem = "weights are not available for an array that may hold NaN"
        raise graph_error(problem, op="nanquantile")
    ordered, present, axes = _sorted_rows(value, axis, "nanquantile")
    rank = q.type.rank
    count = _append_axes(present, rank)
    quantiles = _read_quantiles(value, q, method, count, _row_reader(ordered, rank))
    return _with_result_axes(quantiles, F.equal(present, 0), axes, rank, keepdims)


def _quantiles(
    name: str,
    of_rows: Callable[..., Value],
    doc: str,
    share: Callable[[ArrayLike], Value] = as_value,
) -> None:
    """Declare a function of quantiles; `share` maps its `q` to 0..1."""

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike,
        q: ArrayLike,
        axis: AxisArgument = None,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
    ) -> Value:
        value, at = _as_valid(x, share(q), method, name)
        return of_rows(value, at, axis, method, keepdims, weights)


_quantiles(
    "quantile",
    _quantile,
    """Quantiles `q` (in 0..1, of a rank up to 2, whose axes come first) over `axis`.

    NaN in a row makes its result NaN. All methods of `numpy.quantile`; `weights`
    need "inverted_cdf". A `q` outside 0..1 that is not a constant means the nearest.
    """,
)
_quantiles(
    "percentile", _quantile, "Percentiles: `quantile` at `q / 100`.", _hundredth
)
_quantiles(
    "nanquantile",
    _nan_quantile,
    "The quantiles of what is not NaN, as `quantile`; NaN where nothing else is.",
)
_quantiles(
    "nanpercentile",
    _nan_quantile,
    "The percentiles of what is not NaN: `nanquantile` at `q / 100`.",
    _hundredth,
)


@public()
def nanmedian(x: ArrayLike, axis: AxisArgument = None, keepdims: bool = False) -> Value:
    """The median of elements that are not NaN; NaN if there are none."""
    value = as_strong_value(x)
    if not is_inexact(value.dtype):
        return median(value, axis, keepdims)
    ordered, present, axes = _sorted_rows(value, axis, "nanmedian")
    low, high = F.maximum(present - 1, 0) // 2, present // 2
    take = _row_reader(ordered, 0)
    a, b = take(low), take(high)
    mean = F.mean(F.stack([a, b]), axis=0)
    medians = F.where(F.equal(low, high), a, mean)
    return _with_result_axes(medians, F.equal(present, 0), axes, 0, keepdims)
