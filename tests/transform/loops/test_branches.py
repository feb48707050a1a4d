"""Loops and branches of unknown length, within each other, and what surrounds them."""

import subprocess
import sys

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
W = gt.tensor("w", "float64", ("n", 2))
K = gt.tensor("k", "int64", ())
FIVE = np.array([0.5, -1.25, 2.0, 0.75, 3.0])


def values(given, outputs, backend, **options):
    f = graphc.function(list(given), outputs, backend=backend, **options)
    return f(*given.values())


def with_gradient(y, wrt):
    return [y, *graphc.grad(y, wrt, disconnected="zero")]


def theirs(function, *arguments):
    """A number and its gradient, computed by JAX."""
    places = tuple(range(len(arguments)))
    y, slopes = jax.jit(jax.value_and_grad(function, places))(*arguments)
    return [y, *slopes]


# Branches.


def by_case(x, a, cond, np):
    either = lambda c: np.sum(np.sin(c) * a)
    return cond(np.sum(x) > 0, either, lambda c: a * a * np.prod(c), x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond(backend):
    y = by_case(X, A, gt.cond, gt)
    f = graphc.function([X, A], with_gradient(y, [X, A]), backend=backend)
    for x in (FIVE, -FIVE, FIVE[:0]):
        expected = theirs(lambda x, a: by_case(x, a, jax.lax.cond, jnp), x, 1.5)
        alike(f(x, 1.5), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_mode_of_branches(backend):
    y = by_case(X, A, gt.cond, gt)
    along = [gt.cos(X), A]
    outputs = [graphc.jvp(y, [X, A], along), *graphc.hvp(y, [X, A], along)]
    f = graphc.function([X, A], outputs, backend=backend)
    cost = lambda x, a: by_case(x, a, jax.lax.cond, jnp)
    for x in (FIVE, -FIVE):
        at, tangent = (x, np.float64(1.5)), (np.cos(x), np.float64(1.5))
        expected = [jax.jvp(cost, at, tangent)[1]]
        expected += jax.jvp(jax.grad(cost, (0, 1)), at, tangent)[1]
        alike(f(*at), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_one_branch_is_computed(backend):
    """The other branch would never end."""
    forever = lambda: gt.while_loop(lambda c: c > -1, lambda c: gt.abs(c), A)
    y = gt.cond(A > 0, lambda: A * 2, forever)
    assert values({A: np.float64(3)}, y, backend) == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_switch_is_clamped(backend):
    branches = [lambda c: c, lambda c: c * c, lambda c: gt.sin(c) * A]
    y = gt.switch(K, branches, A)
    f = graphc.function([K, A], with_gradient(y, [A]), backend=backend)
    slopes = [1, 3.0, np.sin(1.5) + 1.5 * np.cos(1.5)]
    results = [1.5, 2.25, 1.5 * np.sin(1.5)]
    for k in (-2, 0, 1, 2, 3, 100):
        i = min(max(k, 0), 2)
        alike(f(k, 1.5), [np.float64(results[i]), np.float64(slopes[i])])


def test_a_narrow_index_and_many_branches():
    narrow = gt.tensor("narrow", "int8", ())
    branches = [lambda i=i: A * i for i in range(150)]
    f = graphc.function([narrow, A], gt.switch(narrow, branches), backend="numpy")
    assert (f(-5, 2.0), f(100, 2.0)) == (0, 200)


def test_numbers_of_branches_adapt():
    half = gt.tensor("h", "float16", ())
    for y in (
        gt.cond(half > 0, lambda: half, lambda: 0),
        gt.cond(half > 0, lambda: 0, lambda: half),
    ):
        assert y.dtype == np.float16
    assert gt.cond(half > 0, lambda: 1, lambda: 2).dtype == np.int64


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_of_branches(backend):
    """Each example takes its own branch, also in the gradient."""
    one = lambda v: gt.cond(v > 0, lambda: gt.sqrt(v) * A, lambda: gt.sin(v))
    y = gt.sum(graphc.vmap(one)(X))
    pick = lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0)
    both = lambda x, a: jnp.sum(pick(x) * a + jnp.where(x > 0, 0, jnp.sin(x)))
    given = {X: FIVE, A: np.float64(1.5)}
    alike(values(given, with_gradient(y, [X, A]), backend), theirs(both, FIVE, 1.5))
    same = gt.sum(graphc.vmap(lambda v: gt.cond(A > 0, lambda: v, lambda: -v))(X))
    alike(values(given, [same], backend), [FIVE.sum()])


# While.


def halvings(v, np):
    return lambda s: (s[0] > 1, (s[0] * 0.5 + 0.1 * np.sin(v), s[1] + 1))


def looped(v, a, loop, np, **options):
    test, step = (lambda s, i=i: halvings(a, np)(s)[i] for i in (0, 1))
    return loop(test, step, (v * v * 9, 0), **options)


def in_python(v, a):
    s = (v * v * 9, np.int64(0))
    while s[0] > 1:
        s = halvings(a, np)(s)[1]
    return s


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"max_steps": 12}], ids=["while", "bounded"])
def test_while(options, backend):
    y = looped(X[0], A, gt.while_loop, gt, **options)
    f = graphc.function([X, A], list(y), backend=backend)
    for v in (0.1, 1.0, 10.0):
        alike(f(np.array([v]), 1.5), in_python(np.float64(v), np.float64(1.5)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_while(backend):
    y = looped(X[0], A, gt.while_loop, gt, max_steps=12)[0]
    outputs = [*with_gradient(y, [X, A]), *graphc.hvp(y, [X, A], [gt.cos(X), A])]
    f = graphc.function([X, A], outputs, backend=backend)

    def smooth(x, a, steps):
        s = x[0] * x[0] * 9
        for _ in range(steps):
            s = s * 0.5 + 0.1 * jnp.sin(a)
        return s

    for v in (0.1, 1.0, 10.0):
        at = (np.array([v]), np.float64(1.5))
        steps = int(in_python(np.float64(v), 1.5)[1])
        cost = lambda x, a: smooth(x, a, steps)
        along = (np.cos(at[0]), at[1])
        expected = theirs(cost, *at)
        expected += jax.jvp(jax.grad(cost, (0, 1)), at, along)[1]
        alike(f(*at), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_examples_stop_at_different_times(backend):
    given = {X: np.array([0.1, 10.0, 1.0, 5.0]), A: np.float64(1.5)}
    ends, counts = zip(*(in_python(v, given[A]) for v in given[X]), strict=True)
    for options in ({}, {"max_steps": 12}):
        one = lambda v: looped(v, A, gt.while_loop, gt, **options)
        y = graphc.vmap(one)(X)
        alike(values(given, list(y), backend), [np.array(ends), np.array(counts)])
    slopes = graphc.grad(gt.sum(y[0]), X)
    exact = 18 * given[X] * 0.5 ** np.array(counts)
    alike(values(given, [slopes], backend), [exact])


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_behind_the_end_count_for_nothing(backend):
    """Their values may be NaN or inf, but the results and gradients are not."""
    step = lambda c: gt.sqrt(c - 1)
    y = gt.while_loop(lambda c: c > 1, step, A, max_steps=6)
    f = graphc.function([A], with_gradient(y, [A]), backend=backend)
    with np.errstate(all="ignore"):
        alike(f(5.0), [np.sqrt(2.0 - 1), np.float64(0.25 / 2)])


# Loops in loops, and captures of their bodies.


def nested(x, a, np, scan, fori):
    """Nested loops; bodies use outer values and variables of the loops around them."""

    def outer(c, v):
        inner = lambda d, w: (d * np.cos(w + v) + a * c, d + w)
        d, ys = scan(inner, c * 0.5, x)
        power = fori(0, 3, lambda i, p: p * v + i * a, d)
        return np.sin(power), np.sum(ys) * v

    c, ys = scan(outer, a, x)
    return c + np.sum(ys * ys)


def test_nested_loops():
    y = nested(X, A, gt, gt.scan, gt.fori_loop)
    along = [gt.cos(X), A]
    outputs = [*with_gradient(y, [X, A]), *graphc.hvp(y, [X, A], along)]
    outputs.append(graphc.jvp(y, [X, A], along))
    cost = lambda x, a: nested(x, a, jnp, jax.lax.scan, jax.lax.fori_loop)
    at, tangent = (FIVE, np.float64(0.7)), (np.cos(FIVE), np.float64(0.7))
    expected = theirs(cost, *at)
    expected += jax.jvp(jax.grad(cost, (0, 1)), at, tangent)[1]
    expected.append(jax.jvp(cost, at, tangent)[1])
    for backend in BACKENDS:
        found = values({X: FIVE, A: np.float64(0.7)}, outputs, backend)
        alike(found, expected, 1e-8)


def mixed(x, a, np, scan, cond):
    def step(c, v):
        twice = lambda: scan(lambda d, w: (d * np.sin(w + v), None), c, x[:2])[0]
        return cond(v > 1, twice, lambda: c * v + a), c

    c, ys = scan(step, a, x)
    return c * np.sum(np.sin(ys))


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_in_branches_in_loops(backend):
    y = mixed(X, A, gt, gt.scan, gt.cond)
    cost = lambda x, a: mixed(x, a, jnp, jax.lax.scan, jax.lax.cond)
    found = values({X: FIVE, A: np.float64(0.7)}, with_gradient(y, [X, A]), backend)
    alike(found, theirs(cost, FIVE, 0.7))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_are_values_too(backend):
    """A body in nested loops takes one integer as a number and as a size."""

    def step(c, v):
        inner = lambda d, _: (gt.sum(gt.broadcast_to(d, (K,)) * K), None)
        return gt.scan(inner, c, X[:K])[0] + K, c * gt.fori_loop(0, K, up, v)

    up = lambda i, d: d + i * K
    found = values({X: FIVE, K: 2}, list(gt.scan(step, K, X)), backend)
    c, ys = 2, []
    for v in FIVE:
        ys.append(c * (v + 2))
        c = c * 16 + 2
    alike(found, [np.int64(c), np.array(ys)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_around_and_inside(backend):
    def step(c, v):
        inner = graphc.checkpoint(lambda c, v: gt.sin(c * v) * A)
        return inner(c, v=v), c

    around = graphc.checkpoint(lambda x, a: gt.sum(gt.scan(step, a, x)[1]))
    y = around(X, a=A)
    given = {X: FIVE, A: np.float64(0.7)}

    def cost(x, a):
        step = lambda c, v: (jnp.sin(c * v) * a, c)
        return jnp.sum(jax.lax.scan(step, a, x)[1])

    alike(values(given, with_gradient(y, [X, A]), backend), theirs(cost, FIVE, 0.7))


@pytest.mark.parametrize("backend", BACKENDS)
def test_map(backend):
    y = gt.map(lambda row: {"p": row["v"] * A, "q": gt.sum(row["w"])}, {"v": X, "w": W})
    w = np.arange(10.0).reshape(5, 2)
    given = {X: FIVE, W: w, A: np.float64(0.7)}
    alike(values(given, [y["p"], y["q"]], backend), [FIVE * 0.7, w.sum(1)])
    slopes = graphc.grad(gt.sum(y["p"] * y["q"]), [X, W, A])
    expected = [0.7 * w.sum(1), 0.7 * FIVE[:, None] * np.ones(2), FIVE @ w.sum(1)]
    alike(values(given, slopes, backend), expected)


# The program around loops and branches.


@pytest.mark.parametrize("dims", ["auto", "pad", "specialize"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sequences_of_a_length_from_data(backend, dims):
    y = gt.scan(lambda c, v: (c * gt.sin(v), c + v), A, X[X > 0.6])
    y = gt.sum(y[1]) + y[0]

    def cost(x, a):
        step = lambda c, v: (c * jnp.sin(v), c + v)
        c, ys = jax.lax.scan(step, a, x)
        return jnp.sum(ys) + c

    outputs = with_gradient(y, [X, A])
    f = graphc.function([X, A], outputs, backend=backend, dims=dims)
    for x in (FIVE, FIVE[:2], FIVE[::-1].copy()):
        kept = x > 0.6
        value, slope, other = theirs(cost, x[kept], 0.7)
        whole = np.zeros_like(x)
        whole[kept] = slope
        alike(f(x, 0.7), [value, whole, other])


DTYPES = ["float16", "float32", "float64", "int8", "int64", "bool", "complex64"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_dtypes_are_kept(backend):
    xs = [gt.tensor(f"x_{d}", d, ("n",)) for d in DTYPES]

    def step(c, rows):
        pairs = zip(c, rows, strict=True)
        after = [v if v.dtype == bool else v + old for old, v in pairs]
        return after, c

    first = [gt.zeros((), d) for d in DTYPES]
    ends, ys = gt.scan(step, first, xs)
    loops = gt.while_loop(lambda c: gt.real(c[-1]) > 9, lambda c: c, first)
    given = {x: np.array([1, 0, 2], x.dtype) for x in xs}
    found = values(given, [*ends, *ys, *loops], backend)
    assert [np.asarray(v).dtype.name for v in found] == DTYPES * 3
    ends = [1.0 if d == "bool" else 3.0 for d in DTYPES]
    assert [complex(v).real for v in found[:7]] == ends


def test_a_saved_program_runs_alone(tmp_path):
    y = nested(X, A, gt, gt.scan, gt.fori_loop)
    w = gt.while_loop(lambda c: c < 9, lambda c: 2 * c, A)
    outputs = [*with_gradient(y, [X, A]), w]
    expected = values({X: FIVE, A: np.float64(0.7)}, outputs, "numpy")
    for backend in BACKENDS:
        f = graphc.function([X, A], outputs, backend=backend)
        f.save(tmp_path / f"saved_{backend}.py")
        text = f"""
import sys
sys.modules["graphc"] = None
import numpy as np
from saved_{backend} import program
found = program(np.array({FIVE.tolist()}), 0.7)
print(repr([np.asarray(v).tolist() for v in found]))
"""
        run = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )
        for a, b in zip(eval(run.stdout), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


def test_bodies_are_functions_of_the_program():
    y = gt.scan(lambda c, v: (c * v + gt.sum(X), c), A, X)[1]
    f = graphc.function([A, X], [y, graphc.grad(gt.sum(y), X)], backend="jax")
    assert "\ndef body(" in f.source and "\ndef body_1(" in f.source
    assert f.source.count("jnp.sum(x)") == 1  # it is the same in all steps
    assert "scan(" in graphc.dump(y) and 'opaque("body", body)' in graphc.dump(y)
    assert "test_branches.py" in f.explain(full=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_compilation_for_one_length(backend):
    y = gt.scan(lambda c, v: (c * v, c), A, X)[1]
    f = graphc.function([A, X], y, backend=backend)
    for _ in range(3):
        f(1.0, FIVE)
    assert len(f.stats().compilations) <= 1


def test_loops_stay_on_the_device():
    """A check of a loop's end does not make it run on the host a second time."""
    y = gt.while_loop(lambda c: c < A, lambda c: gt.assert_(c < 40, "no", 2 * c), 1.0)
    f = graphc.function([A], y, backend="jax")
    assert f(50.0) == 64
    assert "while_numpy" not in f.source
