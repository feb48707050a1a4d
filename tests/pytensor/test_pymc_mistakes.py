"""Mistakes of PyMC's users: the class of the error and its message."""

import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import pytensor  # noqa: E402

import graphc.pymc  # noqa: E402
import graphc.pytensor  # noqa: E402

FEW = {"draws": 5, "tune": 5, "chains": 1, "random_seed": 1, "progressbar": False}


def grouped():
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        place = pm.Data("place", np.array([0, 1, 0]))
        level = pm.Normal("level", 0, 1, dims="group")
        spread = pm.HalfNormal("spread", 1)
        pm.Normal("seen", level[place], spread, observed=np.array([1.0, 2.0, 3.0]))
    return model


def discrete():
    with pm.Model() as model:
        count = pm.Poisson("count", 3.0)
        pm.Normal("seen", count, 1, observed=1.0)
    return model


def observed_alone():
    with pm.Model() as model:
        pm.Normal("seen", 0, 1, observed=1.0)
    return model


def with_data(place):
    model = grouped()
    with model:
        pm.set_data({"place": np.array(place)})
    return graphc.pymc.logp_and_grad(model)


def sample(model=None, **options):
    graphc.pymc.sample(model or grouped(), **{**FEW, **options})


def at(values):
    graphc.pymc.logp_and_grad(grouped())(values)


def density(place):
    f = with_data(place)
    f(f.initial)


def doubled(mode):
    x = pytensor.tensor.dvector("x")
    return pytensor.function([x], x * 2, mode=mode)


OF_GRAPHC = graphc.GraphError
OF_NUTPIE = {"discrete", "misspelled", "of pm.sample"}
MISTAKES = {
    "no model": (TypeError, "No model", lambda: graphc.pymc.sample(**FEW)),
    "a number": (OF_GRAPHC, "needs a model of PyMC", lambda: sample(3)),
    "no sampler": (OF_GRAPHC, "cannot be 'stan'", lambda: sample(sampler="stan")),
    "no draws": (OF_GRAPHC, "of at least 1", lambda: sample(draws=0)),
    "half a chain": (OF_GRAPHC, "chains must be", lambda: sample(chains=1.5)),
    "all cores": (OF_GRAPHC, "cores must be an int", lambda: sample(cores="all")),
    "before the start": (OF_GRAPHC, "tune must be", lambda: sample(tune=-1)),
    "a word as seed": (TypeError, "SeedSequence", lambda: sample(random_seed="a")),
    "all observed": (OF_GRAPHC, "no free values", lambda: sample(observed_alone())),
    "discrete": (
        *(OF_GRAPHC, "variables are discrete\n  got: count"),
        lambda: sample(discrete(), sampler="nutpie"),
    ),
    "misspelled": (OF_GRAPHC, "no option 'draw'", lambda: sample(draw=5)),
    "of pm.sample": (OF_GRAPHC, "no option 'initvals'", lambda: sample(initvals={})),
    "values by name": (OF_GRAPHC, "must be one vector", lambda: at({"level": 0.0})),
    "too many values": (OF_GRAPHC, "3 numbers: level", lambda: at(np.zeros(9))),
    "data of two lengths": (OF_GRAPHC, "do not broadcast", lambda: density([0, 1])),
    "no such mode": (ValueError, "GRAPHCC", lambda: doubled("GRAPHCC")),
    "no such backend": (
        *(OF_GRAPHC, "backend cannot be 'torch'"),
        lambda: doubled(graphc.pytensor.mode(backend="torch")),
    ),
    "no such policy": (
        *(OF_GRAPHC, "did you mean 'pad'"),
        lambda: doubled(graphc.pytensor.mode(dims="padd")),
    ),
    "an option misspelled": (
        *(TypeError, "did you mean 'dims'"),
        lambda: graphc.pytensor.mode(dim="pad"),
    ),
    "another mode's function": (
        *(OF_GRAPHC, "not a function of graphc"),
        lambda: graphc.pytensor.program_of(doubled(None)),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name):
    kind, words, mistake = MISTAKES[name]
    if name in OF_NUTPIE:
        pytest.importorskip("nutpie")
    with pytest.raises(kind, match=words):
        mistake()


def test_an_error_of_a_density_names_the_line_of_the_model():
    """PyMC builds the terms of a density later, in files of its own."""
    with pm.Model() as model:
        x = pm.Data("x", np.ones(4))
        pm.Normal("y", pm.Normal("mean") + x[:2], observed=np.ones(3))
    with pytest.raises(graphc.GraphError) as caught:
        graphc.pymc.logp_and_grad(model)
    assert "do not broadcast" in str(caught.value)
    assert "test_pymc_mistakes.py:" in str(caught.value)
    assert 'pm.Normal("y", pm.Normal("mean") + x[:2]' in str(caught.value)
