"""The page on models in files runs, and prints what it says."""

import pathlib

from tests.test_readme import run

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_page_prints_what_it_says(tmp_path):
    found, expected = run(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert len(expected) >= 4
    for i, out in expected:
        assert found[i].language == "text", found[i - 1].body
        assert found[i].body == out
