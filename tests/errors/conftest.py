"""Every CallError that a test of messages meets has one of the known kinds."""

import pytest

from graphc.errors import ERROR_KINDS, CallError


@pytest.fixture(autouse=True)
def known_kinds(monkeypatch):
    """Fail a test that makes an error of an unlisted kind."""
    made, initialise = [], CallError.__init__

    def remembering(self, message, kind):
        initialise(self, message, kind)
        made.append(self)

    monkeypatch.setattr(CallError, "__init__", remembering)
    yield
    assert [e for e in made if e.kind not in ERROR_KINDS] == []
