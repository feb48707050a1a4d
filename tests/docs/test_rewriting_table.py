"""The page on rewriting: its table has no empty cell, its examples run."""

import re

from graphc.dev import rewriting


def test_every_rule_says_what_it_does():
    table = rewriting.text().split(rewriting.TITLE)[1]
    rows = [r for r in table.splitlines() if r.startswith("| `")]
    assert len(rows) == len(rewriting.default)
    for row in rows:
        assert all(cell.strip() for cell in row[1:-1].split(" | ")), row


def test_the_examples_run(capsys):
    text = rewriting.PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, "rewriting.md", "exec"), {})
    said = capsys.readouterr().out
    assert "rewritten before:" in said and "log_of_exp: fired in " in said
    assert "rewrites.check: the rule times_zero changes the value, bit for bit" in said
    assert "2 segments, 1 reads\n1 segments, 0 reads\n" in said
    assert "(1,) ['k', 'n']\n() ['n']\n" in said
