"""From an exception in a running program to the error that the user sees.

In a trace, JAX reports failures with its own frames and in terms of its own functions.
This module looks up the line of the program, and the user's line that it is printed
for.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from graphc.errors import (
    CallError,
    ErrorKind,
    GraphError,
    describe,
    graph_error,
    shortened,
    user_place,
)
from graphc.ops.effects.assertions import EXCEPTIONS
from graphc.runtime.driver.loading import code_objects


class ProgramCallError(CallError):
    """Raised by a program whose arguments do not fit it, as `prelude.ProgramError`."""

    def __init__(
        self, problem: str, place: str = "", kind: ErrorKind = "shape", error: str = ""
    ) -> None:
        asked = f"\n  asked for by {place}" if place else ""
        super().__init__(f"{problem}{asked}", kind)
        self.problem: str = problem
        self.error: str = error

    def for_users(self, shown: CallError) -> Exception:
        """Return the exception for users, of the class that a check asks for if any."""
        if not self.error:
            return shown
        error = EXCEPTIONS[self.error](self.problem)
        error.__cause__ = shown
        return error


DIVIDED_BY_ZERO = "a size is divided by zero"
ZERO_HINT = "a size of 0 cannot divide: n // gt.maximum(m, 1) divides by at least 1"
_TRACED = "Tracer", "Concretization", "NonConcrete"
_NO_BUCKET = "no bucket has room"  # as programs raise it, see `listed`
_LONGEST = 600  # characters of a foreign message


@dataclass(frozen=True)
class Program:
    """The text of a program, and the file name that it was compiled under."""

    text: str
    filename: str
    foreigns: Mapping[str, Callable[..., Any]]  # functions that have no text

    def load(self) -> Any:
        """Execute the text as a module of its own."""
        module = ModuleType("graphc_program")
        for code in code_objects(self.text, self.filename):
            exec(code, module.__dict__)
        module.__dict__.update(self.foreigns)
        module.__dict__["ProgramError"] = ProgramCallError  # it raises our own error
        return module

    def frames(self, error: BaseException) -> list[tuple[str, int]]:
        """Return the functions of the program that were running, and their lines."""
        return [
            (frame.f_code.co_name, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self.filename
        ]

    def user_line_of(self, line: int) -> str:
        """Return the user's line that a program line is printed for, or ""."""
        for text in reversed(self.text.splitlines()[:line]):
            if text.lstrip().startswith("# "):
                return shortened(text.strip()[2:])
            if text.startswith("def "):
                break
        return ""


def refused_call(problem: str, kind: ErrorKind, **parts: str) -> CallError:
    """Return the error of a call, with the user's line; see `describe` for `parts`."""
    return CallError(describe(problem, where=user_place(), **parts), kind)


def call_error(error: Exception, program: Program, arguments: str) -> CallError:
    """Return the error that users see; its cause is `error` where that says more."""
    problem, hint, kind, cause = _explanation(error)
    frames = program.frames(error)
    asked = program.user_line_of(frames[-1][1]) if frames else ""
    if asked:
        problem += f"\n  asked for by {asked}"
    shown = refused_call(problem, kind, arguments=arguments, hint=hint)
    shown.__cause__ = _without_library_frames(error) if cause else None
    return shown


def not_pickled(function: str) -> GraphError:
    """Return the error for pickling a compiled function, shown as `function`."""
    problem = "a compiled function cannot be pickled: loading it would run code"
    hint = "f.save(path) writes a program that runs without graphc"
    return graph_error(problem, op="pickle", got=function, hint=hint)


def _explanation(error: Exception) -> tuple[str, str, ErrorKind, bool]:
    """Return the problem, a hint, its kind, and whether the exception says any more."""
    name = type(error).__name__
    if isinstance(error, ZeroDivisionError):
        return DIVIDED_BY_ZERO, ZERO_HINT, "zero", False
    if isinstance(error, ValueError) and str(error).startswith(_NO_BUCKET):
        hint = "list a larger one in buckets, or say Pad(..., open_ended=True)"
        return str(error), hint, "shape", False
    if name.startswith(_TRACED):
        return (
            "a number that the program must know is being traced",
            "call the function outside of jax.jit, jax.vmap and jax.grad; "
            "its explain() lists what it reads",
            "traced",
            False,
        )
    return f"{name}: {shortened(str(error), _LONGEST)}", "", "other", True


def _without_library_frames(error: Exception) -> Exception:
    """Return the exception without the frames of libraries that it came through."""
    error.__cause__ = None
    error.__suppress_context__ = True
    return error.with_traceback(None)
