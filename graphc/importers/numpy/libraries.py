"""Explain failures of libraries, or of JAX, on traced arrays: what to write instead."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from linecache import getline
from traceback import walk_tb
from types import FrameType, ModuleType, TracebackType
from typing import Any

import numpy as np

from graphc.errors import (
    NOWHERE,
    GraphError,
    SourceLocation,
    graph_error,
    is_library,
    is_user_file,
    standing_at,
)
from graphc.importers.numpy.traced.arrays import INTO_OUTSIDE, OWN_ARRAY, TracedArray
from graphc.ir.namespace import FUNCTIONS, OTHER_NAMES
from graphc.ir.types import DTYPES

_HINT = "use a function of NumPy or gt, or call it outside of the function"
_WRITING = "setting an array element"  # in memory: the words of NumPy's errors
_WRITING_FLAT = "setting single item of array"
_OF_JAX = "JAX "
_INTERNAL = re.compile(  # or a value as it is printed
    rf"TracedArray|_method_|symbolic value|<[^<>]*: (?:weak )?(?:{'|'.join(DTYPES)})\["
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_REST = "write it with the names of numpy, or leave frontend out for a function of JAX"


@contextmanager
def explaining_libraries() -> Generator[None]:
    """Within, make errors of libraries about our classes name the user's line."""
    try:
        yield
    except GraphError:
        raise
    except (TypeError, AttributeError, ValueError, NotImplementedError) as error:
        text = "\n".join(map(str, _with_causes(error)))
        refused = isinstance(error.__cause__, GraphError) and _WRITING in text
        if refused or _WRITING_FLAT in text:
            place, _ = _place_and_library(error.__traceback__)
            with standing_at(place):
                raise graph_error(INTO_OUTSIDE, op="index", hint=OWN_ARRAY) from error
        if _OF_JAX in text or not _INTERNAL.search(text):
            raise
        place, library = _place_and_library(error.__traceback__)
        of_jax = library.startswith("jax.")  # a later error tells what to write
        if of_jax or (not library and "TracedArray" not in text):
            raise
        reader = library or "C code"
        problem = f"{reader} takes arrays in memory, not symbolic values"
        with standing_at(place):
            raise graph_error(problem, op="numpy", hint=_HINT) from error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _place_and_library(trace: TracebackType | None) -> tuple[SourceLocation, str]:
    """The user's innermost line, and the library function that it called."""
    place, library = NOWHERE, ""
    for frame, line in walk_tb(trace):
        file = frame.f_code.co_filename
        if is_user_file(file) and not file.endswith(".pyx"):
            place, library = SourceLocation(file, line), ""
        elif not library:
            module = str(frame.f_globals.get("__name__", ""))
            root = module.partition(".")[0]
            ours = root in ("graphc", "contextlib")
            library = "" if ours else f"{root}.{frame.f_code.co_name}"
    return place, library


def tell_names_of_numpy(error: Exception) -> None:
    """Add what to write to the error of a JAX function that got a traced array."""
    if not isinstance(error, TypeError) or TracedArray.__name__ not in str(error):
        return
    name, meant = next(_jax_functions_called(error), ("a function of JAX", ""))
    problem = f'{name} takes no arrays that are traced with frontend="numpy"'
    hint = f"write {meant}" if meant else _REST
    error.args = (f"{error}\n\n{problem}: {hint}", *error.args[1:])


def _jax_functions_called(error: Exception) -> Iterator[tuple[str, str]]:
    """The JAX functions in the user's expression that raised."""
    innermost, step = None, error.__traceback__
    while step is not None:
        if not is_library(step.tb_frame.f_code.co_filename):
            innermost = step
        step = step.tb_next
    if innermost is not None:
        yield from _jax_functions_in(innermost.tb_frame, _expression(innermost))


def _expression(step: TracebackType) -> str:
    """The text of the expression that a traceback is at; only its first line."""
    code = step.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[step.tb_lasti // 2]
    line = getline(code.co_filename, step.tb_lineno)
    return line[start : end if first == last else None]


def _jax_functions_in(frame: FrameType, line: str) -> Iterator[tuple[str, str]]:
    """The JAX functions that a line names, and what to write instead of each."""
    known = {**frame.f_globals, **frame.f_locals}
    for text in _DOTTED.findall(line):
        first, *parts = text.split(".")
        member, path = known.get(first), ""
        for part in parts:
            path = member.__name__ if isinstance(member, ModuleType) else ""
            member = getattr(member, part, None)
        if callable(member) and f"{path}.".startswith("jax."):
            yield text, _equivalent_hint(f"{path}.{parts[-1]}".split(".")[1:])


def _equivalent_hint(path: list[str]) -> str:
    """The function of NumPy or graphc that does the same as one of JAX; "" if none."""
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
