"""Whether arithmetic of fixed width computes a formula exactly, by bounds of its parts.

Axes are assumed to have at most 2**48 elements. Programs check that integers of 64 bits
which are read as sizes are within the same bound, so sums of a few of them are exact.
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
MOST_TERMS = 16  # the longest formulas for which saturation is proved
CUT = 2**49  # beyond it, the bound of a slice is past the end of any axis


def parts_fit(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether all arguments of functions in a formula lie within a range.

    Sums and products may leave the range and come back, since arithmetic wraps around.
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
    """Whether a formula lies within a range, which its parts may leave."""
    return _inside(_ranges(range_of).of(size), within)


def wrapped(size: Size, dtype: DType) -> Size | None:
    """The formula as arithmetic in `dtype` computes it, dropping upper bits.

    None if it wraps around for some sizes only. Parts of the formula must not wrap.
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
    """Whether a formula provably does not change with a symbol beyond `CUT`.

    An example is the bound of a slice, which Python clips to the axis. Other symbols
    with an origin are assumed to lie within `CUT`.
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
    except GraphError:  # a sliced axis would have a negative size
        return False


def limits(dtype: DType) -> Range:
    """The least and largest integer of a dtype; a bool has one bit."""
    if dtype.kind == "b":
        return 0, 1
    bounds = np.iinfo(dtype)
    return int(bounds.min), int(bounds.max)


def has_room(dtype: DType, number: int) -> bool:
    """Whether a dtype of integers has room for a number."""
    low, high = limits(dtype)
    return low <= number <= high


def _range(symbol: Symbol, most: int = MOST) -> Range:
    """The least and largest integer that a symbol can stand for."""
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
    """Whether sizes are proved to lie within a range of numbers."""
    ends = sizes.numbers
    return ends is not None and within[0] <= ends[0] and ends[1] <= within[1]
