"""Numbers of parts and of decimals may be integers of NumPy."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt


@pytest.mark.parametrize(
    "cut", [3, np.int64(3), np.array(3), [2, np.int8(3)], (2,), np.array([1, 4])]
)
def test_parts_are_those_of_numpy(cut):
    x = gt.tensor("x", "float32", (6, 2))
    array = np.arange(12, dtype="float32").reshape(6, 2)
    parts = graphc.function([x], gt.split(x, cut), backend="numpy")(array)
    expected = np.split(array, cut)
    assert len(parts) == len(expected)
    for part, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, other)


def test_the_number_of_parts_is_known_when_the_graph_is_built():
    x, n = gt.tensor("x", "float32", (6,)), gt.iscalar("n")
    with pytest.raises(graphc.GraphError, match="split: the number of parts must be"):
        gt.split(x, n)
    with pytest.raises(graphc.GraphError, match="a number of parts must be an integer"):
        gt.split(x, 6 / 2)


@pytest.mark.parametrize("decimals", [2, 0, -1])
def test_decimals_are_integers_of_any_kind(decimals):
    x, array = gt.vector("x"), np.array([12.345, -6.5, 0.005], "float32")
    y = gt.round(x, np.int64(decimals))
    f = graphc.function([x], y, backend="numpy")
    np.testing.assert_allclose(f(array), np.round(array, decimals), rtol=1e-6)
