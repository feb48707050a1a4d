"""Sizes written as arithmetic on traced integers, where they are not static."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import reduce

from graphc.errors import GraphError
from graphc.ir.dims import Dim, Size, substitute, symbol_dim
from graphc.ir.dims_text import Printer
from graphc.ir.exactness import Range, fits, parts_fit
from graphc.ir.graph import Value
from graphc.ir.polynomials import Atom, Symbol

INT32: Range = (-(2**31), 2**31 - 1)
MOST_PADDED = 2**30  # elements along a padded axis: its capacity fits int32
CLIP = "jnp.where({0} < 0, jnp.maximum({0} + {1}, 0), jnp.minimum({0}, {1}))"


class Arithmetic(IntEnum):
    """The integers that a formula of sizes is computed with."""

    PYTHON = 0
    TRACED = 1  # arrays of the dtypes that its symbols have
    WIDE = 2  # arrays of 64 bits


def needed(size: Size, narrow: bool) -> Arithmetic:
    """The arithmetic in which a formula of arrays does not wrap around.

    `narrow`: its result is taken as an integer of 32 bits, so that sums and products
    may wrap around before that. Arrays of bytes and without signs wrap around earlier
    than those of int32: even the negative of one does.
    """
    exact = parts_fit if narrow else fits
    signed = isinstance(size, int) or all(map(_is_signed, size.symbols))
    traced = signed and exact(size, _range, INT32)
    return Arithmetic.TRACED if traced else Arithmetic.WIDE


def _range(symbol: Symbol) -> Range:
    if is_wide(symbol):
        return -(2**63), 2**63
    return -MOST_PADDED if symbol.lower is None else symbol.lower, MOST_PADDED


def is_wide(symbol: Symbol) -> bool:
    """Whether the array that stands for a symbol is of int64."""
    origin = symbol.origin
    return isinstance(origin, Value) and origin.dtype == "int64"


def _is_signed(symbol: Symbol) -> bool:
    """Whether what stands for a symbol is an integer of Python, of int32 or int64."""
    origin = symbol.origin
    return not isinstance(origin, Value) or origin.dtype in ("int32", "int64")


class _ArrayPrinter(Printer):
    """Writes min, max and clip as functions of arrays."""

    def atom(self, atom: Atom, sign: str = "//") -> str:
        """The text of a symbol or of a function of sizes."""
        if isinstance(atom, Symbol) or not atom.side:
            return super().atom(atom, sign)
        args = [self.size(x) for x in atom.args]
        return reduce(lambda a, b: f"jnp.{atom.op}imum({a}, {b})", args)


def array_size(
    d: Size, name_of: Callable[[Symbol], str], named: Mapping[Dim, str] | None = None
) -> str:
    """A JAX expression for `d` in terms of integer arrays for its symbols.

    Parts that have a name in `named` stand there by it.
    """
    return _ArrayPrinter(name_of, CLIP, named or {}).size(d)


def solved(size: Dim, symbol: Symbol, axis: str) -> str:
    """The symbol from `axis`, which holds `size`; "" where it is not linear in it."""
    try:
        rest = substitute(size, {symbol: 0})
        slope = substitute(size, {symbol: 1}) - rest
    except GraphError:  # a division by the symbol
        return ""
    linear = isinstance(rest, int) and isinstance(slope, int) and slope != 0
    if not linear or slope * symbol_dim(symbol) + rest is not size:
        return ""
    shifted = axis if rest == 0 else f"({axis} - {rest})"
    return shifted if slope == 1 else f"{shifted} // {slope}"
