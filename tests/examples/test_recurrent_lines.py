"""The Equinox model: compilations for lines of different lengths."""

import re
from pathlib import Path

import pytest

pytest.importorskip("equinox", reason="the example is a program of Equinox")
pytest.importorskip("optax", reason="the example is a program of Optax")
EXAMPLE = Path(__file__).parents[2] / "examples" / "recurrent_lines.py"


def test_it_tells_its_story(example, capsys, tmp_path):
    assert example.main(6, 2, tmp_path) == 0
    out = capsys.readouterr().out
    assert re.search(r"graphc.jit, 6 lines of \d lengths: [2-6] compilations", out)
    assert out.endswith("everything agrees\n")
    assert (tmp_path / "recurrent_lines.png").stat().st_size > 10_000
