"""Loops that run while a counter is below a size have a known number of steps."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.planning.guesses import GuessingSegment
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide")
X = gt.tensor("x", "float64", ("n",))
K = gt.tensor("k", "int64", ())
START, BY = 2, 3
CONDITIONS = {
    "below": (lambda i, n: i < n, lambda i, n: i < n),
    "at most": (lambda i, n: i <= n, lambda i, n: i <= n),
    "above": (lambda i, n: n > i, lambda i, n: n > i),
    "at least": (lambda i, n: n >= i, lambda i, n: n >= i),
    "half": (lambda i, n: i + 1 < n // 2, lambda i, n: i + 1 < n // 2),
    "left": (lambda i, n: n - i > 1, lambda i, n: n - i > 1),
}


def by_hand(condition, x):
    """The last state, and the states before each step."""
    states, i = [], START
    while condition(i, len(x)):
        states.append((x.sum(), i))
        x, i = np.sin(x) + 0.1 * i, i + BY
    return x, i, np.array(states, "float64").reshape(-1, 2)


def collected(condition):
    going = lambda c: condition(c[1], X.shape[0])
    body = lambda c: ((gt.sin(c[0]) + 0.1 * c[1], c[1] + BY), (gt.sum(c[0]), c[1]))
    (end, i), (sums, numbers) = gt.while_loop(going, body, (X, START), collect=True)
    return [end, i, gt.stack([sums, numbers.astype("float64")], 1)]


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_is_collected_is_that_of_a_loop_by_hand(name):
    symbolic, plain = CONDITIONS[name]
    outputs = collected(symbolic)
    functions = [
        graphc.function([X], outputs, backend="numpy"),
        graphc.function([X], outputs, dims="pad"),
    ]
    for n in (0, 1, 2, 3, 4, 5, 8, 17, 40):
        x = np.linspace(0, 1, n)
        expected = [np.asarray(part) for part in by_hand(plain, x)]
        for f in functions:
            alike(f(x), expected)
    assert len(functions[1].plan.segments) == 1
    assert len(functions[1].stats().compilations) == 3


def test_a_gradient_needs_no_read():
    going = lambda c: c[1] < X.shape[0]
    step = lambda c: (gt.sin(c[0]) + 0.1 * c[0], c[1] + 1)
    slope = graphc.grad(gt.sum(gt.while_loop(going, step, (X, 0))[0]), X)
    f = graphc.function([X], slope, dims="pad")
    assert len(f.plan.segments) == 1 and not f.plan.glue
    for n in (0, 1, 7, 20):
        x, factor = np.linspace(0, 1, n), np.ones(n)
        for _ in range(n):
            factor = factor * (np.cos(x) + 0.1)
            x = np.sin(x) + 0.1 * x
        alike([f(np.linspace(0, 1, n))], [factor])


@pytest.mark.parametrize(
    "going, step",
    [
        (lambda c: c[1] < K, lambda c: (c[0] + c[1], c[1] + 1)),
        (lambda c: c[1] < X.shape[0], lambda c: (c[0] + c[1], 2 * c[1] + 1)),
        (lambda c: gt.sum(c[0]) < X.shape[0], lambda c: (c[0] + 1.0, c[1] + 1)),
        (lambda c: (c[1] < X.shape[0]) & (c[1] < K), lambda c: (c[0] + 1, c[1] + 1)),
    ],
)
def test_loops_that_end_otherwise_end_as_they_did(going, step):
    body = lambda c: (step(c), c[1])
    found = gt.while_loop(going, body, (X, 0), collect=True)[1]
    f = graphc.function([X, K], found, unused="ignore")
    exact = graphc.function([X, K], found, backend="numpy", unused="ignore")
    for n, k in [(3, 2), (4, 30)]:
        alike([f(np.ones(n), k)], [exact(np.ones(n), k)])
    segments = f.plan.segments
    assert any(s.rows is not None or isinstance(s, GuessingSegment) for s in segments)


def test_counters_that_may_overflow_are_not_counted():
    one = gt.constant(np.int8(1))
    going = lambda i: i < X.shape[0]
    last = gt.while_loop(going, lambda i: i + one, gt.constant(np.int8(0)))
    f = graphc.function([X], last, backend="numpy")
    assert "going" in f.source and f(np.ones(5)) == 5
