"""Python's own functions of numbers, within NumPy functions that are traced."""

import itertools
import math
import warnings
from math import sqrt

import numpy as np
import pytest

import graphc

SIZES = (6, 9, 14, 5, 7, 21, 33, 12, 50, 40, 64, 16, 8)


def vector(n):
    return np.random.default_rng(n).normal(size=n)


def scaled(x):
    return x / float(len(x)), x / math.sqrt(len(x)), x * sqrt(len(x)) - math.log(len(x))


def parts(x):
    k = int(0.1 * len(x))
    ordered = np.sort(x)
    middle = ordered[k : len(x) - k].mean()
    return x[: int(len(x) * 0.5)].sum(), ordered[int(0.9 * (len(x) - 1))], middle


def whole_numbers(x):
    n = len(x)
    rounded = round(n / 3), round(n / 4 + 0.5), math.floor(n / 3), math.ceil(n / 4)
    exact = math.isqrt(n), math.trunc(n / 7), int(math.log2(n)), math.floor(n)
    return [x[0] * number for number in rounded + exact]


def transforms(x):
    length = 2 ** int(math.ceil(math.log2(2 * len(x))))
    spectrum = np.fft.rfft(x, length)
    return np.fft.irfft(spectrum * spectrum.conj(), length)[: len(x)]


def padded_transforms(x):
    length = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, length)
    return np.fft.irfft(spectrum * spectrum.conj(), length)[: len(x)]


def counted(x):
    n = len(x)
    i, j = np.triu_indices(n, 1)
    return (
        abs(x[i] - x[j]).sum() / math.comb(n, 2),
        x * math.comb(n, 3),
        x * n.bit_length(),
    )


def divisors(x):
    n = len(x)
    return (
        x * math.gcd(n, 12),
        x * math.lcm(n, 4, 6),
        x * math.fmod(n, 7),
        x * math.gcd(),
    )


def bins(x):
    return np.histogram(x, int(math.ceil(math.log2(len(x)) + 1)))[0]


def largest(x):
    k = max(1, int(len(x) * 0.1))
    few = min(int(len(x) / 3), 5)
    return np.sort(x)[-k:].mean(), x[:few].sum(), max(0.5, len(x) / 9.0) * x[0]


def of_data(x):
    total = float(x.sum())
    whole = int(abs(x).sum() * 10) % 7
    return (
        total * 2,
        x * whole,
        max(total, 0.0),
        math.exp(min(float(x[0]), 0.0)),
        round(x[0]),
    )


def of_float32(x):
    few = x.astype("float32")
    return few * float(few.sum()), few / math.sqrt(len(x)), few * round(few[0] * 3)


def as_classes(x):
    """Use `float` and `int` on plain numbers, and as classes."""
    y = np.zeros(len(x), float) + np.arange(3, dtype=int).sum() + float("1.5")
    kinds = [isinstance(x.sum(), float), isinstance(len(x), (int, float))]
    kinds += [isinstance(2.5, float), float == float, int in (int, str)]  # noqa: E721
    named = {float: 3.0, int: 4.0}
    return y + int("3") + named[float], [x[0] * k for k in kinds], x.astype(int)


def others(x):
    n = len(x)
    a = math.atan2(n, 3), math.hypot(n, 4), math.log(n, 3), math.pow(n, 0.5)
    b = math.sin(n), math.tanh(n / 9), math.log1p(n), math.lgamma(n + 1), math.cbrt(n)
    return [x[0] * number for number in (*a, *b)]


SIZED = (scaled, parts, whole_numbers, transforms, padded_transforms, counted, divisors)
FUNCTIONS = (*SIZED, bins, largest, of_data, others)
ALL = (*FUNCTIONS, of_float32, as_classes)


def same(results, expected):
    results, expected = (
        x if isinstance(x, (tuple, list)) else [x] for x in (results, expected)
    )
    for a, b in zip(results, expected, strict=True):
        if isinstance(b, list):
            same(a, b)
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


WAYS = [*itertools.product(ALL, ["numpy"], [None, "pad"])]
WAYS += zip(ALL, itertools.repeat("jax"), itertools.cycle([None, "pad"]), strict=False)


@pytest.mark.parametrize(("function", "backend", "dims"), WAYS)
def test_one_program_has_the_numbers_of_python(function, backend, dims):
    ours = graphc.jit(function, frontend="numpy", backend=backend, dims=dims)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in SIZES:
            same(ours(vector(n)), function(vector(n)))
    if backend == "jax":
        assert len(ours.stats().compilations) <= 9


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_integer_roots_are_exact(backend):
    def root(x):
        return math.isqrt(int(x[0]))

    ours = graphc.jit(root, frontend="numpy", backend=backend)
    roots = [0, 1, 2, 94906265, 94906267, 3037000498, 3037000499]
    near = [max(r * r + more, 0) for r in roots for more in (-1, 0, 1)]
    for number in (*near, 2**53 + 1, 2**63 - 1):
        x = np.array([number], "int64")
        assert int(ours(x)) == root(x), number


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_bits_are_counted_exactly(backend):
    def bits(x):
        return int(x[0]).bit_length()

    ours = graphc.jit(bits, frontend="numpy", backend=backend)
    ends = [2**k + more for k in (0, 1, 31, 32, 33, 52, 53, 54, 62) for more in (-1, 0)]
    for number in (*ends, 2**63 - 1):
        for signed in (number, -number):
            x = np.array([signed], "int64")
            assert int(ours(x)) == bits(x), signed
    with pytest.raises(OverflowError):
        ours(np.array([-(2**63)]))
    no_method = graphc.jit(lambda x: x[0].bit_length(), frontend="numpy")
    with pytest.raises(AttributeError, match="bit_length"):
        no_method(np.ones(3))


def _cube(x):
    return int(x[0]) ** 3


def _mixed(x):
    total = 0
    for i in range(2):
        total = total * 1_000_003 + int(x[i])
    return total % 97


def _bit(x):
    return 1 << int(x[0])


def _difference(x):
    return int(x[0]) - int(x[1])


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize(
    ("function", "fitting", "beyond"),
    [
        (_cube, [2**20, 1], [2**21, 1]),
        (_mixed, [2**42, 5], [2**44, 5]),
        (_bit, [62, 1], [63, 1]),
        (_difference, [-(2**62), 2**61], [-(2**62), 2**62 + 2**50]),
    ],
)
def test_integers_of_data_have_64_bits_or_are_refused(
    function, fitting, beyond, backend
):
    ours = graphc.jit(function, frontend="numpy", backend=backend)
    x = np.array(fitting)
    assert int(ours(x)) == function(x)
    with pytest.raises(graphc.GraphError, match="more than 63 bits: compute with"):
        ours(np.array(beyond))


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_ways_to_choose_are_exact_or_refused(backend):
    def ways(x):
        return [math.comb(int(x[0]), k) for k in range(5)]

    ours = graphc.jit(ways, frontend="numpy", backend=backend)
    for number in (0, 1, 2, 3, 4, 10, 2**15 - 1):
        x = np.array([number])
        assert [int(way) for way in ours(x)] == ways(x)
    with pytest.raises(OverflowError):
        ours(np.array([2**31]))
    with pytest.raises(ValueError, match="non-negative"):
        ours(np.array([-1]))


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: x * math.sqrt(len(x) - 6), ValueError),
        (lambda x: x * math.log(len(x) - 5), ValueError),
        (lambda x: x * math.log(len(x), len(x) - 4), ZeroDivisionError),
        (lambda x: x * math.exp((9 - len(x)) * 200.0), OverflowError),
        (lambda x: x * math.acos(6 - len(x) + 1), ValueError),
        (lambda x: x * math.pow(5 - len(x), -1), ValueError),
        (lambda x: x * math.isqrt(len(x) - 6), ValueError),
        (lambda x: x * math.fmod(len(x), len(x) - 5), ValueError),
        (lambda x: x * math.comb(len(x) - 6, 2), ValueError),
        (lambda x: x * math.gcd(len(x) / 2, 3), TypeError),
        (lambda x: x * int(x.sum() * np.inf), OverflowError),
        (lambda x: x * int(x[0] * np.nan), ValueError),
        (lambda x: x * round(x[0] * 1e300), OverflowError),
    ],
)
def test_calls_raise_where_python_does(function, error):
    ours = graphc.jit(function, frontend="numpy", shapes="n")
    x = np.full(5, 1.0)
    if error is not OverflowError:  # Python's integers have no limit
        with pytest.raises(error):
            function(x)
    with pytest.raises(error):
        ours(x)


def test_classes_that_code_tests_by_identity_stay():
    """In such code `int` is Python's own, and needs a number as elsewhere."""

    def by_identity(x):
        kind = float
        return x[: int(len(x) * 0.5)] * (2.0 if float is kind else 3.0)

    def by_pattern(x):
        match 2.5:
            case float():
                return x * float(len(x))
        return x

    for function in (by_identity, by_pattern):
        ours = graphc.jit(function, frontend="numpy")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", graphc.FallbackWarning)
            for n in (5, 8, 13):
                same(ours(vector(n)), function(vector(n)))


def test_modules_are_as_they_were_afterwards():
    graphc.jit(scaled, frontend="numpy", shapes="n")(vector(5))
    assert "float" not in globals() and sqrt is math.sqrt
    assert float is float and max.__module__ == "builtins"


def test_floats_of_arrays_are_refused_as_before():
    with pytest.raises(graphc.GraphError, match="float"):
        graphc.jit(lambda x: x * float(x[:1]), frontend="numpy")(vector(5))
