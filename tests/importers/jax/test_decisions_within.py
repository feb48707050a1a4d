"""Decisions by sizes within transformations, derivatives and other traces."""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.trace.dimensions import DIMENSION
from graphc.importers.jax.trace.recorder import RECORDING
from tests.importers.jax.comparing import (
    SEVERAL_SIZES,
    agrees,
    outcomes_by_jax,
    same,
    vector,
)


def inner_jit(x):
    scale = jax.jit(lambda y: y * 2 if y.shape[0] == 12 else y)
    return scale(x) + scale(x)


def rule_of_a_derivative(x):
    @jax.custom_vjp
    def root(y):
        return jnp.sqrt(y)

    def backward(y, slope):
        return (slope * (2.0 if y.shape[0] % 4 == 0 else 1.0),)

    root.defvjp(lambda y: (root(y), y), backward)
    return jax.grad(lambda y: root(y).sum())(x)


def body_of_a_scan(x):
    def step(carry, row):
        return carry + row * (2.0 if x.shape[0] > 8 else 1.0), carry

    return jax.lax.scan(step, jnp.float32(0), x)


def called_later(x):
    weights = [lambda: 2.0 if x.shape[0] == 16 else 1.0]
    return jax.vmap(lambda row: row * weights[0]())(x)


@pytest.mark.parametrize(
    "function", [inner_jit, rule_of_a_derivative, body_of_a_scan, called_later]
)
def test_decisions_within_transformations(function):
    agrees(function)


SCALES = {
    "equal": lambda n: 2.0 if n == 12 else 1.0,
    "a look-up": lambda n: {12: 2.0}.get(n, 1.0),
    "a text": lambda n: float(len(str(n))),
    "a number": math.sqrt,
    "a type": lambda n: 2.0 if type(n) is int else 1.0,
}


@pytest.mark.parametrize("name", SCALES)
def test_rules_of_functions_decide_where_graphs_are_differentiated(name):
    @jax.custom_vjp
    def root(x):
        return jnp.sqrt(x)

    def backward(x, slope):
        return (slope * SCALES[name](x.shape[0]),)

    root.defvjp(lambda x: (root(x), x), backward)

    def cost(x):
        return root(x).sum()

    calls = {n: (vector(n),) for n in SEVERAL_SIZES}
    expected = outcomes_by_jax(jax.grad(cost), calls)
    ours = graphc.jit(graphc.grad(cost))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in SEVERAL_SIZES:
            same(ours(vector(n)), expected[n])


@pytest.mark.usefixtures("without_audit")
def test_rules_of_functions_are_traced_once_for_a_trace():
    traces = []

    @jax.custom_jvp
    def twice(x):
        return 2 * x

    @twice.defjvp
    def _(primals, tangents):
        traces.append(primals[0].shape)
        return 2 * primals[0], 2 * tangents[0]

    ours = graphc.jit(graphc.grad(lambda x: twice(x).sum()))
    for n in range(5, 20):
        ours(vector(n))
    # One exact trace and one for all sizes, by JAX and graphc each; three comparisons.
    assert len(traces) == 2 + 2 + 3


def test_results_beside_a_gradient_have_the_structure_of_their_size():
    def cost(x):
        return (x**2).sum(), {"even": x} if x.shape[0] % 2 == 0 else (x, x)

    ours = graphc.jit(graphc.value_and_grad(cost, has_aux=True))
    exact = jax.jit(jax.value_and_grad(cost, has_aux=True))
    for n in (5, 6, 7, 8, 9, 2, 3, 1):
        same(ours(vector(n)), exact(vector(n)))


def test_functions_of_graphc_decide_within_a_trace():
    inner = graphc.jit(lambda x: x * 2 if x.shape[0] % 3 == 0 else x)
    optimized = graphc.optimize(lambda x: jnp.cumsum(x) if x.shape[0] == 12 else x)

    def function(x):
        n, outside = x.shape[0], np.ones(3, "float32")
        one = graphc.from_jax(lambda y: (y,) * (2 if n == 12 else 1), outside)
        slope = jax.grad(lambda y: inner(y).sum())(x)
        both = jax.vmap(inner)(jnp.stack([x, x]))
        return slope * len(one.outputs), both, optimized(x)

    assert agrees(function).stats().fallbacks == []


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_nothing_is_recorded_after_a_trace_that_stops(stop):
    stops = []

    def function(x):
        scaled = x * 2 if x.shape[0] % 2 else x
        if stops:
            raise stops.pop()
        return scaled

    ours = graphc.jit(function)
    ours(vector(5))
    stops.append(stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        try:
            ours(vector(6))
        except KeyboardInterrupt:
            assert stop is KeyboardInterrupt
        assert not RECORDING and "__getattribute__" not in vars(DIMENSION)
        for n in (6, 7, 8, 9):
            same(ours(vector(n)), jax.jit(function)(vector(n)))
