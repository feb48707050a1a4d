"""Functions and methods as users call them: tracebacks show only the users' frames.

Rules inside graphc call the functions themselves, through `F`, and so save a frame.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from graphc.ir.namespace import FUNCTIONS, METHODS, F
from graphc.ir.tracebacks import hide_own_frames


@cache
def public_function(name: str) -> Callable[..., object]:
    """The function of `graphc.tensor` with this name, for users."""
    space, _, last = name.rpartition(".")
    entered: Any = hide_own_frames(FUNCTIONS[name])
    entered.__module__ = ".".join(filter(None, ("graphc.tensor", space)))
    entered.__name__ = entered.__qualname__ = last
    return entered


@cache
def public_method(name: str) -> Callable[..., object]:
    """The method of values with this name, for users."""
    return hide_own_frames(METHODS[name])


def getattr_of_space(space: str = "") -> Callable[[str], object]:
    """The `__getattr__` of a module in which users find the functions of a space."""
    within: Any = getattr(F, space) if space else F
    start = f"{space}." if space else ""

    def member(name: str) -> object:
        whole = start + name
        return public_function(whole) if whole in FUNCTIONS else getattr(within, name)

    return member
