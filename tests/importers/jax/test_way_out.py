"""Errors of JAX about sizes that depend on values name the way out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.way_out import WAY_OUT

X = np.array([1, -1, 2], "float32")
FUNCTIONS = {
    "mask": lambda x: x[x > 0],
    "nonzero": lambda x: jnp.nonzero(x),
    "unique": lambda x: jnp.unique(x),
    "numpy": lambda x: np.nonzero(x),
    "size": lambda x: jnp.arange(jnp.sum(x > 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_is_that_of_jax_and_names_the_way_out(name):
    with pytest.raises(Exception) as wanted:  # whatever it is
        jax.jit(FUNCTIONS[name])(X)
    with pytest.raises(type(wanted.value)) as found:
        graphc.jit(FUNCTIONS[name])(X)
    text = str(found.value)
    assert text[:40] == str(wanted.value)[:40] and text.endswith(WAY_OUT)
    assert 'graphc.jit(function, frontend="numpy")' in text


def test_it_is_a_way_out():
    ours = graphc.jit(lambda x: x[x > 0], frontend="numpy")
    np.testing.assert_array_equal(ours(X), X[X > 0])


def test_no_way_is_told_where_there_is_none():
    def decided(x):
        return x if x.sum() > 0 else -x

    for told in ({}, {"frontend": "numpy"}):
        with pytest.raises(Exception) as error:
            graphc.jit(decided, **told)(X)
        assert "frontend" not in str(error.value)
