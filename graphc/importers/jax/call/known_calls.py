"""Calls like one before, whose program is found by one key.

The first call of some sizes goes a long way: its arguments are described, their family
is found, `shapes` is read, decisions are asked. All of that depends on the key of the
call alone, so later calls run at once what came out of it.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax

from graphc.importers.jax.read.settings import settings
from graphc.runtime.call.key import kind_of

MOST_KNOWN = 4096  # keys, after which all are forgotten
OnLeaves = Callable[[list[Any]], Any]  # of a call
_leaves_of = jax.tree_util.tree_flatten
_kind = kind_of(jax)


class KnownCalls:
    """The programs of calls of a function without static arguments, by their keys."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, OnLeaves] = {}

    def find(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[OnLeaves, list[Any]] | None:
        """The function for a call like one before, and its leaves; None for another."""
        leaves, form = _leaves_of((args, named))
        run = self._runs.get((form, settings(), *map(_kind, leaves)))
        return None if run is None else (run, leaves)

    def remember(
        self, args: tuple[object, ...], named: Mapping[str, object], run: OnLeaves
    ) -> bool:
        """Run calls like this by `run` from now on; False where no key tells which."""
        leaves, form = _leaves_of((args, named))
        kinds = [*map(_kind, leaves)]
        if None in kinds:
            return False
        if len(self._runs) >= MOST_KNOWN:
            self._runs.clear()
        self._runs[(form, settings(), *kinds)] = run
        return True

    def forget(self, args: tuple[object, ...], named: Mapping[str, object]) -> None:
        """Let calls like this go the long way again."""
        leaves, form = _leaves_of((args, named))
        self._runs.pop((form, settings(), *map(_kind, leaves)), None)

    def clear(self) -> None:
        """Let all calls go the long way again."""
        self._runs.clear()
