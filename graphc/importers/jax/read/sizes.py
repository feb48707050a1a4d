"""Translate sizes of JAX, by their text, into sizes of a graph."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.export

from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.sizes.dims import Size, maximum, minimum

_SIGNS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
_CALLS: dict[str, Callable[..., Size]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": maximum,
    "min": minimum,
}


_NAME = re.compile(r"[^\W\d]\w*(?!\w|\s*\()")  # a symbol, not a function


def names_in(text: str) -> list[str]:
    """The symbols in the text of a size, each listed once."""
    return list(dict.fromkeys(_NAME.findall(text)))


class JaxSizes:
    """The sizes that JAX's symbols stand for, by the symbols' names."""

    def __init__(self, named: Mapping[str, Size]) -> None:
        self._named = named
        self._known: dict[str, Size] = {}
        self._seen: dict[int, tuple[Any, Size]] = {}  # by identity: making text is slow

    def named(self, name: str) -> Size:
        """The size that stands for a symbol."""
        return self._named[name]

    def of(self, size: Any) -> Size:
        """The size that JAX gives as `size`: an integer, or a symbolic dimension."""
        if not jax.export.is_symbolic_dim(size):
            return int(size)
        seen = self._seen.get(id(size))
        if seen is None:
            seen = self._seen[id(size)] = size, self.text(str(size))
        return seen[1]

    def number(self, size: int | str) -> int:
        """The number of a size or of its text, if all symbols stand for numbers."""
        number = self.text(size) if isinstance(size, str) else size
        assert isinstance(number, int)
        return number

    def text(self, text: str) -> Size:
        """Parse the text of a size, in the names of symbols."""
        if text not in self._known:
            tree = ast.parse(text.replace("^", "**"), mode="eval")
            self._known[text] = self._read(tree.body)
        return self._known[text]

    def _read(self, node: ast.expr) -> Size:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name) if name in self._named:
                return self._named[name]
            case ast.UnaryOp(ast.USub(), operand):
                return -self._read(operand)
            case ast.BinOp(base, ast.Pow(), ast.Constant(value=int(power))):
                return self._power(base, power)
            case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)](self._read(left), self._read(right))
            case ast.Call(ast.Name(name), args, []) if name in _CALLS:
                return _CALLS[name](*map(self._read, args))
            case _:
                raise Unsupported(f"the size {ast.unparse(node)} is not understood")

    def _power(self, base: ast.expr, power: int) -> Size:
        product: Size = 1
        for _ in range(power):
            product = product * self._read(base)
        return product
