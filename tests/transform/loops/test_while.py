"""Loops of unknown length: what they collect, and their gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide")
BACKENDS = ("numpy", "jax")
A = gt.tensor("a", "float64", ())
V = gt.tensor("v", "float64", ())
X = gt.tensor("x", "float64", ("n",))
K = gt.tensor("k", "int64", ())
MANY = np.array([0.1, 10.0, 1.0, 5.0])


def compiled(inputs, outputs, backend, **options):
    return graphc.function(inputs, outputs, backend=backend, **options)


# s -> s^2 / 8 + sin(a) / 2 while above 1. Its gradient needs the start of each step.


def shrinking(v, a, np=gt, **options):
    step = lambda s: s * s / 8 + np.sin(a) / 2
    if options.get("collect"):
        return gt.while_loop(lambda s: s > 1, lambda s: (step(s), s * a), v, **options)
    return gt.while_loop(lambda s: s > 1, step, v, **options)


def steps_of(v, a):
    """The states before each step, followed by the last state."""
    states = [v]
    while states[-1] > 1:
        states.append(states[-1] ** 2 / 8 + np.sin(a) / 2)
    return states


def smooth(steps):
    """The loop as a JAX function with a known number of steps."""

    def end(v, a):
        for _ in range(steps):
            v = v * v / 8 + jnp.sin(a) / 2
        return v

    return end


@functools.cache
def with_derivatives(v, a):
    """The end, its gradient, and the derivatives of both along (cos v, a)."""
    end = smooth(len(steps_of(v, a)) - 1)
    at, along = (np.float64(v), np.float64(a)), (np.cos(v), np.float64(a))
    gradient = jax.grad(end, (0, 1))
    value, slope = jax.jit(lambda *given: jax.jvp(end, *given))(at, along)
    slopes, curvature = jax.jit(lambda *given: jax.jvp(gradient, *given))(at, along)
    return [value, slope, *slopes, *curvature]


STARTS = (0.5, 1.5, 3.0, 6.0, 7.4)  # no step, one step, and more


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"max_steps": 12}], ids=["while", "bounded"])
def test_derivatives(backend, options):
    y = shrinking(V, A, **options)
    along = [gt.cos(V), A]
    outputs = [y, graphc.jvp(y, [V, A], along), *graphc.grad(y, [V, A])]
    outputs += graphc.hvp(y, [V, A], along)
    f = compiled([V, A], outputs, backend, dims="pad")
    counts = set()
    for v in STARTS if backend == "numpy" else STARTS[::2]:
        alike(f(v, 1.2), with_derivatives(v, 1.2))
        counts.add(len(steps_of(v, 1.2)))
    assert len(counts) >= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_examples(backend):
    """Each example has a number of steps of its own."""
    starts = np.array(STARTS)
    one = lambda v: graphc.grad(shrinking(v, A), [v, A])
    f = compiled([X, A], list(graphc.vmap(one)(X)), backend)
    twice = lambda v: graphc.grad(graphc.grad(shrinking(v, A), v) ** 2, A)
    second = compiled([X, A], graphc.vmap(twice)(X), backend)
    for x in (starts, starts[:1], starts[:0]):
        expected = [with_derivatives(v, 1.2)[2:4] for v in x]
        alike(f(x, 1.2), np.array(expected).reshape(-1, 2).T)
    expected = []
    for v in starts:
        end = smooth(len(steps_of(v, 1.2)) - 1)
        expected.append(jax.grad(lambda a, v=v, e=end: jax.grad(e)(v, a) ** 2)(1.2))
    alike([second(starts, 1.2)], [np.array(expected)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_where_no_step_has_to_be_kept(backend):
    """The step is linear, so nothing is read on the host and nothing compiled again."""
    y = gt.while_loop(lambda s: s > 1, lambda s: s * 0.5 + gt.sin(A), V * V)
    f = compiled([V, A], graphc.grad(y, [V, A]), backend, jit=True)
    for v in (0.5, 2.0, 5.0):
        s, end, slope = v * v, 2 * v, 0.0
        while s > 1:
            s, end, slope = s * 0.5 + np.sin(0.4), end * 0.5, slope * 0.5 + np.cos(0.4)
        alike(f(v, 0.4), [np.float64(end), np.float64(slope)])
    if backend == "jax":
        assert len(f.stats().compilations) == 1


@pytest.mark.parametrize(("dims", "most"), [("specialize", 4), ("pad", 1)])
def test_compilations_of_gradients(dims, most):
    f = compiled([V, A], graphc.grad(shrinking(V, A), V), "jax", dims=dims)
    for v in (1.5, 3.0, 6.0, 1.6):
        alike([f(v, 1.2)], [with_derivatives(v, 1.2)[2]])
    assert len(f.stats().compilations) == most


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_against_finite_differences(backend, dtype):
    v = gt.tensor("v", dtype, ())
    y = shrinking(v, 1.2)
    f = compiled([v], [y, graphc.grad(y, v)], backend)
    at, step = np.asarray(6.0, dtype), 1e-2 if dtype == "float32" else 1e-6
    up, down = (np.asarray(at + d, dtype) for d in (step, -step))
    slope = (f(up)[0] - f(down)[0]) / (up - down)
    _, found = f(at)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, slope, rtol=1e-2 if dtype == "float32" else 1e-7)


@functools.cache
def collected(v, a):
    """The end, the rows and their mean, and gradients of a cost of all but the mean."""
    *before, last = steps_of(v, a)
    rows = np.array(before) * a

    @jax.jit
    def cost(v, a):
        states = [v]
        for _ in before:
            states.append(smooth(1)(states[-1], a))
        return states[-1] + sum(jnp.sin(s * a) for s in states[:-1])

    with np.errstate(all="ignore"):
        mean = np.float64(np.sum(rows) / np.float64(len(rows)))
    return [last, rows, mean, *jax.grad(cost, (0, 1))(v, a)]


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
@pytest.mark.parametrize("options", [{}, {"max_steps": 9}], ids=["while", "bounded"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_collect(backend, options, dims):
    end, ys = shrinking(V, A, collect=True, **options)
    cost = end + gt.sum(gt.sin(ys))
    outputs = [end, ys, gt.mean(ys), *graphc.grad(cost, [V, A])]
    f = compiled([V, A], outputs, backend, dims=dims)
    for v in STARTS if backend == "numpy" else STARTS[::2]:
        alike(f(v, 1.2), collected(np.float64(v), np.float64(1.2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_collected_has_a_structure(backend):
    body = lambda c: ({"p": c["p"] * 2, "q": c["q"] + 1}, (c["q"], {"row": X * c["p"]}))
    start = {"p": A, "q": 0}
    end, (q, rows) = gt.while_loop(lambda c: c["p"] < 20, body, start, collect=True)
    f = compiled([A, X], [end["p"], end["q"], q, rows["row"]], backend)
    expected = [np.float64(24), np.int64(3), np.arange(3), np.outer([3.0, 6, 12], MANY)]
    alike(f(3.0, MANY), expected)
    alike(f(30.0, MANY), [np.float64(30), np.int64(0), np.arange(0), np.ones((0, 4))])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_flag_where_steps_were_too_few(backend):
    y, done = shrinking(V, A, max_steps=2, on_exceeded="flag")
    f = compiled([V, A], [y, done, *graphc.grad(y, [V, A])], backend)
    for v in (0.5, 6.0):
        count = min(len(steps_of(v, 1.2)) - 1, 2)
        slopes = jax.grad(smooth(count), (0, 1))(v, 1.2)
        value, done, *gradient = f(v, 1.2)
        assert done == (v == 0.5)
        alike([value, *gradient], [np.float64(smooth(count)(v, 1.2)), *slopes])
    (y, ys), done = shrinking(V, A, max_steps=2, on_exceeded="flag", collect=True)
    _, found, done = compiled([V, A], [y, ys, done], backend)(6.0, 1.2)
    alike([found], [np.array(steps_of(6.0, 1.2)[:2]) * 1.2])
    assert not done
    most = compiled([V, A, K], shrinking(V, A, max_steps=K), backend)
    alike([most(6.0, 1.2, 9)], [steps_of(6.0, 1.2)[-1]])
    with pytest.raises(graphc.GraphError, match="more than max_steps=.* steps"):
        most(6.0, 1.2, 2)


# The number of steps is an argument.


def powers(k, x):
    return gt.fori_loop(2, k, lambda i, c: gt.sin(c * x) + i, x)


def powers_by_jax(k):
    def end(x):
        c = x
        for i in range(2, k):
            c = jnp.sin(c * x) + i
        return c

    return end


@pytest.mark.parametrize("backend", BACKENDS)
def test_fori_loop_is_compiled_once(backend):
    f = compiled([K, A], powers(K, A), backend)
    for k in (-3, 2, 3, 4, 9):
        alike([f(k, 0.7)], [np.float64(powers_by_jax(k)(0.7))])
    if backend == "jax":
        assert len(f.stats().compilations) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_fori_loop(backend):
    y = powers(K, A)
    outputs = [graphc.grad(y, A), graphc.hvp(y, A, A), graphc.jvp(y, A, A)]
    f = compiled([K, A], outputs, backend, dims="pad")
    for k in (-3, 3, 9):
        end = powers_by_jax(k)
        slope, curve = jax.jvp(jax.grad(end), (0.7,), (0.7,))
        alike(f(k, 0.7), [slope, curve, slope * 0.7])
    if backend == "jax":
        assert len(f.stats().compilations) <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_fori_loops_of_examples(backend):
    """Their bounds differ, also in loops that depend on each other."""
    counts = gt.tensor("counts", "int64", ("n",))
    one = lambda k, x: (powers(k, x), graphc.grad(powers(k, x), x))
    f = compiled([counts, X], list(graphc.vmap(one)(counts, X)), backend)
    ks = np.array([-1, 9, 3, 5])
    ends = [powers_by_jax(k) for k in ks]
    expected = [[end(v), jax.grad(end)(v)] for end, v in zip(ends, MANY, strict=True)]
    alike(f(ks, MANY), np.array(expected).T)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bound_that_changes_from_step_to_step(backend):
    step = lambda c, v: (gt.fori_loop(0, c[1], lambda i, d: d * v + i, c[0]), c[1] + 1)
    y = gt.scan(lambda c, v: (step(c, v), None), (A, 0), X)[0][0]
    c = 0.7
    for i, v in enumerate(MANY):
        for j in range(i):
            c = c * v + j
    alike([compiled([X, A], y, backend)(MANY, 0.7)], [np.float64(c)])
