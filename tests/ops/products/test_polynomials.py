"""Convolutions and correlations of vectors, and polynomials, beyond the samples."""

from itertools import product

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import whole
from tests.ops.comparing import BACKENDS

MODES = ("full", "same", "valid")
SIZES = list(product((1, 2, 3, 5), (1, 2, 3, 4)))


def vectors(dtype):
    return gt.tensor("a", dtype, ("n",)), gt.tensor("v", dtype, ("m",))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["int16", "complex128", "bool"])
def test_either_vector_may_be_the_longer_one(dtype, mode):
    a, v = vectors(dtype)
    both = [gt.convolve(a, v, mode), gt.correlate(a, v, mode)]
    program = graphc.function([a, v], both, backend="numpy")
    rng = np.random.default_rng(0)
    for n, m in SIZES:
        numbers = rng.integers(-9, 9, n + m) + 1j * rng.integers(-9, 9, n + m)
        given = numbers if dtype == "complex128" else numbers.real > 0
        given = numbers.real if dtype == "int16" else given
        x, y = np.split(given.astype(dtype), [n])
        found = program(x, y)
        for ours, theirs in zip(found, (np.convolve, np.correlate), strict=True):
            wanted = theirs(x, y, mode)
            assert ours.dtype == wanted.dtype
            np.testing.assert_array_equal(ours, wanted)


def test_integers_are_exact():
    a, v = vectors("int64")
    x, y = np.array([2**53 + 1, 3, -(2**40)]), np.array([5, 2**20 + 1])
    wanted = np.convolve(x, y)
    for backend in ("jax", "numpy"):
        program = graphc.function([a, v], gt.convolve(a, v), backend=backend)
        np.testing.assert_array_equal(program(x, y), wanted)


@pytest.mark.parametrize(("dtype", "known"), [("float32", 3), ("int32", None)])
def test_padding_keeps_one_program_for_all_lengths(dtype, known):
    a, v = vectors(dtype)
    v = gt.tensor("v", dtype, (known,)) if known else v
    both = [gt.convolve(v, a), gt.correlate(a, v, "same")]
    program = graphc.function([a, v], both, backend="jax", dims="pad")
    assert len(program.plan.segments) == 1
    for n, m in ((5, 3), (2, known or 7)):
        x, y = np.arange(n).astype(dtype), np.arange(m).astype(dtype) - 1
        found = program(x, y)
        np.testing.assert_array_equal(found[0], np.convolve(x, y))
        np.testing.assert_array_equal(found[1], np.correlate(x, y, "same"))


def test_empty_vectors_are_refused_at_the_call():
    a, v = vectors("float32")
    program = graphc.function([a, v], gt.convolve(a, v), backend="numpy")
    empty = np.ones(0, "float32")
    with pytest.raises(graphc.CallError, match="convolve: a vector is empty"):
        program(np.ones(3, "float32"), empty)
    with pytest.raises(graphc.CallError, match="convolve: a vector is empty"):
        program(empty, np.ones(3, "float32"))


def test_a_number_of_coefficients_that_is_not_known():
    p, x = gt.tensor("p", "int8", ("k",)), gt.tensor("x", "int8", ("n",))
    rows = gt.tensor("rows", "float64", ("k", "n"))
    program = graphc.function([p, rows, x], [gt.polyval(p, x), gt.polyval(rows, x)])
    points = np.array([-3, 0, 1, 7], "int8")
    for k in (0, 1, 4):
        given = np.arange(k, dtype="int8") + 3
        table = np.arange(4.0 * k).reshape(k, 4)
        found = program(given, table, points)
        np.testing.assert_array_equal(found[0], np.polyval(given, points))
        np.testing.assert_allclose(found[1], np.polyval(table, points))


def test_special_values_where_the_number_is_not_known():
    p, x = (gt.tensor(name, "float64", (name,)) for name in "px")
    program = graphc.function([p, x], gt.polyval(p, x), backend="numpy")
    points = np.array([0, -1, 2.5, np.inf, -np.inf, np.nan, 1e200])
    for given in ([], [2], [1, 2, 3], [np.inf, 1], [np.nan, 0], [0, 0, 1, -1]):
        with np.errstate(all="ignore"):
            wanted = np.polyval(given, points)
        found = program(np.array(given, "float64"), points)
        np.testing.assert_allclose(found, wanted, err_msg=str(given))


def test_messages():
    a, v = vectors("float32")
    whole(
        lambda: gt.convolve(a, v, "half"),
        "convolve: unknown mode\n  got: 'half'\n  expected: 'full', 'same' or 'valid'",
    )
    whole(
        lambda: gt.correlate(a, 2.0),
        "correlate: needs two vectors\n  got: float32[n], float32[]",
    )
    whole(
        lambda: gt.convolve(a, np.ones((0,), "float32")),
        "convolve: a vector is empty: 1 is more than 0\n  got: float32[0]",
    )
    whole(
        lambda: gt.polyval(2.0, a),
        "polyval: needs a vector of coefficients\n  got: float32[]",
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_polyval_of_uint64_wraps_around(backend):
    p, x = gt.vector("p", "uint64"), gt.vector("x", "uint64")
    f = graphc.function([p, x], gt.polyval(p, x), backend=backend)
    args = [np.array(v, "uint64") for v in ([2**63 + 3, 5, 2**62 + 1], [3, 2**63 + 1])]
    np.testing.assert_array_equal(f(*args), np.polyval(*args))
