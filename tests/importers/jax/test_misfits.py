"""Sizes that a program for many does not fit are compiled alone, or refused.

JAX reports misfits when it traces. Calls by call plans have no trace, so a plan is made
only for the sizes for which the program holds.
"""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from tests.importers.jax.comparing import outcomes_by_jax

FIRST = (8, 12, 16, 20)  # one program serves these


def halves(x):
    """Halves of an odd number of elements broadcast only if one has one element."""
    return x[: len(x) // 2] + x[len(x) // 2 :]


def pairs(x):
    return x[::2] * x[1::2]


def squared(x):
    return jnp.arange(3) * x.shape[0] ** 2


def shifted(x):
    return jnp.arange(3) + x.shape[0] * 300_000


def cube(x):
    return jnp.float32(x.shape[0] ** 3)


def by_cube(x):
    return x.sum() / x.shape[0] ** 3


def results(function, x):
    """The result of a call, or the class of its error."""
    try:
        return np.asarray(function(x))
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)


def row(n):
    return np.arange(n, dtype="float32")


@cache
def results_of_jax(function):
    calls = {n: (row(n),) for n in (*FIRST, 3, 1, 24, 5, 7)}
    outcomes = outcomes_by_jax(function, calls)
    return {n: outcomes[n] for n in calls}


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("function", [halves, pairs, squared, shifted, cube, by_cube])
def test_they_have_the_results_and_errors_of_jax(function, dims):
    ours = graphc.jit(function, dims=dims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n, expected in results_of_jax(function).items():
            found = results(ours, row(n))
            if isinstance(expected, Exception):
                assert found is type(expected)
            else:
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("function", [squared, shifted, cube])
def test_integers_beyond_32_bits_are_those_of_jax(function, dims):
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    for n in (*FIRST, 40_000, 50_000, 9, 70_000):
        x = np.zeros((n, 0), "float32")
        found, expected = results(ours, x), results(theirs, x)
        if isinstance(expected, type):
            assert found is expected is OverflowError
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6)
