"""If one policy pads all sizes, elements counted from data need no read."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.planning.plan import Read

x = gt.tensor("x", "float64", ("n",))
m = gt.tensor("m", "int64", ("n",))
CALLS = [
    np.array([0.4, -1, np.nan, 3, np.inf, 3]),
    -np.ones(3),
    np.ones(1),
    np.ones(0),
    np.arange(-9.0, 4),
]


def outputs(g):
    """A function that graphc or NumPy computes."""

    def function(x):
        kept = x[x > 0]
        edges = g.nonzero(x > 0)[0]
        return kept, g.sort(kept), g.unique(g.round(x)), edges, g.sum(kept)

    return function


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("dims", ["pad", graphc.Pad(strict=True)])
def test_one_segment_compiled_for_capacities(dims):
    f = graphc.function([x], list(outputs(gt)(x)), dims=dims)
    assert len(f.plan.segments) == 1
    assert not any(isinstance(step, Read) for step in f.plan.steps)
    told = f.plan.forecast({"n": [len(given) for given in CALLS]})
    assert not told.unknown
    for given in CALLS:
        for found, wanted in zip(f(given), outputs(np)(given), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert len(f.stats().compilations) == told.compilations == 1


def test_gradients():
    kept = x[x > 0]
    slope = graphc.grad(gt.sum(gt.sin(kept) * gt.cumsum(kept)), x)
    padded, exact = (
        graphc.function([x], slope, dims=dims, backend="numpy")
        for dims in ("pad", "specialize")
    )
    for given in CALLS:
        np.testing.assert_allclose(padded(given), exact(given), rtol=1e-12)


def test_a_policy_of_its_own_and_numbers_without_a_bound_are_read():
    kept = x[x > 0]
    for made, dims in (
        (gt.sort(kept), {"n": "pad", "kept_count": "pad"}),
        (gt.zeros(gt.max(m)) + gt.sum(x), "pad"),
    ):
        f = graphc.function([x, m], made, dims=dims, unused="ignore")
        assert sum(isinstance(step, Read) for step in f.plan.steps) == 1


@pytest.mark.parametrize("count", [7, 0])
def test_rows_are_padded_beside_a_size_that_is_read(count, monkeypatch):
    values = gt.unique(m)
    table = m[:, None] == values
    totals = x @ table.astype("float64")
    f = graphc.function([x, m], [totals, table], dims={"n": "pad"}, backend="numpy")
    assert "true size of n" not in f.explain()
    numbers, labels = np.arange(count, dtype="float64"), np.arange(count) % 3
    expected = labels[:, None] == np.unique(labels)
    for result, right in zip(
        f(numbers, labels), (numbers @ expected, expected), strict=True
    ):
        np.testing.assert_array_equal(result, right)
    monkeypatch.setattr("graphc.ops.common.broadcasting.MOST_ELEMENTS", 40)
    small = graphc.function([m], m[:, None] + gt.unique(m), dims={"n": "pad"})
    with pytest.raises(graphc.CallError, match=r"needs count\*n_capacity <= 40"):
        small(np.arange(8))


def test_a_number_of_repeats_is_padded_beside_an_array_without_elements():
    counts = gt.where(x > 0, 2, 0)
    total = gt.sum(gt.repeat(x, counts))
    dims = {"n": "specialize", "sum": "pad"}
    f = graphc.function([x], total, dims=dims, backend="numpy")
    assert f(np.array([1.0, -1.0])) == 2
    assert f(np.zeros(0)) == 0
