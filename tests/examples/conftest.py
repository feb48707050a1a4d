"""The fixture that tests of examples share."""

import runpy
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def example(request):
    """The functions of the example at the path EXAMPLE of the test module."""
    return SimpleNamespace(**runpy.run_path(str(request.module.EXAMPLE)))
