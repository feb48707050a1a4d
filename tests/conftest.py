"""Fixtures and hooks that tests of several parts share."""

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

sys.argv.append("--smallest")  # for the benchmark modules, whichever test imports them

if "GRAPHC_EXAMPLES" not in os.environ:  # long runs use the programs that users have
    compile_quickly()
    lower_quickly()

COMPILED = None if jax.config.jax_compilation_cache_dir else compile_once()

# PyTensor's own functions run in Python, since its compilers are slow to start. Set
# this before the import: if it is changed later, PyTensor 3.0 gives wrong results of
# loops.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")

# Graphs and traces are many small objects that stay alive: searching them for garbage
# as often as Python does by default takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)
MODULES = itertools.count(1)


def pytest_unconfigure():
    """Remove the folder of compiled programs, in the process that made it."""
    if COMPILED is not None:
        shutil.rmtree(COMPILED, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Drop doctest collectors: tests have no examples, and searching takes seconds."""
    collectors = yield
    return [one for one in collectors if type(one) is pytest.Module]


def pytest_collection_finish():
    """Exempt what is imported from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def what_is_left_is_no_garbage():
    """Freeze what caches keep to the end, JAX's above all: searching it takes long."""
    yield
    if next(MODULES) % 8 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def mode_of_jax():
    """Turn JAX's 64-bit mode off after each test; PyTensor may have turned it on."""
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
    """Turn most optimisations off: programs run once, so good code doesn't pay."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compiled_as_users(monkeypatch):
    """Compile as for users, for errors that only XLA's optimisations can cause."""
    jit = jax.jit

    def well(function, **options):
        if function.__name__.startswith("segment"):  # refused for inner functions
            options["compiler_options"] = USUAL
        return jit(function, **options)

    monkeypatch.setattr(jax, "jit", well)


@pytest.fixture
def wide():
    """Give JAX 64-bit numbers, for comparisons with it."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def programs(monkeypatch):
    """Collect all programs that XLA compiles for functions of graphc."""
    found, jit = [], jax.jit

    def recording(function, **options):
        jitted = jit(function, **options)

        def call(*args):
            found.append(compiled_well(jitted.lower(*args)))
            return found[-1](*args)

        return call

    monkeypatch.setattr(jax, "jit", recording)
    return found
