"""Sorting by JAX under padding: by several keys, complex numbers, any NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from tests.importers.jax.comparing import outcomes_by_jax

NEGATIVE = np.array(0xFFC00001, "uint32").view("float32")[()]
REALS = np.array([1, NEGATIVE, np.nan, -0.0, 0.0, np.inf, -np.inf], "float32")
PARTS = [0.0, 1.0, np.nan, np.inf]
COMPLEX = np.array([complex(a, b) for a in PARTS for b in PARTS], "complex64")
KEYS = np.array([2, 1, 2, 1, 0, 1, 2], "int32")

FUNCTIONS = {
    "by two keys": (lambda k, x: lax.sort((k, x), num_keys=2), (KEYS, REALS)),
    "by two of three": (
        lambda k, x: lax.sort((k, x, x * 2), num_keys=2, is_stable=False),
        (KEYS, REALS),
    ),
    "lexsort": (lambda k, x: jnp.lexsort((x, k)), (KEYS, REALS)),
    "descending": (lambda x: jnp.argsort(x, descending=True), (REALS,)),
    "top_k": (lambda x: lax.top_k(x, 2), (REALS,)),
    "all of top_k": (lambda x: lax.top_k(x, x.shape[0]), (REALS,)),
    "complex": (lambda x: (jnp.sort(x), jnp.argsort(x)), (COMPLEX,)),
    "extremes": (lambda x: (jnp.max(x), lax.reduce_min(x, (0,))), (COMPLEX[::-1],)),
    "those of a matrix": (
        lambda x: (jnp.max(x[:, None] + x * 0), jnp.min(x[:, None] - x, axis=1)),
        (COMPLEX[::-1],),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_by_jax_at_each_size(name):
    function, arrays = FUNCTIONS[name]
    f, calls = graphc.jit(function, dims="pad"), {}
    for n in (3, 5, 7, 2):
        calls[n] = [a[:n] for a in arrays]
    expected = outcomes_by_jax(function, calls)
    for n, args in calls.items():
        pairs = map(jax.tree.leaves, (f(*args), expected[n]))
        for a, b in zip(*pairs, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    assert not f.stats().fallbacks
