"""Syntax trees and sources, in any thread.

Some versions of CPython count the depth of a tree in one place for all threads, and
raise SystemError where two trees are made at once; a class is found in its file by one.
"""

import ast
import inspect
from collections.abc import Callable
from typing import TypeVar

from graphc.ir.forks import RenewedLock

T = TypeVar("T")
ATTEMPTS = 5  # others than graphc make trees too
_LOCK = RenewedLock()


def parsed(text: str) -> ast.Module:
    """The tree of a text. Raises SyntaxError, ValueError or RecursionError."""
    return _in_turn(lambda: ast.parse(text))


def source_of(item: Callable[..., object]) -> str:
    """The source of a function or a class. Raises OSError where there is none."""
    return _in_turn(lambda: inspect.getsource(item))


def _in_turn(make: Callable[[], T]) -> T:
    with _LOCK:
        for _ in range(ATTEMPTS - 1):
            try:
                return make()
            except SystemError:
                continue
        return make()
