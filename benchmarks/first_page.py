"""The comparisons of the README's first page, against `jax.jit` as it is.

    python -m benchmarks.first_page

The tables have the total CPU seconds of first calls at many lengths, compilation
included, with the number of compilations of each side; and XLA's temporary memory for
the gradient of a loss that follows a scan.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
from benchmarks.harness import (
    CPU,
    Row,
    peak_bytes,
    print_table,
    same,
    seconds,
    setting,
    time_text,
    xla_compilations,
)

SIZES = setting(range(2, 60), range(2, 5))
STEPS = setting(300, 4)
Array = Any
WEIGHTS = tuple(
    np.linspace(-1, 1, a * b, dtype="float32").reshape(a, b)
    for a, b in ((8, 16), (16, 16), (16, 4))
)


def spread(x: Array) -> Array:
    """Compute the standard deviation of a vector."""
    return jnp.sqrt(jnp.mean((x - jnp.mean(x)) ** 2))


def loss(weights: tuple[Array, ...], x: Array) -> Array:
    """Compute a loss of two layers and a softmax over rows, whose number varies."""
    first, second, last = weights
    hidden = jnp.tanh(jnp.tanh(x @ first) @ second)
    shares = jax.nn.softmax(hidden @ last, axis=0)
    return jnp.sum((shares * hidden[:, :1]) ** 2)


def error_of_states(w: Array, x: Array) -> Array:
    """Compute a mean squared error of the states of a recurrent net."""

    def step(h: Array, row: Array) -> tuple[Array, Array]:
        h = jnp.tanh(h @ w + row)
        return h, h

    _, states = jax.lax.scan(step, jnp.zeros(x.shape[1:]), x)
    return jnp.mean((states - x) ** 2)


def over_lengths(what: str, function: Callable[..., Any], like: tuple[int, ...]) -> Row:
    """Measure the CPU seconds of one call at each length, and the compilations."""
    totals, counts = [], []
    ours, theirs = graphc.jit(function), jax.jit(function)
    for jitted in (ours, theirs):
        with xla_compilations() as compiled:
            totals.append(
                sum(
                    seconds(partial(jitted, np.ones((n, *like), "float32")), clock=CPU)
                    for n in SIZES
                )
            )
        counts.append(len(compiled))
    x = np.ones((SIZES[0], *like), "float32")
    same(ours(x), theirs(x), 1e-4)
    note = f"{len(SIZES)} lengths; {counts[0]} compilations against {counts[1]}"
    mine, other = totals
    return Row(what, time_text(mine), time_text(other), mine / other, None, note)


def memory() -> Row:
    """Measure XLA's temporary memory for a gradient."""
    w, x = np.eye(12, dtype="float32"), np.ones((STEPS, 12), "float32")
    ours = graphc.jit(graphc.grad(error_of_states))
    theirs = jax.jit(jax.grad(error_of_states))
    same(ours(w, x), theirs(w, x), 1e-4)
    mine, other = (peak_bytes(jitted, w, x) for jitted in (ours, theirs))
    texts = f"{mine / 1024:.0f} KiB", f"{other / 1024:.0f} KiB"
    what = f"memory of the gradient of a loss of {STEPS} states"
    return Row(what, *texts, mine / other, None, "temporary arrays and results")


def main() -> None:
    gradient = jax.value_and_grad(partial(loss, WEIGHTS))
    rows = [
        over_lengths("a standard deviation", spread, ()),
        over_lengths("loss and gradient of a small net", gradient, (8,)),
        memory(),
    ]
    print_table("the first page", rows)


if __name__ == "__main__":
    main()
