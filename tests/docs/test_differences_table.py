"""The table of differences names every function whose backends differ."""

import pytest

from graphc.dev import differences
from graphc.dev.clone import ROOT
from graphc.dev.regenerate import GENERATED, command_for


@pytest.mark.usefixtures("compiled_quickly")
def test_every_function_that_differs_is_in_the_table():
    page = ROOT / GENERATED["differences"].target
    written = page.read_text(encoding="utf-8")
    listed = {tuple(line.split(" | ")[:2]) for line in written.splitlines()}
    differing = {(f"| `{d.name}`", d.dtype) for d in differences.differences()}
    assert len(differing) > 20
    assert differing <= listed, f"run: {command_for('differences')}"
