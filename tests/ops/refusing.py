"""Expected errors, matched without the line of the user's code that they quote.

A part of the message must not be found in the very call that is to raise it.
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

import graphc

PLACE = re.compile(r"^  (at|asked for by|declared at) [^ :]+:\d+", re.MULTILINE)


def refused(
    message: str, kind: type[Exception] = graphc.GraphError
) -> AbstractContextManager[None]:
    """Expect an error with this message that quotes a line of the caller's file."""
    caller = sys._getframe(1).f_code.co_filename
    return _refused(message, kind, pathlib.Path(caller).name)


@contextmanager
def _refused(message: str, kind: type[Exception], file: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    place = PLACE.search(text)
    assert place is not None, f"no place is named:\n{text}"
    said, where = text[: place.start()], text[place.start() :]
    assert re.search(message, said), f"no {message!r} before the place:\n{text}"
    assert f"{file}:" in where, text
