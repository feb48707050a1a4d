"""PyTensor without its compilers, which are slow to start."""

from importlib.util import find_spec

import pytensor
import pytest

# Where PyMC is missing, the test of its models is skipped, and they are no module.
collect_ignore = [] if find_spec("pymc") else ["pymc_models.py"]


@pytest.fixture
def python_only():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
