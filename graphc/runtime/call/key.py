"""The key of a call: all about its arguments that decides which program runs it."""

from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any

import numpy as np

_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}


def kind_of(jax: ModuleType) -> Callable[[object], Hashable]:
    """Return a function that gives the kind of an argument: all that chooses a program.

    The kind is a dtype and a shape; for an array of JAX, it includes the weak type and
    the device that the array is committed to. It is None where a program depends on
    more.
    """
    array_type, tracer = jax.Array, jax.core.Tracer
    arrays: set[type[Any]] = set()  # types of JAX arrays that are no tracers

    def kind(argument: Any) -> Hashable:
        argument_type: type[Any] = type(argument)
        if argument_type is np.ndarray:
            return argument.dtype, argument.shape
        if argument_type in arrays:
            if argument.committed:
                return argument.aval, argument.sharding
            return argument.aval
        if argument_type in _NUMBERS:
            return _NUMBERS[argument_type]
        if isinstance(argument, np.generic):
            return str(argument.dtype)
        if isinstance(argument, array_type) and not isinstance(argument, tracer):
            arrays.add(argument_type)
            return kind(argument)
        return None

    return kind
