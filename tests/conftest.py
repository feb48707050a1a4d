"""What tests of several parts share."""

import jax
import pytest


@pytest.fixture
def compiled_quickly():
    """Programs are run only once: compiling them well takes longer than they do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def wide():
    """JAX has 64-bit numbers, for what is compared with it."""
    with jax.enable_x64(True):
        yield
