"""A function may catch errors that NumPy raises too, and so decide by sizes."""

import contextlib
import itertools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.importers.numpy.traced.numpy_errors import _error_of_numpy

KINDS = {
    "reshape": (ValueError, lambda x: x.reshape(3, -1).sum(0)[:2]),
    "product": (ValueError, lambda x: x @ np.ones(6)),
    "sum": (ValueError, lambda x: x + np.ones(6)),
    "one index": (IndexError, lambda x: x[5]),
    "positions": (IndexError, lambda x: np.take(x, [0, 5])),
    "mask": (IndexError, lambda x: x[np.arange(6) > 3]),
    "axis": (np.exceptions.AxisError, lambda x: x.sum(axis=1)),
    "matrix": (np.linalg.LinAlgError, lambda x: np.linalg.inv(x[None])),
    "class": (TypeError, lambda x: x + "a"),
    "maximum": (ValueError, lambda x: np.max(x[5:])),
    "stack": (ValueError, lambda x: np.stack([x, np.ones(6)])),
    "share": (ValueError, lambda x: np.quantile(x, 1.5)),
    "ufunc": (ValueError, lambda x: np.add(x, np.ones(6))),
    "method": (ValueError, lambda x: x.dot(np.ones(6))),
}


def written(x):
    y = x.copy()
    for i in range(8):
        try:
            y[i] += i
        except IndexError:
            break
    with contextlib.suppress(ValueError):
        y[2:6] = np.ones(4)
    return y


def told(x):
    try:
        return x.reshape(2, -1).sum()
    except Exception as error:
        same = type(error) is ValueError and "reshape array of size" in str(error)
        return x.max() * same


def catching(name):
    kind, computes = KINDS[name]

    def function(x):
        try:
            return np.sum(computes(x))
        except kind:
            return x[0] * 2

    return function


FUNCTIONS = {name: catching(name) for name in KINDS} | {"write": written, "told": told}


@pytest.mark.filterwarnings("ignore::graphc.FallbackWarning")
@pytest.mark.parametrize(
    ("name", "dims"), [*zip(FUNCTIONS, itertools.cycle(["auto", "pad"]), strict=False)]
)
def test_each_size_has_the_branch_of_its_error(name, dims):
    ours = graphc.jit(FUNCTIONS[name], frontend="numpy", dims=dims)
    for n in (6, 4, 9, 5):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(ours(x), FUNCTIONS[name](x))


@pytest.mark.parametrize("name", KINDS)
def test_who_catches_none_has_an_error_of_both_classes(name):
    kind, computes = KINDS[name]
    ours = graphc.jit(computes, frontend="numpy")
    with pytest.raises(kind) as caught:
        ours(np.ones(4))
    assert isinstance(caught.value, graphc.GraphError)


def test_an_error_of_data_is_none_that_a_function_catches():
    def function(x):
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return x

    ours = graphc.jit(function, frontend="numpy")
    np.testing.assert_allclose(ours(np.eye(2)), np.eye(2))
    with pytest.raises(graphc.CallError, match="singular"):
        ours(np.zeros((2, 2)))


def test_a_matrix_that_no_stand_in_is_has_no_error():
    """No stand-in is positive definite, but the argument may be."""
    square, tall = (gt.tensor("x", "float64", shape) for shape in [(2, 2), (2, 3)])
    assert _error_of_numpy(np.linalg.cholesky, [square], {}) is None
    assert isinstance(
        _error_of_numpy(np.linalg.cholesky, [tall], {}), np.linalg.LinAlgError
    )


def test_errors_of_floating_point_are_not_asked_for():
    def function(x):
        with np.errstate(divide="raise"):
            return 1 / x

    ours = graphc.jit(function, frontend="numpy")
    with pytest.raises(graphc.GraphError, match="floating-point errors"):
        ours(np.ones(3))
    within = graphc.jit(lambda x: 1 / x, frontend="numpy")
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(within(np.ones(3)), np.ones(3))
