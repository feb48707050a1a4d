"""The page on checkpoints runs, and restores on other devices and processes."""

import pathlib

import pytest

from tests.on_devices import on_devices
from tests.on_processes import on_processes
from tests.test_readme import blocks

pytest.importorskip("orbax.checkpoint")
ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
SETUP, SAVE, RESTORE = [b.body for b in blocks(PAGE) if b.language == "python"]
SAVED, RESTORED = [b.body for b in blocks(PAGE) if b.language == "text"]
OTHER_FOLDER = 'folder = folder.with_name("of_two_processes")'


def in_folder(folder, *parts):
    return "\n".join(["import os", f"os.chdir({str(folder)!r})", *parts])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for what the processes save."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def of_eight_devices(folder):
    """The lines that one process with eight devices prints as it runs the page."""
    return on_devices(8, "-c", in_folder(folder, SETUP, SAVE, RESTORE))


@pytest.fixture(scope="module")
def of_two_processes(folder, of_eight_devices):
    """The lines of two processes that restore what one saved, then save theirs."""
    code = in_folder(folder, SETUP, RESTORE, OTHER_FOLDER, SAVE)
    return on_processes(2, code, devices=2)


def test_the_page_prints_what_it_says(of_eight_devices):
    assert of_eight_devices == SAVED + RESTORED


def test_two_processes_go_on_from_what_one_saved(of_two_processes):
    expected = [*RESTORED.splitlines(), *SAVED.splitlines()]
    for out in of_two_processes:  # Gloo prints other lines
        assert [line for line in out.splitlines() if line in expected] == expected


def test_fewer_devices_go_on_from_what_two_processes_saved(folder, of_two_processes):
    code = in_folder(folder, SETUP, OTHER_FOLDER, RESTORE)
    assert on_devices(2, "-c", code).endswith(RESTORED)
