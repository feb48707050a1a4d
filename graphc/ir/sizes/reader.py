"""Read sizes back from their text."""

import ast
import operator
import re
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from graphc.errors import GraphError, shortened
from graphc.ir.sizes.dims import FUNCTIONS, Size, axis

_SIGNS: dict[type[ast.operator], Callable[[Any, Any], Size]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_DEEPEST = 500
_MAYBE_ONE = re.compile(r"\b([^\W\d]\w*)\s*\?")  # an attribute to Python
_READABLE = "only numbers, names, + - * // %, min, max and clip may be used"
_UNREADABLE = (
    *(SyntaxError, ValueError, TypeError, ArithmeticError),
    *(RecursionError, MemoryError),  # texts nested too deep for Python's parser
)


def parse(text: str) -> Size:
    """The size that `str` prints as `text`; its symbols are those of declared axes."""
    try:
        if "." in text:
            raise ValueError(_READABLE)
        if _is_name(text):
            return axis(text)
        readable = _MAYBE_ONE.sub(r"\1.may_be_one", text.strip())
        return _read(ast.parse(readable, mode="eval").body)
    except _UNREADABLE as e:
        shown = shortened(repr(text))
        said = e.msg if isinstance(e, SyntaxError) else str(e)
        raise GraphError(f"cannot read the size {shown}: {said}", "size") from None


def _is_name(text: str) -> bool:
    """Whether a text is a plain name, which Python's parser would not change."""
    return text.isascii() and text.isidentifier() and not iskeyword(text)


def _read(node: ast.expr, depth: int = 0) -> Size:
    # A limit of our own, since Python's differs from caller to caller.
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    depth += 1
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return axis(name)
        case ast.Attribute(ast.Name(id=name)):
            return axis(f"{name}?")
        case ast.UnaryOp(ast.USub(), operand):
            return -_read(operand, depth)
        case ast.BinOp(a, sign, b) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_read(a, depth), _read(b, depth))
        case ast.Call(ast.Name(name), args, []) if name in FUNCTIONS:
            return FUNCTIONS[name](*[_read(arg, depth) for arg in args])
        case _:
            raise ValueError(_READABLE)
