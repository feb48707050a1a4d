"""Calls like one before, whose program is found by one key.

The first call of some sizes goes a long way: its arguments are described, their family
is found, `shapes` is read, decisions are asked. All of that depends on the key of the
call alone, so later calls run at once what came out of it.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from graphc.importers.jax.read.settings import settings
from graphc.runtime.call.key import kind_of

MOST_KNOWN = 4096  # keys, after which all are forgotten
OnLeaves = Callable[..., Any]  # the function on the leaves of a call, one by one
_leaves_of = jax.tree_util.tree_flatten
_kind = kind_of(jax)


class KnownCalls:
    """The programs of calls of a function without static arguments, by their keys.

    Arguments that have kinds, each by its place, are leaves themselves; the key of
    others has the structure of all arguments beside the kinds of their leaves.
    """

    def __init__(self) -> None:
        self._runs: dict[Hashable, OnLeaves] = {}

    def find(
        self, args: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[OnLeaves, Sequence[object]] | None:
        """The function for a call like one before, and its leaves; None for another."""
        holding, runs = settings(), self._runs
        if not named:
            run = runs.get((holding, *map(_kind, args)))
            if run is not None:
                return run, args
        leaves, form = _leaves_of((args, named))
        run = runs.get((holding, form, *map(_kind, leaves)))
        return None if run is None else (run, leaves)

    def remember(
        self, args: tuple[object, ...], named: Mapping[str, object], run: OnLeaves
    ) -> bool:
        """Run calls like this by `run` from now on; False where they have no key."""
        key = _key(args, named)
        if key is None:
            return False
        if len(self._runs) >= MOST_KNOWN:
            self._runs.clear()
        self._runs[key] = run
        return True

    def forget(self, args: tuple[object, ...], named: Mapping[str, object]) -> None:
        """Let calls like this go the long way again."""
        self._runs.pop(_key(args, named), None)

    def clear(self) -> None:
        """Let all calls go the long way again."""
        self._runs.clear()


def _key(args: tuple[object, ...], named: Mapping[str, object]) -> Hashable:
    """The key of a call; None where it does not tell the program."""
    kinds = [*map(_kind, args)]
    if not named and None not in kinds:
        return settings(), *kinds
    leaves, form = _leaves_of((args, named))
    kinds = [*map(_kind, leaves)]
    return None if None in kinds else (settings(), form, *kinds)
