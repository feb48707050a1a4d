"""PyTensor without its compilers, which are slow to start."""

import pytensor
import pytest


@pytest.fixture
def python_only():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
