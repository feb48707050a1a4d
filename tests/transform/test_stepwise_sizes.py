"""Sizes that differ from step to step: the loop is compiled once, at their bounds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Value

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "jax"])
LENGTHS = (0, 1, 2, 6)
ZERO = np.float64(0)
x = gt.tensor("x", "float64", ("n",))
m = gt.tensor("m", "float64", ("n", "n"))
keys = gt.tensor("keys", "float64", ("n", 2))
k = gt.scalar("k", "int64")
lengths = gt.tensor("lengths", "int64", ("n",))


class Program(NamedTuple):
    """A user's program, and the same program by hand."""

    inputs: list[Value]
    output: Value
    by_hand: Callable[..., Any]


def over(first, body, init, of=x):
    return gt.fori_loop(first, of.shape[0], body, init)


def stepped(init, body, steps):
    """A loop by hand, which changes an array in place."""
    found = init.copy()
    for t in steps:
        body(t, found)
    return found


def cumulative_minima(x):
    return np.minimum.accumulate(x)


def sums_of_minima(x):
    return sum((np.arange(t) + x[:t]).min() for t in range(1, len(x)))


def change_points(x):
    sums = np.append(0, np.cumsum(x))
    best = np.zeros(len(x) + 1)
    for t in range(1, len(best)):
        i = np.arange(t)
        best[t] = min(best[:t] + (sums[t] - sums[i]) ** 2 / (t - i) + 1)
    return best


def _change_points():
    sums = gt.concatenate([np.zeros(1), gt.cumsum(x)])

    def step(t, best):
        i = gt.arange(t)
        cost = (sums[t] - sums[i]) ** 2 / (t - i) + 1
        return best.at[t].set(gt.min(best[:t] + cost))

    n = x.shape[0]
    return gt.fori_loop(1, n + 1, step, gt.zeros(n + 1, "float64"))


def sieve(k):
    found = np.arange(k + 1) >= 2
    for i in range(2, k + 1):
        if found[i]:
            found[i * i :: i] = False
    return found


def _sieve(crossed):
    def step(i, found):
        return gt.where(found[i], crossed(i, found), found)

    return gt.fori_loop(2, k + 1, step, gt.arange(k + 1) >= 2)


def by_rows(m, x):
    def solve(i, y):
        y[i] = (x[i] - m[i, :i] @ y[:i]) / (m[i, i] + 9)

    return stepped(np.zeros_like(x), solve, range(len(x)))


def attention(keys):
    def attend(t, out):
        p = np.exp(keys[: t + 1] @ keys[t])
        out[t] = p / p.sum() @ keys[: t + 1]

    return stepped(np.zeros_like(keys), attend, range(len(keys)))


def updated(x):
    def update(t, y):
        y[:t] = 0.5 * y[:t] + 0.1 * y[t]

    return stepped(x, update, range(len(x)))


def columns(m):
    def one(j, y):
        s = m[j:, j] - y[j:, :j] @ y[j, :j]
        y[j:, j] = s / (s[0] ** 2 + 1)

    return stepped(np.zeros_like(m), one, range(len(m)))


def _columns():
    def one(j, y):
        s = m[j:, j] - y[j:, :j] @ y[j, :j]
        return y.at[j:, j].set(s / (s[0] ** 2 + 1))

    return over(0, one, gt.zeros_like(m))


def _prefix(s):
    t, total = s
    return t + 1, total + gt.mean(x[:t])


def _between(t, c):
    return gt.fori_loop(0, t, lambda s, d: d + gt.sum(x[s:t]), c)


PROGRAMS = {
    "cumulative minima": Program(
        [x],
        over(0, lambda t, c: c.at[t].set(gt.min(x[: t + 1])), gt.zeros_like(x)),
        cumulative_minima,
    ),
    "positions": Program(
        [x],
        over(1, lambda t, c: c + gt.min(gt.arange(t) + x[:t]), ZERO),
        sums_of_minima,
    ),
    "both ends": Program(
        [x],
        over(1, lambda t, c: c + gt.sum(x[:t] * x[x.shape[0] - t :]), ZERO),
        lambda x: sum(np.sum(x[:t] * x[-t:]) for t in range(1, len(x))),
    ),
    "up to a number": Program(
        [x, k],
        gt.fori_loop(1, k, lambda t, c: c + gt.sum(x[:t] * gt.arange(t)), ZERO),
        lambda x, k: sum(np.sum(x[:t] * np.arange(t)) for t in range(1, k)),
    ),
    "no array of that size": Program(
        [k],
        gt.fori_loop(1, k, lambda t, c: c + gt.max(gt.arange(t) * t), np.int64(0)),
        lambda k: sum((t - 1) * t for t in range(1, k)),
    ),
    "change points": Program([x], _change_points(), change_points),
    "sieve by positions": Program(
        [k],
        _sieve(lambda i, found: found.at[gt.arange(i * i, k + 1, i)].set(False)),
        sieve,
    ),
    "sieve by slices": Program(
        [k], _sieve(lambda i, found: found.at[i * i :: i].set(False)), sieve
    ),
    "triangular solve": Program(
        [m, x],
        over(
            0,
            lambda i, y: y.at[i].set((x[i] - m[i, :i] @ y[:i]) / (m[i, i] + 9)),
            gt.zeros_like(x),
        ),
        by_rows,
    ),
    "causal attention": Program(
        [keys],
        gt.scan(
            lambda c, t: (
                c,
                gt.nn.softmax(keys[: t + 1] @ keys[t]) @ keys[: t + 1],
            ),
            0,
            gt.arange(keys.shape[0]),
        )[1],
        attention,
    ),
    "writes": Program(
        [x], over(0, lambda t, y: y.at[:t].set(0.5 * y[:t] + 0.1 * y[t]), x), updated
    ),
    "two axes": Program([m], _columns(), columns),
    "backwards": Program(
        [x],
        over(0, lambda t, c: c + gt.sum(gt.cumsum(x[t::-1]) * x[-t - 1 :]), ZERO),
        lambda x: sum(np.sum(np.cumsum(x[t::-1]) * x[-t - 1 :]) for t in range(len(x))),
    ),
    "lengths that are data": Program(
        [m, lengths],
        gt.scan(lambda c, r: (c, gt.sum(gt.exp(r[0][: r[1]]))), 0, (m, lengths))[1],
        lambda m, lengths: np.array(
            [np.exp(row[:i]).sum() for row, i in zip(m, lengths, strict=True)]
        ),
    ),
    "selected": Program(
        [x],
        over(0, lambda t, c: c + gt.sum(gt.sort(x[x > x[t]])[:2]), ZERO),
        lambda x: sum(np.sort(x[x > v])[:2].sum() for v in x),
    ),
    "while": Program(
        [x],
        gt.while_loop(lambda s: s[0] <= x.shape[0], _prefix, (1, ZERO))[1],
        lambda x: sum(x[:t].mean() for t in range(1, len(x) + 1)),
    ),
    "loop in a loop": Program(
        [x],
        over(0, _between, ZERO),
        lambda x: sum(x[s:t].sum() for t in range(len(x)) for s in range(t)),
    ),
}


def arguments(program, n):
    rng, found = np.random.default_rng(n), list[Any]()
    for value in program.inputs:
        if value is k:
            found.append(n)
        elif value is lengths:
            found.append(np.arange(n) * 2 % (n + 1))
        else:
            shape = [i if isinstance(i, int) else n for i in value.shape]
            found.append(rng.normal(size=shape))
    return found


def with_gradients(program):
    outputs = [program.output]
    if program.output.dtype.kind == "f":
        wrt = [v for v in program.inputs if v.dtype.kind == "f"]
        outputs += graphc.grad(gt.sum(program.output**2), wrt)
    return outputs


ON_JAX = (
    *("positions", "up to a number", "sieve by slices", "writes"),
    *("lengths that are data", "while"),
)


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "numpy") for name in PROGRAMS), *((name, "jax") for name in ON_JAX)],
)
def test_one_compiled_loop(name, backend):
    """It is compiled once per capacity, as is its gradient; results are NumPy's."""
    program = PROGRAMS[name]
    outputs = with_gradients(program)
    f = graphc.function(program.inputs, outputs, backend=backend, dims="pad")
    exact = graphc.function(program.inputs, outputs, backend="numpy")
    assert not f.plan.padded.cuts and "in Python" not in f.explain(full=True)
    for n in LENGTHS:
        given = arguments(program, n)
        found = f(*given)
        np.testing.assert_allclose(found[0], program.by_hand(*given), atol=1e-12)
        for one, wanted in zip(found, exact(*given), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-7, atol=1e-9)
    if backend == "jax":
        counted = name == "while"  # the gradient's steps
        assert len(f.stats().compilations) == len(f.plan.segments) <= 2 + counted


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_loop_whatever_the_policy(name):
    """Sizes inside are stored at the loop's bound, even if none is padded."""
    program = PROGRAMS[name]
    for dims in ("auto", "bound", "specialize"):
        f = graphc.function(program.inputs, program.output, dims=dims)
        assert "in Python" not in f.explain(full=True), dims


def test_a_size_that_only_a_loop_has_is_padded():
    """The steps of a loop are no axis, but they bound the sizes inside."""
    program = PROGRAMS["no array of that size"]
    f = graphc.function(program.inputs, program.output)
    assert [f(n) for n in (3, 7, 12, 16, 0, 1)] == [2, 70, 440, 1120, 0, 0]
    assert len(f.stats().compilations) == 2


@pytest.mark.parametrize("name", ["two axes", "sieve by slices"])
def test_without_a_policy_once_for_each_size(name):
    """Sizes inside need no policy, and the caller may compile the program."""
    program = PROGRAMS[name]
    f = graphc.function(program.inputs, program.output, dims="specialize")
    for n in (3, 3):
        given = arguments(program, n)
        np.testing.assert_allclose(f(*given), program.by_hand(*given), atol=1e-12)
    assert len(f.plan.segments) == 1 and len(f.stats().compilations) == 1
    graphc.function(program.inputs, program.output, jit=True)


@BACKENDS
def test_what_no_step_may_have_is_told_after_the_loop(backend):
    """As outside loops, there is an error: the first step has no element to reduce."""
    total = over(0, lambda t, c: c + gt.min(x[:t]), ZERO)
    f = graphc.function([x], total, backend=backend, dims="pad")
    with pytest.raises(graphc.CallError) as failure:
        f(np.ones(3))
    assert "axis 0 has no element to reduce" in str(failure.value)
    assert f(np.ones(0)) == 0


@BACKENDS
def test_special_values_that_no_step_takes(backend):
    total = over(1, lambda t, c: c + gt.sum(x[:t]) + gt.max(x[:t]), ZERO)
    outputs = [total, graphc.grad(total, x)]
    f = graphc.function([x], outputs, backend=backend, dims="pad")
    exact = graphc.function([x], outputs, backend="numpy")
    for last in (np.nan, np.inf):
        given = np.array([1.0, -2.0, last])
        for one, wanted in zip(f(given), exact(given), strict=True):
            np.testing.assert_array_equal(one, wanted)
            assert np.all(np.isfinite(one))


def test_a_size_without_a_bound_runs_in_python():
    """Its capacity would have to be guessed."""
    ys = gt.scan(lambda c, t: (c, gt.sum(gt.arange(t))), 0, lengths)[1]
    f = graphc.function([lengths], ys)
    np.testing.assert_array_equal(f(np.array([3, 0, 5])), [3, 0, 10])
    assert "which differs from step to step" in f.explain(full=True)


whole = gt.tensor("whole", "int32", ("n",))


def _labels_counted(of):
    """Count the labels over and over; `of` makes labels from counts."""
    n = whole.shape[0]

    def step(_, counts):
        return counts + gt.bincount(of(counts), minlength=n).astype("int32")

    return gt.fori_loop(0, 3, step, gt.zeros(n, "int32"))


@pytest.mark.parametrize(
    "of",
    [
        lambda c: gt.minimum(c + whole, whole.shape[0] - 1),
        lambda c: gt.abs(c - whole) % whole.shape[0],
    ],
)
def test_counts_in_a_loop_are_stored_at_its_axis(of):
    """Either the numbers show that they fit, or the step checks that counts add up."""
    output = _labels_counted(of)
    f = graphc.function([whole], output)
    assert len(f.plan.segments) == 1
    exact = graphc.function([whole], output, backend="numpy")
    for n in (5, 7, 1, 12, 0):
        labels = (np.arange(n) * 7 % max(n, 1)).astype("int32")
        np.testing.assert_array_equal(f(labels), exact(labels))
    assert len(f.stats().compilations) == 2


@BACKENDS
@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_a_count_beyond_the_axis_is_told(backend, dims):
    output = _labels_counted(lambda c: whole + c // 9)
    f = graphc.function([whole], output, dims=dims, backend=backend)
    np.testing.assert_array_equal(f(np.array([0, 0], "int32")), [6, 0])
    with pytest.raises(graphc.CallError, match="shapes do not broadcast"):
        f(np.array([1, 2, 3], "int32"))
