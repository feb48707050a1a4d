"""The page on PyTensor runs, and its table of Ops is up to date."""

import importlib.util
import pathlib

import pytest

from tests.test_readme import run

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location(
    "pytensor_ops_table", FOLDER / "pytensor_ops_table.py"
)
pytensor_ops_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pytensor_ops_table)


@pytest.mark.usefixtures("compiled_quickly")
def test_the_page_runs_and_prints_what_it_says(tmp_path):
    found, expected = run((FOLDER / "pytensor.md").read_text(), tmp_path)
    assert [(found[i].language, found[i].body) for i, _ in expected] == [
        ("text", out) for _, out in expected
    ]


def test_the_table_is_the_generated_one():
    written = pytensor_ops_table.TARGET.read_text(encoding="utf-8")
    assert written == pytensor_ops_table.table(), "run: docs/pytensor_ops_table.py"
