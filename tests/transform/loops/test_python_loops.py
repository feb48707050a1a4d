"""Loops run by Python: sizes in their bodies vary by step, and nothing bounds them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.alike import alike
from tests.transform.uncovered import uncovered

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
BACKENDS = ("numpy", "jax")
A = gt.tensor("a", "float64", ())
V = gt.tensor("v", "float64", ())
X = gt.tensor("x", "float64", ("n",))
K = gt.tensor("k", "int64", ())
FOUR = np.array([0.3, 0.1, 0.3, 0.5])


def step(xp, c, few):
    """A step whose result depends on all elements of `few` and on their order."""
    s = xp.sort(few)
    return c * 0.5 + xp.sum(xp.cumsum(xp.sin(s)) * c), xp.sum(s**2 * c)


def scanned(**options):
    """A scan in which nothing is known about the number of elements."""
    few = lambda v: gt.sort(X)[gt.arange(gt.sum(v >= X))]
    return gt.scan(lambda c, v: step(gt, c, few(v)), A, X, **options)


def selected():
    """The same scan, with at most as many elements as the array has."""
    return gt.scan(lambda c, v: step(gt, c, X[v >= X]), A, X)


def by_hand(x, a, order):
    """The last carry and the rows, by JAX; the selected elements are known before."""
    c, rows = a, {}
    for i in order:
        chosen = [j for j in range(len(order)) if float(FOUR[j]) <= float(FOUR[i])]
        c, rows[i] = step(jnp, c, x[np.array(chosen)])
    return c, jnp.array([rows[i] for i in range(len(order))])


def cost(x, a, order):
    c, rows = by_hand(x, a, order)
    return c + jnp.sum(jnp.sin(rows))


@pytest.mark.parametrize(
    ("backend", "reverse"), [("numpy", True), ("numpy", False), ("jax", False)]
)
def test_values_and_gradients(backend, reverse):
    c, ys = scanned(reverse=reverse)
    outputs = [c, ys, *graphc.grad(c + gt.sum(gt.sin(ys)), [X, A])]
    f = graphc.function([X, A], outputs, backend=backend)
    report, segments = f.explain(full=True), len(f.plan.segments)
    order = range(4)[::-1] if reverse else range(4)
    slopes = jax.grad(cost, (0, 1))(FOUR, 1.2, order)
    alike(f(FOUR, 1.2), [*by_hand(FOUR, 1.2, order), *slopes])
    none = FOUR[:0]
    alike(f(none, 1.2), [np.float64(1.2), none, none, np.float64(1.0)])
    if backend == "jax" and not reverse:
        alike(f.jax_callable(FOUR, 1.2), f(FOUR, 1.2))
        assert "arange at" in report and "the steps are done in Python" in report
        assert "in each step:\n\n  segment" in report
        made = {c.segment for c in f.stats().compilations}
        assert made == set(range(segments))


@pytest.mark.parametrize(
    ("backend", "options"),
    [("numpy", {}), ("numpy", {"max_steps": 9}), ("jax", {})],
)
def test_while_loops(backend, options):
    """States are also collected, in rows that double; gradients are by differences."""
    body = lambda s: s * 1.5 + gt.sum(gt.cumsum(gt.sort(X[s > X])))
    end, ys = gt.while_loop(
        lambda s: s < V, lambda s: (body(s), X * s), A, collect=True, **options
    )
    outputs = [end, ys, *graphc.grad(end + gt.sum(gt.sin(ys)), [A, X])]
    f = graphc.function([V, A, X], outputs, backend=backend)
    for v, a in ((9.0, 0.2), (0.1, 0.2)):
        s, rows = a, []
        while s < v:
            rows.append(FOUR * s)
            s = s * 1.5 + np.sum(np.cumsum(np.sort(FOUR[s > FOUR])))
        found = f(v, a, FOUR)
        alike(found[:2], [np.float64(s), np.array(rows).reshape(-1, 4)])
        total = lambda a, x, v=v: (r := f(v, a, x))[0] + np.sum(np.sin(r[1]))
        by = 1e-6
        slope = (total(a + by, FOUR) - total(a - by, FOUR)) / (2 * by)
        along = (total(a, FOUR + by) - total(a, FOUR - by)) / (2 * by)
        np.testing.assert_allclose(found[2], slope, rtol=1e-6)
        np.testing.assert_allclose(np.sum(found[3]), along, rtol=1e-6)


def test_sizes_that_are_carried():
    """The body also uses sizes from outside, and contains another loop."""
    inner = lambda i, v: gt.scan(lambda d, u: (d + gt.sum(X[:i] < u), u), 0, X)[0] + v
    c, ys = gt.scan(lambda i, v: (i + 1, inner(i, v) + gt.sum(gt.arange(K))), K, X)
    fs = [graphc.function([K, X], [c, ys], backend=b) for b in BACKENDS]
    for k in (0, 2):
        found = [sum(np.sum(FOUR[: k + i] < u) for u in FOUR) for i in range(4)]
        for f in fs:
            alike(f(k, FOUR), [np.int64(k + 4), np.array(found) + FOUR + sum(range(k))])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dims", ["bound", "pad"])
def test_sizes_with_a_policy(dims, backend):
    """The loop is compiled as a whole, at the bound of its sizes."""
    c, ys = selected()
    outputs = [c, ys, *graphc.grad(c, [A])]
    f = graphc.function([X, A], outputs, dims=dims, backend=backend)
    exact = graphc.function([X, A], outputs, backend="numpy")
    alike(f(FOUR, 1.2), exact(FOUR, 1.2))
    if backend == "jax":
        assert len(f.stats().compilations) == len(f.plan.segments) == 1


def test_sizes_in_steps_need_no_policy():
    """The loop is compiled as a whole from the first call on."""
    outputs = selected()[1]
    f = graphc.function([X, A], outputs)
    exact = graphc.function([X, A], outputs, backend="numpy")
    for n in (4, 5, 6, 7, 11):
        x = np.linspace(-1.0, 2.0, n)
        alike([f(x, 1.2)], [exact(x, 1.2)])
    assert len(f.stats().compilations) == 2  # one size, and a capacity


def test_sizes_in_steps_that_cannot_be_padded():
    _, ys = gt.scan(lambda c, v: (c, gt.sum(uncovered(X[v > X][:, None]))), A, X)
    f = graphc.function([X, A], ys, dims={"count": "pad"}, backend="numpy")
    below = [np.sum(FOUR[v > FOUR]) for v in FOUR]
    alike([f(FOUR, 1.2)], [np.array(below)])
    why = "compiled for each\n  because random_permutation inside it: "
    assert why in f.explain(full=True)


def test_loops_that_are_counted_in_a_body_become_one():
    """Their outputs are summed inside them, so the whole is compiled."""
    double = lambda s: (2 * s, s)
    powers = lambda v: gt.while_loop(lambda s: s < V, double, v, collect=True)[1]
    ys = gt.scan(lambda c, v: (c, gt.sum(powers(v))), A, X)[1]
    f = graphc.function([X, V, A], ys, jit=True)
    alike([f(FOUR, 1.0, 0.0)], [np.array([0.9, 1.5, 0.9, 0.5])])


def test_refusals():
    c, _ = scanned()
    with pytest.raises(graphc.GraphError, match="jit=True is impossible: arange at"):
        graphc.function([X, A], c, jit=True)
    with pytest.raises(graphc.CallError, match="being traced"):
        jax.jit(graphc.function([X, A], c))(FOUR, 1.2)
    with pytest.raises(graphc.GraphError, match="has a size that depends on the step"):
        gt.scan(lambda c, v: (c, X[v > X]), A, X)
    with pytest.raises(graphc.GraphError, match="a loop in the body runs in Python"):
        gt.cond(A > 0, lambda: scanned()[0], lambda: A)
    grows, _ = gt.scan(lambda c, v: (c[c < v], None), X, X)
    for backend in BACKENDS:
        with pytest.raises(graphc.CallError, match="needs count.* == n"):
            graphc.function([X], grows, backend=backend)(FOUR)
