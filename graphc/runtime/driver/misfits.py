"""Segments that tell whether the branches that were taken fit, as functions call them.

Where all fits, which is known when JAX traces a segment, its calls are as any other.
"""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def fit_of(jitted: Any) -> Run | None:
    """The function that gives the results alone, or raises; None where no flags are.

    It is that of the program.
    """
    fit: Run | None = getattr(getattr(jitted, "__wrapped__", None), "taken_fit", None)
    return fit


def has_flags(found: Any) -> bool:
    """Whether a segment, or its type, has given flags beside its results."""
    return type(found) is dict and 0 in found


def fitting(run: Run, fit: Run) -> Run:
    """`run`, a jitted segment, with its results alone."""
    return lambda *args: fit(run(*args))


def missed(miss: Run, fit: Run) -> Run:
    """A cache miss of JAX with the results alone; calls with flags are not kept."""

    def run(*args: Any) -> Any:
        found, *others = miss(*args)
        if not has_flags(found):
            return found, *others
        return fit(found), None, False

    return run
