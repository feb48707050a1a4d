"""The package's metadata agree with the code, and say how to install all of it."""

import re
import tomllib
from pathlib import Path

import graphc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+", graphc.__version__)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {graphc.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {graphc.__version__}" in changes


def test_extras_that_messages_name_exist():
    """Each `pip install 'graphc[extra]'` in the code works when it is typed."""
    extras = PROJECT["project"]["optional-dependencies"]
    files = [*ROOT.glob("graphc*/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    named = {
        match
        for path in files
        for match in re.findall(r"graphc\[([a-z]+)\]", path.read_text(encoding="utf-8"))
    }
    assert "export" in named
    assert named <= extras.keys()
