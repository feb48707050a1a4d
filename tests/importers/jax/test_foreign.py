"""Primitives without a rule are run by JAX within a program for many sizes."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import graphc
import graphc.tensor as gt

MATRICES = np.arange(8, dtype="float32").reshape(2, 2, 2)


def vector(n):
    return np.arange(1, n + 1, dtype="float32")


def agree(ours, theirs, sizes=(3, 4, 6)):
    """Compare at several sizes; return the reasons why JAX runs parts."""
    for n in sizes:
        found, wanted = (jax.tree.leaves(f(vector(n))) for f in (ours, theirs))
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = ours.stats()
    assert stats.fallbacks == [] and stats.foreign
    assert all(reason in ours.explain() for reason in stats.foreign)
    return stats.foreign


def called_back(x):
    """A callback that holds a traced size."""
    n = x.shape[0]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda v: np.sin(v) * n, shape, x * 2) + n


def products(x):
    """Multiply the first row by one matrix, and the others by another."""
    rows, n = jnp.stack([x, x * x], 1), x.shape[0]
    return lax.ragged_dot(rows, MATRICES, jnp.array([1, n - 1])).sum(1)


def in_a_loop(x):
    def step(carry, v):
        found = rounded(jnp.hypot(carry, v))
        return found, found + rounded(v / 3)

    return lax.scan(step, jnp.float32(0), x)


def rounded(x):
    """Round as in a dtype that graphs do not have."""
    return lax.reduce_precision(x, 5, 2)


def several(x):
    """Two similar parts of different sizes, one of them in an inner function."""
    few = jax.jit(lambda v: rounded(v[1:] / 7))(x)
    return few, rounded(x)[:1]


@pytest.mark.parametrize("function", [called_back, products, in_a_loop, several])
def test_values_are_those_of_jax(function):
    agree(graphc.jit(function), jax.jit(function))


@pytest.mark.parametrize("dims", ["pad", "specialize"])
def test_gradients_are_those_of_jax(dims):
    def cost(x):
        return jnp.sum(jnp.tanh(products(x * 2)) ** 2)

    reasons = agree(graphc.jit(graphc.grad(cost), dims=dims), jax.jit(jax.grad(cost)))
    assert reasons[0].startswith("ragged_dot_general: there is no op for it here")


def rough(x):
    return rounded(x / 7) * x


def test_it_is_a_value_of_a_graph_like_any_other():
    x = gt.tensor("x", "float32", ("n",))
    graph = graphc.from_jax(rough, x)
    found, inputs = graph.outputs[0], list(graph.inputs)
    outputs = [found, graphc.jacobian(found, x)]
    wanted = [rough(vector(3)), jax.jacobian(rough)(vector(3))]
    for backend in ("numpy", "jax"):
        run = graphc.function(inputs, outputs, backend=backend)
        for a, b in zip(run(vector(3)), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_text_of_the_program_says_that_it_is_not_whole(tmp_path):
    x = gt.tensor("x", "float32", ("n",))
    graph = graphc.from_jax(products, x)
    run = graphc.function(list(graph.inputs), graph.outputs[0])
    run.save(tmp_path / "program.py")
    space = {}
    exec((tmp_path / "program.py").read_text(), space)
    with pytest.raises(NotImplementedError) as error:
        space["program"](vector(3))
    told = "has no text: only graphc, which wrote this program, has it"
    assert str(error.value) == f"ragged_dot_general {told}"


def test_an_equation_without_results_does_nothing():
    silent = jax.extend.core.Primitive("silent")
    silent.multiple_results = True
    silent.def_abstract_eval(lambda x: [])
    mlir.register_lowering(silent, lambda _, x: [])

    def function(x):
        silent.bind(x)
        return x * 2

    ours = graphc.jit(function)
    for n in (3, 4, 6):
        np.testing.assert_array_equal(ours(vector(n)), vector(n) * 2)
    assert ours.stats().fallbacks == ours.stats().foreign == []


def slopes_by_elements(x):
    grid = lambda a: jnp.cumsum(jax.scipy.special.gammainc(a[:, None], x))
    return jax.grad(lambda a: grid(a).sum())(x)


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_one_that_goes_by_elements_is_padded(dims):
    """JAX runs the primitive at capacities, also where one operand is stretched."""
    ours = graphc.jit(slopes_by_elements, dims=dims)
    agree(ours, jax.jit(slopes_by_elements), (3, 4, 6, 9))
    assert len(ours.stats().compilations) <= 3
