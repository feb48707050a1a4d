"""The pages on PyTensor run, and print what they say."""

import pathlib

import pytest

from tests.test_readme import run

FOLDER = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("name", ["pytensor", "stories/selective_jit"])
def test_a_page_runs_and_prints_what_it_says(name, tmp_path):
    found, expected = run((FOLDER / f"{name}.md").read_text(), tmp_path)
    assert [(found[i].language, found[i].body) for i, _ in expected] == [
        ("text", out) for _, out in expected
    ]
