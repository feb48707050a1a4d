"""Writes the last part of docs/rewriting.md: every rule with what it does.

Run `python docs/rewriting_table.py` after adding a rule; a test compares the file.
"""

import pathlib

from graphc.rewrites import Rule, default
from graphc.rewriting.rules.stability import STABILITY

TARGET = pathlib.Path(__file__).with_name("rewriting.md")
TITLE = "## The rules\n"
HEAD = """
Those of `graphc.rewrites.default`, in the order in which they are tried; written by
`python docs/rewriting_table.py`. "Tests" puts in tests that the host makes.

| rule | of | values | what it does |
|---|---|---|---|
"""


def claim(rule: Rule) -> str:
    """What a rule says about values."""
    text = "exact" if rule.exact else "rounds"
    text += ", for accuracy" * (rule in STABILITY)
    marks = ["finite"] * rule.finite + ["tests"] * rule.checks
    return ", ".join([text, *marks])


def row(rule: Rule) -> str:
    """One line of the table."""
    what = " ".join(rule.doc.split("\n\n")[0].split()).replace("|", r"\|")
    op = f"`{rule.op}`" if len(rule.ops) == 1 else f"{len(rule.ops) or 'all'} ops"
    return f"| `{rule.name}` | {op} | {claim(rule)} | {what} |\n"


def page() -> str:
    """The whole text of docs/rewriting.md."""
    before, _, _ = TARGET.read_text(encoding="utf-8").partition(TITLE)
    return before + TITLE + HEAD + "".join(map(row, default))


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
