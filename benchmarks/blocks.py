"""Repeated blocks, value and gradient, against JAX inline and as a scan by hand.

    python -m benchmarks.blocks

A transformer block (width 64, 4 heads, 4 x 64 positions) and rounds of shifts and a
gather, from few copies to many. First results are CPU seconds from nothing to the first
result, everything included; the scan by hand is given parameters stacked before.
Targets: the first result of many blocks takes 1.3 of that of few, and 1.1 of the scan
by hand; calls take no longer than the better of both.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
)

COUNTS, INLINE = setting(((6, 24, 100, 200), 24), ((2,), 0))  # blocks; most inline
ROUNDS = (7, 14, 20, 400)
WIDTH, HEADS = 64, 4
SHAPES = {
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "up": (WIDTH, 4 * WIDTH),
    "bias": (4 * WIDTH,),
    "down": (4 * WIDTH, WIDTH),
}
Parameters = dict[str, Any]


def block(xp: Any, x: Any, p: Parameters) -> Any:
    """Attention and a perceptron, each added to what it is given."""
    x = x + attention(xp, normal(xp, x), p)
    inner = xp.maximum(normal(xp, x) @ p["up"] + p["bias"], 0)
    return x + inner @ p["down"]


def attention(xp: Any, x: Any, p: Parameters) -> Any:
    """Attention of several heads."""
    many, length, width = x.shape

    def heads(y: Any) -> Any:
        split = xp.reshape(y, (many, length, HEADS, width // HEADS))
        return xp.transpose(split, (0, 2, 1, 3))

    q, k, v = (heads(x @ p[name]) for name in "qkv")
    scores = q @ xp.swapaxes(k, -1, -2) * np.float32((width // HEADS) ** -0.5)
    scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    weights = scores / xp.sum(scores, axis=-1, keepdims=True)
    joined = xp.transpose(weights @ v, (0, 2, 1, 3))
    return xp.reshape(joined, (many, length, width)) @ p["o"]


def normal(xp: Any, x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(1e-5))


def loss(xp: Any, x: Any, all: Sequence[Parameters]) -> Any:
    """A number, after all blocks."""
    for p in all:
        x = block(xp, x, p)
    return xp.mean(x * x)


def ours(x: Any, all: Sequence[Parameters]) -> Callable[..., Any]:
    """The value and the gradient of all parameters by graphc."""
    data = gt.tensor("x", "float32", x.shape)
    own = [
        {n: gt.tensor(f"{n}{i}", "float32", v.shape) for n, v in p.items()}
        for i, p in enumerate(all)
    ]
    cost, flat = loss(gt, data, own), jax.tree.leaves(own)
    f = graphc.function([data, *flat], [cost, *graphc.grad(cost, flat)])
    return lambda x, all: f(x, *jax.tree.leaves(all))


def inline(x: Any, all: Sequence[Parameters]) -> Callable[..., Any]:
    """The same by JAX, block by block."""
    made = jax.jit(jax.value_and_grad(lambda all, x: loss(jnp, x, all)))
    return lambda x, all: jax.tree.leaves(made(all, x))


def by_hand(x: Any, stacked: Parameters) -> Callable[..., Any]:
    """The same as a scan over stacked parameters."""

    def cost(stacked: Parameters, x: Any) -> Any:
        end, _ = jax.lax.scan(lambda y, p: (block(jnp, y, p), None), x, stacked)
        return jnp.mean(end * end)

    return jax.jit(jax.value_and_grad(cost))


def measured(count: int) -> list[Row]:
    """First results and calls for so many blocks."""
    rng = np.random.default_rng(0)

    def some_of(shape: tuple[int, ...]) -> Any:
        return jnp.asarray(rng.normal(size=shape).astype("float32") / 16)

    x = some_of((4, 64, WIDTH))
    all = [{name: some_of(s) for name, s in SHAPES.items()} for _ in range(count)]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *all)
    jax.block_until_ready(stacked)
    made: dict[str, Any] = {}

    def first(name: str, make: Any, *args: Any) -> float:
        def run() -> Any:
            made[name] = make(*args)
            return made[name](*args[:1], args[1])

        return seconds(run, clock=CPU)

    start = first("graphc", ours, x, all)
    scanned = first("scan", lambda x, s: swapped(by_hand(x, s)), x, stacked)
    rows = [
        Row(
            f"{count} blocks: first result, scan by hand",
            time_text(start),
            time_text(scanned),
            start / scanned,
            1.1,
        )
    ]
    f, g = made["graphc"], made["scan"]
    same(f(x, all)[0], g(x, stacked)[0], rtol=1e-3)
    found = compare(lambda: f(x, all), lambda: g(x, stacked))
    rows.append(row(f"{count} blocks: call, scan by hand", found, 1.0))
    if count <= INLINE:
        plain = first("inline", inline, x, all)
        what = f"{count} blocks: first result, inline"
        times = time_text(start), time_text(plain)
        rows.append(Row(what, *times, start / plain, 1.0))
        h = made["inline"]
        same(f(x, all), h(x, all), rtol=1e-3)
        found = compare(lambda: f(x, all), lambda: h(x, all))
        rows.append(row(f"{count} blocks: call, inline", found, 1.0))
    return rows


def swapped(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments in the other order."""
    return lambda a, b: f(b, a)


PLACES = np.arange(4)
DIAGONALS = PLACES[:, None], (PLACES + PLACES[:, None]) % 4


def rounds(m: Any, count: int) -> Any:
    """Rounds of a shift, a gather of diagonals, a shift and a sum."""
    for _ in range(count):
        m = (m << np.uint32(7)) ^ (m >> np.uint32(25))
        m = m + (m[DIAGONALS] << np.uint32(3))
    return m


def round_by_round(count: int) -> list[Row]:
    """First results and calls of so many rounds, against `lax.fori_loop`."""
    given = np.arange(16, dtype="uint32").reshape(4, 4)
    start = jnp.asarray(given)
    made: list[Any] = []

    def first(make: Callable[[], Any]) -> float:
        def run() -> Any:
            made.append(make())
            return made[-1](start)

        return seconds(run, clock=CPU)

    m = gt.tensor("m", "uint32", (4, 4))
    ours = first(lambda: graphc.function([m], rounds(m, count)))
    theirs = first(
        lambda: jax.jit(
            lambda m: jax.lax.fori_loop(0, count, lambda _, m: rounds(m, 1), m)
        )
    )
    same(made[0](start), rounds(given, count))
    what = f"{count} rounds: first result, fori_loop"
    times = time_text(ours), time_text(theirs)
    found = compare(lambda: made[0](start), lambda: made[1](start), calls=100)
    return [
        Row(what, *times, ours / theirs),
        row(f"{count} rounds: call, fori_loop", found),
    ]


def main() -> None:
    """Print both tables."""
    print_table("Transformer blocks", [r for n in COUNTS for r in measured(n)])
    rows = [r for n in some(ROUNDS) for r in round_by_round(n)]
    print_table("Rounds of a gather", rows)


if __name__ == "__main__":
    main()
