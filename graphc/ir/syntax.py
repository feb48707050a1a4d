"""Parse syntax trees and find sources, safely in any thread.

Some versions of CPython count the depth of trees in one place for all threads, and
raise SystemError where two trees are made at once. Finding the source of a class makes
one.
"""

import ast
import inspect
from collections.abc import Callable
from typing import TypeVar

from graphc.ir.forks import RenewedLock

T = TypeVar("T")
ATTEMPTS = 5  # code outside of graphc makes trees too
_LOCK = RenewedLock()


def parsed(text: str) -> ast.Module:
    """Parse a text. Raises SyntaxError, ValueError or RecursionError."""
    return _in_turn(lambda: ast.parse(text))


def source_of(item: Callable[..., object]) -> str:
    """The source of a function or class. Raises OSError where there is none."""
    return _in_turn(lambda: inspect.getsource(item))


def _in_turn(make: Callable[[], T]) -> T:
    with _LOCK:
        for _ in range(ATTEMPTS - 1):
            try:
                return make()
            except SystemError:
                continue
        return make()
