"""The table of differences names every function whose backends differ."""

import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).parents[2] / "docs" / "differences_table.py"
SPEC = importlib.util.spec_from_file_location("differences_table", PATH)
differences_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(differences_table)


@pytest.mark.usefixtures("compiled_quickly")
def test_every_function_that_differs_is_in_the_table():
    written = differences_table.TARGET.read_text(encoding="utf-8")
    listed = {tuple(line.split(" | ")[:2]) for line in written.splitlines()}
    found = {(f"| `{d.name}`", d.dtype) for d in differences_table.differences()}
    assert len(found) > 20
    assert found <= listed, "run: python docs/differences_table.py"
