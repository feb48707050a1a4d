"""Logarithms of sums of exponentials, whose gradients are shares of the sum."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.special

import graphc
import graphc.pytensor
from graphc.ir.graph.walk import ancestors

SPECIAL = [
    np.random.default_rng(0).normal(size=(3, 4)),
    np.array([[2.0, 2.0], [1.0, 2.0]]),  # ties
    np.array([[1e3, 1e3], [-np.inf, 0.0]]),
    np.array([[-1e3, -2e3], [0.0, 0.0]]),
    np.array([[-np.inf, -np.inf], [1.0, 2.0]]),
    np.array([[np.nan, 0.0], [1.0, 2.0]]),
]


def ops(graph):
    return {node.primitive.name for node in ancestors(graph.outputs)}


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_gradients_are_shares_and_compare_nothing(axis, keepdims):
    x = pt.dmatrix("x")
    y = pt.sum(pt.logsumexp(x, axis=axis, keepdims=keepdims) ** 2)
    graph = graphc.pytensor.value_and_grad(y, x, [x])
    assert not {"equal", "pinned"} & ops(graph)
    f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
    slope = pytensor.grad(y, x)
    stable = pytensor.function([x], [y, slope], mode=pytensor.Mode("py", "fast_run"))
    for values in SPECIAL:
        ours, theirs = f(values), stable(values)
        total = scipy.special.logsumexp(values, axis=axis, keepdims=True)
        shares = 2 * total * np.exp(values - total)
        lost = np.isnan(theirs[1])  # PyTensor 3 overflows needlessly
        theirs[1] = np.where(lost, shares, theirs[1])
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_are_those_of_scipy(dtype):
    """Of no elements too; and whatever else the exponentials are used for."""
    x = pt.matrix("x", dtype=dtype)
    terms = pt.exp(x)
    columns = pt.log(pt.sum(terms, axis=0, keepdims=True))
    of_all = pt.log(pt.sum(terms))
    f = pytensor.function([x], [columns, of_all, terms], mode="GRAPHC")
    empty = [np.zeros((0, 3)), np.zeros((2, 0))]
    for values in [*SPECIAL, *empty, np.full((2, 2), np.inf)]:
        numbers = values.astype(dtype)
        with np.errstate(all="ignore"):
            sums, total, exponentials = f(numbers)
            expected = scipy.special.logsumexp(numbers, axis=0, keepdims=True)
            whole = scipy.special.logsumexp(numbers) if numbers.size else -np.inf
            powers = np.exp(numbers)
        np.testing.assert_allclose(sums, expected, rtol=1e-6)
        np.testing.assert_allclose(total, whole, rtol=1e-6)
        np.testing.assert_allclose(exponentials, powers, rtol=1e-6)
        assert sums.dtype == total.dtype == dtype


def test_a_sum_that_is_shifted_by_hand_is_not_shifted_again():
    x = pt.dmatrix("x")
    peak = pt.max(x, axis=1, keepdims=True)
    y = peak + pt.log(pt.sum(pt.exp(x - peak), axis=1, keepdims=True))
    graph = graphc.pytensor.convert(y, [x], graphc.pytensor.mode().optimizer.rewrite)
    largest = [n for n in ancestors(graph.outputs) if n.primitive.name == "max"]
    assert len(largest) == 1


def test_a_number_taken_out_that_is_far_from_the_exponents_does_no_harm():
    """It may be the largest of another array, of other elements, or of another row."""
    x, z = pt.dmatrices("xz")
    largest = [
        pt.max(z, axis=1, keepdims=True),
        pt.max(x),
        pt.max(x, axis=0, keepdims=True),
        pt.max(x, axis=1),
    ]
    sums = [pt.log(pt.sum(pt.exp(x - peak), axis=1)) for peak in largest]
    f = pytensor.function([x, z], sums, mode="GRAPHC")
    far = np.array([[2000.0, 0.0], [-3000.0, -3001.0]])
    peaks = [0.0, far.max(), far.max(axis=0), far.max(axis=1)]
    for result, peak in zip(f(far, np.zeros((2, 2))), peaks, strict=True):
        expected = scipy.special.logsumexp(far - peak, axis=1)
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_sums_from_which_something_else_is_taken_stay():
    x, z = pt.dmatrix("x"), pt.dmatrix("z")
    peak = pt.max(z, axis=1, keepdims=True)
    y = pt.sum(peak[:, 0] + pt.log(pt.sum(pt.exp(x - peak), axis=1)))
    graph = graphc.pytensor.value_and_grad(y, [x, z], [x, z])
    f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
    g = pytensor.function([x, z], [y, *pytensor.grad(y, [x, z])], mode="FAST_COMPILE")
    a, b = SPECIAL[0], SPECIAL[0] + 1.0
    for ours, theirs in zip(f(a, b), g(a, b), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
