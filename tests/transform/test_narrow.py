"""Integers that take small parts of long arrays: parts have capacities of their own."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import DeviceCosts
from graphc.transform.policies import Narrow

LONG = 50_000
x = gt.tensor("x", "float64", ("m",))
w = gt.tensor("w", "float64", ("m",))
rows = gt.tensor("rows", "float64", ("m", 2))
k = gt.iscalar("k")

PROGRAMS = {
    "sums": lambda: [gt.sum(x[:k]), gt.mean(x[:k]), gt.linalg.norm(x[:k])],
    "product": lambda: gt.prod(x[:k]),
    "largest": lambda: [gt.max(x[:k], initial=-9.0), gt.nn.logsumexp(x[:k])],
    "any and all": lambda: [gt.any(x[:k] > 2), gt.all(x[:k] < 2)],
    "dot": lambda: gt.dot(x[:k], w[:k]),
    "the last ones": lambda: gt.sum(x[-k:]),
    "some of the middle": lambda: gt.sum(x[3 : 3 + k]),
    "turned": lambda: x[:k][::-1],
    "every second": lambda: gt.cumsum(x[:k:2]),
    "an end of two": lambda: gt.dot(x[k:], w[k:]),
    "products of rows": lambda: rows[:k] @ np.array([[1.0, 2.0], [3.0, 4.0]]),
    "sorted": lambda: gt.sort(x[:k]),
    "written": lambda: gt.sum(x.at[:k].set(gt.exp(w[:k]))),
    "gradient of squares": lambda: graphc.grad(gt.sum(x[:k] ** 2), x),
    "gradient of a logsumexp": lambda: graphc.grad(gt.nn.logsumexp(x[:k]), x),
    "gradient of a dot": lambda: graphc.grad(gt.dot(x[:k], gt.tanh(w[:k])), w),
}
KS = 3, 40, 3, 1, 0, -1, -LONG, LONG - 5, LONG + 7, -LONG - 1


def compiled(output, **options):
    return graphc.function([x, w, rows, k], output, unused="ignore", **options)


def arguments(last=None, size=LONG):
    values = np.random.default_rng(0).normal(size=(4, size))
    if last is not None:
        values[:, last:] = np.nan
    return values[0], values[1], values[2:].T


def outcome(function, arrays, number):
    """The results of a call; None if it raises."""
    try:
        return np.asarray(function(*arrays, number))
    except graphc.CallError:
        return None


def agrees(f, exact, arrays, number):
    expected, result = outcome(exact, arrays, number), outcome(f, arrays, number)
    assert (result is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
@np.errstate(all="ignore")
def test_parts_of_all_sizes(name, monkeypatch):
    # Pad a size that varies at once, however short compilations are.
    monkeypatch.setattr(DeviceCosts, "padding", 0.0)
    f = compiled(PROGRAMS[name]())
    exact = compiled(
        PROGRAMS[name](), backend="numpy", rewrites=graphc.rewrites.none
    )
    arrays = arguments()
    for number in KS:
        agrees(f, exact, arrays, number)
    agrees(f, exact, arguments(last=5), 5)  # NaN after the part spoils nothing
    compiled_for = len(f.stats().compilations)
    for number in KS:
        agrees(f, exact, arrays, number)
    assert len(f.stats().compilations) == compiled_for <= 9


def narrow_program():
    f = compiled(gt.sum(x[:k]))
    for number in (3, 5, 9):
        f(*arguments(), number)
    return f


def test_work_is_that_of_the_part():
    assert "x[:min(m, size_capacity)]" in narrow_program().source


def test_short_arrays_and_large_parts_have_one_capacity():
    for size, first in ((400, 3), (LONG, LONG // 3)):
        f = compiled(gt.sum(x[:k]))
        for number in (first, first + 1, first // 2, 1):
            f(*arguments(size=size), number)
        assert len(f.stats().compilations) == 2


def test_where_the_array_varies_too_there_is_one_capacity_for_both():
    f = narrow_program()
    for size in (LONG - 1, LONG - 2, LONG - 3):
        for number in (1, 3, 100, 4000, LONG - 5):
            arrays = arguments(size=size)
            result = f(*arrays, number)
            np.testing.assert_allclose(result, np.sum(arrays[0][:number]))
    assert len(f.stats().compilations) <= 5


def test_the_policy_is_saved_with_the_other_decisions(tmp_path):
    f = narrow_program()
    f.decisions.save(tmp_path / "decisions.json")
    assert f.decisions.programs[0].policies == {"k": Narrow()}
    again = compiled(gt.sum(x[:k]), decisions=tmp_path / "decisions.json")
    arrays = arguments()
    for number in (2, 7, 16):
        np.testing.assert_allclose(again(*arrays, number), arrays[0][:number].sum())
    assert len(again.stats().compilations) == 1


def test_all_parts_of_a_range_can_be_compiled_ahead():
    f = narrow_program()
    f.compile({"m": LONG, "k": range(1, 300)})
    compiled_for = len(f.stats().compilations)
    arrays = arguments()
    for number in (1, 16, 17, 100, 255, 256, 257, 299):
        np.testing.assert_allclose(f(*arrays, number), arrays[0][:number].sum())
    assert len(f.stats().compilations) == compiled_for
    assert "so are the parts that it cuts" in f.explain()
