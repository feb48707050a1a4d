"""Guessed capacities: one segment, which runs again where a guess was too small."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ops.effects.capacities import doubled, listed
from graphc.ops.effects.guesses import guessing
from graphc.ops.effects.host_calls import HostFunction, host_call
from graphc.transform.planning.guesses import GuessingSegment

x = gt.tensor("x", "int32", ("n",))
w = gt.tensor("w", "float32", ("n",))


def repeated():
    """Each number repeated as often as the data tell, and results of that."""
    return [gt.cumsum(gt.repeat(w, x)), gt.sum(gt.repeat(w, x)) + gt.sum(w)]


def counted():
    return [gt.bincount(x, minlength=3), gt.max(x)]


def of_both():
    """A product with two sizes that are read before anything is stored at either."""
    return gt.outer(gt.bincount(x), gt.bincount(x * 3))


PROGRAMS = {"repeated": repeated, "counted": counted, "of both": of_both}


def arguments(outputs, n, most, seed=0):
    random = np.random.default_rng(seed)
    numbers = random.integers(0, most, n).astype("int32")
    both = [numbers, random.normal(size=n).astype("float32")]
    return both if outputs is repeated else both[:1]


def function(outputs, **options):
    inputs = [x, w] if outputs is repeated else [x]
    return graphc.function(inputs, outputs(), **options)


def same(found, expected):
    parts = [list(r) if isinstance(r, list) else [r] for r in (found, expected)]
    for a, b in zip(*parts, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dims", ["auto", "pad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_true_sizes_however_wrong_a_guess_is(name, dims):
    outputs = PROGRAMS[name]
    f, exact = function(outputs, dims=dims), function(outputs, backend="numpy")
    calls = [(3, 2), (20, 2), (20, 60), (20, 2), (5, 90), (40, 3), (40, 40), (3, 2)]
    for seed, (n, most) in enumerate(calls):
        args = arguments(outputs, n, most, seed)
        same(f(*args), exact(*args))
    (segment,) = f.plan.segments
    assert isinstance(segment, GuessingSegment)
    assert f.plan.reads == len(segment.guesses) == 1 + (name == "of both")
    assert "is guessed: it runs again if that is too small" in f.explain(full=True)
    before = len(f.stats().compilations)
    for seed, (n, most) in enumerate(calls):
        args = arguments(outputs, n, most, seed)
        same(f(*args), exact(*args))
    assert len(f.stats().compilations) == before


def test_a_capacity_that_is_enough_is_compiled_for_once_for_each_of_the_axis():
    f = function(counted, dims="pad")
    for n in (100, 20, 50, 7, 30, 90, 11):
        same(f(*arguments(counted, n, 8)), f(*arguments(counted, n, 8)))
    stored = [(c.sizes["n_capacity"], c.sizes["max_capacity"]) for c in
              f.stats().compilations]  # fmt: skip
    assert stored == [(128, 16), (32, 16), (64, 16), (16, 16)]


def test_checks_are_made_before_there_are_results():
    f = function(repeated, dims="pad")
    assert isinstance(f.plan.segments[0], GuessingSegment)
    with pytest.raises(graphc.CallError, match="repeats must not be negative"):
        f(np.array([-1], "int32"), np.ones(1, "float32"))


def test_sizes_that_are_told_ahead_are_guessed_first():
    f, exact = function(repeated, dims="pad"), function(repeated, backend="numpy")
    f.compile({"n": [30, 60], "sum": [300, 700]})
    stored = [dict(c.sizes) for c in f.stats().compilations]
    assert stored == [
        {"n_capacity": 32, "sum_capacity": 512},
        {"n_capacity": 64, "sum_capacity": 1024},
    ]
    with graphc.stance("no_compile"):
        for n, most in [(20, 30), (60, 2), (33, 30), (20, 30)]:
            args = arguments(repeated, n, most)
            same(f(*args), exact(*args))


def test_an_axis_on_which_the_second_segment_does_not_depend_is_no_reason():
    """One segment for both would be compiled for each pair of the axis and the sum."""
    f = graphc.function([x], gt.cumsum(gt.arange(gt.sum(x))), dims="pad")
    assert len(f.plan.segments) == 2
    assert not any(isinstance(s, GuessingSegment) for s in f.plan.segments)
    for n in (40, 3, 100):
        np.testing.assert_array_equal(f(np.ones(n, "int32")), np.cumsum(np.arange(n)))


def test_what_calls_the_host_is_not_run_again():
    calls = []

    def tell(a):
        calls.append(a.size)
        return [a]

    function = HostFunction("tell", (np.dtype("float32"),), "tell", tell)
    (told,) = host_call(function, [w], [w.type.shape])
    f = graphc.function([x, w], gt.repeat(told, x), dims="pad")
    assert not any(isinstance(s, GuessingSegment) for s in f.plan.segments)
    f(np.full(9, 7, "int32"), np.ones(9, "float32"))
    assert calls == [9]


def test_threads_guess_side_by_side():
    f, exact = function(counted, dims="pad"), function(counted, backend="numpy")
    calls = [arguments(counted, n, most) for n in (5, 20, 40, 90) for most in (3, 99)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda args: f(*args), calls * 4))
    for args, result in zip(calls * 4, results, strict=True):
        same(result, exact(*args))


class Attempts:
    """A stand-in for a segment that needs certain sizes and notes what it gets."""

    def __init__(self):
        self.needs, self.rooms = (1,), []

    def __call__(self, *rooms):
        self.rooms.append(rooms)
        return self.needs, "results"


def run(attempts, guesses, size, *needs):
    attempts.needs = needs
    attempts.rooms.clear()
    shape = np.zeros(size)
    rounding = [lambda n: doubled(n, 16)] * len(needs)
    rooms, results = guessing(guesses, rounding, [shape], (), attempts)
    assert results == "results" and rooms == attempts.rooms[-1]
    assert all(n <= room for n, room in zip(needs, rooms, strict=True))
    return list(attempts.rooms)


def test_guesses_are_what_calls_before_needed():
    attempts, guesses = Attempts(), {}
    assert run(attempts, guesses, 100, 16) == [(16,)]
    assert run(attempts, guesses, 100, 32) == [(16,), (64,)]
    assert run(attempts, guesses, 100, 16) == [(64,)]
    for _ in range(8):
        run(attempts, guesses, 100, 16)
    assert run(attempts, guesses, 100, 16) == [(16,)]
    assert run(attempts, guesses, 100, 512) == [(16,), (512,)]
    assert run(attempts, guesses, 100, 128) == [(512,)]


def test_larger_shapes_are_guessed_to_need_more_where_they_did():
    attempts, guesses = Attempts(), {}
    run(attempts, guesses, 100, 64)
    assert run(attempts, guesses, 200, 128) == [(128,)]
    assert run(attempts, guesses, 400, 512) == [(256,), (512,)]
    assert run(attempts, guesses, 10_000, 12_800) == [(16_384,)]  # the share of 400
    assert run(attempts, guesses, 10, 16) == [(16,)]
    constant = {}
    for size in (100, 200, 400):
        assert run(attempts, constant, size, 16) == [(16,)]


def test_no_capacity_is_more_than_four_times_what_many_calls_needed():
    attempts, guesses = Attempts(), {}
    for _ in range(2):  # repeated needs compile nothing
        run(attempts, guesses, 100, 1024, 16)
        for _ in range(12):
            run(attempts, guesses, 100, 16, 16)
    assert guesses[(), (100,)][0] == [(16, 16), (1024, 16)]
    for _ in range(20):
        run(attempts, guesses, 100, 16, 16)
    assert run(attempts, guesses, 100, 16, 16) == [(16, 16)]
    assert run(attempts, guesses, 100, 16, 64) == [(16, 16), (16, 64)]


def test_shapes_that_need_the_same_are_guessed_to_need_the_most():
    attempts, guesses = Attempts(), {}
    run(attempts, guesses, 100, 256)
    run(attempts, guesses, 1000, 64)
    assert run(attempts, guesses, 10, 128) == [(256,)]
    assert run(attempts, guesses, 10_000, 512) == [(256,), (512,)]


def test_capacities_that_are_listed_are_not_multiplied():
    attempts, guesses = Attempts(), {}
    up = partial(listed, buckets=(16, 32, 48))
    for needs, rooms in [(16, [16]), (32, [16, 32]), (16, [32]), (48, [32, 48])]:
        attempts.needs = (needs,)
        attempts.rooms.clear()
        guessing(guesses, [up], [np.zeros(5)], (), attempts)
        assert attempts.rooms == [(n,) for n in rooms]


STEPS = [(3, 2), (20, 16), (3, 17), (20, 300), (5, 0), (0, 40), (40, 33), (3, 2)]


def collected(k, start):
    """The values collected in a loop's k steps, its end, and the end's gradient."""
    step = lambda c: ((gt.sin(c[0]), c[1] + 1), gt.sum(c[0]))
    end, sums = gt.while_loop(lambda c: c[1] < k, step, (w, start), collect=True)
    return [sums, end[0], graphc.grad(gt.sum(end[0]), w)]


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_loops_of_unknown_length_and_their_gradients_are_one_segment(dims):
    """The number of rows is guessed; if there are more, everything runs again."""
    k = gt.tensor("k", "int64", ())
    outputs = collected(k, gt.zeros((), "int64"))
    f = graphc.function([w, k], outputs, dims=dims)
    exact = graphc.function([w, k], outputs, backend="numpy")
    for seed, (n, steps) in enumerate(STEPS):
        args = [np.random.default_rng(seed).normal(size=n).astype("float32"), steps]
        same(f(*args), exact(*args))
    guessed = [s for s in f.plan.segments if isinstance(s, GuessingSegment)]
    assert len(guessed) == 1 and f.plan.reads == 1
    before = len(f.stats().compilations)
    for n, steps in STEPS:
        f(np.ones(n, "float32"), steps)
    assert len(f.stats().compilations) == before


def test_steps_that_are_told_ahead_are_guessed_first():
    k = gt.tensor("k", "int64", ())
    sums = collected(k, gt.zeros((), "int64"))[0]
    f = graphc.function([w, k], sums, dims="pad")
    f.compile({"n": [20], "k": [3], "steps": [40]})
    with graphc.stance("no_compile"):
        assert f(np.ones(17, "float32"), 33).shape == (33,)


def test_sizes_that_are_told_ahead_are_not_numbers_of_arguments():
    """An argument that came first was once taken for the size."""
    k = gt.tensor("k", "int64", ())
    sums = collected(k, gt.zeros((), "int64"))[0]
    f = graphc.function([k, w], sums, dims="pad")
    f.compile({"n": [20, 20], "k": [3, 3], "steps": [40, 3]})
    assert [c.sizes["steps_capacity"] for c in f.stats().compilations] == [64, 16]


def test_rows_of_a_loop_are_guessed_among_capacities_that_are_listed():
    """No listed capacity is as large as the largest that new shapes would get."""
    k = gt.tensor("k", "int64", ())
    sums = collected(k, gt.zeros((), "int64"))[0]
    f = graphc.function([w, k], sums, dims={"steps": graphc.Pad(buckets=(16, 32))})
    assert [f(np.ones(3, "float32"), n).shape for n in (0, 16, 20)] == [
        (0,),
        (16,),
        (20,),
    ]


def test_loops_that_begin_alike_share_what_stands_before_them():
    """One of them took it into its program, and the other found nothing."""
    start, halved = gt.zeros((), "int64"), lambda c: ((c[0] / 2, c[1] + 1), c[0])
    going = lambda c: c[1] < gt.max(x)
    _, first = gt.while_loop(going, halved, (w, start), collect=True)
    going = lambda c: c[1] < first.shape[0] + 2
    _, second = gt.while_loop(going, halved, (gt.sum(first), start), collect=True)
    for dims in ("specialize", "pad"):
        f = graphc.function([x, w], [gt.sum(first), second], dims=dims)
        sums, halves = f(np.full(4, 2, "int32"), np.ones(4, "float32"))
        same([sums, halves], [np.float32(6), np.float32([6, 3, 1.5, 0.75])])
