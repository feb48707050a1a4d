"""The PyMC model: its data, and both ways to sample it, with few draws."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pymc", reason="the example is a model of PyMC")
pytensor = pytest.importorskip("pytensor")
EXAMPLE = Path(__file__).parents[2] / "examples" / "penguins_pymc.py"


@pytest.fixture
def python_only():
    """Run PyTensor without its compilers, which are slow to start."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def test_birds_and_groups_are_those_of_the_islands(example):
    found = [example.load(islands) for islands in example.ISLANDS]
    assert [(len(data["mass"]), int(data["groups"])) for data in found] == [
        (342, 15),
        (124, 6),
        (167, 6),
    ]
    assert sum(found[0]["sex"] == -1) == 9
    assert not any(np.isnan(data["mass"]).any() for data in found)


@pytest.mark.usefixtures("python_only")
def test_it_tells_its_story(example, capsys, tmp_path):
    islands = (("Torgersen",),)
    assert example.main(6, 1, islands, rhat=100.0, far=100.0, folder=tmp_path) == 0
    out = capsys.readouterr().out
    assert re.search(r"Torgersen: 51 birds, 4 of unknown sex, in 3 groups", out)
    runs = re.findall(r"(JAX|GRAPHC) .* draws per second, \d+ compilations", out)
    assert runs == ["JAX", "GRAPHC"]
    assert out.endswith("the posteriors agree\n")
    assert (tmp_path / "penguins_pymc.png").stat().st_size > 10_000
