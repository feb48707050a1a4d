"""PyMC models: the log density with its gradient, and draws, beside PyTensor's modes.

    python -m benchmarks.pymc_models [calls] [radon] [resized]

`calls`: the CPU time of a call of `graphc.pymc.logp_and_grad`, beside PyTensor's modes
"JAX" (target 1.1) and "NUMBA" (target 2.0); results are compared first. `radon`: the
CPU seconds from a model of varying intercepts and slopes to its draws, by nutpie with
our density and with its own on numba (target 1.0), and the draws per second (target:
half). `resized`: the XLA compilations for a model whose data get 20 sizes (target 6).

The tables have CPU time and not wall time, since on a machine with other work only CPU
time can be trusted. PyMC, numba and nutpie are needed; without them, the tables are
empty.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.harness import (
    CPU,
    Row,
    compare,
    named,
    print_table,
    row,
    same,
    setting,
    some,
    time_text,
    xla_compilations,
)

NEEDED = ("pymc", "numba", "nutpie")
MISSING = [name for name in NEEDED if find_spec(name) is None]
if not MISSING:
    import nutpie
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    import graphc.pymc

ROUNDS, CALLS, DRAWS, CHAINS, SIZES = setting((9, 300, 1000, 4, 20), (2, 2, 5, 1, 3))
RNG = np.random.default_rng(7)


def radon(observations: int = 919, counties: int = 85) -> Any:
    """Make a model whose intercepts and slopes vary by county, not centred."""
    group = RNG.integers(0, counties, observations)
    floor = RNG.integers(0, 2, observations) * 1.0
    noise = RNG.normal(size=observations)
    level = RNG.normal(size=counties) * 0.3
    told = {"county": np.arange(counties)}
    with pm.Model(coords=told) as model:
        place, basement = pm.Data("place", group), pm.Data("floor", floor)
        y = pm.Data("log_radon", 1.4 - 0.7 * floor + level[group] + 0.7 * noise)
        own = []
        for name in ("intercept", "slope"):
            centre = pm.Normal(f"{name}_centre", 0.0, 5.0)
            spread = pm.HalfNormal(f"{name}_spread", 1.0)
            raw = pm.Normal(f"{name}_raw", dims="county")
            own.append(pm.Deterministic(name, centre + spread * raw, dims="county"))
        fit = own[0][place] + own[1][place] * basement
        pm.Normal("y", fit, pm.HalfNormal("noise", 1.0), observed=y)
    return model


def schools() -> Any:
    """Make the model of eight schools."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    scale = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pm.Model() as model:
        centre, spread = pm.Normal("centre", 0, 5), pm.HalfCauchy("spread", 5)
        pm.Normal("y", centre + spread * pm.Normal("own", shape=8), scale, observed=y)
    return model


def regression() -> Any:
    """Make a regression with three slopes and a noise."""
    x = RNG.normal(size=(40, 3))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 2, shape=3)
        fit = pt.dot(x, slopes)
        pm.Normal("y", fit, pm.HalfNormal("noise"), observed=x @ [1.0, -0.5, 0.2])
    return model


def logistic() -> Any:
    """Make a logistic regression with three slopes."""
    x = RNG.normal(size=(40, 3))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 2, shape=3)
        hits = (x[:, 0] > 0).astype(int)
        pm.Bernoulli("y", logit_p=pt.dot(x, slopes), observed=hits)
    return model


def counts() -> Any:
    """Make a model of negative binomial counts in five groups."""
    group = np.arange(40) % 5
    with pm.Model() as model:
        own = pm.Normal("own", pm.Normal("centre"), 1.0, shape=5)
        alpha = pm.Gamma("alpha", 2, 1)
        seen = RNG.poisson(3.0, 40)
        pm.NegativeBinomial("y", mu=pt.exp(own[group]), alpha=alpha, observed=seen)
    return model


def mixture() -> Any:
    """Make a mixture of two normal distributions."""
    y = np.concatenate([RNG.normal(-1.0, 0.3, 20), RNG.normal(1.0, 0.5, 20)])
    order = pm.distributions.transforms.ordered
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(2))
        start = {"transform": order, "initval": [-1.0, 1.0]}
        places = pm.Normal("places", 0, 2, shape=2, **start)
        width = pm.HalfNormal("width", 1, shape=2)
        pm.NormalMixture("y", w=share, mu=places, sigma=width, observed=y)
    return model


MODELS = [schools, radon, regression, logistic, counts, mixture]


def in_mode(model: Any, mode: str) -> Any:
    """Compile the density and its gradient at a vector, in a mode of PyTensor."""
    point = model.initial_point()
    given = {v.name: point[v.name] for v in model.value_vars}
    join = pm.pytensorf.join_nonshared_inputs
    [density], vector = join(given, [model.logp()], model.value_vars)
    outputs = [density, pytensor.grad(density, vector)]
    return pytensor.function([vector], outputs, mode=mode, trust_input=True)


def call_rows() -> Iterator[Row]:
    for build in some(MODELS):
        model = build()
        ours = graphc.pymc.logp_and_grad(model)
        at = ours.initial + 0.1
        for mode, target in (("JAX", 1.1), ("NUMBA", 2.0)):
            theirs = in_mode(model, mode)

            def read(f: Any = theirs, at: Any = at) -> Any:
                return [np.asarray(v) for v in f(at)]

            same([np.asarray(v) for v in ours(at)], read(), 1e-8)
            run = lambda f=ours, at=at: f(at)  # noqa: E731
            told = compare(run, read, rounds=ROUNDS, calls=CALLS, clock=CPU)
            yield row(build.__name__, told, target, mode)


@dataclass(frozen=True)
class Draws:
    """Draws of nutpie, the CPU seconds of making the model, and those of all."""

    trace: Any
    made: float
    total: float

    @classmethod
    def of(cls, make: Callable[[], Any]) -> "Draws":
        """Make a model, and draw from it."""
        start = CPU()
        compiled = make()
        made = CPU() - start
        trace = nutpie.sample(
            compiled, draws=DRAWS, chains=CHAINS, seed=1, progress_bar=False
        )
        return cls(trace, made, CPU() - start)

    @property
    def mean(self) -> float:
        """Return the mean of the intercepts."""
        return float(np.mean(self.trace.posterior["intercept"].values))


def radon_rows() -> Iterator[Row]:
    model = radon()
    ours = Draws.of(lambda: graphc.pymc.nutpie(model))
    theirs = Draws.of(lambda: nutpie.compile_pymc_model(model))
    assert setting(abs(ours.mean - theirs.mean) < 0.1, True), (ours.mean, theirs.mean)
    for what, a, b, target in [
        ("CPU seconds, all", ours.total, theirs.total, 1.0),
        ("to make the model", ours.made, theirs.made, None),
        ("draws", ours.total - ours.made, theirs.total - theirs.made, 2.0),
    ]:
        yield Row(what, time_text(a), time_text(b), a / b, target, "nutpie on numba")


def resized_rows() -> Iterator[Row]:
    for what, counties in (("observations", False), ("counties too", True)):
        model = radon(60, 10)
        with xla_compilations() as found:
            for i in range(SIZES):
                rows, places = 60 + 17 * i, 10 + 3 * i * counties
                data = {
                    "place": np.arange(rows) % places,
                    "floor": np.arange(rows) % 2 * 1.0,
                    "log_radon": np.sin(np.arange(rows)),
                }
                model.set_dim("county", places, np.arange(places))
                with model:
                    pm.set_data(data)
                compiled = graphc.pymc.nutpie(model)
                at = np.full(compiled.n_dim, 0.1)
                ours = compiled._make_logp_func()(at, **compiled._shared_data)
                theirs = in_mode(model, "FAST_COMPILE")(at)
                same([np.asarray(v) for v in ours], theirs, 1e-8)
        yield Row(what, str(len(found)), "", float(len(found)), 6.0, f"{SIZES} sizes")


TABLES = {
    "calls": ("CPU time of a call, beside PyTensor's modes", call_rows),
    "radon": (f"{CHAINS} chains of {DRAWS} draws of the radon model", radon_rows),
    "resized": ("XLA compilations of resized data", resized_rows),
}


def main() -> None:
    if MISSING:
        print(f"left out, because of what is not installed: {', '.join(MISSING)}")
    for name in named() or TABLES:
        title, rows = TABLES[name]
        print_table(title, [] if MISSING else rows())


if __name__ == "__main__":
    main()
