"""Small repeated blocks become loops by default only where that is worth it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU, GPU
from graphc.rewriting.loops.roll.worth import LEAST_SECONDS, Role, Worth

pytestmark = pytest.mark.usefixtures("compiled_quickly")
WIDTH, ROWS = 16, 8
SHAPES = (WIDTH,), (WIDTH, WIDTH), (WIDTH, WIDTH)
SMALL = Worth(64, 8, Role.FORWARD, work=4700.0, stacked=528, arrays=3)


def block(xp, x, scale, up, down):
    return x + xp.tanh((x - xp.mean(x)) * scale @ up) @ down


def loss(xp, blocks, x):
    for parameters in blocks:
        x = block(xp, x, *parameters)
    return xp.mean(x * x)


def arrays_of(count):
    rng = np.random.default_rng(0)
    blocks = [[rng.normal(size=s) / 8 for s in SHAPES] for _ in range(count)]
    as_float32 = lambda x: jnp.asarray(x, "float32")  # noqa: E731
    return jax.tree.map(as_float32, (blocks, rng.normal(size=(ROWS, WIDTH))))


def with_gt(count, slopes, **how):
    """A function of the parameters of `count` blocks, one by one, and of an array."""
    x = gt.tensor("x", "float32", (ROWS, WIDTH))
    blocks = [[gt.tensor("p", "float32", s) for s in SHAPES] for _ in range(count)]
    cost = loss(gt, blocks, x)
    flat = jax.tree.leaves(blocks)
    results = [cost, *graphc.grad(cost, flat)] if slopes else [cost]
    return graphc.function([*flat, x], results, **how)


def has_loop(f):
    return "scan_jax(" in f.source


@pytest.mark.parametrize(("count", "loops"), [(24, False), (48, True)])
def test_small_blocks_with_gradients_are_loops_where_they_are_many(count, loops):
    f, on_numpy = with_gt(count, slopes=True), with_gt(count, True, backend="numpy")
    assert has_loop(f) is loops
    assert "scan" not in on_numpy.source
    arrays = jax.tree.leaves(arrays_of(count))
    for a, b in zip(f(*arrays), on_numpy(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert not has_loop(with_gt(count, slopes=False))


@pytest.mark.parametrize("transform", [jax.value_and_grad, graphc.value_and_grad])
def test_loops_over_lists_of_parameters_of_jax(transform):
    def cost(blocks, x):
        return loss(jnp, blocks, x)

    blocks, x = arrays_of(48)
    f = graphc.jit(transform(cost))
    results = jax.tree.leaves(f(blocks, x))
    assert has_loop(f)
    expected = with_gt(48, True, backend="numpy")(*jax.tree.leaves((blocks, x)))
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_more_blocks_save_more_and_dearer_compilers_too():
    few, more = replace(SMALL, count=24), replace(SMALL, count=200)
    seconds = [w.seconds_saved(CPU) for w in (few, SMALL, more)]
    assert seconds == sorted(seconds) and not few.pays(CPU) and more.pays(CPU)
    quick = replace(CPU, compiled=1e-5, crowded=0.0)
    assert not SMALL.pays(quick)
    assert SMALL.seconds_saved(quick) < LEAST_SECONDS < SMALL.seconds_saved(CPU)


def test_blocks_of_which_nothing_else_takes_values_are_compiled_once():
    alone = replace(SMALL, role=Role.ALONE)
    assert not alone.pays(CPU) and replace(alone, count=200).pays(CPU)
    assert replace(SMALL, role=Role.BACKWARD).pays(CPU)
    attention = replace(alone, count=24, nodes=46, work=2.0**24)
    assert attention.pays(CPU) and not replace(attention, count=8).pays(CPU)


def test_small_blocks_are_to_save_more_than_those_with_large_products():
    """Loops make calls of small blocks slower."""
    few = replace(SMALL, count=24)
    assert few.seconds_saved(CPU) > LEAST_SECONDS and not few.pays(CPU)
    assert replace(few, work=2.0**20).pays(CPU)
    assert replace(few, nodes=20).pays(CPU)


def test_what_is_copied_is_little_beside_the_work():
    wide = replace(SMALL, stacked=2**18)
    assert not wide.pays(CPU)
    assert replace(wide, work=2.0**24).pays(CPU)


def test_an_accelerator_launches_the_same_without_a_loop():
    assert SMALL.pays(GPU)
    assert not replace(SMALL, count=3).pays(GPU)
