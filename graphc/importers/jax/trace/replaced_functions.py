"""Replace functions of JAX that take different steps for each size.

Such functions count their steps in Python. In a trace for many sizes, a replacement is
called that takes the same steps for all of them.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from graphc.importers.jax.read.settings import is_for_many_sizes
from graphc.importers.jax.trace.dimensions import DIMENSION
from graphc.importers.jax.trace.recorder import recorder_of


def needs_same_steps(size: object) -> bool:
    """Whether the steps for this size must be the same as for others."""
    if isinstance(size, DIMENSION):
        return is_for_many_sizes() or recorder_of(size) is not None
    return type(size) is int and size > 1 and is_for_many_sizes()


def replace_in_jax(public: Any, instead: Any) -> Callable[..., Any]:
    """Make JAX's function run `instead`, and return a copy of the original.

    The code of the function is replaced, so that this works under whatever name the
    function was imported. The new code sees the names of JAX's module and no others. A
    function with other arguments, from another version of JAX, is left as it is.
    """
    original: Any = inspect.unwrap(public)
    if not isinstance(original, FunctionType) or original.__closure__:
        return original
    names = [inspect.getfullargspec(function).args for function in (original, instead)]
    if names[0] != names[1]:
        return original
    copy = FunctionType(
        original.__code__,
        original.__globals__,
        original.__name__,
        original.__defaults__,
    )
    original.__code__ = instead.__code__
    return copy
