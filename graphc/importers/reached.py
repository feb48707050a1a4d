"""The objects that a function can name: by closures, globals, defaults, and fields.

They are what a trace may read beside its arguments.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from types import CodeType, FunctionType, MethodType, ModuleType

from graphc.errors import is_library, is_user_file
from graphc.importers.decorated import Decorated

MOST_WITHIN = 8  # structures within structures, and functions that call functions
MOST_PARTS = 10_000  # of each level that are looked at


def reached(*roots: object) -> Iterator[object]:
    """The objects that functions name, by other functions and objects too, once."""
    seen = set[int]()
    for part in chain.from_iterable(spread(*roots)):
        if id(part) not in seen:
            seen.add(id(part))
            yield part


def spread(*roots: object) -> Iterator[Sequence[object]]:
    """The parts that functions name, and then those of each such part, item by item."""
    level = list(roots)
    seen = set[int]()
    for _ in range(MOST_WITHIN):
        next_level: list[object] = []
        left = MOST_PARTS
        for item in level:
            parts = list(islice(_parts(item), left))
            left -= len(parts)
            yield parts
            for part in parts:
                if id(part) not in seen:
                    seen.add(id(part))
                    next_level.append(part)
        level = next_level


def _parts(item: object) -> Iterable[object]:
    """The values that a function may read, or that an object holds."""
    if isinstance(item, FunctionType):
        return _named(item)
    if isinstance(item, MethodType):
        return (item.__func__, item.__self__)
    if isinstance(item, partial):
        return (item.func, *item.args, *item.keywords.values())
    if isinstance(item, Decorated):  # which counts its calls, too
        function, more = item._parts()
        return (function, *more)
    if isinstance(item, dict):
        return chain.from_iterable(list(item.items()))
    if isinstance(item, (list, tuple, set, frozenset)):
        return list(item)
    if isinstance(item, type):
        return _of_class(item)
    fields = getattr(item, "__dict__", None)
    closed = isinstance(item, ModuleType) or type(item).__module__ == "builtins"
    if closed or not isinstance(fields, dict):
        return ()
    return [type(item), *fields.values()]  # decorated functions have the one within


def _of_class(item: type) -> Iterator[object]:
    """The attributes of a user's class, methods included: they may be read."""
    for base in item.__mro__:
        if not _is_users(base.__module__):
            continue
        for name, attribute in list(vars(base).items()):
            if isinstance(attribute, (staticmethod, classmethod)):
                yield attribute.__func__
            elif isinstance(attribute, property):
                yield attribute.fget
            elif isinstance(attribute, FunctionType) or not name.startswith("__"):
                yield attribute


def _is_users(module: str) -> bool:
    """Whether a module is neither of graphc nor of a library."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return is_user_file(file) if file else module == "__main__"


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
    names = list(_names(function.__code__))
    for name in names:
        if name in function.__globals__:
            item = function.__globals__[name]
            yield item
            if isinstance(item, ModuleType) and _is_users(item.__name__):
                yield from (vars(item)[n] for n in names if n in vars(item))


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals in a code, and in those of functions within."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
