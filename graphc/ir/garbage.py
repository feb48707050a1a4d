"""Garbage of Python while graphs are made, which are many objects that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

NEVER = 2**30
_LOCK = Lock()
_within = 0
_thresholds = gc.get_threshold()


@contextmanager
def young_garbage() -> Iterator[None]:
    """Within, Python looks for garbage among young objects only.

    It would look at all objects of the process, those of JAX among them, for each
    quarter more of them, and a graph brings that soon.
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
            gc.set_threshold(*_thresholds[:2], NEVER)
        _within += by
        if not _within:
            gc.set_threshold(*_thresholds)
