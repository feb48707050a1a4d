"""Segments that tell whether the branches that were taken fit, as functions call them.

Where all fits, which is known when JAX traces a segment, its calls are as any other.
"""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def _fit_of(jitted: Callable[..., object]) -> Run | None:
    """The function that gives the results alone, or raises; None where no flags are.

    It is that of the program.
    """
    fit: Run | None = getattr(getattr(jitted, "__wrapped__", None), "taken_fit", None)
    return fit


def has_flags(structure: object) -> bool:
    """Whether a segment, or its type, has given flags beside its results."""
    return type(structure) is dict and 0 in structure


def fitting(run: Run, jitted: Callable[..., object]) -> Run:
    """`run`, which calls a jitted segment, with its results alone."""
    fit = _fit_of(jitted)
    return run if fit is None else lambda *args: fit(run(*args))


def missed(miss: Run, jitted: Callable[..., object]) -> Run:
    """A cache miss of JAX with the results alone; calls with flags are not kept."""
    fit = _fit_of(jitted)
    if fit is None:
        return miss

    def run(*args: object) -> object:
        results, *others = miss(*args)
        if not has_flags(results):
            return results, *others
        return fit(results), None, False

    return run
