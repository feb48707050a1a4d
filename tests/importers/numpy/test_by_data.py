"""NumPy's results for numbers that are not finite, and options of its functions."""

import numpy as np
import pytest

import graphc
from tests.importers.numpy.test_like_numpy import like_numpy
from tests.newest_numpy import IS_OLD

ENDS = [0.0, 1.0, -np.inf, np.nan]
ALL = np.array([complex(x, y) for x in ENDS for y in ENDS])


def same_parts(results, expected):
    for x, y in zip(np.asarray(results), expected, strict=True):
        np.testing.assert_array_equal([x.real, x.imag], [y.real, y.imag])


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_complex_numbers_are_compared_as_numpy_does(name, backend):
    def compared(x, y):
        return getattr(np, name)(x, y)

    pairs = np.repeat(ALL, len(ALL)), np.tile(ALL, len(ALL))
    ours = graphc.jit(compared, frontend="numpy", backend=backend)
    same_parts(ours(*pairs), compared(*pairs))


@pytest.mark.filterwarnings("ignore")
def test_signs_of_complex_numbers_that_are_infinite():
    ours = graphc.jit(lambda x: np.sign(x), frontend="numpy", backend="jax")
    same_parts(ours(ALL), np.sign(ALL))


@pytest.mark.filterwarnings("ignore")
def test_parts_are_interpolated_each_for_itself():
    ours = graphc.jit(lambda x, y: np.interp(x, [0, 1], y), frontend="numpy")
    at = np.array([-1.0, 0, 0.25, 1, 2])
    for first in ALL:
        ends = np.array([first, 2 + 3j])
        same_parts(ours(at, ends), np.interp(at, [0, 1], ends))


@pytest.mark.parametrize("function", [np.nanargmax, np.nanargmin])
def test_the_place_of_no_number_is_an_error_of_checked_programs(function):
    ours = graphc.jit(lambda x: function(x, 1), frontend="numpy", check=True)
    np.testing.assert_array_equal(ours(np.array([[np.nan, 1], [2, 3]])).shape, (2,))
    with pytest.raises(ValueError, match="All-NaN slice"):
        ours(np.full((2, 2), np.nan))


CALLS = """
np.unpackbits(i, count=11), np.unpackbits(i, count=-3), np.unpackbits(i, count=99)
np.unpackbits(i[None], axis=0, count=3, bitorder="little")
np.unpackbits(i, count=i.size)
np.partition(x, 1, -1, "introselect")
np.bincount(i > 0), np.bincount(i > 0, x), np.unravel_index(x > 0, (2, 2))
np.ravel_multi_index((x > 0, i > 70), (2, 2))
np.einsum("i,i", x, x, dtype="int32", casting="unsafe"), np.einsum("i->", i, dtype=int)
np.einsum(x, [0], x, [0], casting="same_kind", dtype="float32")
np.add.reduceat(x, [])
np.subtract(i.astype("int16"), 1, dtype="uint16", casting="unsafe")
np.sqrt(x + 1j, dtype="complex64", casting="same_kind"), np.add(x, x, casting="no")
np.array_equiv(x[None], x), np.array_equiv(x, x[:3]), np.array_equiv(x, [x, x + 1])
np.poly(x), np.poly(i), np.poly(x.astype("float32")), np.poly(x[:0])
np.sort_complex(x[::-1]), np.sort_complex(i), np.sort_complex(-x + 1j)
np.trim_zeros(np.diag(i)), np.trim_zeros(np.diag(i), "f", axis=1)
np.trim_zeros(i, axis=0)
np.trim_zeros(np.diag(i), "b", axis=(0, -1)), np.trim_zeros(x[:, None] * 0)
np.real_if_close(np.array([1 + 0j])) * x
np.roll(x, i[1], 0), np.roll(x, np.stack([i[1], i[2]]), (0, 0)), np.roll(x, [i[1], 3])
np.roll(x, np.stack([i[1], i[2]]))
"""
REFUSED = """
np.einsum("i,i", x, x, dtype="int32")
np.einsum(x, [0], x, [0], [], dtype="float32")
np.unpackbits(i, bitorder=10)
np.sqrt(i, casting="no")
np.add(x, x, dtype="float32", casting="safe")
np.multiply(i, i, dtype="float32", casting="equiv")
np.pad(x, 2, "mean", stat_length=-1)
np.trim_zeros(x, axis=1)
"""


@pytest.mark.parametrize("call", CALLS.split("\n")[1:-1])
def test_options_are_those_of_numpy(call):
    if IS_OLD and "trim_zeros" in call:
        pytest.skip("NumPy trims one axis alone")
    function = eval(f"lambda x, i: ({call})")
    assert like_numpy(function, np.linspace(-1, 2, 4), np.arange(4, dtype="uint8") * 70)


@pytest.mark.parametrize("call", REFUSED.split("\n")[1:-1])
def test_options_that_numpy_refuses_are_refused(call):
    function = eval(f"lambda x, i: ({call})")
    x, i = np.linspace(-1, 2, 4), np.arange(4, dtype="uint8")
    assert not like_numpy(function, x, i)


@pytest.mark.parametrize(
    "call", ["rot90(x, i[1])", "diff(x, i[1])", "diag(x, i[1])", "roll(x, 1, i[1])"]
)
def test_numbers_that_decide_shapes_may_be_static(call):
    ours = graphc.jit(eval(f"lambda x, i: np.{call}"), frontend="numpy")
    with pytest.raises(graphc.GraphError, match="static argument .*static_argnames"):
        ours(np.ones((2, 3)), np.arange(3))


@pytest.mark.parametrize("call", ["real_if_close", "poly"])
def test_a_dtype_that_data_decide_is_refused(call):
    ours = graphc.jit(lambda x: getattr(np, call)(x), frontend="numpy")
    with pytest.raises(graphc.GraphError, match="which depends on data"):
        ours(np.array([1j, -1j]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_extremes_keep_the_first_number_that_is_nan_in_a_part(axis, backend):
    def extremes(x):
        results = []
        for name in ("max", "min"):
            extreme = getattr(np, name)
            y = extreme(x, axis=axis), extreme(x[:1], axis=axis)
            results += [np.append(*y), extreme(x, axis=axis, initial=2.0).ravel()]
        return results

    ours = graphc.jit(extremes, frontend="numpy", backend=backend, dims="pad")
    for n in (4, 3, 1):
        x = np.resize(np.roll(ALL, n), (n, 3))
        for result, expected in zip(ours(x), extremes(x), strict=True):
            same_parts(result, np.ravel(expected))


X = np.arange(6.0)
OUTSIDE = {
    "insert": (lambda x, i: np.insert(x, i, 9.0), [[7], [-7], [0, -7]]),
    "insert one": (lambda x, i: np.insert(x, i.sum(), 9.0), [[7], [-7]]),
    "delete": (lambda x, i: np.delete(x, i), [[6], [-7], [0, -7]]),
    "delete one": (lambda x, i: np.delete(x, i.sum()), [[6], [-7]]),
    "partition": (lambda x, i: np.partition(x, i)[i], [[6], [-7], [0, -7]]),
    "argpartition": (lambda x, i: np.argpartition(x, i.sum())[i], [[6], [-7]]),
    "fweights": (lambda x, w: np.cov(x, fweights=w), [X + 0.5, -X]),
    "aweights": (lambda x, w: np.cov(x, aweights=w), [-X]),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_data_that_numpy_refuses_is_refused(name):
    function, refused = OUTSIDE[name]
    ours = graphc.jit(function, frontend="numpy")
    for data in ([5], [-6], *refused) if "weights" not in name else (X, *refused):
        array = np.asarray(data)
        if any(data is one for one in refused):
            with pytest.raises(graphc.CallError):
                ours(X, array)
        else:
            np.testing.assert_allclose(ours(X, array), function(X, array))


@pytest.mark.parametrize("name", ["nanpercentile", "nanquantile", "percentile"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 3)])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keepdims", [False, True])
def test_quantiles_of_no_elements(name, shape, axis, keepdims):
    def function(x):
        return getattr(np, name)(x, [0.1, 0.5], axis, keepdims=keepdims)

    assert like_numpy(function, np.ones(shape, "float32")) or name == "percentile"


def test_several_quantiles_of_a_selection_need_an_element():
    ours = graphc.jit(lambda x: np.nanquantile(x[x > 0], [0, 1]), frontend="numpy")
    np.testing.assert_array_equal(ours(np.array([1.0, -2, 3])), [1, 3])
    with pytest.raises(graphc.CallError, match="one result for all shares"):
        ours(np.array([-1.0, -2]))


@pytest.mark.parametrize("function", [np.percentile, np.nanpercentile])
@pytest.mark.parametrize("method", ["higher", "midpoint", "inverted_cdf"])
def test_percentiles_that_are_arguments_are_divided_as_by_numpy(function, method):
    def percentile(x, q):
        return function(x, q, method=method)

    ours = graphc.jit(percentile, frontend="numpy")
    for n in (5, 41, 60):
        x = np.arange(float(n))
        assert ours(x, 70.0) == percentile(x, 70.0)
