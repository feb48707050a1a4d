"""Calls of segments that tell by flags whether the branches taken fit their sizes.

Where everything fits, which is known when JAX traces a segment, there are no flags and
its calls are like any others.
"""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def _fit_of(jitted: Callable[..., object]) -> Run | None:
    """Return the program's function that takes flags off results, or raises.

    It is None for a segment without flags.
    """
    fit: Run | None = getattr(getattr(jitted, "__wrapped__", None), "taken_fit", None)
    return fit


def has_flags(structure: object) -> bool:
    """Whether a segment, or its type, gives flags beside its results."""
    return type(structure) is dict and 0 in structure


def without_flags(run: Run, jitted: Callable[..., object]) -> Run:
    """Make `run`, which calls a jitted segment, return its results without flags."""
    fit = _fit_of(jitted)
    return run if fit is None else lambda *args: fit(run(*args))


def miss_without_flags(miss: Run, jitted: Callable[..., object]) -> Run:
    """Make a cache miss of JAX return results without flags.

    C++ does not keep calls that have flags.
    """
    fit = _fit_of(jitted)
    if fit is None:
        return miss

    def run(*args: object) -> object:
        results, *others = miss(*args)
        if not has_flags(results):
            return results, *others
        return fit(results), None, False

    return run
