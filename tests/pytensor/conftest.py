"""PyTensor without its compilers, which are slow to start."""

from importlib.util import find_spec

import pytensor
import pytest

# Without PyMC, tests of models are skipped, and these modules cannot be imported.
collect_ignore = [] if find_spec("pymc") else ["pymc_models.py", "generated_models.py"]


@pytest.fixture
def python_only():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
