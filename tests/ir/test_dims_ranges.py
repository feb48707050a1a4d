"""The least and largest values of sizes, as formulas of the ranges of their symbols."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.ir.sizes.dims import (
    Size,
    Symbol,
    clip,
    equal,
    evaluate,
    maximum,
    minimum,
    symbol_dim,
)
from graphc.ir.sizes.ranges import (
    UNKNOWN,
    SizeRange,
    SizeRanges,
    largest,
    range_between,
    range_of_sum,
)
from tests.ir.test_dims import (
    ASSIGNMENTS,
    DIMS,
    Recipe,
    built,
    index,
    m,
    n,
    python_value,
    recipes,
)

CAPACITIES = {d.symbols[0]: Symbol(f"{d}_most", lower=1) for d in DIMS}


def range_of(symbol: Symbol) -> SizeRange:
    """The range from a symbol's lower bound up to its capacity."""
    return SizeRange(symbol.lower, symbol_dim(CAPACITIES[symbol]))


def of_m_fixed(symbol: Symbol) -> SizeRange:
    """Like `range_of`, but `m` does not vary."""
    return SizeRange(m, m) if symbol is m.symbols[0] else range_of(symbol)


N, M, INDEX = (symbol_dim(CAPACITIES[d.symbols[0]]) for d in (n, m, index))


@pytest.mark.parametrize(
    ("size", "most"),
    [
        (clip(index, n), N),
        (n - clip(index, n), N),
        (maximum(0, clip(index, n) - clip(-index, n)), N),
        (clip(m, n), minimum(M, N)),
        (minimum(index, n), minimum(INDEX, N)),
        (maximum(index, n), maximum(INDEX, N)),
        (n * m - n, N * M),
        (n * index, None),
        (n // (m + 1), N),
        (n // m, None),
        (-n, 0),
        (-index, None),
        (7 - clip(m, n), 7),
        (7 - clip(index, n), 7),
        (7 - minimum(n, m + 2), 7),
        (7 - maximum(n, 2), 5),
        (7 - n // (m + 1), 7),
        (7 - (n + 3) * (m + 2), 1),
        (n // 3, N // 3),
        (index // 3, INDEX // 3),
        (n * (index // 3), None),
        (7, 7),
    ],
)
def test_largest(size: Size, most: Size | None) -> None:
    found = largest(size, range_of)
    assert found is most if most is None else equal(found, most)


def test_sums_of_ranges() -> None:
    assert range_of_sum(SizeRange(1, 3), SizeRange(2, 5)) == (3, 8)
    assert range_of_sum(SizeRange(1, 3), SizeRange(2, 5), -2) == (-9, -1)
    assert range_of_sum(SizeRange(1, None), SizeRange(None, 5), -1) == (-4, None)


@pytest.mark.parametrize("factor", [1, -2])
def test_sums_of_ranges_without_an_end(factor: int) -> None:
    """The sum has no end there either; the sign of the factor decides which end."""
    ends = [(1, 3), (1, None), (None, 3), (None, None)]
    for (low, high), of_other in itertools.product(ends, repeat=2):
        found = range_of_sum(SizeRange(low, high), SizeRange(*of_other), factor)
        ordered = of_other if factor > 0 else of_other[::-1]
        pairs = zip((low, high), ordered, strict=True)
        assert found == tuple(
            None if a is None or b is None else a + factor * b for a, b in pairs
        )


def test_what_does_not_vary_is_kept() -> None:
    assert equal(largest(n - m, of_m_fixed), N - m)
    assert equal(largest(clip(m - 2, n), of_m_fixed), clip(m - 2, N))


def test_nothing_is_known_of_symbols_without_a_range() -> None:
    assert largest(n + m, lambda symbol: UNKNOWN) is None
    assert largest(clip(index, n), lambda symbol: UNKNOWN) is None
    no_index = lambda s: UNKNOWN if s is index.symbols[0] else range_of(s)  # noqa: E731
    assert equal(largest(clip(index, n), no_index), N)


def from_minus_1(symbol: Symbol) -> SizeRange:
    """Like `range_of`, but the index, which may be negative, is at least -1."""
    low = -1 if symbol is index.symbols[0] else symbol.lower
    return SizeRange(low, symbol_dim(CAPACITIES[symbol]))


@pytest.mark.parametrize(
    ("size", "low", "high"),
    [
        (n * index, None, None),
        (n * m, 0, N * M),
        (index // (m + 1), -1, INDEX),
        ((index - 3) // (m + 2), -2, maximum(INDEX - 3, 0) // 2),
        ((n + 5) // (m + 1), 5 // (M + 1), N + 5),
        (minimum(n, index), -1, minimum(N, INDEX)),
        (maximum(n, index), 0, maximum(N, INDEX)),
        (n - 2 * index, -2 * INDEX, N + 2),
        (clip(n + 2, m + 1), 1, minimum(N + 2, M + 1)),
    ],
)
def test_both_ends(size: Size, low: Size | None, high: Size | None) -> None:
    for end, wanted in zip(range_between(size, from_minus_1), (low, high), strict=True):
        assert end is wanted or (wanted is not None and equal(end, wanted) is True)


def test_quotients_by_what_has_no_end() -> None:
    unending = lambda s: SizeRange(s.lower, None if s is m.symbols[0] else N)  # noqa: E731
    assert range_between(n // (m + 1), unending) == (0, N)
    assert range_between(-n // (m + 1), unending) == (-N, 0)


@given(recipes(5), st.sampled_from([range_of, of_m_fixed, from_minus_1]))
@settings(deadline=None, max_examples=40)
def test_no_value_is_beyond(
    recipe: Recipe, ranges: Callable[[Symbol], SizeRange]
) -> None:
    """Holds for a size and for its clipped value, with just enough capacity."""
    found, at = built(recipe), index.symbols[0]
    for size in (found, -found, clip(found, n), n - clip(found, n), found // 2):
        low, most = range_between(size, ranges)
        for sizes in ASSIGNMENTS[::23]:
            inside = ranges is not from_minus_1 or sizes[at] >= -1
            if inside and python_value(recipe, sizes) is not None:
                number, known = evaluate(size, sizes), within(sizes)
                assert most is None or number <= evaluate(most, known)
                assert low is None or number >= evaluate(low, known)


def within(sizes: dict[Symbol, int]) -> dict[Symbol, int]:
    """The sizes, with the least capacities that hold them, at least 1."""
    return sizes | {CAPACITIES[s]: max(number, 1) for s, number in sizes.items()}


FROM_TO = {d.symbols[0]: (-3, 4) if d is index else (0, 5) for d in DIMS}


@given(recipes(5))
@settings(deadline=None, max_examples=50)
def test_ranges_of_numbers_hold_every_value(recipe: Recipe) -> None:
    """Factors and divisors of any sign are included."""
    size = built(recipe)
    low, high = SizeRanges(lambda s: SizeRange(*FROM_TO[s])).of(size)
    assert isinstance(low, int) and isinstance(high, int)
    for sizes in ASSIGNMENTS:
        inside = all(a <= sizes[s] <= b for s, (a, b) in FROM_TO.items())
        if inside and python_value(recipe, sizes) is not None:
            assert low <= evaluate(size, sizes) <= high


def test_remainders_are_less_than_what_divides() -> None:
    assert equal(largest(n % (m + 1), range_of), M)
    assert largest(n % 4, range_of) == 3
    assert SizeRanges(lambda s: SizeRange(-9, 9)).of(n % 4) == (0, 3)
    assert SizeRanges(lambda s: SizeRange(-9, 9)).of(n * m - m) == (-90, 90)
