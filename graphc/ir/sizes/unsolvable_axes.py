"""Axes whose sizes determine no symbol, as min(n, 3) and n*m: sizes they may have."""

import math
from collections.abc import Container, Iterator

from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim
from graphc.ir.sizes.lines import Quotient
from graphc.ir.sizes.polynomials import Atom, Monomial, polynomial
from graphc.ir.sizes.ranges import SizeRange, range_between

SizeRelation = tuple[Size, str, Size, str]  # with words that say where it comes from


class UndeterminedAxes:
    """The axes of a program that determine no symbol, and the relations they obey."""

    def __init__(self) -> None:
        self._first: dict[frozenset[tuple[Monomial, int]], tuple[Dim, Dim, int]] = {}

    def relations(
        self, size: Dim, axis: Symbol, known: Container[Symbol], part: Quotient | None
    ) -> Iterator[SizeRelation]:
        """Yield relations of `axis`, which has `size`, to known sizes and earlier axes.

        The symbols that stand for axes have the names that messages use. `part` is the
        unknown part of the size, where it can be computed from the known part.
        """
        if part is None:
            yield from _bound_relations(size, symbol_dim(axis), known)
        if part is None or part.determined_symbol is None:
            yield from self._proportional_relations(size, symbol_dim(axis), known)

    def _proportional_relations(
        self, size: Dim, axis: Dim, known: Container[Symbol]
    ) -> Iterator[SizeRelation]:
        """Yield the relation to an earlier axis whose unknown part is in proportion."""
        unknown = [
            (monomial, factor)
            for monomial, factor in polynomial(size).items()
            if any(s not in known for atom in monomial for s in _symbols(atom))
        ]
        common = math.gcd(*(factor for _, factor in unknown))
        factor = common if unknown[0][1] > 0 else -common
        key = frozenset((monomial, f // factor) for monomial, f in unknown)
        first = self._first.setdefault(key, (size, axis, factor))
        if first[1] is not axis:
            earlier, earlier_axis, earlier_factor = first
            difference = earlier_factor * size - factor * earlier
            words = f", as {earlier_axis.symbols[0].name} has {earlier}"
            yield earlier_factor * axis, "==", factor * earlier_axis + difference, words


def _symbols(atom: Atom) -> tuple[Symbol, ...]:
    return (atom,) if isinstance(atom, Symbol) else tuple(atom.symbols)


def _bound_relations(
    size: Dim, axis: Dim, known: Container[Symbol]
) -> Iterator[SizeRelation]:
    """Yield the bounds of an axis by its formula, and the step between its sizes."""

    def range_of(symbol: Symbol) -> SizeRange:
        size = symbol_dim(symbol)
        return SizeRange(size, size) if symbol in known else SizeRange(0, None)

    ends = range_between(size, range_of)
    terms = dict(polynomial(size).items())
    offset = terms.pop((), 0)
    common = math.gcd(*terms.values())
    if isinstance(ends.low, Dim) or (ends.low is not None and ends.low > 0):
        yield ends.low, "<=", axis, ""
    if ends.high is not None:
        yield axis, "<=", ends.high, ""
    if common > 1:
        yield common * ((axis - offset) // common) + offset, "==", axis, ""
