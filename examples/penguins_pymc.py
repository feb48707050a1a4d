"""How much heavier is a male? A PyMC model whose groups change, sampled two ways.

The body mass of penguins is explained by the length of their flippers, by their sex,
and by a level for each group: the birds of a species on an island in a year. The levels
of groups are drawn from a common distribution, so small groups learn from the others.
The sex of some birds is not known: their density is that of both sexes, weighted by the
share of males. The model is made once. `pm.set_data` gives it all birds, and then those
of single islands, which have fewer groups.

PyMC's NUTS samples the model in PyTensor's mode "JAX" and on graphc. The example
compares the posteriors, the time to the first draw and for the others, and how often
XLA compiles. ArviZ draws both posteriors of all birds into penguins_pymc.png.

The data are in data/penguins.csv; see data/README.md for source and licence. The
package pymc is needed. Run it: python examples/penguins_pymc.py
"""

import csv
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz as az
import jax
import matplotlib
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import graphc.pymc  # noqa: F401  (registers the mode)

DATA = Path(__file__).parent / "data" / "penguins.csv"
ISLANDS = ("Torgersen", "Biscoe", "Dream"), ("Dream",), ("Biscoe",)
SEXES = {"NA": -1, "female": 0, "male": 1}
SHOWN = ["level", "spread", "slope", "heavier", "share", "noise"]
MODES = "JAX", "GRAPHC"
COMPILED = "/jax/core/compile/backend_compile_duration"
events: list[float] = []


@jax.monitoring.register_event_duration_secs_listener
def note(event: str, seconds: float, **_: Any) -> None:
    """Count the compilations of XLA; called by JAX."""
    if event == COMPILED:
        events.append(seconds)


def load(islands: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Load the data of the model, for the measured birds of some islands."""
    with DATA.open(encoding="utf-8") as file:
        birds = [row for row in csv.DictReader(file) if row["body_mass_g"] != "NA"]
    measured = ("body_mass_g", "flipper_length_mm")
    x = np.array([[float(bird[name]) for name in measured] for bird in birds])
    x = (x - x.mean(0)) / x.std(0)
    here = np.array([bird["island"] in islands for bird in birds])
    kinds = [[bird[k] for k in ("species", "island", "year")] for bird in birds]
    names, group = np.unique(np.array(kinds)[here], axis=0, return_inverse=True)
    sex = np.array([SEXES[bird["sex"]] for bird in birds])
    return {
        "mass": x[here, 0],
        "flipper": x[here, 1],
        "sex": sex[here],
        "group": group.ravel(),
        "groups": np.array(len(names)),
    }


def model(data: dict[str, np.ndarray]) -> pm.Model:
    """Make the model of birds in groups; `pm.set_data` may change both."""
    with pm.Model() as found:
        given = {name: pm.Data(name, values) for name, values in data.items()}
        level, spread = pm.Normal("level", 0, 1), pm.HalfNormal("spread", 1)
        own = pm.Normal("own", 0, 1, shape=given["groups"])
        slope, heavier = pm.Normal("slope", 0, 1), pm.Normal("heavier", 0, 1)
        share, noise = pm.Beta("share", 2, 2), pm.HalfNormal("noise", 1)
        female = level + spread * own[given["group"]] + slope * given["flipper"]
        mass, sex = given["mass"], given["sex"]
        if_female = pt.log1p(-share) + log_normal(mass, female, noise)
        if_male = pt.log(share) + log_normal(mass, female + heavier, noise)
        known = pt.where(sex > 0, if_male, if_female)
        unknown = pt.logaddexp(if_male, if_female)
        pm.Potential("weighed", pt.where(sex < 0, unknown, known).sum())
    return found


def log_normal(x: Any, mean: Any, scale: Any) -> Any:
    """Return the log density of a normal distribution, up to a constant."""
    return -0.5 * ((x - mean) / scale) ** 2 - pt.log(scale)


@dataclass
class Run:
    """Draws, the time that they took, and the compilations."""

    posterior: xr.Dataset
    first: float  # seconds until the first draw
    rate: float  # draws per second after that
    compilations: int


def sampled(made: pm.Model, mode: Any, seed: int, draws: int, chains: int) -> Run:
    """Draw by NUTS in a mode of PyTensor, with half as many steps for tuning."""
    times: list[float] = []
    before, start = len(events), time.perf_counter()
    with made:
        found = pm.sample(
            draws,
            tune=draws // 2,
            chains=chains,
            target_accept=0.9,
            cores=1,
            compile_kwargs={"mode": mode},
            callback=lambda **_: times.append(time.perf_counter()),
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    rate = len(times) / (times[-1] - times[0])
    posterior = xr.Dataset(found["posterior"].data_vars)
    return Run(posterior, times[0] - start, rate, len(events) - before)


def joined(runs: list[Run]) -> xr.Dataset:
    """Return the draws of all runs as the chains of one posterior."""
    found = xr.concat([run.posterior for run in runs], "chain")
    return found.assign_coords(chain=np.arange(found.sizes["chain"]))


def largest(found: xr.Dataset) -> float:
    """Return the largest number in a data set."""
    return max(float(values.max()) for values in found.data_vars.values())


def apart(runs: list[Run]) -> float:
    """Return the largest difference of means, in Monte Carlo standard errors."""
    one, other = (run.posterior for run in runs)
    error = np.sqrt(az.mcse(one) ** 2 + az.mcse(other) ** 2)
    axes = "chain", "draw"
    return largest(abs(one.mean(axes) - other.mean(axes)) / error)


def draw(path: Path, found: xr.Dataset) -> None:
    """Draw the intervals of each chain."""
    plot = az.plot_forest(found, var_names=SHOWN, combined=False)
    (plot if hasattr(plot, "savefig") else plot[0].figure).savefig(path)


def main(
    draws: int = 2000,
    chains: int = 4,
    islands: tuple[tuple[str, ...], ...] = ISLANDS,
    rhat: float = 1.01,
    far: float = 5.0,
    folder: Path = Path(),
) -> int:
    """Sample everything both ways; return 0 if the posteriors are the same.

    They are if R-hat is below `rhat`, and means are less than `far` errors apart.
    """
    matplotlib.use("agg")
    made, agree = model(load(islands[0])), True
    for k, names in enumerate(islands):
        data = load(names)
        with made:
            pm.set_data(data)
        print(f"{', '.join(names)}: {len(data['mass'])} birds", end=", ")
        print(f"{sum(data['sex'] < 0)} of unknown sex, in {data['groups']} groups")
        seeds = 2 * k, 2 * k + 1
        runs = [
            sampled(made, mode, seed, draws, chains)
            for mode, seed in zip(MODES, seeds, strict=True)
        ]
        for mode, run in zip(MODES, runs, strict=True):
            print(f"  {mode:6} {run.first:6.1f} s to the first draw", end=", ")
            print(f"{run.rate:.0f} draws per second", end=", ")
            print(f"{run.compilations} compilations")
        both = joined(runs)
        worst, errors = largest(az.rhat(both)), apart(runs)
        print(f"  R-hat of all chains {worst:.3f}, means {errors:.1f} errors apart")
        agree &= worst < rhat and errors < far
        if k == 0:
            draw(folder / "penguins_pymc.png", both)
            grams = float(both["heavier"].mean()) * 801.95
            print(f"  a male is {grams:.0f} g heavier than a female of its flippers")
    print("the posteriors agree" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
