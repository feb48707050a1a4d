"""Integer powers of integers wrap as in NumPy, however large the exponent is."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.ops.test_comparisons import DTYPES


def numbers(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.array([limits.min, 0, 1, 2, 3, 7, limits.max - 1, limits.max], dtype)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("dtype", "dims"),  # of each number of bits, one dtype with either policy
    [(d, ("specialize", "pad")[(i + i // 4) % 2]) for i, d in enumerate(DTYPES)],
)
def test_exponents_may_have_all_bits(dtype, dims):
    base = numbers(dtype)
    exponents = np.array([0, 1, 5, 63, 64, 65, 100, np.iinfo(dtype).max], dtype)
    x, y = gt.tensor("x", dtype, (8,)), gt.tensor("y", dtype, ("m",))
    literals = [3, 63, 64, 100, exponents]
    outputs = [x[:, None] ** y, x ** y[6], *(x**k for k in literals), 3**y]
    f = graphc.function([x, y], outputs, backend="jax", dims=dims)
    of_numpy = [base[:, None] ** exponents, base ** exponents[6]]
    of_numpy += [base ** np.asarray(k, dtype) for k in literals] + [3**exponents]
    for power, expected in zip(f(base, exponents), of_numpy, strict=True):
        assert power.dtype == expected.dtype
        np.testing.assert_array_equal(power, expected)


def test_large_exponents_in_a_batch_and_a_loop():
    x, y = gt.tensor("x", "int32", ("n", 3)), gt.tensor("y", "int32", ("n", 3))
    each = graphc.vmap(lambda a, b: a**b)(x, y)
    last, _ = gt.scan(lambda c, row: (c * 3 + row**70, c), gt.ones(3, "int32"), x)
    f = graphc.function([x, y], [each, last], backend="jax")
    for n in (1, 4):
        base = np.arange(3 * n, dtype="int32").reshape(n, 3)
        exponents = (base * 31)[::-1].copy()
        carry = np.ones(3, "int32")
        for row in base:
            carry = carry * 3 + row ** np.int32(70)
        powers, carried = f(base, exponents)
        np.testing.assert_array_equal(powers, base**exponents)
        np.testing.assert_array_equal(carried, carry)
