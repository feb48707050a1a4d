"""The table of ops has no empty cell."""

from graphc.dev import ops


def test_no_cell_is_empty():
    rows = [r for r in ops.text().splitlines() if r.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        cells = [c.strip() for c in row[1:-1].split(" | ")]
        assert all(cells), row
        assert not any(c == "no:" for c in cells), row
