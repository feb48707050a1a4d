"""Sizes as numbers in padded programs: arithmetic on them does not wrap around."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.backends.sizes import Arithmetic, arithmetic_for
from graphc.ir.sizes import dims
from graphc.ir.sizes.text import expression


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_products_of_sizes_leave_32_bits(backend):
    """Two axes of 70,000 suffice, in sums, functions, bodies and long formulas.

    Numbers beside them leave 32 bits, too.
    """
    x, y = gt.vector("x"), gt.vector("y")
    n, m = x.shape[0], y.shape[0]
    long = 1
    for k in range(9):
        long = gt.maximum(gt.minimum(long * n + k, m * m), n * m - 7 * k)
    outputs = [
        *(gt.sum(x) / (n * m), n * n, n * n - m * m + 1, gt.minimum(n * n // 7, 5 * m)),
        *(n * n % m, gt.fori_loop(0, 2, lambda i, s: s + n * m, 0), long),
        *(gt.mean(x[:, None] * y[:3]), (n * n).astype("float64")),
        *(gt.minimum(n, 2**40), n // 2**40, 2**40 % n, gt.clip(n, 0, 2**63 - 1)),
    ]
    exact = graphc.function([x, y], outputs, backend="numpy")
    padded = graphc.function([x, y], outputs, backend=backend, dims="pad")
    arguments = np.ones(70_000, "float32"), np.ones(70_001, "float32")
    for got, expected in zip(padded(*arguments), exact(*arguments), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_programs_of_32_bits_stay_so_where_nothing_can_wrap():
    x = gt.tensor("x", "float32", ("n", "m"))
    n = x.shape[0]
    outputs = [gt.sum(x) / n, gt.cumsum(x, 0)[: (n + 1) // 2], x[1:].sum() * (n - 1)]
    f = graphc.function([x], outputs, backend="jax", dims="pad")
    assert '"int64"' not in f.source and "jax_enable_x64" not in f.source


SYMBOLS = [dims.fresh_axis(name) for name in "nmk"]
OPERATIONS = [
    *(operator.add, operator.sub, operator.mul, dims.minimum, dims.maximum),
    lambda a, b: a // (b * b + 1),
]
SIZES = st.recursive(
    st.sampled_from([*SYMBOLS, 1, -3, 7, 2**40]),
    lambda parts: st.builds(
        lambda f, a, b: f(a, b), st.sampled_from(OPERATIONS), parts, parts
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(SIZES, st.lists(st.integers(0, 2**30), min_size=3, max_size=3))
def test_arithmetic_of_32_bits_is_chosen_where_it_is_exact(size, numbers):
    """Whatever the sizes, the result is that of Python's integers."""
    if isinstance(size, int):
        return
    sizes = dict(zip([s.symbols[0] for s in SYMBOLS], numbers, strict=True))
    exact = dims.evaluate(size, sizes)
    narrow = {s.name: np.int32(n) for s, n in sizes.items()}
    with np.errstate(all="ignore"):
        for is_narrow in (False, True):
            if arithmetic_for(size, is_narrow) is Arithmetic.TRACED:
                found = eval(expression(size, lambda s: s.name), narrow)
                wrapped = (exact + 2**31) % 2**32 - 2**31 if is_narrow else exact
                assert found == wrapped


def test_positions_that_wrap_around_count_from_the_end_at_true_sizes():
    """Arithmetic of 32 bits wraps around, though sizes bound its results."""
    x, factor = gt.vector("x"), np.int32(100_000)
    counted = gt.arange(x.shape[0])
    i = counted.astype("int32") * factor // factor
    narrowed = (counted * 10_000).astype("int32") // 10_000
    largest = gt.argmax(x).astype("int32") * factor // factor
    each = gt.map(lambda k: x[k * factor // factor], counted.astype("int32"))
    taken = gt.take(x, i, mode="clip")
    outputs = [x[i], x[narrowed], x.at[i].set(7), taken, x[largest], each]
    f = graphc.function([x], outputs, dims="pad")
    exact = graphc.function([x], outputs, backend="numpy", dims="specialize")
    for n in (100, 250_000):
        array = np.arange(n, dtype="float32")
        for a, b in zip(f(array), exact(array), strict=True):
            np.testing.assert_array_equal(a, b)
