"""Sizes of axes that are linear in a symbol, so that the axis tells the symbol."""

from collections.abc import Iterable

from graphc.errors import GraphError
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute, symbol_dim


def line_of(size: Dim, symbol: Symbol) -> tuple[int, int] | None:
    """The slope and the rest of a size that is linear in a symbol; else None."""
    if size.is_symbol:  # as most sizes are
        return (1, 0) if size.symbols == (symbol,) else None
    try:
        offset = substitute(size, {symbol: 0})
        slope = substitute(size, {symbol: 1}) - offset
    except GraphError:  # a division by the symbol
        return None
    if not isinstance(offset, int) or not isinstance(slope, int) or slope == 0:
        return None
    return (slope, offset) if slope * symbol_dim(symbol) + offset is size else None


def undetermined(sizes: Iterable[Size]) -> frozenset[Symbol]:
    """The symbols of axes that no axis tells, and those that stand beside them.

    An axis of `n` tells n, and so does one of `2*n + 1`; one of `n + m` tells neither.
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
