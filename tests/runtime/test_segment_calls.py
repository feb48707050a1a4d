"""Numbers that a driver computes from sizes alone are computed once per plan."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from benchmarks.harness import xla_compilations

SIZES = (2, 5, 16, 17, 33, 40, 64)
CAPACITIES = (16, 32, 64)


def shares(n):
    """Numbers that a driver computes from a size."""
    return gt.floor(0.3 * n).astype("int64"), gt.asarray(2) ** n


def part(x):
    k, _ = shares(x.shape[0])
    return gt.sum(x[:k])


def part_and_share(x):
    """A result of the segment, and one that the driver computes."""
    k, _ = shares(x.shape[0])
    return [gt.sum(x[:k]), k + 1]


def several(x):
    k, power = shares(x.shape[0])
    return [x / power, gt.sum(x[k:]), gt.cumsum(x)]


def checked(x):
    k, _ = shares(x.shape[0])
    return gt.sum(x[: gt.assert_(k >= 0, "a share below zero", k)])


def twice(x):
    """One result in two places."""
    total = part(x)
    return [total, total, x]


def checked_after(x):
    """A check of data that runs after the segment."""
    total = part(x)
    return gt.assert_(total < 1e6, "too much", total)


PROGRAMS = [part, part_and_share, several, checked, twice, checked_after]


def leaves_of(results):
    return [np.asarray(r) for r in jax.tree.leaves(results)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_those_of_numpy(program, dtype):
    x = gt.tensor("x", dtype, ("n",))
    f = graphc.function([x], program(x), dims="pad")
    exact = graphc.function([x], program(x), backend="numpy")
    for _ in range(3):
        for n in SIZES:
            array = np.arange(n).astype(dtype)
            pairs = zip(leaves_of(f(array)), leaves_of(exact(array)), strict=True)
            for ours, theirs in pairs:
                assert ours.dtype == theirs.dtype
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert f._routes.plans.calls >= len(SIZES)
    assert f.stats().calls == 3 * len(SIZES)
    assert len(f.stats().compilations) == len(CAPACITIES)


def test_numbers_of_sizes_are_computed_once(monkeypatch):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], part(x), dims="pad")
    assert "np.floor" in f.source
    ones = np.ones(20, "float32")
    floor, calls = np.floor, []
    monkeypatch.setattr(np, "floor", lambda *args: calls.append(args) or floor(*args))
    assert [float(f(ones)) for _ in range(3)] == [6] * 3  # the last call is planned
    before = len(calls)
    assert before
    with xla_compilations() as compiled:
        assert [float(f(ones)) for _ in range(5)] == [6] * 5
    assert (len(calls), len(compiled)) == (before, 0)


def test_a_size_that_a_check_refuses_is_never_planned():
    x = gt.tensor("x", "float32", ("n",))
    share = gt.log2(x.shape[0] - 3.0)
    share = gt.assert_(share >= 2, "too few", share)
    f = graphc.function([x], gt.sum(x) * share, dims="pad")
    for _ in range(3):
        assert float(f(np.ones(19, "float32"))) == 19 * 4
        with pytest.raises(graphc.CallError, match="too few"):
            f(np.ones(5, "float32"))
        assert float(f(np.ones(35, "float32"))) == 35 * 5


def test_integers_of_arguments_are_asked_at_each_call():
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    share = gt.floor(0.5 * k).astype("int64")
    f = graphc.function([x, k], gt.sum(x[:share]), dims="pad")
    for _ in range(3):
        for number in (2, 9, 4, 0):
            assert float(f(np.ones(20, "float32"), number)) == number // 2


def test_functions_of_numpy_compute_their_numbers_once(monkeypatch):
    def function(x):
        return x[: int(0.3 * len(x))].sum() / 2 ** (len(x) // 4)

    f = graphc.jit(function, frontend="numpy", dims="pad")
    arrays = [np.arange(float(n)) for n in SIZES]
    for array in arrays * 3:
        np.testing.assert_allclose(f(array), function(array), rtol=1e-12)
    trunc, calls = np.trunc, []
    monkeypatch.setattr(np, "trunc", lambda *args: calls.append(args) or trunc(*args))
    assert "np.trunc" in f.source
    for array in arrays:
        f(array)
    assert not calls
    assert f.stats().calls == 4 * len(SIZES)


def test_calls_where_jax_looks_for_a_nan_go_by_the_driver():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], part(x), dims="pad")
    array = np.ones(20, "float32")
    for _ in range(3):
        f(array)
    array[0] = np.nan
    assert np.isnan(f(array))
    with jax.debug_nans(True), pytest.raises(graphc.CallError, match="invalid value"):
        f(array)
    with jax.disable_jit():
        assert np.isnan(f(array))
