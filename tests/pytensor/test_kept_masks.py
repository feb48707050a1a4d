"""Conditions in PyTensor's gradients compare values that are computed only once."""

import numpy as np
import pytensor
import pytensor.tensor as pt

import graphc.pytensor
from graphc.ir.graph.walk import ancestors


def pinned(output, *inputs):
    """The number of values that are computed only once, whatever reads them."""
    graph = graphc.pytensor.convert([output], list(inputs))
    names = [node.primitive.name for node in ancestors(graph.outputs)]
    return names.count("pinned")


def apart(x):
    """Squared distances, whose diagonal is rounding noise."""
    squares = pt.sum(x**2, 1)
    return squares[:, None] + squares[None, :] - 2 * x @ x.T


def test_gradients_mask_by_values_that_are_computed_once():
    x = pt.dmatrix("x")
    rows = apart(x)
    distance = pt.sqrt(pt.clip(rows, 0, np.inf) + 1e-12)
    assert pinned(pytensor.grad(pt.sum(distance), x), x) == 1
    assert pinned(pt.switch(pt.gt(rows, 0), rows, 0.0), x) == 1
    assert pinned(rows * pt.gt(rows, 0), x) == 1


def test_others_compare_what_there_is():
    x = pt.dmatrix("x")
    rows = apart(x)
    assert pinned(pt.switch(pt.gt(x, 0), rows[:, :2], 0.0), x) == 0
    assert pinned(pt.switch(pt.gt(rows, 0), rows, -np.inf), x) == 0
