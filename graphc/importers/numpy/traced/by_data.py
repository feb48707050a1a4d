"""Functions of NumPy that raise for some data, or whose dtype depends on data.

Where NumPy raises an error because of data, a condition is noted here, which the
compiled program checks.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.traced.arrays import (
    OWN,
    Wrapped,
    as_traced,
    content_of,
    holds_arrays,
    results_of,
)
from graphc.importers.numpy.traced.memory import is_symbolic, require
from graphc.ir.graph.build import as_size, as_value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import less_equal
from graphc.ir.types import is_float


def _is_listed(bins: Wrapped) -> bool:
    """Whether `bins` lists edges, or bins per axis, and is not a number of bins."""
    return isinstance(bins, (list, tuple)) or np.ndim(bins) > 0


def _eigenvalues(function: Callable[..., object]) -> Callable[..., object]:
    """`eig` or `eigvals`, only for complex matrices, where NumPy's are complex too."""

    def of_matrix(a: object) -> object:
        if as_value(content_of(a)).dtype.kind == "c":
            return results_of(function, (a,), {})
        name = function.__name__
        of_symmetric = {"eig": "eigh", "eigvals": "eigvalsh"}[name]
        problem = "NumPy gives real eigenvalues if all are real, which depends on data"
        hint = f"write np.linalg.{name}(a.astype(complex)) for complex ones, or "
        hint += f"np.linalg.{of_symmetric}(a) of a symmetric matrix"
        raise graph_error(problem, op=f"numpy.linalg.{name}", hint=hint)

    return of_matrix


def _digitize(x: object, bins: object, right: bool = False) -> object:
    edges = as_value(content_of(bins))
    up, down = edges[1:] >= edges[:-1], edges[1:] <= edges[:-1]
    message = "digitize: bins are neither ascending nor descending"
    require(F.logical_or(F.all(up), F.all(down)), message)
    return results_of(np.digitize, (x, bins, right), {})


def _require_ascending(bins: object, name: str) -> None:
    """Make calls raise ValueError where the edges of bins do not ascend."""
    edges = F.asarray(content_of(bins))
    rise = F.logical_not(F.any(edges[:-1] > edges[1:]))
    require(rise, f"{name}: the edges of bins do not ascend")


def _histogram_function(function: Callable[..., object]) -> Callable[..., object]:
    """`histogram` or `histogram_bin_edges`, for ascending edges or finite data."""

    def by_bins(
        a: object,
        bins: object = 10,
        range: object = None,
        *args: object,
        **options: object,
    ) -> object:
        name = function.__name__
        if _is_listed(bins):
            _require_ascending(bins, name)
        elif range is None and not isinstance(bins, str):
            finite = F.all(F.isfinite(F.asarray(content_of(a))))
            require(finite, f"{name}: the range of the data is not finite")
        return results_of(function, (a, bins, range, *args), options)

    return by_bins


def _quantile_function(
    function: Callable[..., object], most: int
) -> Callable[..., object]:
    """A function of quantiles or percentiles, requiring `q` to be within 0..`most`."""

    def of_shares(a: object, q: object, *args: object, **options: object) -> object:
        shares = F.asarray(content_of(q))
        within = F.all(F.logical_and(shares >= 0, shares <= most))
        require(within, f"{function.__name__}: a share is not in 0..{most}")
        return results_of(function, (a, q, *args), options)

    return of_shares


def _nan_quantile_function(
    function: Callable[..., object], most: int
) -> Callable[..., object]:
    """As `_quantile_function`, but `nanmean` for an empty array, as in NumPy."""
    of_shares = _quantile_function(function, most)

    def of_numbers(
        a: object,
        q: object,
        axis: object = None,
        *args: object,
        keepdims: bool = False,
        **options: object,
    ) -> object:
        count = as_size(as_value(content_of(a)).size)
        if less_equal(count, 0):
            return results_of(np.nanmean, (a, axis), {"keepdims": keepdims})
        if F.asarray(content_of(q)).ndim and not less_equal(1, count):
            message = f"{function.__name__}: for an empty array, NumPy gives one result"
            require(as_value(count) > 0, f"{message} for all shares")
        return of_shares(a, q, axis, *args, keepdims=keepdims, **options)

    return of_numbers


def _unravel_index(indices: object, shape: object, order: str = "C") -> object:
    places, sizes = F.asarray(content_of(indices)), content_of(shape)
    count = F.prod(F.asarray(sizes, "int64"))
    within = F.all(F.logical_and(places >= 0, places < count))
    message = "unravel_index: an index is out of bounds for the shape"
    require(within, message, "index")
    return results_of(np.unravel_index, (indices, shape, order), {})


def _histogram_of_several(
    sample: Wrapped,
    bins: Wrapped = 10,
    range: Wrapped = None,
    density: bool | None = None,
    weights: Wrapped = None,
) -> tuple[object, list[Wrapped]]:
    """`np.histogramdd`: the number of points in each box, and the edges per axis."""
    points = as_traced(as_value(content_of(np.asarray(sample))))
    in_rows = isinstance(sample, (list, tuple)) or points.ndim < 2
    columns: list[Wrapped] = list(np.atleast_2d(points) if in_rows else points.T)
    each = bins if _is_listed(bins) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else range
    if len({len(columns), len(each), len(limits)}) > 1:
        problem = "takes as many bins and ranges as columns"
        raise graph_error(problem, op="numpy.histogramdd", got=str(len(columns)))
    by_axis = [
        np.asarray(b) if _is_listed(b) else np.histogram_bin_edges(x, b, r)
        for x, b, r in zip(columns, each, limits, strict=True)
    ]
    places: Wrapped = 0
    for edges in by_axis:
        _require_ascending(edges, "histogramdd")
    for column, edges in zip(columns, by_axis, strict=True):
        after = np.searchsorted(edges, column, side="right")
        places = places * (edges.shape[0] + 1) + after - (column == edges[-1])
    shape = [edges.shape[0] + 1 for edges in by_axis]
    counts = as_traced(as_value(np.zeros(math.prod(shape))))
    np.add.at(counts, places, 1.0 if weights is None else np.asarray(weights, float))
    inner = counts.reshape(shape)[(slice(1, -1),) * len(shape)].copy()
    return _as_density(inner, by_axis) if density else inner, by_axis


def _as_density(counts: Wrapped, by_axis: Sequence[Wrapped]) -> object:
    """Divide counts by the volumes of their boxes and by the sum of all counts."""
    total = counts.sum()
    for axis, edges in enumerate(by_axis):
        shape = [-1 if i == axis else 1 for i in range(len(by_axis))]
        counts = counts / np.diff(edges).reshape(shape)
    return counts / total


def _histogram_of_two(
    x: object, y: object, bins: Wrapped = 10, *args: Wrapped, **options: Wrapped
) -> tuple[object, ...]:
    """`np.histogram2d`."""
    pair = bins if _is_listed(bins) and len(bins) <= 2 else [bins, bins]
    counts, edges = _histogram_of_several([x, y], pair, *args, **options)
    return counts, *edges


def _position_function(function: Callable[..., object]) -> Callable[..., object]:
    """`nanargmax` or `nanargmin`, requiring a number that is not NaN in each row."""

    def position(*args: object, **options: object) -> object:
        places: Wrapped = results_of(function, args, options)
        is_there = F.all(as_value(content_of(places)) >= 0)
        require(is_there, f"{function.__name__}: All-NaN slice encountered")
        return places

    return position


def _count_each(x: object, weights: object = None, minlength: object = 0) -> object:
    """`np.bincount`: for an empty array NumPy counts, even where weights are given."""
    count = as_size(as_value(content_of(x)).size)
    if weights is not None and less_equal(count, 0):
        weights = None
    elif weights is not None and not less_equal(1, count):
        message = "bincount: for an empty array, NumPy gives integers in place of sums"
        require(as_value(count) > 0, message)
    return results_of(np.bincount, (x, weights, minlength), {})


def _least_squares(a: object, b: object, rcond: object = None) -> tuple[Wrapped, ...]:
    """`np.linalg.lstsq`, whose rank is an int32."""
    results: Wrapped = results_of(np.linalg.lstsq, (a, b, rcond), {})
    x, residuals, rank, s = results
    return x, residuals, rank.astype("int32"), s


def _indices(dimensions: Wrapped, *args: object, **options: object) -> object:
    """`np.indices`, requiring sizes that are not negative."""
    sizes = F.asarray(content_of(dimensions))
    require(F.all(sizes >= 0), "indices: negative dimensions are not allowed")
    return results_of(np.indices, (dimensions, *args), options)


def _polyfit(
    x: object, y: object, deg: Wrapped, *args: object, **options: object
) -> object:
    """`np.polyfit`, requiring a degree that is not negative and at least one point."""
    if not holds_arrays(deg) and np.min(deg) < 0:
        raise graph_error("needs a degree >= 0", op="numpy.polyfit", got=str(deg))
    count = as_value(as_value(content_of(x)).size)
    require(count > 0, "polyfit: there are no points")
    return results_of(np.polyfit, (x, y, deg, *args), options)


def _average(
    a: object,
    axis: Wrapped = None,
    weights: Wrapped = None,
    *args: object,
    **options: object,
) -> object:
    """`np.average`, requiring weights that do not sum to 0."""
    if weights is not None:
        shares = as_value(content_of(weights))
        own_axes = as_value(content_of(a)).ndim == shares.ndim
        sums = F.sum(shares, axis if own_axes else None)
        require(F.all(sums != 0), "average: weights sum to zero")
    return results_of(np.average, (a, axis, weights, *args), options)


def _partition_function(function: Callable[..., object]) -> Callable[..., object]:
    """`partition` or `argpartition`, requiring positions that the axis has."""

    def partition(
        a: object, kth: object, axis: int | None = -1, *args: object, **options: object
    ) -> object:
        x, places = as_value(content_of(a)), content_of(kth)
        if x.ndim and is_symbolic(places):
            at = F.asarray(places)
            n = x.size if axis is None else x.shape[axis]
            is_there = F.all(F.logical_and(-n <= at, at < n))
            is_there = F.logical_or(x.size == 0, is_there)
            require(is_there, f"{function.__name__}: kth is out of bounds")
        return results_of(function, (a, kth, axis, *args), options)

    return partition


def require_weights(fweights: object, aweights: object) -> None:
    """Make calls raise for weights that `np.cov` does not accept."""
    for name, content in ("fweights", fweights), ("aweights", aweights):
        if content is not None:
            shares = F.asarray(content_of(content))
            require(F.all(shares >= 0), f"cov: {name} cannot be negative")
            if name == "fweights" and is_float(shares.dtype):
                whole = F.all(shares == F.round(shares))
                require(whole, "cov: fweights must be integer")


OWN |= {
    "argpartition": _partition_function(np.argpartition),
    "average": _average,
    "bincount": _count_each,
    "digitize": _digitize,
    "eig": _eigenvalues(np.linalg.eig),
    "eigvals": _eigenvalues(np.linalg.eigvals),
    "histogram": _histogram_function(np.histogram),
    "histogram2d": _histogram_of_two,
    "histogram_bin_edges": _histogram_function(np.histogram_bin_edges),
    "histogramdd": _histogram_of_several,
    "indices": _indices,
    "lstsq": _least_squares,
    "nanargmax": _position_function(np.nanargmax),
    "nanargmin": _position_function(np.nanargmin),
    "nanpercentile": _nan_quantile_function(np.nanpercentile, 100),
    "nanquantile": _nan_quantile_function(np.nanquantile, 1),
    "partition": _partition_function(np.partition),
    "percentile": _quantile_function(np.percentile, 100),
    "polyfit": _polyfit,
    "quantile": _quantile_function(np.quantile, 1),
    "unravel_index": _unravel_index,
}
