"""The page on PyMC runs, where PyMC and a sampler are installed."""

import pathlib

import pytest

from tests.test_readme import run

pytest.importorskip("pymc")
pytest.importorskip("nutpie")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pymc.md"


@pytest.mark.usefixtures("compiled_quickly", "wide")
def test_the_page_runs_and_prints_what_it_says(tmp_path):
    found, expected = run(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert expected
    assert [(found[i].language, found[i].body) for i, _ in expected] == [
        ("text", out) for _, out in expected
    ]
