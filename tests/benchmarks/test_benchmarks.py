"""Each benchmark runs at its smallest size, and its results agree with the rival's."""

import pathlib
import runpy
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"
BENCHMARKS = sorted(
    path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text()
)


@pytest.mark.filterwarnings("ignore::graphc.RecompilationWarning")
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_it_runs_at_its_smallest_size(name, monkeypatch, capsys):
    """Times don't matter here, so the programs are compiled quickly."""
    monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", "--smallest"])
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["what"] for line in lines)  # the head of the table
