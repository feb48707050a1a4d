"""Gradients through chains of blocks use loops and equal the blocks' gradients."""

import gc
import math
import re
import weakref
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewriting.loops.roll import chains
from graphc.transform.derivatives import rolled_gradients

NONE = graphc.rewrites.none
COUNT = 5


@pytest.fixture(autouse=True)
def any_chain(monkeypatch):
    """Roll chains however short they are, also in the compiler."""
    free = replace(CPU, step=0.0, bandwidth=math.inf)

    def always(graph, for_gradients):
        assert for_gradients
        return chains.roll_chains(graph, least_saved=0, costs=free)

    monkeypatch.setattr(rolled_gradients, "roll_chains", always)


ROLLING = graphc.rewrites.default - "repeated_blocks"
ROLLING += graphc.rewrites.rolling(least_saved=0, least_work=0)


def layers(x, ws, b):
    """All values before, between and after the layers."""
    ys = [x]
    for w in ws:
        ys.append(ys[-1] + gt.tanh(ys[-1] @ w + b))
    return ys


def network(count=COUNT, rows=3):
    x = gt.tensor("x", "float64", (rows, 4))
    ws = [gt.tensor(f"w{i}", "float64", (4, 4)) for i in range(count)]
    b = gt.tensor("b", "float64", (4,))
    return x, ws, b


def arrays_of(values, n=3):
    rng = np.random.default_rng(0)
    shapes = [[m if isinstance(m, int) else n for m in v.type.shape] for v in values]
    return [rng.normal(size=shape) / 2 for shape in shapes]


def scans(f):
    """The number of loops in a program."""
    return len(re.findall(r"= (scan|loop)_jax\(", f.source))


def has_loops(f):
    """Whether a program has loops; its comments quote lines of tests, which may."""
    return any("scan" in line.partition("#")[0] for line in f.source.splitlines())


def agree(inputs, outputs, loops=None, **options):
    """Compare a program with loops on JAX to one without on NumPy."""
    arrays = arrays_of(inputs)
    options = {"unused": "ignore", **options}
    f = graphc.function(inputs, outputs, rewrites=ROLLING, **options)
    found = f(*arrays)
    unrolled = graphc.function(inputs, outputs, rewrites=NONE, **options)
    assert not has_loops(unrolled)
    for rules in (NONE, graphc.rewrites.default):
        how = {"backend": "numpy", "unused": "ignore", "rewrites": rules}
        plain = graphc.function(inputs, outputs, **how)
        assert not has_loops(plain)
        for a, b in zip(found, plain(*arrays), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    if loops is not None:
        assert scans(f) == loops
    return f


def test_gradients_of_a_chain_are_two_loops():
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    made = graphc.grad(cost, [x, *ws, b])
    assert any(n.primitive.name == "scan" for n in ancestors(made))
    agree([x, *ws, b], [cost, *made], loops=2)


def test_gradients_are_those_of_jax():
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    slopes = graphc.grad(cost, [x, *ws, b])

    def written(x, *rest):
        for w in rest[:-1]:
            x = x + jnp.tanh(x @ w + rest[-1])
        return jnp.sum(x**2)

    arrays = arrays_of([x, *ws, b])
    with jax.enable_x64():
        expected = jax.grad(written, argnums=tuple(range(len(arrays))))(*arrays)
    for rules in (graphc.rewrites.default, NONE):
        f = graphc.function([x, *ws, b], slopes, rewrites=rules)
        for a, e in zip(f(*arrays), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12)


def test_values_after_the_chain_are_from_the_same_loop():
    x, ws, b = network()
    last = layers(x, ws, b)[-1]
    cost = gt.sum(last**2)
    agree([x, *ws, b], [last, gt.argmax(last, 1), *graphc.grad(cost, ws)], loops=2)


def test_blocks_of_which_more_is_needed_are_not_computed_twice():
    """The blocks are differentiated; then the compiler may make loops of everything."""
    x, ws, b = network()
    ys = layers(x, ws, b)
    cost = gt.sum(ys[-1] ** 2)
    outputs = [*ys, *graphc.grad(cost, ws)]
    agree([x, *ws, b], outputs, loops=0)
    names = ("",) * (len(ws) + 2), ("",) * len(outputs)
    graph = Graph((x, *ws, b), tuple(outputs), *names)
    compiled = rolled_gradients.with_gradients_of_loops(graph, rolling=True)
    assert sum(n.primitive.name == "tanh" for n in compiled.nodes) == COUNT


@pytest.mark.parametrize("apart", [False, True])
def test_gradients_asked_for_one_by_one(apart):
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    values = [*ws, b]
    gs = [graphc.grad(cost, v) for v in values] if apart else graphc.grad(cost, values)
    agree([x, *ws, b], [cost, *gs], loops=2)


def test_two_costs_of_one_chain():
    x, ws, b = network()
    last = layers(x, ws, b)[-1]
    first, second = gt.sum(last**2), gt.sum(gt.sin(last))
    made = [*graphc.grad(first, ws), *graphc.grad(second, ws)]
    agree([x, *ws, b], [first, second, *made])


def test_a_gradient_in_a_value_within_the_chain():
    x, ws, b = network()
    ys = layers(x, ws, b)
    cost = gt.sum(ys[-1] ** 2)
    agree([x, *ws, b], [cost, *graphc.grad(cost, [ys[2], ws[0], ws[4]])])


def test_products_with_cotangents():
    x, ws, b = network()
    last = layers(x, ws, b)[-1]
    given = gt.tensor("g", "float64", (3, 4))
    agree([x, *ws, b, given], [last, *graphc.vjp(last, [x, *ws], given)], loops=2)


def test_second_derivatives():
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    vs = [gt.tensor(f"v{i}", "float64", (4, 4)) for i in range(COUNT)]
    first = graphc.grad(cost, ws)
    product = sum(gt.sum(g * v) for g, v in zip(first, vs, strict=True))
    by_gradients = graphc.grad(product, ws)
    by_pushing = graphc.jvp(first, ws, vs)
    agree([x, *ws, b, *vs], [cost, *first, *by_gradients])
    f = agree([x, *ws, b, *vs], [*by_gradients, *by_pushing, *graphc.hvp(cost, ws, vs)])
    found = np.asarray(f(*arrays_of([x, *ws, b, *vs]))).reshape(3, COUNT, 4, 4)
    np.testing.assert_allclose(found[1:], found[:1].repeat(2, 0), rtol=1e-10)


def test_a_step_on_a_step():
    """The gradient of a cost after a step that is made with a first gradient."""
    x, ws, b = network()
    first = gt.sum(layers(x, ws, b)[-1] ** 2)
    after = [w - 0.1 * g for w, g in zip(ws, graphc.grad(first, ws), strict=True)]
    second = gt.sum(layers(x, after, b)[-1] ** 2)
    steps = zip(after, graphc.grad(second, after), strict=True)
    agree([x, *ws, b], [first, second, *(w - 0.1 * g for w, g in steps)])
    agree([x, *ws, b], graphc.grad(second, ws))


def test_jacobians_and_mapped_gradients():
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    agree([x, *ws, b], [graphc.jacobian(graphc.grad(cost, b), b)])
    many = gt.tensor("many", "float64", (2, 3, 4))

    def slope(x):
        return graphc.grad(gt.sum(layers(x, ws, b)[-1] ** 2), x)

    mapped = graphc.function([many, *ws, b], graphc.vmap(slope)(many))
    single = graphc.function([x, *ws, b], slope(x))
    given, *rest = arrays_of([many, *ws, b])
    expected = [single(row, *rest) for row in given]
    np.testing.assert_allclose(mapped(given, *rest), expected, rtol=1e-12)


@pytest.mark.parametrize("dims", ["specialize", "pad", "auto"])
def test_symbolic_sizes(dims):
    x, ws, b = network(rows="n")
    cost = gt.mean(layers(x, ws, b)[-1] ** 2)
    f = agree([x, *ws, b], [cost, *graphc.grad(cost, ws)], loops=2, dims=dims)
    how = {"rewrites": NONE, "backend": "numpy"}
    plain = graphc.function([x, *ws, b], [cost, *graphc.grad(cost, ws)], **how)
    for n in (1, 7) if dims == "specialize" else (1, 2, 5, 7, 17, 2):
        arrays = arrays_of([x, *ws, b], n)
        for a, e in zip(f(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-10)


def test_what_the_cost_does_not_depend_on():
    x, ws, b = network()
    other = gt.tensor("other", "float64", (2,))
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    with pytest.raises(graphc.GraphError, match="does not depend smoothly on other"):
        graphc.grad(cost, [*ws, other])
    made = graphc.grad(cost, [*ws, other], disconnected="zero")
    agree([x, *ws, b, other], made)


def test_an_op_without_a_gradient_is_told_as_without_loops(monkeypatch):
    x, ws, _ = network()
    y = x
    for w in ws:
        y = gt.special.gammainc(gt.exp(y @ w), 2.0)
    messages = []
    for rolled in (rolled_gradients.roll_chains, lambda *_, **options: None):
        monkeypatch.setattr(rolled_gradients, "roll_chains", rolled)
        with pytest.raises(graphc.GraphError) as error:
            graphc.grad(gt.sum(y), ws)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_nothing_is_kept_alive():
    x, ws, b = network()
    cost = gt.sum(layers(x, ws, b)[-1] ** 2)
    made = graphc.grad(cost, [x, *ws, b])
    node = weakref.ref(made[1].node)
    outer = weakref.ref(cost.node)
    del x, ws, b, cost, made
    gc.collect()  # of the gradient; then nothing refers to the blocks
    gc.collect()
    assert node() is None
    assert outer() is None


@st.composite
def programs(draw):
    """A chain, perhaps with near misses in it, and outputs that depend on it."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    count = draw(st.integers(2, 7))
    odd = draw(st.none() | st.integers(0, count - 1))
    kind = draw(st.sampled_from(["constant", "axis", "op", "operand"]))
    x = gt.tensor("x", dtype, ("n", 3))
    ws = [gt.tensor(f"w{i}", dtype, (3, 3)) for i in range(count)]
    scale = gt.tensor("scale", dtype, ())
    carried = draw(st.booleans())
    y, aside, between = x, gt.zeros((3,), dtype), []
    for i, w in enumerate(ws):
        one = i == odd
        z = y @ (w.T if one and kind == "operand" else w)
        z = gt.sin(z) if one and kind == "op" else gt.tanh(z)
        axis = 0 if one and kind == "axis" else 1
        total = gt.max(z, axis, keepdims=True, initial=-1)
        y = z * (0.5 if one and kind == "constant" else 0.25) * scale + total
        if carried:
            aside = aside + gt.sum(y, 0)
            y = y + aside
        between.append(y)
    cost = gt.sum(y * y) + gt.sum(aside)
    wrt = draw(st.permutations([x, *ws, scale]))[: draw(st.integers(1, 3))]
    made = graphc.grad(cost, wrt)
    more = draw(st.sampled_from([[], [cost], [y], between[:1], [cost, *between]]))
    return [x, *ws, scale], [*more, *made]


@given(programs(), st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_generated_chains_agree(program, n):
    """Only JAX gets loops; without them, NumPy compiles nothing."""
    inputs, outputs = program
    rng = np.random.default_rng(1)
    arrays = []
    for v in inputs:
        shape = [m if isinstance(m, int) else n for m in v.type.shape]
        arrays.append(rng.normal(size=shape).astype(v.dtype) / 2)
    options = {"unused": "ignore"}
    expected = graphc.function(inputs, outputs, backend="numpy", **options)(*arrays)
    for rules, backend in ((ROLLING, "jax"), (NONE, "numpy")):
        options |= {"rewrites": rules, "backend": backend}
        f = graphc.function(inputs, outputs, **options)
        for _ in range(2):
            for a, e in zip(f(*arrays), expected, strict=True):
                tolerance = 1e-4 if e.dtype == np.float32 else 1e-11
                np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
