"""The least and the largest that sizes can be, as formulas of ranges of their symbols.

Interval arithmetic: parts of a formula are taken to vary independently, so that what
is found always holds and need not be reached.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from graphc.ir import dims
from graphc.ir.dims import Dim, Size, Symbol
from graphc.ir.polynomials import Atom, Call, calls_in, polynomial


class SizeRange(NamedTuple):
    """Sizes that something is never below and never above; None where none is known."""

    low: Size | None
    high: Size | None


UNKNOWN = SizeRange(None, None)


def largest(size: Size, range_of: Callable[[Symbol], SizeRange]) -> Size | None:
    """A size that `size` is never above, where its symbols lie in these ranges."""
    ranges = _SizeRanges(range_of)
    for call in calls_in(size):
        ranges.look_at(call)
    return ranges.of(size).high


class _SizeRanges:
    """Ranges of the parts of a size, each found after those of its own parts."""

    def __init__(self, range_of: Callable[[Symbol], SizeRange]) -> None:
        self._range_of = range_of
        self._found: dict[Atom, SizeRange] = {}

    def of(self, size: Size) -> SizeRange:
        if not isinstance(size, Dim):
            return SizeRange(size, size)
        low: Size | None = 0
        high: Size | None = 0
        for term, factor in polynomial(size).items():
            ends = _product([self._atom(atom) for atom in term])
            below, above = ends if factor >= 0 else ends[::-1]
            low = None if low is None or below is None else low + factor * below
            high = None if high is None or above is None else high + factor * above
        return SizeRange(low, high)

    def _atom(self, atom: Atom) -> SizeRange:
        if atom not in self._found and isinstance(atom, Symbol):
            self._found[atom] = self._range_of(atom)
        return self._found[atom]

    def look_at(self, call: Call) -> None:
        """Find the range of a call whose own parts are known."""
        rule = _RULES.get(call.op)
        args = [self.of(arg) for arg in call.args]
        self._found[call] = UNKNOWN if rule is None else rule(args)


def _is_fixed(part: SizeRange) -> bool:
    return part.low is not None and part.low is part.high


def _at_least(number: int, size: Size | None) -> bool:
    return size is not None and dims.less_equal(number, size) is True


def _product(parts: list[SizeRange]) -> SizeRange:
    """Of factors that are not negative, or that do not vary."""
    if len(parts) == 1:
        return parts[0]
    lows = [p.low for p in parts if p.low is not None]
    highs = [p.high for p in parts if p.high is not None]
    if all(map(_is_fixed, parts)) or all(_at_least(0, p.low) for p in parts):
        most = math.prod(highs) if len(highs) == len(parts) else None
        return SizeRange(math.prod(lows), most)
    return UNKNOWN


def _minimum(parts: list[SizeRange]) -> SizeRange:
    lows = [p.low for p in parts if p.low is not None]
    highs = [p.high for p in parts if p.high is not None]
    low = dims.minimum(*lows) if len(lows) == len(parts) else None
    return SizeRange(low, dims.minimum(*highs) if highs else None)


def _maximum(parts: list[SizeRange]) -> SizeRange:
    lows = [p.low for p in parts if p.low is not None]
    highs = [p.high for p in parts if p.high is not None]
    high = dims.maximum(*highs) if len(highs) == len(parts) else None
    return SizeRange(dims.maximum(*lows) if lows else None, high)


def _quotient(parts: list[SizeRange]) -> SizeRange:
    a, by = parts
    if by.low is None or not _at_least(1, by.low):
        return UNKNOWN
    natural = _at_least(0, a.low)
    if not natural and not _is_fixed(by):
        return UNKNOWN
    high = None if a.high is None else a.high // by.low
    if natural and by.high is None:
        return SizeRange(0, high)
    assert by.high is not None
    return SizeRange(None if a.low is None else a.low // by.high, high)


def _clip(parts: list[SizeRange]) -> SizeRange:
    """Of a slice's bound: it grows with the axis, and with the index but at 0."""
    index, n = parts
    if n.high is None:
        return SizeRange(0, None)
    if _is_fixed(index):
        assert index.high is not None
        return SizeRange(0, dims.clip(index.high, n.high))
    if index.high is not None and _at_least(0, index.low):
        return SizeRange(0, dims.minimum(index.high, n.high))
    return SizeRange(0, n.high)


_RULES: dict[str, Callable[[list[SizeRange]], SizeRange]] = {
    "min": _minimum,
    "max": _maximum,
    "*": _product,
    "//": _quotient,
    "clip": _clip,
}
