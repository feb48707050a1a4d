"""At which angle does a ball fly farthest? A differential equation, until it lands.

A ball feels gravity and the drag of the air, which grows with the square of its speed.
Its flight is computed by the Runge-Kutta method of Bogacki and Shampine (1989), with
steps as long as the error allows, until the ball is below the ground. The number of
steps is not known before. From there, one step back leads to the ground itself (Henon,
1982: height takes the place of time). The gradient of the range by the angle goes
backwards through all of this, and Newton's method finds the best angle.

Without air, the range is v**2 * sin(2 * angle) / g, and the best angle 45 degrees. With
air, ranges are compared with those of SciPy's `solve_ivp`, and slopes with differences.
The flights are drawn into thrown_ball.png. Run it: python examples/thrown_ball.py
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

import graphc
import graphc.tensor as gt

GRAVITY = 9.81  # m/s^2
SPEED = 45.0  # m/s, a baseball that is hit well
DRAG = 0.0062  # 1/m: density * drag coefficient * area / (2 * mass)
TOLERANCE = 1e-6  # of a step, relative to the state


def motion(xp: Any, state: Any, drag: Any) -> Any:
    """Return the derivative of x, y, vx, vy by time."""
    vx, vy = state[2], state[3]
    slowed = drag * xp.sqrt(vx**2 + vy**2)
    return xp.stack([vx, vy, -slowed * vx, -GRAVITY - slowed * vy])


def step(state: Any, h: Any, drag: Any) -> tuple[Any, Any]:
    """Return the state after a time `h`, and its error (Bogacki, Shampine, 1989)."""
    k1 = motion(gt, state, drag)
    k2 = motion(gt, state + h / 2 * k1, drag)
    k3 = motion(gt, state + 3 * h / 4 * k2, drag)
    after = state + h / 9 * (2 * k1 + 3 * k2 + 4 * k3)
    k4 = motion(gt, after, drag)
    error = h * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)
    return after, gt.max(gt.abs(error) / (1 + gt.abs(after)))


def advance(flight: dict[str, Any], drag: Any) -> dict[str, Any]:
    """Take a step; if its error is too large, stay and take a shorter one next time."""
    state, h = flight["state"], flight["h"]
    after, error = step(state, h, drag)
    grown = h * gt.clip(0.9 * (TOLERANCE / (error + 1e-300)) ** (1 / 3), 0.2, 5.0)
    return {
        "state": gt.where(error <= TOLERANCE, after, state),
        "h": graphc.stop_gradient(gt.minimum(grown, 0.1)),
    }


def landed(state: Any, drag: Any) -> Any:
    """Return where the ball lands: one Runge-Kutta step in height, down to 0."""

    def slope(s: Any) -> Any:
        found = motion(gt, s, drag)
        return found / found[1]

    h = -state[1]
    k1 = slope(state)
    k2 = slope(state + h / 2 * k1)
    k3 = slope(state + h / 2 * k2)
    k4 = slope(state + h * k3)
    return (state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))[0]


def thrown(angle: Any) -> dict[str, Any]:
    """Return a flight at its beginning."""
    velocity = SPEED * gt.stack([gt.cos(angle), gt.sin(angle)])
    start = gt.concatenate([gt.zeros(2, dtype="float64"), velocity])
    return {"state": start, "h": gt.constant(1e-3, dtype="float64")}


def programs(backend: Any = "numpy") -> tuple[Any, Any]:
    """Compile the range, with its first two derivatives, and the path of a flight."""
    angle, drag = gt.scalar("angle", "float64"), gt.scalar("drag", "float64")

    def flying(flight: dict[str, Any]) -> Any:
        return flight["state"][1] >= 0

    def fly(flight: dict[str, Any]) -> tuple[Any, Any]:
        return advance(flight, drag), flight["state"][:2]

    last, path = gt.while_loop(flying, fly, thrown(angle), collect=True)
    reach = landed(last["state"], drag)
    slope = graphc.grad(reach, angle)
    outputs = [reach, slope, graphc.grad(slope, angle)]
    inputs = [angle, drag]
    ranges = graphc.function(inputs, outputs, backend=backend)
    return ranges, graphc.function(inputs, path, backend=backend)


def by_scipy(angle: float, drag: float) -> float:
    """Compute the range with SciPy."""

    def ground(_: float, state: np.ndarray) -> float:
        return float(state[1])

    ground.terminal, ground.direction = True, -1  # type: ignore[attr-defined]
    start = [0, 0, SPEED * np.cos(angle), SPEED * np.sin(angle)]
    found = solve_ivp(
        lambda _, s: motion(np, s, drag), (0, 60), start, events=ground,
        rtol=1e-10, atol=1e-10, method="DOP853",
    )
    return float(found.y_events[0][0, 0])


def best(ranges: Any, drag: float) -> float:
    """Find the angle of the longest flight, by Newton's method."""
    angle = 0.7
    for _ in range(6):
        _, slope, bent = ranges(angle, drag)
        angle -= float(slope / bent)
    return angle


def draw(paths: dict[str, np.ndarray], path: Path) -> None:
    """Draw the flights."""
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for name, points in paths.items():
        axes.plot(*points.T, label=name)
    axes.set(xlabel="m", ylabel="m", ylim=(0, None), aspect="equal")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> int:
    """Find the best angles, draw flights, compare; return 0 if everything agrees."""
    ranges, flight = programs()
    free = best(ranges, 0.0)
    reach = float(ranges(free, 0.0)[0])
    agree = np.allclose([free, reach], [np.pi / 4, SPEED**2 / GRAVITY], rtol=1e-6)
    print(f"without air: {np.degrees(free):.2f} degrees, {reach:.1f} m")

    angle = best(ranges, DRAG)
    reach, slope, _ = map(float, ranges(angle, DRAG))
    print(f"with air: {np.degrees(angle):.2f} degrees, {reach:.1f} m")
    agree &= np.isclose(reach, by_scipy(angle, DRAG), rtol=1e-6) and abs(slope) < 1e-4
    for other in (0.3, 0.9, 1.3):
        reach, slope, _ = map(float, ranges(other, DRAG))
        near = [by_scipy(other + d, DRAG) for d in (-1e-4, 0, 1e-4)]
        agree &= np.isclose(reach, near[1], rtol=1e-6)
        agree &= np.isclose(slope, (near[2] - near[0]) / 2e-4, rtol=1e-4)

    paths = {"45 degrees, no air": flight(free, 0.0)}
    for degrees in (20, round(float(np.degrees(angle)), 1), 45, 70):
        paths[f"{degrees} degrees"] = flight(np.radians(degrees), DRAG)
    draw(paths, Path("thrown_ball.png"))
    print("steps of the flights drawn:", *map(len, paths.values()))
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
