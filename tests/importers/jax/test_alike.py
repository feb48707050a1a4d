"""Graphs count as alike exactly where they are proved to compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.importers.jax.call.alike import are_alike
from graphc.importers.jax.sizes.same_equations import have_same_equations
from graphc.importers.jax.trace.tracing import Spec, trace_function
from graphc.ir.graph.nodes import Graph

LARGE = np.arange(200, dtype="float32")


def graph_of(function):
    return graphc.from_jax(function, np.arange(6, dtype="float32") / 4)


def scanned(weight, reverse=False):
    def step(carry, row):
        return carry * weight + row, carry

    return lambda x: lax.scan(step, jnp.float32(0), x, reverse=reverse)


def looped(last, factor):
    return lambda x: lax.fori_loop(0, last, lambda i, y: y * factor, x)


DIFFERENT = {
    "zeros": (lambda x: x * 0.0, lambda x: x * -0.0),
    "zeros in an array": (
        lambda x: x + np.float32([0, 0, 0, 0, 0, 0.0]),
        lambda x: x + np.float32([0, 0, 0, 0, 0, -0.0]),
    ),
    "no numbers": (lambda x: x + np.nan, lambda x: x + 1),
    "a little": (lambda x: x * 1e-7, lambda x: x * 2e-7),
    "the last bit": (
        lambda x: x + np.float32(1),
        lambda x: x + np.nextafter(np.float32(1), np.float32(2)),
    ),
    "one and true": (lambda x: (x, 1), lambda x: (x, True)),
    "dtypes": (lambda x: x.astype("int8"), lambda x: x.astype("int16")),
    "dtypes of constants": (lambda x: jnp.int32(1), lambda x: jnp.uint32(1)),
    "ways there": (
        lambda x: x.astype("float16").astype("float32"),
        lambda x: x.astype("bfloat16").astype("float32"),
    ),
    "arguments": (lambda x: x[0] - x[1], lambda x: x[1] - x[0]),
    "order of results": (lambda x: (x, -x), lambda x: (-x, x)),
    "large arrays": (lambda x: x[0] + LARGE, lambda x: x[0] + LARGE[::-1]),
    "sorting": (lambda x: jnp.sort(x), lambda x: jnp.sort(x, descending=True)),
    "modes": (
        lambda x: x.at[np.int32(9)].get(mode="clip"),
        lambda x: x.at[np.int32(9)].get(mode="fill"),
    ),
    "bodies": (scanned(2.0), scanned(3.0)),
    "directions": (scanned(2.0), scanned(2.0, reverse=True)),
    "lengths": (looped(3, 2.0), looped(4, 2.0)),
    "branches": (
        lambda x: lax.cond(x[0] > 1, lambda y: y * 2, lambda y: y, x),
        lambda x: lax.cond(x[0] > 1, lambda y: y, lambda y: y * 2, x),
    ),
    "keys": (
        lambda x: x + jax.random.uniform(jax.random.key(1), x.shape),
        lambda x: x + jax.random.uniform(jax.random.key(2), x.shape),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_graphs_that_differ(name):
    first, second = map(graph_of, DIFFERENT[name])
    assert not are_alike(first, second)
    assert are_alike(first, graph_of(DIFFERENT[name][0]))


def test_values_that_are_the_same_in_another_way():
    there_and_back = graph_of(lambda x: x.reshape(2, 3).reshape(6) * 2)
    assert are_alike(there_and_back, graph_of(lambda x: x * 2))
    added = graph_of(lambda x: x + 0.0)
    assert not are_alike(added, graph_of(lambda x: x))  # not for -0.0


@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_row_that_is_written_to_equal_ones_has_these_around_it(place):
    around = [(place, 5 - place), (0, 0)]

    def written(i, values):
        def function(x):
            rows = jnp.full((6, 2), 0.5)
            return lax.dynamic_update_slice(rows, values(x)[None], (np.int32(i), 0))

        return function

    def padded(value):
        return lambda x: jnp.pad(x[None, :2], around, constant_values=value)

    first = graph_of(written(place, lambda x: x[:2]))
    assert are_alike(first, graph_of(padded(np.float32(0.5))))
    assert not are_alike(first, graph_of(padded(np.float32(0.25))))
    assert not are_alike(first, graph_of(written(4, lambda x: x[:2])))
    assert not are_alike(first, graph_of(written(place, lambda x: x[1:3])))


@pytest.mark.parametrize("place", [(0, 0), (3, 1), (5, 0)])
def test_a_block_that_is_written_to_equal_elements_has_these_around_it(place):
    around = [(i, n - 1 - i) for i, n in zip(place, (6, 2), strict=True)]

    def written(at, value):
        def function(x):
            whole = jnp.full((6, 2), 0.5)
            return lax.dynamic_update_slice(whole, value(x), np.int32(at))

        return graph_of(function)

    def padded(value):
        padding = dict(constant_values=np.float32(value))
        return graph_of(lambda x: jnp.pad(x[:1, None], around, **padding))

    first = written(place, lambda x: x[:1, None])
    assert are_alike(first, padded(0.5))
    assert not are_alike(first, padded(0.25))
    assert not are_alike(first, written((4, 1), lambda x: x[:1, None]))
    assert not are_alike(first, written(place, lambda x: x[1:2, None]))


def test_a_slice_of_a_slice_is_a_slice():
    first = graph_of(lambda x: lax.slice(lax.slice(x, (1,), (5,)), (1,), (3,)))
    assert are_alike(first, graph_of(lambda x: x[2:4]))
    assert not are_alike(first, graph_of(lambda x: x[1:3]))
    whole = graph_of(lambda x: lax.slice(x.reshape(2, 3), (0, 1), (2, 3))[:, 0:1])
    assert are_alike(whole, graph_of(lambda x: x.reshape(2, 3)[:, 1:2]))


def test_derivatives_of_loops_are_alike():
    def cost():
        x = gt.tensor("x", "float32", (6,))
        total = graphc.from_jax(lambda x: scanned(2.0)(x)[0], x).outputs[0]
        return Graph((x,), (graphc.grad(total, x),), ("x",), ("",))

    assert are_alike(cost(), cost())


@jax.jit
def three():
    """A number that the graph computes, which bodies then capture from outside."""
    return jnp.float32(1.5) * 2


def started(weight, first):
    return lambda x: lax.scan(lambda c, row: (c * weight() + row, c), first, x)


def branching(weight):
    return lambda x: lax.cond(x[0] > 1, lambda y: y * weight(), lambda y: y, x)


@pytest.mark.parametrize(
    "body", [lambda weight: started(weight, jnp.float32(3)), branching]
)
def test_captured_literals_are_as_those_inside(body):
    captured = graph_of(body(three))
    assert are_alike(captured, graph_of(body(lambda: np.float32(3))))
    for other in (np.float32(2), np.nextafter(np.float32(3), np.float32(4))):
        assert not are_alike(captured, graph_of(body(lambda: other)))


def test_literals_that_are_no_captures_are_told_apart():
    first = graph_of(started(three, jnp.float32(3)))
    assert not are_alike(first, graph_of(started(three, jnp.float32(2))))


def compared(function, other, n=5, symbolic=True, needs_rules=False):
    """Compare the trace of one function, at symbols, with that of another at `n`."""
    shape = ("n",) if symbolic else (6,)
    sizes, at = ({"n": n}, (n,)) if symbolic else ({}, (6,))
    first = trace_function(function, [Spec(shape, np.dtype("float32"))], 1)
    second = trace_function(other, [Spec(at, np.dtype("float32"))])
    return have_same_equations(first, second, sizes, {}, needs_rules)


@jax.custom_vjp
def doubled(x):
    """A function with a derivative of its own."""
    return x * 2


doubled.defvjp(lambda x: (x * 2, None), lambda _, slope: (slope * 3,))

EQUAL = {
    "a mean": lambda x: jnp.mean(x) + jnp.var(x),
    "a gradient": jax.grad(lambda x: jnp.sum(jnp.tanh(x)) / x.shape[0]),
    "a loop": scanned(2.0),
    "choices": lambda x: jnp.where(x > 0, jnp.sort(x), x[::1].sum()),
    "softmax": lambda x: jax.nn.relu(jax.nn.softmax(x)),
    "functions": jax.jit(lambda x: jnp.concatenate([x, x]).reshape(2, -1)),
    "an array": lambda x: x.sum() + LARGE,
    "keys": lambda x: x + jax.random.uniform(jax.random.key(1), (2, 1)),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("n", [1, 5])
def test_traces_at_symbols_that_have_the_same_equations(name, n):
    assert compared(EQUAL[name], EQUAL[name], n)


@pytest.mark.parametrize("name", DIFFERENT)
def test_equations_that_differ(name):
    first, second = DIFFERENT[name]
    assert not compared(first, second, symbolic=False)
    assert compared(first, first, symbolic=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x / x.shape[0], lambda x: x / (x.shape[0] + 1)),
        (lambda x: (x, x.shape[0]), lambda x: (x, 4)),
        (lambda x: x.sum(), lambda x: x.sum() + 0 * x.sum()),
        (lambda x: x.sum() + 0 * x.sum(), lambda x: x.sum()),
        (lambda x: x * 2, lambda x: 2 * jnp.ones_like(x)),
        (lambda x: jnp.pad(x, 1), lambda x: jnp.pad(x, (1, 2))),
        (lambda x: jnp.tile(x, 2), lambda x: jnp.tile(x, 3)[: 2 * len(x)]),
        (lambda x: x.astype("int32"), lambda x: x.astype("uint32")),
    ],
)
def test_equations_that_differ_in_a_size(first, second):
    assert compared(first, first)
    assert not compared(first, second)


def test_derivative_rules_and_host_functions_are_not_compared():
    assert compared(doubled, doubled)
    assert not compared(doubled, doubled, needs_rules=True)

    def called(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((2,), x.dtype), x[:2])

    assert not compared(called, called)
