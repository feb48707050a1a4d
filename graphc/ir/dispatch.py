"""NumPy's functions of values: `np.sin(x)` is `gt.sin(x)`, or says what to use."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.ir.concrete import meant
from graphc.ir.namespace import FUNCTIONS

RENAMED = {"a_min": "min", "a_max": "max"}  # of np.clip
SPACES = {"numpy": "", "numpy.linalg": "linalg.", "numpy.fft": "fft."}


def apply_ufunc(
    ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """The answer of `__array_ufunc__`, for operators of NumPy's arrays too."""
    name = ufunc.__name__
    found = FUNCTIONS.get(name)
    if found is None:
        raise _unknown(name)
    if method != "__call__":
        raise _unknown(f"{name}.{method}")
    if "out" in options:
        hint = "write a = a + x, which gives a new value"
        problem = "cannot write a symbolic value into an array"
        raise graph_error(problem, op=f"numpy.{name}", hint=hint)
    return _called(found, name, inputs, options)


def apply_function(
    function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """The answer of `__array_function__`."""
    space = SPACES.get(function.__module__, f"{function.__module__}.")
    name = space + function.__name__
    found = FUNCTIONS.get(name)
    if found is None:
        raise _unknown(name)
    return _called(found, name, *_by_name(function, args, options))


def _by_name(
    function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Optional arguments as keywords: NumPy has some in between that we have not."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # written in C
        return args, options
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return args, options
    needed = [p for p in parameters if p.default is p.empty]
    given = zip(parameters[len(needed) :], args[len(needed) :], strict=False)
    options = {p.name: a for p, a in given} | options
    return args[: len(needed)], {RENAMED.get(k, k): v for k, v in options.items()}


def _called(
    found: Callable[..., Any], name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    try:
        inspect.signature(found).bind(*args, **options)
    except TypeError as error:
        hint = f"see the arguments of graphc.tensor.{name}"
        raise graph_error(str(error), op=f"numpy.{name}", hint=hint) from None
    return found(*args, **options)


def _unknown(name: str) -> GraphError:
    """The error of a function of NumPy, or of a library that extends it."""
    own = name.removeprefix("numpy.")
    root, last = own.split(".")[0], own.split(".")[-1]
    op = f"numpy.{own}" if hasattr(np, root) else own
    return graph_error("takes no symbolic values", op=op, hint=meant(last))
