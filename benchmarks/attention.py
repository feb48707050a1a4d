"""Attention in tiles of queries and keys, against tiles of queries alone.

    python -m benchmarks.attention

The programs are softmax(q k^T) v and its gradient, for as many queries as keys, for few
queries, and for several heads; and a kernel sum. The number is the CPU time with tiles
of both over the CPU time with tiles of rows alone (`blocking(rows=0)`): at most 1. The
note has the temporary memory of both programs, and of all pairs, in MiB. The memory
must not grow with the keys. CPU seconds are compared, so that other work on the machine
counts less.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    emitted,
    peak_bytes,
    print_table,
    row,
    same,
    setting,
    some,
)
from graphc.rewrites import blocking, default

WIDTH = 64
ROUNDS = setting(7, 2)
ROWS_ONLY = default - "large_in_blocks" + blocking(rows=0)
Array = Any
Program = Callable[[Array, Array, Array], Array]


def attention(q: Array, k: Array, v: Array) -> Array:
    """Compute attention of one head, or of several along a first axis."""
    scores = q @ gt.swapaxes(k, -1, -2) / WIDTH**0.5
    return gt.nn.softmax(scores, -1) @ v


def kernel(q: Array, k: Array, v: Array) -> Array:
    """Sum Gaussians of the differences in two coordinates."""
    apart = gt.sum((q[:, None, :2] - k[:, :2]) ** 2, -1)
    return gt.exp(-apart) @ v[:, 0]


class Work(NamedTuple):
    """A program, and its numbers of queries and keys."""

    how: Program
    queries: int
    keys: int
    gradient: bool = False
    heads: int = 0


WORK = {
    "attention": [Work(attention, n, n) for n in (100, 1_000, 4_096, 16_384)],
    "few queries": [Work(attention, 64, m) for m in (1_000, 20_000, 100_000)],
    "heads": [Work(attention, n, n, heads=8) for n in (256, 2_048)],
    "gradient": [Work(attention, n, n, gradient=True) for n in (1_000, 4_096, 16_384)],
    "kernel sum": [Work(kernel, n, n) for n in (1_000, 10_000)],
}
SMALLEST = Work(attention, 40, 50)


def programs(work: Work) -> list[Any]:
    """Compile the program in tiles of both axes, and in tiles of rows."""
    first = (work.heads,) * bool(work.heads)
    sizes = zip("qkv", "nmm", strict=True)
    inputs = [gt.tensor(x, "float32", (*first, n, WIDTH)) for x, n in sizes]
    found = work.how(*inputs)
    outputs = graphc.grad(gt.sum(found**2), inputs) if work.gradient else [found]
    rules = default, ROWS_ONLY
    return [
        graphc.function(inputs, outputs, dims="specialize", rewrites=rewrites)
        for rewrites in rules
    ]


def measured(work: Work) -> Row:
    """The row of one size."""
    rng = np.random.default_rng(0)
    first = (work.heads,) * bool(work.heads)
    sizes = work.queries, work.keys, work.keys
    host = [rng.normal(size=(*first, n, WIDTH)).astype("float32") for n in sizes]
    given = [jax.device_put(x) for x in host]
    both, rows = programs(work)
    same(both(*given), rows(*given), rtol=1e-3)
    small = work.queries * work.keys < 2**20
    result = compare(
        lambda: both(*given),
        lambda: rows(*given),
        rounds=ROUNDS,
        calls=20 if small else 1,
        clock=CPU,
    )
    memory = [peak_bytes(emitted(f)["segment_0"], *given) / 2**20 for f in (both, rows)]
    pairs = work.queries * work.keys * max(work.heads, 1) * 4 / 2**20
    note = "{:.1f} MiB, rows {:.1f} MiB, all pairs {:.0f} MiB".format(*memory, pairs)
    return row(f"{work.queries} by {work.keys}", result, 1.0, note)


def main() -> None:
    """Print the tables."""
    for what in some(WORK):
        print_table(what, list(map(measured, setting(WORK[what], [SMALLEST]))))


if __name__ == "__main__":
    main()
