"""The table of ops is up to date and has no empty cell."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).parents[2] / "docs" / "ops_table.py"
SPEC = importlib.util.spec_from_file_location("ops_table", PATH)
ops_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ops_table)


def test_the_table_is_the_generated_one():
    written = ops_table.TARGET.read_text(encoding="utf-8")
    assert written == ops_table.table(), "run: python docs/ops_table.py"


def test_no_cell_is_empty():
    rows = [r for r in ops_table.table().splitlines() if r.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        cells = [c.strip() for c in row[1:-1].split(" | ")]
        assert all(cells), row
        assert not any(c == "no:" for c in cells), row
