"""Reads and writes at step numbers never take padding for elements.

A number that a loop is known to keep within an axis is not clamped to it again.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from graphc.ir.primitives import OP
from tests.transform.dirty import dirty_function

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
LENGTHS = (0, 1, 2, 5)
ZERO = np.float64(0)
x, m = gt.tensor("x", "float64", ("n",)), gt.tensor("m", "float64", ("n", "n"))
k = gt.tensor("k", "int64", ())
n = x.shape[0]


def total(read, first=0):
    return gt.fori_loop(first, n, lambda t, c: c + gt.sum(read(t)), ZERO)


def changed(write, first=0, of=x):
    return gt.fori_loop(first, n, write, of)


READS = {
    "front": total(lambda t: x[gt.arange(t)] * t),
    "front from a later step": total(lambda t: x[gt.arange(t)] * t, 2),
    "front and more": total(lambda t: x[gt.arange(t + 3)]),
    "front of columns": total(lambda t: m[:, gt.arange(t, dtype="int32")]),
    "each": total(lambda t: x[t], 2),
    "one before": total(lambda t: x[t - 1] * t),
    "one behind": total(lambda t: x[t + 1] * t),
    "from the end": total(lambda t: x[-1 - t] * t),
    "backwards": total(lambda t: x[n - 1 - t] * t),
    "in eight bits": total(lambda t: x[t.astype("int8") * 63] * t),
    "once in eight bits": total(lambda t: x[(t.astype("int8") * 63).astype("int64")]),
    "pairs": total(lambda t: m[t, gt.arange(t + 1)]),
}
WRITES = {
    "each": changed(lambda t, y: y.at[t].add(t), 2),
    "one behind": changed(lambda t, y: y.at[t + 1].set(y[t] * 2)),
    "one before": changed(lambda t, y: y.at[t - 1].set(y[t] * 2)),
    "in steps": changed(lambda t, y: y.at[t :: t + 1].set(7)),
    "up to": changed(lambda t, y: y.at[: t : t + 1].multiply(2.5)),
    "backwards": changed(lambda t, y: y.at[t :: -t - 1].max(0.5)),
    "by columns": changed(lambda t, y: y.at[:, t::2].set(0), of=m),
    "where it is asked": changed(
        lambda t, y: gt.where(y[t] > 0, y.at[t::2].set(t), y), 1
    ),
    "where it is not": changed(
        lambda t, y: gt.where(y[t] > 0, y, y.at[1 : t + 1].set(y[t]))
    ),
    "many": changed(lambda t, y: gt.where(y[t] > 0, y.at[t:].set(x[t:] * 2), y)),
    "to either side": x.at[:: k * 2 - 3].set(7),
    "to either side, in rows": m.at[1 :: k * 2 - 3].add(7),
}
PROGRAMS = {f"{name}: read": v for name, v in READS.items()}
PROGRAMS |= {f"{name}: written": v for name, v in WRITES.items()}


def arguments(length):
    rng = np.random.default_rng(length)
    return [rng.normal(size=length), rng.normal(size=(length, length))]


def outputs_of(names):
    found = [PROGRAMS[name] for name in names]
    cost = sum(gt.sum(v**2) for v in found)
    return [*found, *graphc.grad(cost, [x, m], disconnected="zero")]


def compared(names, backend):
    f = dirty_function([x, m, k], outputs_of(names), backend=backend)
    options = {"backend": "numpy", "unused": "ignore"}
    exact = graphc.function([x, m, k], outputs_of(names), **options)
    assert not f.plan.padded.cuts
    for length in LENGTHS:
        given = *arguments(length), 1 + length % 2
        for one, wanted in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_at_true_sizes(name):
    compared([name], "numpy")


@pytest.mark.parametrize("names", [
    ["front: read", "one behind: read", "in eight bits: read"],
    ["one behind: written", "backwards: written", "where it is asked: written"],
])  # fmt: skip
def test_on_jax(names):
    compared(names, "jax")


@pytest.mark.parametrize(
    ("name", "count"), [("each", 0), ("front", 0), ("one behind", 1)]
)
def test_numbers_within_an_axis_are_not_clipped(name, count):
    f = dirty_function([x, m, k], READS[name], backend="numpy")
    inside = [b for v in ancestors(f.plan.graph.outputs) for b in bodies(v)]
    found = [v for b in inside for v in b.nodes if v.primitive is OP.minimum]
    assert len(found) == count


def bodies(node):
    return [call.body for call in node.primitive.body_calls(node)]
