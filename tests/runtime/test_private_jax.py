"""Private parts of JAX: all in one module, all present today, none indispensable."""

import pathlib
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import graphc
import graphc.tensor as gt
import graphc_serving
from graphc_serving import private_jax

FOLDERS = [pathlib.Path(p.__file__).parent for p in (graphc, graphc_serving)]
PRIVATE = re.compile(r"\bjax\._(?!_)|\._cache_miss|swap_local|xla_bridge")
NAMES = {
    "importers/asking.py",  # names of modules, as in frames
    "backends/sharding/agreement.py",  # printed into programs, which import JAX alone
}


def test_they_stand_in_one_module():
    places = {
        str(path.relative_to(folder))
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        if PRIVATE.search(path.read_text(encoding="utf-8"))
    }
    assert places - NAMES == {"private_jax.py"}


def test_they_are_what_they_were(tmp_path):
    jitted = jax.jit(jnp.sin)
    jitted(1.0)
    assert private_jax.device_put(jax) is not None
    assert private_jax.of_weak_type(jitted(1.0)[None]).weak_type
    assert private_jax.switch_of_x64(jax) is not None
    assert private_jax.cache_miss(jitted) is not None
    assert private_jax.dispatched(jax, jitted, print, print) is not None
    tells = private_jax.traces_nothing(jax)
    assert tells()
    inside = []
    jax.make_jaxpr(lambda x: inside.append(tells()) or x)(1.0)
    assert inside == [False]
    assert private_jax.discharge_state() is not None
    assert private_jax.search_by_halves() is not None
    options = private_jax.options(jax)
    with options["jax_compilation_cache_dir"](str(tmp_path)):
        reset_cache()
        assert private_jax.keep_entries_in(tmp_path)
    reset_cache()
    context = private_jax.trace_context(jax)
    outside = context()
    with jax.numpy_rank_promotion("raise"):
        assert context() != outside
    assert context() == outside and hash(context()) == hash(outside)
    assert "Sharding" in private_jax.stable_targets()
    assert private_jax.has_run()


def without(monkeypatch):
    """A JAX without its private parts, as far as they are looked up."""
    for name, absent in {
        "device_put": None,
        "switch_of_x64": None,
        "cache_miss": None,
        "discharge_state": None,
        "of_weak_type": None,
        "keep_entries_in": False,
        "dispatched": None,
        "options": {},
        "trace_context": None,
        "traces_nothing": None,
    }.items():
        monkeypatch.setattr(private_jax, name, lambda *_, absent=absent: absent)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_programs_run_where_they_are_gone(monkeypatch, tmp_path, dtype):
    without(monkeypatch)
    x = gt.tensor("x", dtype, ("n",))
    f = graphc.function([x], gt.cumsum(x * 2)[x > 0])
    for n in (3, 5, 3):
        array = np.linspace(-1, 1, n, dtype=dtype)
        expected = np.cumsum(array * 2)[array > 0]
        np.testing.assert_allclose(f(array), expected, rtol=1e-6)
    g = graphc.jit(lambda x: (jnp.cumsum(x * 2), jnp.where(x > 0, 1.0, 0.0)))
    for n in (3, 5, 3):
        array = np.linspace(-1, 1, n, dtype="float32")
        sums, positive = g(array)
        np.testing.assert_allclose(sums, np.cumsum(array * 2), rtol=1e-6)
        np.testing.assert_array_equal(positive, array > 0)
        assert positive.weak_type


@pytest.mark.parametrize("is_there", [True, False])
def test_saved_models_run_with_and_without_them(monkeypatch, tmp_path, is_there):
    x = gt.tensor("x", "float64", ("n",))
    f = graphc.function([x], [gt.cumsum(x), gt.sum(x)], dims="pad")
    f.export(tmp_path / "model", {"n": [3]})
    if not is_there:
        without(monkeypatch)
    model = graphc_serving.load(tmp_path / "model")
    for n in (3, 2):
        sums, total = model(np.ones(n))
        np.testing.assert_array_equal(sums, np.arange(n) + 1)
        assert (sums.dtype, sums.committed, total) == ("float64", True, n)


def test_each_tells_that_it_is_gone():
    source = SimpleNamespace(lib=None, config=None, core=None)
    bare = SimpleNamespace(_src=source, enable_x64=0)
    assert private_jax.traces_nothing(bare) is None
    assert private_jax.trace_context(bare) is None
    assert private_jax.device_put(bare) is None
    assert private_jax.of_weak_type(bare) is None
    assert private_jax.switch_of_x64(bare) is None
    assert private_jax.cache_miss(abs) is None
    assert private_jax.dispatched(bare, jax.jit(abs), abs, abs) is None
    assert private_jax.options(bare) == {}
