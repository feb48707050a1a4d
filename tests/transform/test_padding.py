"""Policies per dim: padded programs agree with exact ones, and compile less often."""

import re

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import DeviceCosts
from graphc.ir.graph.build import as_size
from graphc.ops.effects.capacities import Capacities, bucketed
from graphc.transform.policies import learned
from tests.conformance.cases import CASES
from tests.conformance.programs import PROGRAMS
from tests.conformance.runs import CHECKED, planned_calls
from tests.ops.test_samples import share
from tests.transform.dirty import clean_function, dirty_function
from tests.transform.uncovered import uncovered

PAD = graphc.Pad(minimum=4, growth=1.5)
LENGTHS = {  # on JAX, two capacities
    "numpy": (0, 1, 2, 3, 4, 5, 6, 7, 12, 13),
    "jax": (0, 1, 3, 4, 5, 6),
}


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype("float32")


def matrix():
    return gt.tensor("x", "float32", ("n", 3))


def both(inputs, outputs, backend="numpy", dims=PAD):
    """The padded program, and the exact one, which needs no compilation."""
    made = graphc.function(inputs, outputs, backend=backend, dims=dims)
    return made, graphc.function(inputs, outputs, backend="numpy")


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def moments(x):
    centred = x - gt.mean(x, 0)
    return [
        gt.sum(x),
        gt.mean(x, 0),
        gt.var(x),
        gt.max(x, initial=-1.0),
        gt.nn.logsumexp(x),
        gt.nn.softmax(x, 0),
        gt.cumsum(x[::-1], 0),
        gt.sort(x, 0),
        centred @ centred.T,
        gt.reshape(x.T, (-1,)),
        gt.concatenate([x[1:], x, x[:2]]),
        x[-1:],
        gt.exp(x).sum(1),
    ]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_results_are_those_of_true_sizes(backend):
    x = matrix()
    f, exact = both([x], moments(x), backend)
    for n in LENGTHS[backend]:
        same(f(rows(n)), exact(rows(n)))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_nothing_in_the_padding_of_arguments_leaks(backend):
    x = matrix()
    f = dirty_function([x], moments(x), backend=backend)
    exact = graphc.function([x], moments(x), backend="numpy")
    for n in LENGTHS[backend]:
        same(f(rows(n)), exact(rows(n)))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_gradients_are_those_of_true_sizes(backend):
    x = matrix()
    loss = gt.sum(gt.log(x**2 + 1) * gt.nn.softmax(x, 0)) + gt.linalg.norm(x)
    outputs = [loss, graphc.grad(loss, x)]
    f, exact = both([x], outputs, backend)
    dirty = dirty_function([x], outputs, backend=backend)
    for n in (1, 2, 5, 9) if backend == "numpy" else (1, 3, 6):
        same(f(rows(n)), exact(rows(n)))
        same(dirty(rows(n)), exact(rows(n)))


def test_a_capacity_is_compiled_once():
    x = matrix()
    f = graphc.function([x], gt.mean(x, 0), dims={"n": graphc.Pad(minimum=4)})
    for n in [3, 4, 1, 5, 8, 7, 2, 16, 15, 9]:
        np.testing.assert_allclose(f(rows(n)), rows(n).mean(0), rtol=1e-5, atol=1e-6)
    told = f.plan.forecast({"n": [3, 4, 1, 5, 8, 7, 2, 16, 15, 9]})
    assert len(f.stats().compilations) == told.compilations == 3
    assert told.waste == pytest.approx(88 / 70) and told.reads == 0
    assert "n_capacity changed from 4 to 8" in f.stats().compilations[1].reason


def test_two_sizes_and_their_product():
    x = gt.tensor("x", "float32", ("n", "m"))
    f, exact = both([x], [gt.reshape(x, (-1,)), x.T @ x, gt.max(gt.reshape(x, (-1,)))])
    for shape in [(1, 1), (3, 5), (7, 2), (4, 4)]:
        a = np.random.default_rng(1).normal(size=shape).astype("float32")
        same(f(a), exact(a))


@pytest.mark.parametrize("shape", [(-1, 1, 3, 2), (3, -1, 6), (1, 3, -1, 1, 3, 2, 1)])
def test_regrouping_sizes_beside_a_padded_axis_moves_nothing(shape):
    x = gt.tensor("x", "float32", (1, 3, "n", 2, 3))
    y = gt.reshape(x, shape)
    outputs = [y, gt.sum(gt.exp(y), tuple(range(y.ndim)))]
    f, exact = both([x], outputs)
    names = [n.primitive.name for s in f.plan.segments for n in s.nodes]
    assert ("gather" in names) == (shape[0] == -1)
    for n in (0, 1, 4, 5):
        a = np.random.default_rng(n).normal(size=(1, 3, n, 2, 3)).astype("float32")
        same(f(a), exact(a))


def test_sizes_that_a_guard_needs_equal_share_a_capacity():
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    f = graphc.function([x, y], gt.sum(x * y), dims={"n": PAD})
    assert not f.plan.padded.cuts
    a = np.arange(5, dtype="float32")
    assert f(a, a) == np.sum(a * a)
    with pytest.raises(graphc.GraphError, match=r"needs n == m; got 5 and 7"):
        f(a, np.zeros(7, "float32"))


def test_a_size_that_must_be_a_number_is_not_padded():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], x * np.ones(3, "float32"), dims="pad", backend="numpy")
    same([f(np.ones(3, "float32"))], [np.ones(3, "float32")])
    with pytest.raises(graphc.GraphError, match="needs n == 3"):
        f(np.ones(4, "float32"))


def test_an_op_without_a_rule_is_compiled_for_each_size_alone():
    x = matrix()
    plain = gt.sum(gt.exp(x) * 2 + gt.sin(x), 1)
    for _ in range(20):
        plain = gt.tanh(plain) + plain
    f, exact = both([x], [plain, uncovered(x)], "jax", dims=graphc.Pad(minimum=8))
    for n in (3, 5, 6, 8):
        same(f(rows(n)), exact(rows(n)))
    counts = [0, 0]
    for c in f.stats().compilations:
        counts[c.segment] += 1
    assert sorted(counts) == [1, 4]
    told = f.explain(full=True)
    assert "random.permutation is computed at true sizes, compiled for each" in told
    assert "size n: padded to 8, 16, 32 ..." in told


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("policy", ["bound", PAD])
def test_counted_sizes(policy, backend):
    x = matrix()
    kept = x[x[:, 0] > 0]
    outputs = [kept, gt.sum(kept, 0), gt.sort(kept[:, 1]), gt.unique(gt.floor(x))]
    f, exact = both([x], outputs, backend, policy)
    for n in (0, 1, 2, 9, 20) if backend == "numpy" else (0, 1, 9):
        same(f(rows(n)), exact(rows(n)))
    if policy == "bound":
        reads = f.plan.forecast({"n": [3]}).reads
        assert reads == 0 and len(f.plan.segments) == 1


def test_a_bound_needs_no_read_and_no_compilation_per_count():
    x = gt.tensor("x", "float32", (50,))
    f = graphc.function([x], gt.sort(x[x > 0]), dims="bound")
    for seed in range(4):
        a = np.random.default_rng(seed).normal(size=50).astype("float32")
        same([f(a)], [np.sort(a[a > 0])])
    assert len(f.stats().compilations) == 1


def test_auto_pads_what_turns_out_to_vary():
    x = gt.tensor("x", "float32", ("n", "m"))
    f = graphc.function([x], [gt.mean(x, 0), gt.sort(x, 0)], dims="auto")
    for n in (3, 4, 5, 6, 7, 8, 30, 17, 2, 50):
        same(f(rows(n)), [rows(n).mean(0), np.sort(rows(n), 0)])
    stats = f.stats()
    assert len(stats.compilations) == 1 + 3 and stats.calls == 10
    assert stats.changes == [
        "n took 2 sizes: padded to 16, 32, 64 ..., from now on, at 1 compilation per "
        "capacity"
    ]
    assert "n took 2 sizes" in str(stats) and "size n: padded" in f.explain(full=True)
    assert [s.name for s in f.plan.padded.policies] == ["n"]


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_auto_weighs_compilations_against_longer_calls(cost, monkeypatch):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sum(x), dims="auto")
    monkeypatch.setattr(DeviceCosts, "padding", cost)
    for n in (3, 4, 5, 6):
        same([f(np.ones(n, "float32"))], [np.float32(n)])
    assert bool(f.stats().changes) is (cost == 0)
    monkeypatch.setattr(DeviceCosts, "padding", 0.0)
    same([f(np.ones(7, "float32"))], [np.float32(7)])
    taken = 2 if cost == 0 else 5
    assert f.stats().changes == [
        f"n took {taken} sizes: padded to 16, 32, 64 ..., from now on, at 1 "
        "compilation per capacity"
    ]


@pytest.mark.parametrize(
    ("limit", "change", "reads"),
    [(0.3, "2 sizes: kept at the largest", 0), (2, "2 sizes: padded", 1)],
)
def test_auto_bounds_a_count_unless_it_is_small(limit, change, reads, monkeypatch):
    monkeypatch.setattr(DeviceCosts, "padding", 0.0)  # however fast it compiles
    x = gt.tensor("x", "float32", (400,))
    f = graphc.function([x], gt.sort(x[x > limit]), dims="auto")
    for seed in range(7):
        a = np.random.default_rng(seed).normal(size=400).astype("float32")
        same([f(a)], [np.sort(a[a > limit])])
    assert len(f.plan.forecast({}).unknown) == reads
    assert f.plan.forecast({}).reads == reads
    (found,) = f.stats().changes
    assert found.startswith(f"count took {change}")


def test_a_count_is_noticed_after_its_axis():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sort(x[x > 0]), dims="auto")
    for seed, n in enumerate([5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8]):
        a = np.random.default_rng(seed).normal(size=n).astype("float32")
        same([f(a)], [np.sort(a[a > 0])])
    names = {s.name for s in f.plan.padded.policies}
    assert names == {"n", "count"}


def test_specializing_for_ever_new_sizes_warns():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sum(x), dims="specialize")
    for n in range(1, 8):
        f(np.ones(n, "float32"))
    with pytest.warns(graphc.RecompilationWarning) as caught:
        f(np.ones(8, "float32"))
    (warning,) = caught
    assert "n took 8 sizes, the last 8: 8 compilations, " in str(warning.message)
    assert "dims={'n': graphc.Pad()}" in str(warning.message)
    assert warning.filename == __file__


def test_auto_leaves_sizes_that_some_op_needs():
    x = matrix()
    f = graphc.function([x], uncovered(x), dims="auto")
    for n in (3, 4, 5, 6):
        assert f(rows(n)).shape == (n, 3)
    assert f.plan.padded is None and not f.stats().changes


def test_programs_without_jit_have_true_sizes(monkeypatch):
    x = matrix()
    with pytest.raises(graphc.GraphError, match="cannot be padded without jit"):
        graphc.function([x], gt.mean(x), jit=False, dims="pad")
    f = graphc.function([x], gt.mean(x, 0), dims="pad")
    same([f.jax_callable(rows(5))], [f(rows(5))])
    monkeypatch.setattr(graphc.config, "dims", "pad")
    f = graphc.function([x], gt.mean(x, 0), jit=False)
    same([f(rows(5))], [rows(5).mean(0)])


def test_an_integer_input_is_rounded_up():
    k = gt.iscalar("k")
    f = graphc.function([k], gt.cumsum(gt.arange(k)), dims={k: PAD})
    for n in (3, 4, 1, 5, 6):
        same([f(n)], [np.cumsum(np.arange(n))])
    assert len(f.stats().compilations) == 2


def test_a_dim_may_be_given_as_the_size_itself():
    x = matrix()
    f = graphc.function([x], gt.mean(x), dims={x.shape[0]: PAD}, backend="numpy")
    assert [s.name for s in f.plan.padded.policies] == ["n"]


def test_every_size_that_is_explained_can_be_given_a_policy():
    """Each has the name it is printed with, even a count or two sizes of one name."""
    x, k = gt.vector("x"), gt.tensor("n", "int64", ())
    y = gt.tensor("y", "float32", ("n",))
    kept = y[y > 0]
    outputs = [gt.sort(x), gt.zeros(k) + gt.sum(y), gt.sort(kept)]
    f = graphc.function([x, y, k], outputs, backend="jax", dims="pad")
    said = f.explain(full=True)
    names = set(re.findall(r"\w+_capacity", said))
    sizes = {name.removesuffix("_capacity") for name in names}
    assert sizes == {"x_0", "n", "n_2"}
    assert "size kept_count: kept at the largest" in said
    for name in (*names, "kept_count"):
        dims = {name: graphc.Pad(multiple=7)}
        made = graphc.function([x, y, k], outputs, backend="jax", dims=dims)
        size = name.removesuffix("_capacity")
        assert f"size {size}: padded to a multiple of 7" in made.explain(full=True)


def test_a_default_for_the_process(monkeypatch):
    monkeypatch.setattr(graphc.config, "dims", "pad")
    x = matrix()
    assert graphc.function([x], gt.mean(x)).plan.padded is not None
    assert graphc.function([x], gt.mean(x), dims="specialize").plan.padded is None


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"m": PAD}, "`dims` names a size that the graph does not have\n  got: m\n"),
        ({"n": "bound"}, "Bound() is for sizes that depend on data, not n"),
        ({"n": 3}, "got: dims={'n': 3}\n"),
        ({"n": 3}, "hint: capacities are dims={'n': graphc.Pad(buckets=[3])}\n"),
        ({"n": [8, 4]}, "dims={'n': graphc.Pad(buckets=[8, 4])}\n"),
        (16, "hint: capacities are dims={'n': graphc.Pad(buckets=[16])}\n"),
        ("padd", "not a policy for sizes; did you mean 'pad'?\n  got: dims='padd'"),
        (graphc.Pad, "hint: graphc.Pad() makes one\n"),
        (graphc.Budget, "hint: graphc.Budget() makes one\n"),
        ("most", "not a policy for sizes\n  got: dims='most'"),
        ({3: PAD}, "expected: one of n\n"),
    ],
)
def test_policies_that_make_no_sense(dims, message):
    x = matrix()
    with pytest.raises(graphc.GraphError) as caught:
        graphc.function([x], gt.mean(x), dims=dims)
    assert message in str(caught.value) and "test_padding.py" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth": 1.0}, "growth must be more than 1"),
        ({"minimum": 0}, "capacities must be at least 1"),
        ({"buckets": (0, 4)}, "capacities must be at least 1"),
        (
            {"buckets": (4,), "multiple": 8},
            "give either buckets or a multiple, not both",
        ),
        ({"buckets": 10}, "must be a list of capacities\n  got: buckets=10\n  hint: "),
    ],
)
def test_capacities_that_make_no_sense(options, message):
    with pytest.raises(graphc.GraphError, match=message) as caught:
        graphc.Pad(**options)
    assert "test_padding.py" in str(caught.value)


def test_no_bucket_has_room():
    x = matrix()
    f = graphc.function([x], gt.mean(x), dims={"n": graphc.Pad(buckets=(8, 4))})
    f(rows(5))
    with pytest.raises(graphc.GraphError, match="no bucket has room for 9") as caught:
        f(rows(9))
    assert "(4, 8)" in str(caught.value) and "x: float32[9, 3]" in str(caught.value)
    assert "hint: list a larger one in buckets, or say" in str(caught.value)
    assert "ValueError" not in str(caught.value) and caught.value.kind == "shape"
    larger = graphc.Pad(buckets=(8, 4), open_ended=True)
    assert graphc.function([x], gt.mean(x), dims={"n": larger})(rows(9)).shape == ()


def test_some_sizes_may_be_left_to_the_calls():
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    counts = {"auto": 2, "auto auto": 2, "auto pad": 2, "auto -": 5, "pad -": 5}
    for words, count in counts.items():
        policies = zip("nm", words.split(), strict=False)
        dims = {name: word for name, word in policies if word != "-"}
        given = dims if len(words) > 4 else words
        f = graphc.function([x, y], gt.mean(x) + gt.sum(y), dims=given)
        for n in (3, 4, 5, 6, 7):
            assert f(np.ones(n, "float32"), np.ones(n + 1, "float32")) == n + 2
        assert len(f.stats().compilations) == count


def test_a_size_that_another_program_rounds_is_still_seen_to_vary():
    """All programs share the size of an axis, but none sees what another does to it."""
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    n = x.shape[0]
    as_size(bucketed(n, Capacities()))
    policies = {"n": "auto", "m": "pad"}
    f = graphc.function([x, y], gt.mean(x) + gt.sum(y), dims=policies)
    for size in (3, 4, 5, 6, 7):
        f(np.ones(size, "float32"), np.ones(2, "float32"))
    assert len(f.stats().compilations) == 2


@pytest.mark.parametrize(
    ("pad", "sizes", "capacities"),
    [
        (graphc.Pad(), [0, 1, 16, 17, 33], [16, 16, 16, 32, 64]),
        (graphc.Pad(growth=1.25, minimum=4), [4, 5, 6, 7, 8], [4, 5, 7, 7, 9]),
        (graphc.Pad(multiple=10), [0, 1, 10, 11], [10, 10, 10, 20]),
        (graphc.Pad(buckets=[7, 3]), [0, 3, 4, 7], [3, 3, 7, 7]),
    ],
)
def test_capacities(pad, sizes, capacities):
    assert [pad.capacity(n) for n in sizes] == capacities


def test_learned_buckets_waste_least():
    rng = np.random.default_rng(0)
    sizes = rng.zipf(1.5, 40).clip(1, 30).tolist()

    def kept(buckets):
        return sum(min(b for b in buckets if b >= n) for n in sizes)

    found = learned(sizes, 3).buckets
    top = max(sizes)
    others = sorted({*sizes} - {top})
    by_hand = [kept((a, b, top)) for a in others for b in others if a < b]
    assert len(found) == 3 and kept(found) == min(by_hand)
    assert learned([5, 5], 3).buckets == (5,)


def test_forecast_tells_what_it_does_not_know():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sort(x[x > 0]), dims="specialize")
    told = f.plan.forecast({"n": [3, 4, 3]})
    assert told.reads == 1 and told.unknown == ("count",) and told.waste == 1
    with pytest.raises(graphc.GraphError, match="m is not a size of the arguments"):
        f.plan.forecast({"n": 3, "m": 4})
    with pytest.raises(graphc.GraphError, match="n is missing"):
        f.plan.forecast({})


def test_forecast_works_numbers_of_steps_out():
    n, a = gt.scalar("n", "int64"), gt.scalar("a")
    slope = graphc.grad(gt.fori_loop(1, n, lambda i, c: c * c * a, a), a)
    f = graphc.function([n, a], slope, dims="specialize")
    told = f.plan.forecast({"n": [0, 1, 2, 2, 5]})
    assert told.segments == (3,) and told.unknown == ()


def test_the_program_runs_without_graphc(tmp_path):
    x = matrix()
    f = graphc.function([x], gt.nn.softmax(x, 0), dims="pad")
    f.save(tmp_path / "model.py")
    text = (tmp_path / "model.py").read_text()
    assert "import graphc" not in text
    space = {}
    exec(compile(text, "model.py", "exec"), space)
    same([space["program"](rows(5))], [f(rows(5))])


POLICIES = {"pad": PAD, "bound": "bound", "auto": "auto"}


EVERYDAY = [i for i in PROGRAMS if CASES[i].check != "shape"]
# Without counts, `bound` has nothing to do, nor has `auto` on NumPy.
COUNTED = [i for i in EVERYDAY if CASES[i].kind in "MD"]
RUNS = [(i, "pad", "numpy") for i in EVERYDAY]
RUNS += [(i, "bound", "numpy") for i in COUNTED]
# At CI size, policies take turns on JAX.
RUNS += [(i, "pad", "jax") for i in share(share(EVERYDAY, turn=1), turn=0)]
RUNS += [(i, "bound", "jax") for i in share(share(COUNTED, turn=0), turn=0)]
RUNS += [(i, "auto", "jax") for i in share(share(COUNTED, turn=1), turn=1)]


@pytest.mark.parametrize(("id", "policy", "backend"), RUNS)
def test_everyday_programs(id, policy, backend):
    case = CASES[id]
    inputs = [gt.tensor(*declared) for declared in case.inputs]
    made = PROGRAMS[id](*inputs)
    f = graphc.function(
        inputs,
        list(made) if isinstance(made, tuple) else [made],
        backend=backend,
        check=id in CHECKED,
        dims=POLICIES[policy],
    )
    for call in planned_calls(case):
        if call.raises:
            with pytest.raises(graphc.GraphError, match=r"programs\.py:"):
                f(*call.arguments)
            continue
        for got, expected in zip(f(*call.arguments), call.expected, strict=True):
            got, expected = np.asarray(got), np.asarray(expected)
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "uint64"])
def test_indices_of_few_bits(dtype):
    """Their range is smaller than the number of elements, and than the capacity."""
    x, at = gt.tensor("x", "float64", ("n",)), gt.tensor("at", dtype, ("m",))
    known = gt.tensor("known", "float64", (300,))
    cost = gt.sum(gt.exp(x[at] * known[at]))
    outputs = [x[at], x.at[at].set(7.0), known.at[at].add(1.0), known[at]]
    outputs += graphc.grad(cost, [x, known])
    inputs, numbers = [x, at, known], np.linspace(-1, 1, 300)
    exact = graphc.function(inputs, outputs, backend="numpy")
    for made in (clean_function, dirty_function):
        f = made(inputs, outputs, backend="numpy")
        assert not f.plan.padded.cuts
        for places in ([0, 3, 126], [], [127] * 5, [2, np.iinfo(dtype).max]):
            given = numbers, np.array(places, dtype), numbers
            same(f(*given), exact(*given))


LIMITS = {"float64": (-np.inf, np.nan), "int8": (-128, 127), "uint8": (0, 255)}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_sorts_last_goes_before_the_padding(side, dtype):
    table, x = gt.tensor("table", dtype, ("n",)), gt.tensor("x", dtype, (3,))
    out = gt.searchsorted(table, x, side=side)
    least, most = LIMITS[dtype]
    for made in (clean_function, dirty_function):
        f = made([table, x], out, backend="numpy")
        for values in ([1, 2, most], [most] * 5, []):
            given = np.array(values, dtype), np.array([most, 2, least], dtype)
            np.testing.assert_array_equal(f(*given), np.searchsorted(*given, side=side))


K = gt.iscalar("k")
LATER = {  # a program, an integer that fits, and one that does not
    "reshape": (lambda x: gt.sum(x.reshape(K, -1), 1), 2, 4),
    "a step": (lambda x: gt.sum(x[::K]), 2, 0),
    "a stated size": (lambda x: gt.sum(gt.specify_shape(x, (K,))), 6, 5),
    "operands": (lambda x: gt.sum(x + gt.arange(K)), 6, 5),
    "a window": (lambda x: gt.sum(gt.sliding_window_view(x, K)), 2, 7),
    "repeats": (lambda x: gt.sum(gt.repeat(x, K)), 2, -1),
}


@pytest.mark.parametrize("name", LATER)
def test_integers_are_checked_at_each_call(name):
    """A call of the same shapes that was right does not turn the check off."""
    build, right, wrong = LATER[name]
    x = gt.vector("x")
    texts = set()
    for dims in ("pad", "specialize"):
        f = graphc.function([x, K], build(x), dims=dims, backend="numpy")
        f(np.ones(6, "float32"), right)
        with pytest.raises(graphc.CallError, match="needs ") as told:
            f(np.ones(6, "float32"), wrong)
        texts.add(str(told.value).partition(" needs ")[0])
    assert len(texts) == 1


@pytest.mark.parametrize("dims", [PAD, graphc.Bound()], ids=["padded", "bound"])
def test_counts_that_differ_are_checked_in_the_program(dims):
    """Either may be the larger one, also in each step of a loop."""
    x = gt.vector("x")
    few, many = [gt.tensor(name, "bool", x.type.shape) for name in ("few", "many")]
    step = lambda c, r: (c + gt.sum(x[x > r] + x[x < r]), None)
    both = [gt.dot(x[few], x[many]), gt.scan(step, gt.sum(x) * 0, x)[0]]
    options = {"dims": dims, "backend": "numpy", "unused": "ignore"}
    product, looped = [graphc.function([x, few, many], y, **options) for y in both]
    array, one = np.arange(5, dtype="float32"), np.arange(5) == 1
    assert product(array, one, one) == 1
    for masks in ((one, ~one), (~one, one)):
        with pytest.raises(graphc.CallError, match="needs "):
            product(array, *masks)
    for function in (looped, graphc.function([x, few, many], x[few] * x, **options)):
        with pytest.raises(graphc.CallError, match="needs "):
            function(array, one | (array == 3), one)
