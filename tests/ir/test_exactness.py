"""Tests whether arithmetic of fixed width is known to compute a formula exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.ir.params.exactness import (
    MOST,
    Range,
    _ranges,
    fits,
    parts_fit,
    saturates,
    wrapped,
)
from graphc.ir.sizes.dims import (
    Size,
    Symbol,
    clip,
    evaluate,
    maximum,
    minimum,
    symbol_dim,
)
from graphc.ir.sizes.polynomials import calls_in
from graphc.ir.types import dtype_of
from tests.ir.test_dims import (
    ASSIGNMENTS,
    SYMBOLS,
    Recipe,
    built,
    index,
    k,
    m,
    n,
    python_value,
    recipes,
)

FOUND = {s: [sizes[s] for sizes in ASSIGNMENTS] for s in SYMBOLS}
WIDTHS = st.tuples(st.integers(-40, 3), st.integers(-3, 40))


def range_of(symbol: Symbol) -> Range:
    """The least and largest value of a symbol in the assignments."""
    return min(FOUND[symbol]), max(FOUND[symbol])


@pytest.mark.parametrize(
    ("size", "exact"),
    [
        (n + 2 * m - 1, (-1, 6)),
        (-n, (-3, 0)),
        (n * index, (-9, 9)),
        (index * index, (-9, 9)),  # factors count as independent
        (minimum(n, index), (-3, 3)),
        (minimum(index, 2), (-3, 2)),
        (maximum(index, m), (0, 3)),
        (clip(index, n), (0, 3)),
        (n // 2, (0, 1)),
        (index // 2, (-2, 1)),
        (n // (m + 1), (0, 3)),
        (n // index, (-3, 3)),
        (index // m, (-3, 3)),
        (n % 3, (0, 2)),
        (index % (m + 1), (0, 2)),
        (n % index, (-2, 2)),
        (5 - 2 * (n % 3), (1, 5)),
    ],
)
def test_the_range_of_a_formula(size: Size, exact: Range) -> None:
    assert _ranges(range_of).of(size) == exact
    assert fits(size, range_of, (-99, 99)) and parts_fit(size, range_of, (-99, 99))
    low, high = exact
    assert not fits(size, range_of, (low + 1, 99))
    assert not fits(size, range_of, (-99, high - 1))


def test_parts_count_though_the_whole_fits() -> None:
    size = minimum(9 * n, 2) + k
    assert fits(size, range_of, (0, 27))
    assert not fits(size, range_of, (0, 26))
    assert not fits(27 * n + k, range_of, (0, 26))


@given(recipes(5), WIDTHS)
@settings(deadline=None, max_examples=40)
def test_no_value_leaves_a_range_that_fits(recipe: Recipe, within: Range) -> None:
    size = built(recipe)
    if not fits(size, range_of, within):
        return
    parts = [size, *(part for call in calls_in(size) for part in call.formulas)]
    for sizes in ASSIGNMENTS[::5]:
        if python_value(recipe, sizes) is not None:
            values = [evaluate(part, sizes) for part in parts]
            assert all(within[0] <= value <= within[1] for value in values)


class Origin:
    """The origin of a symbol: an integer of some dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype_of(dtype)


def integer(dtype: str) -> Size:
    """A size that is an integer scalar of this dtype."""
    return symbol_dim(Symbol("k", origin=Origin(dtype)))


@pytest.mark.parametrize(
    ("size", "dtype", "stays"),
    [
        (integer("int8"), "int8", True),
        (integer("int8") + 1, "int8", False),
        (integer("int8") - 1, "int16", True),
        (integer("uint8"), "uint8", True),
        (integer("uint8") - 1, "uint8", False),
        (integer("uint8"), "int8", False),
        (integer("int64") * 4, "int64", True),
        (integer("uint64") * 4, "uint64", True),
        (symbol_dim(Symbol("k", lower=0, upper=255)), "uint8", True),
        (symbol_dim(Symbol("k", lower=0, upper=256)), "uint8", False),
        (symbol_dim(Symbol("k", lower=-1, upper=255)), "uint8", False),
        (symbol_dim(Symbol("k", lower=0, upper=n)), "uint8", False),
        (symbol_dim(Symbol("k")), "int32", False),
        (symbol_dim(Symbol("k")), "int64", True),
        (n * (2**63 // MOST - 1), "int64", True),
        (n * (2**63 // MOST), "int64", False),
    ],
)
def test_what_stays_within_a_dtype(size: Size, dtype: str, stays: bool) -> None:
    assert (wrapped(size, dtype_of(dtype)) is size) is stays


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, 255, 256, 2**31, 2**64 - 1])
def test_integers_wrap_around_as_those_of_numpy(number: int, dtype: str) -> None:
    bits = np.array(number % 2**64, "uint64").astype(dtype)
    assert wrapped(number, dtype_of(dtype)) == int(bits)


def test_the_bound_of_a_slice_saturates_where_its_axis_may_have_any_size():
    """On an axis of `n + i` it doesn't saturate by `i`: no size is so negative."""
    symbol = index.symbols[0]
    assert saturates(clip(index, n), symbol)
    assert not saturates(n + index - clip(index, n + index), symbol)
