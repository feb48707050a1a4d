"""Repeated blocks, forward and with gradients, against JAX inline and scans by hand.

    python -m benchmarks.blocks [kind ...]

The blocks are those of transformers (width 64, 4 heads, 4 x 64 positions), of
perceptrons and of residual convolutions, small ones (width 16, 8 rows) of 4 to 40
nodes, and rounds of shifts and a gather, from few copies to many. They are written with
`gt`, and in JAX as loops over lists of parameters, with gradients by graphc and by JAX.
First results are CPU seconds from nothing to the first result, everything included.

A "scan" by hand takes parameters that were stacked before: three arguments, however
many blocks there are. A "scan of a list" takes the list that graphc takes, and gives
such a list of gradients, so XLA compiles its many arguments as well. The CPU time of
calls is compared with this scan. Targets: the first result of many blocks takes 1.3
times as long as that of few, and 1.2 times as long as with either scan; calls take 1.05
times as long as the better of scan and inline.
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
    with_whole_products,
)

COUNTS, INLINE = setting(((6, 24, 64, 200), 24), ((2,), 0))  # blocks; most inline
ROUNDS = (7, 14, 20, 400)
WIDTH, HEADS, LENGTH = setting((64, 4, 64), (8, 2, 4))
IMAGES = setting((4, 16, 16, 16), (1, 4, 6, 6))
Parameters = dict[str, Any]


def block(xp: Any, x: Any, p: Parameters) -> Any:
    """Apply attention and a perceptron, and add each result to its input."""
    x = x + attention(xp, normal(xp, x), p)
    inner = xp.maximum(normal(xp, x) @ p["up"] + p["bias"], 0)
    return x + inner @ p["down"]


def attention(xp: Any, x: Any, p: Parameters) -> Any:
    """Compute attention of several heads."""
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
    """Scale rows to mean 0 and variance 1."""
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(1e-5))


def perceptron(xp: Any, x: Any, p: Parameters) -> Any:
    """Apply two products, and add the result to the input."""
    return x + xp.tanh(x @ p["up"] + p["bias"]) @ p["down"]


def layer(xp: Any, x: Any, p: Parameters) -> Any:
    """Build four nodes: a product, a bias, an activation, and the added input."""
    return x + xp.tanh(x @ p["up"] + p["bias"])


def centred(xp: Any, x: Any, p: Parameters) -> Any:
    """Build nine nodes: two products of the centred and scaled input."""
    return x + xp.tanh((x - xp.mean(x)) * p["bias"] @ p["up"]) @ p["down"]


def cell(xp: Any, x: Any, p: Parameters) -> Any:
    """Build a recurrent cell with two gates, in some 20 nodes."""

    def gate(name: str) -> Any:
        return 1 / (1 + xp.exp(-(x @ p[name] + p["bias"])))

    update, reset = gate("up"), gate("down")
    return (1 - update) * x + update * xp.tanh((reset * x) @ p["new"])


def deep(xp: Any, x: Any, p: Parameters) -> Any:
    """Build forty nodes: a norm, and four layers."""
    x = normal(xp, x) * p["bias"]
    for name in ("up", "down", "new", "last"):
        x = x + xp.tanh((x - xp.mean(x)) @ p[name] + p["bias"])
    return x


def convolutions(xp: Any, x: Any, p: Parameters) -> Any:
    """Apply two convolutions, and add the result to the input."""
    inner = xp.maximum(convolution(xp, x, p["first"]) + p["bias"], 0)
    return x + convolution(xp, inner, p["second"])


def convolution(xp: Any, x: Any, kernel: Any) -> Any:
    """Compute a convolution that gives as many points as it takes."""
    if xp is gt:
        return gt.nn.conv(x, kernel, padding="SAME")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


@dataclass(frozen=True)
class Kind:
    """A block, the shapes of its parameters and its input, and the most by hand."""

    block: Callable[[Any, Any, Parameters], Any]
    shapes: Mapping[str, tuple[int, ...]]
    x: tuple[int, ...]
    most: int = 200

    def loss(self, xp: Any, x: Any, all: Sequence[Parameters]) -> Any:
        """Return a number computed from the output of all blocks."""
        for p in all:
            x = self.block(xp, x, p)
        return xp.mean(x * x)


SQUARE, WIDER = (WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
HIDDEN = {"up": WIDER, "bias": WIDER[1:], "down": WIDER[::-1]}
CHANNELS = IMAGES[1]
KERNEL = (CHANNELS, CHANNELS, 3, 3)
NARROW = 16
SMALL = {"bias": (NARROW,), "up": (NARROW, NARROW)}


def small(block: Callable[[Any, Any, Parameters], Any], *names: str) -> Kind:
    """Make a kind of small blocks with these square matrices, and one besides."""
    shapes = SMALL | dict.fromkeys(names, SMALL["up"])
    return Kind(block, shapes, (8, NARROW))


KINDS = {
    "transformer": Kind(
        block, dict.fromkeys("qkvo", SQUARE) | HIDDEN, (4, LENGTH, WIDTH)
    ),
    "perceptron": Kind(perceptron, HIDDEN, (4 * LENGTH, WIDTH)),
    "convolution": Kind(
        convolutions,
        {"first": KERNEL, "bias": (CHANNELS, 1, 1), "second": KERNEL},
        IMAGES,
        most=24,  # on CPUs, XLA's convolutions take 20 times as long in loops
    ),
    "layer": small(layer),
    "centred": small(centred, "down"),
    "cell": small(cell, "down", "new"),
    "deep": small(deep, "down", "new", "last"),
}


def ours(kind: Kind, slopes: bool, all: Sequence[Parameters]) -> Callable[..., Any]:
    """Compile the value by graphc, with the gradient of all parameters if `slopes`."""
    data = gt.tensor("x", "float32", kind.x)
    own = [
        {n: gt.tensor(f"{n}{i}", "float32", v.shape) for n, v in p.items()}
        for i, p in enumerate(all)
    ]
    cost, flat = kind.loss(gt, data, own), jax.tree.leaves(own)
    found = [cost, *graphc.grad(cost, flat)] if slopes else cost
    f = graphc.function([data, *flat], found)
    return lambda x, all: f(x, *jax.tree.leaves(all))


def in_jax(kind: Kind, slopes: bool, differentiate: Any) -> Callable[..., Any]:
    """Apply `graphc.jit` to a loop over a list of parameters."""

    def cost(all: Sequence[Parameters], x: Any) -> Any:
        return kind.loss(jnp, x, all)

    f = graphc.jit(differentiate(cost) if slopes else cost)
    return lambda x, all: jax.tree.leaves(f(all, x))


def inline(kind: Kind, slopes: bool) -> Callable[..., Any]:
    """Apply `jax.jit` to all blocks, one after the other."""

    def cost(all: Sequence[Parameters], x: Any) -> Any:
        return kind.loss(jnp, x, all)

    made = jax.jit(jax.value_and_grad(cost) if slopes else cost)
    return lambda x, all: jax.tree.leaves(made(all, x))


def by_hand(kind: Kind, slopes: bool) -> Callable[..., Any]:
    """Write a scan over stacked parameters in JAX."""

    def cost(stacked: Parameters, x: Any) -> Any:
        end, _ = jax.lax.scan(lambda y, p: (kind.block(jnp, y, p), None), x, stacked)
        return jnp.mean(end * end)

    made = jax.jit(jax.value_and_grad(cost) if slopes else cost)
    return lambda x, stacked: made(stacked, x)


def by_hand_of_list(kind: Kind, slopes: bool) -> Callable[..., Any]:
    """Write a scan in JAX over a list of parameters, stacked within the program."""

    def cost(all: Sequence[Parameters], x: Any) -> Any:
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *all)
        end, _ = jax.lax.scan(lambda y, p: (kind.block(jnp, y, p), None), x, stacked)
        return jnp.mean(end * end)

    made = jax.jit(jax.value_and_grad(cost) if slopes else cost)
    return lambda x, all: jax.tree.leaves(made(all, x))


def first(make: Callable[[], Callable[..., Any]], *args: Any) -> tuple[Any, float]:
    """Return a function, and the CPU seconds to its first result."""
    made: list[Any] = []

    def run() -> Any:
        made.append(make())
        return made[0](*args)

    spent = seconds(run, clock=CPU)
    return made[0], spent


def doors(kind: Kind, slopes: bool, all: Sequence[Parameters]) -> dict[str, Any]:
    """Return what makes graphc's function, for each way to write the blocks."""
    found = {
        "gt": lambda: ours(kind, slopes, all),
        "jit": lambda: in_jax(kind, slopes, jax.value_and_grad),
    }
    if slopes:
        found["jit of graphc's gradient"] = lambda: in_jax(
            kind, slopes, graphc.value_and_grad
        )
    return found


def measured(
    kind: Kind, slopes: bool, count: int
) -> tuple[list[Row], dict[str, float]]:
    """Measure first results and calls for `count` blocks; also return our seconds."""
    rng = np.random.default_rng(0)

    def some_of(shape: tuple[int, ...]) -> Any:
        return jnp.asarray(rng.normal(size=shape).astype("float32") / 16)

    x = some_of(kind.x)
    all = [{n: some_of(s) for n, s in kind.shapes.items()} for _ in range(count)]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *all)
    jax.block_until_ready(stacked)
    rows, rivals, starts = list[Row](), dict[str, Any](), dict[str, float]()
    if count <= kind.most:
        rivals["scan"] = first(lambda: by_hand(kind, slopes), x, stacked)
        rivals["scan of a list"] = first(lambda: by_hand_of_list(kind, slopes), x, all)
    if count <= INLINE:
        rivals["inline"] = first(lambda: inline(kind, slopes), x, all)
    for door, make in doors(kind, slopes, all).items():
        f, start = first(make, x, all)
        starts[door] = start
        for rival, (g, other) in rivals.items():
            stacks = rival == "scan"
            given = stacked if stacks else all
            values = jax.tree.leaves(f(x, all)), jax.tree.leaves(g(x, given))
            pairs = list(zip(*values, strict=not stacks))[: 1 if stacks else None]
            for value, expected in pairs:
                same(value, expected, rtol=1e-3)
            times, what = (time_text(start), time_text(other)), f"{door}, {rival}"
            called = f"{count} blocks: first result, {what}"
            target = 1.0 if rival == "inline" else 1.2
            rows.append(Row(called, *times, start / other, target))
            if not stacks:
                found = compare(
                    lambda: f(x, all), lambda: g(x, given), calls=20, clock=CPU
                )
                rows.append(row(f"{count} blocks: call, {what}", found, 1.05))
    return rows, starts


def table(kind: Kind, slopes: bool) -> list[Row]:
    """Measure all counts, and compare the first result of the most and the fewest."""
    rows: list[Row] = []
    starts = []
    for count in COUNTS:
        more, start = measured(kind, slopes, count)
        rows += more
        starts.append(start)
    what = f"first result of {COUNTS[-1]} blocks; rival: of {COUNTS[0]}"
    for door, few in starts[0].items():
        most = starts[-1][door]
        times = time_text(most), time_text(few)
        rows.append(Row(f"{what}, {door}", *times, most / few, 1.3))
    return rows


PLACES = np.arange(4)
DIAGONALS = PLACES[:, None], (PLACES + PLACES[:, None]) % 4


def rounds(m: Any, count: int) -> Any:
    """Do `count` rounds of a shift, a gather of diagonals, a shift and a sum."""
    for _ in range(count):
        m = (m << np.uint32(7)) ^ (m >> np.uint32(25))
        m = m + (m[DIAGONALS] << np.uint32(3))
    return m


def round_by_round(count: int) -> list[Row]:
    """Measure first results and calls of `count` rounds, against `lax.fori_loop`."""
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
    with_whole_products()
    for name in named() or setting([*KINDS], ["convolution", "layer"]):
        for slopes in setting((False, True), (name != "layer",)):
            title = f"Blocks: {name}{', with gradients' * slopes}"
            print_table(title, table(KINDS[name], slopes))
    rows = [r for n in some(ROUNDS) for r in round_by_round(n)]
    print_table("Rounds of a gather", rows)


if __name__ == "__main__":
    main()
