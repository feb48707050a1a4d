"""Samplers other than PyMC's: nutpie and those on JAX, with densities for all."""

import importlib
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import graphc  # noqa: E402
import graphc.pymc  # noqa: E402
from graphc.pymc.threads import hold_thread, release_thread  # noqa: E402
from graphc.runtime.driver.xla import EVENTS  # noqa: E402
from tests.pytensor.pymc_models import reference  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiled_quickly", "wide")
TRUE = np.array([-1.0, 0.0, 1.5])
GROUPS = {"posterior", "sample_stats", "observed_data", "constant_data"}  # as PyMC's


def levels(members=8):
    """A model of three groups' levels, whose posterior is known up to shrinkage."""
    place = np.repeat(np.arange(3), members)
    coords = {"group": ["a", "b", "c"], "row": np.arange(len(place))}
    with pm.Model(coords=coords) as model:
        d = pm.Data("place", place, dims="row")
        y = pm.Data("y", TRUE[place] + 0.1 * np.cos(np.arange(len(place))), dims="row")
        own = pm.Normal("own", 0.0, 3.0, dims="group")
        noise = pm.HalfNormal("noise", 0.5)
        pm.Deterministic("twice", 2 * own, dims="group")
        pm.Normal("seen", own[d], noise, observed=y, dims="row")
    return model


def resized(model, members):
    place = np.repeat(np.arange(3), members)
    data = {"place": place, "y": TRUE[place] + 0.1}
    with model:
        pm.set_data(data, coords={"row": np.arange(len(place))})


@pytest.mark.parametrize("sampler", ["nutpie", "numpyro", "blackjax"])
def test_samplers_draw_from_the_posterior(sampler):
    pytest.importorskip(sampler)
    drawn = graphc.pymc.sample(
        levels(),
        draws=150,
        tune=200,
        chains=2,
        random_seed=1,
        progressbar=False,
        sampler=sampler,
    )
    own = drawn.posterior["own"]
    assert own.dims == ("chain", "draw", "group") and own.shape == (2, 150, 3)
    np.testing.assert_allclose(own.values.mean((0, 1)), TRUE, atol=0.25)
    np.testing.assert_allclose(drawn.posterior["twice"].values, 2 * own.values)
    assert (drawn.posterior["noise"].values > 0).all()
    assert "diverging" in drawn.sample_stats
    assert {*drawn.groups()} == GROUPS
    assert drawn.observed_data["seen"].shape == (24,)
    assert drawn.constant_data["place"].dims == ("row",)


def test_nutpie_computes_what_pytensor_does_and_resized_data_compile_little():
    pytest.importorskip("nutpie")
    model, before = levels(), EVENTS.count
    for members in (8, 5, 3, 7, 6, 4, 9, 10):
        resized(model, members)
        compiled = graphc.pymc.nutpie(model)
        at = np.linspace(-0.5, 0.5, compiled.n_dim)
        found = compiled._make_logp_func()(at, **compiled._shared_data)
        for ours, theirs in zip(found, reference(model)(at), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-8)
    assert EVENTS.count - before <= 4  # the first size, and capacities
    other = compiled.with_data(y=np.zeros(30))
    value, _ = other._make_logp_func()(at, **other._shared_data)
    with model:
        pm.set_data({"y": np.zeros(30)})
    np.testing.assert_allclose(value, reference(model)(at)[0], 1e-8)


def test_threads_of_a_sampler_keep_their_state_for_a_draw():
    """Otherwise, Python makes one per gradient, at more than the gradient costs."""
    pytest.importorskip("nutpie")
    state, calls = threading.local(), []

    def density(values):
        hold_thread()
        hold_thread()
        state.calls = getattr(state, "calls", 0) + 1
        calls.append(state.calls)
        return -0.5 * float(values @ values), -values

    def variables(values):
        release_thread()
        return {"x": values}

    from_pyfunc = importlib.import_module("nutpie.compiled_pyfunc").from_pyfunc
    model = from_pyfunc(
        ndim=2,
        make_logp_fn=lambda: density,
        make_expand_fn=lambda *_: variables,
        expanded_dtypes=[np.dtype("float64")],
        expanded_shapes=[(2,)],
        expanded_names=["x"],
    )
    how = {"draws": 20, "tune": 20, "chains": 2, "cores": 1, "progress_bar": False}
    importlib.import_module("nutpie").sample(model, seed=1, **how)
    draws = 2 * 40
    assert max(calls) > 1  # the state lasts from one gradient to the next,
    assert calls.count(1) >= draws  # and ends with the draw


def test_the_density_on_jax_is_a_function_of_a_vector():
    model = levels()
    density = graphc.pymc.jax_density(model)
    at = density.initial + 0.2
    value, slope = jax.jit(jax.value_and_grad(density))(at)
    for ours, theirs in zip((value, slope), reference(model)(at), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-8)
    found = density.variables(np.stack([[at, at + 1]]))
    assert found["own"].shape == (1, 2, 3)
    np.testing.assert_allclose(found["noise"][0, 1], np.exp(at[-1] + 1))


def test_models_that_cannot_be_sampled_so_are_told_or_go_to_pymc(monkeypatch):
    with pm.Model() as model:
        pm.Normal("y", pm.Poisson("n", 3.0), 1.0, observed=2.0)
    with pytest.raises(graphc.GraphError, match="discrete|not installed"):
        graphc.pymc.nutpie(model)
    asked = []
    monkeypatch.setattr(pm, "sample", lambda *args, **given: asked.append(given))
    graphc.pymc.sample(model, 10, chains=2, progressbar=False)
    assert asked[0]["compile_kwargs"] == {"mode": "GRAPHC"}
    with pytest.raises(graphc.GraphError, match="sampler cannot be 'stan'"):
        graphc.pymc.sample(model, sampler="stan")
    with pytest.raises(graphc.GraphError, match="draws must be an integer"):
        graphc.pymc.sample(model, 0)


def test_pymc_is_imported_by_name_and_told_of_where_it_is_missing():
    text = (
        "import sys, graphc\n"
        "assert 'pymc' not in sys.modules\n"
        "sys.modules['pymc'] = None\n"
        "try:\n"
        "    graphc.pymc\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "pip install 'graphc[pymc]'" in done.stdout, done.stderr
