"""Bodies hold no size of the graph around them, whatever is done to the graph."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.bodies import bodies_in
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.graph.walk import ancestors

X = gt.tensor("x", "float64", ("n", 40))
OUT = gt.tensor("out", "float64", (40, 500))
Z = gt.tensor("z", "float64", ("r", "q"))
C = gt.tensor("c", "float64", ())


def test_a_late_rule_brings_no_old_size_back():
    k = gt.count_nonzero(X[:, 0] * 1 > 0)

    def step(c, r):
        return c + gt.sum(gt.tanh(gt.full((k,), gt.sum(r)))), gt.tanh(r)

    c, ys = gt.scan(step, gt.sum(X) * 0, X)
    cost = c + gt.sum(gt.exp(gt.tanh(ys @ OUT))) + gt.sum(gt.arange(k))
    f = graphc.function([X, OUT], cost)
    assert f.source.count("= integer(") == 1
    assert len(f.plan.segments) == 2
    counts = [n for n in ancestors(f.plan.graph.outputs) if "count" in n.primitive.name]
    assert len(counts) == 1
    products = [
        n for n in ancestors([counts[0].outputs[0]]) if n.primitive.name == "multiply"
    ]
    assert not products


@pytest.mark.parametrize("checkpoint", [None, 2, "log"])
@pytest.mark.parametrize("within", [False, True], ids=["outside", "in the step"])
def test_gradients_where_a_size_differs_from_step_to_step(checkpoint, within):
    def outer(s, row):
        kept = row[row > C]

        def inner(s, i):
            return s * 0.5 + gt.sum(gt.tanh(gt.full(kept.shape, s + i)) * kept), None

        def run(s):
            steps = gt.arange(4).astype("float64")
            return gt.scan(inner, s, steps, checkpoint=checkpoint)[0]

        return gt.tanh(s + graphc.grad(run(s), s) if within else run(s)), None

    s, _ = gt.scan(outer, gt.sum(Z) * 0 + 0.3, Z)
    f = graphc.function([Z, C], [s, graphc.grad(s, Z)], backend="numpy")
    verify(f.plan.graph)
    rng = np.random.default_rng(0)
    z, along = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    ends = [f(z + h * along, 0.1)[0] for h in (1e-6, -1e-6)]
    slope = np.sum(f(z, 0.1)[1] * along)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_a_graph_of_many_examples_with_a_value_of_a_size_alone():
    v, many = gt.vector("v"), gt.matrix("many")
    y = gt.sum(gt.arange(v.shape[0])) + gt.sum(v)
    graph = Graph((v,), (y,), ("v",), ("",))
    f = graphc.function([many], graphc.vmap(graph)(many), backend="numpy")
    np.testing.assert_array_equal(f(np.ones((2, 3), "float32")), [6, 6])


def loops():
    """Yield loops and branches of each kind whose bodies use sizes from outside."""
    x, k = gt.tensor("x", "float64", ("n",)), gt.tensor("k", "int64", ())
    few = x[x > 0]
    s, zero = few.shape[0], gt.sum(x) * 0

    def one(c):
        return gt.tanh(c + gt.sum(gt.full((s,), c)) + gt.sum(gt.full((k, s), c)))

    step = lambda c, v: (one(c) * v, gt.sum(few * c))  # noqa: E731
    yield "scan", (x, k), gt.scan(step, zero, x)[0]
    yield "ys", (x, k), gt.sum(gt.scan(step, zero, x, checkpoint=2)[1])
    last = lambda c, y: c > 9  # noqa: E731
    yield "until", (x, k), gt.sum(gt.scan(step, zero, x, until=last)[1])
    more = lambda p: p[1] < 3  # noqa: E731
    count = lambda p: (one(p[0]), p[1] + 1)  # noqa: E731
    yield "while", (x, k), gt.while_loop(more, count, (zero, 0))[0]
    yield "cond", (x, k), gt.cond(zero < 1, lambda: one(zero), lambda: zero + s)
    inner = lambda c, v: (gt.scan(step, c, few)[0] * v, None)  # noqa: E731
    yield "nested", (x, k), gt.scan(inner, zero, x)[0]
    yield "joined", (x, k), gt.scan(step, zero, gt.concatenate([x, few]))[0]


LOOPS = {name: (inputs, value) for name, inputs, value in loops()}


@pytest.mark.parametrize("name", LOOPS)
def test_bodies_are_closed(name):
    inputs, value = LOOPS[name]
    x = inputs[0]
    slope = graphc.grad(value, x)
    graph = Graph(inputs, (value, slope), ("x", "k"), ("", ""))
    nodes = ancestors(graph.outputs)
    assert list(bodies_in(nodes))
    verify(graph)
    for body in bodies_in(nodes):
        assert all(s.origin is None for s in body.size_params)
        of_body = {v.node for v in body.inputs} | set(body.nodes)
        assert set(ancestors(body.outputs)) <= of_body
