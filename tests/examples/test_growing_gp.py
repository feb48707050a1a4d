"""The Gaussian process: predictions at every size, evidence, and compilations."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc

EXAMPLE = Path(__file__).parents[2] / "examples" / "growing_gp.py"
THETA = np.array([0.5, 0.2, -0.3, -1.2])


@pytest.fixture(scope="module")
def padded(example):
    return example.programs(graphc.Pad(minimum=16))


def by_hand(x, y):
    """The negative evidence, computed without Cholesky factor or mask."""

    def cost(theta):
        apart = (x[:, None] - x[None]) / jnp.exp(theta[:2])
        k = jnp.exp(2 * theta[2] - jnp.sum(apart**2, -1) / 2)
        k += jnp.exp(2 * theta[3]) * jnp.eye(len(x))
        size = jnp.linalg.slogdet(2 * jnp.pi * k)[1]
        return (y @ jnp.linalg.solve(k, y) + size) / 2

    return cost


def test_the_whole_plan_is_padded(padded):
    for f in padded:
        assert not f.plan.padded.cuts and len(f.plan.segments) == 1


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 33])
def test_predictions_are_those_of_plain_numpy(example, padded, n):
    x, y = example.load()
    arguments = (THETA, x[:n], y[:n], x[n])
    np.testing.assert_allclose(
        padded[0](*arguments), example.plain_numpy(*arguments), rtol=1e-9
    )


@pytest.mark.parametrize("n", [1, 16, 20])
def test_evidence_and_its_gradient_are_those_of_jax(example, padded, n):
    x, y = (a[:n] for a in example.load())
    value, gradient = padded[1](THETA, x, y)
    with jax.enable_x64(True):
        wanted, slope = jax.jit(jax.value_and_grad(by_hand(x, y)))(THETA)
    np.testing.assert_allclose(value, wanted, rtol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-9)


def test_it_tells_its_story(example, capsys):
    assert example.main() == 0
    out = capsys.readouterr().out
    assert "compilations: 4, by size: 128\n" in out
    assert out.endswith("everything agrees\n")


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch):
    wrong, (x, y) = lambda *arguments: (0.0, 1.0), example.load()
    monkeypatch.setitem(example.main.__globals__, "plain_numpy", wrong)
    monkeypatch.setitem(example.main.__globals__, "load", lambda: (x[:12], y[:12]))
    monkeypatch.setitem(example.main.__globals__, "fitted", lambda *_: THETA)
    monkeypatch.setitem(example.main.__globals__, "FIRST", 10)
    assert example.main() == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
