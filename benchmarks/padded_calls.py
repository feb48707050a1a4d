"""What a padded call costs beyond padding by hand around `jax.jit`.

    taskset -c 1 python -m benchmarks.padded_calls

Five sizes of one capacity alternate. Both sides are compiled once and return arrays of
JAX. Times are CPU seconds. Target: at most 1.1 times padding by hand.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import CPU, Row, compare, print_table, row, same, setting

SIZES = 33, 40, 50, 60, 63
CAPACITY, WIDTH = 64, 8
MANY = setting(100, 4)  # arrays of a tree
Array = Any


def squares(xs: Sequence[Array]) -> Array:
    """Take the mean of squared sums, of symbols or of JAX arrays."""
    xp = gt if isinstance(xs[0], graphc.Value) else jnp
    return sum(xp.mean(xp.sum(xp.tanh(x), axis=-1) ** 2) for x in xs)


def squares_of_numpy(*xs: Array) -> Array:
    """Take the mean of squared sums, written with NumPy."""
    return sum(np.mean(np.sum(np.tanh(x), axis=-1) ** 2) for x in xs)


@jax.jit
def squares_by_hand(xs: Sequence[Array], n: Array) -> Array:
    """Take the mean of squared sums, of padded arrays."""
    inside = jnp.arange(CAPACITY) < n
    squares = (jnp.where(inside, jnp.sum(jnp.tanh(x), -1) ** 2, 0) for x in xs)
    return sum(jnp.sum(each) / n for each in squares)


def layers(x: Array, params: dict[str, Array]) -> Array:
    """Scale rows by each of many parameters, whose sizes do not vary."""
    for scale in params.values():
        x = x * scale
    return x


layers_by_hand = jax.jit(layers)


def a_part(x: Array) -> Array:
    """Take a part of an array and a number, both by the size."""
    return np.sum(x[: int(0.3 * len(x))]) * math.log2(len(x))


@jax.jit
def a_part_by_hand(x: Array, k: Array, factor: Array) -> Array:
    """Take the part and the number of a padded array."""
    inside = jnp.arange(CAPACITY) < k
    return jnp.sum(jnp.where(inside[:, None], x, 0)) * factor


def padded(x: Array) -> Array:
    """Append rows of zeros to `x`, as a person would."""
    buffer = np.zeros((CAPACITY, *x.shape[1:]), x.dtype)
    buffer[: len(x)] = x
    return buffer


def rows_of(n: int) -> Array:
    return np.linspace(0, 1, n * WIDTH, dtype="float32").reshape(n, WIDTH)


def measured(
    what: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
) -> Row:
    """Measure calls in turn, each of which gives the same on both sides."""
    for args in calls * 3:  # they are compiled, and then planned
        same(ours(*args), theirs(*args))

    def turn(run: Callable[..., Any]) -> Callable[[], list[Any]]:
        return lambda: [run(*args) for args in calls]

    pair = compare(turn(ours), turn(theirs), rounds=61, calls=20, clock=CPU)
    least = pair.least[0] / pair.least[1]
    return row(what, pair, 1.1, f"{len(calls)} calls; of the fastest {least:.3g}")


def of_arrays(count: int) -> list[Row]:
    """Measure functions of `count` arrays, all of them padded."""
    xs = [gt.tensor(f"x{i}", "float32", ("n", WIDTH)) for i in range(count)]
    function = graphc.function(xs, squares(xs), dims="pad")
    groups = ", ".join(["n _"] * count)
    how: Any = {"shapes": groups, "dims": "pad"}
    jitted = graphc.jit(lambda *xs: squares(xs), **how)
    of_numpy = graphc.jit(squares_of_numpy, frontend="numpy", **how)
    functions = {
        "graphc.function": function,
        "graphc.jit": jitted,
        "graphc.jit of NumPy": of_numpy,
    }

    def by_hand(*xs: Array) -> Array:
        return squares_by_hand(tuple(map(padded, xs)), len(xs[0]))

    table = []
    for kind, array in (("NumPy", np.asarray), ("JAX", jnp.asarray)):
        calls = [(array(rows_of(n)),) * count for n in SIZES]
        for name, ours in functions.items():
            what = f"{name}, {count} {kind} arrays"
            table.append(measured(what, ours, by_hand, calls))
    assert len(function.stats().compilations) == 1
    return table


def of_a_tree() -> list[Row]:
    """Measure a padded array with a tree of parameters; the result is cut."""
    params = {f"w{i}": jnp.ones(WIDTH) for i in range(MANY)}
    groups = ", ".join(["n _"] + ["_"] * MANY)
    jitted = graphc.jit(layers, shapes=groups, dims="pad")

    def by_hand(x: Array, params: dict[str, Array]) -> Array:
        stored = np.asarray(layers_by_hand(padded(x), params))
        return jax.device_put(stored[: len(x)])

    table = []
    for kind, array in (("NumPy", np.asarray), ("JAX", jnp.asarray)):
        calls = [(array(rows_of(n)), params) for n in SIZES]
        what = f"graphc.jit, a {kind} array and a tree of {MANY}, cut"
        table.append(measured(what, jitted, by_hand, calls))
    return table


def of_numbers() -> list[Row]:
    """Measure a NumPy function that computes numbers from a size."""
    jitted = graphc.jit(a_part, frontend="numpy", dims="pad")

    def by_hand(x: Array) -> Array:
        n = len(x)
        return a_part_by_hand(padded(x), int(0.3 * n), math.log2(n))

    calls = [(rows_of(n),) for n in SIZES]
    what = "graphc.jit of NumPy, an array and numbers of a size"
    return [measured(what, jitted, by_hand, calls)]


if __name__ == "__main__":
    table = [found for count in (1, 3, setting(20, 3)) for found in of_arrays(count)]
    table += of_a_tree() + of_numbers()
    print_table("padded calls, against padding by hand", table)
