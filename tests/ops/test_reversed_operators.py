"""Python numbers on the left of an operator behave as in NumPy, on both backends."""

import operator

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

OPERATORS = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "divmod": lambda a, b: divmod(a, b)[1],
}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_number_comes_first(name, backend):
    x = gt.tensor("x", "int32", "n")
    array = np.array([1, 5, 3, 2], "int32")
    function = graphc.function([x], OPERATORS[name](7, x), backend=backend)
    result = function(array)
    expected = OPERATORS[name](7, array)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == expected.dtype
