"""Sizes written as arithmetic on traced integers, where they are not static."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import reduce

from graphc.errors import GraphError, label
from graphc.ir.dims import Dim, Size, substitute, symbol_dim
from graphc.ir.dims_text import Printer
from graphc.ir.exactness import Range, fits, parts_fit
from graphc.ir.graph import Value
from graphc.ir.polynomials import Atom, Symbol, calls_in, polynomial

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
    """Whether the array that stands for a symbol has 64 bits."""
    origin = symbol.origin
    return isinstance(origin, Value) and origin.dtype.itemsize == 8


def _is_signed(symbol: Symbol) -> bool:
    """Whether a symbol stands for an integer of Python, of int32 or of int64."""
    origin = symbol.origin
    return not isinstance(origin, Value) or origin.dtype in ("int32", "int64")


def reading(symbol: Symbol, value: str, cut: bool) -> str:
    """The call that gives the integer of a value as a size.

    One that is `cut` may be beyond any axis.
    """
    assert isinstance(symbol.origin, Value)
    remedy = symbol.origin.node.primitive.size_remedy
    more = f", {remedy!r}" * bool(remedy) + ", cut=True" * cut
    return f'integer("{label(symbol.name)}", {value}{more})'


def widened(symbol: Symbol, name: str) -> str:
    """A traced integer as one of 64 bits with which sums do not wrap around."""
    if not is_wide(symbol):
        return f'{name}.astype("int64")'
    assert isinstance(symbol.origin, Value)
    if symbol.origin.dtype.kind == "u":
        return f'jnp.minimum({name}, 2**49).astype("int64")'
    return f"jnp.clip({name}, -(2**49), 2**49)"


def in_sums(size: Dim) -> set[Symbol]:
    """The symbols that a formula computes sums or products with.

    Others are compared only, or are all there is.
    """
    parts = [size, *(part for call in calls_in(size) for part in call.formulas)]
    long = [polynomial(p) for p in parts if polynomial(p).only_atom() is None]
    long += [polynomial(p) for c in calls_in(size) if c.op == "*" for p in c.formulas]
    return {atom for p in long for atom in p.atoms() if isinstance(atom, Symbol)}


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
