"""Comparisons of integer arrays with Python's integers, which may be out of range."""

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
