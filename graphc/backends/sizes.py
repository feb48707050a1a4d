"""Sizes written as arithmetic on traced integers, where they are not static."""

from collections.abc import Callable, Mapping
from functools import reduce

from graphc.ir.dims import Dim, Size
from graphc.ir.dims_text import Printer
from graphc.ir.polynomials import Atom, Symbol

CLIP = "jnp.where({0} < 0, jnp.maximum({0} + {1}, 0), jnp.minimum({0}, {1}))"


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
