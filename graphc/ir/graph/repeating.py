"""`[0] * k` with a symbolic k: Python would repeat the list, but k has no number yet.

Values multiply lists as arrays do, like those of NumPy, so a program that means to
repeat would go on with an array of the wrong length. It therefore has to say which it
means.
"""

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import GraphError, graph_error, user_place
from graphc.ir.params.concrete import (
    NO_NUMBER,
    described_value,
    in_users_names,
    syntax_path,
)
from graphc.ir.types import is_integer

if TYPE_CHECKING:
    from graphc.ir.graph.nodes import Value

SEQUENCES = (list, tuple, str, bytes, bytearray)
_TEXT = (str, bytes, bytearray)
_NUMBERS = (bool, int, float, complex)


def refuse_repeating(count: "Value", sequence: object) -> None:
    """Raise GraphError for a sequence times an integer, which may mean repetition."""
    if not count.type.rank and is_integer(count.dtype):
        raise repetition_error(count, sequence)


def repetition_error(count: "Value", sequence: object) -> GraphError:
    """The error for a sequence to be repeated a symbolic number of times."""
    op = f"{type(sequence).__name__} *"
    got, hint = described_value(count), _hint_at_meanings(sequence)
    return graph_error(NO_NUMBER, op=op, got=got, hint=hint, entry="number")


def _hint_at_meanings(sequence: object) -> str:
    """Code for both possible meanings, in the words of the user's line."""
    if isinstance(sequence, _TEXT):
        return "text has a length that is known when the graph is built"
    items, number = _operand_texts()
    meant = _repetition_code(sequence, items, number)
    return in_users_names(f"use {meant}; to multiply, gt.multiply({items}, {number})")


def _repetition_code(sequence: Any, items: str, number: str) -> str:
    """Code for an array of the repeated items."""
    rank = _rank(sequence)
    if len(sequence) != 1 or not isinstance(sequence[0], _NUMBERS):
        times = number if rank == 1 else f"({number}{', 1' * (rank - 1)})"
        return f"gt.tile({items}, {times})"
    (item,) = sequence
    dtype = np.asarray(item).dtype.name
    if item == 0:
        return f'gt.zeros({number}, "{dtype}")'
    return f'gt.full({number}, {item!r}, "{dtype}")'


def _rank(items: object) -> int:
    """The rank of the array that some items make."""
    if not isinstance(items, (list, tuple)):
        return int(getattr(items, "ndim", 0))
    return 1 + (_rank(items[0]) if items else 0)


def _operand_texts() -> tuple[str, str]:
    """The sequence and the number as written in the user's line."""
    path = syntax_path(user_place())
    last = path[-1] if path else None
    if not (isinstance(last, ast.BinOp) and isinstance(last.op, ast.Mult)):
        return "items", "k"
    left, right = ast.unparse(last.left), ast.unparse(last.right)
    first = isinstance(last.right, (ast.List, ast.Tuple))
    return (right, left) if first else (left, right)
