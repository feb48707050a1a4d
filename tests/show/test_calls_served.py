"""The picture of a function tells, for each compilation, the calls that it served."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

SIZES = [4, 5, 4, 6, 40, 40, 40, 5, 5, 4]


def of_sums(dims):
    v = gt.vector("v", shape=("n",))
    return graphc.function([v], gt.sum(gt.exp(v)), dims=dims), lambda n: (np.ones(n),)


def of_parts(dims):
    """A function with a size read between segments and an integer that is a size."""
    x, k = gt.matrix("x", shape=("n", 3)), gt.iscalar("k")
    norms = gt.sqrt(gt.sum(x**2, axis=1))
    last = gt.sort(norms[norms > 1], descending=True)[:k]
    f = graphc.function([x, k], last, dims=dims)
    return f, lambda n: (np.eye(n, 3, dtype="float32") * 2, 2)


def of_jit(dims):
    f = graphc.jit(lambda x: jnp.sum(jnp.exp(x)), dims=dims)
    return f, lambda n: (np.ones(n, "float32"),)


def of_numpy_names(dims):
    def last(x, k):
        score = np.tanh(x.sum(axis=1))
        return np.sort(score[score > 0])[-k:]

    f = graphc.jit(last, frontend="numpy", dims=dims)
    return f, lambda n: (np.ones((n, 3), "float32"), 2)


def served(f):
    """The calls of each compilation: (program, segment, sizes, calls)."""
    return [
        (number, one.segment, one.sizes, one.calls)
        for number, program in enumerate(f._picture().record.programs)
        for one in program.compilations
    ]


@pytest.mark.parametrize(
    ("make", "dims"),
    [
        *((of_sums, "auto"), (of_sums, "specialize")),
        *((of_parts, "auto"), (of_parts, "pad")),
        *((of_jit, "auto"), (of_jit, "specialize")),
        *((of_numpy_names, "auto"), (of_numpy_names, "pad")),
        (of_numpy_names, "specialize"),
    ],
)
def test_the_calls_of_compilations_are_those_of_their_sizes(make, dims):
    """They are unknown only if JAX itself runs calls of several sizes."""
    f, arguments = make(dims)
    for n in SIZES:
        args = arguments(n)
        f(*[a.astype("float32") if isinstance(a, np.ndarray) else a for a in args])
    rows = served(f)
    for segment in {(number, segment) for number, segment, *_ in rows}:
        calls = [row[3] for row in rows if row[:2] == segment]
        if None not in calls:
            assert sum(calls) <= len(SIZES)
    for _, _, sizes, calls in rows:
        if "n_capacity" in sizes and calls is not None:
            assert 0 < calls <= sum(n <= sizes["n_capacity"] for n in SIZES)
        elif "n" in sizes and calls is not None:
            assert 0 < calls <= SIZES.count(sizes["n"])
    if dims != "specialize":
        assert None not in [calls for *_, calls in rows]


def test_calls_of_every_size_are_counted_once():
    f, arguments = of_parts("specialize")
    for n in SIZES:
        f(*arguments(n))
    for _, segment, sizes, calls in served(f):
        expected = SIZES.count(sizes["n"]) if "n" in sizes else len(SIZES)
        assert calls == expected, segment


def test_reads_that_differ_leave_the_calls_open():
    """If argument sizes do not tell the compilation, none is named."""
    v = gt.vector("v", shape=("n",))
    f = graphc.function([v], gt.sort(v[v > 0]), dims="specialize")
    for count in (1, 2, 2):
        f(np.where(np.arange(4) < count, 1, -1).astype("float32"))
    assert [(s, n) for _, s, _, n in served(f)] == [(0, 3), (1, None), (1, None)]


def test_traced_and_failed_calls_are_not_counted():
    v = gt.vector("v", shape=("n",))
    positive = gt.assert_(gt.all(v > 0), "v > 0", v)
    f = graphc.function([v], gt.sort(positive[positive > 1]), dims="specialize")
    for n in (3, 3, 4):
        f(np.full(n, 2, "float32"))
    with pytest.raises(graphc.CallError):
        f(np.zeros(3, "float32"))
    calls = {(s, tuple(sizes.items())): n for _, s, sizes, n in served(f)}
    assert calls[0, (("n", 3),)] == 2 and calls[0, (("n", 4),)] == 1
    g = graphc.function([v], gt.sum(v), dims="pad")
    g(np.ones(3, "float32"))
    jax.make_jaxpr(g)(np.ones(3, "float32"))
    assert all(n in (1, 2, None) for *_, n in served(g))


@pytest.mark.parametrize("dims, sizes", [("pad", (5, 40)), (None, (3, 40))])
def test_failed_calls_that_are_planned_are_taken_back(dims, sizes):
    v = gt.vector("v", shape=("n",))
    positive = gt.assert_(gt.all(v > 0), "v > 0", gt.cumsum(v))
    f = graphc.function([v], positive, dims=dims)
    for n in (*sizes[:1] * 3, *sizes[1:] * 3):
        f(np.ones(n, "float32"))
    for _ in range(2):
        with pytest.raises(graphc.CallError):
            f(np.zeros(sizes[1], "float32"))
    assert [n for *_, n in served(f)] == [3, 3]


def test_runs_that_are_forgotten_are_let_go_and_stay_counted(monkeypatch):
    monkeypatch.setattr("graphc.runtime.call.planned_calls.MOST_PLANS", 2)
    f, arguments = of_sums("pad")
    for n in (4, 5, 6, 7, 8, 9) * 2:
        f(*arguments(n)[0][None].astype("float32"))
    assert served(f) == [(0, 0, {"n_capacity": 16}, 12)]
    program = f._programs.newest
    assert len(program.served._routes) <= 2


def test_calls_of_one_capacity_have_one_counter():
    f, arguments = of_jit("pad")
    for n in (4, 5, 6, 7, 8, 9) * 2:
        f(*arguments(n))
    (program,) = [p.compiled for p in next(iter(f._families.values())).programs]
    assert len(program._programs.newest.served._counters) == 1
