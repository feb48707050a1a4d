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


@pytest.fixture
def programs(monkeypatch):
    """All that XLA compiles for a function of graphc."""
    found, jit = [], jax.jit

    def recording(function, **options):
        jitted = jit(function, **options)

        def call(*args):
            found.append(jitted.lower(*args).compile())
            return jitted(*args)

        return call

    monkeypatch.setattr(jax, "jit", recording)
    return found
