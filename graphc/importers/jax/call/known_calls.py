"""Find the program of a call that resembles an earlier one, by a single key.

The first call at some sizes takes the long way: describe its arguments, find their
family, read `shapes`, check decisions. All of that depends on the key of the call
alone, so later calls with the same key run the resulting program at once.

The settings of JAX are a large part of the key and hardly ever change. So each set of
settings has its own table of calls, and a call first compares the settings with those
of the call before.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from graphc.importers.jax.read.settings import settings
from graphc.runtime.call.key import kind_of

MOST_KNOWN = 4096  # keys; at this number all are forgotten
OnLeaves = Callable[..., Any]  # the function, taking the leaves of a call
_Runs = dict[Hashable, OnLeaves]
_leaves_of = jax.tree_util.tree_flatten
_kind = kind_of(jax)


class KnownCalls:
    """The programs for calls of a function without static arguments, by key.

    If every positional argument has a kind and none is named, the arguments are the
    leaves and the key holds their kinds. Otherwise the key holds the structure of all
    arguments and the kinds of their leaves.
    """

    def __init__(self) -> None:
        self._tables: dict[Hashable, _Runs] = {}
        self._newest: tuple[Hashable, _Runs] = None, {}

    def _runs(self) -> _Runs:
        """The table for the current settings; if there is none, an empty throwaway."""
        now = settings()
        runs = self._tables.get(now)
        if runs is None:
            return {}
        self._newest = now, runs  # both at once: threads may differ in settings
        return runs

    def find_by_places(self, args: tuple[object, ...]) -> OnLeaves | None:
        """The function for a known call whose arguments are all leaves, or None."""
        of_table, runs = self._newest  # settings are mostly those of the call before
        if settings() != of_table:
            runs = self._runs()
        return runs.get(tuple([*map(_kind, args)]))

    def find(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[OnLeaves, Sequence[object]] | None:
        """Return the function for a known call, and its leaves; None for a new call."""
        run = None if named else self.find_by_places(args)
        if run is not None:
            return run, args
        leaves, form = _leaves_of((args, named))
        run = self._runs().get((form, *map(_kind, leaves)))
        return None if run is None else (run, leaves)

    def remember(
        self, args: tuple[object, ...], named: Mapping[str, object], run: OnLeaves
    ) -> bool:
        """Run such calls by `run` from now on; return False if they have no key."""
        key = _key_of_call(args, named)
        if key is None:
            return False
        if sum(map(len, [*self._tables.values()])) >= MOST_KNOWN:
            self.clear()
        self._tables.setdefault(settings(), {})[key] = run
        return True

    def forget(self, args: tuple[object, ...], named: Mapping[str, object]) -> None:
        """Make such calls take the long way again."""
        self._runs().pop(_key_of_call(args, named), None)

    def clear(self) -> None:
        """Make all calls take the long way again."""
        self._tables.clear()
        self._newest = None, {}


def _key_of_call(args: tuple[object, ...], named: Mapping[str, object]) -> Hashable:
    """The key of a call in its table; None if an argument has no kind."""
    kinds = [*map(_kind, args)]
    if not named and None not in kinds:
        return tuple(kinds)
    leaves, form = _leaves_of((args, named))
    kinds = [*map(_kind, leaves)]
    return None if None in kinds else (form, *kinds)
