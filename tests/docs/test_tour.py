"""The tour runs: its asserts check its claims, and it prints what it should."""

import runpy
from pathlib import Path

TOUR = Path(__file__).parents[2] / "docs" / "tour.py"


def test_the_tour_runs_and_tells(capsys):
    runpy.run_path(str(TOUR))
    out = capsys.readouterr().out
    assert "2. a guard: n == m" in out
    assert "glue: nonzero needs the size" in out
    assert "def program(x, w, k):" in out


def test_a_false_claim_stops_it(tmp_path):
    broken = tmp_path / "tour.py"
    text = TOUR.read_text()
    claim = 'assert "import graphc" not in text'
    assert claim in text
    broken.write_text(text.replace(claim, 'assert "import graphc" in text'))
    try:
        runpy.run_path(str(broken))
    except AssertionError:
        return
    raise RuntimeError("the false claim went unnoticed")
