"""The character model: batches and single lines have the same cost as in JAX."""

import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "lines_of_text.py"


@pytest.fixture(scope="module")
def programs(example):
    return example.compiled()


def parameters(example):
    rng = np.random.default_rng(0)
    shapes = example.SHAPES.items()
    return {name: rng.normal(0, 0.3, s).astype("float32") for name, s in shapes}


def some_lines(example, *lengths):
    whole = np.concatenate(example.lines())
    return [whole[10 : 10 + n] for n in lengths]


def test_lines_are_the_text(example):
    text = Path(example.TEXT).read_text(encoding="utf-8")
    wanted = {line[: example.LONGEST] for line in text.splitlines() if line}
    found = {"".join(chr(c + 32) for c in line) for line in example.lines()}
    assert {line for line in wanted if line.isascii()} <= found
    assert len({len(line) for line in found}) > 50


def test_a_batch_has_cost_and_gradient_of_its_lines(example, programs):
    p, batch = parameters(example), some_lines(example, 0, 3, 40, 3)
    value, slopes = programs[0](*p.values(), batch)
    once, twice = (example.in_jax(p, line) for line in (batch[2], batch[1]))
    np.testing.assert_allclose(value, once[0] + 2 * twice[0], rtol=1e-5)
    assert slopes.keys() == p.keys()
    for name, slope in slopes.items():
        wanted = once[1][name] + 2 * twice[1][name]
        np.testing.assert_allclose(slope, wanted, rtol=1e-3, atol=1e-4)


def test_single_lines_cost_what_they_cost_in_a_batch(example, programs):
    p, batch = parameters(example), some_lines(example, 5, 0, 17, 33, 16, 2)
    alone = [float(programs[1](*p.values(), line)) for line in batch]
    assert programs[1].plan.padded is not None and alone[1] == 0
    value, _ = programs[0](*p.values(), batch)
    np.testing.assert_allclose(value, sum(alone), rtol=1e-5)


def test_it_tells_its_story(example, capsys):
    assert example.main() == 0
    out = capsys.readouterr().out
    counts = re.findall(r"(\d+) lengths.*?: (\d+) compilations", out)
    (learned_from, few), (read, some) = [tuple(map(int, pair)) for pair in counts]
    assert learned_from > 50 and few == 2
    assert read > 20 and some <= 3 + 4 and "n took 2 sizes: padded" in out
    bits, by_frequency = map(float, re.findall(r"[:y] (\d\.\d\d)", out))
    assert bits < by_frequency - 1
    assert out.endswith("everything agrees\n")


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch):
    def wrong(p, line):
        value, slopes = example.in_jax(p, line)
        return value, slopes | {"out": slopes["out"] * 1.01}

    monkeypatch.setitem(example.main.__globals__, "EPOCHS", 0)
    monkeypatch.setitem(example.main.__globals__, "in_jax", wrong)
    short = [line[:16] for line in example.lines()[:64]]
    monkeypatch.setitem(example.main.__globals__, "lines", lambda: short)
    assert example.main() == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
