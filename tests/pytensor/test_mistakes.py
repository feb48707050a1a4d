"""Users' mistakes raise the same class of error as in PyTensor's own mode.

Where some versions of that mode give a value, ours raises or gives the same value; it
never silently gives another.
"""

import functools

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc.pytensor

x, y, m, j, k = (
    pt.dvector("x"),
    pt.dvector("y"),
    pt.dmatrix("m"),
    pt.lvector("j"),
    pt.lscalar("k"),
)
small = pt.fvector("small")
ONES = np.ones
MISTAKES = {
    "sizes of a sum": ([x, y], x + y, [ONES(2), ONES(3)]),
    "one element": ([x, y], x + y, [ONES(2), ONES(1)]),
    "a product": ([m, x], m @ x, [ONES((2, 3)), ONES(2)]),
    "a new shape": ([x], x.reshape((2, 3)), [ONES(5)]),
    "a size of -1": ([x, k], x.reshape((k, -1)), [ONES(5), 2]),
    "joined": ([m], pt.concatenate([m, m.T], axis=0), [ONES((2, 3))]),
    "stacked": ([x, y], pt.stack([x, y]), [ONES(2), ONES(3)]),
    "a row set": ([m, x], pt.set_subtensor(m[0], x), [ONES((2, 3)), ONES(2)]),
    "an element": ([x, k], x[k], [ONES(3), 5]),
    "elements": ([x, j], x[j], [ONES(3), np.array([0, -4])]),
    "elements of a matrix": ([m, j], m[j, 3], [ONES((2, 3)), np.array([0])]),
    "identity": ([k], pt.eye(k), [-1]),
    "a maximum of nothing": ([x], x.max(), [ONES(0)]),
    "no square": ([m], pt.linalg.inv(m), [ONES((2, 3))]),
    "counts": ([x, j], pt.repeat(x, j), [ONES(2), np.array([1, -1])]),
    "counts of others": ([x, j], pt.repeat(x, j), [ONES(2), np.array([1, 1, 1])]),
    "parts": ([x], pt.split(x, [2, 3], n_splits=2), [ONES(4)]),
    "stated": ([x], pt.specify_shape(x, (3,)), [ONES(2)]),
    "a wider float": ([small], small * 2, [np.array([1.1, 2.2])]),
    "a float for an integer": ([j], j * 2, [np.array([1.5])]),
    "a matrix": ([x], x * 2, [ONES((2, 2))]),
    "a complex number": ([x], x * 2, [np.array([1j])]),
    "a text": ([x], x * 2, ["abc"]),
    "rows of two lengths": ([m], m * 2, [[[1.0, 2.0], [3.0]]]),
    "too few": ([x, y], x + y, [ONES(2)]),
    "too many": ([x], x * 2, [ONES(2), ONES(2)]),
    "not there": ([x], x + y, [ONES(2)]),
}


def outcome(inputs, outputs, arguments, mode):
    """The class of the error, or the result."""
    try:
        return pytensor.function(inputs, outputs, mode=mode)(*arguments)
    except Exception as error:
        return type(error)


@functools.cache
def by_pytensor(name):
    """The outcome in PyTensor's own mode, which takes longest to compile."""
    return outcome(*MISTAKES[name], None)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_the_error_of_pytensor(name, backend):
    theirs = by_pytensor(name)
    ours = outcome(*MISTAKES[name], graphc.pytensor.mode(backend=backend))
    if not isinstance(theirs, type):
        assert isinstance(ours, type) or np.array_equal(ours, theirs)
    elif theirs is pytensor.graph.utils.MissingInputError:
        assert ours is theirs
    else:
        assert issubclass(ours, theirs), (ours, theirs)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (0, 0)])
@pytest.mark.parametrize("mode", ["full", "valid"])
def test_nothing_is_convolved_with_nothing(mode, sizes, backend):
    """`Convolve1d.perform` raises; the code that Numba compiles returns zeros."""
    convolved = pt.signal.convolve1d(x, y, mode=mode)
    ours = graphc.pytensor.mode(backend=backend)
    f = pytensor.function([x, y], convolved, mode=ours)
    with pytest.raises(ValueError, match="convolve: an array is empty"):
        f(*map(ONES, sizes))
    assert f(ONES(2), ONES(2)).tolist() == {"full": [1, 2, 1], "valid": [2]}[mode]
