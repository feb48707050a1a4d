"""Floats of sizes round to the same numbers everywhere, which are NumPy's.

XLA's logarithm of 8 to the base of 2 is less than 3 in float64.
"""

import math

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc_serving

SIZES = (3, 5, 8, 9, 64, 100, 128, 4096)
SIZES_OF = {"specialize": (3, 8, 64), "pad": SIZES}  # few, where each is compiled
POLICIES = ("specialize", "pad")


def length(n, xp):
    """The whole part of a logarithm, as an integer."""
    return xp.floor(xp.log2(xp.asarray(n, "float64"))).astype("int64")


def ones(x, xp):
    return xp.ones(length(x.shape[0], xp), "float64")


def beginning(x, xp):
    return x[: length(x.shape[0], xp)] * 2


def total_of_beginning(x, xp):
    return xp.sum(x[: length(x.shape[0], xp)])


def power(x, xp):
    return x * 2 ** length(x.shape[0], xp)


def number(x, xp):
    return length(x.shape[0], xp)


def rounded_float(x, xp):
    return x * xp.floor(xp.log2(xp.asarray(x.shape[0], "float64")))


def remainder(x, xp):
    return xp.sum(x) + xp.log2(xp.asarray(x.shape[0], "float64")) % 1


def comparison(x, xp):
    exact = xp.log2(xp.asarray(x.shape[0], "float64"))
    return exact >= xp.rint(exact), xp.where(exact >= xp.rint(exact), x, 0)


FUNCTIONS = (
    *(ones, beginning, total_of_beginning, power, number, rounded_float, remainder),
    comparison,
)


@pytest.mark.parametrize("dims", POLICIES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_are_those_of_numpy(function, dims):
    x = gt.vector("x", "float64")
    f = graphc.function([x], function(x, gt), dims=dims)
    for n in SIZES_OF[dims]:
        array = np.arange(1.0, n + 1)
        results, expected = f(array), function(array, np)
        if not isinstance(expected, tuple):
            results, expected = (results,), (expected,)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
            assert np.asarray(a).dtype == b.dtype


@pytest.mark.parametrize("dims", POLICIES)
def test_they_are_in_the_steps_of_loops(dims):
    x = gt.vector("x", "float64")

    def step(total, v):
        whole = length(x.shape[0], gt)
        return total + v * whole, whole

    total, wholes = gt.scan(step, gt.zeros((), "float64"), x)
    f = graphc.function([x], [total, wholes], dims=dims)
    for n in SIZES_OF[dims]:
        found_total, found_wholes = f(np.ones(n))
        whole = length(n, np)
        assert found_total == n * whole
        np.testing.assert_array_equal(found_wholes, np.full(n, whole))


def test_a_size_and_what_is_stored_for_it_are_computed_once():
    """The driver does it and passes the number on: segments have no logarithm."""
    x = gt.vector("x", "float64")
    f = graphc.function([x], ones(x, gt), dims="pad")
    segments, _, driver = str(f.source).partition("def on_padded")
    assert "log2" not in segments and driver.count("np.log2") == 1


def test_results_are_arrays_of_the_device():
    x = gt.vector("x", "float64")
    f = graphc.function([x], [number(x, gt), gt.sum(x)], dims="pad")
    assert all(hasattr(result, "devices") for result in f(np.ones(8)))


def test_floats_that_are_given_stay_on_the_device():
    """The host knows only sizes before a call."""
    x, scale = gt.vector("x", "float64"), gt.scalar("scale", "float64")
    f = graphc.function([x, scale], x * gt.floor(scale * x.shape[0]), dims="pad")
    assert " np.floor" not in str(f.source)
    np.testing.assert_array_equal(f(np.ones(5), 0.5), np.full(5, 2.0))


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_powers_of_sizes_are_those_of_python(backend):
    """NumPy's power of an array without axes would make 2 of the cube root of 27."""

    def root(x):
        return np.floor(len(x) ** (1 / 3)), x[: int(len(x) ** 0.5)] * 2.0 ** len(x)

    f = graphc.jit(root, frontend="numpy", backend=backend, dims="pad")
    for n in (4, 5, 8, 9, 25, 27, 36, 64, 121, 125, 216, 343):
        found, expected = f(np.ones(n)), root(np.ones(n))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


def share(x):
    part, root = int(0.3 * len(x)), math.isqrt(len(x))
    return x[:part] * 2, x[: int(math.sqrt(len(x)))], x * root, x * int(len(x) / 4)


def halves(x):
    n = len(x)
    return x[: int(math.log2(n))], x[: int(n**0.3)], x[: math.ceil(n / 49)] * 2


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("function", [share, halves])
def test_files_have_them(function, policy, tmp_path):
    f = graphc.jit(function, frontend="numpy", shapes="n", dims=policy)
    path = tmp_path / "sizes.model"
    sizes = (4, 8, 9, 16, 27, 49, 98, 100)
    f.export(path, np.ones(8), sizes={"n": sizes})
    model = graphc_serving.load(path)
    for n in sizes:
        array = np.arange(1.0, n + 1)
        for a, b in zip(model(array), function(array), strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("policy", POLICIES)
def test_programs_for_them_are_compiled_ahead(policy):
    x = gt.vector("x", shape=("n",), dtype="float32")
    n = x.shape[0]
    f = graphc.function(
        [x], [x[: n // 2 + gt.log2(n).astype("int64")] * 2], dims=policy
    )
    f.compile({"n": SIZES_OF[policy]})
    with graphc.stance("no_compile"):
        for size in SIZES_OF[policy]:
            array = np.arange(size, dtype="float32")
            (part,) = f(array)
            expected = array[: size // 2 + int(np.log2(size))] * 2
            np.testing.assert_array_equal(np.asarray(part), expected)


def test_files_are_refused_where_xla_would_compute_otherwise(tmp_path):
    x = gt.vector("x", shape=("n",), dtype="float32")
    count = gt.floor(gt.special.gammaln(x.shape[0] / 1.0)).astype("int64")
    f = graphc.function([x], x[:count] * 2, dims="pad")
    message = "stored in a file: gammaln on the host"
    with pytest.raises(graphc.GraphError, match=message):
        f.export(tmp_path / "refused.model", {"n": [49, 98]})


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_float_of_a_large_size_is_cut_off_with_all_of_its_digits(backend):
    """A 32-bit float cannot hold odd numbers from 2**24 on."""
    x = gt.tensor("x", "float32", ("n", 0))
    half = gt.ceil(x.shape[0] / 2).astype("int64")
    f = graphc.function([x], [half, x[:half]], backend=backend)
    for n in (3, 2**24 + 1):
        number, part = f(np.ones((n, 0), "float32"))
        assert int(number) == len(part) == (n + 1) // 2
