"""A budget of compilations: capacities are chosen for all sizes together."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.transform.policies import Pad
from tests.transform.uncovered import uncovered

x = gt.tensor("x", "float32", ("n",))
y = gt.tensor("y", "float32", ("m",))
k = gt.iscalar("k")


def outer():
    return gt.sum(gt.exp(x)[:, None] * gt.tanh(y)) + gt.sum(gt.arange(k))


def refused(outputs, *, inputs=(x,), **options):
    with pytest.raises(graphc.GraphError) as caught:
        graphc.function(list(inputs), outputs, dims=graphc.Budget(**options))
    return str(caught.value)


def test_all_sizes_together_stay_within_it():
    f = graphc.function([x, y, k], outer(), dims=graphc.Budget(8))
    sizes = np.random.default_rng(0).integers(1, 4096, (25, 3)).tolist()
    for n, m, number in sizes:
        got = f(np.zeros(n, "float32"), np.ones(m, "float32"), number)
        expected = n * m * np.tanh(1) + number * (number - 1) // 2
        np.testing.assert_allclose(got, expected, rtol=1e-4)
    assert len(f.stats().compilations) <= 8
    columns = dict(zip("nmk", map(list, zip(*sizes, strict=True)), strict=True))
    told = f.plan.forecast(columns)
    assert told.compilations == len(f.stats().compilations) and told.unknown == ()
    assert "budget of 8 compilations: at most 8" in f.explain(full=True)


LISTS = st.lists(st.integers(1, 500), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(most=st.integers(2, 20), ns=LISTS, ms=LISTS)
def test_what_is_planned_is_kept(most, ns, ms):
    """All pairs of the listed sizes together take at most the budget."""
    outputs = gt.sum(x) * gt.sum(gt.sort(y))
    budget = graphc.Budget(most, sizes={"n": ns, "m": ms})
    f = graphc.function([x, y], outputs, dims=budget)
    pairs = [(n, m) for n in ns for m in ms]
    told = f.plan.forecast({"n": [n for n, _ in pairs], "m": [m for _, m in pairs]})
    assert told.compilations <= most
    fewer = graphc.function([x, y], outputs, dims=graphc.Budget(1, sizes=budget.sizes))
    assert told.waste <= fewer.plan.forecast({"n": ns[0], "m": ms[0]}).waste + 500


def test_more_compilations_waste_less():
    wastes = []
    for most in (1, 2, 4, 8):
        f = graphc.function([x], gt.mean(x), dims=graphc.Budget(most, largest=1024))
        wastes.append(f.plan.forecast({"n": range(1, 1024)}).waste)
    assert wastes == sorted(wastes, reverse=True) and wastes[-1] < 1.5


def test_a_distribution_of_sizes():
    f = graphc.function([x], gt.mean(x), dims={"n": Pad(buckets=(4, 8))})
    assert f.plan.forecast({"n": {4: 3, 5: 1}}).waste == 20 / 17
    assert f.plan.forecast({"n": {4: 3, 5: 0}}).compilations == 1


def test_a_size_that_does_not_matter_is_accepted():
    f = graphc.function(
        [x, y], gt.sum(x), dims=graphc.Budget(2, sizes={"m": [1]}), unused="ignore"
    )
    assert f(np.ones(3, "float32"), np.ones(2, "float32")) == 3


def test_a_true_size_that_an_op_needs():
    text = refused(uncovered(x[:, None]))
    assert text.startswith(
        "function: a budget of compilations cannot be met: random.permutation needs "
        "the true size n, and is compiled for each one: draws differ in a longer "
        "array\n  hint: leave that op to another function, or give dims= as a "
        "dict of policies\n  at "
    )
    assert "uncovered.py" in text
    sizes = {"n": [16, 20, 16]}
    f = graphc.function([x], uncovered(x[:, None]), dims=graphc.Budget(8, sizes=sizes))
    assert f.plan.forecast(sizes).compilations <= 8


def test_a_size_that_is_computed_is_planned_for():
    """Its own capacities count, too, and grow as fast as the budget requires."""
    sizes = {"k": [1, 2, 3]}
    budget = graphc.Budget(8, sizes=sizes)
    f = graphc.function([x, k], gt.repeat(x, k), dims=budget)
    assert "8 compilations: at most 6 " in f.explain()
    assert f.plan.padded.policies[k.symbol].growth == 4
    text = refused(gt.repeat(x, k), inputs=[x, k], compilations=2, sizes=sizes)
    assert (
        "at least 3, in 1 segment: repeat has the size k*n, at 3 capacities\n  hint: "
        "list the sizes that you expect: Budget(sizes={'k': [...]})\n  at "
    ) in text


@pytest.mark.parametrize(
    "dims", [graphc.Budget(8, largest=64), {"n": Pad(), "k": Pad(buckets=(1, 2, 3))}]
)
def test_a_list_of_capacities_says_nothing_of_computed_sizes(dims):
    f = graphc.function([x, k], gt.repeat(x, k), dims=dims, backend="numpy")
    for n, number in ((17, 3), (2, 1), (60, 3), (0, 2)):
        given = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(f(given, number), np.repeat(given, number))


def test_too_many_segments():
    chosen = x[x > 0]
    budget = {"compilations": 2, "sizes": {"chosen_count": [4, 5, 6]}}
    text = refused(uncovered(chosen[:, None]), **budget)
    assert "budget of 2 compilations cannot be met: the program takes at least" in text
    assert "uncovered.py" in text


@pytest.mark.parametrize(
    "options", [{"compilations": 0}, {"smallest": 9, "largest": 8}, {"smallest": 0}]
)
def test_budgets_that_make_no_sense(options):
    with pytest.raises(graphc.GraphError, match="a budget needs at least") as caught:
        graphc.Budget(**options)
    assert "test_budget.py" in str(caught.value)


def test_a_budget_is_no_policy_of_one_size():
    with pytest.raises(graphc.GraphError, match="a Budget is for all sizes together"):
        graphc.function([x], gt.sum(x), dims={"n": graphc.Budget()})


def test_going_over_it_warns_once_with_a_remedy_that_works():
    x = gt.tensor("x", "float32", ("n",))  # its sum is in no other test's mean
    f = graphc.function([x], gt.sum(x), dims=graphc.Budget(2, largest=64))
    for n in (3, 60):
        f(np.ones(n, "float32"))
    with pytest.warns(graphc.RecompilationWarning) as caught:
        f(np.ones(100, "float32"))
    text = str(caught[0].message)
    assert text.startswith(
        "3 compilations, over the budget of 2\n  the last: n_capacity changed from 64 "
        "to 128, asked for by sum at "
    )
    assert "dims=graphc.Budget(compilations=2, largest=128) takes at most 2" in text
    g = graphc.function([x], gt.sum(x), dims=graphc.Budget(2, largest=128))
    assert g.plan.forecast({"n": range(1, 129)}).compilations == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(np.ones(1000, "float32")) == 1000


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_names_are_those_of_sizes(frontend):
    text = refused(gt.sum(x), sizes={"q": [3]})
    assert "names a size that the graph does not have" in text
    budget = graphc.Budget(sizes={"q": [3]})
    f = graphc.jit(lambda x: x.sum(), dims=budget, frontend=frontend)
    f(np.ones(3))
    told = "names a size that the function does not have"
    with pytest.raises(graphc.GraphError, match=told):
        f(np.ones(4))


def test_sizes_of_integers_and_axes_are_tied():
    """A product has one capacity if its axis has one, and a budget plans with that."""
    f = graphc.function([x, k], gt.repeat(x, k), dims=graphc.Budget(9))
    for n in (5, 16, 40, 90, 300, 1000, 4000):
        a = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(f(a, 3), np.repeat(a, 3))
    assert len(f.stats().compilations) <= 9


def test_sizes_in_a_loop_that_runs_step_by_step():
    """The symbols of the loop's steps have the same capacities as outside of it."""
    z = gt.tensor("z", "int32", ("n",))
    n = z.shape[0]
    step = lambda c: c + gt.bincount(gt.abs(c - z) % n, minlength=n)[:n].astype("int32")
    going = lambda c: gt.max(c) < 9
    outputs = gt.while_loop(going, step, gt.zeros(n, "int32"))
    f = graphc.function([z], outputs, dims=graphc.Budget(8, largest=64))
    exact = graphc.function([z], outputs, dims="specialize", backend="numpy")
    for size in (3, 20, 33, 64, 41):
        numbers = np.arange(size, dtype="int32") % 5
        np.testing.assert_array_equal(f(numbers), exact(numbers))
    assert len(f.stats().compilations) <= 8


def all_halvings():
    going = lambda c: gt.sum(gt.abs(c)) > 1
    kept = gt.while_loop(going, lambda c: (c / 2, c), x, collect=True)
    return gt.sum(gt.abs(kept[1]), axis=1)


def test_what_a_loop_of_unknown_length_keeps():
    budget = graphc.Budget(8, largest=64, sizes={"rows": [40]})
    f = graphc.function([x], all_halvings(), dims=budget)
    for size in (3, 20, 64):
        for scale in (1, 2**20):
            numbers = np.full(size, scale, "float32")
            steps = np.arange(np.ceil(np.log2(size * scale)) or 1)
            np.testing.assert_allclose(f(numbers), size * scale / 2**steps, rtol=1e-5)
    assert len(f.stats().compilations) <= 8
    text = refused(all_halvings(), compilations=2)
    assert "while_loop keeps a row of each step: there are 2 capacities" in text
    assert "list how many you expect: Budget(sizes={'rows': [...]})" in text


def test_a_size_that_never_changes_is_listed():
    w = gt.tensor("w", "float32", ("n", "t"))
    sizes = {"t": [4]}
    both, one = (
        graphc.function([w], gt.sum(w**2), dims=graphc.Budget(8, sizes=found))
        for found in ({}, sizes)
    )
    told = "if n or t is always the same, as 4, list it: sizes={'t': [4]}"
    assert told in both.explain()
    assert "always the same" not in one.explain()
    calls = {"n": [20, 100, 900], "t": 4}
    assert one.plan.forecast(calls).waste < 2 < both.plan.forecast(calls).waste
