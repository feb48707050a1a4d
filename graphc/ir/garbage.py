"""Garbage of Python while graphs are made, which are many objects that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from graphc.ir.forks import in_forked_children

NEVER = 2**30
YOUNG = 20_000  # new objects before Python looks for garbage among them
_LOCK = Lock()
_within = 0
_thresholds = gc.get_threshold()


@contextmanager
def young_garbage() -> Generator[None]:
    """Within, Python looks for garbage among young objects only, and less often.

    It would look at all objects of the process, those of JAX among them, for each
    quarter more of them, and a graph brings that soon. Most of what is made stays.
    """
    _change(1)
    try:
        yield
    finally:
        _change(-1)


def _change(by: int) -> None:
    """Enter or leave; who enters first keeps the thresholds, for who leaves last."""
    global _within, _thresholds
    with _LOCK:
        if not _within:
            _thresholds = gc.get_threshold()
            first, second, _ = _thresholds
            gc.set_threshold(first and max(first, YOUNG), second, NEVER)
        _within = max(_within + by, 0)
        if not _within:
            gc.set_threshold(*_thresholds)


def _renew() -> None:
    """Start anew in a forked child: threads that were within are not there."""
    global _LOCK, _within
    _LOCK = Lock()
    if _within:
        _within = 0
        gc.set_threshold(*_thresholds)


in_forked_children(_renew)
