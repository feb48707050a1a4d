"""Loops of unknown length that collect a row in each step, so that rows grow."""

import math

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.control.print_loops import growing, rows_of
from graphc.transform.planning.guesses import GuessingSegment
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide")
A = gt.tensor("a", "float64", ())
V = gt.tensor("v", "float64", ())
X = gt.tensor("x", "float64", ("n",))
K = gt.tensor("k", "int64", ())


def damped(v, a, collect):
    """Add sin(s) a to s while s is below v; `collect` keeps the square before it."""
    step = lambda s: s + gt.sin(s) * a
    body = (lambda s: (step(s), s * s)) if collect else step
    return gt.while_loop(lambda s: s < v, body, np.float64(0.1), collect=collect)


def loops_of(f):
    """The body of the growing loop in a compiled function."""
    (loop,) = [s.nodes[-1] for s in f.plan.segments if s.rows is not None]
    return loop.params["body"].content


@pytest.mark.parametrize("collect", [False, True])
def test_no_step_is_done_twice(collect):
    found = damped(V, A, collect)
    end, kept = found if collect else (found, found)
    f = graphc.function([V, A], [end, kept, graphc.grad(gt.sum(kept), A)])
    names = [node.primitive.name for node in loops_of(f).nodes]
    assert names.count("sin") == 1
    first = [n.primitive.name for n in f.plan.segments[0].nodes]
    assert first.count("growing") == 1 and "scan" not in first


def test_compilations_are_a_sixth_as_many_as_digits_and_two():
    _, ys = gt.while_loop(lambda i: i < K, lambda i: (i + 1, 2 * i), 0, collect=True)
    f = graphc.function([K], ys)
    for k in (3, 1000, 1000, 17, 0, 1025, 16, 700):
        before = len(f.stats().compilations)
        alike([f(k)], [2 * np.arange(k)])
    rows = [c.sizes["rows"] for c in f.stats().compilations]
    assert rows == [16, 1024]
    assert len(f.stats().compilations) == before == len(rows)
    alike([f(70_000)], [2 * np.arange(70_000)])
    rows = [c.sizes["rows"] for c in f.stats().compilations]
    assert len(rows) <= math.log2(70_000) / 6 + 2
    assert "its number of steps is known when it stops" in f.explain(full=True)


def counted_rows(steps):
    """A segment that does `steps` steps, and the list of the rows of its pieces."""
    pieces = []

    def segment(going, i, rows):
        done = min(rows, steps - i) if going else 0
        if going:
            pieces.append(rows)
        outputs = np.zeros(rows)
        outputs[:done] = np.arange(i, i + done)
        return np.bool_(i + done < steps), i + done, np.int32(done), outputs

    return segment, pieces


@pytest.mark.parametrize("steps", [0, 1, 16, 17, 64, 65, 100, 1024, 1025, 5000, 70_000])
def test_rows_are_at_most_twice_those_needed(steps):
    rooms = {}
    segment, pieces = counted_rows(steps)
    integer = lambda name, value, remedy: int(value)
    for _ in range(2):
        pieces.clear()
        goes_on, i, done, rows = growing(integer, segment, rooms, [True, 0], [], [])
        assert (goes_on, i, int(done)) == (False, steps, steps)
        assert sum(pieces) <= max(16, 2 * steps)
        np.testing.assert_array_equal(rows_of(rows, steps + 1)[:-1], np.arange(steps))
        assert not rows
    assert len(pieces) <= (4 if steps <= 64 or steps > 1024 else 1)


def test_loops_that_take_more_steps_than_before_go_on_in_the_rows_there_are():
    rooms = {}
    integer = lambda name, value, remedy: int(value)
    for steps, most in [(100, 7), (500, 4), (3, 1), (500, 11), (500, 4), (20, 1)]:
        segment, pieces = counted_rows(steps)
        growing(integer, segment, rooms, [True, 0], [], [])
        assert len(pieces) == most and sum(pieces) < steps + 128
        (known,) = (n[2] for shape, n in rooms.items() if shape != "first")
        assert known == [16, 128]


def descending(x):
    """The sums of integers that count down together until none is above 0."""
    going = lambda c: gt.max(c) > 0
    return gt.while_loop(going, lambda c: (c - 1, gt.sum(c)), x, collect=True)[1]


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_each_shape_starts_from_rows_that_it_is_compiled_for(dims):
    """Calls of other shapes in between, with more steps, compile nothing again."""
    f = graphc.function([X], descending(X), dims=dims)
    exact = graphc.function([X], descending(X), backend="numpy")
    calls = [(3, 10), (40, 700), (5, 90), (20, 5), (80, 300), (40, 2), (20, 60)]
    given = [np.linspace(0, most, n).round() for n, most in calls]
    for x in given:
        alike([f(x)], [exact(x)])
    rows = [c.sizes["rows"] for c in f.stats().compilations if "rows" in c.sizes]
    capacities = 4 + (dims == "auto")
    assert len(rows) <= 2 * capacities
    before = len(f.stats().compilations)
    for x in [*reversed(given), *given]:
        alike([f(x)], [exact(x)])
    assert len(f.stats().compilations) == before


def test_rows_of_a_gradient_are_stored_at_capacities_from_the_second_size_on():
    def slope():
        going, step = lambda c: c[1] < X.shape[0], lambda c: (gt.sin(c[0]), c[1] + 1)
        return graphc.grad(gt.sum(gt.while_loop(going, step, (X, 0))[0]), X)

    f = graphc.function([X], slope())
    exact = graphc.function([X], slope(), backend="numpy")
    for n in (3, 5, 9, 11, 4, 14, 8):
        alike([f(np.linspace(0, 1, n))], [exact(np.linspace(0, 1, n))])
    assert len(f.stats().compilations) == 2 * len(f.plan.segments)


def by_hand(v, a, x):
    """The last state, the number of steps, and the states before each step."""
    s, b, rows = x, np.zeros(4), []
    while np.sum(s) < v:
        rows.append((s, np.max(s) > 1, b, np.int8(len(rows))))
        b = b.copy()
        i = len(rows) - 1
        b[i % 4] = np.tanh(b[(i + 1) % 4]) + a
        s = s + np.sin(s) * a
    kept = [np.array(part) for part in zip(*rows, strict=True)]
    return [s, np.int64(len(rows)), *kept]


def test_states_that_are_arrays():
    """There are outputs of several types, at several lengths, and states among them."""

    def body(c):
        s, b, i = c
        after = s + gt.sin(s) * A, b.at[i % 4].set(gt.tanh(b[(i + 1) % 4]) + A), i + 1
        return after, (s, gt.max(s) > 1, b, gt.astype(i, "int8"))

    start, goes_on = (X, gt.zeros(4, "float64"), 0), lambda c: gt.sum(c[0]) < V
    (s, _, i), kept = gt.while_loop(goes_on, body, start, collect=True)
    cost = gt.sum(s) + gt.sum(gt.sin(kept[0])) + gt.sum(kept[2])
    outputs = [s, i, *kept, *graphc.grad(cost, [A, X])]
    f = graphc.function([V, A, X], outputs, backend="numpy")
    compiled = [graphc.function([V, A, X], outputs, dims=d) for d in ("pad", "auto")]
    for n, v in ((3, 8.0), (2, 5.0), (3, 0.2), (5, 14.0)):
        x = 0.1 + np.arange(n) * 0.01
        expected = f(v, 0.2, x)
        if v > 1:
            alike(expected[:6], by_hand(v, 0.2, x))
        for g in compiled:
            alike(g(v, 0.2, x), expected)
    assert [bool(g.stats().changes) for g in compiled] == [False, True]


def test_without_a_driver_it_is_done_twice():
    end, kept = damped(V, A, True)
    f = graphc.function([V, A], [end, kept])
    alike(f(3.0, 0.7), list(map(np.asarray, f.jax_callable(3.0, 0.7))))
    with pytest.raises(graphc.GraphError, match="size steps must be known"):
        jax.jit(f)(3.0, 0.7)


def roots(x, offset):
    """Square roots by Newton's method; the value that starts it is also a capture."""
    a = gt.abs(x) + offset
    going = lambda r: gt.max(gt.abs(r * r - a)) > 1e-9  # noqa: E731
    step = lambda r: ((r + a / r) / 2, gt.max(gt.abs(r - a)))  # noqa: E731
    end, kept = gt.while_loop(going, step, a, collect=True)
    return [end, kept]


def roots_by_hand(x, offset):
    a = np.abs(x) + offset
    r, kept = a, []
    while np.max(np.abs(r * r - a)) > 1e-9:
        kept.append(np.max(np.abs(r - a)))
        r = (r + a / r) / 2
    return [r, np.array(kept)]


@pytest.mark.parametrize("dims", ["specialize", "pad", "auto"])
def test_what_stands_before_a_loop_is_part_of_its_program(dims):
    f = graphc.function([X, V], roots(X, V), dims=dims)
    guessed = [s for s in f.plan.segments if isinstance(s, GuessingSegment)]
    assert len(guessed) == (dims == "pad")
    assert any((s.rows or s in guessed) and len(s.nodes) > 1 for s in f.plan.segments)
    for n, v in ((3, 1.0), (4, 2.5), (30, 1.0), (4, 1e12), (1, 1.0), (3, 1.0)):
        x = np.linspace(-3, 2, n)
        alike(f(x, v), roots_by_hand(x, v))
    names = {"rows", "steps_capacity"}
    with_rows = [c for c in f.stats().compilations if names & c.sizes.keys()]
    sizes = [tuple(c.sizes.items()) for c in with_rows]
    assert len(set(sizes)) == len(sizes)


def test_a_loop_that_goes_on_keeps_what_its_first_piece_computed():
    """With more steps than rows, the next piece gets what the first one computed."""
    going = lambda c: c[0] < gt.sum(gt.abs(X))  # noqa: E731
    weights = gt.tanh(X) + V
    step = lambda c: ((c[0] + 1.0, c[1] + weights), gt.sum(c[1] * weights))  # noqa: E731
    start = gt.zeros((), "float64"), weights * 2
    end, kept = gt.while_loop(going, step, start, collect=True)
    f = graphc.function([X, V], [*end, kept])
    for n in (40, 3, 40):
        x = np.full(n, 5.0)
        w, state, rows = np.tanh(x) + 0.5, 2 * (np.tanh(x) + 0.5), []
        for _ in range(5 * n):
            rows.append(np.sum(state * w))
            state = state + w
        alike(f(x, 0.5), [np.float64(5 * n), state, np.array(rows)])


def test_a_large_part_before_a_loop_is_compiled_once_for_all_rows():
    y = X
    for i in range(200):
        y = gt.tanh(y) * (1 + i / 1000)
    going = lambda c: gt.max(c) > 1e-3  # noqa: E731
    _, kept = gt.while_loop(going, lambda c: (c / 2, c), y, collect=True)
    f = graphc.function([X], kept)
    assert [bool(s.rows) for s in f.plan.segments][:2] == [False, True]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_loops_that_grow_in_steps_of_one(backend):
    k, z = gt.tensor("k", "int64", ()), gt.tensor("z", "float64", ())

    def grown(z):
        rows = gt.while_loop(
            lambda c: c < 3, lambda c: (c + 1, gt.tanh(c * z)), z, collect=True
        )
        return gt.sum(rows[1])  # tanh(z * z) + tanh((z + 1) * z) + ...

    def step(c):
        number, z = c
        return (number + 1, graphc.grad(grown(z), z) / 8), z

    _, visited = gt.while_loop(lambda c: c[0] < 3, step, (k, z), collect=True)
    f = graphc.function([k, z], visited, backend=backend)
    expected = [0.5]
    for _ in range(2):
        c = np.arange(expected[-1], 3)
        slopes = (c[0] + c) / np.cosh(c * c[0]) ** 2
        expected.append(slopes.sum() / 8)
    np.testing.assert_allclose(f(0, 0.5), expected, rtol=1e-12)
