"""Models drawn by a seed, at several sizes of their data: ours and PyTensor's own."""

import pytest

pytest.importorskip("pymc")
pytest.importorskip("xarray")

from tests.pytensor.generated_models import SIZES, apart  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiled_quickly", "wide")


@pytest.mark.parametrize("seed", [9])
def test_densities_and_predictive_draws_are_those_of_pytensor(seed):
    found, _ = apart(seed, SIZES[:1], backend="numpy")
    assert max(found) < 1e-7


def test_models_are_compiled_a_few_times_for_all_sizes():
    found, compiled = apart(2, SIZES[:4], draws=False)
    assert max(found) < 1e-7
    assert compiled <= 4  # the first size, another, and capacities
