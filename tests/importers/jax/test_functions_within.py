"""Inner functions, collectives and marks of JAX, which each stand for other functions.

One program serves all sizes, and JAX runs no part of it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from tests.importers.jax.comparing import by_turns

SIZES = 3, 5, 3
POLICIES = jax.checkpoint_policies


@jax.custom_batching.custom_vmap
def batched_otherwise(x):
    return jnp.sin(x)


@batched_otherwise.def_vmap
def _(axis_size, is_batched, x):
    return jnp.cos(x), is_batched[0]


def scanned(x):
    return lax.scan(lambda c, row: (0.9 * c + row, jnp.sin(c)), jnp.zeros(3), x)[1]


def slope_of_kept(x, policy):
    loops = jax.checkpoint(scanned, policy=policy)
    layers = jax.checkpoint(lambda y: jnp.sin(jnp.sin(y) @ y.T), policy=policy)
    return jax.grad(lambda y: jnp.sum(loops(y)) + jnp.sum(layers(y)))(x)


def over_examples(function):
    return jax.vmap(function, axis_name="examples")


def softened(row):
    top = lax.pmax(row, "examples")
    weights = jnp.exp(row - top) - lax.pmin(row, "examples")
    sums = lax.psum((weights, row > 0, 2), "examples")
    return weights / lax.pmean(weights, "examples"), sums


def over_two_axes(x):
    inner = jax.vmap(lambda v: v - lax.psum(v, ("rows", "columns")), axis_name="rows")
    return jax.vmap(inner, axis_name="columns")(x)


FUNCTIONS = {
    "what everything saves": lambda x: slope_of_kept(x, POLICIES.everything_saveable),
    "what products save": lambda x: slope_of_kept(x, POLICIES.dots_saveable),
    "vmap by a rule": lambda x: batched_otherwise(x) + jax.vmap(batched_otherwise)(x),
    "one by one": lambda x: jax.custom_batching.sequential_vmap(jnp.cumsum)(x),
    "collectives": over_examples(softened),
    "slope of a collective": jax.grad(
        lambda x: jnp.sum(over_examples(lambda r: r / lax.psum(r, "examples"))(x) ** 2)
    ),
    "two axes": over_two_axes,
    "taken away": lambda x: x.at[jnp.array([0, 2, 0])].subtract(x[:3]),
    "modulo 256": lambda x: jnp.uint8(x * 9).at[0].subtract(jnp.uint8(7)),
    "no bits fewer": lambda x: lax.reduce_precision(x, 8, 23),
    "bits to spare": lambda x: lax.reduce_precision(x.astype(jnp.bfloat16), 8, 10),
}


def rows(n):
    return np.linspace(0.1, 3, 3 * n, dtype="float32").reshape(n, 3)


@pytest.mark.parametrize(("name", "dims"), by_turns(FUNCTIONS))
def test_they_are_read(name, dims):
    ours, theirs = graphc.jit(FUNCTIONS[name], dims=dims), jax.jit(FUNCTIONS[name])
    for n in SIZES:
        found, wanted = ours(rows(n)), theirs(rows(n))
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(
                np.float32(a), np.float32(b), rtol=1e-4, atol=1e-5
            )
    assert ours.stats().foreign == ours.stats().fallbacks == []


def test_fewer_bits_are_left_to_jax():
    def rounded(x):
        return lax.reduce_precision(x, 5, 10)

    ours = graphc.jit(rounded)
    for n in SIZES:
        np.testing.assert_array_equal(ours(rows(n)), jax.jit(rounded)(rows(n)))
    assert "reduce_precision: there is no op" in ours.stats().foreign[0]


def test_a_rule_for_vmap_is_kept_where_jax_batches_afterwards():
    optimized = graphc.optimize(lambda x: 2 * batched_otherwise(x))
    found = jax.vmap(optimized)(rows(4))
    np.testing.assert_allclose(found, 2 * np.cos(rows(4)), rtol=1e-6)
