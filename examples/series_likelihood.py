"""A pendulum pelted with peas: one likelihood over recordings of different lengths.

In 1927, Yule thought of sunspots as a pendulum that boys pelt with peas at random, and
so found autoregressive models. Here are simulated recordings of such a pendulum, some
short and some long. SciPy's L-BFGS finds the period, the time in which a swing dies
away, and how hard the peas hit, from the likelihood of one recording. graphc makes of
it one call on all recordings, which is compiled per capacity, not per length.

A kick is the difference between a position and its prediction from the two positions
before. So least squares in plain NumPy must end at the same optimum. Run it:
python examples/series_likelihood.py
"""

import sys
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

import graphc
import graphc.tensor as gt

TRUE = {"period": 11.0, "decay": 40.0, "kick": 0.3}
START = np.log([8.0, 20.0, 1.0])


def recordings(count: int, seed: int = 0) -> list[np.ndarray]:
    """Simulate a pendulum that starts at rest: positions at 10 to 1,000 times each."""
    rng = np.random.default_rng(seed)
    turn = np.exp(-1 / TRUE["decay"] + 2j * np.pi / TRUE["period"])
    found = []
    for length in np.exp(rng.uniform(np.log(10), np.log(1000), count)).astype(int):
        swing, positions = 0j, np.empty(length)
        for i, kick in enumerate(rng.normal(0, TRUE["kick"], length)):
            swing = turn * (swing + kick)  # a kick changes the velocity
            positions[i] = swing.imag
        found.append(positions)
    return found


def coefficients(xp: Any, theta: Any) -> tuple[Any, Any, Any]:
    """Return a position's two coefficients on those before, and the kicks' spread."""
    turn, shrink = 2 * xp.pi / xp.exp(theta[0]), xp.exp(-1 / xp.exp(theta[1]))
    new = shrink * xp.sin(turn) * xp.exp(theta[2])
    return 2 * shrink * xp.cos(turn), -(shrink**2), new


def cost(xp: Any, theta: Any, y: Any) -> Any:
    """Return minus one recording's log likelihood; `xp` is gt, numpy or jax.numpy."""
    first, second, spread = coefficients(xp, theta)
    before = xp.concatenate([xp.zeros(2, dtype="float64"), y])
    new = y - first * before[1:-1] - second * before[:-2]
    return xp.sum((new / spread) ** 2 + xp.log(2 * xp.pi * spread**2)) / 2


def compiled(**options: Any) -> Any:
    """Compile the cost of all recordings and its gradient, in one call."""
    theta = gt.tensor("theta", "float64", (3,))
    y = gt.tensor("y", "float64", ("n",))
    outputs = graphc.value_and_grad(cost(gt, theta, y), theta)
    return graphc.ragged([theta, y], outputs, shared=[theta], total=True, **options)


def fitted(f: Any, series: list[np.ndarray]) -> OptimizeResult:
    """Return the result of L-BFGS."""

    def host(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = f(theta, series)
        return float(value), gradient

    options = {"ftol": 1e-14, "gtol": 1e-7}
    return minimize(host, START, jac=True, method="L-BFGS-B", options=options)


def least_squares(series: list[np.ndarray]) -> np.ndarray:
    """Find the same optimum in plain NumPy: the coefficients, and the kicks' spread."""
    before = [np.concatenate([[0.0, 0.0], y]) for y in series]
    known = np.concatenate([np.stack([b[1:-1], b[:-2]], axis=1) for b in before])
    y = np.concatenate(series)
    solution, squares, _, _ = np.linalg.lstsq(known, y)
    return np.array([*solution, np.sqrt(squares[0] / len(y))])


def main() -> int:
    """Fit as recordings come in; return 0 if all optima are those of least squares."""
    every = recordings(120)
    f, agree = compiled(), True
    for count in (10, 40, 80, 120):
        series = every[:count]
        result = fitted(f, series)
        agree &= np.allclose(
            coefficients(np, result.x), least_squares(series), rtol=1e-5
        )
        agree &= np.isclose(result.fun, sum(cost(np, result.x, y) for y in series))
        found = zip(TRUE, np.exp(result.x), strict=True)
        print(
            f"{count:3} recordings, {len({len(y) for y in series}):3} lengths: ",
            ", ".join(f"{name} {value:.3f}" for name, value in found),
            f"after {result.nfev} calls;",
            f"{len(f.function.stats().compilations)} compilations so far",
        )
    print("the truth:", ", ".join(f"{name} {value}" for name, value in TRUE.items()))
    print("the optima agree" if agree else "THE OPTIMA DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
