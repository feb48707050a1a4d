"""Beam search never beats the exact best, and its gradient is that of its choice."""

from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "words_apart.py"


@pytest.fixture(scope="module")
def data(example):
    text, seen = example.texts()
    return [example.encoded(words, seen) for words in text[:12]]


def test_sentences_are_of_the_help(example):
    text, seen = example.texts()
    assert len(text) == example.TRAIN + example.TEST
    assert all(len(word) <= example.LONGEST for words in text for word in words)
    assert seen.most_common(1)[0][0] == "the"


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_scores_and_slopes(example, data, backend):
    learn, answer = example.compiled(backend)
    weights = np.array([5.0, -8.0, -15.0, -4.0])
    few = data if backend == "numpy" else data[:2]
    found, agree = example.agreement(answer, weights, few)
    assert agree and found > 0.7
    for features, ends in few[:2]:
        loss, slope = map(np.asarray, learn(weights, features, ends))
        score, taken, _ = map(np.asarray, answer(weights, features))
        starts = np.array([0, *ends[:-1]])
        right = features[starts, ends - starts - 1].sum(0)
        np.testing.assert_allclose(loss, score - right @ weights, atol=1e-9)
        np.testing.assert_allclose(slope, taken - right, atol=1e-9)


def test_a_wide_beam_finds_the_best(example, data, monkeypatch):
    """Tries the shortest sentences, as Python versions differ in their help texts."""
    monkeypatch.setitem(example.compiled.__globals__, "WIDTH", 250)
    _, answer = example.compiled("numpy")
    weights = np.array([5.0, -8.0, -15.0, -4.0])
    for features, _ in sorted(data, key=lambda pair: len(pair[0]))[:8]:
        score = answer(weights, features)[0]
        np.testing.assert_allclose(score, example.viterbi(features @ weights))


def test_it_tells_its_story(example, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, number in {"TRAIN": 30, "TEST": 10, "EPOCHS": 2}.items():
        monkeypatch.setitem(example.main.__globals__, name, number)
    assert example.main() == 0
    out = capsys.readouterr().out
    assert "words found in new sentences: " in out
    assert (tmp_path / "words_apart.png").read_bytes().startswith(b"\x89PNG")
    assert out.endswith("everything agrees\n")


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, number in {"TRAIN": 5, "TEST": 3, "EPOCHS": 1}.items():
        monkeypatch.setitem(example.main.__globals__, name, number)
    monkeypatch.setitem(example.main.__globals__, "viterbi", lambda table: -1e9)
    assert example.main() == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
