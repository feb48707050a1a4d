"""Polynomials: values, sums and fits; convolution and correlation of two vectors.

Convolution multiplies polynomials by their coefficients. Floats go through `nn.conv`;
integers and bools, which not every device convolves exactly, go through windows.
"""

from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BOOL, INT64, UINT64, is_inexact
from graphc.ops.common.broadcasting import promoted_as_arrays

Overlap = Literal["full", "same", "valid"]


@public()
def polyval(p: ArrayLike, x: ArrayLike) -> Value:
    """The polynomial with coefficients `p`, highest power first, at each of `x`.

    As `numpy.polyval`, by Horner's rule. Where the number of coefficients is not known
    when the graph is built, powers of `x` are multiplied out instead; at infinity the
    value is NaN, as it is by Horner's rule.
    """
    coefficients, value = promoted_as_arrays(p, x)
    if not coefficients.type.rank:
        got = str(coefficients.type)
        raise graph_error("needs a vector of coefficients", op="polyval", got=got)
    count = coefficients.type.shape[0]
    if not isinstance(count, int):
        return _sum_powers(coefficients, value)
    total = F.zeros_like(value if count else as_strong_value(x))
    for i in range(count):
        total = total * value + coefficients[i]
    return total


def _sum_powers(coefficients: Value, x: Value) -> Value:
    """Sum coefficients times powers of `x`; for bools, whether the sum is not 0."""
    if x.dtype == UINT64:  # NumPy's powers of it are floats; int64 wraps around alike
        return cast(_sum_powers(cast(coefficients, INT64), cast(x, INT64)), UINT64)
    count, *others = coefficients.shape
    powers = F.reshape(F.vander(F.ravel(x), count).T, (count, *x.shape))
    ranks = len(others), x.type.rank
    rank = max(ranks)
    factors, terms = (
        F.reshape(v, (count, *(1,) * (rank - r), *v.shape[1:]))
        for v, r in zip((coefficients, powers), ranks, strict=True)
    )
    if is_inexact(x.dtype):  # powers may overflow beside a leading 0
        lost = F.logical_and(F.equal(factors, 0), F.isinf(terms))
        terms = F.where(lost, 0, terms)
    total = F.sum(factors * terms, axis=0, dtype=powers.dtype)
    if is_inexact(x.dtype):  # Horner's rule starts from 0, and 0 * inf is NaN
        none = F.equal(F.size_value(coefficients.type.shape[0]), 0)
        total = F.where(F.logical_or(none, F.isfinite(x)), total, np.nan)
    return F.not_equal(total, 0) if x.dtype == BOOL else cast(total, x.dtype)


@public()
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The sum of two polynomials by their coefficients, as `numpy.polyadd`."""
    return F.add(*_of_one_length(a1, a2, "polyadd"))


@public()
def polysub(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The difference of two polynomials by their coefficients, as `numpy.polysub`."""
    return F.subtract(*_of_one_length(a1, a2, "polysub"))


def _of_one_length(a: ArrayLike, b: ArrayLike, name: str) -> list[Value]:
    """Return both vectors of coefficients, the shorter one with leading zeros."""
    both = _vectors(F.atleast_1d(a), F.atleast_1d(b), name)
    most = dims.maximum(*(v.type.shape[0] for v in both))
    return [F.pad(v, (size_value(most - v.type.shape[0]), 0)) for v in both]


@public()
def convolve(a: ArrayLike, v: ArrayLike, mode: Overlap = "full") -> Value:
    """The convolution of two vectors, as `numpy.convolve`.

    The result has n + m - 1 elements where `mode` is "full", as many as the longer
    vector with "same", and with "valid" only those for which the shorter vector lies
    inside the longer one. Sizes may be symbolic. Raises GraphError where a vector is
    empty.
    """
    x, kernel = _not_empty(F.atleast_1d(a), F.atleast_1d(v), "convolve")
    if isinstance(x.shape[0], int) and not isinstance(kernel.shape[0], int):
        x, kernel = kernel, x  # where it is padded, a kernel of symbolic size is a loop
    return _slide_kernel(x, F.flip(kernel), mode, "convolve", turned=False)


@public()
def correlate(a: ArrayLike, v: ArrayLike, mode: Overlap = "valid") -> Value:
    """The sums over n of a[n + k] * conj(v[n]) for each k, as `numpy.correlate`.

    `mode` chooses the k, as in `convolve`. Sizes may be symbolic. Raises GraphError
    where a vector is empty.
    """
    x, kernel = _not_empty(a, v, "correlate")
    return _slide_kernel(x, F.conjugate(kernel), mode, "correlate", turned=True)


def _vectors(a: ArrayLike, b: ArrayLike, name: str) -> list[Value]:
    """Convert both arguments to vectors of one dtype."""
    both = promoted_as_arrays(a, b)
    if any(v.type.rank != 1 for v in both):
        got = ", ".join(str(v.type) for v in both)
        raise graph_error("needs two vectors", op=name, got=got)
    return both


def _not_empty(a: ArrayLike, b: ArrayLike, name: str) -> list[Value]:
    return [
        F._at_most(1, v.type.shape[0], "a vector is empty", v, name)
        for v in _vectors(a, b, name)
    ]


def _slide_kernel(
    x: Value, kernel: Value, mode: Overlap, name: str, turned: bool
) -> Value:
    """Sum the products with the kernel at each offset that `mode` asks for."""
    n, m = x.type.shape[0], kernel.type.shape[0]
    start, length = _overlap_range(n, m, mode, name, turned)
    low = m - 1 - start
    high = length + m - 1 - n - low
    widths = (size_value(low), size_value(high))
    if is_inexact(x.dtype):
        alone = (0, 1)
        result = F.nn.conv(
            F.expand_dims(x, alone), F.expand_dims(kernel, alone), padding=[widths]
        )
        return F.reshape(result, (length,))
    padded = F.pad(cast(x, INT64) if x.dtype == BOOL else x, widths)
    first, point = F.arange(size_value(length)), F.arange(size_value(m))
    windows = F.getitem(padded, F.expand_dims(first, 1) + point)
    result = F.matmul(windows, cast(kernel, windows.dtype))
    return F.not_equal(result, 0) if x.dtype == BOOL else result


def _overlap_range(
    n: Size, m: Size, mode: str, name: str, turned: bool
) -> tuple[Size, Size]:
    """The first of the n + m - 1 sums that is kept, and how many are.

    NumPy exchanges the vectors where the second is longer, and a correlation is then
    `turned` around: where an odd number of sums is dropped, one more goes at the start
    instead of the end.
    """
    less, more = dims.minimum(n, m), dims.maximum(n, m)
    if mode == "full":
        return 0, n + m - 1
    if mode == "valid":
        return less - 1, more - less + 1
    if mode == "same":
        longer = dims.minimum(1, more - n) if turned else 0
        return (less - 1 + longer) // 2, more
    expected = "'full', 'same' or 'valid'"
    raise graph_error("unknown mode", op=name, got=repr(mode), expected=expected)


@public()
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: ArrayLike,
    rcond: ArrayLike | None = None,
    *,
    w: ArrayLike | None = None,
    cov: "bool | Literal['unscaled']" = False,
) -> Any:
    """The coefficients, highest power first, that fit `y` at `x` in least squares.

    As `numpy.polyfit`: `y` has one column per fit, or one axis; `w` are weights of the
    points, by which both sides are multiplied. With `cov`, the covariance of the
    coefficients is returned too; "unscaled" leaves it unscaled, for weights that are
    1/sigma. Singular values below `rcond`, by default the size of `x` times the machine
    epsilon, count as zero. There is no warning of poor conditioning, and no `full`: see
    `linalg.lstsq`.
    """
    points, sides = promoted_as_arrays(F.add(x, 0.0), F.add(y, 0.0))
    if points.type.rank != 1 or sides.type.rank not in (1, 2):
        got = f"{points.type}, {sides.type}"
        problem = "needs a vector of points, and a vector or a matrix of values there"
        raise graph_error(problem, op="polyfit", got=got)
    terms, right = F.vander(points, F.add(deg, 1)), sides
    if w is not None:
        weights = F.expand_dims(as_value(w), 1)
        terms = terms * weights
        right = right * (weights if sides.type.rank == 2 else weights[:, 0])
    scale = F.sqrt(F.sum(terms * terms, axis=0))
    least = _default_rcond(points) if rcond is None else rcond
    fit = F.linalg.lstsq(terms / scale, right, least)[0]
    coefficients = fit / (F.expand_dims(scale, 1) if sides.type.rank == 2 else scale)
    if not cov:
        return coefficients
    spread = F.linalg.inv(F.matmul((terms / scale).T, terms / scale))
    spread = spread / F.outer(scale, scale)
    if cov == "unscaled":
        return coefficients, spread
    errors = F.sum(F.square(right - F.matmul(terms, coefficients)), axis=0)
    return coefficients, _scale_matrix(
        spread, errors / (points.shape[0] - terms.shape[1])
    )


def _default_rcond(points: Value) -> Value:
    """The number of points times the machine epsilon."""
    epsilon = float(F.finfo(points.dtype).eps)
    return F.multiply(cast(as_value(points.shape[0]), points.dtype), epsilon)


def _scale_matrix(spread: Value, factors: Value) -> Value:
    """Multiply a matrix by a number, or by each of a vector along a new last axis."""
    return F.expand_dims(spread, 2) * factors if factors.type.rank else spread * factors
