"""The names that sizes are printed with: no two of one program print the same."""

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Protocol

from graphc.errors import label

CAPACITY = "_capacity"  # after the name of a size: its stored size


class NamesOnce:
    """Hands out names, each once: with a number after those that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def once(self, base: str) -> str:
        """`base`, or the next name after it that is free."""
        name = base
        while name in self._taken:
            number = self._next.get(base, 1)
            self._next[base] = number + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class HasName(Protocol):
    """A symbol, as far as its name is concerned."""

    @property
    def name(self) -> str:
        """The name that it was given, which others may have too."""
        ...

    @property
    def serial(self) -> int:
        """Grows in the order of creation."""
        ...


class _Shown(threading.local):
    """The symbols that are printed with another name than their own."""

    names: Mapping[object, str] = {}


SHOWN = _Shown()


def distinct(
    symbols: Iterable[HasName], known: Mapping[object, str] | None = None
) -> dict[object, str]:
    """Other names for symbols whose own is that of an older one: `n_2` and so on.

    Symbols that are `known` keep the names that they have there.
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
    """The name that a symbol is printed with here.

    It may stand in code, except where the axis may be 1: no program has such.
    """
    name = symbol.name
    mark = "?" if is_of_maybe_one(name) else ""
    return SHOWN.names.get(symbol) or label(name.removesuffix(mark)) + mark


def is_of_maybe_one(name: str) -> bool:
    """Whether a name says that the axis may be 1: it is "b?"."""
    return name.endswith("?") and name[:-1].isidentifier()


@contextmanager
def naming(names: Mapping[object, str]) -> Generator[None]:
    """Within: sizes are printed with these names, where they have one."""
    outer = SHOWN.names
    SHOWN.names = names
    try:
        yield
    finally:
        SHOWN.names = outer
