"""Gradients of loops whose number of steps is data, against Equinox and `lax.scan`.

    python -m benchmarks.while_loops

A loop goes on while a counter that it carries is positive. The gradient is by the
weights of a cell and by the start. `checkpoint="log"` keeps 65 carries however many
steps there are, so the exponent of its memory is 0. Equinox, if it is installed, gets
as many checkpoints, or the number that it chooses for the number of steps. `lax.scan`
knows the number of steps, and keeps all carries.
"""

from collections.abc import Callable, Iterator
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
from benchmarks.loops import WIDTH, WORK, Array, Work, equinox

CARRIES = 65
STEPS = setting((250, 1_000, 4_000, 16_000), (80,))
BATCH = 8
Loss = Callable[[Array, Array, Array], Array]  # of weights, a start, a number of steps


def ours(work: Work) -> Any:
    """Compile the loss and its gradient, as a graph."""
    w = gt.tensor("w", "float32", (work.weights, WIDTH, WIDTH))
    h = gt.tensor("h", "float32", (BATCH, WIDTH))
    n = gt.scalar("n", "int32")

    def step(c: Any) -> Any:
        return c[0] - 1, work.cell(gt, c[1], gt.cos(c[1]), w)

    def going(c: Any) -> Any:
        return c[0] > 0

    end = gt.while_loop(going, step, (n, h), checkpoint="log")[1]
    loss = gt.mean(end**2)
    return graphc.function([w, h, n], [loss, *graphc.grad(loss, [w, h])])


def with_slopes(loss: Loss, **options: Any) -> Any:
    """Compile a loss and its gradient by JAX."""

    def both(w: Array, h: Array, n: Array) -> Array:
        value, slopes = jax.value_and_grad(loss, (0, 1))(w, h, n)
        return [value, *slopes]

    return jax.jit(both, **options)


def by_equinox(work: Work, **options: Any) -> Any:
    """Write the loss with Equinox's loop, which keeps some of the carries."""

    def loss(w: Array, h: Array, n: Array) -> Array:
        _, end = equinox.internal.while_loop(
            lambda c: c[0] > 0,
            lambda c: (c[0] - 1, work.cell(jnp, c[1], jnp.cos(c[1]), w)),
            (jnp.asarray(n), h),
            kind="checkpointed",
            **options,
        )
        return jnp.mean(end**2)

    return with_slopes(loss)


def by_scan(work: Work) -> Any:
    """Write the loss as a scan with a known number of steps."""

    def loss(w: Array, h: Array, n: Array) -> Array:
        def step(c: Array, _: None) -> Any:
            return work.cell(jnp, c, jnp.cos(c), w), None

        return jnp.mean(jax.lax.scan(step, h, None, length=n)[0] ** 2)

    return with_slopes(loss, static_argnums=2)


def rivals(work: Work, n: int) -> Iterator[tuple[str, Any, float | None]]:
    """Yield the other programs, and how much of their time ours may take."""
    yield "lax.scan", by_scan(work), None
    if equinox is not None:
        yield "Equinox, 65", by_equinox(work, checkpoints=CARRIES), 1.05
        yield "Equinox, max_steps", by_equinox(work, max_steps=n), 1.05


def rows(work: Work) -> list[Row]:
    """Measure one cell."""
    f, used, found = ours(work), [], []
    segment = emitted(f)["segment_0"]
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(work.weights, WIDTH, WIDTH)) / WIDTH).astype("float32")
    h = rng.normal(size=(BATCH, WIDTH)).astype("float32")
    for n in STEPS:
        count = np.int32(n)
        memory = peak_bytes(segment, w, h, count)
        used.append(memory)
        for name, g, target in rivals(work, n):
            given = (w, h, n) if name == "lax.scan" else (w, h, count)
            same(f(w, h, count), g(*given), rtol=1e-3)
            result = compare(
                lambda count=count: f(w, h, count),
                lambda g=g, given=given: g(*given),
                rounds=5,
            )
            theirs = peak_bytes(g, *given)
            note = f"memory {memory >> 10} KiB, {theirs >> 10} KiB"
            found.append(row(f"{work.name}, {n} steps, {name}", result, target, note))
    growth = exponent(STEPS, used)
    found.append(Row(f"{work.name}: growth", "", "", growth, 0.01, "of the memory"))
    return found


def main() -> None:
    """Print the table."""
    found = [r for w in some(WORK) for r in rows(w)]
    print_table('while_loop(checkpoint="log")', found)


if __name__ == "__main__":
    main()
