"""Ranges of sizes: whether arithmetic of fixed width computes a formula exactly.

Axes are taken to have at most 2**48 elements. Integers of 64 bits that are read as
sizes must lie within as much, which programs check; so sums of a few are exact.
"""

from collections.abc import Callable
from itertools import product

import numpy as np

from graphc.ir.dims import Size, Symbol
from graphc.ir.dims_text import moduli
from graphc.ir.polynomials import Atom, Call, calls_in, polynomial
from graphc.ir.types import DType

Range = tuple[int, int]  # the least and the most
MOST = 2**48  # elements of an axis, and the largest integer that is read as a size


def parts_fit(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether all arguments of functions in a formula lie within a range.

    Its sums and products may leave the range and come back: they wrap around.
    """
    ranges = _Ranges(range_of)
    return all(
        _inside(ranges.of(part), within)
        for call in calls_in(size)
        for part in call.formulas
    )


def fits(size: Size, range_of: Callable[[Symbol], Range], within: Range) -> bool:
    """Whether a formula and all parts of it lie within a range."""
    whole = _inside(_Ranges(range_of).of(size), within)
    return whole and parts_fit(size, range_of, within)


def stays_within(size: Size, dtype: DType) -> bool:
    """Whether integers of a dtype compute a formula without wrapping around.

    The parts of it are known to do.
    """
    return _inside(_Ranges(_range).of(size), _limits(dtype))


def wrapped(number: int, dtype: DType) -> int:
    """An integer as it is in a dtype, which drops its upper bits."""
    low, high = _limits(dtype)
    return (number - low) % (high - low + 1) + low


def _limits(dtype: DType) -> Range:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _range(symbol: Symbol) -> Range:
    """The least and the most that the integer of a symbol can be."""
    low, high = -MOST, MOST
    if symbol.lower is not None:
        low = max(low, symbol.lower)
    if isinstance(symbol.upper, int):
        high = min(high, symbol.upper)
    dtype = getattr(symbol.origin, "dtype", None)
    if dtype is not None:
        least, most = _limits(dtype)
        low, high = max(low, least), min(high, most)
    return low, high


def _inside(found: Range, within: Range) -> bool:
    return within[0] <= found[0] and found[1] <= within[1]


class _Ranges:
    """Interval arithmetic, each function of sizes looked at once."""

    def __init__(self, range_of: Callable[[Symbol], Range]) -> None:
        self._range_of = range_of
        self._found: dict[Call, Range] = {}

    def of(self, size: Size) -> Range:
        """Numbers that a formula is never below and never above."""
        for call in calls_in(size):
            if call not in self._found:
                self._found[call] = self._call(call)
        return self._sum(size)

    def _sum(self, size: Size) -> Range:
        remainders, rest = moduli(polynomial(size))
        terms = [_product((c, c), self._remainder(call)) for c, call in remainders]
        for monomial, c in rest.items():
            term = (c, c)
            for atom in monomial:
                term = _product(term, self._atom(atom))
            terms.append(term)
        return sum([low for low, _ in terms]), sum([high for _, high in terms])

    def _remainder(self, call: Call) -> Range:
        """Of a % b, where the call is a//b; it has the sign of b."""
        low, high = self._sum(call.args[1])
        return min(low + 1, 0), max(high - 1, 0)

    def _atom(self, atom: Atom) -> Range:
        if isinstance(atom, Symbol):
            return self._range_of(atom)
        return self._found[atom]

    def _call(self, call: Call) -> Range:
        parts = [self._sum(part) for part in call.args]
        (low, high), last = parts[0], parts[-1]
        match call.op:
            case "min":
                return min(p[0] for p in parts), min(p[1] for p in parts)
            case "max":
                return max(p[0] for p in parts), max(p[1] for p in parts)
            case "*":
                return _product(parts[0], last)
            case "clip":
                return 0, max(last[1], 0)
        if last[0] > 0:
            ends = [a // b for a in (low, high) for b in last]
            return min(ends), max(ends)
        most = max(abs(low), abs(high))
        return -most, most


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x, y in product(a, b)]
    return min(ends), max(ends)
