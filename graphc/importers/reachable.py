"""The objects that a function can name: by closures, globals, defaults, and fields.

A trace may read these objects besides its arguments.
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
from graphc.importers.decorated_function import DecoratedFunction

MOST_WITHIN = 8  # nesting of structures and of functions that call others
MOST_PARTS = 10_000  # objects that are looked at in each level
_WITHOUT_PARTS = frozenset([bool, int, float, complex, str, bytes, type(None)])


def reachable_objects(*roots: object) -> Iterator[object]:
    """Yield each object that `roots` can name, directly or not, once."""
    seen = set[int]()
    for part in chain.from_iterable(parts_by_level(*roots)):
        if id(part) not in seen:
            seen.add(id(part))
            yield part


def parts_by_level(*roots: object) -> Iterator[Sequence[object]]:
    """Yield the parts of each root, then the parts of each part, level by level."""
    level = list(roots)
    seen = set[int]()
    for _ in range(MOST_WITHIN):
        next_level: list[object] = []
        budget = MOST_PARTS
        for item in level:
            parts = list(islice(_parts(item), budget))
            budget -= len(parts)
            yield parts
            for part in parts:
                if type(part) not in _WITHOUT_PARTS and id(part) not in seen:
                    seen.add(id(part))
                    next_level.append(part)
        level = next_level


def _parts(item: object) -> Iterable[object]:
    """The values that a function may read, or that an object holds."""
    if isinstance(item, FunctionType):
        return _values_named_by(item)
    if isinstance(item, MethodType):
        return (item.__func__, item.__self__)
    if isinstance(item, partial):
        return (item.func, *item.args, *item.keywords.values())
    if isinstance(item, DecoratedFunction):  # not by its fields: these count calls too
        function, more = item._parts()
        return (function, *more)
    if isinstance(item, type):
        return _attributes_of_class(item)
    if isinstance(item, ModuleType):
        return ()
    return [*_items(item), *_fields(item)]


def _items(item: object) -> Iterable[object]:
    """The items of a container, or the target of a context variable or reference."""
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
    slotted = [base for base in slotted if is_user_module(base.__module__)]
    if not slotted and not isinstance(fields, dict):
        return ()
    values = [*fields.values()] if isinstance(fields, dict) else []
    for slot in chain.from_iterable(vars(base).values() for base in slotted):
        if isinstance(slot, MemberDescriptorType):
            try:
                values.append(slot.__get__(item))
            except AttributeError:  # the slot is still empty
                continue
    return [kind, *values]  # decorated functions keep the inner one in a field


def _attributes_of_class(item: type) -> Iterator[object]:
    """The attributes of a user's class that may be read, methods included."""
    if type(item) is not type:
        yield type(item)
    for base in item.__mro__:
        if not is_user_module(base.__module__):
            continue
        for name, attribute in list(vars(base).items()):
            if isinstance(attribute, (staticmethod, classmethod)):
                yield attribute.__func__
            elif isinstance(attribute, property):
                yield attribute.fget
            elif isinstance(attribute, FunctionType) or not name.startswith("__"):
                yield attribute


def is_user_module(name: str) -> bool:
    """Whether a module belongs to the user, and not to graphc or a library.

    Python lists the modules of libraries; a user may load a file without listing it.
    """
    root = str(name).partition(".")[0]
    module = sys.modules.get(name) or sys.modules.get(root)
    file = getattr(module, "__file__", None)
    return is_user_file(file) if file else module is None or name == "__main__"


def _values_named_by(function: FunctionType) -> Iterator[object]:
    """The values that the code of a function can name."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is still empty
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()
    if is_library(function.__code__.co_filename):
        return  # the globals belong to the library
    names = [name for code in nested_codes(function.__code__) for name in code.co_names]
    for name in names:
        if name in function.__globals__:
            item = function.__globals__[name]
            yield item
            yield from _attributes_of_module(item, names)


def _attributes_of_module(item: object, names: Sequence[str]) -> Iterator[object]:
    """The attributes with these names, if `item` is a module of the user's."""
    if not isinstance(item, ModuleType) or not is_user_module(item.__name__):
        return
    for name in names:
        if name in vars(item):
            part = vars(item)[name]
            yield part
            yield from _attributes_of_module(part, [n for n in names if n != name])


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)
