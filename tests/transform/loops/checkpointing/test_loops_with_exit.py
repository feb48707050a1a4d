"""Gradients of loops of unknown length that keep few carries equal JAX's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")


def compiled(checkpoint, backend, dims):
    """A loop of `k` steps on an array of `n` elements, and its gradient."""
    x, k = gt.tensor("x", "float64", "n"), gt.iscalar("k")

    def step(carry):
        count, state = carry
        return count + 1, gt.tanh(1.1 * state + 0.01 * gt.sum(state))

    _, state = gt.while_loop(
        lambda carry: carry[0] < k, step, (0, x), checkpoint=checkpoint
    )
    cost = gt.sum(state**2)
    return graphc.function(
        [x, k], [cost, graphc.grad(cost, x)], backend=backend, dims=dims
    )


def start(n):
    return np.random.default_rng(n).standard_normal(n)


@functools.cache
def by_jax(n, k):
    """The cost and its gradient, the same however many carries are kept."""

    @jax.jit
    def cost(state):
        for _ in range(k):
            state = jnp.tanh(1.1 * state + 0.01 * jnp.sum(state))
        return jnp.sum(state**2)

    return jax.value_and_grad(cost)(jnp.asarray(start(n)))


KEPT = (None, 1, 2, 4, "log", "all")
# The backend does not affect which carries are kept: policies take turns on both.
WAYS = [
    (kept, backend, (None, "pad")[(i + j) % 2])
    for i, kept in enumerate(KEPT)
    for j, backend in enumerate(("jax", "numpy"))
]


@pytest.mark.parametrize(("checkpoint", "backend", "dims"), WAYS)
def test_what_is_kept_changes_no_gradient(checkpoint, backend, dims):
    function = compiled(checkpoint, backend, dims)
    for n, k in ((3, 0), (3, 1), (4, 7), (9, 17)):
        for ours, theirs in zip(function(start(n), k), by_jax(n, k), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)
