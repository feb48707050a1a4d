"""Is it a male? A hierarchical logistic regression, fitted by its gradient.

Each species has its own intercept and slopes, which are drawn from a common
distribution: the data of one species inform the others. For some birds, the sex or a
measurement is missing. They go in as NaN, and the graph leaves these birds out by a
mask, so the number of rows depends on the data. SciPy's L-BFGS finds the most probable
parameters by calls of one compiled function for the cost and its gradient, on JAX and
on NumPy. The results are compared with those of a hand-written JAX program.

Run it: python examples/penguins_sex.py
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import graphc
import graphc.tensor as gt

DATA = Path(__file__).parent / "data" / "penguins.csv"
MEASURED = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
SPECIES = ("Adelie", "Chinstrap", "Gentoo")
S, P = len(SPECIES), len(MEASURED) + 1  # a slope per measurement, and an intercept
PARTS = {"common": (P,), "log_spread": (P,), "own": (S, P)}
SIZE = sum(int(np.prod(shape)) for shape in PARTS.values())


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load measurements, whether male (NaN if missing), and the species by number."""
    with open(DATA, newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {"NA": np.nan, "male": 1.0, "female": 0.0}
    x = [[float(row[m].replace("NA", "nan")) for m in MEASURED] for row in rows]
    male = [numbers[row["sex"]] for row in rows]
    species = [SPECIES.index(row["species"]) for row in rows]
    return np.array(x), np.array(male), np.array(species)


def unpacked(theta: Any) -> dict[str, Any]:
    """Cut one vector into the parameters by name."""
    parts, start = {}, 0
    for name, shape in PARTS.items():
        stop = start + int(np.prod(shape))
        parts[name] = theta[start:stop].reshape(shape)
        start = stop
    return parts


def negative_log_posterior(
    xp: Any, log_sigmoid: Callable[[Any], Any], theta: Any, data: tuple[Any, Any, Any]
) -> Any:
    """Return the cost of birds with complete data; `xp` is gt or jax.numpy."""
    x, male, species = data
    p = unpacked(theta)
    z = (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)
    slopes = p["common"] + xp.exp(p["log_spread"]) * p["own"]
    logits = slopes[species, 0] + xp.sum(slopes[species, 1:] * z, axis=1)
    likelihood = xp.sum(log_sigmoid(xp.where(male > 0, logits, -logits)))
    prior = xp.sum(p["common"] ** 2) / 18 + xp.sum(p["own"] ** 2) / 2
    return prior + xp.sum(p["log_spread"] ** 2) / 2 - likelihood


def compiled(backend: Any) -> graphc.runtime.function.Function:
    """Compile the cost and its gradient, as a function of parameters and raw data."""
    theta = gt.tensor("theta", "float64", (SIZE,))
    x = gt.tensor("x", "float64", ("n", len(MEASURED)))
    male = gt.tensor("male", "float64", ("n",))
    species = gt.tensor("species", "int64", ("n",))
    known = ~gt.isnan(male) & ~gt.any(gt.isnan(x), axis=1)
    complete = x[known], male[known], species[known]
    cost = negative_log_posterior(gt, gt.nn.log_sigmoid, theta, complete)
    inputs = [theta, x, male, species]
    outputs = graphc.value_and_grad(cost, theta)
    return graphc.function(inputs, outputs, backend=backend)


def by_hand(x: np.ndarray, male: np.ndarray, species: np.ndarray) -> Any:
    """Write it in JAX: rows are chosen outside, and each number of rows is compiled."""
    known = ~np.isnan(male) & ~np.isnan(x).any(axis=1)
    data = x[known], male[known], species[known]

    def cost(theta: Any) -> Any:
        return negative_log_posterior(jnp, jax.nn.log_sigmoid, theta, data)

    return jax.jit(jax.value_and_grad(cost))


def fitted(value_and_grad: Callable[[np.ndarray], Any]) -> Any:
    """Return the result of L-BFGS."""

    def host(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(theta)
        return float(value), np.asarray(gradient)

    options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
    start = np.zeros(SIZE)
    return minimize(host, start, jac=True, method="L-BFGS-B", options=options)


def report(name: str, result: Any) -> dict[str, np.ndarray]:
    """Print how a fit ended; return its parameters and its slopes per species."""
    p = unpacked(result.x)
    slopes: np.ndarray = p["common"] + np.exp(p["log_spread"]) * p["own"]
    print(f"{name:12} {result.nit} steps to {result.fun:.9f}")
    return {"theta": result.x, "slopes": slopes}


def main() -> int:
    """Fit three times; return 0 if the optima agree."""
    x, male, species = load()
    print(f"{len(male)} birds, the sex of {np.isnan(male).sum()} is missing")
    functions = {name: compiled(name) for name in ("jax", "numpy")}
    found = {
        name: report(name, fitted(lambda theta, f=f: f(theta, x, male, species)))
        for name, f in functions.items()
    }
    with jax.enable_x64(True):
        found["by hand"] = report("by hand", fitted(by_hand(x, male, species)))

    print("\n                " + "  ".join(("intercept", *MEASURED)))
    for name, row in zip(SPECIES, found["jax"]["slopes"], strict=True):
        print(f"{name:15} " + "  ".join(f"{value:9.3f}" for value in row))
    stats = functions["jax"].stats()
    print(f"\non JAX: {stats.calls} calls, {len(stats.compilations)} compilations")
    agree = all(
        np.allclose(result["slopes"], found["by hand"]["slopes"], atol=1e-4)
        for result in found.values()
    )
    print("the optima agree" if agree else "THE OPTIMA DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
