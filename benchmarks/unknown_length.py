"""Loops with an unknown number of steps, all of whose states are collected.

    python -m benchmarks.unknown_length

A capacity that doubles is compared with a large fixed one by hand in JAX (a
`lax.while_loop` that writes into an array with room for the most steps there may be),
and with a Python loop over a jitted step. The tables have the ratio of run times, the
bytes that each holds beside its result, the number of compilations, and the time for a
new number of steps with all compilations.
"""

import math
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
    print_table,
    row,
    same,
    seconds,
    setting,
    time_text,
    xla_compilations,
)

WIDTH = 8
MOST = setting(131_072, 64)  # steps that fit, if the room is fixed
STEPS = setting((10, 100, 1_000, 10_000, 100_000), (5, 40))
LONGEST_IN_PYTHON = 10_000  # with more steps it takes seconds
Array = Any


def step(xp: Any, s: Array, w: Array) -> Array:
    """Move a state through a contracting map."""
    return xp.tanh(s @ w + 0.1)


def ours() -> Any:
    """Collect the states of a loop that stops when it is told to."""
    s = gt.tensor("s", "float32", (WIDTH,))
    w = gt.tensor("w", "float32", (WIDTH, WIDTH))
    k = gt.scalar("k", "int32")

    def body(c: Any) -> Any:
        return (c[0] + 1, step(gt, c[1], w)), c[1]

    start = np.int32(0), s
    (_, last), states = gt.while_loop(lambda c: c[0] < k, body, start, collect=True)
    return graphc.function([s, w, k], [last, states])


def with_fixed_room() -> Any:
    """Write the loop by hand, with room for MOST steps; NumPy cuts the result."""

    @jax.jit
    def run(s: Array, w: Array, k: Array) -> Any:
        def body(c: Any) -> Any:
            i, s, states = c
            return i + 1, step(jnp, s, w), states.at[i].set(s)

        start = jnp.int32(0), s, jnp.zeros((MOST, WIDTH), s.dtype)
        return jax.lax.while_loop(lambda c: c[0] < k, body, start)

    def cut(s: Array, w: Array, k: Array) -> list[Array]:
        count, last, states = run(s, w, k)
        return [last, jnp.asarray(np.asarray(states)[: int(count)])]

    return cut


def in_python() -> Any:
    """Write the loop by hand, as one call of a jitted step after another."""
    one = jax.jit(lambda s, w, i, k: (step(jnp, s, w), i + 1, i + 1 < k))

    def run(s: Array, w: Array, k: Array) -> list[Array]:
        states, i, going = [], np.int32(0), k > 0
        while going:
            states.append(np.asarray(s))
            s, i, going = one(s, w, i, k)
        return [jnp.asarray(s), jnp.asarray(np.array(states))]

    return run


def held(f: Any, *args: Array) -> tuple[int, int]:
    """Return the bytes of all rows our program holds before it returns, and calls."""
    names = emitted(f)
    (loop,) = [f"segment_{s.index}" for s in f.plan.segments if s.rows is not None]
    segment, found = names[loop], []

    def counting(*inputs: Any) -> Any:
        outputs = segment(*inputs)
        found.append(outputs[-1].nbytes)
        return outputs

    names[loop] = counting
    names["program"](*args)
    return sum(found), len(found)


def rows_of(steps: int, f: Any, fixed: Any, python: Any) -> list[Row]:
    """Measure one number of steps; also return our time, for the exponent."""
    generator = np.random.default_rng(0)
    w = generator.normal(size=(WIDTH, WIDTH)).astype("float32") / WIDTH
    args = generator.normal(size=WIDTH).astype("float32"), w, np.int32(steps)
    with xla_compilations() as made:
        first = seconds(lambda: f(*args))
    result = f(*args)[1].nbytes
    rivals = {f"room for {MOST:,}": fixed}
    if steps <= LONGEST_IN_PYTHON:
        rivals["Python loop"] = python
    found = []
    for name, rival in rivals.items():
        same(f(*args), rival(*args), rtol=1e-4)
        rounds = 15 if steps < 10_000 else 5
        compared = compare(lambda: f(*args), lambda r=rival: r(*args), rounds=rounds)
        found.append(row(f"{steps:,} steps, {name}", compared))
    bytes_held, pieces = held(f, *args)
    least = max(result, 8 * WIDTH * 4)  # there are at least 16 rows
    note = f"{bytes_held:,} of {result:,} bytes, in {pieces} pieces at first"
    ratio = bytes_held / least
    found.append(Row(f"{steps:,} steps, rows held", "", "", ratio, 2, note))
    note = f"{len(made)} compilations of XLA"
    found.append(Row(f"{steps:,} steps, first call", time_text(first), note=note))
    return found


def main() -> None:
    """Print the tables."""
    f, fixed, python = ours(), with_fixed_room(), in_python()
    found, times = [], []
    for steps in STEPS:
        rows = rows_of(steps, f, fixed, python)
        args = np.zeros(WIDTH, "float32"), np.eye(WIDTH, dtype="float32")
        times.append(min(seconds(lambda: f(*args, np.int32(steps))) for _ in range(3)))
        found += rows
    made = [c for c in f.stats().compilations if c.segment == 1]
    most = math.floor(math.log2(max(STEPS))) + 1
    found.append(Row("compilations of the loop, all", "", "", len(made), most))
    growth = exponent(STEPS[2:], times[2:])
    found.append(Row("growth of the time", "", "", growth, 1.1))
    print_table("All states of a loop of unknown length", found)


if __name__ == "__main__":
    main()
