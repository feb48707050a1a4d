"""Progress of long work: the logger `graphc`, and one line on a terminal.

The logger reports when each compilation begins (INFO), and how long it took. A
compilation that takes long also shows a line on the terminal, which goes away when the
compilation is done; `graphc.config.progress = False` leaves the line out.
"""

import logging
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from graphc.ir.config import config

logger: logging.Logger = logging.getLogger("graphc")
LONG = 2.0  # seconds before a line is shown on a terminal
EVERY = 1.0  # seconds between two updates of the line
_BACK, _CLEARED = "\r", "\x1b[K"  # to the start of the line; the line is cleared


class ProgressLine:
    """A line on a terminal that tells how long something has been going on.

    A thread writes the line, from `LONG` seconds on; `end` takes it away.
    """

    def __init__(self, text: str, terminal: TextIO) -> None:
        self._text = text
        self._terminal = terminal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        seconds, written = LONG, False
        while not self._ended.wait(EVERY if written else LONG):
            self._write(f"{_BACK}{_CLEARED}graphc: {self._text}, {seconds:.0f} s")
            seconds, written = seconds + EVERY, True
        if written:
            self._write(f"{_BACK}{_CLEARED}")

    def _write(self, text: str) -> None:
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):  # the terminal was closed meanwhile
            self._ended.set()

    def end(self) -> None:
        """Take the line away, if it was written."""
        self._ended.set()
        self._thread.join()


def show_progress(text: Callable[[], str]) -> ProgressLine | None:
    """Log that something begins, and show a line on the terminal if it takes long.

    `text` is called only where its text is needed. The result is None where there is no
    terminal, or where progress is not to be shown.
    """
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", text())
    terminal = sys.stderr
    if not config.progress or terminal is None or not terminal.isatty():
        return None
    return ProgressLine(text(), terminal)
