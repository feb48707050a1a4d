"""Casts of sizes drop upper bits as NumPy does; Python numbers beside arrays fit."""

import operator

import ml_dtypes
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

SIZES = 3, 60
INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
DTYPES = [*INTEGERS, "bool", "float16", "bfloat16", "float32", "float64", "complex64"]
FORMULAS = {
    "beyond": lambda n: n + 200,
    "negative": lambda n: n - 200,
    "zero": lambda n: n - n + 256,
    "product": lambda n: n * 70_000,
    "long": lambda n: 2**33 * n + 5,
}
WAYS = [
    ("numpy", "specialize"),
    ("numpy", "pad"),
    ("jax", "specialize"),
    ("jax", "pad"),
    ("jax", None),
]
OF_EACH_WAY = pytest.mark.parametrize(("backend", "dims"), WAYS)
TO_INFINITY = pytest.mark.filterwarnings("ignore:overflow encountered in cast")


def numpy_cast(number, dtype):
    with np.errstate(over="ignore"):
        return np.array(number).astype(getattr(ml_dtypes, dtype, dtype))


def assert_same(results, expected):
    for result, other in zip(map(np.asarray, results), expected, strict=True):
        assert result.dtype == other.dtype
        assert result.tobytes() == other.tobytes(), (result, other)


@TO_INFINITY
@OF_EACH_WAY
def test_upper_bits_are_dropped(backend, dims):
    x, cases = (
        gt.tensor("x", "int8", ("n",)),
        [(f, d) for f in FORMULAS for d in DTYPES],
    )
    outputs = [FORMULAS[f](x.shape[0]).astype(d) for f, d in cases]
    run = graphc.function([x], outputs, backend=backend, dims=dims)
    for n in SIZES:
        results = run(np.ones(n, "int8"))
        assert_same(results, [numpy_cast(FORMULAS[f](n), d) for f, d in cases])


@TO_INFINITY
@OF_EACH_WAY
def test_in_loops_and_of_counts(backend, dims):
    x = gt.tensor("x", "int8", ("n",))
    n, count = x.shape[0], x[x > 0].shape[0]
    total, _ = gt.scan(
        lambda c, y: (c + (n + 200).astype("int8"), y), gt.asarray(0, "int8"), x
    )
    outputs = [total, *((count + 200).astype(d) for d in DTYPES)]
    run = graphc.function([x], outputs, backend=backend, dims=dims)
    for size in SIZES:
        expected = [numpy_cast(size + 200, d) for d in DTYPES]
        with np.errstate(over="ignore"):
            expected.insert(0, numpy_cast(size * (size + 200), "int8"))
        assert_same(run(np.ones(size, "int8")), expected)


BESIDE = {
    "sum": lambda a, n: a + (n + 120),
    "choice": lambda a, n: gt.where(a > 0, a, n + 120),
    "array": lambda a, n: a + gt.full(2, n + 120, "int8"),
    "write": lambda a, n: a.at[0].set(n + 120),
    "negative": lambda a, n: a.astype("uint64") * (8 - n),
}


@pytest.mark.parametrize("name", BESIDE)
@OF_EACH_WAY
def test_a_size_beside_an_array_fits_its_dtype(name, backend, dims):
    x, a = gt.tensor("x", "int8", ("n",)), gt.tensor("a", "int8", (2,))
    run = graphc.function(
        [x, a], BESIDE[name](a, x.shape[0]), backend=backend, dims=dims
    )
    array = np.array([1, 0], "int8")
    assert run(np.ones(7, "int8"), array).shape == (2,)
    with pytest.raises(graphc.CallError, match=r"u?int\d+ holds numbers from"):
        run(np.ones(60, "int8"), array)


@OF_EACH_WAY
def test_sizes_are_compared_whole_with_integers_of_few_bits(backend, dims):
    x, a = gt.tensor("x", "int8", ("n",)), gt.tensor("a", "int64", (2,))
    comparisons = [operator.lt, operator.ge, operator.eq]
    cases = [(how, d, s) for how in comparisons for d in INTEGERS for s in (1, -1)]
    outputs = [how(a.astype(d), s * (x.shape[0] + 120)) for how, d, s in cases]
    run = graphc.function([x, a], outputs, backend=backend, dims=dims)
    array = np.array([1, 0])
    for n in SIZES:
        expected = [how(array.astype(d), s * (n + 120)) for how, d, s in cases]
        assert_same(run(np.ones(n, "int8"), array), expected)
