"""The names that sizes are printed with: distinct for all sizes of one program."""

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Protocol

from graphc.errors import label

CAPACITY = "_capacity"  # follows the name of a size: the size as stored


class NamesOnce:
    """Hands out each name once, and appends a number to names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def once(self, base: str) -> str:
        """Return `base`, or the next free name derived from it."""
        name = base
        while name in self._taken:
            number = self._next.get(base, 1)
            self._next[base] = number + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class HasName(Protocol):
    """The part of a symbol that naming needs."""

    @property
    def name(self) -> str:
        """The name that the symbol was given, which other symbols may share."""
        ...

    @property
    def serial(self) -> int:
        """A number that grows in the order of creation."""
        ...


class _PrintedNames(threading.local):
    """The names of symbols that are not printed with their own."""

    names: Mapping[object, str] = {}


SHOWN = _PrintedNames()


def distinct_names(
    symbols: Iterable[HasName], known: Mapping[object, str] | None = None
) -> dict[object, str]:
    """New names for symbols whose own is taken by an older one: `n_2` and so on.

    Symbols in `known` keep the names that they have there.
    """
    names: dict[object, str] = dict(known or {})
    order = sorted({s for s in symbols if s not in names}, key=lambda s: s.serial)
    seen = set(names.values())
    taken = seen | {s.name for s in order}
    for symbol in order:
        if symbol.name in seen:
            number = 2
            while f"{symbol.name}_{number}" in taken:
                number += 1
            names[symbol] = f"{symbol.name}_{number}"
            taken.add(names[symbol])
        seen.add(symbol.name)
    return names


def shown_name(symbol: HasName) -> str:
    """The name with which a symbol is printed at present.

    The name can be used in code, except that of an axis that may be 1, which no program
    has.
    """
    name = symbol.name
    mark = "?" if is_of_maybe_one(name) else ""
    return SHOWN.names.get(symbol) or label(name.removesuffix(mark)) + mark


def is_of_maybe_one(name: str) -> bool:
    """Whether a name, as "b?", says that the axis may be 1."""
    return name.endswith("?") and name[:-1].isidentifier()


@contextmanager
def naming_sizes(names: Mapping[object, str]) -> Generator[None]:
    """Print sizes with these names, where they have one."""
    outer = SHOWN.names
    SHOWN.names = names
    try:
        yield
    finally:
        SHOWN.names = outer
