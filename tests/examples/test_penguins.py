"""The main example: right answers on both backends, and its compilations."""

import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import graphc
from graphc.transform.planning.grouping import compile_weight

EXAMPLE = Path(__file__).parents[2] / "examples" / "penguins.py"


@pytest.fixture(scope="module")
def penguins():
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE)))


@pytest.fixture(scope="module")
def data(penguins):
    columns = penguins.load()
    x = np.stack([columns[name] for name in penguins.MEASURED], axis=1)
    labels = np.char.add(columns["species"], columns["island"])
    group = np.unique(labels, return_inverse=True)[1]
    return x, columns["body_mass_g"], group, columns["island"]


def compiled(penguins, backend, dims=None):
    inputs, outputs = penguins.model()
    return graphc.function(inputs, outputs, backend=backend, dims=dims)


@pytest.fixture(scope="module")
def programs(penguins):
    return {backend: compiled(penguins, backend) for backend in ("jax", "numpy")}


def test_the_data_are_the_real_ones(data):
    x, mass, group, island = data
    assert x.shape == (344, 3) and mass.shape == (344,)
    assert np.isnan(mass).sum() == 2 and np.isnan(x).any(axis=1).sum() == 2
    assert len(np.unique(group)) == 5
    assert set(island) == {"Biscoe", "Dream", "Torgersen"}
    assert mass[0] == 3750.0 and x[0].tolist() == [39.1, 18.7, 181.0]


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("island", ["everywhere", "Dream", "Biscoe", "Torgersen"])
def test_the_answers_are_those_of_plain_numpy(
    penguins, programs, data, backend, island
):
    x, mass, group, where = data
    keep = (where == island) | (island == "everywhere")
    f = programs[backend]
    for k in (0, 1, 1000) if backend == "jax" else (0, 1, 4, 1000):  # each compiles
        arguments = (x, mass, group, keep, k)
        wanted = penguins.plain_numpy(*arguments)
        assert penguins.same(backend, f(*arguments), wanted)


def test_what_a_new_size_compiles(penguins, data):
    """Specialized here: by default, compile times decide whether to pad instead."""
    x, mass, group, where = data
    f = compiled(penguins, "jax", "specialize")
    everyone = np.ones(len(mass), dtype=bool)

    def new(*arguments):
        before = len(f.stats().compilations)
        f(*arguments)
        return [c.segment for c in f.stats().compilations[before:]]

    segments = range(len(f.plan.segments))
    sizes = [sum(map(compile_weight, s.nodes)) for s in f.plan.segments]
    solver = sizes.index(max(sizes))
    assert sizes[solver] > 80  # all steps are one loop there
    assert new(x, mass, group, everyone, 3) == list(segments)
    assert new(x, mass, group, everyone, 3) == []
    by_k = new(x, mass, group, everyone, 5)
    assert len(by_k) == 1
    by_count = new(x, mass, group, where == "Dream", 5)
    assert set(by_k) <= set(by_count) and not set(by_count) & {0, solver}
    by_rows = new(x[:200], mass[:200], group[:200], everyone[:200], 5)
    assert 0 in by_rows and solver not in by_rows


def test_it_tells_its_story(capsys, tmp_path, monkeypatch):
    """The example also runs from another working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "group_excess: float64[" in out
    assert "one integer is read from the device" in out
    assert re.search(r"def segment_\d+\(.*\):\n", out)
    assert re.search(r"segment \d+ in \d+\.\d\d s: first call", out)
    assert "line 316 of the file, Chinstrap on Dream: -1045 g" in out
    assert out.endswith("--- Both backends agree with plain NumPy ---\n")


def test_a_wrong_answer_is_reported(penguins, capsys):
    def wrong(*arguments):
        result = penguins.plain_numpy(*arguments)
        return result | {"worst_excess": result["worst_excess"] + 1.0}

    penguins.main.__globals__["plain_numpy"] = wrong
    try:
        assert penguins.main() == 1
    finally:
        penguins.main.__globals__["plain_numpy"] = penguins.plain_numpy
    assert capsys.readouterr().out.endswith("--- THEY DIFFER ---\n")
