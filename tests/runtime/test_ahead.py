"""Programs of any number of segments, compiled ahead of calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.runtime.test_export_loops import ROWS, SCANS, X

pytestmark = pytest.mark.usefixtures("compiled_quickly")
W = gt.tensor("w", "float64", ("n",))
K = gt.iscalar("k")
C = gt.tensor("c", "float32", ())
ONES = np.array([1, -2, 3, 4], "float32")


def positive(x):
    return gt.sort(x[x > 0]) * 2


GIVEN = {"n": 4, "count": 3}
PROGRAMS = {
    "a filter": ([X], positive(X), "specialize", GIVEN, 2, [ONES]),
    "float64": ([W], positive(W), "specialize", GIVEN, 2, [ONES.astype("float64")]),
    "two filters": (
        *([X], [positive(X), positive(-X)], "specialize"),
        *(GIVEN | {"count_1": 1}, 3, [ONES]),
    ),
    "an adapting one": ([X], positive(X), "auto", GIVEN, 2, [ONES]),
    "host arithmetic": (
        *([X, K], [gt.arange(K * K // 3 + 1) * 2, X[:K]], "specialize"),
        *({"n": 4, "k": [2, 2]}, 2, [ONES, 2]),
    ),
    "capacities": (
        *([X, K], [X * 2, gt.arange(K)], "pad"),
        *({"n": 3, "k": 2}, 1, [ONES, 2]),
    ),
    "a number": ([X, C], [X * C, positive(X)], "specialize", GIVEN, 2, [ONES, 0.5]),
    "checks": (
        *([X, K], [gt.assert_(K > 1, "few", X[:K]), gt.assert_(X > -9, "low", X)]),
        *("specialize", {"n": 4, "k": 2}, 1, [ONES, 2]),
    ),
    "nothing to run": ([X], X, "specialize", {"n": 4}, 0, [ONES]),
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("device", [False, True])
def test_calls_find_all_segments_compiled(kind, device):
    inputs, outputs, dims, sizes, count, args = PROGRAMS[kind]
    f = graphc.function(inputs, outputs, dims=dims)
    lowered = f.lower(sizes)
    assert len(lowered) == count and not f.stats().compilations
    assert all("module @jit_segment" in one.as_text() for one in lowered)
    made = f.compile(sizes, threads=2)
    assert len(made) == count and f.compile(sizes) == []
    if device:
        with jax.enable_x64(True):
            args = [a if isinstance(a, (int, float)) else jnp.asarray(a) for a in args]
    expected = graphc.function(inputs, outputs, backend="numpy")(*map(numpy, args))
    for _ in range(2):
        for a, b in zip(leaves(f(*args)), leaves(expected), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)
    assert f.stats().compilations == made


def numpy(a):
    return a if isinstance(a, (int, float)) else np.asarray(a)


def leaves(found):
    return found if isinstance(found, list) else [found]


def test_what_depends_on_data_waits_and_is_told():
    f = graphc.function([X], [positive(X), gt.cumsum(X)], dims="specialize")
    with pytest.warns(graphc.AheadWarning) as told:
        assert [c.segment for c in f.compile({"n": [4, 5]})] == [0, 0]
    assert told[0].message.args[0] == (
        "compile: what depends on count is left to the first call: the program reads it"
        ' from the device\n  hint: also give numbers that it may take, as '
        '{"count": [...]}'
    )
    assert told[0].filename == __file__
    f(ONES)
    assert [c.segment for c in f.stats().compilations] == [0, 0, 1]
    assert [c.sizes["count"] for c in f.compile({"n": 4, "count": [3, 2, 1]})] == [2, 1]


def test_a_loop_that_runs_in_pieces():
    _, ys = gt.while_loop(lambda i: i < K, lambda i: (i + 1, 2 * i), 0, collect=True)
    f = graphc.function([K], ys)
    with pytest.warns(graphc.AheadWarning, match="depends on steps"):
        made = f.compile({"k": 9})
    assert [c.sizes.get("rows") for c in made] == [16]
    assert f(9).tolist() == [2 * i for i in range(9)]
    assert f.stats().compilations == made


@pytest.mark.parametrize("kind", SCANS)
def test_a_loop_that_python_runs(kind):
    f = graphc.function([X, ROWS], list(SCANS[kind]()), dims="specialize")
    with pytest.warns(graphc.AheadWarning):
        made = f.compile({"n": 2, "t": 4})
    assert made
    f(ONES[:2], np.ones((4, 3), "float32"))
    again = [c for c in f.stats().compilations if c not in made]
    assert not {c.segment for c in made} & {c.segment for c in again}


def test_sizes_that_do_not_fit_are_refused():
    y = gt.tensor("y", "float32", ("m",))
    f = graphc.function([X, y], [positive(X), X + y], dims="specialize")
    never = graphc.function([X], [positive(X)], jit=False)
    cases = {
        "add: shapes do not broadcast: needs n == m; got 3 and 4\n": (
            lambda: f.compile({"n": 3, "m": 4})
        ),
        "compile: cuont is not a size": lambda: f.compile({"n": 3, "m": 3, "cuont": 2}),
        "compile: these are not sizes of calls\n  got: [3, 4]\n"
        '  expected: a dict, as {"n": [...], "m": [...]}': lambda: f.compile([3, 4]),
        "compile: these are not sizes of calls\n  got: '4'\n"
        "  expected: integers for n: [3, 4], {3: 10, 4: 1} or 3": (
            lambda: f.compile({"n": "4", "m": 2})
        ),
        "lower: these are not sizes of calls\n  got: -2\n  expected: m of at": (
            lambda: f.lower({"n": 4, "m": [1, -2]})
        ),
        "compile: at least one thread": lambda: f.compile({}, threads=0),
        "compile: the program is compiled by its caller, since jit=False\n"
        "  hint: jax.jit(f.jax_callable, static_argnums": lambda: never.compile({}),
    }
    for text, ask in cases.items():
        with pytest.raises((graphc.GraphError, graphc.CallError)) as caught:
            ask()
        assert str(caught.value).startswith(text), str(caught.value)
    assert f.stats().compilations == []


def random_sizes(most, count=60):
    return np.random.default_rng(3).integers(1, most, count).tolist()


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_ranges_of_several_lengths_are_compiled_for_in_all_ways(dims):
    x, y = gt.vector("x", shape=("n",)), gt.vector("y", shape=("m",))
    f = graphc.function([x, y], gt.exp(x[:, None] - y).sum(1), dims=dims)
    known = len(f.compile({"n": range(1, 90), "m": range(1, 41)}))
    for n, m in zip(random_sizes(90), random_sizes(41), strict=True):
        result = f(np.zeros(n, "float32"), np.ones(m, "float32"))
        np.testing.assert_allclose(result, np.full(n, m / np.e), rtol=1e-5)
    assert len(f.stats().compilations) == known


@pytest.mark.parametrize("dims", ["auto", "pad", "specialize"])
def test_ways_that_do_not_fit_are_left_out(dims):
    x, y = gt.vector("x", shape=("n",)), gt.vector("y", shape=("m",))
    f = graphc.function([x, y], (x[: y.shape[0]] * y).sum(), dims=dims)
    known = len(f.compile({"n": range(1, 8), "m": range(1, 5)}))
    for n in range(1, 8):
        for m in range(1, min(n, 4) + 1):
            assert f(np.ones(n, "float32"), np.ones(m, "float32")) == m
    assert len(f.stats().compilations) == known
    with pytest.raises(graphc.CallError, match=r"needs min\(m, n\) == m"):
        f.compile({"n": range(1, 3), "m": range(7, 12)})


@pytest.mark.parametrize("dims", ["auto", "pad", "specialize"])
def test_sizes_of_a_range_that_the_program_refuses_are_left_out(dims):
    x = gt.vector("x", shape=("n",))
    f = graphc.function([x], gt.max(x), dims=dims)
    assert f.compile({"n": range(5)}) and f.lower({"n": range(5)})
    known = len(f.stats().compilations)
    assert [f(np.arange(n, dtype="float32")) for n in range(1, 5)] == [0, 1, 2, 3]
    assert len(f.stats().compilations) == known
    for sizes in ([0, 1], range(1)):
        with pytest.raises(graphc.CallError, match="needs 1 <= n"):
            f.compile({"n": sizes})


def kept(x):
    return gt.exp(x[x > 0])


def distinct_of(x):
    return gt.unique(gt.floor(x * 3))


def sorted_halves(x):
    return gt.sort(x[x > 0]), gt.sort(x[x <= 0])


@pytest.mark.parametrize("graph", [kept, distinct_of, sorted_halves])
def test_what_is_read_from_data_is_stored_at_capacities_where_a_range_is_told(graph):
    x = gt.vector("x", shape=("n",))
    f = graphc.function([x], graph(x))
    exact = graphc.function([x], graph(x), backend="numpy")
    known = len(f.compile({"n": range(1, 40)}))
    assert known
    for n in random_sizes(40):
        numbers = np.random.default_rng(n).normal(size=n).astype("float32")
        for a, b in zip(f(numbers), exact(numbers), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert len(f.stats().compilations) == known


def test_nothing_is_compiled_to_place_an_integer():
    """JAX compiles for the first number of each dtype that `jnp.asarray` gets."""
    x = gt.vector("x", shape=("n",))
    f = graphc.function([x], gt.nn.softmax(x), dims="pad")
    jax.clear_caches()
    f.compile({"n": range(1, 60)})
    compiled = []
    listen = lambda event, seconds, **_: compiled.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    for n in (3, 3, 50, 50, 3):
        f(np.zeros(n, "float32"))
    assert not [event for event in compiled if "backend_compile" in event]
