"""How heavy is the next penguin? A Gaussian process whose data arrive one by one.

Birds are measured in some order. Before a bird is weighed, its mass is predicted from
those weighed so far; so the Cholesky factor has as many sizes as there are birds. With
`dims={"n": graphc.Pad()}` the program is compiled once per capacity: 16, 32, ... The
padding of the covariance is a unit matrix, which graphc finds out by itself.

The example checks two exact results. Each prediction equals that of plain NumPy. And
by the chain rule, the log densities of all predictions add up to the evidence of the
whole data set. A second program computes the evidence and its gradient, for SciPy's
L-BFGS. Run it: python examples/growing_gp.py
"""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import graphc
import graphc.tensor as gt

DATA = Path(__file__).parent / "data" / "penguins.csv"
MEASURED = ("bill_depth_mm", "flipper_length_mm")
LOG_2PI = float(np.log(2 * np.pi))
START = np.array([0.0, 0.0, 0.0, -1.0])  # logs of scales, amplitude and noise
BIRDS, FIRST = 128, 50  # the FIRST birds decide the parameters


def load() -> tuple[np.ndarray, np.ndarray]:
    """Load birds: measures in units of their spread, and masses in kg minus 4.2."""
    with open(DATA, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["body_mass_g"] != "NA"]
    x = np.array([[float(row[name]) for name in MEASURED] for row in rows])
    mass = np.array([float(row["body_mass_g"]) for row in rows])
    order = np.random.default_rng(0).permutation(len(rows))[:BIRDS]
    return ((x - x.mean(0)) / x.std(0))[order], (mass / 1000 - 4.2)[order]


def covariance(xp: Any, theta: Any, a: Any, b: Any) -> Any:
    """Return the covariance of the masses of birds `a` and `b`; `xp` is gt or numpy."""
    apart = (a[:, None, :] - b[None, :, :]) / xp.exp(theta[:2])
    return xp.exp(2 * theta[2] - xp.sum(apart**2, axis=-1) / 2)


def programs(policy: Any) -> tuple[Any, Any]:
    """Compile the prediction for a bird, and the negative evidence and its gradient."""
    theta = gt.tensor("theta", "float64", (4,))
    x = gt.tensor("x", "float64", ("n", 2))
    y = gt.tensor("y", "float64", ("n",))
    new = gt.tensor("new", "float64", (2,))

    noise = gt.exp(2 * theta[3])
    k = covariance(gt, theta, x, x) + noise * gt.eye(x.shape[0], dtype="float64")
    factor = gt.linalg.cholesky(k)
    white = gt.linalg.solve_triangular(factor, y, lower=True)

    to_new = covariance(gt, theta, x, new[None])[:, 0]
    seen = gt.linalg.solve_triangular(factor, to_new, lower=True)
    mean = seen @ white
    variance = gt.exp(2 * theta[2]) + noise - seen @ seen
    cost = white @ white / 2 + gt.sum(gt.log(gt.diagonal(factor)) + LOG_2PI / 2)

    dims = {"n": policy}
    predict = graphc.function([theta, x, y, new], [mean, variance], dims=dims)
    evidence = graphc.function(
        [theta, x, y], graphc.value_and_grad(cost, theta), dims=dims
    )
    return predict, evidence


def plain_numpy(theta: np.ndarray, x: Any, y: Any, new: Any) -> tuple[Any, Any]:
    """Compute in plain NumPy the prediction that the program must give."""
    noise = np.exp(2 * theta[3])
    k = covariance(np, theta, x, x) + noise * np.eye(len(x))
    to_new = covariance(np, theta, x, new[None])[:, 0]
    mean, left = np.linalg.solve(k, np.stack([y, to_new], axis=1)).T @ to_new
    return mean, np.exp(2 * theta[2]) + noise - left


def fitted(evidence: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find the most probable parameters."""

    def host(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence(theta, x, y)
        return float(value), np.asarray(gradient)

    found: np.ndarray = minimize(host, START, jac=True, method="L-BFGS-B").x
    return found


def main() -> int:
    """Fit, predict bird after bird, and compare; return 0 if everything agrees."""
    x, y = load()
    predict, evidence = programs(graphc.Pad(minimum=16))
    theta = fitted(evidence, x[:FIRST], y[:FIRST])
    scales = dict(zip(MEASURED, np.exp(theta[:2]).round(1).tolist(), strict=True))
    print(f"length scales: {scales}, noise: {np.exp(theta[3]) * 1000:.0f} g")

    agree, total, misses = True, 0.0, []
    for n, mass in enumerate(y):
        mean, variance = map(float, predict(theta, x[:n], y[:n], x[n]))
        if n % 10 < 2:  # plain NumPy takes its time
            wanted = plain_numpy(theta, x[:n], y[:n], x[n])
            agree &= np.allclose((mean, variance), wanted, rtol=1e-9)
        total += (mass - mean) ** 2 / (2 * variance) + (np.log(variance) + LOG_2PI) / 2
        misses.append(abs(mass - mean))
        if n in (0, 10, FIRST, len(y) - 1):
            print(
                f"{n:3} birds seen: {mean:+.2f} ± {variance**0.5:.2f}, is {mass:+.2f}"
            )
    print(f"mean error after {FIRST} birds: {1000 * np.mean(misses[FIRST:]):.0f} g")

    whole = float(evidence(theta, x, y)[0])
    print(f"log densities of predictions: {-total:.9f}, evidence: {-whole:.9f}")
    agree &= np.isclose(total, whole, rtol=1e-9)

    sizes = {"n": range(len(y))}
    exact = programs(graphc.Specialize())[0].plan.forecast(sizes).compilations
    print(f"compilations: {len(predict.stats().compilations)}, by size: {exact}")
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
