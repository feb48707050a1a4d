"""Compiled value-and-gradient programs against `jax.jit(jax.value_and_grad(f))`.

    python -m benchmarks.gradients [case ...]

Targets: at most 1.05 times the run time and 1.1 times the peak memory of hand-written
JAX. The gradient of 100,000 nodes is built in seconds, in linear time, with at most 4
nodes per op of a chain. The Jacobian of R^50 -> R^50 is compared with `jax.jacrev`. If
PyTensor is installed, it runs the MLP and the logistic regression in its JAX and in its
C mode.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import programs, pytensor_rival
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    emitted,
    exponent,
    named,
    peak_bytes,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
)
from graphc.ir.graph.walk import ancestors

RUN_TIME, MEMORY = 1.05, 1.1


@dataclass(frozen=True)
class Case:
    """A cost over `xp`, with the gradient by the arguments from `fixed` on."""

    name: str
    cost: Callable[..., Any]
    arrays: list[Any]
    fixed: int
    calls: int = 1
    pytensor: bool = False
    tolerance: float = 2e-3


def mlp() -> Case:
    """Make four layers on 256 rows, with the squared error of their output."""
    weights, biases = programs.layers(4, 128, seed=1)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(256, 128)).astype("float32") for _ in range(2))

    def cost(xp: Any, x: Any, y: Any, *params: Any) -> Any:
        h = programs.mlp(xp, x, params[:4], params[4:])
        return xp.sum((h - y) ** 2)

    return Case("MLP, 256 x 128", cost, [x, y, *weights, *biases], 2, 8, True)


def logistic() -> Case:
    """Make the log-density of a logistic regression, 20,000 rows of 50."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20_000, 50)).astype("float32")
    y = (rng.random(20_000) < 0.3).astype("float32")
    w = (rng.normal(size=50) / 10).astype("float32")

    def cost(xp: Any, x: Any, y: Any, w: Any) -> Any:
        z = x @ w
        loss = xp.maximum(z, 0.0) + xp.log1p(xp.exp(-xp.abs(z))) - y * z
        return xp.sum(loss) + 0.5 * xp.sum(w * w)

    return Case("logistic regression, 20,000 x 50", cost, [x, y, w], 2, 10, True, 2e-2)


def gaussian_process() -> Case:
    """Make the negative log marginal likelihood of 300 points, 3 hyperparameters."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, 300)).astype("float32")
    y = np.sin(x) + 0.1 * rng.normal(size=300).astype("float32")
    theta = np.array([0.1, 0.2, -1.0], "float32")

    def cost(xp: Any, x: Any, y: Any, theta: Any) -> Any:
        scale, height, noise = (xp.exp(theta[i]) for i in range(3))
        gaps = (x[:, None] - x[None, :]) / scale
        k = height * xp.exp(-0.5 * gaps * gaps)
        k = k + noise * xp.eye(300, dtype="float32")
        root = xp.linalg.cholesky(k)
        solve = gt.linalg.solve_triangular if xp is gt else _solve_triangular
        white = solve(root, y, lower=True)
        logs = xp.sum(xp.log(xp.diagonal(root)))
        return 0.5 * xp.sum(white * white) + logs

    return Case("GP marginal likelihood, 300", cost, [x, y, theta], 2, 2)


def _solve_triangular(a: Any, b: Any, lower: bool) -> Any:
    return jax.scipy.linalg.solve_triangular(a, b, lower=lower)


def transformer() -> Case:
    """Make a block with 4 heads on 64 tokens of 128 numbers, and its squared output."""
    rng = np.random.default_rng(4)
    t, d, heads = 64, 128, 4
    x = rng.normal(size=(t, d)).astype("float32")
    shapes = [(d, d)] * 4 + [(d, 4 * d), (4 * d, d)]
    params = [(rng.normal(size=s) / np.sqrt(s[0])).astype("float32") for s in shapes]

    def normed(xp: Any, h: Any) -> Any:
        h = h - xp.mean(h, axis=-1, keepdims=True)
        return h / xp.sqrt(xp.mean(h * h, axis=-1, keepdims=True) + 1e-5)

    def split(xp: Any, h: Any) -> Any:
        return xp.transpose(xp.reshape(h, (t, heads, d // heads)), (1, 0, 2))

    def cost(xp: Any, x: Any, wq: Any, wk: Any, wv: Any, wo: Any, up: Any, down: Any):
        h = normed(xp, x)
        q, k, v = (split(xp, h @ w) for w in (wq, wk, wv))
        scores = q @ xp.swapaxes(k, -1, -2) / np.float32(np.sqrt(d / heads))
        scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        weights = scores / xp.sum(scores, axis=-1, keepdims=True)
        mixed = xp.reshape(xp.transpose(weights @ v, (1, 0, 2)), (t, d))
        x = x + mixed @ wo
        x = x + xp.tanh(normed(xp, x) @ up) @ down
        return xp.sum(x * x)

    return Case("transformer block, 64 x 128", cost, [x, *params], 1, 2)


CASES = {
    "mlp": mlp,
    "logistic": logistic,
    "gp": gaussian_process,
    "transformer": transformer,
}


def variables(arrays: list[Any]) -> list[Any]:
    """Return variables with the types of the arrays."""
    return [gt.tensor(f"x{i}", str(a.dtype), a.shape) for i, a in enumerate(arrays)]


def measure(case: Case) -> list[Row]:
    """Compare run time and memory with JAX, and run time with PyTensor."""
    xs = variables(case.arrays)
    params = xs[case.fixed :]
    f = graphc.function(xs, graphc.value_and_grad(case.cost(gt, *xs), params))
    argnums = tuple(range(case.fixed, len(xs)))
    hand = jax.jit(
        jax.value_and_grad(lambda *args: case.cost(jnp, *args), argnums=argnums)
    )
    args = [jnp.asarray(a) for a in case.arrays]
    same(f(*args), hand(*args), case.tolerance)
    assert len(f.stats().compilations) == hand._cache_size() == 1
    result = compare(
        lambda: f(*args), lambda: hand(*args), rounds=61, calls=case.calls
    )
    ours = emitted(f)["segment_0"]
    memory = [peak_bytes(side, *args) for side in (ours, hand)]
    megabytes = [f"{m / 2**20:.3g} MiB" for m in memory]
    return [
        row(case.name, result, RUN_TIME),
        Row("  its memory", *megabytes, memory[0] / memory[1], MEMORY),
        *(pytensor_rows(case, f) if case.pytensor else []),
    ]


def pytensor_rows(case: Case, f: Any) -> list[Row]:
    """Measure the same cost and gradients in PyTensor."""
    if not pytensor_rival.available:
        return []
    xs = [
        pytensor_rival.tensor(f"x{i}", a.shape) for i, a in enumerate(case.arrays)
    ]
    cost = case.cost(pytensor_rival.Space(), *xs)
    gradients = pytensor_rival.pytensor.grad(cost, xs[case.fixed :])
    rows = []
    for mode in ("CVM", "JAX"):
        g = pytensor_rival.compiled(xs, [cost, *gradients], mode)
        same(f(*case.arrays), list(map(np.asarray, g(*case.arrays))), case.tolerance)
        result = compare(lambda: f(*case.arrays), lambda g=g: g(*case.arrays))
        rows.append(row(f"  rival: PyTensor {mode}", result))
    return rows


def jacobian_row() -> Row:
    """Compare the Jacobian of a layer by vmap with `jax.jacrev`."""
    (w,), (b,) = programs.layers(1, 50, seed=5)
    point = np.linspace(-1, 1, 50, dtype="float32")
    x = gt.tensor("x", "float32", (50,))
    y = gt.tanh(gt.asarray(w) @ gt.tanh(gt.asarray(w) @ x + b))
    f = graphc.function([x], graphc.jacobian(y, x))
    hand = jax.jit(jax.jacrev(lambda x: jnp.tanh(w @ jnp.tanh(w @ x + b))))
    arg = jnp.asarray(point)
    same(f(arg), hand(arg), 1e-4)
    result = compare(lambda: f(arg), lambda: hand(arg), rounds=61, calls=20)
    return row("Jacobian of R^50 -> R^50 by vmap", result, RUN_TIME)


def building_rows() -> list[Row]:
    """Measure the CPU time to build the gradient of a chain, and count its nodes."""
    sizes = setting((1_000, 10_000, 100_000), (50, 100))
    times, rows = [], []
    for steps in sizes:
        x = gt.tensor("x", "float32", (8,))
        y = gt.sum(programs.chain(gt, x, steps))
        times.append(seconds(lambda x=x, y=y: graphc.grad(y, x), clock=CPU))
        nodes = len(ancestors([graphc.grad(y, x)]))
        note = f"{nodes / steps:.2f} nodes per op, those of the cost included"
        rows.append(Row(f"gradient of {steps:,} ops", time_text(times[-1]), note=note))
    slope = exponent(sizes, times)
    return [*rows, Row("exponent of the time", "", number=slope, target=1.1)]


def main() -> None:
    """Print the tables."""
    wanted = named() or [*some(CASES), "jacobian", "building"]
    rows = [r for name in wanted if name in CASES for r in measure(CASES[name]())]
    if "jacobian" in wanted:
        rows.append(jacobian_row())
    print_table("value and gradient (time per call)", rows)
    if "building" in wanted:
        print_table("building gradients", building_rows(), "number")


if __name__ == "__main__":
    main()
