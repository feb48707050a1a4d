"""Products over the steps of a scan are summed in it, in batches and with softmax."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import default, none
from tests.rewriting.test_hoisting import same, scans

BATCH, WIDTH = 3, 4


def states(x):
    """The states of a recurrent net: (steps, batch, width)."""

    def step(h, row):
        h = gt.tanh(0.5 * h + row)
        return h, h

    return gt.scan(step, gt.zeros((BATCH, WIDTH), x.dtype), x)[1]


def readout(x, w):
    """The product of each example's weights, (batch, 1, steps), and the states."""
    weights = gt.swapaxes(w, 0, 1)[:, None]
    return gt.matmul(weights, gt.swapaxes(states(x), 0, 1))


def along_steps(x, w):
    return gt.vecdot(gt.swapaxes(states(x)[..., 0], 0, 1), gt.swapaxes(w, 0, 1))


def attended(x, w):
    """Attention over all steps, with a bias for each step."""
    ys = states(x)[:, 0]
    return gt.nn.softmax(gt.sum(ys**2, -1) + w[:, 0], 0) @ ys


def attended_in_batches(x, w):
    ys = states(x)
    scores = gt.nn.softmax(gt.sum(ys, -1) * w, 0)
    return gt.matmul(gt.swapaxes(scores, 0, 1)[:, None], gt.swapaxes(ys, 0, 1))


CASES = [readout, along_steps, attended, attended_in_batches]


@pytest.mark.parametrize("build", CASES, ids=lambda f: f.__name__)
def test_values_and_gradients_are_those_without(build):
    x = gt.tensor("x", "float64", ("n", BATCH, WIDTH))
    w = gt.tensor("w", "float64", ("n", BATCH))
    found = build(x, w)
    new = graphc.function([x, w], found, backend="numpy")
    old = graphc.function([x, w], found, backend="numpy", rewrites=none)
    assert scans([found], none) == [[x.type.shape]]
    assert scans([found]) == [[]]
    outputs = graphc.grad(gt.sum(gt.sin(found)), [x, w])
    slopes = [
        graphc.function([x, w], outputs, backend="numpy", rewrites=rules)
        for rules in (default, none)
    ]
    rng = np.random.default_rng(0)
    for n in (7, 1, 0):
        given = [rng.normal(size=(n, *map(int, v.type.shape[1:]))) for v in (x, w)]
        same([new(*given)], [old(*given)])
        same(*[f(*given) for f in slopes])
