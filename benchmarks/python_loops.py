"""Loops of Python over an axis whose size varies, against JAX.

    python -m benchmarks.python_loops

A function with a loop of Python is called at several sizes, once each, then at the
largest one many times. `jax.jit` traces and compiles all steps at each size. The scan
by hand is compiled at each size too. The rows of all sizes include tracing and
compilation; those of a call do not.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
from benchmarks.harness import (
    Comparison,
    Row,
    compare,
    print_table,
    row,
    same,
    setting,
    some,
    xla_compilations,
)

SIZES = setting((40, 55, 70, 80, 95, 110, 120), (9, 12, 14))
Function = Callable[..., Any]


def smoothed(x: Any) -> Any:
    level, levels = x[0], []
    for element in x:
        level = 0.25 * element + 0.75 * level
        levels.append(level)
    return jnp.stack(levels)


def smoothed_by_scan(x: Any) -> Any:
    def step(level: Any, element: Any) -> Any:
        level = 0.25 * element + 0.75 * level
        return level, level

    return jax.lax.scan(step, x[0], x)[1]


def smoothed_by_numpy(x: Any) -> Any:
    levels, level = np.empty_like(x), x[0]
    for i in range(len(x)):
        level = 0.25 * x[i] + 0.75 * level
        levels[i] = level
    return levels


def recurrent(x: Any) -> Any:
    state = jnp.zeros(32, x.dtype)
    for t in range(x.shape[0]):
        state = jnp.tanh(WEIGHTS @ state + x[t])
    return state


def recurrent_by_scan(x: Any) -> Any:
    def step(state: Any, element: Any) -> Any:
        return jnp.tanh(WEIGHTS @ state + element), None

    return jax.lax.scan(step, jnp.zeros(32, x.dtype), x)[0]


def recurrent_by_numpy(x: Any) -> Any:
    state = np.zeros(32, x.dtype)
    for t in range(x.shape[0]):
        state = np.tanh(NUMPY_WEIGHTS @ state + x[t])
    return state


def substituted(x: Any) -> Any:
    solved = jnp.zeros_like(x)
    for i in range(x.shape[0]):
        known = jnp.cos(x[:i] - x[i]) @ solved[:i]
        solved = solved.at[i].set(x[i] - known / x.shape[0])
    return solved


def substituted_by_scan(x: Any) -> Any:
    places = jnp.arange(x.shape[0])

    def step(solved: Any, i: Any) -> Any:
        products = jnp.cos(x - x[i]) * solved
        known = jnp.sum(products, where=places < i)
        return solved.at[i].set(x[i] - known / x.shape[0]), None

    return jax.lax.scan(step, jnp.zeros_like(x), places)[0]


def substituted_by_numpy(x: Any) -> Any:
    solved = np.zeros_like(x)
    for i in range(len(x)):
        known = np.cos(x[:i] - x[i]) @ solved[:i]
        solved[i] = x[i] - known / np.float32(len(x))
    return solved


NUMPY_WEIGHTS = np.cos(np.arange(32.0 * 32)).reshape(32, 32).astype("float32") / 8
WEIGHTS = jnp.asarray(NUMPY_WEIGHTS)


@dataclass(frozen=True)
class Loop:
    """One loop, written for JAX and for NumPy, and as a scan."""

    name: str
    written: Function
    for_numpy: Function
    by_scan: Function
    shape: tuple[int, ...] = ()

    def arrays(self) -> list[Any]:
        """An argument of each size."""
        rng = np.random.default_rng(0)
        return [rng.random((n, *self.shape), dtype="float32") for n in SIZES]


LOOPS = [
    Loop("smoothing", smoothed, smoothed_by_numpy, smoothed_by_scan),
    Loop("recurrent", recurrent, recurrent_by_numpy, recurrent_by_scan, (32,)),
    Loop("substitution", substituted, substituted_by_numpy, substituted_by_scan),
]


def first_calls(function: Function, arrays: list[Any]) -> tuple[float, int, list[Any]]:
    """Call once at each size: the seconds, how much XLA compiled, and the results."""
    start = time.perf_counter()
    with xla_compilations() as compilations:
        results = [jax.block_until_ready(function(x)) for x in arrays]
    return time.perf_counter() - start, len(compilations), results


def rows(loop: Loop) -> list[Row]:
    """Measure one loop by both frontends, against both rivals."""
    arrays, lines = loop.arrays(), list[Row]()
    ours = {
        "JAX": graphc.jit(loop.written),
        "NumPy": graphc.jit(loop.for_numpy, frontend="numpy"),
    }
    rivals = {"jax.jit": jax.jit(loop.written), "scan": jax.jit(loop.by_scan)}
    first = {
        name: first_calls(f, arrays) for name, f in (*ours.items(), *rivals.items())
    }
    for name, f in ours.items():
        seconds, count, results = first[name]
        for rival, g in rivals.items():
            their_seconds, their_count, expected = first[rival]
            same(results, expected, rtol=1e-4)
            what = f"{loop.name}, {name}, {rival}"
            both = Comparison(
                seconds, their_seconds, seconds / their_seconds, 0.0, (0.0, 0.0)
            )
            note = f"compiled {count}, {their_count} times"
            lines.append(row(f"{what}: {len(SIZES)} sizes", both, note=note))
            result = compare(
                lambda f=f: f(arrays[-1]), lambda g=g: g(arrays[-1]), calls=20
            )
            lines.append(row(f"{what}: a call", result))
    return lines


def main() -> None:
    """Print the table."""
    print_table("loops of Python", [r for loop in some(LOOPS) for r in rows(loop)])


if __name__ == "__main__":
    main()
