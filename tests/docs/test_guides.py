"""The guides run, block by block, in their own process: they add ops and rules."""

import pathlib
import subprocess
import sys
import tempfile

import pytest

from tests import test_readme

DOCS = pathlib.Path(__file__).parents[2] / "docs"
GUIDES = ("add_an_op", "add_a_rule", "add_a_pass", "add_a_backend")
GUIDES += "add_a_step", "add_a_jax_primitive", "add_a_policy", "loops"


@pytest.fixture(scope="module")
def printed():
    """The wrong outputs of each guide, found in one process for all of them."""
    root = DOCS.parent
    command = [sys.executable, "-m", "tests.docs.test_guides"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_prints_what_it_says(name, printed):
    assert printed[name] == "[]", f"run: python tests/test_readme.py docs/{name}.md"


def wrong_outputs(name, folder):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    found, expected = test_readme.run(text, folder)
    return [out for i, out in expected if found[i].body != out]


def main():
    for name in GUIDES:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {wrong_outputs(name, folder)!r}")


if __name__ == "__main__":
    main()
