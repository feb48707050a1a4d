"""Sizes that vary together share one schedule of capacities, and waste little."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import DeviceCosts
from graphc.ir.graph.nodes import Graph
from graphc.ops.effects.capacities import among, doubled, serves, together
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.transform.policies import symbols_of
from graphc.transform.tied_sizes import Tied

x = gt.tensor("x", "float32", ("n",))
y = gt.tensor("y", "float32", ("m",))
NEAR = [(20, 27), (5, 12), (40, 47), (60, 67), (100, 107), (9, 16), (30, 37), (0, 7)]


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Pad a size that varies at once, however short compilations are."""
    monkeypatch.setattr(DeviceCosts, "padding", 0.0)
    monkeypatch.setattr(DeviceCosts, "cheap", 8192)


def floats(n):
    return np.linspace(0, 1, n, dtype="float32")


def products():
    """Sums over products of two arrays, and the gradient of the sums' squares."""
    sums = gt.sum(gt.exp(x[:, None]) * gt.tanh(y), axis=1)
    return [sums, graphc.grad(gt.sum(sums**2), y)]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


EXACT = graphc.function([x, y], products(), backend="numpy", dims="specialize")


@pytest.mark.parametrize("ahead", [(0, 0), (0, 1), (2, 0)])
@pytest.mark.parametrize("minimum", [1, 16])
def test_a_capacity_is_the_one_that_is_needed_or_the_next(ahead, minimum):
    for sizes in itertools.product((0, 1, 2, 15, 16, 17, 33, 100, 128, 129), repeat=2):
        rooms = together(sizes, ahead, minimum)
        needed = [doubled(n, minimum) for n in sizes]
        for room, least in zip(rooms, needed, strict=True):
            assert room in (least, 2 * least)
        places = [r >> a for r, a in zip(rooms, ahead, strict=True)]
        if rooms == needed and places[0] != places[1]:  # they are too far apart
            shared = max(n / 2**a for n, a in zip(needed, ahead, strict=True))
            far = [shared * 2**a > 2 * n for n, a in zip(needed, ahead, strict=True)]
            assert any(far) or min(needed) == minimum


@pytest.mark.parametrize("power", [0, 1])
def test_longer_calls_are_stored_at_what_they_need(power):
    """A call's extra time is at most a few times that of sizes that vary alone."""
    sizes = [(n, n + n // 2 + 1) for n in range(1, 2000, 13)]
    for call in sizes:
        needed = [doubled(n, 16) for n in call]
        rooms = together(call, (0, 0), 16, 64, power)
        little = 4 * 64 ** (1 + power)
        is_little = serves((max(needed),) * 2, tuple(needed), little, power)
        assert rooms == ([max(needed)] * 2 if is_little else needed)
    stored = {tuple(together(call, (0, 0), 16, 64, power)) for call in sizes}
    assert {(64, 64), (1024, 2048)} <= stored and (32, 64) not in stored


def test_one_program_for_each_capacity_of_both():
    f = graphc.function([x, y], products())
    for n, m in [*NEAR, *NEAR]:
        same(f(floats(n), floats(m)), EXACT(floats(n), floats(m)))
    capacities = {doubled(max(n, m), 16) for n, m in NEAR[1:]}
    assert len(f.stats().compilations) == 1 + len(capacities)
    assert "tied to the sizes that vary with it" in f.explain()
    assert "tied to the sizes that vary with it" in f.stats().changes[0]


def test_sizes_far_apart_are_stored_at_what_they_need():
    f = graphc.function([x, y], products())
    for n, m in [(20, 27), (5, 12), (3, 300), (200, 1), (1, 0), (0, 0)]:
        same(f(floats(n), floats(m)), EXACT(floats(n), floats(m)))
    stored = [(c.sizes["n_capacity"], c.sizes["m_capacity"]) for c in
              f.stats().compilations[1:]]  # fmt: skip
    assert stored == [(16, 16), (16, 512), (256, 16)]


def test_axes_of_which_one_comes_again_without_the_other_are_not_tied():
    f = graphc.function([x, y], products())
    f.vary({"n": [20, 5, 20], "m": [27, 12, 12]})
    assert "n: padded to" in f.explain() and "tied to" not in f.explain()
    given = graphc.function([x, y], products(), dims="pad")
    for n, m in NEAR:
        given(floats(n), floats(m))
    assert "tied to" not in given.explain()


def test_long_axes_are_not_tied(monkeypatch):
    """Storing unused elements would take longer than compiling once more."""
    monkeypatch.setattr(DeviceCosts, "cheap", 16)
    f = graphc.function([x, y], products())
    for n, m in NEAR[:3]:
        f(floats(n), floats(m))
    assert "padded" in f.explain() and "tied to" not in f.explain()


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_results_at_all_sizes(backend):
    dims = {"n": Tied(minimum=2), "m": Tied(minimum=2, ahead=1)}
    f = graphc.function([x, y], products(), dims=dims, backend=backend)
    for n, m in itertools.product((0, 1, 2, 5), (0, 1, 3, 8)):
        same(f(floats(n), floats(m)), EXACT(floats(n), floats(m)))


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("axes", [2, 3])
def test_capacities_that_calls_had_serve_others(power, axes):
    """Each call has room at capacities that serve again, and takes little longer."""
    rng, most = np.random.default_rng(axes), 128
    sizes = np.exp(rng.uniform(0, np.log(512), (200, axes))).astype(int).tolist()
    known = {}
    for call in sizes:
        needed = [doubled(n, 16) for n in call]
        rooms = among(known, needed, most, power)
        assert serves(rooms, tuple(needed), most ** (1 + power), power)
        assert known[tuple(needed)] == rooms
    before = dict(known)
    for call in sizes:
        among(known, [doubled(n, 16) for n in call], most, power)
    assert known == before  # sizes that come again compile nothing
    assert len({*known.values()}) < len(known)


def test_what_would_take_long_is_stored_at_what_it_needs():
    known = {(512, 512): (512, 512), (256, 16): (256, 16)}
    assert among(known, [16, 256], 64, 1) == (16, 256)
    assert among(known, [256, 16], 64, 1) == (256, 16)
    assert not serves((512, 512), (16, 512), 64**2, 1)
    assert serves((64, 64), (16, 16), 64**2, 1)
    assert not serves((64, 64), (16, 128), 64**2, 1)


def test_one_policy_for_all_sizes_shares_what_is_cheap():
    f = graphc.function([x, y], products(), dims="pad")
    g = graphc.function([x, y], products(), dims="pad", backend="numpy")
    apart = [(500, 20), (14, 480), (250, 37), (60, 90), (20, 200), (3, 0), (1, 512)]
    for n, m in [*apart, (100, 130), (31, 510), (512, 1), (30, 33), *apart]:
        expected = EXACT(floats(n), floats(m))
        same(f(floats(n), floats(m)), expected)
        same(g(floats(n), floats(m)), expected)
    sizes = {"n": [n for n, _ in apart], "m": [m for _, m in apart]}
    compiled = f.stats().compilations
    rooms = [(c.sizes["n_capacity"], c.sizes["m_capacity"]) for c in compiled]
    assert rooms[:3] == [(512, 32), (16, 512), (256, 64)]
    assert len(rooms) <= 7 and (128, 128) in rooms  # which also serves (64, 128)
    assert "shared by axes up to 512" in f.explain()
    fresh = graphc.function([x, y], products(), dims="pad")
    assert fresh.plan.forecast(sizes).compilations == 6
    own = graphc.function([x, y], products(), dims={"n": "pad", "m": "pad"})
    assert "shared" not in own.explain()


def test_longer_axes_make_no_more_steps():
    """Only the true steps are run, so axes of loops may well be longer."""

    def row(above, a):
        cell = lambda left, cost: (gt.minimum(left, cost) + cost,) * 2  # noqa: E731
        return gt.minimum(above, gt.scan(cell, a, (y - a) ** 2)[1]), a

    best = gt.scan(row, gt.zeros(y.shape[0], "float32"), x)[0]
    f = graphc.function([x, y], gt.sum(best), dims="pad")
    logs = np.random.default_rng(0).uniform(0, np.log(256), (2, 40))
    n, m = np.exp(logs).astype(int).tolist()
    assert f.plan.forecast({"n": n, "m": m}).compilations <= 9


k = gt.tensor("k", "int64", ())
OF_INTEGERS = {
    "arange": lambda: x[gt.arange(k) * x.shape[0] // k],
    "repeat": lambda: gt.repeat(x, k),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_that_make_sizes_share_capacities_with_axes(name):
    """Each pair once got a program of its own: up to 49 for 50 calls."""
    make = OF_INTEGERS[name]
    numpy = graphc.function([x, k], make(), dims="specialize", backend="numpy")
    varied = graphc.function([x, k], make())
    padded = graphc.function([x, k], make(), dims="pad")
    on_numpy = graphc.function([x, k], make(), dims="pad", backend="numpy")
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(0, np.log(300), (30, 2))).astype(int)
    calls = [(floats(n), max(int(m) % 40, 1)) for n, m in sizes.tolist()]
    for call in [*calls, *calls[:5]]:
        expected = numpy(*call)
        for f in (varied, padded, on_numpy):
            same([f(*call)], [expected])
    counts = [len(f.stats().compilations) for f in (varied, padded)]
    assert max(counts) <= 9
    listed = {"n": [len(a) for a, _ in calls], "k": [m for _, m in calls]}
    fresh = graphc.function([x, k], make(), dims="pad")
    assert fresh.plan.forecast(listed).compilations == counts[1]


def test_integers_in_ranges_are_compiled_for_ahead():
    f = graphc.function([x, k], gt.repeat(x, k), dims="pad")
    f.compile({"n": range(1, 100), "k": range(1, 20)})
    with graphc.stance("no_compile"):
        for n, m in [(1, 1), (99, 19), (17, 3), (64, 2), (99, 1), (1, 19), (33, 7)]:
            same([f(floats(n), m)], [np.repeat(floats(n), m)])


def test_sizes_in_ranges_are_compiled_for_ahead_at_few_capacities():
    f = graphc.function([x, y], products(), dims="pad")
    f.compile({"n": range(1, 200), "m": range(1, 301)})
    assert len(f.stats().compilations) < 5 * 6 / 2  # the capacities of each
    with graphc.stance("no_compile"):
        for n, m in [(1, 300), (199, 1), (17, 129), (64, 64), (130, 65), (16, 16)]:
            same(f(floats(n), floats(m)), EXACT(floats(n), floats(m)))


def test_forecasts_and_compilations_ahead_know_it():
    f = graphc.function([x, y], products())
    sizes = {"n": [n for n, _ in NEAR], "m": [m for _, m in NEAR]}
    forecast = f.plan.forecast(sizes).compilations
    for n, m in NEAR:
        f(floats(n), floats(m))
    compiled = len(f.stats().compilations)
    assert forecast == compiled
    g = graphc.function([x, y], products())
    g.compile({"n": range(1, 101), "m": range(8, 108)})
    before = len(g.stats().compilations)
    for n, m in NEAR[:-1]:
        same(g(floats(n), floats(m)), EXACT(floats(n), floats(m)))
    assert len(g.stats().compilations) == before == 4
    assert "tied to" in g.explain()


def test_decisions_keep_it(tmp_path):
    f = graphc.function([x, y], products())
    for n, m in NEAR[:3]:
        f(floats(n), floats(m))
    f.decisions.save(tmp_path / "decisions")
    text = (tmp_path / "decisions").read_text()
    assert SavedDecisions.of_text(text) == f.decisions and '"tied"' in text
    g = graphc.function([x, y], products(), decisions=tmp_path / "decisions")
    for n, m in NEAR:
        same(g(floats(n), floats(m)), EXACT(floats(n), floats(m)))
    assert len(g.stats().compilations) == 4


def test_functions_of_jax():
    @graphc.jit
    def attended(q, k):
        return jax.nn.softmax(q @ k.T, axis=-1) @ k

    for n in (8, 3, 12, 20, 31, 50, 64, 8, 100, 3):
        q, k = jnp.ones((n, 2)), jnp.linspace(0, 1, 2 * (n + n // 2)).reshape(-1, 2)
        np.testing.assert_allclose(
            attended(q, k), jax.nn.softmax(q @ k.T, axis=-1) @ k, rtol=1e-5
        )
    assert len(attended.stats().compilations) <= 1 + 5
    assert "tied to the sizes that vary with it" in str(attended.stats())


def test_sizes_of_a_param_come_in_one_order():
    """Otherwise, texts with sizes as arguments would differ between processes."""
    for i in range(16):
        names = f"a{i}", f"b{i}"
        count = gt.tensor("v", "float32", names).size
        graph = Graph((), (count * 1.0,), (), ("count",))
        assert [s.name for s in symbols_of(graph)] == [*names]


def test_lengths_that_do_not_fit_together_take_no_time():
    zeros = gt.sort(gt.zeros(x.shape[0] - y.shape[0]))
    function = graphc.function([x, y], zeros, backend="jax", dims="pad")
    np.testing.assert_array_equal(function(floats(7), floats(4)), np.zeros(3))
