"""The walks of docs/design.md go where they say, and rooms that pages name exist."""

import pathlib
import re
import sys

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

HOUSE = pathlib.Path(graphc.__file__).parent
DOCS = HOUSE.parent / "docs"
PAGES = [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
DESIGN = (DOCS / "design.md").read_text(encoding="utf-8")
WALKS = {part.split(",")[0]: part for part in DESIGN.split("\n**")[1:]}
NAME = re.compile(r"`((?:\w+/)+\w*)(?:\.\w+)?`")
OTHERS = ("tests/", "docs/", "examples/", "benchmarks/")


def rooms(text):
    """The modules and folders that a text names, like `ir/sizes/dims`."""
    return [name.removeprefix("graphc/") for name in NAME.findall(text)]


def is_there(room):
    path = (HOUSE.parent if room.startswith(OTHERS) else HOUSE) / room
    return path.is_dir() or any(path.parent.glob(f"{path.name}.*"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_rooms_that_are_named_are_there(page):
    named = rooms(page.read_text(encoding="utf-8"))
    assert [room for room in named if not is_there(room)] == []


def entered(run):
    """The modules of graphc whose functions are called while `run` runs."""
    found = set()

    def note(frame, event, _):
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    inside = [pathlib.Path(f) for f in found if f.startswith(f"{HOUSE}/")]
    return {path.relative_to(HOUSE).with_suffix("").as_posix() for path in inside}


def shape_of_reshape():
    x, k = gt.tensor("x", "float32", ("n", 4)), gt.iscalar("k")
    for dims in ("specialize", "pad"):
        y = gt.reshape(gt.exp(x), (-1, k))
        graphc.function([x, k], y, backend="jax", dims=dims)


def loss_behind_a_scan():
    x = gt.tensor("x", "float32", ("n", 3))
    _, ys = gt.scan(lambda c, row: (c + row, c * row), gt.zeros(3), x)
    graphc.function([x], gt.mean((ys - x) ** 2), backend="jax")


def padded_axis():
    x = gt.tensor("x", "float32", ("n",))
    for dims in ("pad", "auto"):
        f = graphc.function([x], gt.cumsum(x), dims=dims)
        assert f(np.ones(3, "float32"))[2] == 3


@pytest.mark.parametrize(
    ("walk", "run"),
    [*zip(WALKS, (shape_of_reshape, loss_behind_a_scan, padded_axis), strict=True)],
)
def test_a_walk_enters_its_rooms(walk, run):
    named = rooms(WALKS[walk].split("\n## ")[0])
    assert len(named) > 8
    assert {*named} - entered(run) == set(), f"see docs/design.md, {walk!r}"
