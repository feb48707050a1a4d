"""The objects that a function can name: by closures, globals, defaults, and fields.

They are what a trace may read beside its arguments.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType

from graphc.errors import is_library

MOST_WITHIN = 8  # structures within structures, and functions that call functions
MOST_PARTS = 10_000  # of them that are looked at


def reached(function: Callable[..., object]) -> Iterator[object]:
    """The objects that a function names, by other functions and objects too, once."""
    level: list[object] = [function]
    seen = set[int]()
    for _ in range(MOST_WITHIN):
        parts = [part for item in level for part in _parts(item)]
        level = []
        for part in parts[:MOST_PARTS]:
            if id(part) not in seen:
                seen.add(id(part))
                level.append(part)
                yield part


def _parts(item: object) -> Iterable[object]:
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
    closed = isinstance(item, ModuleType) or type(item).__module__ == "builtins"
    if closed or not isinstance(fields, dict):
        return ()
    return list(fields.values())  # decorated functions have the one within among them


def _named(function: FunctionType) -> Iterator[object]:
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
