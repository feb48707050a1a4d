"""Ragged examples spread over devices: equal results, and elements shared evenly."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.sharding.spread import spread_examples
from tests.on_devices import on_devices


def elements(order, counts, rows):
    """The number of elements on each device."""
    parts = [order[k : k + rows] for k in range(0, len(order), rows)]
    return [sum(counts[i] for i in part) for part in parts]


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
@pytest.mark.parametrize("missing", [0, 1])
def test_devices_have_about_as_many_elements(devices, missing):
    rng = np.random.default_rng(devices)
    rows = 12
    count = devices * rows - min(missing, devices - 1)
    counts = rng.geometric(0.03, size=count).tolist()
    order = spread_examples(range(count), counts, rows)
    assert sorted(order) == [*range(count)]
    ours, theirs = (elements(o, counts, rows) for o in (order, [*range(count)]))
    assert max(ours) <= max(theirs)
    # Placing the largest first, no device gets more than one example too many.
    assert max(ours) - min(ours) <= max(counts)
    if devices > 1 and not missing:
        assert max(ours) - min(ours) < 0.2 * (max(theirs) - min(theirs))


def test_no_examples():
    assert spread_examples([], [], 0) == [] and spread_examples([0], [3], 4) == [0]


ON_DEVICES = """
import numpy as np
import graphc, graphc.tensor as gt
x, w = gt.tensor("x", "float32", ("n", 2)), gt.tensor("w", "float32", (2,))
loss = gt.mean(gt.tanh(x @ w))
how = dict(shard=graphc.Shard("data"), mesh=graphc.mesh(data=4))
rng = np.random.default_rng(0)
weights = np.float32([1, -1])
for options in ({}, {"batch": 6}, {"group": True}):
    for total in (True, False):
        outputs = [loss, graphc.grad(loss, w)] + [x @ w] * (not total)
        make = lambda **o: graphc.ragged(
            [x, w], outputs, shared=[w], total=total, **options, **o)
        ours, one = make(**how), make()
        for count in (0, 1, 5, 8, 13):
            sizes = rng.integers(1, 20, size=count)
            examples = [rng.normal(size=(n, 2)).astype("float32") for n in sizes]
            for a, b in zip(ours(examples, weights), one(examples, weights)):
                for u, v in zip(a, b, strict=True) if not total else [(a, b)]:
                    np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-6)
        assert "sharded over data, 4 devices" in ours.function.explain()
f = graphc.ragged(lambda w, x: (w * x).sum(), shared=[0], total=True, **how)
g = graphc.ragged(lambda w, x: (w * x).sum(), shared=[0], total=True)
np.testing.assert_allclose(f(2.0, examples), g(2.0, examples), rtol=1e-5)
"""


def test_examples_on_devices_have_the_results_of_one():
    on_devices(4, "-c", ON_DEVICES)


def test_no_shard():
    x = gt.tensor("x", "float32", ("n",))
    with pytest.raises(graphc.GraphError) as caught:
        graphc.ragged([x], gt.sum(x), shard="data")
    assert str(caught.value).splitlines()[:3] == [
        "ragged: shard must give the axis of the mesh that examples are spread over",
        "  got: shard='data'",
        '  hint: shard=graphc.Shard("data"), mesh=graphc.mesh(data=4)',
    ]
    with pytest.raises(graphc.GraphError, match="there is no mesh to shard over"):
        graphc.ragged([x], gt.sum(x), shard=graphc.Shard("data"))
