"""References to JAX's memory: those local to a function don't affect its sizes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from tests.importers.jax.comparing import by_turns

SIZES = 3, 4, 3, 20, 1


def some(n):
    return np.cos(np.arange(n)).astype("float32")


def written(x):
    memory = jax.new_ref(jnp.zeros_like(x))
    memory[...] += x
    memory[0] = 3.0
    return memory[...], memory[:1]


def frozen(x):
    memory = jax.new_ref(x)
    memory[...] *= x.shape[0]
    return jax.freeze(memory)


def in_loops(x):
    total, rows = jax.new_ref(jnp.float32(0)), jax.new_ref(x)

    def step(_, row):
        total[...] += row
        return None, total[...]

    def double(i, _):
        rows[i] = rows[i] * 2

    sums = lax.scan(step, None, x)[1]
    lax.fori_loop(0, x.shape[0] // 2, double, None)
    return sums, total[...], rows[...]


def in_a_while(x):
    memory = jax.new_ref(x)

    def step(i):
        memory[...] = memory[...] * 1.5
        return i + 1

    return lax.while_loop(lambda i: i < 3, step, 0), memory[...]


def in_a_branch(x):
    memory = jax.new_ref(x)

    def double():
        memory[...] = memory[...] * 2

    lax.cond(x.sum() > 1, double, lambda: None)
    return memory[...]


def within_a_function(x):
    @jax.jit
    def added(memory, y):
        memory[...] += y

    memory = jax.new_ref(x)
    added(memory, x)
    added(memory, 1.0)
    return memory[...]


def differentiated(x):
    def cost(y):
        memory = jax.new_ref(y)
        memory[...] = memory[...] ** 2
        return jnp.sum(memory[...])

    return jax.grad(cost)(x)


def for_each(x):
    def one(v):
        memory = jax.new_ref(v)
        memory[...] += 1
        return memory[...]

    return jax.vmap(one)(x)


CASES = written, frozen, in_loops, in_a_while, in_a_branch, within_a_function
CASES += differentiated, for_each


@pytest.mark.parametrize(("function", "dims"), by_turns(CASES))
def test_those_of_a_function_are_arrays_of_its_program(function, dims):
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    for n in SIZES:
        pairs = zip(*(jax.tree.leaves(f(some(n))) for f in (ours, theirs)), strict=True)
        for a, b in pairs:
            assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert not ours.stats().fallbacks


def test_what_is_written_outside_is_seen_there():
    kept = jax.new_ref(jnp.float32(0))

    def add(memory, x):
        memory[...] += x
        kept[...] += x.sum()
        return memory[...].sum()

    total, ours = 0.0, graphc.jit(add)
    for n in SIZES:
        memory, x = jax.new_ref(jnp.asarray(some(n))), some(n)
        total += x.sum()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", graphc.FallbackWarning)
            np.testing.assert_allclose(ours(memory, x), 2 * x.sum(), rtol=1e-5)
        np.testing.assert_allclose(memory[...], 2 * x, rtol=1e-6)
        np.testing.assert_allclose(kept[...], total, rtol=1e-5)


def test_a_reference_that_is_captured_is_named():
    kept = jax.new_ref(jnp.float32(0))

    def add(x):
        kept[...] += x.sum()
        return x * 2

    ours = graphc.jit(add)
    ours(some(3))
    told = "captures something that is not an array: Ref"
    with pytest.warns(graphc.FallbackWarning, match=told):
        ours(some(4))
