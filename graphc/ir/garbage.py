"""Less garbage collection while graphs are built: they are many objects that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from graphc.ir.forks import call_in_forked_children

NEVER = 2**30
YOUNG = 20_000  # new objects before Python collects garbage among them
_LOCK = Lock()
_users = 0
_thresholds = gc.get_threshold()


@contextmanager
def only_young_garbage() -> Generator[None]:
    """Make Python collect garbage only among young objects, and less often.

    Python would otherwise go through all objects of the process, those of JAX included,
    whenever their number has grown by a quarter. A graph soon makes that many, and most
    of its objects stay.
    """
    _change_users(1)
    try:
        yield
    finally:
        _change_users(-1)


def _change_users(by: int) -> None:
    """Enter (1) or leave (-1): the first to enter saves the thresholds for the last."""
    global _users, _thresholds
    with _LOCK:
        if not _users:
            _thresholds = gc.get_threshold()
            first, second, _ = _thresholds
            gc.set_threshold(first and max(first, YOUNG), second, NEVER)
        _users = max(_users + by, 0)
        if not _users:
            gc.set_threshold(*_thresholds)


def _reset_in_child() -> None:
    """Start anew in a forked child, where the threads that had entered do not exist."""
    global _LOCK, _users
    _LOCK = Lock()
    if _users:
        _users = 0
        gc.set_threshold(*_thresholds)


call_in_forked_children(_reset_in_child)
