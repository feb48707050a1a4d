"""Models whose driver runs loops step by step, as steps of the file."""


import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.runtime.test_export import exact, exported, message, remade, same
from tests.transform.uncovered import uncovered

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", ("n",))
ROWS = gt.tensor("rows", "float32", ("t", 3))
Y = gt.tensor("y", "float32", ())
TABLE = gt.asarray(np.linspace(0, 1, 600, dtype="float32"))
RNG = np.random.default_rng(0)


def kept_of(c, r):
    """The sum of the selected elements, in an order that depends on their number."""
    kept = r[r > c]
    return kept.shape[0], gt.sum(uncovered(kept[:, None]) * TABLE[7])


def scanned(c, r):
    count, total = kept_of(c, r)
    return c + total / 8, (count, r)


def nested(c, r):
    """A Python loop within another."""
    end, _ = gt.scan(lambda d, q: (d + kept_of(d, r * q)[1], d), c, r)
    return end / 8, end


def until(c):
    count, total = kept_of(c, X)
    return c + 0.25 + 0 * total, count


START = gt.sum(X) * 0
SCANS = {
    "forwards": lambda: gt.scan(scanned, START, ROWS),
    "backwards": lambda: gt.scan(scanned, START, ROWS, reverse=True),
    "nested": lambda: gt.scan(nested, START, ROWS),
}


def given(t):
    return RNG.normal(size=2).astype("f4"), RNG.normal(size=(t, 3)).astype("f4")


@pytest.mark.parametrize("kind", SCANS)
def test_a_scan_whose_steps_have_sizes_of_their_own(tmp_path, kind):
    f = exact([X, ROWS], list(SCANS[kind]()))
    name = asked(f, tmp_path)[-1]
    m = exported(f, tmp_path, {"n": 2, "t": [4] * 4, name: range(4)})
    for _ in range(2):
        args = given(4)
        same(m(*args), f(*args))
    f.export(tmp_path / "none", {"n": 2, "t": 0, name: 0})
    same(graphc.load(tmp_path / "none")(*given(0)), f(*given(0)))


def asked(f, path):
    """The names of the sizes that an export asks for."""
    text = message(graphc.GraphError, lambda: f.export(path / "model", {}))
    (line,) = [line for line in text.splitlines() if "expected: " in line]
    return line.split(": ")[1].split(", ")


@pytest.fixture(scope="module")
def stopping(tmp_path_factory):
    """A function with a Python loop that stops by itself, and its model."""
    last, counts = gt.while_loop(lambda c: c < Y, until, Y * 0, collect=True)
    f = exact([X, Y], [last, counts])
    path = tmp_path_factory.mktemp("stopping")
    (name,) = {*asked(f, path)} - {"n", "steps"}
    sizes = {"n": 2, "steps": 4, name: [0, 1, 2]}
    return f, exported(f, path, sizes), path / "model"


def test_a_loop_that_stops_does_all_steps_for_whose_sizes_there_are_programs(stopping):
    f, m, _ = stopping
    for y in (0.0, 0.9, 4.9):  # no step, as many as were said, and more
        args = given(0)[0], np.float32(y)
        same(m(*args), f(*args))
    text = message(graphc.ModelError, lambda: m(np.ones(3, "float32"), args[1]))
    assert "got: shapes ((3,), ())" in text


def loop_of(content):
    found = []
    remade(content, lambda manifest, _: found.extend(manifest["steps"]))
    return next(step for step in found if step[0] == "loop")[1]


PARTS = "carries rows rest integers length reverse counted going name".split()
PARTS += ["stacked", "body", "results"]
BAD = {
    "carries": ([], "stage 1 has other arguments"),
    "rows": ([1], "a scalar has no rows"),
    "rest": ([99], "99 is not an array"),
    "integers": ([[[1, [0]]]], "0 is not an integer"),
    "length": ("1", "'1' is not of type list"),
    "reverse": (0, "0 is not of type bool"),
    "counted": (0, "steps are counted by an integer"),
    "going": (0, "a bool says whether a loop goes on"),
    "name": (1, "1 is not of type str"),
    "stacked": ([["eval", []]], "'eval' is unknown"),
    "body": ([["axis", 99, 0]], "99 is not an array"),
    "results": ([], "the body of a loop gives other values"),
}


@pytest.mark.parametrize("part", BAD)
def test_a_loop_that_is_none(tmp_path, stopping, part):
    bad, problem = BAD[part]
    changed(tmp_path, stopping, {part: bad})
    text = message(graphc.ModelError, lambda: graphc.load(tmp_path / "model"))
    assert "its manifest is malformed: " in text and problem in text


def changed(tmp_path, stopping, parts):
    """Write the model with other parts of its loop."""

    def change(manifest, _):
        (step,) = [s for s in manifest["steps"] if s[0] == "loop"]
        for part, value in parts.items():
            step[1][PARTS.index(part)] = value

    whole = stopping[2].read_bytes()
    (tmp_path / "model").write_bytes(remade(whole, change))


def test_a_loop_without_an_end(tmp_path, stopping):
    loop = loop_of(stopping[2].read_bytes())
    results = loop[-1][:2] + loop[-1][3:]  # nor the value that says it stops
    changed(tmp_path, stopping, {"going": None, "results": results})
    text = message(graphc.ModelError, lambda: graphc.load(tmp_path / "model"))
    assert "a loop has no end" in text


def test_loops_too_deep_in_others(tmp_path, stopping):
    body = []
    for _ in range(20):
        body = [["loop", [[], [], [], [], [], False, None, None, "", [], body, []]]]
    changed(tmp_path, stopping, {"body": body})
    text = message(graphc.ModelError, lambda: graphc.load(tmp_path / "model"))
    assert "loops are nested too deeply" in text


def test_more_steps_than_rows(tmp_path):
    f = exact([X, ROWS], list(SCANS["forwards"]()))
    name = asked(f, tmp_path)[-1]
    f.export(tmp_path / "whole", {"n": 2, "t": 4, name: 1})

    def change(manifest, _):
        (step,) = [s for s in manifest["steps"] if s[0] == "loop"]
        step[1][4] = [[5, []]]

    (tmp_path / "model").write_bytes(
        remade((tmp_path / "whole").read_bytes(), change)
    )
    m = graphc.load(tmp_path / "model")
    text = message(graphc.ModelError, lambda: m(*given(4)))
    assert text.startswith("a loop has more steps than rows\n")
