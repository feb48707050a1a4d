"""The net that learns names: cost and gradient as by `jax.lax.scan`, and a picture."""

import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "unicode_names.py"


@pytest.fixture(scope="module")
def programs(example):
    return example.programs()


def parameters(example):
    rng = np.random.default_rng(0)
    shapes = example.SHAPES.items()
    return {name: rng.normal(0, 0.3, s).astype("float32") for name, s in shapes}


def test_names_are_those_of_letters(example):
    found = example.names()
    spelled = {"".join(example.LETTERS[i] for i in name[:-1]) for name in found}
    assert "GREEK SMALL LETTER ALPHA" in spelled and "THAI DIGIT ONE" in spelled
    assert all(unicodedata.lookup(name) for name in spelled)
    assert len(spelled) == len(found) > 500
    assert {int(name[-1]) for name in found} == {example.END}


def test_a_batch_has_cost_and_gradient_of_its_names(example, programs):
    p, batch = parameters(example), sorted(example.names(), key=len)[::300]
    value, slopes = programs[0](*p.values(), batch)
    each = [example.in_jax(p, name) for name in batch]
    np.testing.assert_allclose(value, sum(v for v, _ in each), rtol=1e-5)
    for name, slope in slopes.items():
        wanted = sum(np.asarray(found[name]) for _, found in each)
        np.testing.assert_allclose(slope, wanted, rtol=1e-3, atol=1e-4)
    assert len(programs[0].function.stats().compilations) <= 4  # 16, 32, 64, 128
    surprises = programs[1](*p.values(), batch[0])
    assert surprises.shape == batch[0].shape
    np.testing.assert_allclose(np.sum(surprises) * np.log(2), each[0][0], rtol=1e-5)


def test_the_loss_is_summed_within_the_loop(programs):
    """The gradient needs stacked products, but no stack of log probabilities."""
    train = programs[0].function
    forward, backward = (
        node for node in train.plan.segments[0].nodes if node.primitive.name == "scan"
    )
    summed = forward.outputs[: forward.params["carries"]]
    assert [v.type.rank for v in summed] == [0, 2, 1]  # the step, states, sums
    assert backward.params["reverse"]


@pytest.fixture
def _compiled_before(example, programs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(example.main.__globals__, "programs", lambda: programs)


@pytest.mark.usefixtures("_compiled_before")
def test_it_tells_its_story(example, capsys, tmp_path):
    assert example.main(epochs=2) == 0
    out = capsys.readouterr().out
    lengths, few = map(int, re.findall(r"(\d+) lengths, .*?(\d+) compilations", out)[0])
    assert lengths > 30 and few <= 4
    first, new = map(float, re.findall(r"(\d\.\d\d) (?:at first|for new)", out))
    assert new < first - 2
    assert (tmp_path / "unicode_names.png").read_bytes().startswith(b"\x89PNG")
    assert out.endswith("everything agrees\n")


@pytest.mark.usefixtures("_compiled_before")
def test_a_wrong_answer_is_reported(example, capsys, monkeypatch):
    def wrong(p, codes):
        value, slopes = example.in_jax(p, codes)
        return value, slopes | {"out": slopes["out"] * 1.01}

    monkeypatch.setitem(example.main.__globals__, "in_jax", wrong)
    few = example.names()[:72]
    monkeypatch.setitem(example.main.__globals__, "names", lambda: few)
    assert example.main(epochs=1) == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
