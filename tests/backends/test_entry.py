"""The steps of padded programs around their segments."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.backends.entry import with_padding_jax
from graphc.ops.effects.capacities import doubled, geometric

MANY = 2**16 // 4


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex128"])
@pytest.mark.parametrize("shape", [(MANY, 1), (3, MANY), (MANY // 2, 7), (2, 3)])
def test_large_arguments_lie_where_they_are_not_copied(dtype, shape):
    given = np.arange(np.prod(shape)).reshape(shape).astype(dtype)[::-1]
    room = tuple([n + 3 for n in shape])
    found = with_padding_jax(jax, given, room)
    assert found.shape == room and found.dtype == dtype
    np.testing.assert_array_equal(found[: shape[0], : shape[1]], given)
    assert np.count_nonzero(found) == np.count_nonzero(given)
    assert given.nbytes < 4 * MANY or found.ctypes.data % 64 == 0


def test_what_callers_write_later_is_not_seen():
    """Checked for NumPy arrays, small or large, padded or not, next to numbers."""
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", (3,))
    k = gt.tensor("k", "int64", ())
    f = graphc.function([x, y, k], [x * 2 + k, y + k], dims="pad")
    for n in (3, MANY + 1):
        given = np.ones(n, "float32"), np.ones(3, "float32")
        found = f(*given, 1)
        for a in given:
            a[...] = 7
        np.testing.assert_array_equal(found[0], np.full(n, 3))
        np.testing.assert_array_equal(found[1], np.full(3, 2))


@pytest.mark.parametrize("minimum", [1, 2, 3, 16, 100])
def test_capacities_that_double(minimum):
    sizes = [*range(70), *(2**k + i for k in range(7, 20) for i in (-1, 0, 1))]
    wanted = [geometric(n, 2.0, minimum) for n in sizes]
    assert [doubled(n, minimum) for n in sizes] == wanted
    assert doubled(np.int32(17), 16) == 32
