"""Arrays that compute at once, as suites of the Array API use them."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.ops.eager import Eager, Namespace
from tests.ops.special_cases import ONE, TWO, cases, number

pytestmark = pytest.mark.usefixtures("compiled_quickly")
CASES = cases(ONE) | cases(TWO)
# Here the sign of a zero is not checked: docs/differences.md says where JAX's differs.
UNSIGNED = {"numpy": set(), "jax": {"remainder", "floor_divide"}}


def mismatches(name, found, backend):
    """The special cases in which a function's result is wrong."""
    wrong = []
    for case, y in zip(CASES[name], np.asarray(found).astype("float64"), strict=True):
        wanted = number(case[-1].lstrip("~"))
        same = np.isclose(y, wanted, rtol=1e-6, atol=0, equal_nan=True)
        exempt = name in UNSIGNED[backend] or case[-1].startswith("~")
        if wanted == 0 and found.dtype.kind == "f" and not exempt:
            same &= np.signbit(y) == np.signbit(wanted)
        if not same:
            wrong.append((name, *case, float(y)))
    return wrong


def operands(name, dtype):
    columns = zip(*CASES[name], strict=True)
    return [np.array([number(t.lstrip("~")) for t in c], dtype) for c in columns][:-1]


@pytest.mark.parametrize(
    "backend, dtype, dims",
    [
        ("numpy", "float32", "specialize"),
        ("numpy", "float64", "pad"),
        ("jax", "float32", "pad"),
    ],
)
def test_special_cases_of_elementwise_functions(backend, dtype, dims):
    inputs, outputs, arrays = [], [], []
    for name in CASES:
        given = operands(name, dtype)
        own = [gt.tensor(f"{name}{i}", dtype, (name,)) for i in range(len(given))]
        outputs.append(getattr(gt, name)(*own))
        inputs, arrays = inputs + own, arrays + given
    f = graphc.function(inputs, outputs, backend=backend, dims=dims)
    pairs = zip(CASES, f(*arrays), strict=True)
    assert [w for name, y in pairs for w in mismatches(name, y, backend)] == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_cases_of_constants(dtype):
    """Constant folding gives the same results as computation does."""
    given = [map(gt.asarray, operands(name, dtype)) for name in CASES]
    outputs = [getattr(gt, n)(*own) for n, own in zip(CASES, given, strict=True)]
    found = graphc.function([], outputs, backend="numpy")()
    pairs = zip(CASES, found, strict=True)
    assert [w for name, y in pairs for w in mismatches(name, y, "numpy")] == []


X = np.arange(24.0).reshape(1, 2, 3, 4)
ALL, TWICE, FIRST = slice(None), np.array([0, 0]), np.array([True, False])
KEYS = [
    (),
    0,
    ...,
    (0, -1, 2, -4),
    (..., 1, ALL),
    (None, 0, ..., None),
    (ALL, slice(5, None, -2), slice(-9, 9)),
    (0, 1, slice(0, 0)),
    X > 5,
    (..., X[0, 0, 0] > 1e9),
    (0, X[0] % 2 == 0),
    (ALL, FIRST),
    (ALL, FIRST, 1),
    (..., np.array([True, False, True, True])),
    TWICE,
    (ALL, TWICE, ALL, TWICE),
    (ALL, TWICE, TWICE),
    (ALL, 1, ALL, TWICE),
    (0, [[1], [0]], [0, 2], slice(1, None)),
    (0, 1, np.zeros((0,), "int64")),
    (ALL, TWICE, None, 0),
    # An ellipsis keeps index arrays apart even if it stands for no axis.
    (ALL, TWICE, ..., 1, 0),
    (None, TWICE, ..., 1, 0, 0),
    (ALL, 0, ..., TWICE, slice(1, 3)),
    (ALL, 1, ..., None, TWICE, ALL),
    (ALL, FIRST, ..., 2, 3),
    True,
    (None, np.False_),
]


@pytest.mark.parametrize("place", range(len(KEYS)))
def test_reading_and_writing_by_any_index(place):
    key = KEYS[place]
    wanted = X[key]
    found = Eager(X)[key].array
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)
    for value in (7, np.arange(wanted.size).reshape(wanted.shape) - 9.0):
        expected, ours = X.copy(), Eager(X)
        expected[key] = value
        ours[key] = value
        np.testing.assert_array_equal(ours.array, expected)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_operators_and_functions(backend):
    xp, x = Namespace(backend), Eager(np.array([1.0, 2.0, 3.0], "float32"), backend)
    mask = (x > 1) & ~(x == 2)
    assert mask.array.tolist() == [False, False, True]
    y = xp.where(mask, -x, 2 ** x) @ xp.eye(3)
    assert y.array.tolist() == [2, 4, -3] and y.array.dtype == np.float32
    x[mask] = xp.sum(y)
    assert x.array.tolist() == [1, 2, 3]
    values, counts = xp.unique_counts(xp.asarray([2, 1, 2]))
    assert (values.array.tolist(), counts.array.tolist()) == ([1, 2], [1, 2])
    assert xp.concat([x, x[:1]]).array.tolist() == [1, 2, 3, 1]
    assert x.T.array.shape == (3,) and x.sum().array == 6
