"""The exception for functions of JAX that cannot be read as graphs."""

import re
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePath

from graphc.errors import GraphError, SourceLocation, is_user_file

_SIZE_OF_JAX = r"'_DimExpr'(?: object)?"  # in messages, as of range(n)


class Unsupported(Exception):
    """A function that cannot be imported; JAX itself has to compile it.

    `place` is the user's line, None where it is not known.
    """

    def __init__(self, reason: str, place: SourceLocation | None = None) -> None:
        super().__init__(f"{reason}, at {place}" if place else reason)
        self.reason = reason
        self.place = place


def raised(error: Exception) -> str:
    """An exception in one line: its message, or else the lines that it came from."""
    name = type(error).__name__
    message = re.sub(_SIZE_OF_JAX, "a size that varies", str(error).strip())
    if message:
        return f"{name}: {message.splitlines()[0]}"
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if is_user_file(frame.filename)]
    shown = dict.fromkeys(map(_shown, (*frames[-1:], *users[-1:])))
    return " at ".join([name, *shown])


def users_place(error: Exception) -> SourceLocation | None:
    """The innermost line of the user's that an exception came from."""
    lines = [
        SourceLocation(frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_user_file(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else None


def _shown(frame: traceback.FrameSummary) -> str:
    return f"{PurePath(frame.filename).name}:{frame.lineno} ({frame.line})"


@contextmanager
def reading() -> Generator[None]:
    """Take an error that nobody has foreseen for a function that cannot be read.

    JAX compiles it then, and the warning tells the error.
    """
    try:
        yield
    except (Unsupported, GraphError):
        raise
    except Exception as error:
        raise Unsupported(f"graphc cannot read it: {raised(error)}") from error
