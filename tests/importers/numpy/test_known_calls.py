"""Repeated calls reuse what tracing the first one gave, as if each were the first."""

import math

import jax
import numpy as np
import pytest

import graphc

SIZES = (8, 12, 5, 12, 8, 5, 40, 12)


def scaled(x, y):
    return {"sum": (x * y).sum(), "parts": [x[: len(x) // 2], int(0.3 * len(x)) * x]}


def arguments(n, dtype):
    return np.arange(n).astype(dtype), (np.arange(n) % 3).astype("float32")


def compare(results, expected):
    leaves, form = jax.tree.flatten(results)
    others, other_form = jax.tree.flatten(expected)
    assert form == other_form
    for a, b in zip(leaves, others, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype.newbyteorder("="), b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_dtypes_and_byte_orders_are_told_apart(backend, dims):
    ours = graphc.jit(scaled, frontend="numpy", backend=backend, dims=dims)
    dtypes = "float64", "float32", ">f8", "int32", ">i4", "bool"
    for n in SIZES:
        for dtype in dtypes:
            compare(ours(*arguments(n, dtype)), scaled(*arguments(n, dtype)))
    assert ours.stats().calls == len(SIZES) * len(dtypes)


def test_numbers_of_python_and_of_numpy_are_told_apart():
    ours = graphc.jit(lambda x, k: x * k, frontend="numpy")
    x = np.arange(4, dtype="float32")
    numbers = 2, 2.5, True, np.float32(3), np.float64(3), np.int64(4), np.array(5.0)
    for _ in range(3):
        for k in (*numbers, 3, -1.5, False):
            compare(ours(x, k), x * k)


@pytest.mark.parametrize("dims", [None, "pad"])
def test_words_and_dicts_keep_their_order(dims):
    def listed(*args, **named):
        of_first = args[0].items() if args else ()
        return [(len(name) * x, name == "b") for name, x in (*of_first, *named.items())]

    ours = graphc.jit(listed, frontend="numpy", dims=dims)
    a, b = np.ones(3), np.ones(4)
    for _ in range(3):
        for call in ({"a": a, "bb": b}, {"bb": b, "a": a}):
            compare(ours(call), listed(call))
            compare(ours(**call), listed(**call))


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_data_that_are_refused_are_refused_each_time(backend, dims):
    how = {"frontend": "numpy", "backend": backend, "dims": dims}
    ours = graphc.jit(lambda x: x * math.sqrt(x[0]), **how)
    for n in SIZES:
        x = np.full(n, 4.0)
        np.testing.assert_array_equal(np.asarray(ours(x)), x * 2)
        for _ in range(2):
            with pytest.raises(ValueError, match="math domain error"):
                ours(-x)


def test_results_are_new_arrays():
    ours = graphc.jit(lambda x: (x, x * 2), frontend="numpy", backend="numpy")
    x = np.ones(4)
    for _ in range(3):
        same, double = ours(x)
        double[0] = 7
        assert same[0] == 1 and x[0] == 1
        compare(ours(x), (x, x * 2))


def test_functions_within_others_and_transformations_of_jax():
    inner = graphc.jit(lambda x: np.tanh(x).sum(), frontend="numpy")
    outer = graphc.jit(lambda x: inner(x) + inner(x[:2]), frontend="numpy")
    x = np.linspace(0, 1, 6)
    for _ in range(3):
        compare(inner(x), np.tanh(x).sum())
        compare(outer(x), np.tanh(x).sum() + np.tanh(x[:2]).sum())
        slope = jax.grad(lambda v: inner(v))(x.astype("float32"))
        np.testing.assert_allclose(slope, 1 - np.tanh(x) ** 2, rtol=1e-5)


def test_calls_like_before_compile_nothing():
    ours = graphc.jit(scaled, frontend="numpy", dims="pad")
    for n in SIZES:
        ours(*arguments(n, "float64"))
    with graphc.stance("no_compile"):
        for n in SIZES:
            compare(ours(*arguments(n, "float64")), scaled(*arguments(n, "float64")))
