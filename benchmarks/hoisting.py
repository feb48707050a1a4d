"""A loss of stacked outputs: hoisted by rule, by hand, and as it is written.

    python -m benchmarks.hoisting

The loss is the mean square error of recurrent nets, alone and with its gradient by the
weights. Naive JAX stacks the outputs and then reduces them; by hand, the loss is
carried along. The number is graphc's time over the time by hand, or over that of naive
JAX if the note says so. The note has the ratios of XLA's temporary memory. Targets:
1.05 times the time by hand, and forward 1.2 times its memory.

Then the gradient with `checkpoint="sqrt"` is compared with checkpoints of two levels by
hand, whose time is the target, and with naive JAX, of whose time it may take 1.4 times.
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
from benchmarks.harness import (
    Row,
    compare,
    emitted,
    exponent,
    peak_bytes,
    print_table,
    row,
    same,
    setting,
    some,
)

BATCH, WIDTH = setting((8, 32), (2, 4))
STEPS = setting((100, 1_000, 10_000), (6,))
CHUNKS = setting((10, 25, 100), (3,))  # by hand; each must be a divisor
Array = Any
Cell = Callable[[Any, Array, Array, Array], tuple[Array, Array]]  # state, output


def elementwise(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Decay a state, and add a squashed input."""
    h = xp.tanh(0.9 * h + x * w[0, 0])
    return h, h


def rnn(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Take a step of a plain recurrent cell."""
    h = xp.tanh(h @ w[0] + x)
    return h, h


def sigmoid(xp: Any, x: Array) -> Array:
    """Compute the logistic function, as it is often written."""
    return 1 / (1 + xp.exp(-x))


def gru(xp: Any, h: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Take a step of a gated recurrent unit."""
    keep = sigmoid(xp, h @ w[0] + x)
    reset = sigmoid(xp, h @ w[1] + x)
    h = keep * h + (1 - keep) * xp.tanh((reset * h) @ w[2] + x)
    return h, h


def lstm(xp: Any, state: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Take a step of long short-term memory, which has two states."""
    h, c = state
    enter, leave, forget = (sigmoid(xp, h @ w[i] + x) for i in range(3))
    c = forget * c + enter * xp.tanh(h @ w[3] + x)
    h = leave * xp.tanh(c)
    return (h, c), h


@dataclass(frozen=True)
class Work:
    """A cell, its number of weights, and its number of states."""

    name: str
    cell: Cell
    weights: int
    states: int = 1

    def start(self, xp: Any) -> Array:
        """Return the zeros with which states begin."""
        zeros = xp.zeros((BATCH, WIDTH), "float32")
        return zeros if self.states == 1 else (zeros,) * self.states


WORK = [
    Work("elementwise", elementwise, 1),
    Work("RNN", rnn, 1),
    Work("GRU", gru, 3),
    Work("LSTM", lstm, 4, states=2),
]


def ours(
    work: Work, gradient: bool, n: int | str = "n", checkpoint: str | None = None
) -> Any:
    """Compile the loss as a graph, written in the plain way."""
    x = gt.tensor("x", "float32", (n, BATCH, WIDTH))
    t = gt.tensor("t", "float32", (n, BATCH, WIDTH))
    w = gt.tensor("w", "float32", (work.weights, WIDTH, WIDTH))
    cell = partial(work.cell, gt, w=w)
    _, ys = gt.scan(cell, work.start(gt), x, checkpoint=checkpoint)
    loss = gt.mean((ys - t) ** 2)
    outputs = [loss, graphc.grad(loss, w)] if gradient else [loss]
    return graphc.function([x, t, w], outputs, dims="specialize")


def naive(work: Work) -> Any:
    """Write the loss in JAX: outputs are stacked, and then reduced."""

    def loss(w: Array, x: Array, t: Array) -> Array:
        cell = partial(work.cell, jnp, w=w)
        _, ys = jax.lax.scan(cell, work.start(jnp), x)
        return jnp.mean((ys - t) ** 2)

    return loss


def by_hand(work: Work) -> Any:
    """Write the loss by hand, carried along."""

    def loss(w: Array, x: Array, t: Array) -> Array:
        def step(carry: Array, rows: Array) -> tuple[Array, None]:
            h, total = carry
            x, t = rows
            h, y = work.cell(jnp, h, x, w)
            return (h, total + jnp.sum((y - t) ** 2)), None

        (_, total), _ = jax.lax.scan(step, (work.start(jnp), jnp.float32(0)), (x, t))
        return total / t.size

    return loss


def two_levels(work: Work, chunk: int) -> Any:
    """Write the loss carried along, with a carry kept before each chunk."""

    def loss(w: Array, x: Array, t: Array) -> Array:
        def step(carry: Array, rows: Array) -> tuple[Array, None]:
            h, total = carry
            h, y = work.cell(jnp, h, rows[0], w)
            return (h, total + jnp.sum((y - rows[1]) ** 2)), None

        @jax.checkpoint
        def steps(carry: Array, rows: Array) -> tuple[Array, None]:
            return jax.lax.scan(step, carry, rows)

        rows = tuple(a.reshape(-1, chunk, *a.shape[1:]) for a in (x, t))
        (_, total), _ = jax.lax.scan(steps, (work.start(jnp), jnp.float32(0)), rows)
        return total / t.size

    return loss


def jitted(loss: Any, gradient: bool) -> Any:
    """Jit a loss, perhaps with its gradient; it takes arguments in our order."""
    if gradient:
        both = jax.value_and_grad(loss)
        return jax.jit(lambda x, t, w: both(w, x, t))
    return jax.jit(lambda x, t, w: (loss(w, x, t),))


def rows(work: Work, gradient: bool) -> list[Row]:
    """Measure one cell."""
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


WORDS, MODEL, CHUNK = setting((2_000, 256, 16), (50, 8, 4))


def cross_entropy(xp: Any, logits: Array, chosen: Array) -> Array:
    """Sum the cross-entropy over words, given one-hot, in the plain way."""
    top = xp.max(logits, -1, keepdims=True)
    total = xp.log(xp.sum(xp.exp(logits - top), -1)) + top[..., 0]
    return xp.sum(total - xp.sum(xp.where(chosen, logits, 0), -1))


def language(xp: Any, scan: Callable[..., Any], *args: Array) -> Array:
    """Compute the loss of a recurrent language model whose outputs are stacked."""
    w, out, x, words = args

    def step(h: Array, row: Array) -> tuple[Array, Array]:
        return rnn(xp, h, row, w)

    _, ys = scan(step, xp.zeros((BATCH, MODEL), "float32"), x)
    chosen = words[..., None] == xp.arange(WORDS, dtype="int32")
    return cross_entropy(xp, ys @ out, chosen) / words.size


def language_by_hand(*args: Array) -> Array:
    """Compute the loss of the language model by hand, in chunks."""
    w, out, x, words = args
    chunks = [a.reshape(-1, CHUNK, *a.shape[1:]) for a in (x, words)]

    def chunk(carry: Array, rows: Array) -> tuple[Array, None]:
        h, total = carry
        h, ys = jax.lax.scan(lambda h, row: rnn(jnp, h, row, w), h, rows[0])
        chosen = rows[1][..., None] == jnp.arange(WORDS, dtype="int32")
        return (h, total + cross_entropy(jnp, ys @ out, chosen)), None

    start = jnp.zeros((BATCH, MODEL), "float32"), jnp.float32(0)
    (_, total), _ = jax.lax.scan(jax.checkpoint(chunk), start, tuple(chunks))
    return total / words.size


def language_rows(gradient: bool) -> list[Row]:
    """Measure the language model."""
    w = gt.tensor("w", "float32", (1, MODEL, MODEL))
    out = gt.tensor("out", "float32", (MODEL, WORDS))
    x = gt.tensor("x", "float32", ("n", BATCH, MODEL))
    words = gt.tensor("words", "int32", ("n", BATCH))
    inputs = [w, out, x, words]
    loss = language(gt, gt.scan, *inputs)
    outputs = [loss, *(graphc.grad(loss, [w, out]) if gradient else [])]
    f = graphc.function(inputs, outputs, dims="specialize")
    segment = emitted(f)["segment_0"]
    rivals = {
        "by hand": language_by_hand,
        "naive": partial(language, jnp, jax.lax.scan),
    }
    rng, found = np.random.default_rng(0), []
    shapes = (1, MODEL, MODEL), (MODEL, WORDS)
    weights = [(rng.normal(size=s) / MODEL).astype("float32") for s in shapes]
    for n in setting((128, 1_024), (8,)):
        host = rng.normal(size=(n, BATCH, MODEL)).astype("float32")
        label = rng.integers(0, WORDS, (n, BATCH)).astype("int32")
        given = list(map(jax.device_put, [*weights, host, label]))
        memory = peak_bytes(segment, *given)
        for name, rival in rivals.items():
            g = jax.jit(jax.value_and_grad(rival, (0, 1)) if gradient else rival)
            same(f(*given), jax.tree.leaves(g(*given)), rtol=1e-3)
            result = compare(
                lambda given=given: f(*given),
                lambda given=given, g=g: g(*given),
                rounds=7,
            )
            share = memory / peak_bytes(g, *given)
            note = f"{name}; memory {share:.3g} ({memory / 2**20:.2f} MiB)"
            what = f"language model{' gradient' if gradient else ''}, {n} steps"
            target = 1.05 if name == "by hand" else None
            found.append(row(what, result, target, note))
    return found


def checkpointed(work: Work) -> list[Row]:
    """Measure one cell that keeps about the square root of all carries."""
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(work.weights, WIDTH, WIDTH)) / WIDTH).astype("float32")
    found, used = [], []
    for n, chunk in zip(STEPS, CHUNKS, strict=True):
        f = ours(work, True, n, "sqrt")
        given = rng.normal(size=(2, n, BATCH, WIDTH)).astype("float32")
        x, t = (jax.device_put(a) for a in given)
        memory = peak_bytes(emitted(f)["segment_0"], x, t, w)
        used.append(memory)
        rivals = {"two levels": (two_levels(work, chunk), 1.0)}
        rivals["naive"] = naive(work), 1.4
        for name, (loss, target) in rivals.items():
            program = jitted(loss, True)
            same(f(x, t, w), list(program(x, t, w)), rtol=1e-3)
            result = compare(
                lambda x=x, t=t, f=f: f(x, t, w),
                lambda x=x, t=t, g=program: g(x, t, w),
                calls=max(1, 2_000 // n),
            )
            share = memory / peak_bytes(program, x, t, w)
            note = f"{name}; memory {share:.3g} ({memory / 2**20:.2f} MiB)"
            found.append(row(f"{work.name}, {n} steps", result, target, note))
    growth = exponent(STEPS, used)
    found.append(Row(f"{work.name}: growth", "", "", growth, 0.55, "of the memory"))
    return found


def main() -> None:
    """Print the tables."""
    for gradient in (False, True):
        print_table("Products in chunks of steps", language_rows(gradient))
    for gradient in (False, True):
        title = "Loss and gradient" if gradient else "Loss"
        print_table(title, [r for work in some(WORK) for r in rows(work, gradient)])
    table = [r for work in some(WORK) for r in checkpointed(work)]
    print_table('Loss and gradient with checkpoint="sqrt"', table)


if __name__ == "__main__":
    main()
