"""Whether arithmetic of fixed width computes a formula exactly: limits of its parts.

Axes are taken to have at most 2**48 elements. Integers of 64 bits that are read as
sizes must lie within as much, which programs check; so sums of a few are exact.
"""

from collections.abc import Callable

import numpy as np

from graphc.errors import GraphError
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    equal,
    fresh_axis,
    substitute,
    symbol_dim,
)
from graphc.ir.sizes.polynomials import calls_in
from graphc.ir.sizes.ranges import SizeRange, SizeRanges
from graphc.ir.types import DType

Range = tuple[int, int]  # the least and the most
MOST = 2**48  # elements of an axis, and the largest integer that is read as a size
MOST_PADDED = 2**30  # elements along a padded axis: its capacity fits int32
MOST_TERMS = 16  # of a formula that is proved to be cut off
CUT = 2**49  # a bound of a slice beyond it is taken for it: it is beyond any axis


def parts_fit(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether all arguments of functions in a formula lie within a range.

    Its sums and products may leave the range and come back: they wrap around.
    """
    ranges = _ranges(range_of)
    return all(
        _inside(ranges.of(part), within)
        for call in calls_in(size)
        for part in call.args
    )


def fits(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether a formula and all parts of it lie within a range."""
    return lies_within(size, range_of, within) and parts_fit(size, range_of, within)


def lies_within(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether a formula lies within a range; its parts may leave it."""
    return _inside(_ranges(range_of).of(size), within)


def wrapped(size: Size, dtype: DType) -> Size | None:
    """A formula as arithmetic of a dtype computes it, which drops the upper bits.

    None where it wraps around for some sizes only. The parts of the formula do not.
    """
    low, high = limits(dtype)
    period = high - low + 1
    if isinstance(size, int):
        return (size - low) % period + low
    ends = _ranges(_range).of(size).numbers
    if ends is None:
        return None
    turns = (ends[0] - low) // period
    return size - turns * period if turns == (ends[1] - low) // period else None


def saturates(size: Dim, symbol: Symbol) -> bool:
    """Whether a formula is provably the same for all of a symbol beyond `CUT`.

    So is the bound of a slice, as Python cuts it off. Other symbols that are cut off
    lie within as much.
    """
    if size.weight > MOST_TERMS:
        return False
    others: dict[Symbol, Size] = {}
    for other in set(size.symbols) - {symbol}:
        ends = _range(other, MOST if other.origin is None else CUT)
        others[other] = symbol_dim(Symbol(other.name, None, *ends))
    more = fresh_axis("more")
    try:
        return all(
            equal(*(substitute(size, others | {symbol: n}) for n in pair)) is True
            for pair in ((CUT, CUT + more), (-CUT, -CUT - more))
        )
    except GraphError:  # an axis that is sliced would have less than no elements
        return False


def limits(dtype: DType) -> Range:
    """The least and the most of a dtype of integers; a bool has one bit."""
    if dtype.kind == "b":
        return 0, 1
    bounds = np.iinfo(dtype)
    return int(bounds.min), int(bounds.max)


def _range(symbol: Symbol, most: int = MOST) -> Range:
    """The least and the most that the integer of a symbol can be."""
    low, high = -most, most
    if symbol.lower is not None:
        low = max(low, symbol.lower)
    if isinstance(symbol.upper, int):
        high = min(high, symbol.upper)
    dtype = getattr(symbol.origin, "dtype", None)
    if dtype is not None:
        least, most = limits(dtype)
        low, high = max(low, least), min(high, most)
    return low, high


def _ranges(range_of: Callable[[Symbol], Range]) -> SizeRanges:
    return SizeRanges(lambda symbol: SizeRange(*range_of(symbol)))


def _inside(sizes: SizeRange, within: Range) -> bool:
    """Whether sizes surely lie within a range of numbers."""
    ends = sizes.numbers
    return ends is not None and within[0] <= ends[0] and ends[1] <= within[1]
