"""Calls like one before, whose program is found by one key.

The first call of some sizes goes a long way: its arguments are described, their family
is found, `shapes` is read, decisions are asked. All of that depends on the key of the
call alone, so later calls run at once what came out of it.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import numpy as np

from graphc.importers.jax.settings import settings

MOST_KNOWN = 4096  # keys, after which all are forgotten
_NUMBERS = frozenset((bool, int, float, complex))

Run = Callable[[list[Any]], Any]  # of the leaves of a call
_leaves_of = jax.tree_util.tree_flatten


class KnownCalls:
    """What runs calls by their keys, of a function without static arguments."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, Run] = {}

    def find(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Run, list[Any]] | None:
        """What runs a call like one before, with its leaves; None for another."""
        leaves, form = _leaves_of((args, named))
        run = self._runs.get((form, settings(), *map(_kind, leaves)))
        return None if run is None else (run, leaves)

    def remember(
        self, args: tuple[Any, ...], named: Mapping[str, Any], run: Run
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

    def forget(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Let calls like this go the long way again."""
        leaves, form = _leaves_of((args, named))
        self._runs.pop((form, settings(), *map(_kind, leaves)), None)

    def clear(self) -> None:
        """Let all calls go the long way again."""
        self._runs.clear()


def _kind(leaf: Any) -> Hashable:
    """All of a leaf that the choice of a program depends on; None where that is more.

    A dtype, a shape, and, of an array of JAX, its weak type and where it must stay.
    """
    kind: type[Any] = type(leaf)
    if kind is np.ndarray:
        return leaf.dtype, leaf.shape
    if kind in _NUMBERS:
        return kind.__name__
    if isinstance(leaf, jax.Array):
        if isinstance(leaf, jax.core.Tracer):
            return None
        return (leaf.aval, leaf.sharding) if leaf.committed else leaf.aval
    return str(leaf.dtype) if isinstance(leaf, np.generic) else None
