"""Scans that stop early, and scans that run in other ways."""

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
X = gt.tensor("x", "float64", ("n",))
L = gt.tensor("limit", "float64", ())
MANY = np.cos(np.arange(12) * 1.7) * 1.5


def step(np, a, c, v):
    c = c * 0.5 + np.sin(v) * a
    return c, c * v


def stopped(x, a, limit, reverse, **options):
    return gt.scan(
        lambda c, v: step(gt, a, c, v),
        a,
        x,
        reverse=reverse,
        until=lambda c, y: c > limit,
        **options,
    )


def by_hand(x, a, limit, reverse):
    """The state after the last step, and the rows up to it, in the order of `x`."""
    c, rows = np.float64(a), []
    for v in x[::-1] if reverse else x:
        c, y = step(np, a, c, v)
        rows.append(y)
        if c > limit:
            break
    return c, np.array(rows[::-1] if reverse else rows)


def smooth(count, reverse):
    """A JAX function of the cost of `count` steps."""

    def cost(x, a):
        c, total = a, 0.0
        for v in (x[::-1] if reverse else x)[:count]:
            c, y = step(jnp, a, c, v)
            total = total + jnp.sin(y)
        return 2 * c + total

    return cost


LIMITS = (-5.0, 0.7, 100.0)  # one step, some, all


@functools.cache
def expected(n, limit, reverse):
    """The end, rows and gradients, and the gradients' derivatives along (cos x, a)."""
    x = MANY[:n]
    end, rows = by_hand(x, 1.1, limit, reverse)
    gradient = jax.grad(smooth(len(rows), reverse), (0, 1))
    at, along = (x, np.float64(1.1)), (np.cos(x), np.float64(1.1))
    slopes, changes = jax.jit(lambda *given: jax.jvp(gradient, *given))(at, along)
    return [end, rows, *slopes], list(changes)


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_until(backend, reverse, dims):
    c, ys = stopped(X, A, L, reverse)
    cost = c * 2 + gt.sum(gt.sin(ys))
    outputs = [c, ys, *graphc.grad(cost, [X, A])]
    second = backend == "numpy"
    if second:
        outputs += graphc.hvp(cost, [X, A], [gt.cos(X), A])
    f = graphc.function([X, A, L], outputs, backend=backend, dims=dims)
    counts = set()
    for n in (0, 1, 2, 7) if second else (0, 7):
        for limit in LIMITS:
            first, changes = expected(n, limit, reverse)
            alike(f(MANY[:n], 1.1, limit), first + changes * second)
            counts.add(len(first[1]))
    assert len(counts) >= 3
    if backend == "jax" and dims == "bound":
        assert len(f.stats().compilations) <= 2  # one per length


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_steps_behind_are_not_run(backend):
    """These steps would never end."""

    def body(c, v):
        forever = lambda: gt.while_loop(lambda s: s > -1, lambda s: gt.abs(s), c)
        return gt.cond(v > 2, forever, lambda: c + v), v

    last, ys = gt.scan(body, A, X, until=lambda c, y: y == 2)
    f = graphc.function([X, A], [last, ys], backend=backend)
    alike(f(np.array([1.0, 2, 3, 4]), 0.5), [np.float64(3.5), np.array([1.0, 2])])


@pytest.mark.parametrize("backend", BACKENDS)
def test_examples_stop_for_themselves(backend):
    limits = gt.tensor("limits", "float64", ("m",))
    end = lambda limit: stopped(X, A, limit, False)[0]
    y = graphc.vmap(end)(limits)
    f = graphc.function([X, A, limits], [y, graphc.grad(gt.sum(y), A)], backend=backend)
    given = np.array([*LIMITS, 0.3])
    found = [by_hand(MANY, 1.1, limit, False) for limit in given]
    slope = 0.0
    for _, rows in found:
        last = lambda a, n=len(rows): smooth(n, False)(MANY, a)
        total = lambda a, n=len(rows): last(a, n) - _sines(a, n)
        slope += jax.grad(total)(1.1) / 2
    alike(f(MANY, 1.1, given), [np.array([c for c, _ in found]), slope])


def _sines(a, count):
    c, total = a, 0.0
    for v in MANY[:count]:
        c, y = step(jnp, a, c, v)
        total = total + jnp.sin(y)
    return total


def test_rows_of_examples_that_stop_have_no_one_size():
    limits = gt.tensor("limits", "float64", ("m",))
    with pytest.raises(graphc.GraphError, match="would differ between examples"):
        graphc.vmap(lambda limit: stopped(X, A, limit, False)[1])(limits)


@pytest.mark.parametrize("backend", BACKENDS)
def test_until_in_a_loop(backend):
    """The inner loop stacks nothing, as a body has no sizes that depend on data."""
    inner = lambda c, v: stopped(X, c, L, False)[0] + v
    y = gt.scan(lambda c, v: (inner(c, v), None), A, X)[0]
    f = graphc.function([X, A, L], [y, graphc.grad(y, A)], backend=backend)
    x, c = MANY[:4], np.float64(1.1)
    counts = []
    for v in x:
        end, rows = by_hand(x, c, 0.7, False)
        counts.append(len(rows))
        c = end + v

    def plain(a):
        for v, count in zip(x, counts, strict=True):
            c = a
            for w in x[:count]:
                c, _ = step(jnp, a, c, w)
            a = c + v
        return a

    alike(f(x, 1.1, 0.7), [c, jax.grad(plain)(1.1)])


@pytest.mark.parametrize("unroll", [1, 3, True])
def test_unroll(unroll):
    y = gt.scan(lambda c, v: step(gt, A, c, v), A, X, unroll=unroll)[0]
    for backend in BACKENDS:
        f = graphc.function([X, A], [y, graphc.grad(y, A)], backend=backend)
        end, _ = by_hand(MANY, 1.1, np.inf, False)
        slope = jax.grad(lambda a: smooth(12, False)(MANY, a) - _sines(a, 12))(1.1) / 2
        alike(f(MANY, 1.1), [end, slope])
    found = [line for line in f.source.splitlines() if "= scan_jax(" in line]
    assert len(found) == 2

    assert all(f"unroll={unroll}" in line for line in found) == (
        unroll is True or unroll > 1
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_padded_step_is_run(backend):
    """A padded step would never end, since the padding holds zeros."""

    def body(c, v):
        halved = gt.while_loop(lambda s: gt.abs(s) < 1, lambda s: s * 2, v)
        return c + halved, halved

    last, ys = gt.scan(body, A, X)
    f = graphc.function([X, A], [last, ys], backend=backend, dims="pad")
    for n in (0, 1, 8):
        halved = np.array([v * 2 ** max(np.ceil(-np.log2(abs(v))), 0) for v in MANY])
        alike(f(MANY[:n], 0.5), [0.5 + halved[:n].sum(), halved[:n]])
    assert len(f.stats().compilations) == (backend == "jax")


def filled(c, v):
    """A step that writes its result in place into a table of earlier results."""
    i, table = c
    new = table[i - 1] * 0.5 + gt.sin(v) * A + table[0] * 0.1
    return (i + 1, table.at[i].set(new)), new


def filled_by_hand(x, a, limit):
    table, rows = np.zeros(16), []
    table[0] = a
    for i, v in enumerate(x):
        rows.append(table[i] * 0.5 + np.sin(v) * a + table[0] * 0.1)
        table[i + 1] = rows[-1]
        if rows[-1] > limit:
            break
    return table, np.array(rows)


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("by", ["output", "table"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_until_with_a_table(backend, by, dims):
    """The end depends on what was written, or on the output of the step."""
    start = (1, gt.zeros(16, "float64").at[0].set(A))
    tests = {"output": lambda c, y: y > L, "table": lambda c, y: c[1][c[0] - 1] > L}
    (_, table), ys = gt.scan(filled, start, X, until=tests[by])
    slope = graphc.grad(gt.sum(gt.sin(table)) + gt.sum(ys * ys), A)
    f = graphc.function([X, A, L], [table, ys, slope], backend=backend, dims=dims)
    for n, limit in ((0, 1.0), (6, -2.0), (6, 0.9), (6, 100.0)):
        x = MANY[:n]

        def cost(a, x=x, limit=limit):
            table, rows = filled_by_hand(x, a, limit)
            return np.sum(np.sin(table)) + np.sum(rows**2)

        numeric = (cost(1.1 + 1e-6) - cost(1.1 - 1e-6)) / 2e-6
        *found, slope = f(x, 1.1, limit)
        alike(found, filled_by_hand(x, 1.1, limit))
        alike([slope], [np.float64(numeric)], 1e-7)
