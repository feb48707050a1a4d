"""Values and sums of polynomials, and products of two vectors moved over each other.

The products are those of coefficients of polynomials. Floats go through `nn.conv`;
integers and bools, which not every device convolves exactly, through windows. Under
padding, floats are convolved at true sizes where neither size is a number.
"""

from typing import Any, Literal

from graphc.errors import graph_error
from graphc.ir import dims
from graphc.ir.build import as_value, cast, size_value, strong
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import BOOL, INT64, is_inexact
from graphc.ops.common.broadcasting import promoted_as_arrays

Overlap = Literal["full", "same", "valid"]


@public()
def polyval(p: Any, x: Any) -> Value:
    """The polynomial with coefficients `p`, highest power first, at each of `x`.

    It is `numpy.polyval`, by Horner's rule. Where the number of coefficients is not
    known when the graph is built, the powers of `x` are multiplied out instead.
    """
    coefficients, value = promoted_as_arrays(p, x)
    if not coefficients.type.rank:
        got = str(coefficients.type)
        raise graph_error("needs a vector of coefficients", op="polyval", got=got)
    count = coefficients.type.shape[0]
    if not isinstance(count, int):
        return _by_powers(coefficients, value)
    found = F.zeros_like(value if count else strong(as_value(x)))
    for i in range(count):
        found = found * value + coefficients[i]
    return found


def _by_powers(coefficients: Value, x: Value) -> Value:
    """The sum of coefficients times powers; those of bools are counted."""
    count, *others = coefficients.shape
    powers = F.reshape(F.vander(F.ravel(x), count).T, (count, *x.shape))
    ranks = len(others), x.type.rank
    rank = max(ranks)
    terms = [
        F.reshape(v, (count, *(1,) * (rank - r), *v.shape[1:]))
        for v, r in zip((coefficients, powers), ranks, strict=True)
    ]
    found = F.sum(F.multiply(*terms), axis=0, dtype=powers.dtype)
    return F.not_equal(found, 0) if x.dtype == BOOL else cast(found, x.dtype)


@public()
def polyadd(a1: Any, a2: Any) -> Value:
    """The sum of two polynomials by their coefficients, as `numpy.polyadd`."""
    return F.add(*_of_one_length(a1, a2, "polyadd"))


@public()
def polysub(a1: Any, a2: Any) -> Value:
    """The difference of two polynomials by their coefficients, as `numpy.polysub`."""
    return F.subtract(*_of_one_length(a1, a2, "polysub"))


def _of_one_length(a: Any, b: Any, name: str) -> list[Value]:
    """Both vectors of coefficients, the shorter one with zeros before it."""
    both = _vectors(F.atleast_1d(a), F.atleast_1d(b), name)
    most = dims.maximum(*(v.type.shape[0] for v in both))
    return [F.pad(v, (size_value(most - v.type.shape[0]), 0)) for v in both]


@public()
def convolve(a: Any, v: Any, mode: Overlap = "full") -> Value:
    """Two vectors moved over each other in opposite directions, as `numpy.convolve`.

    The result has n + m - 1 elements where `mode` is "full", as many as the longer
    vector with "same", and with "valid" those where the shorter one lies inside.
    Sizes may be symbolic. Raises GraphError where a vector is empty.
    """
    x, kernel = _not_empty(F.atleast_1d(a), F.atleast_1d(v), "convolve")
    if isinstance(x.shape[0], int) and not isinstance(kernel.shape[0], int):
        x, kernel = kernel, x  # which can be padded: see `nn.conv`
    return _moved_over(x, F.flip(kernel), mode, "convolve", turned=False)


@public()
def correlate(a: Any, v: Any, mode: Overlap = "valid") -> Value:
    """The sums over n of a[n + k] * conj(v[n]) for each k, as `numpy.correlate`.

    `mode` says for which k, as in `convolve`. Sizes may be symbolic. Raises GraphError
    where a vector is empty.
    """
    x, kernel = _not_empty(a, v, "correlate")
    return _moved_over(x, F.conjugate(kernel), mode, "correlate", turned=True)


def _vectors(a: Any, b: Any, name: str) -> list[Value]:
    """Two vectors of one dtype."""
    both = promoted_as_arrays(a, b)
    if any(v.type.rank != 1 for v in both):
        got = ", ".join(str(v.type) for v in both)
        raise graph_error("needs two vectors", op=name, got=got)
    return both


def _not_empty(a: Any, b: Any, name: str) -> list[Value]:
    return [
        F._at_most(1, v.type.shape[0], "a vector is empty", v, name)
        for v in _vectors(a, b, name)
    ]


def _moved_over(
    x: Value, kernel: Value, mode: Overlap, name: str, turned: bool
) -> Value:
    """The sums of products with the kernel at each place that `mode` asks for."""
    n, m = x.type.shape[0], kernel.type.shape[0]
    start, length = _kept(n, m, mode, name, turned)
    low = m - 1 - start
    high = length + m - 1 - n - low
    widths = (size_value(low), size_value(high))
    if is_inexact(x.dtype):
        alone = (0, 1)
        found = F.nn.conv(
            F.expand_dims(x, alone), F.expand_dims(kernel, alone), padding=[widths]
        )
        return F.reshape(found, (length,))
    padded = F.pad(cast(x, INT64) if x.dtype == BOOL else x, widths)
    first, point = F.arange(size_value(length)), F.arange(size_value(m))
    windows = F.getitem(padded, F.expand_dims(first, 1) + point)
    found = F.matmul(windows, cast(kernel, windows.dtype))
    return F.not_equal(found, 0) if x.dtype == BOOL else found


def _kept(n: Size, m: Size, mode: Any, name: str, turned: bool) -> tuple[Size, Size]:
    """Which of all n + m - 1 sums are kept: the first, and how many.

    NumPy exchanges the vectors where the second is longer, and a correlation is then
    `turned` around: of an even number of sums at the ends, the other half is kept.
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
