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

from graphc.errors import called_by_user, graph_error
from graphc.importers.numpy.arrays import KEEPING, TracedArray, called, content_of
from graphc.importers.numpy.memory import Memory, is_symbolic
from graphc.ir.build import as_value, default_float, strong
from graphc.ir.concrete import words_of_numpy
from graphc.ir.dispatch import name_of
from graphc.ir.namespace import FUNCTIONS

WRITABLE = frozenset(  # functions that make arrays, which may be written
    [
        "array",
        "copy",
        "zeros",
        "ones",
        "empty",
        "full",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "eye",
        "identity",
        "tri",
        "arange",
        "linspace",
        "logspace",
        "geomspace",
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
        with default_float("float64"), words_of_numpy():
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
            for name, columns in (("r_", False), ("c_", True)):
                _replaced[name] = getattr(np, name)
                setattr(np, name, _Joining(_replaced[name], columns))
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


class _Joining:
    """`np.r_`, or `np.c_` which joins columns, of values too."""

    def __init__(self, plain: Any, columns: bool) -> None:
        self._plain, self._columns = plain, columns

    def __len__(self) -> int:
        return len(self._plain)

    def __getitem__(self, items: Any) -> Any:
        given = items if isinstance(items, tuple) else (items,)
        if not (_TRACING.depth and is_symbolic(content_of(given))):
            return self._plain[items]
        arrays = [self._array(item) for item in given]
        return np.concatenate(arrays, axis=-1 if self._columns else 0)

    def _array(self, item: Any) -> Any:
        """An item as an array: slices count, or divide by an imaginary step."""
        if isinstance(item, str):
            hint = "use numpy.concatenate, stack or column_stack"
            raise graph_error("takes no directives", op="r_", got=item, hint=hint)
        if isinstance(item, slice):
            start, step = item.start or 0, 1 if item.step is None else item.step
            if isinstance(step, complex):
                item = np.linspace(start, item.stop, int(abs(step)))
            else:
                item = np.arange(start, item.stop, step)
        array = np.atleast_1d(np.asarray(item))
        return array[:, None] if self._columns and array.ndim == 1 else array
