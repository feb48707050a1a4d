"""Repeated blocks, forward and with gradients, against JAX inline and scans by hand.

    python -m benchmarks.blocks [kind ...]

Blocks of transformers (width 64, 4 heads, 4 x 64 positions), of perceptrons and of
residual convolutions, and rounds of shifts and a gather, from few copies to many. First
results are CPU seconds from nothing to the first result, everything included; the scan
by hand is given parameters stacked before.
Targets: the first result of many blocks takes 1.3 of that of few, and 1.1 of the scan
by hand; calls take no longer than the better of both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    named,
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


def perceptron(xp: Any, x: Any, p: Parameters) -> Any:
    """Two products, added to what it is given."""
    return x + xp.tanh(x @ p["up"] + p["bias"]) @ p["down"]


def convolutions(xp: Any, x: Any, p: Parameters) -> Any:
    """Two convolutions, added to what it is given."""
    inner = xp.maximum(convolution(xp, x, p["first"]) + p["bias"], 0)
    return x + convolution(xp, inner, p["second"])


def convolution(xp: Any, x: Any, kernel: Any) -> Any:
    """A convolution that gives as many points."""
    if xp is gt:
        return gt.nn.conv(x, kernel, padding="SAME")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


@dataclass(frozen=True)
class Kind:
    """A block, the shapes of its parameters and of its input, and the most by hand."""

    block: Callable[[Any, Any, Parameters], Any]
    shapes: Mapping[str, tuple[int, ...]]
    x: tuple[int, ...]
    most: int = 200

    def loss(self, xp: Any, x: Any, all: Sequence[Parameters]) -> Any:
        """A number, after all blocks."""
        for p in all:
            x = self.block(xp, x, p)
        return xp.mean(x * x)


SQUARE, WIDER = (WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
HIDDEN = {"up": WIDER, "bias": WIDER[1:], "down": WIDER[::-1]}
KERNEL = (16, 16, 3, 3)
KINDS = {
    "transformer": Kind(
        block, dict.fromkeys("qkvo", SQUARE) | HIDDEN, (4, 64, WIDTH)
    ),
    "perceptron": Kind(perceptron, HIDDEN, (256, WIDTH)),
    "convolution": Kind(
        convolutions,
        {"first": KERNEL, "bias": (16, 1, 1), "second": KERNEL},
        (4, 16, 16, 16),
        most=24,  # XLA takes 20 times as long for a convolution in a loop, on CPUs
    ),
}


def ours(kind: Kind, slopes: bool, all: Sequence[Parameters]) -> Callable[..., Any]:
    """The value, and perhaps the gradient of all parameters, by graphc."""
    data = gt.tensor("x", "float32", kind.x)
    own = [
        {n: gt.tensor(f"{n}{i}", "float32", v.shape) for n, v in p.items()}
        for i, p in enumerate(all)
    ]
    cost, flat = kind.loss(gt, data, own), jax.tree.leaves(own)
    found = [cost, *graphc.grad(cost, flat)] if slopes else cost
    f = graphc.function([data, *flat], found)
    return lambda x, all: f(x, *jax.tree.leaves(all))


def inline(kind: Kind, slopes: bool) -> Callable[..., Any]:
    """The same by JAX, block by block."""

    def cost(all: Sequence[Parameters], x: Any) -> Any:
        return kind.loss(jnp, x, all)

    made = jax.jit(jax.value_and_grad(cost) if slopes else cost)
    return lambda x, all: jax.tree.leaves(made(all, x))


def by_hand(kind: Kind, slopes: bool) -> Callable[..., Any]:
    """The same as a scan over stacked parameters."""

    def cost(stacked: Parameters, x: Any) -> Any:
        end, _ = jax.lax.scan(lambda y, p: (kind.block(jnp, y, p), None), x, stacked)
        return jnp.mean(end * end)

    made = jax.jit(jax.value_and_grad(cost) if slopes else cost)
    return lambda x, stacked: made(stacked, x)


def first(make: Callable[[], Callable[..., Any]], *args: Any) -> tuple[Any, float]:
    """A function, and the CPU seconds to its first result."""
    made: list[Any] = []

    def run() -> Any:
        made.append(make())
        return made[0](*args)

    spent = seconds(run, clock=CPU)
    return made[0], spent


def measured(kind: Kind, slopes: bool, count: int) -> tuple[list[Row], float]:
    """First results and calls for so many blocks; and ours in seconds."""
    rng = np.random.default_rng(0)

    def some_of(shape: tuple[int, ...]) -> Any:
        return jnp.asarray(rng.normal(size=shape).astype("float32") / 16)

    x = some_of(kind.x)
    all = [{n: some_of(s) for n, s in kind.shapes.items()} for _ in range(count)]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *all)
    jax.block_until_ready(stacked)
    f, start = first(lambda: ours(kind, slopes, all), x, all)
    rows = []

    def against(what: str, rival: Callable[[], Any], given: Any, target: float) -> None:
        g, other = first(rival, x, given)
        times = time_text(start), time_text(other)
        called = f"{count} blocks: first result, {what}"
        rows.append(Row(called, *times, start / other, target))
        values = jax.tree.leaves(f(x, all))[0], jax.tree.leaves(g(x, given))[0]
        same(*values, rtol=1e-3)
        found = compare(lambda: f(x, all), lambda: g(x, given))
        rows.append(row(f"{count} blocks: call, {what}", found, 1.0))

    if count <= kind.most:
        against("scan by hand", lambda: by_hand(kind, slopes), stacked, 1.1)
    if count <= INLINE:
        against("inline", lambda: inline(kind, slopes), all, 1.0)
    return rows, start


def table(kind: Kind, slopes: bool) -> list[Row]:
    """All counts of blocks, and the first result of the most against the fewest."""
    rows: list[Row] = []
    starts = []
    for count in COUNTS:
        more, start = measured(kind, slopes, count)
        rows += more
        starts.append(start)
    times = time_text(starts[-1]), time_text(starts[0])
    what = f"first result of {COUNTS[-1]} blocks; rival: of {COUNTS[0]}"
    return [*rows, Row(what, *times, starts[-1] / starts[0], 1.3)]


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
    m = gt.tensor("m", "uint32", (4, 4))

    def by_loop(m: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, m: rounds(m, 1), m)

    f, ours = first(lambda: graphc.function([m], rounds(m, count)), start)
    g, theirs = first(lambda: jax.jit(by_loop), start)
    same(f(start), rounds(given, count))
    what = f"{count} rounds: first result, fori_loop"
    times = time_text(ours), time_text(theirs)
    found = compare(lambda: f(start), lambda: g(start), calls=100)
    return [
        Row(what, *times, ours / theirs),
        row(f"{count} rounds: call, fori_loop", found),
    ]


def main() -> None:
    """Print the tables of the kinds of blocks that are named, or of all."""
    for name in named() or KINDS:
        kind = KINDS[name]
        print_table(f"Blocks: {name}", table(kind, slopes=False))
        print_table(f"Blocks: {name}, with gradients", table(kind, slopes=True))
    rows = [r for n in some(ROUNDS) for r in round_by_round(n)]
    print_table("Rounds of a gather", rows)


if __name__ == "__main__":
    main()
