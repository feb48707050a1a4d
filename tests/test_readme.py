"""README.md runs: every Python block in order, with the output printed below it.

A `text` block after a Python block is what that block prints. Run this file to write
the outputs anew: python tests/test_readme.py [docs/another_page.md]
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    language: str
    body: str
    start: int  # index of the body in the text
    end: int


def blocks(text):
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in FENCE.finditer(text)]


def outputs(found, folder):
    """The output of each Python block; the blocks share names, as in a session."""
    names = {"__name__": "readme"}
    printed = {}
    for i, block in enumerate(found):
        if block.language == "python":
            path = Path(folder, str(i), "example.py")  # shown in errors and sources
            path.parent.mkdir()
            path.write_text(block.body)
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(block.body, str(path), "exec"), names)
            printed[i] = stream.getvalue()
    return printed


def run(text, folder):
    """Run a page; return its blocks, and (output block, expected text) pairs."""
    found = blocks(text)
    before = os.getcwd()
    os.chdir(folder)
    try:
        printed = outputs(found, folder)
    finally:
        os.chdir(before)
    return found, [(i + 1, out) for i, out in printed.items() if out]


def test_python_blocks_print_what_the_readme_says(tmp_path):
    found, expected = run(README.read_text(), tmp_path)
    assert expected
    for i, out in expected:
        assert found[i].language == "text", found[i - 1].body
        assert found[i].body == out, "run: python tests/test_readme.py"


def test_every_output_follows_a_block_that_prints(tmp_path):
    found, expected = run(README.read_text(), tmp_path)
    shown = [i for i, block in enumerate(found) if block.language == "text"]
    assert shown == [i for i, _ in expected]


def test_a_wrong_output_is_noticed(tmp_path):
    text = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    found, expected = run(text, tmp_path)
    assert [(found[i].body, out) for i, out in expected] == [("3\n", "2\n")]


def test_no_block_escapes():
    text = README.read_text()
    assert text.count("```") == 2 * len(blocks(text))
    assert {b.language for b in blocks(text)} <= {"python", "text", "sh"}


def test_the_commands_name_what_is_there():
    commands = [b.body for b in blocks(README.read_text()) if b.language == "sh"]
    assert len(commands) == 2
    main_job, tests = commands
    assert "pip install ." in main_job
    assert main_job.rstrip().endswith("python examples/penguins.py")
    assert (ROOT / "examples" / "penguins.py").exists()
    assert tests == "bash .ci/run\n"
    assert (ROOT / ".ci" / "run").exists()


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target


def update(page):
    """Write the outputs into a page, and its drawings next to it."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        found, expected = run(text, folder)
        for drawing in Path(folder).glob("*.svg"):
            (page.parent / drawing.name).write_text(drawing.read_text())
    for i, out in reversed(expected):
        text = text[: found[i].start] + out + text[found[i].end :]
    page.write_text(text)


if __name__ == "__main__":
    update(Path(sys.argv[1]) if len(sys.argv) > 1 else README)
