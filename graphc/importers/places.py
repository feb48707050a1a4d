"""Replace objects that the user's code holds under its names, for the time of a trace.

`from numpy import zeros` binds a name of the user's module; closures, defaults,
dictionaries and fields may hold such a function as well.
"""

import sys
from collections.abc import (
    Callable,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Protocol, cast

from graphc.errors import is_user_file
from graphc.importers.reachable import is_user_module, reachable_objects
from graphc.ir.forks import RenewedLock

ABSENT = object()  # the content where a dictionary lacks the key


class _Place(Protocol):
    """A place in the user's code that holds an object."""

    @property
    def key(self) -> tuple[int, object]:
        """The identity of the place."""
        ...

    def content(self) -> object:
        """The object that the place holds."""
        ...

    def hold(self, item: object) -> None:
        """Make the place hold another object."""
        ...


@dataclass(frozen=True)
class _Keyed:
    """An entry of a dictionary: of globals, fields of an object, or the user's own."""

    entries: dict[Hashable, object]
    name: Hashable

    @property
    def key(self) -> tuple[int, object]:
        return id(self.entries), self.name

    def content(self) -> object:
        return self.entries.get(self.name, ABSENT)

    def hold(self, item: object) -> None:
        if item is ABSENT:
            del self.entries[self.name]
        else:
            self.entries[self.name] = item


@dataclass(frozen=True)
class _Cell:
    """A variable in the closure of a function."""

    cell: CellType

    @property
    def key(self) -> tuple[int, object]:
        return id(self.cell), None

    def content(self) -> object:
        try:
            return self.cell.cell_contents
        except ValueError:  # the cell is still empty
            return None

    def hold(self, item: object) -> None:
        self.cell.cell_contents = item


class _WithDefaults(Protocol):
    """A Python function."""

    __defaults__: tuple[object, ...] | None


@dataclass(frozen=True)
class _Positional:
    """The default of a positional argument."""

    function: _WithDefaults
    position: int

    @property
    def key(self) -> tuple[int, object]:
        return id(self.function), self.position

    def content(self) -> object:
        return (self.function.__defaults__ or ())[self.position]

    def hold(self, item: object) -> None:
        defaults: list[object] = list(self.function.__defaults__ or ())
        defaults[self.position] = item
        self.function.__defaults__ = tuple(defaults)


@dataclass
class _Borrowed:
    """The content of a place before and during `traces` traces that borrow it."""

    before: object
    meanwhile: object
    traces: int = 0


_LOCK = RenewedLock()
_borrowed: dict[tuple[int, object], _Borrowed] = {}


@contextmanager
def replacing(
    function: Callable[..., object],
    replacements: Mapping[int, object],
    builtins: Mapping[str, object] = MappingProxyType({}),
) -> Generator[None]:
    """Replace objects in the places that a function can reach.

    `replacements` is keyed by the identity of the object to be replaced, and `builtins`
    by names that modules do not define themselves.
    """
    with _LOCK:
        places = [
            place
            for place in _places(function, builtins)
            if _borrow(place, replacements, builtins)
        ]
    try:
        yield
    finally:
        with _LOCK:
            for place in places:
                _restore(place)


def _borrow(
    place: _Place, replacements: Mapping[int, object], builtins: Mapping[str, object]
) -> bool:
    """Put the replacement for its content into a place; False if there is none."""
    content = place.content()
    borrowed = _borrowed.get(place.key)
    if borrowed is None:
        name = place.key[1]
        if content is ABSENT and isinstance(name, str):
            meanwhile = builtins.get(name, ABSENT)
        else:
            meanwhile = replacements.get(id(content), ABSENT)
        if meanwhile is ABSENT:
            return False
        borrowed = _Borrowed(content, meanwhile)
        _borrowed[place.key] = borrowed
        place.hold(borrowed.meanwhile)
    borrowed.traces += 1
    return True


def _restore(place: _Place) -> None:
    """Put a place's content back, unless the user has changed it in the meantime."""
    borrowed = _borrowed[place.key]
    borrowed.traces -= 1
    if not borrowed.traces:
        del _borrowed[place.key]
        if place.content() is borrowed.meanwhile:
            place.hold(borrowed.before)


def _places(
    function: Callable[..., object], builtins: Iterable[str]
) -> Iterator[_Place]:
    """The places from which the user's code takes objects."""
    seen = set[int]()
    for item in (function, *reachable_objects(function)):
        if isinstance(item, FunctionType) and is_user_file(item.__code__.co_filename):
            yield from map(_Cell, item.__closure__ or ())
            for position in range(len(item.__defaults__ or ())):
                yield _Positional(item, position)
        for entries in _entries_of(item):
            if id(entries) not in seen:
                seen.add(id(entries))
                yield from (_Keyed(entries, name) for name in list(entries))
        names = _globals_of(item)
        if names is not None and id(names) not in seen:
            seen.add(id(names))
            yield from (_Keyed(names, name) for name in [*names, *builtins])


def _entries_of(item: object) -> Iterator[dict[Hashable, object]]:
    """The dictionary that an object is, or in which it keeps fields or arguments."""
    if type(item) is dict:
        yield item
    elif isinstance(item, partial):
        yield cast(Any, item.keywords)
    elif isinstance(item, FunctionType):
        yield cast(Any, item.__kwdefaults__ or {})
    elif not isinstance(item, (type, ModuleType)) and _globals_of(item) is not None:
        yield getattr(item, "__dict__", {})


def _globals_of(item: object) -> dict[Any, object] | None:
    """The globals of a user's function or class; None for those of libraries."""
    if isinstance(item, FunctionType):
        return item.__globals__ if is_user_file(item.__code__.co_filename) else None
    name = (item if isinstance(item, type) else type(item)).__module__
    module = sys.modules.get(name)
    return vars(module) if module is not None and is_user_module(name) else None
