"""NumPy's functions of values, where NumPy does not ask its arguments.

A value answers for most functions of NumPy, but `np.zeros(x.shape)`, `np.arange(n)` and
`np.take(table, i)` are not asked of it. While a function is traced, such functions of
NumPy are replaced by ones that give a value where an argument is symbolic. Nothing
changes for other arguments, nor in other threads.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from graphc.errors import called_by_user
from graphc.importers.numpy.arrays import KEEPING, TracedArray, called, content_of
from graphc.importers.numpy.memory import Memory, is_symbolic
from graphc.ir.build import as_value, default_float, strong
from graphc.ir.dispatch import name_of
from graphc.ir.namespace import FUNCTIONS

WRITABLE = frozenset(  # functions that make arrays, which may be written
    [
        "array", "copy", "zeros", "ones", "empty", "full", "zeros_like",
        "ones_like", "empty_like", "full_like", "eye", "identity", "tri",
        "arange", "linspace", "logspace", "geomspace",
    ]
)
ORDERED = frozenset(["zeros", "ones", "empty", "full"])  # in memory, as C has them


class _Tracing(threading.local):
    """How many functions this thread traces, one within the other."""

    depth = 0


_TRACING = _Tracing()
_LOCK = threading.Lock()
_replaced: dict[str, Any] = {}  # functions of NumPy, by name, while any thread traces
_tracers = 0  # threads that do


@contextmanager
def numpy_of_values() -> Iterator[None]:
    """Within: NumPy's functions take values, and floats are float64 as they are there.

    It is so in this thread. Names that were imported from NumPy one by one, as by `from
    numpy import zeros`, stay what they are.
    """
    _enter()
    _TRACING.depth += 1
    try:
        with default_float("float64"):
            yield
    finally:
        _TRACING.depth -= 1
        _leave()


def _enter() -> None:
    global _tracers
    with _LOCK:
        if not _tracers:
            for name, function in _functions():
                _replaced[name] = function
                setattr(np, name, _of_values(function))
        _tracers += 1


def _leave() -> None:
    global _tracers
    with _LOCK:
        _tracers -= 1
        if not _tracers:
            for name, function in _replaced.items():
                setattr(np, name, function)
            _replaced.clear()


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of NumPy that there are of values too; ufuncs ask by themselves."""
    for name, found in vars(np).items():
        plain = hasattr(found, "__name__") and not isinstance(found, (np.ufunc, type))
        own = plain and callable(found) and found.__module__ == "numpy"
        if own and not name.startswith("_") and name_of(found) in FUNCTIONS:
            yield name, found


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that leaves values to ours.

    Arrays that users make have a memory of ours, since values may be written there.
    """
    name = function.__name__
    makes_arrays = name_of(function) == "asarray"

    @wraps(function)
    def asked(*args: Any, **options: Any) -> Any:
        if not _TRACING.depth:
            return function(*args, **options)
        if is_symbolic(content_of([*args, *options.values()])):
            if makes_arrays and isinstance(args[0], (list, tuple)):
                args = (_with_arrays(args[0]), *args[1:])
            found = called(function, args, options)
            if name in ORDERED:
                found.memory.ordered = True
            return found
        if name in KEEPING and args and isinstance(args[0], TracedArray):
            return called(function, args, options)
        found = function(*content_of(args), **content_of(options))
        if name not in WRITABLE or not called_by_user():
            return found
        content = np.zeros_like(found) if name.startswith("empty") else found
        return TracedArray(Memory(content, ordered=name in ORDERED))

    return asked


def _with_arrays(items: Any) -> Any:
    """Nested lists in which numbers are arrays: these have dtypes in NumPy's lists."""
    if isinstance(items, (list, tuple)):
        return [_with_arrays(item) for item in items]
    return strong(as_value(items))
