"""The pytest fixture by which tests limit compilations.

`pytest_plugins = ["graphc.testing.plugin"]` in a `conftest.py` makes it known.
"""

import pytest

from graphc import testing


@pytest.fixture
def assert_compiles() -> object:
    """Return `graphc.assert_compiles`: `with assert_compiles(f, at_most=3): ...`."""
    return testing.assert_compiles
