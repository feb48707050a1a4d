"""The least and largest values of sizes, as formulas of the ranges of their symbols.

This is interval arithmetic: parts of a formula are assumed to vary independently, so
the bounds always hold but need not be reached. Where all ends are numbers, the results
are numbers, for factors and divisors of any sign.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, Symbol
from graphc.ir.sizes.polynomials import Atom, Call, calls_in, polynomial
from graphc.ir.sizes.text import moduli


class SizeRange(NamedTuple):
    """A lower and an upper bound; each is None where none is known."""

    low: Size | None
    high: Size | None

    @property
    def numbers(self) -> tuple[int, int] | None:
        """Both ends if they are numbers, or None."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return self.low, self.high
        return None


Ends = tuple[int, int]
UNKNOWN = SizeRange(None, None)


def range_between(size: Size, range_of: Callable[[Symbol], SizeRange]) -> SizeRange:
    """The range of `size`, if its symbols lie in these ranges."""
    return SizeRanges(range_of).of(size)


def largest(size: Size, range_of: Callable[[Symbol], SizeRange]) -> Size | None:
    """An upper bound of `size`, if its symbols lie in these ranges."""
    return range_between(size, range_of).high


def range_of_sum(a: SizeRange, b: SizeRange, factor: int = 1) -> SizeRange:
    """The range of a + factor*b."""
    below, above = (b.low, b.high) if factor >= 0 else (b.high, b.low)
    return SizeRange(
        None if a.low is None or below is None else a.low + factor * below,
        None if a.high is None or above is None else a.high + factor * above,
    )


def range_over(parts: Sequence[SizeRange]) -> SizeRange:
    """The range that contains all of these ranges."""
    lows, highs = [p.low for p in parts], [p.high for p in parts]
    return SizeRange(
        None if None in lows else dims.minimum(*lows),  # type: ignore[arg-type]
        None if None in highs else dims.maximum(*highs),  # type: ignore[arg-type]
    )


class SizeRanges:
    """The ranges of sizes, given the ranges of symbols."""

    def __init__(self, range_of: Callable[[Symbol], SizeRange]) -> None:
        self._range_of = range_of
        self._found: dict[Atom, SizeRange] = {}

    def of(self, size: Size) -> SizeRange:
        """Return the range of a size, after finding those of its parts."""
        for call in calls_in(size):
            if call not in self._found:
                self._found[call] = self._call(call)
        return self._sum(size)

    def _sum(self, size: Size) -> SizeRange:
        if not isinstance(size, Dim):
            return SizeRange(size, size)
        remainders, remainder = moduli(polynomial(size))
        terms = [(c, self._remainder(call)) for c, call in remainders]
        terms += [
            (c, _product([self._atom(a) for a in m])) for m, c in remainder.items()
        ]
        total = SizeRange(0, 0)
        for factor, part in terms:
            total = range_of_sum(total, part, factor)
        return total

    def _remainder(self, call: Call) -> SizeRange:
        """The range of a % b, given the call a//b; a % b has the sign of b."""
        by = self._sum(call.args[1])
        if _at_least(1, by.low):
            return SizeRange(0, None if by.high is None else by.high - 1)
        ends = by.numbers
        return SizeRange(min(ends[0] + 1, 0), max(ends[1] - 1, 0)) if ends else UNKNOWN

    def _atom(self, atom: Atom) -> SizeRange:
        if atom not in self._found and isinstance(atom, Symbol):
            self._found[atom] = self._range_of(atom)
        return self._found[atom]

    def _call(self, call: Call) -> SizeRange:
        args = [self._sum(arg) for arg in call.args]
        rule, of_numbers = RANGES.get(call.op), _OF_NUMBERS.get(call.op)
        numbers = [ends for arg in args if (ends := arg.numbers) is not None]
        if of_numbers is not None and len(numbers) == len(args):
            return of_numbers(numbers)
        return UNKNOWN if rule is None else rule(args)


def _is_fixed(part: SizeRange) -> bool:
    return part.low is not None and part.low is part.high


def _at_least(number: int, size: Size | None) -> bool:
    return size is not None and dims.less_equal(number, size) is True


def _known_ends(parts: Iterable[SizeRange]) -> tuple[list[Size], list[Size]]:
    """The lower bounds that are known, and the upper bounds."""
    lows, highs = zip(*parts, strict=True)
    return [n for n in lows if n is not None], [n for n in highs if n is not None]


def _product(parts: list[SizeRange]) -> SizeRange:
    """The range of a product whose factors are not negative, or do not vary."""
    if len(parts) == 1:
        return parts[0]
    numbers = [ends for part in parts if (ends := part.numbers) is not None]
    if len(numbers) == len(parts):
        return _product_of_numbers(numbers)
    lows, highs = _known_ends(parts)
    if all(map(_is_fixed, parts)) or all(_at_least(0, p.low) for p in parts):
        most = math.prod(highs) if len(highs) == len(parts) else None
        return SizeRange(math.prod(lows), most)
    return UNKNOWN


def _minimum(parts: list[SizeRange]) -> SizeRange:
    lows, highs = _known_ends(parts)
    low = dims.minimum(*lows) if len(lows) == len(parts) else None
    return SizeRange(low, dims.minimum(*highs) if highs else None)


def _maximum(parts: list[SizeRange]) -> SizeRange:
    lows, highs = _known_ends(parts)
    high = dims.maximum(*highs) if len(highs) == len(parts) else None
    return SizeRange(dims.maximum(*lows) if lows else None, high)


def _quotient(parts: list[SizeRange]) -> SizeRange:
    a, by = parts
    if by.low is None or not _at_least(1, by.low):
        return UNKNOWN
    low, high = a
    if _is_fixed(by):
        low = None if low is None else low // by.low
    elif _at_least(0, low):
        low = 0 if low is None or by.high is None else low // by.high
    else:  # a negative number is nearest to 0 for the largest divisor
        low = None if low is None else dims.minimum(low, 0) // by.low
    if high is not None:
        high = (high if _is_fixed(by) else dims.maximum(high, 0)) // by.low
    return SizeRange(low, high)


def _clip(parts: list[SizeRange]) -> SizeRange:
    """The range of a slice's bound; it grows with the axis, and the index but at 0."""
    index, n = parts
    if n.high is None:
        return SizeRange(0, None)
    if _is_fixed(index):
        assert index.high is not None
        return SizeRange(0, dims.clip(index.high, n.high))
    if index.high is not None and _at_least(0, index.low):
        low = 0 if n.low is None or index.low is None else _least(index.low, n.low)
        return SizeRange(low, dims.minimum(index.high, n.high))
    return SizeRange(0, n.high)


def _least(a: Size, b: Size) -> Size:
    return 0 if isinstance(a, int) and a == 0 else dims.minimum(a, b)


def _product_of_numbers(parts: list[Ends]) -> SizeRange:
    """The range of a product of numbers of any sign: its ends are products of ends."""
    low = high = 1
    for part in parts:
        ends = [a * b for a in (low, high) for b in part]
        low, high = min(ends), max(ends)
    return SizeRange(low, high)


def _quotient_of_numbers(parts: list[Ends]) -> SizeRange:
    """The range of a quotient whose divisor has any sign, but is not 0."""
    (low, high), by = parts
    if by[0] > 0:
        ends = [a // b for a in (low, high) for b in by]
        return SizeRange(min(ends), max(ends))
    farthest = max(abs(low), abs(high))
    return SizeRange(-farthest, farthest)


def _hull_of_numbers(parts: list[Ends]) -> SizeRange:
    """The range that contains all of these ranges."""
    return SizeRange(min(low for low, _ in parts), max(high for _, high in parts))


_OF_NUMBERS: dict[str, Callable[[list[Ends]], SizeRange]] = {
    "*": _product_of_numbers,
    "//": _quotient_of_numbers,
    "stretch": _hull_of_numbers,
}
RANGES: dict[str, Callable[[list[SizeRange]], SizeRange]] = {
    "min": _minimum,
    "max": _maximum,
    "*": _product,
    "//": _quotient,
    "clip": _clip,
}
