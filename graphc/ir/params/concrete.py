"""Errors for uses of a symbolic value that need its number: the code, and a remedy.

Python asks for a number by `bool`, `int`, `float` or an iterator, and other libraries
ask by their protocols. The error names the syntax or the function that asks.
"""

import ast
import builtins
import linecache
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from operator import attrgetter
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

from graphc.errors import (
    GraphError,
    SourceLocation,
    graph_error,
    is_library,
    own_caller,
    user_place,
)
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.syntax import parsed
from graphc.ir.types import DTYPES

if TYPE_CHECKING:
    from graphc.ir.graph.nodes import Value

NO_NUMBER = "a symbolic value has no number before the function is called"
_IF = "use gt.cond(condition, lambda: a, lambda: b), or gt.where(condition, a, b)"
_SYNTAX: dict[type[ast.AST], tuple[str, str]] = {
    ast.And: ("and", "write (a) & (b)"),
    ast.Or: ("or", "write (a) | (b)"),
    ast.Not: ("not", "write ~a, or gt.logical_not(a)"),
    ast.If: ("if", _IF),
    ast.IfExp: ("if", _IF),
    ast.While: ("while", "use gt.while_loop(condition, body, start)"),
    ast.Assert: ("assert", "use gt.assert_(condition, message, value)"),
    ast.In: ("in", "use gt.isin(x, numbers)"),
    ast.NotIn: ("in", "use gt.isin(x, numbers)"),
}
_BUILTINS = {
    "range": "use gt.arange(n), or gt.fori_loop(0, n, body, start) for a loop",
    "max": "use gt.maximum(a, b)",
    "min": "use gt.minimum(a, b)",
    "sorted": "use gt.sort(x)",
    "any": "use gt.any(x)",
    "all": "use gt.all(x)",
}
_OF_ITEMS = {"max": "use gt.max(x)", "min": "use gt.min(x)"}
_ANY = {
    "bool": f"{_IF}; for and, or, not: & | ~",
    "int": "use the symbolic integer itself",
    "hash": "look it up in an array: gt.asarray(numbers)[i]",
    "text": 'gt.debug_print("{}", x) prints it when it is computed',
    "float": 'use x.astype("float64"); for math.sqrt(x) and the like, gt.sqrt(x)',
}
_TRUNCATED = 'use x.astype("int64")'
_OF_GRAPHC = re.compile(r"gt\.((?:\w+\.)*\w+)")
_SPACE = {True: "np", False: "gt"}
_INDEX = "for an array of NumPy, write gt.asarray(a)[i], or np.take(a, i, axis=0)"
_OF_LIST = "for a list, a tuple or an array of NumPy, write gt.asarray(a)[i]"
_STORED = "make a value of it first, y = gt.asarray(y), then y = y.at[i].set(a)"
_STORED_BY_NUMPY = "make an array of the function's own first: y = np.array(y)"
_TESTING = (ast.If, ast.IfExp, ast.While, ast.Assert)
_SEVERAL = (ast.List, ast.Tuple, ast.Starred)
_SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Words(threading.local):
    """Whether the user of this thread writes NumPy's names."""

    of_numpy = False


_WORDS = _Words()


@contextmanager
def words_of_numpy() -> Generator[None]:
    """Make hints name functions of NumPy, where it has them."""
    outer, _WORDS.of_numpy = _WORDS.of_numpy, True
    try:
        yield
    finally:
        _WORDS.of_numpy = outer


def in_users_names(hint: str) -> str:
    """Rewrite a hint in the names that the user writes."""
    if not _WORDS.of_numpy:
        return hint
    hint = hint.replace(_IF, "use np.where(condition, a, b)")
    return _OF_GRAPHC.sub(lambda m: f"{_SPACE[_is_in_numpy(m[1])]}.{m[1]}", hint)


def _is_in_numpy(name: str) -> bool:
    """Whether NumPy has a function with this name, which may be dotted."""
    try:
        return callable(attrgetter(name)(np))
    except AttributeError:
        return False


def no_number_error(value: "Value", op: str, hint: str = "") -> GraphError:
    """The error for a use that needs the number of a value at once.

    `op` is the type that Python asks for; the user's source code shows why it asks.
    """
    if op == "numpy.asarray" and _is_vectorizing():
        return elementwise_error("numpy.vectorize")
    caller = own_caller()
    if caller:  # a function of ours was given a value where it needs a number
        got = described_value(value)
        return graph_error(NO_NUMBER, op=caller, got=got, entry="number")
    path = syntax_path(user_place())
    function = _called_name(path)
    if function and function not in vars(builtins):
        return foreign_use_error(value, function)
    word, hint_of_line = _asking_syntax(path)
    if path and isinstance(path[-1], ast.Subscript):
        word, hint_of_line = {
            "numpy.asarray": ("index", _hint_at_array(path[-1])),
            "int": ("index", _OF_LIST),
        }.get(op, (word, hint_of_line))
    if function in _BUILTINS:
        word, hint_of_line = function, _hint_at_builtin(function, path[-1])
    is_whole = value.dtype.kind in "iub"
    general = _ANY.get(op, "") if is_whole or op != "int" else _TRUNCATED
    hint = in_users_names(hint_of_line or hint or general)
    return graph_error(
        NO_NUMBER, op=word or op, got=described_value(value), hint=hint, entry="number"
    )


def _hint_at_builtin(function: str, call: ast.AST) -> str:
    """The hint at our namesake of a function of Python, by how it is called."""
    args = call.args if isinstance(call, ast.Call) else []
    of_items = len(args) == 1 and not isinstance(args[0], _SEVERAL)
    return _OF_ITEMS.get(function, "") * of_items or _BUILTINS[function]


def _hint_at_array(subscript: ast.Subscript) -> str:
    """The hint at how to read an array of NumPy, or how to write into one."""
    if isinstance(subscript.ctx, ast.Load):
        return _INDEX
    return _STORED_BY_NUMPY if _WORDS.of_numpy else _STORED


def no_items_error(value: "Value", problem: str, op: str, hint: str) -> GraphError:
    """The error for a use that needs the elements of a value one by one."""
    function = "" if own_caller() else _called_name(syntax_path(user_place()))
    if function and function not in vars(builtins):
        return foreign_use_error(value, function)
    return graph_error(problem, op=op, got=str(value.type), hint=hint)


def foreign_use_error(
    value: "Value", function: str = "", otherwise: str = ""
) -> GraphError:
    """The error for a value that is passed to a function of another library."""
    function = function or _called_name(syntax_path(user_place())) or otherwise
    return graph_error(
        "takes arrays, not symbolic values",
        op=function,
        got=described_value(value),
        hint=in_users_names(hint_at_namesakes(function.split(".")[-1])),
    )


def elementwise_error(op: str) -> GraphError:
    """The error for a function of NumPy that calls Python with each number."""
    hint = "write it for whole arrays, with gt.where(condition, a, b) in place of if"
    return graph_error(NO_NUMBER, op=op, hint=in_users_names(hint), entry="number")


def _is_vectorizing() -> bool:
    """Whether `np.vectorize` asks for the elements of a value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        if isinstance(frame.f_locals.get("self"), np.vectorize):
            return True
        frame = frame.f_back
    return False


def described_value(value: "Value") -> str:
    """The type of a value, with its name in the user's program."""
    sizes = value.sizes
    if value.type.weak and sizes is not None:  # many functions may name it
        return f"{value.type}, the size {sizes[()]}"
    if value.name:
        return f"{value.type}, the symbolic value {value.name}"
    return str(value.type)


def hint_at_namesakes(name: str) -> str:
    """A hint at our functions with this name, or else at all of them."""
    if name in DTYPES:
        return f'cast it: x.astype("{name}")'
    namesakes = [f"gt.{n}" for n in FUNCTIONS if n.split(".")[-1] == name]
    if namesakes:
        return f"use {' or '.join(namesakes)}"
    return "use the functions of graphc.tensor, or call it outside, on arrays"


def syntax_path(place: SourceLocation) -> list[ast.AST]:
    """The syntax nodes around an instruction, innermost last; [] without a source."""
    at = place.span
    if at is None:
        return []
    try:
        tree = parsed("".join(linecache.getlines(place.filename)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    path = [node for node in ast.walk(tree) if _covers(node, at)]
    inner = next((i for i in reversed(range(len(path))) if _is_scope(path[i])), -1)
    return path[inner + 1 :]


def _is_scope(node: ast.AST) -> bool:
    return isinstance(node, _SCOPES)


def _covers(node: ast.AST, at: tuple[int, int, int, int]) -> bool:
    if not isinstance(node, (ast.stmt, ast.expr)):
        return False
    first, last, start, end = at
    begins = (node.lineno, node.col_offset) <= (first, start)
    return begins and (last, end) <= (node.end_lineno or 0, node.end_col_offset or 0)


def _called_name(path: list[ast.AST]) -> str:
    """The called function, as written, if the instruction is a call; else ""."""
    if path and isinstance(path[-1], ast.Call):
        name = ast.unparse(path[-1].func)
        return name if all(p.isidentifier() for p in name.split(".")) else ""
    return ""


def _asking_syntax(path: list[ast.AST]) -> tuple[str, str]:
    """The syntax that asks for a bool or a text, and a hint; empty if there is none."""
    for node, inner in zip(reversed(path), [None, *reversed(path)], strict=False):
        key: ast.AST = node
        if isinstance(node, _TESTING) and inner not in (None, node.test):
            continue  # its branches do not ask
        if isinstance(node, (ast.BoolOp, ast.UnaryOp)):
            key = node.op
        if isinstance(node, ast.Compare):
            key = node.ops[0]
            if len(node.ops) > 1:
                return "a < b < c", "write (a < b) & (b < c)"
        if type(key) in _SYNTAX:
            return _SYNTAX[type(key)]
        if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Mod):
            left = key.left.value if isinstance(key.left, ast.Constant) else None
            if isinstance(left, str):
                return "format", _ANY["text"]
    return "", ""
