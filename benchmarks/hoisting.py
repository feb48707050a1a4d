"""A loss of stacked outputs: hoisted by rule, by hand, and as it is written.

    python -m benchmarks.hoisting

The mean square error of recurrent nets, alone and with its gradient in the weights.
Naive JAX stacks the outputs and then reduces them; by hand the loss is carried along.
The number is graphc's time over that by hand, or by naive JAX where the note says so;
the note has the ratios of XLA's temporary memory. Targets: 1.05 times the time by hand,
and forward 1.2 times its memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import Row, compare, emitted, peak_bytes, print_table, row, same

BATCH, WIDTH = 8, 32
STEPS = (100, 1_000, 10_000)
Array = Any
Cell = Callable[[Any, Array, Array, Array], tuple[Array, Array]]  # state, output


def elementwise(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """A decay and a squashed input."""
    h = xp.tanh(0.9 * h + x * w[0, 0])
    return h, h


def rnn(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """A plain recurrent cell."""
    h = xp.tanh(h @ w[0] + x)
    return h, h


def sigmoid(xp: Any, x: Array) -> Array:
    """The logistic function, as it is often written."""
    return 1 / (1 + xp.exp(-x))


def gru(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """A gated recurrent unit."""
    keep = sigmoid(xp, h @ w[0] + x)
    reset = sigmoid(xp, h @ w[1] + x)
    h = keep * h + (1 - keep) * xp.tanh((reset * h) @ w[2] + x)
    return h, h


def lstm(xp: Any, state: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Long short-term memory: two states."""
    h, c = state
    enter, leave, forget = (sigmoid(xp, h @ w[i] + x) for i in range(3))
    c = forget * c + enter * xp.tanh(h @ w[3] + x)
    h = leave * xp.tanh(c)
    return (h, c), h


@dataclass(frozen=True)
class Work:
    """A cell, how many weights it has, and how many states."""

    name: str
    cell: Cell
    weights: int
    states: int = 1

    def start(self, xp: Any) -> Array:
        """Zeros to begin with."""
        zeros = xp.zeros((BATCH, WIDTH), "float32")
        return zeros if self.states == 1 else (zeros,) * self.states


WORK = [
    Work("elementwise", elementwise, 1),
    Work("RNN", rnn, 1),
    Work("GRU", gru, 3),
    Work("LSTM", lstm, 4, states=2),
]


def ours(work: Work, gradient: bool) -> Any:
    """The loss as a graph, written as one writes it."""
    x = gt.tensor("x", "float32", ("n", BATCH, WIDTH))
    t = gt.tensor("t", "float32", ("n", BATCH, WIDTH))
    w = gt.tensor("w", "float32", (work.weights, WIDTH, WIDTH))
    _, ys = gt.scan(lambda h, row: work.cell(gt, h, row, w), work.start(gt), x)
    loss = gt.mean((ys - t) ** 2)
    outputs = [loss, graphc.grad(loss, w)] if gradient else [loss]
    return graphc.function([x, t, w], outputs, dims="specialize")


def naive(work: Work) -> Any:
    """The same in JAX: stacked, then reduced."""

    def loss(w: Array, x: Array, t: Array) -> Array:
        cell = partial(work.cell, jnp, w=w)
        _, ys = jax.lax.scan(cell, work.start(jnp), x)
        return jnp.mean((ys - t) ** 2)

    return loss


def by_hand(work: Work) -> Any:
    """The loss carried along."""

    def loss(w: Array, x: Array, t: Array) -> Array:
        def step(carry: Array, rows: Array) -> tuple[Array, None]:
            h, total = carry
            x, t = rows
            h, y = work.cell(jnp, h, x, w)
            return (h, total + jnp.sum((y - t) ** 2)), None

        (_, total), _ = jax.lax.scan(step, (work.start(jnp), jnp.float32(0)), (x, t))
        return total / t.size

    return loss


def jitted(loss: Any, gradient: bool) -> Any:
    """A loss, with its gradient if asked, in the order of our arguments."""
    if gradient:
        both = jax.value_and_grad(loss)
        return jax.jit(lambda x, t, w: both(w, x, t))
    return jax.jit(lambda x, t, w: (loss(w, x, t),))


def rows(work: Work, gradient: bool) -> list[Row]:
    """The rows of one cell."""
    f = ours(work, gradient)
    segment = emitted(f)["segment_0"]
    rivals = {"by hand": by_hand(work), "naive": naive(work)}
    programs = {name: jitted(loss, gradient) for name, loss in rivals.items()}
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(work.weights, WIDTH, WIDTH)) / WIDTH).astype("float32")
    found = []
    for n in STEPS:
        given = rng.normal(size=(2, n, BATCH, WIDTH)).astype("float32")
        x, t = (jax.device_put(a) for a in given)
        memory = peak_bytes(segment, x, t, w)
        for name, program in programs.items():
            same(f(x, t, w), list(program(x, t, w)), rtol=1e-3)
            result = compare(
                lambda x=x, t=t: f(x, t, w),
                lambda x=x, t=t, g=program: g(x, t, w),
                calls=max(1, 2_000 // n),
            )
            share = memory / peak_bytes(program, x, t, w)
            note = f"{name}; memory {share:.3g} ({memory / 2**20:.2f} MiB)"
            what = f"{work.name}{' gradient' if gradient else ''}, {n} steps"
            target = 1.05 if name == "by hand" else None
            found.append(row(what, result, target, note))
    return found


def main() -> None:
    """Print the tables."""
    for gradient in (False, True):
        title = "Loss and gradient" if gradient else "Loss"
        print_table(title, [r for work in WORK for r in rows(work, gradient)])


if __name__ == "__main__":
    main()
