"""Arrays that a function takes from outside of it, which may be written in between.

JAX reads them when it traces a function: a program holds for what they were then, and a
size that is new is traced for what they are. So it is here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from graphc.errors import is_library

NDArray = np.ndarray[Any, Any]
MOST_WITHIN = 8  # structures within structures, and functions that call functions
MOST_PARTS = 10_000  # of them that are looked at


@dataclass(frozen=True)
class Snapshot:
    """The arrays that a function reads, and copies of what was in them."""

    arrays: tuple[NDArray, ...]
    copies: tuple[NDArray, ...]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Snapshot":
        """The arrays of NumPy that a function names, as they are now."""
        found = {id(a): a for a in _arrays(function) if a.flags.writeable}
        arrays = tuple(found.values())
        return cls(arrays, tuple([a.copy() for a in arrays]))

    def is_current(self) -> bool:
        """Whether nothing has been written since."""
        return all(map(_same, self.arrays, self.copies))


def _same(array: NDArray, copy: NDArray) -> bool:
    return array.shape == copy.shape and np.array_equal(_bytes(array), _bytes(copy))


def _bytes(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _arrays(function: Callable[..., Any]) -> Iterator[NDArray]:
    """The arrays that a function names, by other functions and by objects too."""
    level, seen = [function], set[int]()
    for _ in range(MOST_WITHIN):
        parts = [part for item in level for part in _parts(item)]
        level = []
        for part in parts[:MOST_PARTS]:
            if isinstance(part, np.ndarray) and part.dtype != object:
                yield part
            elif id(part) not in seen:
                seen.add(id(part))
                level.append(part)


def _parts(item: Any) -> Iterable[Any]:
    """The values that a function may read, or that an object holds."""
    if isinstance(item, FunctionType):
        return _named(item)
    if isinstance(item, MethodType):
        return (item.__func__, item.__self__)
    if isinstance(item, partial):
        return (item.func, *item.args, *item.keywords.values())
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, (list, tuple)):
        return item
    fields = getattr(item, "__dict__", None)
    if not isinstance(fields, dict) or type(item).__module__ == "builtins":
        return ()  # a module, a class
    return list(fields.values())  # decorated functions have the one within among them


def _named(function: FunctionType) -> Iterator[Any]:
    """The values that the code of a function has names for."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # which is empty so far
            continue
    yield from function.__defaults__ or ()
    yield from function.__dict__.values()
    if is_library(function.__code__.co_filename):
        return  # whose globals are its own
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals in a code, and in those of functions within."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
