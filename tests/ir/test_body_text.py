"""The text of graphs inside of nodes is read back, and bad text is refused."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph

X, K = gt.tensor("x", "float32", ("n",)), gt.tensor("k", "int32", ())


def graph(*outputs):
    return Graph((X, K), outputs, ("x", "k"), ("",) * len(outputs))


def total(start=0.0):
    return gt.scan(lambda c, v: (c + v, []), start, X)[0]


def with_all():
    """A scan with branches, sizes of two kinds, and an integer used as a size."""
    ones = gt.ones(X.shape, "float32")

    def step(c, v):
        i, total = c
        part = gt.sum(ones[:i]) + gt.sum(gt.arange(K, dtype="float32"))
        added = gt.cond(v > 0, lambda: total + part * v, lambda: total * 2)
        return (i + 1, added), (added, ones * v)

    return gt.scan(step, (gt.asarray(0, "int32"), 0.0), X)


def doubled():
    """A loop of unknown length that stops."""
    return gt.while_loop(lambda c: c < 100.0, lambda c: c * 2, gt.sum(X) + 1, 9)


def flat(result):
    if isinstance(result, (tuple, list)):
        return [v for part in result for v in flat(part)]
    return [result]


PROGRAMS = {
    "sum": lambda: [total()],
    "all": lambda: flat(with_all()),
    "stops": lambda: flat(doubled()),
    "gradient": lambda: [graphc.grad(flat(with_all())[1] + total() * doubled(), X)],
    "nested": lambda: [gt.scan(lambda c, v: (c + v * total(v), c), 0.0, X)[0]],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_are_read_back(name):
    outputs = PROGRAMS[name]()
    text = to_text(graph(*outputs))
    again = parse_graph(text)
    verify(again)
    assert to_text(again) == text
    results = []
    for g in (graph(*outputs), again):
        f = graphc.function(g.inputs, list(g.outputs), backend="numpy", unused="ignore")
        results.append(f(np.array([1, -2, 0.5, 3], "float32"), 3))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_a_loop_looks_like():
    text = to_text(graph(gt.scan(lambda c, v: (c + v, c), X * 0, X)[0]))
    assert text.splitlines()[3:8] == [
        "  body = body(?n from 0; value: float32[?n], x: float32[]; ) {",
        "    add: float32[?n] = add(value, x)",
        "    return add, value",
        "  }",
        "  scan, scan_1: float32[n], float32[n, n] = scan(multiply, x; "
        'body=opaque("body", body), carries=1, sequences=1, sizes=(), length=n, '
        "reverse=False, counted=False, stops=False, unroll=1, few=False, chunk=None, "
        "replay=None, per_chunk=None, superset_of=None)",
    ]


TEXT = """\
graph(x: float32[n], k: int32[]) {
  zero: float32[] = constant(; data=float32[](0.0), weak=False)
  step = body(?m from 0; c: float32[], v: float32[], w: float32[?m]; ) {
    add: float32[] = add(c, v)
    return add
  }
  last: float32[] = scan(zero, x, x; body=opaque("body", step), carries=1, \
sequences=1, sizes=(), length=n, reverse=False, counted=False, stops=False, \
unroll=1, few=False, chunk=None, replay=None, per_chunk=None, superset_of=None)
  return last
}
"""
BAD = {
    "a value from outside": ("add(c, v)", "add(c, x)", 4, "x is not defined yet"),
    "an axis from outside": ("[?m];", "[n];", 3, "n is not a size of this body"),
    "a named axis": ("[?m];", '[axis("n")];', 3, "axis is not a size of this body"),
    "an undeclared size": ("[?m];", "[?k];", 3, "?k is not a size of this body"),
    "no argument": (
        "w: float32[?m]",
        "w: float32[3*?m]",
        3,
        "verify input: the size m in a body is not the body's own",
    ),
    "an unknown argument": ("; ) {", "; ?k) {", 3, "the body has no such size"),
    "an argument twice": ("; ) {", "; ?m, ?m) {", 3, "a size is given twice"),
    "a size twice": ("?m from 0;", "?m, ?m;", 3, "?m cannot be a size here"),
    "a plain size": ("?m from 0;", "m;", 3, "m cannot be a size here"),
    "a bound": ("?m from 0;", "?a, ?m from ?a;", 3, "a lower bound must be a number"),
    "a float": (
        "v: float32[],",
        "v: float32[] from 0,",
        3,
        "v is not an integer scalar",
    ),
    "a name twice": ("v: float32", "c: float32", 3, "c cannot be defined here"),
    "a body twice": ("  last:", "  step = 2\n  last:", 7, "step cannot be defined"),
    "no body": ('"body", step', '"body", stop', 7, "stop is not a body"),
    "a rule": (
        'opaque("body", step)',
        'opaque("body")',
        7,
        "a rule or a function inside a node cannot be read",
    ),
    "another op": ("scan(zero, x, x;", "call(zero;", 7, "call has no graph that"),
    "graphs": ('"body", step', '"body", (step,)', 7, "scan does not take these"),
    "a node": ('"body", step', '"body", zero', 7, "scan does not take these inputs"),
    "more sizes": ("sizes=()", "sizes=(n,)", 7, "scan does not take these inputs"),
    "fewer inputs": ("(zero, x, x;", "(zero, x;", 7, "scan does not take these inputs"),
    "more carries": ("carries=1", "carries=7", 7, "a scan needs an input for each"),
    "no last step": ("stops=False", "stops=True", 7, "the count must be an integer"),
    "no length": ("length=n", "length=None", 7, "the body takes float32[], not"),
    "another type": ("last: float32[]", "last: float64[]", 7, "scan gives float32[]"),
    "deep": ("  step = body(", "  a = body(; ; ) {\n" * 60, 53, "nested too deeply"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_body_that_is_none(kind):
    verify(parse_graph(TEXT))
    old, new, line, problem = BAD[kind]
    with pytest.raises(graphc.GraphError) as caught:
        parse_graph(TEXT.replace(old, new, 1))
    found = str(caught.value).splitlines()[0]
    assert found.startswith(f"parse_graph: line {line}: ") and problem in found


def test_branches_of_other_types():
    text = to_text(graph(gt.cond(K > 0, lambda: X[0], lambda: X[0] * 2)))
    other = text.replace("return multiply", "return multiply, multiply")
    assert other != text
    with pytest.raises(graphc.GraphError, match="the branches return different types"):
        parse_graph(other)
