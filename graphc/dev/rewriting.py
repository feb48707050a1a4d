"""The text of docs/rewriting.md, whose last part is a table of all rules.

Run `python -m graphc.dev regenerate rewriting` after adding a rule; a test compares the
file.
"""

from graphc.dev.clone import ROOT
from graphc.rewrites import Rule, default
from graphc.rewriting.rules.stability import STABILITY

PAGE = ROOT / "docs" / "rewriting.md"
TITLE = "## The rules\n"
HEAD = """
These are the rules of `graphc.rewrites.default`, in the order in which they are tried.
"Exact" and "rounds" say whether values stay the same to the bit; "finite" rules differ
for NaN and infinities; "tests" rules add checks on the host.
`python -m graphc.dev regenerate rewriting` writes this table.

| rule | of | values | what it does |
|---|---|---|---|
"""


def claim(rule: Rule) -> str:
    """A phrase for the effect of a rule on values."""
    text = "exact" if rule.exact else "rounds"
    text += ", for accuracy" * (rule in STABILITY)
    marks = ["finite"] * rule.finite + ["tests"] * rule.checks
    return ", ".join([text, *marks])


def row(rule: Rule) -> str:
    """The line of the table for a rule."""
    what = " ".join(rule.doc.split("\n\n")[0].split()).replace("|", r"\|")
    op = f"`{rule.op}`" if len(rule.ops) == 1 else f"{len(rule.ops) or 'all'} ops"
    return f"| `{rule.name}` | {op} | {claim(rule)} | {what} |\n"


def text() -> str:
    """The whole text of docs/rewriting.md."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(TITLE)
    return before + TITLE + HEAD + "".join(map(row, default))
