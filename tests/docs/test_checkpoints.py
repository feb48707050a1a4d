"""The page on checkpoints runs, and restores on fewer devices and processes."""

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


def in_folder(folder, *parts):
    return "\n".join(["import os", f"os.chdir({str(folder)!r})", *parts])


def test_the_page_prints_what_it_says(tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text(PAGE, encoding="utf-8")
    on_devices(8, str(ROOT / "tests" / "test_readme.py"), str(copy))
    assert copy.read_text(encoding="utf-8") == PAGE, "take what this process printed"


def test_fewer_devices_go_on(tmp_path):
    assert on_devices(8, "-c", in_folder(tmp_path, SETUP, SAVE)).endswith(SAVED)
    assert on_devices(4, "-c", in_folder(tmp_path, SETUP, RESTORE)).endswith(RESTORED)


def test_two_processes_go_on_from_what_four_wrote(tmp_path):
    for out in on_processes(4, in_folder(tmp_path, SETUP, SAVE)):
        assert all(line in out for line in SAVED.splitlines())
    for out in on_processes(2, in_folder(tmp_path, SETUP, RESTORE)):
        assert all(line in out for line in RESTORED.splitlines())
