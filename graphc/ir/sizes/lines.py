"""Sizes of axes that are linear in a symbol, so that the axis determines the symbol."""

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from graphc.errors import GraphError
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute, symbol_dim
from graphc.ir.sizes.polynomials import calls_in, polynomial


@dataclass(frozen=True)
class Quotient:
    """A size as `slope * quotient + offset`, in which only the quotient is unknown.

    The quotient is `symbol`, or a sum. It is `never_negative` unless the sum subtracts.
    """

    slope: Size
    offset: Size
    symbol: Symbol | None
    never_negative: bool = True

    @property
    def determined_symbol(self) -> Symbol | None:
        """The symbol, if an axis of this size determines it, unlike m in 0*m."""
        return self.symbol if isinstance(self.slope, int) else None


def quotient_of(size: Dim, known: Container[Symbol]) -> Quotient | None:
    """The part of a size that `known` symbols leave open; None if that is all of it.

    If n is known, `n + m` is m plus n, and `n*m` is n times m; if neither is known,
    `2*n + 2*m` is twice a sum.
    """
    unknown = [symbol for symbol in size.symbols if symbol not in known]
    if len(unknown) == 1:
        line = _line(size, unknown[0])
        return None if line is None else Quotient(*line, unknown[0])
    terms = polynomial(size).items()
    factors = [c for monomial, c in terms if not {*unknown}.isdisjoint(monomial)]
    if any(not {*unknown}.isdisjoint(call.symbols) for call in calls_in(size)):
        return None
    slope = math.gcd(*factors) if factors[0] > 0 else -math.gcd(*factors)
    offset = substitute(size, dict.fromkeys(unknown, 0))
    return Quotient(slope, offset, None, all(c // slope > 0 for c in factors))


def next_determining(sizes: Sequence[Dim], known: Container[Symbol]) -> int:
    """The position of the size to check first, which may determine a symbol for others.

    It has the fewest unknown symbols, and determines its symbol if some such size does.
    """
    counts = [sum(s not in known for s in size.symbols) for size in sizes]
    least = min(counts)
    if least == 1:
        for position, count in enumerate(counts):
            if count == 1:
                part = quotient_of(sizes[position], known)
                if part is not None and part.determined_symbol is not None:
                    return position
    return counts.index(least)


def message_end(part: Quotient | None, origins: str) -> str:
    """The end of a message about the size of an axis; `origins` of known sizes."""
    where = f", where {origins}" if origins else ""
    symbol = None if part is None else part.symbol
    least = f", and {symbol.name} is not negative" if symbol else ""
    return f" elements{where}{least}"


def line_of(size: Dim, symbol: Symbol) -> tuple[int, int] | None:
    """The slope and offset of a size that is linear in a symbol, or None."""
    if size.is_symbol:  # most sizes
        return (1, 0) if size.symbols == (symbol,) else None
    match _line(size, symbol):
        case int(slope), int(offset):
            return slope, offset
        case _:
            return None


def _line(size: Dim, symbol: Symbol) -> tuple[Size, Size] | None:
    try:
        offset = substitute(size, {symbol: 0})
        slope = substitute(size, {symbol: 1}) - offset
    except GraphError:  # a division by the symbol
        return None
    if isinstance(slope, int) and slope == 0:
        return None
    line = slope * symbol_dim(symbol) + offset
    return (slope, offset) if line is size else None


def undetermined_symbols(sizes: Iterable[Size]) -> frozenset[Symbol]:
    """The symbols of axes that no axis determines, and the symbols in sums with them.

    An axis of `n` determines n, and so does one of `2*n + 1`; one of `n + m` neither.
    """
    formulas = [size for size in sizes if isinstance(size, Dim)]
    determined = {
        size.symbols[0]
        for size in formulas
        if len(size.symbols) == 1 and line_of(size, size.symbols[0]) is not None
    }
    return frozenset(
        symbol
        for size in formulas
        if any(s.origin is None and s not in determined for s in size.symbols)
        for symbol in size.symbols
    )
