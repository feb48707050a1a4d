"""Calls like one before, whose program is found by one key.

The first call of some sizes goes a long way: its arguments are described, their family
is found, `shapes` is read, decisions are asked. All of that depends on the key of the
call alone, so later calls run at once what came out of it.

Settings of JAX are a large part of the key, and hardly ever change: the calls under
each have a table, and settings are compared with those of the call before.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from graphc.importers.jax.read.settings import settings
from graphc.runtime.call.key import kind_of

MOST_KNOWN = 4096  # keys, after which all are forgotten
OnLeaves = Callable[..., Any]  # the function on the leaves of a call, one by one
_Runs = dict[Hashable, OnLeaves]
_leaves_of = jax.tree_util.tree_flatten
_kind = kind_of(jax)


class KnownCalls:
    """The programs of calls of a function without static arguments, by their keys.

    Arguments that have kinds, each by its place, are leaves themselves; the key of
    others has the structure of all arguments beside the kinds of their leaves.
    """

    def __init__(self) -> None:
        self._tables: dict[Hashable, _Runs] = {}
        self._newest: tuple[Hashable, _Runs] = None, {}

    def _runs(self) -> _Runs:
        """The table of the settings that hold now; one that nobody keeps, if none."""
        now = settings()
        runs = self._tables.get(now)
        if runs is None:
            return {}
        self._newest = now, runs  # both at once: threads may differ in settings
        return runs

    def find_by_places(self, args: tuple[object, ...]) -> OnLeaves | None:
        """The function for a call like one before, whose arguments are all leaves."""
        of_table, runs = self._newest  # mostly settings are those of the call before
        if settings() != of_table:
            runs = self._runs()
        return runs.get(tuple([*map(_kind, args)]))

    def find(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[OnLeaves, Sequence[object]] | None:
        """The function for a call like one before, and its leaves; None for another."""
        run = None if named else self.find_by_places(args)
        if run is not None:
            return run, args
        leaves, form = _leaves_of((args, named))
        run = self._runs().get((form, *map(_kind, leaves)))
        return None if run is None else (run, leaves)

    def remember(
        self, args: tuple[object, ...], named: Mapping[str, object], run: OnLeaves
    ) -> bool:
        """Run calls like this by `run` from now on; False where they have no key."""
        key = _key(args, named)
        if key is None:
            return False
        if sum(map(len, [*self._tables.values()])) >= MOST_KNOWN:
            self.clear()
        self._tables.setdefault(settings(), {})[key] = run
        return True

    def forget(self, args: tuple[object, ...], named: Mapping[str, object]) -> None:
        """Let calls like this go the long way again."""
        self._runs().pop(_key(args, named), None)

    def clear(self) -> None:
        """Let all calls go the long way again."""
        self._tables.clear()
        self._newest = None, {}


def _key(args: tuple[object, ...], named: Mapping[str, object]) -> Hashable:
    """The key of a call in its table; None where it does not tell the program."""
    kinds = [*map(_kind, args)]
    if not named and None not in kinds:
        return tuple(kinds)
    leaves, form = _leaves_of((args, named))
    kinds = [*map(_kind, leaves)]
    return None if None in kinds else (form, *kinds)
