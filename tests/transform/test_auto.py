"""`dims="auto"` never regrets: nothing compiled is lost, and nothing gets worse."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import DeviceCosts
from tests.transform.uncovered import uncovered

x = gt.tensor("x", "float32", ("n",))
y = gt.tensor("y", "float32", ("m",))
k = gt.iscalar("k")


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Pad a size that varies at once, however short compilations are."""
    monkeypatch.setattr(DeviceCosts, "padding", 0.0)


def floats(n):
    return np.linspace(-1, 1, n, dtype="float32")


PROGRAMS = {
    "sum": ([x], lambda: gt.sum(gt.exp(x)), [(5,), (7,), (20,), (9,), (40,)]),
    "two axes": (
        [x, y],
        lambda: gt.sum(x[:, None] * gt.tanh(y), 0),
        [(5, 3), (7, 3), (7, 4), (9, 20), (5, 4), (6, 3)],
    ),
    "an integer": ([x, k], lambda: x[:k] * 2, [(9, 3), (9, 4), (12, 4), (9, 5)]),
    "what it multiplies": (
        [x, k],
        lambda: gt.repeat(x, k),
        [(9, 3), (12, 3), (20, 3), (12, 4), (9, 3)],
    ),
    "a count": ([x], lambda: gt.sort(x[x > 0]), [(5,), (7,), (20,), (8,), (30,)]),
    "several segments": (
        [x, y],
        lambda: [uncovered(x[:, None]), gt.sort(y[y > 0]), gt.cumsum(y)],
        [(4, 3), (5, 4), (4, 9), (6, 3), (6, 4)],
    ),
}


def arguments(inputs, sizes):
    return [floats(n) if v.type.rank else n for v, n in zip(inputs, sizes, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_seen_before_compile_nothing(name):
    """The order of sizes and what was padded in between do not matter."""
    inputs, outputs, calls = PROGRAMS[name]
    f = graphc.function(inputs, outputs(), dims="auto")
    exact = graphc.function(inputs, outputs(), backend="numpy", dims="specialize")
    for sizes in calls:
        f(*arguments(inputs, sizes))
    compiled = len(f.stats().compilations)
    for sizes in [*reversed(calls), *calls]:
        given = arguments(inputs, sizes)
        got, expected = f(*given), exact(*given)
        if not isinstance(got, list):
            got, expected = [got], [expected]
        for a, b in zip(got, expected, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert len(f.stats().compilations) == compiled


@pytest.mark.parametrize("where", ["host", "device", "list"])
def test_a_second_size_is_the_sign(where):
    """The second size is not compiled for alone, whichever way calls go."""
    make = {"host": floats, "device": jax.numpy.ones, "list": lambda n: [1.0] * n}
    f = graphc.function([x], gt.sum(x), dims="auto", casting="same_kind")
    for n in (3, 4, 5, 6, 3, 4):
        given = make[where](n)
        np.testing.assert_allclose(f(given), np.sum(given), atol=1e-6)
    assert len(f.stats().compilations) == 2 and f.stats().calls == 6
    assert f.stats().changes == [
        "n took 2 sizes: padded to 16, 32, 64 ..., from now on, at 1 compilation per "
        "capacity"
    ]


def test_integers_beside_a_size_are_padded_where_it_cannot_be_alone():
    """An array of k * n elements only has a capacity if both k and n have one."""
    f = graphc.function([x, k], gt.repeat(x, k), dims="auto")
    for n in (17, 20, 25, 30):
        np.testing.assert_array_equal(f(floats(n), 3), np.repeat(floats(n), 3))
    assert len(f.stats().compilations) == 2
    assert f.stats().changes == [
        "n took 2 sizes: padded to 32, 64, 128 ...; k beside it: padded to 1, 2, 4 "
        "..., from now on, at 1 compilation per capacity"
    ]


def test_integers_computed_from_a_size_are_padded_with_it():
    x = gt.vector("x", shape=("n",))
    k = gt.floor(gt.sqrt(x.shape[0] * 1.0)).astype("int64")
    f = graphc.function([x], gt.sum(x[:k]))
    for n in (50, 51, 60, 49, 36):
        assert f(np.ones(n, "float32")) == int(n**0.5)
    assert len(f.stats().compilations) == 2


def test_segments_that_padding_makes_one_change_at_the_second_size():
    outputs = [gt.repeat(x, k), gt.arange(x.shape[0] * k)]
    f = graphc.function([x, k], outputs, dims="auto")
    assert len(f.plan.segments) == 2
    for n, m in ((17, 3), (20, 2), (25, 2), (17, 3)):
        got = f(floats(n), m)
        np.testing.assert_array_equal(got[0], np.repeat(floats(n), m))
        np.testing.assert_array_equal(got[1], np.arange(n * m))
    assert len(f.plan.segments) == 1 and len(f.stats().compilations) == 2 + 2


def test_the_length_of_a_bincount_need_not_be_padded():
    v = gt.tensor("v", "int64", ("n",))
    f = graphc.function([v], gt.bincount(v), dims={"n": "pad"})
    assert not f.plan.padded.cuts
    for numbers in ([], [0], [3, 1, 3], [5] * 20):
        given = np.array(numbers, "int64")
        np.testing.assert_array_equal(f(given), np.bincount(given))


def test_an_array_from_which_the_host_tells_a_size_is_none():
    """The host counts its true elements before anything runs, so it is not padded."""
    b = gt.tensor("b", "bool", (4,))
    f = graphc.function([b, x], [gt.nonzero(b)[0], gt.tanh(x)], dims="auto")
    for n in (3, 4, 5, 6):
        np.testing.assert_array_equal(f(np.arange(4) > 1, floats(n))[0], [2, 3])
    assert len(f.stats().compilations) == 2


def test_it_stays_where_padding_takes_more_segments():
    outputs = [uncovered(x[:, None]), gt.cumsum(x)]
    f = graphc.function([x], outputs, dims="auto")
    for n in (3, 4, 5, 6):
        f(floats(n))
    assert f.plan.padded is None and len(f.stats().compilations) == 4


def test_failures_of_an_older_program_name_its_lines():
    positive = gt.assert_(gt.all(x > 0), "not positive", gt.sum(x))
    f = graphc.function([x], positive, dims="auto")
    for n in (3, 4, 5):
        f(np.ones(n, "float32"))
    assert f.stats().changes
    for n in (3, 5):
        with pytest.raises(graphc.CallError, match="not positive") as caught:
            f(-np.ones(n, "float32"))
        assert "test_auto.py" in str(caught.value)
    assert f(np.ones(3, "float32")) == 3


def test_shapes_of_what_is_not_used_compile_nothing():
    f = graphc.function([x, y], gt.sum(y), dims="pad", unused="ignore")
    for n in (3, 50, 400):
        assert f(floats(n), np.ones(5, "float32")) == 5
    assert len(f.stats().compilations) == 1


def test_sizes_of_an_argument_whose_elements_do_not_matter_are_padded():
    f = graphc.function([x, y], gt.sum(y) * x.shape[0], dims="pad")
    for n in (3, 5, 7):
        assert f(floats(n), np.ones(5, "float32")) == 5 * n
    assert len(f.stats().compilations) == 1


def test_a_program_that_is_new_tells_since_when():
    f = graphc.function([x, y], gt.sum(x) * gt.sum(gt.exp(y)))
    for n, m in ((5, 6), (9, 6), (9, 7), (5, 6), (5, 7)):
        f(floats(n), floats(m))
    assert [c.reason for c in f.stats().compilations] == [
        "first call",
        "first call since n took 2 sizes: padded to 16, 32, 64 ...",
        "first call since m took 2 sizes: padded to 16, 32, 64 ..., "
        "shared by axes up to 32768",
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_comes_is_forecast(name):
    """If no size depends on data, it equals the compilations and the waste."""
    inputs, outputs, calls = PROGRAMS[name]
    f = graphc.function(inputs, outputs(), dims="auto")
    given = {
        "n": [sizes[0] for sizes in calls],
        "m": [sizes[-1] for sizes in calls],
        "k": [sizes[-1] for sizes in calls],
    }
    asked = [str(n) for v in inputs for n in v.type.shape or ("k",)]
    told = f.plan.forecast({name: given[name] for name in asked})
    assert told.compilations == sum(told.segments) and told.waste >= 1
    for sizes in calls:
        f(*arguments(inputs, sizes))
    if not told.unknown:
        assert len(f.stats().compilations) == told.compilations


def test_with_two_tiers_the_forecast_is_the_most():
    f = graphc.function([x], gt.sum(gt.exp(x)), dims="auto", tier="auto")
    told = f.plan.forecast({"n": [3, 4, 5, 6, 3, 4]})
    assert (told.compilations, told.segments) == (3, (2, 1)) and told.waste > 2
    for n in (3, 4, 5, 6, 3, 4):
        f(floats(n))
    assert len(f.stats().compilations) <= told.compilations


def test_a_size_that_an_older_program_has_is_compiled_once():
    """That holds even if calls in between ran by plans of the newest program."""
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.nn.softmax(x))
    for n in (5, 40, 5, 70, 40, 5):
        f(np.ones(n, "float32"))
    assert len(f.stats().compilations) == 3


def test_an_axis_is_padded_beside_counts_however_its_first_sizes_differ():
    """Their bound is compared with the counts of the same call."""
    letters = gt.tensor("x", "int32", ("n",))
    new = gt.concatenate([gt.ones(1, "bool"), letters[1:] != letters[:-1]])
    starts = gt.nonzero(new)[0]
    ends = gt.concatenate([starts[1:], gt.stack([letters.shape[0]])])
    f = graphc.function([letters], gt.repeat(letters[starts], ends - starts))
    for size in (40, 900, 50, 60, 70):
        text = np.random.default_rng(size).integers(0, 3, size).astype("int32")
        np.testing.assert_array_equal(f(text), text)
    assert "n_capacity" in f.stats().compilations[-1].sizes
    assert len(f.stats().changes) == 1


def test_capacities_of_counts_start_from_the_least_that_was_counted():
    times = gt.tensor("times", "int32", ("n",))
    f = graphc.function([x, times], gt.repeat(x, times))
    for size in (40, 50, 60):
        repeated = f(floats(size), np.full(size, 2, "int32"))
        np.testing.assert_array_equal(repeated, np.repeat(floats(size), 2))
    sizes = [c.sizes for c in f.stats().compilations]
    assert {s["sum_capacity"] for s in sizes if "sum_capacity" in s} <= {64, 128}
