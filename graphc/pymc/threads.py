"""Threads of other languages that call Python again and again.

Python keeps a state for each thread. For such a thread, it makes one at each call and
frees it when the call returns, with everything that libraries have stored for the
thread. This takes 10 to 20 us, several times as long as a small density. A thread that
is held keeps its state until it is let go.
"""

import ctypes
import threading


class _ThreadHold(threading.local):
    """Whether the thread is held; the note is freed with the state of the thread."""

    taken: int | None = None  # the state that PyGILState_Release wants back


_hold = _ThreadHold()


def hold_thread() -> None:
    """Keep the state of this thread until `release_thread`; once is enough."""
    if _hold.taken is None:
        _hold.taken = ctypes.pythonapi.PyGILState_Ensure()


def release_thread() -> None:
    """Let Python free the state of this thread when it returns to its caller."""
    taken, _hold.taken = _hold.taken, None
    if taken is not None:
        ctypes.pythonapi.PyGILState_Release(taken)
