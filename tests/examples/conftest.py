"""What tests of examples share."""

import runpy
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def example(request):
    """The functions of the example that the module names as EXAMPLE."""
    return SimpleNamespace(**runpy.run_path(str(request.module.EXAMPLE)))
