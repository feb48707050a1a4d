"""What tests of several parts share."""

import gc
import itertools
import os
import shutil
import sys

import jax
import pytest

from tests.compiling import (
    USUAL,
    compile_once,
    compile_quickly,
    compiled_well,
    lower_quickly,
)
from tests.show.browser import MISSING, Browser, executable

sys.argv.append("--smallest")  # for the modules of benchmarks, whoever imports them

if "GRAPHC_EXAMPLES" not in os.environ:  # at length, they are what users have
    compile_quickly()
    lower_quickly()

COMPILED = None if jax.config.jax_compilation_cache_dir else compile_once()

# PyTensor's own functions run in Python: its compilers are slow to start. To be said
# before it is imported; changed later, PyTensor 3.0 gives wrong numbers of loops.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")

# Graphs and traces are many small objects that live: looking through all of them for
# garbage as often as Python does takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)
MODULES = itertools.count(1)


def pytest_unconfigure():
    """The process that made the folder of compiled programs removes it."""
    if COMPILED is not None:
        shutil.rmtree(COMPILED, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Tests have no examples in docstrings: to look for some takes seconds."""
    collectors = yield
    return [one for one in collectors if type(one) is pytest.Module]


def pytest_collection_finish():
    """What is imported is no garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def what_is_left_is_no_garbage():
    """Caches, of JAX above all, live to the end: to search them would take seconds."""
    yield
    if next(MODULES) % 8 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def mode_of_jax():
    """A test leaves JAX with numbers of 32 bits; PyTensor changes that when asked."""
    yield
    if jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def browser():
    """A headless browser, for the tests of one module."""
    if executable() is None:
        pytest.skip(MISSING)
    one = Browser()
    yield one
    one.close()


@pytest.fixture
def compiled_quickly():
    """Programs are run only once: compiling them well takes longer than they do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compiled_as_users(monkeypatch):
    """For what only XLA's optimisations may spoil: programs are those of users."""
    jit = jax.jit

    def well(function, **options):
        if function.__name__.startswith("segment"):  # JAX refuses it of inner ones
            options["compiler_options"] = USUAL
        return jit(function, **options)

    monkeypatch.setattr(jax, "jit", well)


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
            found.append(compiled_well(jitted.lower(*args)))
            return found[-1](*args)

        return call

    monkeypatch.setattr(jax, "jit", recording)
    return found
