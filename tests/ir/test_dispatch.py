"""NumPy's functions, applied to values, call those of graphc."""

import numpy as np
import pytest
import scipy.special

import graphc
import graphc.tensor as gt
from graphc.ir.config import default_float

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
    assert missing == {"isnat"}  # it concerns only dates


def ufuncs_of_scipy():
    """Yield SciPy's ufuncs with a namesake in graphc that accept arrays as orders."""
    for name, member in vars(scipy.special).items():
        ours = hasattr(gt.special, name) or hasattr(gt, name)
        if isinstance(member, np.ufunc) and ours and name not in ("kn", "yn"):
            yield member


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "bool"])
def test_ufuncs_of_scipy_have_its_dtypes(dtype):
    numbers = np.array([0.3, -0.3, 0, 1, 2.5, 7, -3]).astype(dtype)
    ufuncs = list(ufuncs_of_scipy())
    count = max(f.nin for f in ufuncs)
    arrays = [a.ravel() for a in np.meshgrid(*[numbers[:5]] * count)]
    values = [gt.tensor(f"x{i}", dtype, ("n",)) for i in range(count)]
    with default_float("float64"):
        results = [f(*values[: f.nin]) for f in ufuncs]
    for f, result in zip(
        ufuncs, graphc.function(values, results, backend="numpy")(*arrays), strict=True
    ):
        with np.errstate(all="ignore"):
            expected = f(*arrays[: f.nin])
        assert result.dtype == expected.dtype, f
        rtol = 1e-8 if expected.dtype == "float64" else 1e-5
        np.testing.assert_allclose(result, expected, rtol, 1e-6, err_msg=f.__name__)
    assert len(ufuncs) > 50


def test_ufuncs_of_other_libraries_may_be_called_alike():
    x = gt.vector("x")

    class Ufunc:
        __name__ = "add"

    with pytest.raises(graphc.GraphError, match="add: takes no symbolic values"):
        x.__array_ufunc__(Ufunc(), "__call__", x, x)
    with pytest.raises(graphc.GraphError, match="scipy.special.exp2: ufunc 'exp2' not"):
        scipy.special.exp2(gt.vector("z", "complex128"))


def test_round():
    x = gt.scalar("x", "float64")
    f = graphc.function([x], [round(x), round(x, 1)], backend="numpy")
    np.testing.assert_array_equal(f(2.55), [np.round(2.55), np.round(2.55, 1)])
