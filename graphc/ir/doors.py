"""Functions and methods as users call them: errors show the frames of users alone.

Rules call the functions themselves, by `F`, where a frame more would be of no use.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from graphc.ir.namespace import FUNCTIONS, METHODS, F
from graphc.ir.tracebacks import hiding


@cache
def door(name: str) -> Callable[..., object]:
    """The function of `graphc.tensor` of this name, for users."""
    space, _, last = name.rpartition(".")
    entered: Any = hiding(FUNCTIONS[name])
    entered.__module__ = ".".join(filter(None, ("graphc.tensor", space)))
    entered.__name__ = entered.__qualname__ = last
    return entered


@cache
def door_of_method(name: str) -> Callable[..., object]:
    """The method of values of this name, for users."""
    return hiding(METHODS[name])


def entrance(space: str = "") -> Callable[[str], object]:
    """The `__getattr__` of a module in which users find the functions of a space."""
    within: Any = getattr(F, space) if space else F
    start = f"{space}." if space else ""

    def member(name: str) -> object:
        whole = start + name
        return door(whole) if whole in FUNCTIONS else getattr(within, name)

    return member
