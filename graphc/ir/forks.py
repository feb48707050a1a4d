"""Processes that were forked from a process in which JAX had run.

The child lacks the threads of JAX's runtime, so nothing there ends a wait for them, and
a call of JAX may hang for ever. Programs on JAX therefore refuse to run in such a
child. A thread that holds a lock of graphc is not in the child either, so locks are
made anew there.
"""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock

from graphc.errors import ForkError, describe, user_place
from graphc_serving import private_jax

HINT = (
    'start the process with multiprocessing.get_context("spawn") '
    '(mp_ctx="spawn" in PyMC), or compile with backend="numpy"'
)


@dataclass
class _Process:
    """Whether JAX has become unusable in this process, by a fork."""

    lost_jax: bool = False


_PROCESS = _Process()


def jax_is_lost() -> bool:
    """Whether this process was forked from one in which JAX had run."""
    return _PROCESS.lost_jax


def fork_error(op: str) -> ForkError:
    """The error for code that needs JAX in a process where it is lost."""
    problem = "JAX had run in the process that this one was forked from: it would hang"
    return ForkError(describe(problem, op=op, hint=HINT, where=user_place()))


def call_in_forked_children(renew: Callable[[], object]) -> None:
    """Call a function in each forked child, before the child goes on."""
    if hasattr(os, "register_at_fork"):  # where processes can fork
        os.register_at_fork(after_in_child=renew)


def _note_lost_jax() -> None:
    if not _PROCESS.lost_jax and private_jax.has_run():
        _PROCESS.lost_jax = True
        # These callbacks take a lock of JAX after each garbage collection of Python.
        gc.callbacks[:] = [call for call in gc.callbacks if not _is_of_jax(call)]


def _is_of_jax(function: object) -> bool:
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in ("jax", "jaxlib")


call_in_forked_children(_note_lost_jax)


class RenewedLock:
    """A reentrant lock, made anew in forked children: no thread there holds it."""

    def __init__(self) -> None:
        self._renew()
        call_in_forked_children(self._renew)

    def _renew(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
