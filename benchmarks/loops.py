"""Value and gradient of scans against `jax.value_and_grad` of `jax.lax.scan`.

    python -m benchmarks.loops

The loss is the mean square of the stacked outputs. The tables have the ratio of run
times, the ratio of XLA's temporary memory, and how both grow with the number of steps:
1 is linear.

Then the same is measured for arrays that are filled by index and grow with the number
of steps; there, the exponents are the targets. If Equinox is installed, its
checkpointed loop is a rival too.
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
    row,
    same,
    setting,
    some,
    time_text,
)

try:
    import equinox  # a rival, if it is installed
    import equinox.internal
except ImportError:
    equinox = None

WIDTH = setting(32, 4)
STEPS = setting((100, 1_000, 10_000), (5,))
Array = Any
Cell = Callable[[Any, Array, Array, Array], Array]  # namespace, carry, input, weights


def elementwise(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """Decay a state, and add a squashed input."""
    return xp.tanh(0.9 * h + x * w[0, 0])


def rnn(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """Take a step of a plain recurrent cell."""
    return xp.tanh(h @ w[0] + x)


def gru(xp: Any, h: Array, x: Array, w: Array) -> Array:
    """Take a step of a gated recurrent unit."""
    keep = 1 / (1 + xp.exp(-(h @ w[0] + x)))
    reset = 1 / (1 + xp.exp(-(h @ w[1] + x)))
    return keep * h + (1 - keep) * xp.tanh((reset * h) @ w[2] + x)


@dataclass(frozen=True)
class Work:
    """A cell, and its number of weights."""

    name: str
    cell: Cell
    weights: int


WORK = [Work("elementwise", elementwise, 1), Work("RNN", rnn, 1), Work("GRU", gru, 3)]


def ours(work: Work) -> Any:
    """Compile the loss and its gradient by the weights, as a graph."""
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
    """Write the loss and its gradient by hand."""

    def loss(w: Array, x: Array) -> Array:
        def step(h: Array, row: Array) -> tuple[Array, Array]:
            h = work.cell(jnp, h, row, w)
            return h, h

        _, stacked = jax.lax.scan(step, jnp.zeros(WIDTH), x)
        return jnp.mean(stacked**2)

    return jax.jit(lambda x, w: jax.value_and_grad(loss)(w, x))


def rows(work: Work) -> list[Row]:
    """Measure one cell."""
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


def two_before(xp: Any, w: Array, i: Array, b: Array, x: Array) -> Array:
    """Compute each element from the two before it."""
    return b.at[i].set(xp.sin(b[i - 1] * w + b[i - 2] * x))


def between(xp: Any, w: Array, i: Array, b: Array, x: Array) -> Array:
    """Write several times, with reads in between."""
    b = b.at[i].set(xp.sin(x * w))
    return b.at[i].add(b[i] * b[i - 1])


def held(xp: Any, w: Array, i: Array, b: Array, x: Array) -> Array:
    """Write under a condition."""
    return xp.where(x > 0, b.at[i].set(xp.sin(b[i - 1] * w + x)), b)


def triangular(xp: Any, w: Array, i: Array, b: Array, x: Array) -> Array:
    """Read everything written so far, so the time of a step grows too."""
    return b.at[i].set(xp.tanh(xp.dot(b, b) * w + x))


def plain(xp: Any, scan: Any, write: Any, w: Array, x: Array, like: Array) -> Array:
    """Sum an array that is filled step by step."""

    def step(c: Any, row: Array) -> Any:
        return (c[0] + 1, write(xp, w, c[0], c[1], row)), None

    (_, b), _ = scan(step, (0, like), x)
    return xp.sum(b)


def nested(xp: Any, scan: Any, _: Any, w: Array, x: Array, like: Array) -> Array:
    """Fill a table whose elements depend on the one above and the one beside."""
    columns = xp.arange(NARROW)

    def cell(i: Array, row: Array) -> Any:
        def one(b: Array, j: Array) -> Any:
            return b.at[i, j].set(xp.sin(b[i - 1, j] * w + b[i, j - 1] * row)), None

        return one

    def step(c: Any, row: Array) -> Any:
        return (c[0] + 1, scan(cell(c[0], row), c[1], columns)[0]), None

    (_, b), _ = scan(step, (0, like[:, None] + xp.zeros(NARROW, "float32")), x)
    return xp.sum(b)


NARROW = setting(16, 3)
MOST_OF_EQUINOX = 8_000  # with more steps it takes seconds
FILLED = {
    "two before": (plain, two_before, (4_000, 8_000, 16_000, 32_000), 1.2),
    "reads between writes": (plain, between, (4_000, 8_000, 16_000, 32_000), 1.2),
    "masked": (plain, held, (4_000, 8_000, 16_000, 32_000), 1.2),
    "nested": (nested, None, (500, 1_000, 2_000), 1.2),
    "triangular": (plain, triangular, (1_000, 2_000, 4_000), 2.2),
}
Both = Callable[..., Array]


def our_filling(cost: Both, write: Any) -> Any:
    """Compile the filled array and the gradient as a graph."""
    x, w = gt.tensor("x", "float32", ("n",)), gt.scalar("w", "float32")
    loss = cost(gt, gt.scan, write, w, x, gt.ones(x.shape, "float32"))
    outputs = [loss, *graphc.grad(loss, [x, w])]
    return graphc.function([x, w], outputs, dims="specialize")


def their_filling(cost: Both, write: Any, scan: Any = jax.lax.scan) -> Any:
    """Write the filled array and the gradient by hand."""

    def loss(x: Array, w: Array) -> Array:
        return cost(jnp, scan, write, w, x, jnp.ones_like(x))

    def both(x: Array, w: Array) -> Array:
        value, slopes = jax.value_and_grad(loss, (0, 1))(x, w)
        return [value, *slopes]

    return jax.jit(both)


def checkpointed_scan(step: Any, init: Any, xs: Array) -> Any:
    """Scan by the loop of Equinox that keeps few of the steps.

    It does not use the loop's `buffers`, which may not be read before they are written.
    """

    def body(c: Any) -> Any:
        k, carry = c
        return k + 1, step(carry, xs[k])[0]

    length = len(xs)
    _, carry = equinox.internal.while_loop(
        lambda c: c[0] < length,
        body,
        (jnp.zeros((), int), jax.tree.map(jnp.asarray, init)),
        max_steps=length,
        kind="checkpointed",
    )
    return carry, None


def filling(name: str) -> list[Row]:
    """Measure an array that is filled, and how time and memory grow."""
    cost, write, sizes, target = FILLED[name]
    f, g = our_filling(cost, write), their_filling(cost, write)
    rivals = {"": g}
    if equinox is not None and cost is plain:
        rivals["Equinox"] = their_filling(cost, write, checkpointed_scan)
    found, times, used = [], [], []
    w = np.float32(0.7)
    sizes = setting(sizes, sizes[:1])
    for n in sizes:
        x = np.cos(np.arange(n, dtype="float32"))
        for rival, h in rivals.items():
            if rival and n > MOST_OF_EQUINOX:
                continue
            same(f(x, w), h(x, w), rtol=1e-3)
            result = compare(lambda x=x: f(x, w), lambda h=h, x=x: h(x, w), rounds=5)
            memory = peak_bytes(emitted(f)["segment_0"], x, w)
            note = f"memory {memory >> 10} KiB, {peak_bytes(h, x, w) >> 10} KiB"
            what = f"{name}, {n} steps" + (f", {rival}" if rival else "")
            found.append(row(what, result, None, note))
            if not rival:
                times.append(result.ours)
                used.append(memory)
    growth = exponent(sizes, times), exponent(sizes, used)
    found.append(Row(f"{name}: growth", "", "", growth[0], target, "of the time"))
    found.append(Row(f"{name}: growth", "", "", growth[1], 1.1, "of the memory"))
    return found


def main() -> None:
    """Print the tables."""
    scans = [row for work in some(WORK) for row in rows(work)]
    print_table("Gradients of scans", scans)
    filled = [row for name in some(FILLED) for row in filling(name)]
    print_table("Gradients of arrays that are filled by index", filled)


if __name__ == "__main__":
    main()
