"""Sizes written as arithmetic on traced integers, where they are not static."""

from collections.abc import Callable
from functools import reduce

from graphc.ir.dims import Size, Symbol, _Atom, _Printer

CLIP = "jnp.where({0} < 0, jnp.maximum({0} + {1}, 0), jnp.minimum({0}, {1}))"


class _ArrayPrinter(_Printer):
    """Writes min, max and clip as functions of arrays."""

    def atom(self, atom: _Atom, sign: str = "//") -> str:
        """The text of a symbol or of a function of sizes."""
        if isinstance(atom, Symbol) or not atom.side:
            return super().atom(atom, sign)
        args = [self.size(x) for x in atom.args]
        return reduce(lambda a, b: f"jnp.{atom.op}imum({a}, {b})", args)


def array_size(d: Size, name_of: Callable[[Symbol], str]) -> str:
    """A JAX expression for `d` in terms of integer arrays for its symbols."""
    return _ArrayPrinter(name_of, CLIP).size(d)
