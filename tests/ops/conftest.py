"""What tests of ops share."""

import jax
import pytest


@pytest.fixture
def compiled_quickly():
    """Programs are run only once: compiling them well takes longer than they do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
