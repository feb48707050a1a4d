"""The Optax fits: groups of birds, and the compilations for them."""

import re
from pathlib import Path

import pytest

pytest.importorskip("optax", reason="the example is a program of Optax")
EXAMPLE = Path(__file__).parents[2] / "examples" / "penguins_of_groups.py"


def test_groups_have_many_sizes(example):
    found = example.groups()
    assert len(found["all"]) == 342 and found["all"].shape[1] == 4
    assert len({len(birds) for birds in found.values()}) > 20


def test_it_tells_its_story(example, capsys, tmp_path):
    assert example.main(6, 2, tmp_path) == 0
    out = capsys.readouterr().out
    assert re.search(r"graphc.jit, 6 groups of \d sizes: [2-5] compilations", out)
    assert out.endswith("everything agrees\n")
    assert (tmp_path / "penguins_of_groups.png").stat().st_size > 10_000
