"""The rounds: every way gives NumPy's bits, and the text does not grow."""

from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "many_rounds.py"
M = np.arange(16, dtype="uint32").reshape(4, 4) * np.uint32(0x01234567)


@pytest.mark.parametrize("way", ["graphc", "fori_loop", "scan"])
@pytest.mark.parametrize("count", [1, 30])
def test_the_bits_of_numpy(example, way, count):
    found = example.WAYS[way](count)(M)
    np.testing.assert_array_equal(found, example.rounds(M, count))


def test_the_text_does_not_grow_with_the_rounds(example):
    short, long = (example.by_graphc(n).source.count("\n") for n in (20, 400))
    assert short == long


def test_it_tells_its_story(example, capsys):
    assert example.main([2, 12]) == 0
    out = capsys.readouterr().out
    assert out.count(" us") == 7
    assert out.endswith("everything agrees\n")


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch):
    ways = {"graphc": lambda count: lambda m: m}
    monkeypatch.setitem(example.main.__globals__, "WAYS", ways)
    assert example.main([3]) == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
