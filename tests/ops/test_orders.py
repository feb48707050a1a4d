"""Sorting every bit pattern: padding comes last, and both backends agree with NumPy.

NumPy cannot order bfloat16 with NaN, but the order is the same as that of float32.
"""

import functools
import os

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.types import DTYPES

PAD = graphc.Pad(minimum=4, growth=2)  # 4, 8
SIZES = (1, 2, 3, 4, 7, 8)
EXAMPLES = 8 * int(os.environ.get("GRAPHC_EXAMPLES", "1"))
ON_JAX = ("bfloat16", "complex64", "float32", "int64", "uint8")


def argsort(x, axis):
    return np.argsort(x, axis=axis, kind="stable")


def searched(x, side):
    return np.searchsorted(np.sort(x), x, side)


ALONG = {  # functions along an axis: ours, NumPy's
    "sort": (gt.sort, np.sort),
    "descending": (
        lambda x, axis: gt.sort(x, axis, descending=True),
        lambda x, axis: np.flip(np.sort(x, axis=axis), axis),
    ),
    "argsort": (gt.argsort, argsort),
    "sorted by argsort": (
        lambda x, axis: gt.take_along_axis(
            x, gt.argsort(x, axis, descending=True), axis
        ),
        lambda x, axis: np.flip(np.sort(x, axis=axis), axis),
    ),
    "lexsort": (
        lambda x, axis: gt.lexsort((gt.flip(x, axis), x), axis),
        lambda x, axis: np.lexsort((np.flip(x, axis), x), axis),
    ),
    "partition": (lambda x, axis: gt.partition(x, 0, axis), np.sort),
    "argpartition": (lambda x, axis: gt.argpartition(x, 0, axis), argsort),
    "max": (gt.max, np.max),
    "min": (gt.min, np.min),
    "argmax": (gt.argmax, np.argmax),
    "argmin": (gt.argmin, np.argmin),
    "cummax": (gt.cummax, np.maximum.accumulate),
    "cummin": (gt.cummin, np.minimum.accumulate),
    "cummax, backwards": (
        lambda x, axis: gt.cummax(x, axis, reverse=True),
        lambda x, axis: np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis),
    ),
    "cummin, backwards": (
        lambda x, axis: gt.cummin(x, axis, reverse=True),
        lambda x, axis: np.flip(np.minimum.accumulate(np.flip(x, axis), axis), axis),
    ),
}
OF_REALS = {
    "median": (gt.median, np.median),
    "quantile": (
        lambda x, axis: gt.quantile(x, 0.5, axis, "lower"),
        lambda x, axis: np.quantile(x, 0.5, axis=axis, method="lower"),
    ),
    "top_k": (
        lambda x, axis: gt.top_k(x, x.shape[axis], axis)[1],
        lambda x, axis: np.argsort(~bits(x), axis=axis, kind="stable"),
    ),
    "largest": (
        lambda x, axis: gt.top_k(x, 1, axis)[1],
        lambda x, axis: np.argsort(~bits(x), axis=axis, kind="stable").take([0], axis),
    ),
}
OF_VECTORS = {
    "unique": (gt.unique, np.unique),
    "firsts": (
        lambda x: gt.unique(x, True)[1],
        lambda x: np.unique(x, True)[1],
    ),
    "searchsorted": (
        lambda x: gt.searchsorted(gt.sort(x), x),
        lambda x: searched(x, "left"),
    ),
    "searchsorted, right": (
        lambda x: gt.searchsorted(gt.sort(x), x, "right"),
        lambda x: searched(x, "right"),
    ),
    "isin": (lambda x: gt.isin(x, x[:2]), lambda x: np.isin(x, x[:2])),
}


def bits(x):
    """Integers in the order of `lax.top_k`, which tells NaNs by sign and payload."""
    if x.dtype.kind in "biu":
        return x
    signed = x.view(f"int{8 * x.dtype.itemsize}")
    return np.where(signed < 0, signed ^ np.iinfo(signed.dtype).max, signed)


def patterns(dtype):
    """The numbers of a dtype at which sorting may go wrong.

    On some ways to `top_k`, XLA casts bfloat16 to float32, which loses NaN payloads.
    """
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        middle = [0, 1] if dtype.kind == "u" else [0, 1, -1]
        return np.array([ends.min, *middle, ends.max - 1, ends.max], dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
        pairs = [complex(a, b) for a in parts for b in parts]
        return np.array(pairs, dtype)
    limits = ml_dtypes.finfo(dtype)
    numbers = [0.0, 1.0, np.inf, float(limits.max), float(limits.tiny)]
    plain = np.array([*numbers, *(-n for n in numbers)], dtype)
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    nan = int(np.asarray(np.abs(np.nan), dtype).view(unsigned)[()])
    sign = 1 << (8 * dtype.itemsize - 1)
    payloads = (nan,) if dtype == DTYPES["bfloat16"] else (nan, nan | 1, sign - 1)
    nans = [n & ~sign | s for n in payloads for s in (0, sign)]
    return np.concatenate([plain, np.array(nans, unsigned).view(dtype)])


def functions(dtype, rank):
    """Our function and NumPy's, by name and axis."""
    along = ALONG if dtype.kind == "c" else {**ALONG, **OF_REALS}
    if dtype.kind == "b":
        along = {k: v for k, v in ALONG.items() if not k.startswith("cum")}
    found = {
        (name, axis): [functools.partial(f, axis=axis) for f in pair]
        for name, pair in along.items()
        for axis in range(rank)
    }
    if rank == 1:
        found.update({(name, 0): list(pair) for name, pair in OF_VECTORS.items()})
    return found


@functools.cache
def programs(dtype, rank):
    """Programs of all functions: at true sizes, padded, and padded on JAX."""
    x = gt.tensor("x", dtype, ("n", "m")[:rank])
    outputs = [ours(x) for ours, _ in functions(x.dtype, rank).values()]
    ways = [("numpy", "specialize"), ("numpy", PAD)]
    ways += [("jax", PAD)] if dtype in ON_JAX and rank == 1 else []
    return [
        graphc.function([x], outputs, backend=backend, dims=dims)
        for backend, dims in ways
    ]


def same(found, expected):
    """Whether arrays are equal, leaving aside which NaN and the sign of 0."""
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind == "c":
        return same(found.real, expected.real) and same(found.imag, expected.imag)
    if expected.dtype.kind not in "biuf":
        found, expected = found.astype("float32"), expected.astype("float32")
    return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")


def agrees(name, found, expected):
    """Whether results agree as far as they are specified.

    Which NaN is the extreme of complex numbers, and which NaN is unique, is
    unspecified. JAX knows no imaginary part beside the infinity that an extreme starts
    from.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind == "c" and name in ("max", "min"):
        bad = ~np.isfinite(expected.real) | np.isnan(expected)
        alike = same(np.isnan(found), np.isnan(expected))
        return alike and same(found[~bad], expected[~bad])
    if expected.dtype.kind == "c" and name == "unique":
        return same(*[np.sort(y[~np.isnan(y)]) for y in (found, expected)])
    if name == "median":  # XLA computes 0 in place of subnormal means
        found, expected = map(without_subnormals, (found, expected))
    return same(found, expected)


def without_subnormals(x):
    if x.dtype.kind in "biu":
        return x
    return np.where(np.abs(x) < ml_dtypes.finfo(x.dtype).tiny, np.zeros_like(x), x)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_padding_comes_last_for_every_bit_pattern(dtype, rank, data):
    """Sizes below, at and above a capacity agree with NumPy and with true sizes."""
    some = patterns(DTYPES[dtype])
    shape = tuple(data.draw(st.sampled_from(SIZES)) for _ in range(rank))
    count = int(np.prod(shape))
    chosen = data.draw(
        st.lists(st.integers(0, len(some) - 1), min_size=count, max_size=count)
    )
    x = some[chosen].reshape(shape)
    named = functions(DTYPES[dtype], rank)
    with np.errstate(all="ignore"):
        results = [f(x) for f in programs(dtype, rank)]
    for i, ((name, axis), (_, theirs)) in enumerate(named.items()):
        with np.errstate(all="ignore"):
            wanted = theirs(x.astype("float32")) if _as_float(name, x) else theirs(x)
        for found in results:
            assert agrees(name, found[i], wanted), (name, axis, x, found[i], wanted)


def _as_float(name, x):
    """Whether NumPy must order bfloat16 as float32."""
    return x.dtype == DTYPES["bfloat16"] and name not in ("top_k", "largest")


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_of_nothing(backend):
    """Empty arrays are sorted and partitioned, whatever `kth` is."""
    x = gt.vector("x")
    outputs = [gt.sort(x), gt.argsort(x), gt.partition(x, 3), gt.unique(x)]
    for dims in ("specialize", PAD):
        f = graphc.function([x], outputs, backend=backend, dims=dims)
        assert [np.shape(y) for y in f(np.zeros(0, "float32"))] == [(0,)] * 4
        with pytest.raises(graphc.CallError, match="kth 3 is out of bounds for axis 0"):
            f(np.zeros(2, "float32"))


@pytest.mark.parametrize("dims", ["specialize", PAD], ids=["exact", "padded"])
def test_places_may_depend_on_sizes_and_data(dims):
    x, k = gt.vector("x"), gt.iscalar("k")
    middle = x.shape[0] // 2
    outputs = gt.partition(x, [k, middle])[middle], x[gt.argpartition(-x, k)[:k]]
    f = graphc.function([x, k], outputs, dims=dims)
    for n in (5, 2, 9, 1):
        numbers = np.arange(n, dtype="float32")[::-1]
        middle_one, largest = f(numbers, 1)
        assert (middle_one, *largest) == (n // 2, n - 1)
    with pytest.raises(graphc.GraphError, match="kth must be integers"):
        gt.partition(x, x[0])


@pytest.mark.parametrize("dims", ["specialize", PAD], ids=["exact", "padded"])
def test_places_that_are_not_there(dims):
    """As in NumPy, `kth` must be in bounds, counted from the start or from the end."""
    x = gt.vector("x")
    for kth in (-4, -1, 0, 2, 3):
        outputs = [gt.partition(x, kth), gt.argpartition(x, kth)]
        f = graphc.function([x], outputs, backend="numpy", dims=dims)
        for n in range(1, 6):
            numbers = np.arange(n, dtype="float32")[::-1]
            if -n <= kth < n:
                assert f(numbers)[0][kth] == np.partition(numbers, kth)[kth]
                continue
            with pytest.raises(graphc.CallError, match="out of bounds"):
                f(numbers)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("dims", ["specialize", PAD], ids=["exact", "padded"])
def test_complex_numbers_that_tie_keep_their_order(backend, dims):
    """Zeros and NaNs of both signs tie; a few alone might keep their order by luck."""
    z = gt.vector("z", "complex64")
    f = graphc.function([z], gt.sort(z), backend=backend, dims=dims)
    pairs = (np.nan, 0.0), (np.nan, -0.0), (-0.0, 1.0), (0.0, 1.0)
    a = np.array([complex(*pair) for pair in pairs] * 8, "complex64")
    order = np.argsort(a, kind="stable")
    ordered = np.asarray(f(a))
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(
            np.signbit(part(ordered)), np.signbit(part(a[order]))
        )


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("dims", [PAD, graphc.Bound()], ids=["padded", "bound"])
def test_the_largest_of_no_complex_numbers(backend, dims):
    """There is no last element to fill the padding with; `initial` may be NaN."""
    z, chosen = gt.vector("z", "complex64"), gt.tensor("chosen", "bool", ("n",))
    largest = [gt.max(z[chosen][1:], initial=first) for first in (-5, np.nan)]
    f = graphc.function([z, chosen], largest, backend=backend, dims=dims)
    for n in (1, 3, 5):
        number, missing = f(np.zeros(n, "complex64"), np.zeros(n, bool))
        assert number == -5
        assert np.isnan(missing)


def test_a_nan_of_another_sign_is_not_that_which_fills():
    """Padding that already holds some NaN is filled again where its bits count."""
    x = gt.vector("x")
    ordered = gt.where(gt.arange(x.shape[0]) < 9, gt.sort(x), np.nan)
    outputs = gt.top_k(ordered, x.shape[0])
    f = graphc.function([x], outputs, backend="numpy", dims=PAD)
    negative = np.array([0xFFC00000], "uint32").view("float32")
    values, places = f(np.concatenate([negative, [1, 2]]).astype("float32"))
    assert sorted(places.tolist()) == [0, 1, 2]
    np.testing.assert_array_equal(np.sort(values), [1, 2, np.nan])


INF = np.inf
SLOPES = {
    "cumprod": lambda x: gt.cumprod(x),
    "nancumprod": lambda x: gt.nancumprod(x),
    "backwards": lambda x: gt.cumprod(x, reverse=True),
    "prod": lambda x: gt.prod(x),
    "nanprod": lambda x: gt.nanprod(x),
    "cumsum": lambda x: gt.cumsum(x),
    "logsumexp": lambda x: gt.nn.logsumexp(x),
    "softmax": lambda x: gt.nn.softmax(x),
    "std": lambda x: gt.std(x),
    "norm": lambda x: gt.linalg.norm(x),
}
NUMBERS = [
    *([INF, -INF], [1.0, INF, 2.0], [2.0, INF, 0.5, -1.0, 3.0]),
    *([0.0, -0.0, 0.0], [0.0, 2.0, 0.0], [np.nan, 1.0, 0.0], [-INF, -INF, -INF]),
]


def test_infinity_meets_no_padding_in_gradients():
    """JAX computes products in parts: a 0 behind the elements would meet infinity."""
    x = gt.vector("x", "float64")
    slopes = {}
    for name, function in SLOPES.items():
        y = function(x)
        weights = gt.arange(1.0, gt.size(y) + 1.0) if y.ndim else 1.0
        slopes[name] = graphc.grad(gt.sum(y * weights), x)
    ways = [("jax", "specialize"), ("jax", PAD), ("numpy", PAD)]
    exact, *others = [
        graphc.function([x], slopes, backend=backend, dims=dims)
        for backend, dims in ways
    ]
    for numbers in NUMBERS:
        a = np.array(numbers)
        expected = exact(a)
        for f in others:
            found = f(a)
            for name in SLOPES:
                text = f"{name} of {a}"
                np.testing.assert_allclose(found[name], expected[name], err_msg=text)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, INF, -INF])
def test_norms_of_complex_infinity(backend, order):
    z = gt.vector("z", "complex128")
    f = graphc.function([z], gt.linalg.norm(z, order), backend=backend)
    for parts in (complex(INF, 0), complex(0, -INF), complex(INF, np.nan)):
        a = np.array([parts, 1j])
        np.testing.assert_allclose(f(a), np.linalg.norm(a, order))


@pytest.mark.parametrize("constant", [False, True])
def test_nan_is_the_largest_of_edges(constant):
    x, table = np.array([0.5, 1.5, np.inf, np.nan]), np.array([1.0, 2.0, np.nan])
    for edges in (table, np.flip(table)):
        symbol = gt.vector("edges", "float64")
        bins = gt.digitize(x, edges if constant else symbol)
        f = graphc.function([symbol], [bins, symbol], backend="numpy")
        assert f(edges)[0].tolist() == np.digitize(x, edges).tolist()
