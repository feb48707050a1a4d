"""Threads of other languages that call Python again and again.

Python has a state for each thread. It makes one when such a thread calls it, and frees
it when the call returns, with all that libraries had noted for the thread: 10 to 20 us,
several times what a small density takes. A thread that is held has its state until it
is let go.
"""

import ctypes
import threading


class _Hold(threading.local):
    """Whether the thread is held; what is in it goes with the state of the thread."""

    taken: int | None = None  # what Python asks to be given back


_hold = _Hold()


def hold() -> None:
    """Let this thread have its state until `let_go`; to ask again changes nothing."""
    if _hold.taken is None:
        _hold.taken = ctypes.pythonapi.PyGILState_Ensure()


def let_go() -> None:
    """Let Python free the state of this thread when it returns to its caller."""
    taken, _hold.taken = _hold.taken, None
    if taken is not None:
        ctypes.pythonapi.PyGILState_Release(taken)
