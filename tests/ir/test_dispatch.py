"""NumPy's functions, applied to values, are ours."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

A = np.arange(6, dtype="float32").reshape(2, 3)
PROGRAMS = {
    "ufunc": np.sin,
    "two results": lambda x: np.divmod(x, 2)[1],
    "array on the left": lambda x: A + x,
    "comparison": lambda x: np.float32(2) < x,  # noqa: SIM300
    "matmul": lambda x: A @ x.T,
    "scalar on the left": lambda x: np.float32(2) ** x,
    "function": np.mean,
    "by position": lambda x: np.sum(x, 1, None),
    "by name": lambda x: np.std(x, axis=0, keepdims=True),
    "clip": lambda x: np.clip(x, 1, 3),
    "list": lambda x: np.concatenate([x, A], 1),
    "where": lambda x: np.where(x > 2, x, 0),
    "shape": lambda x: np.reshape(x, (-1,))[: np.shape(x)[0]],
    "rank": lambda x: x + np.ndim(x),
    "size along an axis": lambda x: x + np.size(x, 1),
    "linalg": lambda x: np.linalg.norm(x, axis=0),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "einsum": lambda x: np.einsum("ij,ik->jk", x, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_of_numpy_gives_a_value(name):
    program = PROGRAMS[name]
    x = gt.tensor("x", "float32", ("n", 3))
    y = program(x)
    assert isinstance(y, type(x))
    got = graphc.function([x], y, backend="numpy")(A)
    np.testing.assert_allclose(got, program(A), rtol=1e-6)


def test_every_ufunc_of_numbers_has_its_function():
    ufuncs = [f for f in vars(np).values() if isinstance(f, np.ufunc)]
    missing = {f.__name__ for f in ufuncs if not hasattr(gt, f.__name__)}
    assert missing == {"isnat"}  # of dates only


def test_round():
    x = gt.scalar("x", "float64")
    f = graphc.function([x], [round(x), round(x, 1)], backend="numpy")
    np.testing.assert_array_equal(f(2.55), [np.round(2.55), np.round(2.55, 1)])
