"""The exception for JAX functions that cannot be read as graphs."""

import re
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePath

from graphc.errors import GraphError, SourceLocation, is_user_file

_SIZE_OF_JAX = r"'_DimExpr'(?: object)?"  # as in errors of range(n)


class Unsupported(Exception):
    """A function that cannot be imported, so that JAX itself must compile it.

    `place` is the user's line, or None if it is unknown.
    """

    def __init__(self, reason: str, place: SourceLocation | None = None) -> None:
        super().__init__(f"{reason}, at {place}" if place else reason)
        self.reason = reason
        self.place = place


def text_of_error(error: Exception) -> str:
    """Describe an exception in a line: its message, or else where it was raised."""
    name = type(error).__name__
    message = re.sub(_SIZE_OF_JAX, "a size that varies", str(error).strip())
    if message:
        return f"{name}: {message.splitlines()[0]}"
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if is_user_file(frame.filename)]
    shown = dict.fromkeys(map(_frame_as_text, (*frames[-1:], *users[-1:])))
    return " at ".join([name, *shown])


def users_place(error: Exception) -> SourceLocation | None:
    """The innermost line of the user's code that an exception came from."""
    lines = [
        SourceLocation(frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_user_file(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else None


def _frame_as_text(frame: traceback.FrameSummary) -> str:
    return f"{PurePath(frame.filename).name}:{frame.lineno} ({frame.line})"


@contextmanager
def reading() -> Generator[None]:
    """Turn unforeseen errors within into Unsupported: the function cannot be read.

    JAX compiles the function then, and the warning shows the error.
    """
    try:
        yield
    except (Unsupported, GraphError):
        raise
    except Exception as error:
        raise Unsupported(f"graphc cannot read it: {text_of_error(error)}") from error
