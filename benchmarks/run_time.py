"""Run time of compiled programs against hand-written `jax.jit`.

    python -m benchmarks.run_time

Target: 0.95 to 1.05 times the time of JAX. If the flops and the memory of both compiled
programs are the same, a ratio other than 1 is noise: both are XLA's code for the same
operations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import programs
from benchmarks.harness import (
    Row,
    compare,
    emitted,
    peak_bytes,
    print_table,
    row,
    same,
    setting,
)


@dataclass(frozen=True)
class Case:
    """A program over `xp`, and arrays for it; the first axis of the first varies."""

    name: str
    program: Callable[..., Any]
    arrays: list[Any]
    calls: int = 1


def mlp_case() -> Case:
    """Make a classifier: 6 layers on 512 rows, with log-softmax at the end."""
    weights, biases = programs.layers(6, 256, seed=1)
    x = np.random.default_rng(0).normal(size=(512, 256)).astype("float32")

    def program(xp: Any, x: Any, *params: Any) -> Any:
        h = programs.mlp(xp, x, params[:6], params[6:])
        h = h - xp.max(h, axis=-1, keepdims=True)
        return h - xp.log(xp.sum(xp.exp(h), axis=-1, keepdims=True))

    return Case("MLP forward, 512 x 256", program, [x, *weights, *biases], 4)


def logistic_case(dtype: str) -> Case:
    """Make the log-density of a logistic regression with a normal prior."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20_000, 50)).astype(dtype)
    y = (rng.random(20_000) < 0.3).astype(dtype)
    w = (rng.normal(size=50) / 10).astype(dtype)

    def program(xp: Any, x: Any, y: Any, w: Any) -> Any:
        z = x @ w
        loss = xp.maximum(z, 0.0) + xp.log1p(xp.exp(-xp.abs(z))) - y * z
        return -xp.sum(loss) - 0.5 * xp.sum(w * w)

    return Case(f"logistic regression, {dtype}", program, [x, y, w], 10)


def chain_case() -> Case:
    """Make a chain of 1,000 elementwise ops on 10,000 numbers."""
    x = np.linspace(-1, 1, 10_000, dtype="float32")
    n = setting(1000, 10)
    return Case(f"{n:,} elementwise ops", lambda xp, x: programs.chain(xp, x, n), [x])


def variables(arrays: list[Any]) -> list[Any]:
    """Make variables like the arrays, with a symbolic number of rows in the first."""
    rows = arrays[0].shape[0]
    return [
        gt.tensor(
            f"x{i}", str(a.dtype), tuple("n" if n == rows else n for n in a.shape)
        )
        for i, a in enumerate(arrays)
    ]


def measure(case: Case, rounds: int) -> Row:
    """Time both programs in turns; the row has what XLA says of them."""
    xs = variables(case.arrays)
    f = graphc.function(xs, case.program(gt, *xs))
    hand = jax.jit(lambda *args: case.program(jnp, *args))
    args = [jnp.asarray(a) for a in case.arrays]
    same(f(*args), hand(*args), 1e-4)
    assert len(f.stats().compilations) == hand._cache_size() == 1
    result = compare(
        lambda: f(*args), lambda: hand(*args), rounds=rounds, calls=case.calls
    )
    ours = emitted(f)["segment_0"]
    memory = [peak_bytes(side, *args) for side in (ours, hand)]
    flops = [
        side.lower(*args).compile().cost_analysis()["flops"] for side in (ours, hand)
    ]
    note = (
        f"XLA's flops {flops[0] / flops[1]:.3f}x, memory {memory[0] / memory[1]:.3f}x"
    )
    return row(case.name, result, 1.05, note)


def main() -> None:
    """Print the table."""
    rows = [
        measure(mlp_case(), 61),
        measure(logistic_case("float32"), 201),
        measure(chain_case(), 61),
    ]
    with jax.enable_x64(True):
        rows.append(measure(logistic_case("float64"), 201))
    print_table("run time (time per call)", rows)


if __name__ == "__main__":
    main()
