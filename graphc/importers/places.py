"""Objects that the user's code has under its names, and others in their places.

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
from graphc.importers.reached import is_users, reached
from graphc.ir.forks import RenewedLock

ABSENT = object()  # stands in a dictionary where a key is not in it


class _Place(Protocol):
    """A place of the user's code that holds an object."""

    @property
    def key(self) -> tuple[int, object]:
        """The identity of the place."""
        ...

    def content(self) -> object:
        """The object that it holds."""
        ...

    def hold(self, item: object) -> None:
        """Let it hold another one."""
        ...


@dataclass(frozen=True)
class _Keyed:
    """An entry of a dictionary, of globals, of the fields of an object."""

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
    """A variable of a function around another one, which has it in its closure."""

    cell: CellType

    @property
    def key(self) -> tuple[int, object]:
        return id(self.cell), None

    def content(self) -> object:
        try:
            return self.cell.cell_contents
        except ValueError:  # which is empty so far
            return None

    def hold(self, item: object) -> None:
        self.cell.cell_contents = item


class _WithDefaults(Protocol):
    """A function of Python."""

    __defaults__: tuple[object, ...] | None


@dataclass(frozen=True)
class _Positional:
    """The default of an argument by its position."""

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
    """The content of a place before, and meanwhile, for so many traces."""

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
    """Within: other objects in the places that a function reaches.

    `replacements` are by the identities of what is there before, `builtins` by names
    that modules have not.
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
    """Let a place hold the replacement of its content; False where there is none."""
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
    """Let a place hold its own content, unless the user has changed it meanwhile."""
    borrowed = _borrowed[place.key]
    borrowed.traces -= 1
    if not borrowed.traces:
        del _borrowed[place.key]
        if place.content() is borrowed.meanwhile:
            place.hold(borrowed.before)


def _places(
    function: Callable[..., object], builtins: Iterable[str]
) -> Iterator[_Place]:
    """The places that the user's code takes objects from."""
    seen = set[int]()
    for item in (function, *reached(function)):
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
    """The dictionary that an object is, or keeps its fields or arguments in."""
    if type(item) is dict:
        yield item
    elif isinstance(item, partial):
        yield cast(Any, item.keywords)
    elif isinstance(item, FunctionType):
        yield cast(Any, item.__kwdefaults__ or {})
    elif not isinstance(item, (type, ModuleType)) and _globals_of(item) is not None:
        yield getattr(item, "__dict__", {})


def _globals_of(item: object) -> dict[Any, object] | None:
    """The globals of a function or of a class, where they are the user's, else None."""
    if isinstance(item, FunctionType):
        return item.__globals__ if is_user_file(item.__code__.co_filename) else None
    module = (item if isinstance(item, type) else type(item)).__module__
    return vars(sys.modules[module]) if is_users(module) else None
