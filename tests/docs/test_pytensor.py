"""The page on PyTensor runs, and prints what it says."""

import pathlib

import pytest

from tests.test_readme import run

FOLDER = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.usefixtures("compiled_quickly")
def test_the_page_runs_and_prints_what_it_says(tmp_path):
    found, expected = run((FOLDER / "pytensor.md").read_text(), tmp_path)
    assert [(found[i].language, found[i].body) for i, _ in expected] == [
        ("text", out) for _, out in expected
    ]
