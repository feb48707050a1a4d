"""The hierarchical regression: its data, its gradient, three fits of one optimum."""

from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "penguins_sex.py"


def test_values_are_missing_in_the_data(example):
    x, male, species = example.load()
    assert x.shape == (344, 4) and set(species) == {0, 1, 2}
    assert np.isnan(male).sum() == 11 and np.isnan(x).any(axis=1).sum() == 2


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_value_and_gradient_are_those_of_jax(example, backend):
    data = example.load()
    theta = np.linspace(-1, 1, example.SIZE)
    value, gradient = example.compiled(backend)(theta, *data)
    with jax.enable_x64(True):
        wanted, slope = example.by_hand(*data)(theta)
    np.testing.assert_allclose(value, wanted, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)


def test_the_fits_end_at_one_optimum(example, capsys):
    assert example.main() == 0
    assert "the optima agree" in capsys.readouterr().out
