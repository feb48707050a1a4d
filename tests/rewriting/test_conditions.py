"""Rules stay away where they would cost time and gain nothing."""

import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU, GPU
from graphc.ir.graph.nodes import Graph
from graphc.rewrites import default, rewritten

X = gt.tensor("x", "float32", ("n", 3))
Y = gt.tensor("y", "float32", ("n", 3))
U = gt.tensor("u", "float32", ("n",))
I = gt.tensor("i", "int64", ("k",))  # noqa: E741
EXP = gt.exp(X)
SOFTMAX = EXP / gt.sum(EXP, 1, keepdims=True)
COUNT = gt.count_nonzero(I)
PART = gt.exp(U[:COUNT])
WRITTEN = U.at[:COUNT].set(PART)
OUTER = gt.sum(X[:, :, None] * Y[:, None], 0)


def fused(width, of, reverse=False):
    """A scan over a function of the rows that another scan stacks."""
    x = gt.tensor("x", "float32", ("n", width))
    start = gt.zeros(width, "float32")
    rows = gt.scan(lambda c, r: (c + r, c * r), start, x)[1]
    return [x], [gt.scan(lambda c, r: (c + r, []), start, of(rows), reverse=reverse)[0]]


CASES = {
    "a softmax": ("written_softmax", [X], [SOFTMAX], True),
    "whose exponentials are wanted": ("written_softmax", [X], [SOFTMAX, EXP], False),
    "a part that is written": ("write_to_slice", [U, I], [WRITTEN], True),
    "that is wanted itself": ("write_to_slice", [U, I], [WRITTEN, PART], False),
    "outer products": ("sum_of_outer_rows", [X, Y], [OUTER], False),
    "short rows of exp": ("sequence_in_scan", *fused(3, gt.exp), False),
    "long rows of exp": ("sequence_in_scan", *fused(64, gt.exp), True),
    "short rows of little": ("sequence_in_scan", *fused(3, gt.abs), True),
    "the other way": ("sequence_in_scan", *fused(3, gt.exp, reverse=True), True),
}


@pytest.mark.parametrize("case", CASES)
def test_where_a_rule_applies(case):
    rule, inputs, outputs, applies = CASES[case]
    f = graphc.function(inputs, outputs)
    assert (rule in [a.rule.name for a in f.rewrites]) is applies


def test_numpy_and_accelerators_have_products_for_outer_sums():
    f = graphc.function([X, Y], OUTER, backend="numpy")
    assert "sum_of_outer_rows" in [a.rule.name for a in f.rewrites]
    assert "sum_of_outer_rows" in default.on(GPU)
    assert "sum_of_outer_rows" not in default.on(CPU).fused


def test_an_accelerator_fuses_short_rows_too():
    inputs, outputs = fused(3, gt.exp)
    graph = Graph(tuple(inputs), tuple(outputs), ("x",), ("",))
    log = rewritten(graph, default.on(GPU).early).log
    assert "sequence_in_scan" in [a.rule.name for a in log]
