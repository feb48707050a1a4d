"""Comparisons of integers that are out of range, and of int64 with uint64."""

import operator

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

OPERATORS = [getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")]
DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS = (-(2**70), -(2**63) - 1, -129, -1, 0, 200, 2**16, 2**40, 2**64, 2**70)


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_are_exact_as_in_numpy(dtype):
    x = gt.tensor("x", dtype, ("n",))
    limits = np.iinfo(dtype)
    array = np.array([limits.min, 0, 1, 100, limits.max], dtype)
    cases = [(f, number) for f in OPERATORS for number in NUMBERS]
    outputs = [v for f, number in cases for v in (f(x, number), f(number, x))]
    results = graphc.function([x], outputs, backend="numpy")(array)
    expected = [v for f, number in cases for v in (f(array, number), f(number, array))]
    for got, wanted in zip(results, expected, strict=True):
        assert got.dtype == bool
        np.testing.assert_array_equal(got, wanted)


def test_a_comparison_out_of_range_is_known_at_once():
    x = gt.tensor("x", "uint8", ("n", 3))
    f = graphc.function([x], gt.sum(x < 300), backend="jax")
    assert int(f(np.zeros((4, 3), "uint8"))) == 12


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_comparisons_of_int64_with_uint64_are_exact(backend):
    signed = np.array([-(2**63), -1, 0, 1, 2**62, 2**63 - 1], "int64")
    unsigned = np.array([0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1], "uint64")
    x, y = gt.tensor("x", "int64", ("n",)), gt.tensor("y", "uint64", ("m",))
    pairs = [(x[:, None], y), (y, x[:, None]), (x, np.uint64(2**63)), (np.int64(-1), y)]
    arrays = [
        *[(signed[:, None], unsigned), (unsigned, signed[:, None])],
        *[(signed, np.uint64(2**63)), (np.int64(-1), unsigned)],
    ]
    outputs = [f(a, b) for f in OPERATORS for a, b in pairs]
    f = graphc.function([x, y], outputs, backend=backend, dims="pad")
    expected = [f(a, b) for f in OPERATORS for a, b in arrays]
    for got, wanted in zip(f(signed, unsigned), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
