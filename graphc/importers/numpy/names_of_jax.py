"""Functions of JAX in a function of NumPy: the error says which name to write."""

import re
from collections.abc import Iterator
from linecache import getline
from types import FrameType, ModuleType, TracebackType
from typing import Any

import numpy as np

from graphc.errors import is_library
from graphc.importers.numpy.arrays import TracedArray
from graphc.ir.namespace import FUNCTIONS, OTHER_NAMES

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_REST = "write it with the names of numpy, or leave frontend out for a function of JAX"


def tell_names_of_numpy(error: Exception) -> None:
    """Add what to write where a function of JAX was given an array that is traced."""
    if not isinstance(error, TypeError) or TracedArray.__name__ not in str(error):
        return
    name, meant = next(_calls(error), ("a function of JAX", ""))
    problem = f'{name} takes no arrays that are traced with frontend="numpy"'
    hint = f"write {meant}" if meant else _REST
    error.args = (f"{error}\n\n{problem}: {hint}", *error.args[1:])


def _calls(error: Exception) -> Iterator[tuple[str, str]]:
    """The functions of JAX in the user's expression that raised."""
    innermost, step = None, error.__traceback__
    while step is not None:
        if not is_library(step.tb_frame.f_code.co_filename):
            innermost = step
        step = step.tb_next
    if innermost is not None:
        yield from _of_jax(innermost.tb_frame, _expression(innermost))


def _expression(step: TracebackType) -> str:
    """The text of the expression that a traceback is at, on its first line."""
    code = step.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[step.tb_lasti // 2]
    line = getline(code.co_filename, step.tb_lineno)
    return line[start : end if first == last else None]


def _of_jax(frame: FrameType, line: str) -> Iterator[tuple[str, str]]:
    """The functions of JAX that a line names, and what to write in their place."""
    known = {**frame.f_globals, **frame.f_locals}
    for text in _DOTTED.findall(line):
        first, *parts = text.split(".")
        member, path = known.get(first), ""
        for part in parts:
            path = member.__name__ if isinstance(member, ModuleType) else ""
            member = getattr(member, part, None)
        if callable(member) and f"{path}.".startswith("jax."):
            yield text, _meant(f"{path}.{parts[-1]}".split(".")[1:])


def _meant(path: list[str]) -> str:
    """The function of NumPy, or of graphc, that does the same as one of JAX."""
    space, *names = path
    member: Any = np
    for name in names if space == "numpy" else ["no such name"]:
        member = getattr(member, name, None)
    if member is not None:
        return ".".join(["np", *names])
    name = names[-1] if names else space
    for candidate in (f"{space}.{name}", name, f"special.{name}"):
        if candidate in FUNCTIONS or candidate in OTHER_NAMES:
            return f"gt.{candidate} of graphc.tensor"
    return ""
