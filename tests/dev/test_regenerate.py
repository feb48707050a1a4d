"""The command that writes tables, stubs and texts; generated files are up to date."""

import runpy
import sys

import pytest

import graphc
from graphc.dev.clone import ROOT
from graphc.dev.regenerate import GENERATED, command_for, main, stale_files

# The others take long: tests in tests/docs check a part of each.
SHORT = ("idioms", "ops", "pytensor-ops", "rewriting", "stubs", "troubleshooting")


@pytest.mark.parametrize("name", SHORT)
def test_a_generated_file_is_current(name):
    if name == "pytensor-ops":
        pytest.importorskip("pytensor")
    assert stale_files(name) == [], f"run: {command_for(name)}"


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_names_its_command(name):
    if name == "help":
        return  # its text goes into docstrings as it is
    target = ROOT / GENERATED[name].target
    for path in target.glob("*.pyi") if target.is_dir() else [target]:
        assert command_for(name) in path.read_text(encoding="utf-8"), path


@pytest.fixture
def clone(tmp_path):
    """A folder with the parts of a clone, in which one file is out of date."""
    (tmp_path / "tests" / "samples").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "docs" / "ops.md").write_text("old")
    return tmp_path


def test_check_tells_and_does_not_write(clone, capsys):
    assert main(["regenerate", "--check", "ops"], clone) == 1
    told = "docs/ops.md is out of date; run: python -m graphc.dev regenerate ops\n"
    assert capsys.readouterr().out == told
    assert (clone / "docs" / "ops.md").read_text() == "old"


def test_what_is_written_is_current(clone, capsys):
    assert main(["regenerate", "ops"], clone) == 0
    assert main(["regenerate", "ops", "--check"], clone) == 0
    assert main(["regenerate", "ops"], clone) == 0
    assert capsys.readouterr().out == "wrote docs/ops.md\n"  # by one call


def test_a_missing_file_is_out_of_date(clone):
    (clone / "docs" / "ops.md").unlink()
    assert stale_files("ops", clone) == ["docs/ops.md"]


def test_a_folder_of_files(clone, monkeypatch):
    folder = clone / GENERATED["stubs"].target
    monkeypatch.setattr("graphc.dev.stubs.text", lambda: {"a.pyi": "a", "b.pyi": "b"})
    folder.mkdir(parents=True)
    (folder / "a.pyi").write_text("a")
    assert stale_files("stubs", clone) == ["graphc/ir/functions/b.pyi"]


def test_outside_of_a_clone_it_says_so(tmp_path, capsys):
    assert main(["regenerate"], tmp_path) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"regenerate: {tmp_path} is not a clone of the repository: ")
    assert "clone it, and run" in told


def test_an_unknown_name_is_told_with_all_names(capsys):
    assert main(["regenerate", "op"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("regenerate: there is no 'op'; the names are differences, ")


def test_a_package_that_is_missing_is_named(clone, capsys, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="pytensor")

    monkeypatch.setattr("importlib.import_module", absent)
    assert main(["regenerate", "pytensor-ops"], clone) == 2
    told = capsys.readouterr().err
    assert told.startswith("regenerate: pytensor-ops: the package pytensor is not ")
    assert "pip install -e '.[test]'" in told


def test_the_command_runs_as_it_is_typed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["graphc.dev", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("graphc.dev", run_name="__main__")
    assert ended.value.code == 0
    assert "python -m graphc.dev regenerate --check" in capsys.readouterr().out


def test_no_page_names_a_script_that_is_gone():
    """Tables once had scripts in docs/; now the tour is the only program there."""
    assert [path.name for path in ROOT.glob("docs/*.py")] == ["tour.py"]
    assert graphc.__file__ == str(ROOT / "graphc" / "__init__.py")
