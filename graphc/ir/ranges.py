"""Ranges of sizes: whether arithmetic of fixed width computes a formula exactly."""

from collections.abc import Callable
from itertools import product

from graphc.ir.dims import Size, Symbol
from graphc.ir.polynomials import Atom, Call, calls_in, polynomial

Range = tuple[int, int]  # the least and the most


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
        low = high = 0
        for monomial, c in polynomial(size).items():
            term = (c, c)
            for atom in monomial:
                term = _product(term, self._atom(atom))
            low, high = low + term[0], high + term[1]
        return low, high

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
        if low >= 0 and last[0] >= 0:
            return 0, high
        most = max(abs(low), abs(high))
        return -most, most


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x, y in product(a, b)]
    return min(ends), max(ends)
