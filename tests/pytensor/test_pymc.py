"""PyMC models give PyTensor's results, at several sizes and with several samplers."""

import copy
import subprocess
import sys

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.interpolate import InterpolatedUnivariateSpline

pm = pytest.importorskip("pymc")
xr = pytest.importorskip("xarray")

import graphc  # noqa: E402
import graphc.pymc  # noqa: E402
import graphc.pytensor  # noqa: E402
from graphc.runtime.driver.xla import EVENTS  # noqa: E402
from tests.pytensor.pymc_models import MODELS, apart, reference  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiled_quickly", "wide")
QUIET = {"progressbar": False, "random_seed": 1, "compute_convergence_checks": False}


@pytest.mark.parametrize("name", MODELS)
def test_density_and_gradient_are_those_of_pytensor(name):
    assert apart(name) < 1e-8


@pytest.mark.parametrize("ext", ["extrapolate", "zeros", "const", "raise"])
@pytest.mark.parametrize("degree", [1, 3])
def test_splines_and_their_slopes_are_those_of_scipy(ext, degree):
    knots = np.array([0.0, 1, 2.5, 4, 5.5])
    spline = InterpolatedUnivariateSpline(knots, np.cos(knots), k=degree, ext=ext)
    x = pt.vector("x")
    y = pm.distributions.dist_math.SplineWrapper(spline)(x)
    outputs = [y, pt.grad(y.sum(), x)]
    at = np.array([*knots, 0.5] + [-1, 7, np.nan] * (ext != "raise"))
    ours = pytensor.function([x], outputs, mode=graphc.pytensor.mode(backend="numpy"))
    for a, b in zip(ours(at), pytensor.function([x], outputs)(at), strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    if ext != "raise":
        graph = graphc.pytensor.value_and_grad(y.sum(), x, [x])
        f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
        np.testing.assert_allclose(f(at)[1], ours(at)[1], 1e-9, 1e-12)


def grouped(members=2):
    """A model whose groups and observations are as many as the data say."""
    with pm.Model() as found:
        group = pm.Data("group", np.repeat(np.arange(3), members))
        y = pm.Data("y", np.linspace(-1.0, 1.0, 3 * members))
        count = pm.Data("count", np.array(3))
        spread = pm.HalfNormal("spread", 1.0)
        own = pm.Normal("own", 0.0, spread, shape=count)
        share = pm.Dirichlet("share", pt.ones(count))
        pm.Normal("seen", own[group] + share[group], 0.5, observed=y, shape=y.shape)
    return found


def test_groups_and_observations_may_change():
    model = grouped()
    f = graphc.pymc.logp_and_grad(model, dims="pad")
    before, counts = len(f.initial), []
    for groups, members in [(3, 2), (4, 1), (5, 2)]:
        data = {
            "group": np.repeat(np.arange(groups), members),
            "y": np.sin(np.arange(groups * members)),
            "count": np.array(groups),
        }
        with model:
            pm.set_data(data)
        at = f.initial + 0.1
        assert len(at) == before + 2 * (groups - 3)
        for ours, theirs in zip(f(at), reference(model)(at), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-8)
        counts.append(len(f.function.stats().compilations))
    assert len(set(counts)) == 1
    with pytest.raises(graphc.CallError, match="free values must be one"):
        f(at[:-1])


def test_data_that_are_changed_in_place_are_noticed():
    model = grouped()
    f = graphc.pymc.logp_and_grad(model)
    theirs, at = reference(model), f.initial + 0.1
    model["y"].set_value(np.arange(12.0)[::2], borrow=True)  # not contiguous

    def check():
        for ours, expected in zip(f(at), theirs(at), strict=True):
            np.testing.assert_allclose(ours, expected, 1e-8)

    check()
    for name, place, value in [("y", 3, -7.0), ("group", 5, 0), ("y", 0, np.nan)]:
        before = f(at)[0]
        model[name].get_value(borrow=True)[place] = value
        check()
        assert f(at)[0] != before
    model["y"].set_value(np.ones(6))
    check()
    model["count"].get_value(borrow=True)[...] = 4  # a size: another program for all
    theirs, at = reference(model), f.initial + 0.1
    check()
    model["y"].get_value(borrow=True)[:] = 2.0
    check()


def test_that_jax_runs_at_once_is_logged_and_may_be_refused(monkeypatch, caplog):
    name = "jax_cpu_enable_async_dispatch"
    before = jax.config.values[name]
    monkeypatch.delenv(name.upper(), raising=False)
    try:
        for variable, asked in [(None, False), ("1", True)]:
            jax.config.update(name, True)
            if variable:
                monkeypatch.setenv(name.upper(), variable)
            with caplog.at_level("INFO", "graphc"):
                caplog.clear()
                graphc.pymc.logp_and_grad(grouped())
            assert jax.config.values[name] == asked
            assert [name in line for line in caplog.messages].count(True) == (not asked)
    finally:
        jax.config.update(name, before)


def test_copies_have_programs_and_data_of_their_own():
    cloudpickle = pytest.importorskip("cloudpickle")
    f = graphc.pymc.logp_and_grad(grouped(), backend="numpy")
    at = f.initial + 0.1
    wanted = f(at)
    carried = cloudpickle.loads(cloudpickle.dumps(f))
    for g in (copy.copy(f), copy.deepcopy(f), carried):
        assert g.function is not f.function and g.function.stats().calls == 0
        for ours, theirs in zip(g(at), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-12)


def test_parameters_out_of_bounds_have_no_density():
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.Normal("scale"), observed=np.ones(3))
    f = graphc.pymc.logp_and_grad(model)
    assert f(np.array([-1.0]))[0] == -np.inf
    assert np.isfinite(f(np.array([1.0]))[0])


def test_pymc_samples():
    with pm.Model() as model:
        level = pm.Normal("level", 1.0, 1.0)
        x = pm.Data("x", np.ones(4))
        pm.Normal("y", level * x, 1.0, observed=np.full(4, 2.0), shape=x.shape)
        drawn = pm.sample(
            200,
            tune=300,
            chains=2,
            cores=1,
            compile_kwargs={"mode": "GRAPHC"},
            **QUIET,
        )
    found = drawn.posterior["level"].values
    assert found.shape == (2, 200)
    assert abs(found.mean() - 1.8) < 0.15 and abs(found.std() - 0.2**0.5) < 0.1
    for n in (2, 3, 5):
        with model:
            pm.set_data({"x": np.zeros(n)})
            predicted = pm.sample_posterior_predictive(
                drawn,
                predictions=True,
                progressbar=False,
                random_seed=1,
                compile_kwargs={"mode": graphc.pytensor.mode(backend="numpy")},
            )
        y = predicted.predictions["y"].values
        assert y.shape == (2, 200, n) and abs(y.mean()) < 0.2


SAMPLING = """
import numpy as np, pymc as pm
import graphc.pymc

groups = np.repeat(np.arange(4), 50)
with pm.Model():
    group = pm.Data("group", groups)
    own = pm.Normal("own", 0.0, 1.0, shape=4)
    y = pm.Data("y", groups - 1.5 + 0.1 * np.sin(np.arange(200)))
    pm.Normal("seen", own[group], 0.5, observed=y)
    options = {"progressbar": False, "random_seed": 1}
    drawn = pm.sample(
        100, tune=200, chains=2, cores=2, compile_kwargs={"mode": "GRAPHC"}, **options
    )
print(*drawn.posterior["own"].values.mean((0, 1)).round(1))
"""


def test_chains_in_forked_processes_do_not_hang():
    command = [sys.executable, "-c", SAMPLING]  # its own process, since chains fork
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [float(v) for v in done.stdout.split()] == pytest.approx(
        [-1.5, -0.5, 0.5, 1.5], abs=0.15
    )
    assert done.stderr.count("ForkWarning: GRAPHC: NumPy computes") == 2


def test_equal_models_with_other_data_share_what_is_compiled():
    counts = []
    for seed in (1, 2):
        with pm.Model() as model:
            y = pm.Data("y", np.random.default_rng(seed).normal(size=7))
            pm.Normal("seen", pm.Normal("level"), 1.0, observed=y)
        before, f = EVENTS.count, graphc.pymc.logp_and_grad(model)
        for ours, theirs in zip(f(f.initial), reference(model)(f.initial), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-8)
        counts.append(EVENTS.count - before)
    assert counts == [1, 0]


def test_plain_jax_takes_vectors_of_32_bits():
    model = grouped()
    f = graphc.pymc.logp_and_grad(model)
    at = f.initial + 0.1
    value, slope = f(at)
    with jax.enable_x64(False):
        narrow = np.asarray(at, "float32")
        for run in (f.jax_callable, jax.jit(f.jax_callable)):
            for found, wide in zip(run(narrow), (value, slope), strict=True):
                assert found.dtype == "float32"
                np.testing.assert_allclose(found, wide, 1e-4)
        found = jax.jit(jax.grad(f.jax_density))(narrow)
        np.testing.assert_allclose(found, slope, 1e-4)


def test_functions_that_pymc_makes_anew_compile_once_and_not_for_each_size():
    with pm.Model() as model:
        x = pm.Data("x", np.ones(4))
        level = pm.Normal("level", 1.0, 1.0)
        pm.Normal("y", level * x + x**2, 1.0, observed=np.ones(4), shape=x.shape)
    drawn = xr.Dataset({"level": (("chain", "draw"), np.ones((1, 3)))})
    found = []
    for n in (4, 4, 2, 3, 5, 6, 4):
        before = EVENTS.count
        with model:
            pm.set_data({"x": np.zeros(n)})
            pm.sample_posterior_predictive(
                drawn,
                predictions=True,
                progressbar=False,
                compile_kwargs={"mode": "GRAPHC"},
            )
        found.append(EVENTS.count - before)
    # The first size compiles, and the first other one, for a capacity.
    assert found == [1, 0, 1, 0, 0, 0, 0]


def target():
    with pm.Model() as model:
        place = pm.Normal("place", 1.0, 2.0, shape=2)
        pm.Normal("y", place, pm.HalfNormal("noise", 1.0), observed=np.ones((5, 2)))
    return graphc.pymc.logp_and_grad(model)


def test_the_gradient_of_the_density_on_jax_is_ours():
    jax = pytest.importorskip("jax")
    f = target()
    at = f.initial + 0.3
    value, slope = jax.jit(jax.value_and_grad(f.jax_density))(at)
    for ours, theirs in zip(f(at), (value, slope), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-12)
    many = jax.vmap(jax.grad(f.jax_density))(np.stack([at, at + 1]))
    np.testing.assert_allclose(many[0], slope, 1e-12)


def small():
    with pm.Model() as model:
        pm.Normal("own", 0.0, pm.HalfNormal("spread", 1.0), shape=2)
    return model


VECTOR = "the free values must be one vector"


@pytest.mark.parametrize(
    ("call", "first", "hint"),
    [
        (lambda f: f(np.zeros(2)), f"logp_and_grad: {VECTOR}", "f.initial is such a"),
        (lambda f: f(small().initial_point()), f"logp_and_grad: {VECTOR}", "f.initial"),
        (lambda f: f(None), f"logp_and_grad: {VECTOR}", "f.initial is such a vector"),
        (
            lambda _: graphc.pymc.jax_density(small())(np.zeros(2)),
            f"jax_density: {VECTOR}",
            "density.initial is such a vector",
        ),
        (
            lambda _: graphc.pymc.jax_density(small()).variables(np.zeros((2, 3))),
            "variables: draws have three axes: chain, draw, value",
            "",
        ),
        (
            lambda _: graphc.pymc.logp_and_grad(3),
            "logp_and_grad: needs a model of PyMC",
            "with pymc.Model() as model: ...",
        ),
        (
            lambda _: graphc.pymc.sample(3),
            "sample: needs a model of PyMC",
            "with pymc.Model() as model: ...",
        ),
        (
            lambda _: graphc.pymc.logp_and_grad(pm.Model()),
            "logp_and_grad: the model has no free values, so no density to follow",
            "add a variable that is not observed",
        ),
    ],
)
def test_what_is_no_vector_and_no_model(call, first, hint):
    f = graphc.pymc.logp_and_grad(small(), backend="numpy")
    with pytest.raises(graphc.GraphError) as caught:
        call(f)
    lines = str(caught.value).splitlines()
    assert lines[0] == first and "test_pymc.py:" in lines[-2]
    assert not hint or any(x.startswith(f"  hint: {hint}") for x in lines)


def test_groups_that_are_not_there_are_an_error():
    model = grouped()
    f = graphc.pymc.logp_and_grad(model)
    value, _ = f(f.initial)
    fits = model["group"].get_value()
    with model:
        pm.set_data({"group": np.full_like(fits, 99)})
    with pytest.raises(graphc.CallError, match="out of bounds"):
        f(f.initial)
    with pytest.raises(graphc.CallError, match="out of bounds"):
        graphc.pymc.logp_and_grad(model).jax_density  # noqa: B018
    with pytest.raises(IndexError, match="out of bounds"):
        model.compile_fn(model.logp(), mode="GRAPHC")(model.initial_point())
    with model:
        pm.set_data({"group": fits})
    assert f(f.initial)[0] == value
