"""Two programs of one graph: new sizes run on NumPy, and frequent ones are compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import EMISSION, PRIMITIVES
from graphc.runtime.variants import tiering
from graphc.runtime.variants.tiering import LEAST, PRIOR, TRIAL, Costs
from tests.conformance.cases import CASES
from tests.conformance.programs import PROGRAMS
from tests.conformance.runs import CHECKED, planned_calls
from tests.ops.test_samples import share
from tests.transform.uncovered import uncovered


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype("float32")


def matrix():
    return gt.tensor("x", "float32", ("n", 3))


class Clock:
    """A clock by which every call takes `step` seconds."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def tiered(inputs, outputs, step=PRIOR * 0.4, **options):
    """A tiered function; by its clock, the fourth call of the first key compiles."""
    f = graphc.function(inputs, outputs, tier="auto", **options)
    f._programs.tiers.clock = Clock(step)
    return f


@pytest.fixture
def second_is_compiled(monkeypatch):
    """Compile each key that has run on NumPy once."""
    monkeypatch.setattr(Costs, "pays", lambda costs, key: key in costs.visits)


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert type(a) is np.ndarray and a.flags.writeable
        b = np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# The rule.


def test_a_key_is_compiled_when_its_calls_have_cost_a_compilation():
    costs = Costs()
    costs.on_numpy("a", PRIOR * 0.75)
    assert not costs.pays("a")
    costs.on_numpy("a", PRIOR * 0.75)
    assert costs.pays("a") and not costs.pays("b")


def test_the_price_is_the_median_of_the_compilations_seen():
    costs = Costs()
    for key, seconds in zip("abc", (9.0, 2.0, 4.0), strict=True):
        costs.on_numpy(key, 1.0)
        costs.on_jax(key, seconds, True)
    assert costs.price == 4.0
    costs.on_numpy("d", 4.0)
    assert not costs.pays("d")
    costs.on_numpy("d", 0.1)
    assert costs.pays("d")


def test_what_jax_would_have_taken_is_not_lost():
    costs = Costs()
    costs.on_numpy("a", 1.0)
    costs.on_jax("a", 1.0, True)
    for _ in range(TRIAL):
        costs.on_jax("a", 0.25, False)
    costs.on_numpy("b", 1.3)  # of which 0.975 are lost
    assert not costs.pays("b")
    costs.on_numpy("b", 0.1)
    assert costs.pays("b")


def test_a_key_that_is_slower_compiled_goes_back_for_good():
    costs = Costs()
    costs.on_numpy("a", 1.0)
    costs.on_jax("a", 0.1, True)
    for i in range(TRIAL):
        assert costs.pays("a")
        costs.on_jax("a", 1.5 if i else 2.0, False)
    costs.on_numpy("a", 100.0)
    assert not costs.pays("a")
    costs.on_numpy("b", 0.9 * 0.1 / LEAST)  # others are tried all the same
    assert not costs.pays("b")
    costs.on_numpy("b", 0.2 * 0.1 / LEAST)
    assert costs.pays("b")


# Functions.


def test_counts_and_log():
    x = matrix()
    f = tiered([x], gt.mean(x, 0))
    for n in [3, 3, 3, 3, 5, 3]:
        same([f(rows(n))], [rows(n).mean(0)])
    stats = f.stats()
    assert stats.calls == 6 and stats.numpy_calls == 4
    assert [c.sizes for c in stats.compilations] == [{"n": 3}]
    told = ["n = 3: 3 calls took 0.36 s on NumPy, compiled from now on"]
    assert stats.changes == told and told[0] in str(stats)
    assert "6 calls, 1 compilation, 4 calls ran on NumPy" in str(stats)
    f(rows(5)), f(rows(5))  # this compilation took one call's time
    assert [c.sizes["n"] for c in f.stats().compilations] == [3, 5]


def test_a_key_that_goes_back_is_told():
    x = matrix()
    f = tiered([x], gt.mean(x, 0))
    for _ in range(3):
        f(rows(4))
    f._programs.tiers.clock.step *= 2
    for _ in range(TRIAL + 3):
        f(rows(4))
    assert f.stats().numpy_calls == 3 + 2 and len(f.stats().compilations) == 1
    back = "n = 4: back on NumPy, which takes 0.12 s instead of 0.24 s"
    assert f.stats().changes[1:] == [back]


def test_both_programs_can_be_read():
    x = matrix()
    f = tiered([x], gt.mean(x, 0))
    f(rows(4))
    assert "a size runs on NumPy until that has cost as much" in f.explain(full=True)
    assert "0 of 1 keys are compiled, 1 calls ran on NumPy" in f.explain(full=True)
    assert "import jax" in f.source and "import jax" not in f.numpy_source
    plain = [graphc.function([x], gt.mean(x, 0), tier=t) for t in (None, "numpy")]
    assert not plain[0].numpy_source and plain[1].numpy_source == plain[1].source
    assert 'tier "auto"' not in plain[0].explain(full=True)


def test_a_tier_may_be_pinned():
    x = matrix()
    for tier in ("jax", "numpy"):
        f = graphc.function([x], gt.mean(x, 0), tier=tier)
        assert f.backend == tier
        np.testing.assert_allclose(f(rows(4)), rows(4).mean(0), rtol=1e-5)
        assert len(f.stats().compilations) == (tier == "jax")
        assert f.stats().numpy_calls == 0 and "on NumPy" not in str(f.stats())


def test_structures_dtypes_and_owners_are_the_same(second_is_compiled):
    x, y = matrix(), gt.tensor("y", "float64", ("n",))
    outputs = {
        "given": x,
        "more": (x.T, [gt.sum(y), gt.argmax(y)], y[:1] > 0),
        "half": y.astype("bfloat16"),
    }
    f = tiered([x, y], outputs)
    a, b = rows(4), np.arange(4.0)
    for _ in range(3):
        got = f(a, b)
        assert list(got) == ["given", "more", "half"]
        assert type(got["more"]) is tuple and type(got["more"][1]) is list
        transposed, (total, place), found = got["more"]
        same([got["given"], transposed, total], [a, a.T, np.sum(b)])
        same([place, found], [np.argmax(b), b[:1] > 0])
        assert str(got["half"].dtype) == "bfloat16"
        assert transposed.flags.c_contiguous
        got["given"][:] = 0
        assert a.any()
    assert f.stats().numpy_calls == 1 and len(f.stats().compilations) == 1


def test_arrays_of_jax_are_taken_by_both(second_is_compiled):
    x, s = matrix(), gt.scalar("s", "float32")
    f = tiered([x, s], x * s)
    for _ in range(2):
        same([f(jnp.asarray(rows(4)), jnp.float32(2))], [rows(4) * 2])
    assert f.stats().numpy_calls == 1


def test_scalars_are_keys_by_their_kind_and_static_ones_by_their_number():
    x, s, k = matrix(), gt.scalar("s", "float32"), gt.iscalar("k")
    f = tiered([x, s, k], gt.sum(x.reshape((k, -1)), 0) * s)
    calls = [(2.0, 3), (5.0, 3), (np.float32(1), 3), (2.0, 4), (2.0, np.int64(3))]
    for s_value, k_value in calls:
        f(rows(4), s_value, k_value)
    keys = f._programs.tiers.costs.visits
    assert [v.calls for v in keys.values()] == [3, 1, 1]
    f(rows(4), 7.0, 3)
    assert [c.sizes["k_size"] for c in f.stats().compilations] == [3]
    assert f.stats().changes[0].startswith("k = 3, n = 4: 3 calls")


def test_a_traced_call_runs_on_jax():
    x = matrix()
    f = tiered([x], gt.sum(x * x))
    slope = jax.grad(f)(rows(4))
    np.testing.assert_allclose(slope, 2 * rows(4), rtol=1e-6)
    same([np.array(jax.jit(f)(rows(4)))], [np.sum(rows(4) ** 2)])
    assert f.stats().numpy_calls == 0
    f(rows(4))
    assert f.stats().numpy_calls == 1


def test_an_op_that_jax_has_not_runs_in_both(second_is_compiled):
    x, order = gt.tensor("x", "float64", ("n",)), gt.scalar("order", "float64")
    f = tiered([order, x], gt.sum(gt.special.kv(order, x) * 2))
    expected = graphc.function([order, x], f.plan.graph.outputs, backend="numpy")
    a = np.linspace(0.5, 2, 5)
    for _ in range(2):
        same([f(0.3, a)], expected(0.3, a))
    assert f.stats().numpy_calls == 1


# Sizes that vary.


def test_padded_sizes_are_keys_by_their_capacity():
    x, y = matrix(), gt.tensor("y", "float32", ("m + 1",))
    x_dims = {"n": graphc.Pad(minimum=4)}
    f = tiered([x], gt.nn.softmax(x, 0), dims=x_dims)
    exact = graphc.function([x], gt.nn.softmax(x, 0), backend="numpy")
    for n in (1, 2, 3, 4, 4, 7):
        same([f(rows(n))], [exact(rows(n))])
    assert f.stats().numpy_calls == 4 and len(f.stats().compilations) == 1
    assert f.stats().changes[0].startswith("n = 4: 3 calls")
    assert "size n: padded to 4" in f.explain(full=True)
    assert "capacity" not in f.numpy_source
    f = tiered([y], gt.exp(y), dims="specialize")
    for n in (2, 2, 3):
        same([f(np.zeros(n, "float32"))], [np.ones(n, "float32")])
    assert [v.calls for v in f._programs.tiers.costs.visits.values()] == [2, 1]


def test_what_is_compiled_for_true_sizes_has_them_as_keys():
    x = matrix()
    f = tiered([x], uncovered(x), dims=graphc.Pad(minimum=8))
    for n in (3, 4, 5, 6):
        f(rows(n))
    assert [v.calls for v in f._programs.tiers.costs.visits.values()] == [1, 1, 1, 1]


def test_an_integer_input_that_is_padded_is_a_key_by_its_capacity():
    k = gt.iscalar("k")
    f = tiered([k], gt.cumsum(gt.arange(k)), dims={k: graphc.Pad(minimum=4)})
    for n in (3, 4, 1, 2, 5):
        same([f(n)], [np.cumsum(np.arange(n))])
    assert [v.calls for v in f._programs.tiers.costs.visits.values()] == [3, 1]
    assert len(f.stats().compilations) == 1


def test_auto_counts_the_sizes_that_were_compiled():
    x = matrix()
    f = tiered([x], gt.mean(x, 0), step=PRIOR * 2, dims="auto")
    for n in (3, 4, 5, 6, 7, 8, 9):  # once each: nothing is compiled
        f(rows(n))
    assert not f.stats().compilations and f.plan.padded is None
    for n in (3, 4, 4, 5, 5, 10, 11, 12, 13):
        same([f(rows(n))], [rows(n).mean(0)])
    assert [s.name for s in f.plan.padded.policies] == ["n"]
    assert "n took 2 sizes: padded" in str(f.stats())
    assert [c.sizes for c in f.stats().compilations[2:]] == [{"n_capacity": 16}]


# Every kind of graph.


EVERYDAY = [i for i in PROGRAMS if CASES[i].check != "shape"]


@pytest.mark.parametrize("id", share(share(EVERYDAY, turn=0), turn=0))
def test_everyday_programs(id, second_is_compiled):
    case = CASES[id]
    inputs = [gt.tensor(*declared) for declared in case.inputs]
    made = PROGRAMS[id](*inputs)
    outputs = list(made) if isinstance(made, tuple) else [made]
    f = graphc.function(inputs, outputs, check=id in CHECKED, tier="auto")
    for call in planned_calls(case)[:2]:
        for _ in range(2):
            if call.raises:
                with pytest.raises(graphc.GraphError, match=r"programs\.py:"):
                    f(*call.arguments)
                continue
            results = f(*call.arguments)
            for got, wanted in zip(results, call.expected, strict=True):
                wanted = np.asarray(wanted)
                assert got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=case.rtol, atol=case.atol)
            types = [v.dtype for v in f.plan.called.outputs]
            assert [r.dtype for r in results] == types


# Errors.


def messages(f, calls):
    """The messages that calls raise; all must name the same line."""
    found = []
    for args in calls:
        with pytest.raises(graphc.CallError) as caught:
            f(*args)
        found.append(str(caught.value))
    return found


def test_errors_are_those_of_one_tier(second_is_compiled):
    x, y = matrix(), gt.tensor("y", "float32", ("m",))
    k = gt.iscalar("k")
    outputs = gt.sum(x, 1) * y + gt.sum(gt.reshape(x, (k, -1)))
    dims = {"n": graphc.Pad(buckets=(4, 8))}
    good = rows(4), np.ones(4, "float32"), 2
    bad = [
        (rows(4), good[1]),
        (rows(4), good[1], 2, 3),
        (rows(4).astype("float64"), good[1], 2),
        (rows(4), good[1][:3], 2),
        (rows(4)[0], good[1], 2),
        (rows(4)[:, :2], good[1], 2),
        (None, good[1], 2),
        (rows(4), good[1], 2.5),
        (rows(4), good[1], "2"),
        (rows(4), good[1], 5),
        (rows(4), good[1], -1),
        (rows(9), np.ones(9, "float32"), 3),
    ]
    for options in ({}, {"dims": dims}):
        calls = bad if options else bad[:-1]
        one = graphc.function([x, y, k], outputs, **options)
        f = tiered([x, y, k], outputs, **options)
        expected = messages(one, calls)
        assert messages(f, calls) == expected  # on NumPy
        assert f.stats().calls == f.stats().numpy_calls == 0
        f(*good), f(*good)
        assert f.stats().calls == 2 and f.stats().numpy_calls == 1
        assert messages(f, calls) == expected  # compiled, where possible


def drawn_in_a_loop(key):
    def step(total, i):
        return total + gt.random.normal(gt.random.fold_in(key, i)), i

    return gt.scan(step, gt.zeros((), "float32"), gt.arange(3))[0]


@pytest.mark.parametrize("draw", [gt.random.normal, drawn_in_a_loop])
def test_random_draws_would_depend_on_the_tier(draw):
    key = gt.tensor("key", "uint32", (2,))
    with pytest.raises(graphc.GraphError) as caught:
        graphc.function([key], draw(key), tier="auto")
    text = str(caught.value)
    assert 'normal: tier="auto" is impossible: its numbers on NumPy may' in text
    assert 'hint: use tier="jax"' in text and "test_tiering.py" in text


def test_an_op_that_numpy_has_not_is_named(monkeypatch):
    x = matrix()
    monkeypatch.setitem(
        EMISSION["numpy"].reasons, PRIMITIVES["sort"], "it is for devices"
    )
    with pytest.raises(graphc.GraphError, match="cannot run it: it is for devices"):
        graphc.function([x], gt.sort(x, 0), tier="auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tier": "auto", "jit": False}, "there are no tiers without jit"),
        ({"tier": "auto", "backend": "numpy"}, "tier='auto' is not for the backend"),
        ({"tier": "jax", "backend": "numpy"}, "tier='jax' is not for the backend"),
        ({"tier": "fast"}, "tier cannot be 'fast'"),
        ({"tier": True}, "tier cannot be True"),
    ],
)
def test_tiers_that_make_no_sense(options, message):
    x = matrix()
    with pytest.raises(graphc.GraphError) as caught:
        graphc.function([x], gt.mean(x), **options)
    assert message in str(caught.value) and "test_tiering.py" in str(caught.value)


def test_the_prior_is_used_until_a_compilation_was_seen():
    assert Costs().price == tiering.PRIOR
