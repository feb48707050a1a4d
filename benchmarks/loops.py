"""Value and gradient of scans against `jax.value_and_grad` of `jax.lax.scan`.

    python -m benchmarks.loops

The loss is the mean square of the stacked outputs. Printed are the ratio of run times,
that of XLA's temporary memory, and how both grow with the number of steps: 1 is linear.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    Row,
    compare,
    emitted,
    exponent,
    peak_bytes,
    print_table,
    same,
    time_text,
)

WIDTH = 32
STEPS = (100, 1_000, 10_000)
Array = Any
Cell = Callable[[Any, Array, Array, Array], Array]  # namespace, carry, input, weights


def elementwise(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """A decay and a squashed input."""
    return xp.tanh(0.9 * h + x * w[0, 0])


def rnn(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """A plain recurrent cell."""
    return xp.tanh(h @ w[0] + x)


def gru(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """A gated recurrent unit."""
    keep = 1 / (1 + xp.exp(-(h @ w[0] + x)))
    reset = 1 / (1 + xp.exp(-(h @ w[1] + x)))
    return keep * h + (1 - keep) * xp.tanh((reset * h) @ w[2] + x)


@dataclass(frozen=True)
class Work:
    """A cell, and how many weights it has."""

    name: str
    cell: Cell
    weights: int


WORK = [Work("elementwise", elementwise, 1), Work("RNN", rnn, 1), Work("GRU", gru, 3)]


def ours(work: Work) -> Any:
    """The loss and its gradient in the weights, as a graph."""
    x = gt.tensor("x", "float32", ("n", WIDTH))
    w = gt.tensor("w", "float32", (work.weights, WIDTH, WIDTH))

    def step(h: Array, row: Array) -> tuple[Array, Array]:
        h = work.cell(gt, h, row, w)
        return h, h

    _, stacked = gt.scan(step, gt.zeros(WIDTH), x)
    loss = gt.mean(stacked**2)
    outputs = [loss, graphc.grad(loss, w)]
    return graphc.function([x, w], outputs, dims="specialize")


def theirs(work: Work) -> Any:
    """The same by hand."""

    def loss(w: Array, x: Array) -> Array:
        def step(h: Array, row: Array) -> tuple[Array, Array]:
            h = work.cell(jnp, h, row, w)
            return h, h

        _, stacked = jax.lax.scan(step, jnp.zeros(WIDTH), x)
        return jnp.mean(stacked**2)

    return jax.jit(lambda x, w: jax.value_and_grad(loss)(w, x))


def rows(work: Work) -> list[Row]:
    """The rows of one cell."""
    f, g = ours(work), theirs(work)
    segment = emitted(f)["segment_0"]
    found, times = [], []
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(work.weights, WIDTH, WIDTH)) / WIDTH).astype("float32")
    for n in STEPS:
        x = rng.normal(size=(n, WIDTH)).astype("float32")
        same(f(x, w), list(g(x, w)), rtol=1e-3)
        result = compare(lambda x=x: f(x, w), lambda x=x: g(x, w))
        memory = peak_bytes(segment, x, w) / peak_bytes(g, x, w)
        times.append(result.ours)
        found.append(
            Row(
                f"{work.name}, {n} steps",
                time_text(result.ours),
                time_text(result.theirs),
                result.ratio,
                1.05,
                f"memory {memory:.2f}",
                result.spread,
            )
        )
    growth = exponent(STEPS, times)
    found.append(Row(f"{work.name}: growth", "", "", growth, 1.1, "of the time"))
    return found


def main() -> None:
    """Print the table."""
    print_table("Gradients of scans", [row for work in WORK for row in rows(work)])


if __name__ == "__main__":
    main()
