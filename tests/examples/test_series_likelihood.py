"""The kicked pendulum: its likelihood and gradient agree with loops; and its fit."""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "series_likelihood.py"
THETA = np.array([2.2, 3.5, -0.9])


def test_recordings_differ_in_length(example):
    lengths = [len(y) for y in example.recordings(120)]
    assert len(set(lengths)) > 90 and min(lengths) >= 10 and max(lengths) <= 1000


@pytest.fixture(scope="module")
def series(example):
    short = [y[:n] for y, n in zip(example.recordings(3), (0, 1, 3), strict=True)]
    return short + [y[:21] for y in example.recordings(9, seed=1) if len(y) > 20]


@pytest.fixture(scope="module")
def values_and_slopes(example, series):
    """The likelihood and gradient of each series, computed by JAX."""
    with jax.enable_x64(True):
        by_hand = jax.jit(jax.value_and_grad(functools.partial(example.cost, jnp)))
        found = [by_hand(THETA, y) for y in series]
    return [np.array(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_value_and_gradient_are_those_of_a_loop_in_jax(
    example, series, values_and_slopes, backend, group
):
    f = example.compiled(backend=backend, group=group)
    value, gradient = f(THETA, series)
    values, slopes = values_and_slopes
    np.testing.assert_allclose(value, values.sum(), rtol=1e-11)
    np.testing.assert_allclose(gradient, slopes.sum(0), rtol=1e-9)


def test_it_tells_its_story(example, capsys):
    assert example.main() == 0
    out = capsys.readouterr().out
    assert re.findall(r"(\d+) compilations so far", out) == ["1", "2", "3", "3"]
    assert out.endswith("the optima agree\n")


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch):
    least_squares = example.least_squares
    monkeypatch.setitem(
        example.main.__globals__, "least_squares", lambda s: least_squares(s) * 1.01
    )
    assert example.main() == 1
    assert capsys.readouterr().out.endswith("THE OPTIMA DIFFER\n")
