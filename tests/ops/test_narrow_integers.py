"""Arithmetic of 8 bits wraps, also where reductions read it or where it reads them."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

ARITHMETIC = {
    "products": lambda a, b: a * b,
    "differences": lambda a, b: a - b,
    "negatives": lambda a, b: -a,
    "quotients": lambda a, b: a // (b | 1),
    "of other bits": lambda a, b: a.astype("uint8" if a.dtype == "int8" else "int8"),
    "of floats": lambda a, b: (a.astype("float32") * 0.7).astype(a.dtype),
    "taken": lambda a, b: gt.where(a > b, a * b, a + b)[::-1].T,
}
READERS = {
    "max": lambda v: gt.max(v, axis=1),
    "min": lambda v: gt.min(v, axis=0),
    "below": lambda v: v - gt.max(v),
    "of a start": lambda v: v + gt.min(v, initial=3),
    "mean": lambda v: gt.mean(v, axis=-1),
    "sum of floats": lambda v: gt.sum(v * np.float32(0.5), axis=1),
    "max of floats": lambda v: gt.max(v.astype("float32"), axis=1),
    "in a loop": lambda v: gt.scan(
        lambda c, row: (c * row, gt.max(c * row)), gt.ones_like(v[0]), v
    )[1],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_arithmetic_of_bytes_wraps(dtype, reader):
    x, y = gt.tensor("x", dtype, ("n", 90)), gt.tensor("y", dtype, ("n", 90))
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    arrays = rng.integers(ends.min, ends.max, (2, 70, 90), dtype, endpoint=True)
    results = [READERS[reader](f(x, y)) for f in ARITHMETIC.values()]
    options = {"unused": "ignore"}
    expected = graphc.function([x, y], results, backend="numpy", **options)(*arrays)
    turn = list(READERS).index(reader) + (dtype == "int8")
    dims = ("specialize", "pad")[turn % 2]  # each of them with each reader and dtype
    actual = graphc.function([x, y], results, dims=dims, **options)(*arrays)
    for name, a, b in zip(ARITHMETIC, actual, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-6, err_msg=f"{dims}, {name}")


@pytest.mark.parametrize(
    "read", [lambda v: gt.mean(v.T, axis=0), lambda v: gt.where(v > 3, v, gt.max(v))]
)
def test_elements_without_arithmetic_are_read_as_they_are(read):
    x = gt.tensor("x", "uint8", ("n", 3))
    f = graphc.function([x], read(x[1:]))
    assert "int16" not in f.source
    array = np.full((40, 3), 7, "uint8")
    np.testing.assert_array_equal(f(array), 7)


@pytest.mark.parametrize("reduce", [gt.max, gt.min, gt.sum, gt.prod])
def test_starts_are_integers_that_fit(reduce):
    """As in NumPy, floats are truncated first, and none wraps."""
    x = gt.tensor("x", "uint8", ("n",))
    array = np.array([1, 5], "uint8")
    by_numpy = getattr(np, reduce.__name__)
    f = graphc.function([x], reduce(x, initial=2.7), backend="numpy")
    np.testing.assert_array_equal(f(array), by_numpy(array, initial=2), strict=True)
    for start in (-5.0, -5, -np.inf, np.nan):
        with pytest.raises((OverflowError, ValueError)):
            by_numpy(array, initial=start)
        problem = "does not fit" if np.isfinite(start) else "`initial` is"
        with pytest.raises(graphc.GraphError, match=problem):
            reduce(x, initial=start)
