"""The objects that a function can name: by closures, globals, defaults, and fields.

They are what a trace may read beside its arguments.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain, islice
from types import (
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from weakref import ref

import numpy as np

from graphc.errors import is_library, is_user_file
from graphc.importers.decorated import Decorated

MOST_WITHIN = 8  # structures within structures, and functions that call functions
MOST_PARTS = 10_000  # of each level that are looked at
_WITHOUT_PARTS = frozenset([bool, int, float, complex, str, bytes, type(None)])


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
                if type(part) not in _WITHOUT_PARTS and id(part) not in seen:
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
    if isinstance(item, type):
        return _of_class(item)
    if isinstance(item, ModuleType):
        return ()
    return [*_items(item), *_fields(item)]


def _items(item: object) -> Iterable[object]:
    """The items of a structure, and what a variable or a reference stands for."""
    if isinstance(item, (dict, MappingProxyType)):
        return chain.from_iterable(list(item.items()))
    if isinstance(item, (list, tuple, set, frozenset, deque)):
        return list(item)
    if isinstance(item, np.ndarray) and item.dtype == object:
        return item.ravel().tolist()
    if isinstance(item, ContextVar):
        return (item.get(None),)
    if isinstance(item, ref):
        return (item(),)
    return ()


def _fields(item: object) -> Sequence[object]:
    """The class of an object, which may have methods, and its attributes."""
    kind = type(item)
    if kind.__module__ == "builtins":
        return ()
    fields = getattr(item, "__dict__", None)
    slotted = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    slotted = [base for base in slotted if is_users(base.__module__)]
    if not slotted and not isinstance(fields, dict):
        return ()
    values = [*fields.values()] if isinstance(fields, dict) else []
    for slot in chain.from_iterable(vars(base).values() for base in slotted):
        if isinstance(slot, MemberDescriptorType):
            try:
                values.append(slot.__get__(item))
            except AttributeError:  # which is empty so far
                continue
    return [kind, *values]  # decorated functions have the one within


def _of_class(item: type) -> Iterator[object]:
    """The attributes of a user's class, methods included: they may be read."""
    if type(item) is not type:
        yield type(item)
    for base in item.__mro__:
        if not is_users(base.__module__):
            continue
        for name, attribute in list(vars(base).items()):
            if isinstance(attribute, (staticmethod, classmethod)):
                yield attribute.__func__
            elif isinstance(attribute, property):
                yield attribute.fget
            elif isinstance(attribute, FunctionType) or not name.startswith("__"):
                yield attribute


def is_users(module: str) -> bool:
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
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()
    if is_library(function.__code__.co_filename):
        return  # whose globals are its own
    names = list(_names(function.__code__))
    for name in names:
        if name in function.__globals__:
            item = function.__globals__[name]
            yield item
            yield from _of_module(item, names)


def _of_module(item: object, names: Sequence[str]) -> Iterator[object]:
    """The attributes of these names, where an item is a module of the user's."""
    if not isinstance(item, ModuleType) or not is_users(item.__name__):
        return
    for name in names:
        if name in vars(item):
            part = vars(item)[name]
            yield part
            yield from _of_module(part, [n for n in names if n != name])


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals in a code, and in those of functions within."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
