"""One policy for all sizes leaves out those an op needs, where padding costs more."""

import numpy as np

import graphc
import graphc.tensor as gt
from tests.transform.uncovered import uncovered

x = gt.tensor("x", "float32", ("n",))
y = gt.tensor("y", "float32", ("m",))


def mixed_up(x, y):
    """An op that needs true sizes, between other ops."""
    return uncovered(x[:, None] * y)


def test_sizes_around_which_arrays_would_be_cut_again_and_again():
    mixed, found = mixed_up(x, y), x
    for _ in range(3):
        found = gt.sum(gt.exp(mixed_up(found, y)), 1)
    outputs = [graphc.grad(gt.sum(found), y), mixed]
    f = graphc.function([x, y], outputs, dims="pad")
    assert f.plan.padded is None and len(f.plan.segments) == 1
    for full in (False, True):
        assert "m, n: not padded, as random.permutation at " in f.explain(full)
    named = graphc.function([x, y], outputs, dims={"n": "pad", "m": "pad"})
    assert len(named.plan.segments) > 3  # as it was asked for
    a, b = np.arange(4, dtype="float32"), np.ones(2, "float32")
    np.testing.assert_allclose(f(a, b)[1].sum(), np.sum(a) * np.sum(b))


def test_what_is_large_beside_the_op_stays_padded():
    found = x
    for _ in range(20):
        found = gt.sin(gt.cumsum(found))
    f = graphc.function([x], uncovered(found[:, None]), dims="pad")
    assert f.plan.padded is not None and f.plan.padded.cuts


def test_other_sizes_stay_padded():
    found = gt.exp(x)[:, None]
    for _ in range(4):
        found = gt.exp(uncovered(found))
    outputs = [gt.sum(found), gt.sum(gt.cumsum(y))]
    f = graphc.function([x, y], outputs, dims="pad")
    assert [s.name for s in f.plan.padded.policies] == ["m"]
