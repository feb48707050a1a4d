"""Processes that were forked from one in which JAX had run.

The threads of JAX's runtime are not in the child, nor does any of them end a wait
there: a call of JAX may hang for ever. So programs on JAX refuse to run in such a
process. A thread that holds a lock of graphc is not in the child either, so locks
are made anew there.
"""

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from graphc.errors import ForkError, describe, user_place

_BRIDGE = "jax._src.xla_bridge"
HINT = (
    'start the process with multiprocessing.get_context("spawn") '
    '(mp_ctx="spawn" in PyMC), or compile with backend="numpy"'
)


@dataclass
class _Process:
    """Whether this process is a child for which JAX is lost."""

    lost_jax: bool = False


_PROCESS = _Process()


def jax_is_lost() -> bool:
    """Whether this process was forked from one in which JAX had run."""
    return _PROCESS.lost_jax


def fork_error(op: str) -> ForkError:
    """The error of what needs JAX in such a process."""
    problem = "JAX had run in the process that this one was forked from: it would hang"
    return ForkError(describe(problem, op=op, hint=HINT, where=user_place()))


def in_forked_children(renew: Callable[[], object]) -> None:
    """Have a function called in each forked child, before it goes on."""
    if hasattr(os, "register_at_fork"):  # where processes can be forked
        os.register_at_fork(after_in_child=renew)


def _note() -> None:
    if not _PROCESS.lost_jax and _jax_has_run():
        _PROCESS.lost_jax = True
        # JAX asks for a lock of its own whenever Python has looked for garbage.
        gc.callbacks[:] = [call for call in gc.callbacks if not _is_of_jax(call)]


def _is_of_jax(function: object) -> bool:
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in ("jax", "jaxlib")


def _jax_has_run() -> bool:
    """Whether JAX has started a runtime; taken for true where JAX does not tell.

    JAX's own function asks for a lock, which may be held for ever in a child.
    """
    if "jax" not in sys.modules:
        return False
    return bool(getattr(sys.modules.get(_BRIDGE), "_backends", True))


in_forked_children(_note)
