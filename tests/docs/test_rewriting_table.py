"""The page on rewriting: its table is up to date, its examples run."""

import importlib.util
import pathlib
import re

PATH = pathlib.Path(__file__).parents[2] / "docs" / "rewriting_table.py"
SPEC = importlib.util.spec_from_file_location("rewriting_table", PATH)
rewriting_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(rewriting_table)


def test_the_table_is_the_generated_one():
    written = rewriting_table.TARGET.read_text(encoding="utf-8")
    assert written == rewriting_table.page(), "run: python docs/rewriting_table.py"


def test_every_rule_says_what_it_does():
    table = rewriting_table.page().split(rewriting_table.TITLE)[1]
    rows = [r for r in table.splitlines() if r.startswith("| `")]
    assert len(rows) == len(rewriting_table.default)
    for row in rows:
        assert all(cell.strip() for cell in row[1:-1].split(" | ")), row


def test_the_examples_run(capsys):
    text = rewriting_table.TARGET.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, "rewriting.md", "exec"), {})
    said = capsys.readouterr().out
    assert "rewritten before:" in said and "log_of_exp: fired in " in said
    assert "rewrites.check: the rule times_zero changes the value, bit for bit" in said
    assert "2 segments, 1 reads\n1 segments, 0 reads\n" in said
    assert "(1,) ['k', 'n']\n() ['n']\n" in said
