"""Parts that are alike become calls of one function with the same results."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import Rules, default, rewritten, sharing
from graphc.rewriting.sharing.circles import Circles
from graphc.rewriting.sharing.parts import (
    AlikeParts,
    _TaintedNodes,
    find_alike_parts,
    order_parts,
)

EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "15"))
ALWAYS = Rules((sharing(least_saved=1),))
WITHOUT = default - "shared_blocks" - "repeated_blocks"
WITH = WITHOUT + sharing(least_saved=8)


def shared(inputs, outputs, rules=ALWAYS):
    """The outputs after the rule."""
    names = tuple(v.name for v in inputs), ("",) * len(outputs)
    graph = Graph(tuple(inputs), tuple(outputs), *names)
    found = rewritten(graph, rules).graph
    verify(found)
    return list(found.outputs)


def calls(outputs):
    """The number of calls of each function, in descending order."""
    inner_nodes = with_inner_nodes(ancestors(outputs))
    nodes = [n for n in inner_nodes if n.primitive.name == "call"]
    counts = {}
    for node in nodes:
        body = node.params["body"].content
        counts[body] = counts.get(body, 0) + 1
    return sorted(counts.values(), reverse=True)


def agree(inputs, outputs, arrays, backend="numpy", rtol=0.0):
    """Compare a graph before and after the rule, bit by bit.

    XLA may round sums of products differently if other nodes share their kernel.
    """
    new = shared(inputs, outputs)
    kwargs = {"backend": backend, "unused": "ignore", "rewrites": Rules()}
    expected = graphc.function(inputs, outputs, **kwargs)(*arrays)
    found = graphc.function(inputs, new, **kwargs)(*arrays)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=0)
    return new


def arrays_of(values, n=3):
    rng = np.random.default_rng(0)
    shapes = [v.type.shape for v in values]
    sizes = [[m if isinstance(m, int) else n for m in shape] for shape in shapes]
    made = [rng.normal(size=s) for s in sizes]
    return [a.astype(v.dtype) for a, v in zip(made, values, strict=True)]


def head(x, w, b):
    h = gt.tanh(x @ w + b)
    return h / gt.sqrt(gt.sum(h * h, -1, keepdims=True) + 1)


def heads(count, size="n"):
    """Parallel heads on one input."""
    x = gt.tensor("x", "float64", (size, 4))
    given = [
        (gt.tensor(f"w{i}", "float64", (4, 4)), gt.tensor(f"b{i}", "float64", (4,)))
        for i in range(count)
    ]
    return [x, *(v for pair in given for v in pair)], [head(x, *p) for p in given]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_parallel_parts_are_calls_of_one_function(backend):
    inputs, outputs = heads(5)
    new = agree(inputs, outputs, arrays_of(inputs), backend)
    assert calls(new) == [5]
    f = graphc.function(inputs, new, backend=backend, rewrites=Rules())
    assert f.source.count("p.tanh(add") == 1
    assert f.source.count("= head(") == 5
    assert ("head = jax.jit(head)" in f.source) == (backend == "jax")


def test_parts_in_a_short_chain():
    x = gt.tensor("x", "float64", ("n", 4))
    ws = [gt.tensor(f"w{i}", "float64", (4, 4)) for i in range(3)]
    y = x
    for w in ws:
        y = head(y, w, 1.0) + y
    loss = gt.sum(y)
    outputs = [loss, *graphc.grad(loss, [x, *ws])]
    new = agree([x, *ws], outputs, arrays_of([x, *ws]))
    assert calls(new)[:2] == [3, 3]  # forwards and backwards


def test_a_value_that_some_parts_take_and_others_make():
    x, w = gt.tensor("x", "float64", (4,)), gt.tensor("w", "float64", (4, 4))
    a, b = head(x, w, x), head(x, w, w[0])
    c = head(a, w, b)
    assert sum(calls(agree([x, w], [a, b, c, a * b], arrays_of([x, w])))) >= 2


def test_what_lies_between_two_nodes_of_a_part_stays_outside_with_one():
    """No part may contain nodes both before and after one that depends on it."""
    x = gt.tensor("x", "float64", (3,))
    outputs = []
    for i in range(4):
        a = gt.tanh(gt.exp(x + i) - 1)
        b = gt.sort(a) if i % 2 else gt.flip(a)
        outputs.append(gt.sin(a * b) + gt.cos(b))
    agree([x], outputs, arrays_of([x]))


def test_one_circle_of_two_parts_is_none():
    """Each of the two parts reads the other's result."""
    x = gt.tensor("x", "float64", (3,))
    a, b = gt.tanh(gt.exp(x)), gt.tanh(gt.exp(-x))
    outputs = [gt.sin(gt.cos(a) * b), gt.sin(gt.cos(b) * a)]
    agree([x], outputs, arrays_of([x]))


NEAR = {
    "constant": lambda h: gt.tanh(h * 2.0) + 1.5,
    "axis": lambda h: gt.tanh(h * 2.0) + gt.sum(h, 0),
    "dtype": lambda h: gt.astype(gt.tanh(gt.astype(h, "float32") * 2.0), "float64"),
    "op": lambda h: gt.sinh(h * 2.0) + 1.0,
    "order": lambda h: 1.0 + gt.tanh(h * 2.0),
}


@pytest.mark.parametrize("how", NEAR)
@pytest.mark.parametrize("odd", [0, 2, 4])
def test_a_part_that_differs_stays_outside(how, odd):
    inputs, _ = heads(5)
    x, *rest = inputs
    outputs = []
    for i in range(5):
        h = head(x, *rest[2 * i : 2 * i + 2])
        last = NEAR[how] if i == odd else lambda h: gt.tanh(h * 2.0) + 1.0
        outputs.append(gt.exp(last(h)))
    new = agree(inputs, outputs, arrays_of(inputs))
    assert calls(new)[0] >= 4


def test_constants_that_differ_are_arguments():
    x = gt.tensor("x", "float32", ("n", 2))
    tables = [np.full((2, 2), 0.1 * i, "float32") for i in range(4)]
    outputs = [gt.tanh(x @ t + 1) * gt.exp(x) for t in tables]
    for backend in ("numpy", "jax"):
        assert calls(agree([x], outputs, arrays_of([x]), backend)) == [4]


def test_places_that_differ_are_no_arguments():
    """Known indices print differently from unknown ones."""
    x = gt.tensor("x", "float64", (5,))
    outputs = [gt.exp(gt.sin(x[np.array([i, 0, 2])]) + 1) for i in range(4)]
    new = agree([x], outputs, arrays_of([x]))
    inner_nodes = with_inner_nodes(ancestors(new))
    nodes = [n for n in inner_nodes if n.primitive.name == "gather"]
    assert len(nodes) == 4


def test_slices_of_stacked_parameters():
    x, w = gt.tensor("x", "float64", ("n", 3)), gt.tensor("w", "float64", (4, 3, 3))
    outputs = [gt.tanh(x @ w[i]) + gt.exp(-x) @ w[i] for i in range(4)]
    assert 4 in calls(agree([x, w], outputs, arrays_of([x, w])))


def test_sizes_are_those_of_the_arguments():
    inputs, outputs = heads(3, size="length")
    source = graphc.function(inputs, outputs, rewrites=WITH).source
    assert "head = jax.jit(head)\n" in source
    x = gt.tensor("x", "float64", ("n",))
    shape = x.shape[0], 2
    y = [gt.broadcast_to(gt.sum(gt.tanh(x + k)), shape) for k in (x, -x, x * x)]
    agree([x], y, arrays_of([x]))
    agree([x], y, arrays_of([x]), "jax")


def test_counted_sizes_and_checks_stay_outside():
    x = gt.tensor("x", "float64", ("n",))
    y = []
    for i in range(4):
        kept = gt.tanh(x[x > i / 4] * 2) + 1
        kept = gt.assert_(gt.all(kept > -9), "small", kept)
        y.append(gt.sum(gt.exp(kept) * 2 + kept))
    for backend in ("numpy", "jax"):
        agree([x], y, [np.linspace(-1, 1, 7)], backend)


def test_within_the_body_of_a_loop():
    x = gt.tensor("x", "float64", ("n", 4))
    ws = [gt.tensor(f"w{i}", "float64", (4, 4)) for i in range(4)]

    def step(carry, row):
        parts = [head(carry + row, w, row) for w in ws]
        return sum(parts[1:], parts[0]), parts[2]

    end, rows = gt.scan(step, gt.zeros(4, "float64"), x)
    loss = gt.sum(end) + gt.sum(rows)
    outputs = [end, rows, *graphc.grad(loss, ws)]
    for backend, rtol in {"numpy": 0.0, "jax": 1e-14}.items():
        new = agree([x, *ws], outputs, arrays_of([x, *ws]), backend, rtol)
        assert calls(new)[:2] == [4, 4]


def test_loops_that_are_alike_are_in_one_function():
    x = gt.tensor("x", "float64", ("n", 3))

    def running(k):
        rows, start = gt.exp(x * k), gt.zeros(3, "float64")
        return gt.scan(lambda c, r: (c + gt.tanh(r), c), start, rows)[1]

    ks = [gt.tensor(f"k{i}", "float64", ()) for i in range(3)]
    new = agree([x, *ks], [running(k) for k in ks], arrays_of([x, *ks]))
    assert calls(new) == [3]


@pytest.mark.parametrize("dims", ["specialize", "pad", None])
def test_under_every_policy(dims):
    inputs, outputs = heads(4)
    x = inputs[0]
    outputs = [*outputs, gt.sum(gt.stack([gt.max(y, 0) for y in outputs]))]
    first = graphc.function(inputs, outputs, rewrites=WITHOUT, dims=dims)
    second = graphc.function(inputs, outputs, rewrites=WITH, dims=dims)
    assert "shared_blocks" in [a.rule.name for a in second.rewrites]
    for n in (3, 5, 0, 1):
        arrays = arrays_of(inputs, n) if n else arrays_of(inputs, 2)
        arrays[0] = arrays[0][: n or 1]
        for a, b in zip(first(*arrays), second(*arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert x.type.rank == 2


def test_bounded_counts():
    x = gt.tensor("x", "float64", ("n",))
    outputs = [
        gt.sum(gt.exp(gt.tanh(x[x > 0] * k) + 1) * x[x > 0]) for k in (x[0], x[1], x[2])
    ]
    arrays = [np.linspace(-1, 1, 7)]
    plain, made = (
        graphc.function([x], outputs, rewrites=r, dims="bound") for r in (WITHOUT, WITH)
    )
    for a, b in zip(plain(*arrays), made(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_texts_are_the_same_each_time():
    def text():
        inputs, outputs = heads(6)
        return graphc.function(inputs, outputs, rewrites=WITH).source

    assert len({text() for _ in range(2)}) == 1


def test_the_default_takes_what_pays_and_can_be_told_not_to():
    few, many = heads(3), heads(24)
    assert "jax.jit(head)" not in graphc.function(*few).source
    f = graphc.function(*many)
    assert "jax.jit(head)" in f.source
    assert "shared_blocks" in f.explain(full=True)
    without = graphc.function(*many, rewrites=default - "shared_blocks")
    assert "jax.jit(head)" not in without.source
    arrays = arrays_of(many[0])
    for a, b in zip(f(*arrays), without(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_search_is_linear():
    """Twice the nodes take about twice the steps."""

    def visited(count):
        x = gt.tensor("x", "float64", (3,))
        y = x
        for i in range(count):
            y = gt.tanh(y * 2) + (gt.exp(y) if i % 7 else gt.sin(y))
        loss = gt.sum(y)
        steps = 0

        def pays(number, size):
            nonlocal steps
            steps += number * size
            return number * size > 30

        nodes = ancestors([loss, graphc.grad(loss, x)])
        find_alike_parts(nodes, pays)
        return steps / len(nodes)

    assert visited(400) < 1.5 * visited(100) + 5


def test_parts_of_a_sum_cost_no_more_the_more_there_are(monkeypatch):
    """Each part reads the sum so far, and so all that earlier parts compute."""
    visits, add = [0], _TaintedNodes.add

    def counted(self, value):
        visits[0] += 1
        add(self, value)

    monkeypatch.setattr(_TaintedNodes, "add", counted)

    def per_part(count):
        ps = [gt.scalar(f"p{i}", "float32") for i in range(count)]
        rows = np.arange(4 * count, dtype="float32").reshape(count, 4)
        loss = gt.zeros((), "float32")
        for p, row in zip(ps, rows, strict=True):
            loss = loss + gt.sum(-0.5 * ((row - p) / gt.exp(p)) ** 2 - p - 0.5)
        visits[0] = 0
        shared(ps, [loss, *graphc.grad(loss, ps)], default)
        return visits[0] / count

    assert per_part(80) < 1.5 * per_part(20)


def test_a_part_that_takes_what_it_computes_where_others_take_an_input():
    xs = [gt.tensor(f"x{i}", "float64", ("n", 2)) for i in range(3)]
    k = gt.tensor("k", "float64", ("n", 2))
    first, *others = [gt.exp(x) for x in xs]
    outputs = [gt.sin(first * first), *(gt.sin(y * k) for y in others)]
    for count, shares in ((2, [2]), (3, [3, 2])):  # all of exp, and others whole
        inputs = [*xs[:count], k]
        assert calls(agree(inputs, outputs[:count], arrays_of(inputs))) == shares


UNARY = (gt.sin, gt.tanh, lambda v: v * 0.5, lambda v: -v, lambda v: gt.flip(v, 0))
BINARY = (gt.add, gt.multiply, gt.subtract, gt.maximum)


@st.composite
def programs(draw):
    """Draw parts, alike except perhaps one, that read each other's values or inputs."""
    count = draw(st.integers(2, 6))
    steps = draw(st.lists(st.tuples(*[st.integers(0, 20)] * 4), min_size=2, max_size=8))
    odd, at = draw(st.integers(-1, count - 1)), draw(st.integers(0, len(steps) - 1))
    xs = [gt.tensor(f"x{i}", "float64", ("n", 2)) for i in range(2)]
    ws = [gt.tensor(f"w{i}", "float64", ()) for i in range(count)]
    made, shown = list(xs), []
    for i, w in enumerate(ws):
        taken = [made[draw(st.integers(0, len(made) - 1))] for _ in range(2)]
        pool = [*taken, w, xs[0]]
        for number, (a, b, one, two) in enumerate(steps):
            left = UNARY[one % len(UNARY)](pool[a % len(pool)] + gt.zeros_like(xs[0]))
            if i == odd and number == at:
                left = left + 0.25
            pool.append(BINARY[two % len(BINARY)](left, pool[b % len(pool)]))
        made.append(pool[-1] + gt.zeros_like(xs[0]))
        shown += [v for v in pool[4:] if draw(st.integers(0, 5)) == 0]
        if draw(st.booleans()):
            made.append(gt.cos(made[-1]))
    outputs = [*made[2:], *shown]
    if draw(st.booleans()):
        loss = sum(gt.sum(gt.sin(v)) for v in outputs)
        outputs += [loss, *graphc.grad(loss, [*xs, *ws], disconnected="zero")]
    return [*xs, *ws], outputs


@settings(deadline=None, max_examples=EXAMPLES)
@given(programs(), st.integers(0, 3))
def test_generated_programs_agree(program, n):
    inputs, outputs = program
    agree(inputs, outputs, arrays_of(inputs, n))


@settings(deadline=None, max_examples=10 * EXAMPLES)
@given(st.data())
def test_there_is_an_order_where_there_is_no_circle(data):
    """The quick test for a circle agrees with a search for an order, for any parts."""
    values = [gt.scalar("x", "float64")]
    for _ in range(data.draw(st.integers(4, 20))):
        near = st.integers(max(0, len(values) - 4), len(values) - 1)
        values.append(gt.sin(values[data.draw(near)]) + values[data.draw(near)])
    nodes = ancestors(values)
    places = data.draw(st.permutations(range(1, len(nodes))))
    parts, size = [], data.draw(st.integers(1, 3))
    for _ in range(data.draw(st.integers(0, 4))):
        block, places = places[: 2 * size], places[2 * size :]
        if len(block) == 2 * size:
            row_pairs = zip(block[:size], block[size:], strict=True)
            parts.append(AlikeParts([(nodes[a], nodes[b]) for a, b in row_pairs]))
    assert Circles(nodes).are_in(parts) == (order_parts(nodes, parts) is None)
