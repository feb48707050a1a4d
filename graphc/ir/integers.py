"""Integers of Python and NumPy, which are known when a graph is built."""

from operator import index
from typing import Any

import numpy as np

from graphc.errors import GraphError, graph_error, shortened

_IN_GRAPHS = (
    "it must be known when the graph is built: give an int of Python, or a static "
    "argument of graphc.jit, by static_argnames"
)


def integer_or_none(x: object) -> int | None:
    """Return `x` as an int if `operator.index` takes it and it is no bool, or None."""
    if type(x) is int:
        return x
    if isinstance(x, (bool, np.bool_)):
        return None
    number: Any = x
    try:
        return index(number)
    except (TypeError, GraphError):  # a symbolic value has no number yet
        return None


def as_integer(x: object, problem: str, op: str) -> int:
    """Return `x` as an int; raises GraphError with the `problem` for non-integers."""
    number = integer_or_none(x)
    if number is None:
        value: Any = x
        got = str(value.type) if hasattr(x, "type") else repr(x)
        raise integer_error(x, problem, op, got)
    return number


def integer_error(x: object, problem: str, op: str, got: str) -> GraphError:
    """The error for an `x` that is no integer, and is described in `got`."""
    hint = _IN_GRAPHS if hasattr(x, "type") else ""
    return graph_error(problem, op=op, got=shortened(got), hint=hint)
