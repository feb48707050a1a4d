"""Every CallError that a test of messages meets has one of the known kinds."""

import pytest

from graphc.errors import ERROR_KINDS, CallError


@pytest.fixture(autouse=True)
def known_kinds(monkeypatch):
    """Fails a test in which an error is made of a kind that is not in the list."""
    made, initialise = [], CallError.__init__

    def remembering(self, message, kind):
        initialise(self, message, kind)
        made.append(self)

    monkeypatch.setattr(CallError, "__init__", remembering)
    yield
    assert [e for e in made if e.kind not in ERROR_KINDS] == []
