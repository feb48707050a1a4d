"""What an accelerator pays for: attention, blocks, sizes that are read, turns of loops.

    python -m benchmarks.accelerators [attention] [blocks] [reads] [turns] [chains]

Attention of several heads is compiled by graphc, and compared with the faster of
`jax.jit` of the same text and `jax.nn.dot_product_attention` (XLA's, and cuDNN's if it
takes the dtype). There are rows without a mask, with causal masks of -inf and of -1e9,
and with padding, and for the gradient too. Further tables compare kernel sums in blocks
of several sizes in bytes with sums without blocks; selected rows at their bound with
rows whose number is read; scans with several steps per turn with scans of one; and
chains of blocks as a loop with their text.

The script also runs on a CPU; the numbers are then those of the CPU.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.blocks import KINDS, by_hand, inline
from benchmarks.harness import (
    Comparison,
    Row,
    compare,
    emitted,
    named,
    peak_bytes,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
    xla_compilations,
)
from graphc.rewrites import blocking, default

Array = Any
ROUNDS = setting(9, 2)
BATCH, HEADS, HEAD = setting((4, 8, 64), (1, 2, 8))
LENGTHS = setting((512, 2048, 8192), (12,))
TOLERANCE = {"float32": 2e-2, "bfloat16": 1e-1}  # products of 10 bits, or of 8
MASKS: dict[str, float | None] = {"no mask": None, "-inf": -np.inf, "-1e9": -1e9}
PIXELS = setting((4_096, 16_384), (64,))
BLOCKS = setting((22, 24, 26, 28, 30), (8,))  # log2 of bytes
ROWS = setting((1_000, 30_000, 1_000_000), (40,))
KEPT = setting((2, 16, 256), (2,))  # one of so many rows is selected
STATES = setting((8, 128, 1_024), (4,))
STEPS, TURNS = setting((2_000, (2, 4, 8, 16)), (20, (2,)))
DEPTHS = setting((8, 32, 64), (3,))


@dataclass(frozen=True)
class Attention:
    """Attention of `length` rows; `hidden` is the logit of keys that no row may see."""

    length: int
    dtype: str
    hidden: float | None
    gradient: bool = False

    def written(self, xp: Any, q: Array, k: Array, v: Array) -> Array:
        """Write attention for symbols or arrays of (batch, heads, rows, width)."""
        scores = q @ xp.swapaxes(k, -1, -2) * HEAD**-0.5
        if self.hidden is not None:
            rows = xp.arange(q.shape[-2])
            scores = xp.where(rows[:, None] >= rows, scores, self.hidden)
        softmax = gt.nn.softmax if xp is gt else jax.nn.softmax
        return softmax(scores, axis=-1) @ v

    def of_library(self, name: str, *heads: Array) -> Array:
        """Compute it with JAX's function, whose arrays have heads after rows."""
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in heads)
        attended = jax.nn.dot_product_attention(
            q, k, v, is_causal=self.hidden is not None, implementation=name
        )
        return jnp.swapaxes(attended, 1, 2)

    def ours(self) -> Any:
        """Compile the attention with graphc."""
        shape = (BATCH, HEADS, "n", HEAD)
        inputs = [gt.tensor(name, self.dtype, shape) for name in "qkv"]
        output = self.written(gt, *inputs)
        if self.gradient:
            loss = gt.sum(output.astype("float32") ** 2)
            return graphc.function(inputs, graphc.grad(loss, inputs), dims="specialize")
        return graphc.function(inputs, [output], dims="specialize")

    def rivals(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of JAX to compare with, by name."""
        written: dict[str, Callable[..., Array]] = {
            "text": lambda *heads: self.written(jnp, *heads)
        }
        for name in ("xla", "cudnn"):
            written[name] = lambda *heads, name=name: self.of_library(name, *heads)
        return {name: jax.jit(self._differentiated(f)) for name, f in written.items()}

    def _differentiated(self, f: Callable[..., Array]) -> Callable[..., Any]:
        if not self.gradient:
            return lambda *heads: [f(*heads)]

        def loss(*heads: Array) -> Array:
            return jnp.sum(f(*heads).astype("float32") ** 2)

        return lambda *heads: list(jax.grad(loss, (0, 1, 2))(*heads))

    def measured(self) -> Row | None:
        """Compare with the fastest rival; None if no program fits in memory."""
        rng = np.random.default_rng(0)
        shape = (BATCH, HEADS, self.length, HEAD)
        heads = [jnp.asarray(rng.normal(size=shape), self.dtype) for _ in "qkv"]
        f, times = self.ours(), {}
        ours = f(*heads)
        for name, rival in self.rivals().items():
            try:
                theirs = rival(*heads)
            except (RuntimeError, ValueError, NotImplementedError):
                times[name] = "not here"  # cuDNN's is for half precision on GPUs
                continue
            self._agree(ours, theirs)
            times[name] = compare(
                lambda: f(*heads), lambda rival=rival: rival(*heads), rounds=ROUNDS
            )
        best = min(
            (c for c in times.values() if isinstance(c, Comparison)),
            key=lambda c: c.theirs,
        )
        texts = [
            f"{name} {t if isinstance(t, str) else time_text(t.theirs)}"
            for name, t in times.items()
        ]
        memory = peak_bytes(emitted(f)["segment_0"], *heads) / 2**20
        note = f"{', '.join(texts)}; {memory:.0f} MiB"
        return row(f"{self.length} {self.dtype}", best, 1.05, note)

    def _agree(self, ours: Any, theirs: Any) -> None:
        for a, b in zip(ours, theirs, strict=True):
            a, b = (np.asarray(x, "float64") for x in (a, b))
            scale = np.max(np.abs(b)) or 1.0
            assert np.max(np.abs(a - b)) <= TOLERANCE[self.dtype] * scale


def attention() -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for each mask, forward and for the gradient."""
    for gradient in (False, True):
        for mask, hidden in some(MASKS.items()):
            rows = [
                Attention(n, dtype, hidden, gradient).measured()
                for dtype in some(TOLERANCE)
                for n in LENGTHS
            ]
            yield f"attention, {mask}{', gradient' * gradient}", rows
    yield "attention, padded", [padded(n, d) for d in some(TOLERANCE) for n in LENGTHS]


def padded(length: int, dtype: str) -> Row:
    """Measure attention of 3/4 of the stored rows; JAX's function is given lengths."""
    shape, rows = (BATCH, HEADS, "n", HEAD), 3 * length // 4
    inputs = [gt.tensor(name, dtype, shape) for name in "qkv"]
    text = Attention(length, dtype, None)
    policy = graphc.Pad(buckets=(length,))
    f = graphc.function(inputs, text.written(gt, *inputs), dims=policy)
    rng = np.random.default_rng(0)
    size = (BATCH, HEADS, length, HEAD)
    stored = [jnp.asarray(rng.normal(size=size), dtype) for _ in "qkv"]
    heads = [x[:, :, :rows] for x in stored]
    ours, lengths = f(*heads), jnp.full(BATCH, rows)

    def told(name: str) -> Callable[..., Array]:
        def attend(*arrays: Array) -> Array:
            q, k, v = (jnp.swapaxes(x, 1, 2) for x in arrays)
            attended = jax.nn.dot_product_attention(
                *(q, k, v, None, None),
                query_seq_lengths=lengths,
                key_value_seq_lengths=lengths,
                implementation=name,
            )
            return jnp.swapaxes(attended, 1, 2)

        jitted = jax.jit(attend)
        return lambda: jitted(*stored)[:, :, :rows]

    rivals = {}
    for name in ("xla", "cudnn"):
        try:
            theirs = np.asarray(told(name)(), "float64")
        except (RuntimeError, ValueError, NotImplementedError):
            continue
        assert np.max(np.abs(np.asarray(ours, "float64") - theirs)) < TOLERANCE[dtype]
        rivals[name] = compare(lambda: f(*heads), told(name), rounds=ROUNDS)
    best = min(rivals.values(), key=lambda c: c.theirs)
    note = ", ".join(f"{k} {time_text(c.theirs)}" for k, c in rivals.items())
    return row(f"{rows} in {length} {dtype}", best, 1.05, f"{note}, already padded")


def of_blocks(size: int, gradient: bool) -> list[Row]:
    """Measure sums of Gaussians of all pairs of points, for each size of a block."""
    shape = "n", 3
    x, y = (gt.tensor(name, "float32", shape) for name in "xy")
    apart = gt.sum((x[:, None] - y) ** 2, -1)
    pairs = gt.sum(gt.exp(-apart), -1)
    outputs = graphc.grad(gt.sum(pairs**2), [x, y]) if gradient else [pairs]
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.normal(size=(size, 3)), "float32") for _ in "xy"]

    def made(rules: Any) -> Any:
        return graphc.function([x, y], outputs, rewrites=rules, dims="specialize")

    without = default - "large_in_blocks"
    whole, rows = made(without), []
    for power in BLOCKS:
        tiled = made(without + blocking(2**power))
        same(tiled(*arrays), whole(*arrays), rtol=1e-3)
        result = compare(
            lambda tiled=tiled: tiled(*arrays), lambda: whole(*arrays), rounds=ROUNDS
        )
        sides = (peak_bytes(emitted(f)["segment_0"], *arrays) for f in (tiled, whole))
        note = "{:.1f} MiB for {:.1f}".format(*(b / 2**20 for b in sides))
        rows.append(row(f"{size} points, 2^{power} bytes", result, None, note))
    return rows


def blocks() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables for kernel sums and for their gradients."""
    for gradient in (False, True):
        rows = [one for n in PIXELS for one in of_blocks(n, gradient)]
        yield f"kernel sums in blocks{', gradient' * gradient}", rows


def reads() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables for selected rows in two layers: at their bound, and read."""
    width = 64
    x = gt.tensor("x", "float32", ("n", width))
    w = gt.tensor("w", "float32", (width, width))
    layers = gt.sum(gt.tanh(gt.tanh(x[x[:, 0] > 0] @ w) @ w), 0)
    policies = graphc.Bound(), graphc.Pad()
    bound, read = (graphc.function([x, w], layers, dims=policy) for policy in policies)
    rng, rows = np.random.default_rng(0), []
    for n in ROWS:
        for part in KEPT:
            host = rng.normal(size=(n, width)).astype("float32")
            host[:, 0] = np.where(np.arange(n) % part == 0, 1, -1)
            arrays = [jnp.asarray(host), jnp.asarray(rng.normal(size=(width, width)))]
            arrays[1] = arrays[1].astype("float32") / 8
            same(bound(*arrays), read(*arrays), rtol=1e-2)
            result = compare(
                lambda arrays=arrays: bound(*arrays),
                lambda arrays=arrays: read(*arrays),
                rounds=ROUNDS,
                calls=setting(10, 1),
            )
            rows.append(row(f"one of {part} of {n}", result))
    yield "selected rows at their bound, for rows that are counted", rows


def turns() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables for a recurrent cell with several steps per turn of a loop."""
    rows = []
    for width in STATES:
        w = gt.tensor("w", "float32", (width, width))
        x = gt.tensor("x", "float32", ("t", width))

        def step(state: Array, row: Array, w: Array = w) -> tuple[Array, Array]:
            state = gt.tanh(state @ w + row)
            return state, state

        def made(count: int, w: Array = w, x: Array = x, width: int = width) -> Any:
            start = gt.zeros(width, "float32")
            states = gt.scan(step, start, x, unroll=count)[1]
            value = gt.mean(states[-1] ** 2)
            rules = default - "steps_together"
            return graphc.function([w, x], value, rewrites=rules, dims="specialize")

        rng = np.random.default_rng(0)
        sizes = (width, width), (STEPS, width)
        arrays = [jnp.asarray(rng.normal(size=s) / width, "float32") for s in sizes]
        single = made(1)
        for count in TURNS:
            several = made(count)
            same(several(*arrays), single(*arrays), rtol=1e-3)
            result = compare(
                lambda several=several: several(*arrays),
                lambda single=single: single(*arrays),
                rounds=ROUNDS,
            )
            rows.append(row(f"{count} steps, state of {width}", result))
    yield f"{STEPS} steps, several in a turn", rows


def chains() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables for gradients of chains by JAX: as a loop, and as text."""
    rows, kind = [], KINDS["centred"]
    for depth in DEPTHS:
        rng = np.random.default_rng(0)
        x = jnp.ones(kind.x)
        blocks = [
            {n: jnp.asarray(rng.normal(size=s) / 16, "float32") for n, s in shapes}
            for shapes in [kind.shapes.items()] * depth
        ]
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *blocks)
        loop, text = by_hand(kind, slopes=True), inline(kind, slopes=True)
        firsts = []
        for run in (lambda: loop(x, stacked), lambda: text(x, blocks)):
            with xla_compilations() as compiled:
                first = seconds(run)
            firsts.append((first, sum(compiled)))
        same(loop(x, stacked)[0], text(x, blocks)[0], rtol=1e-3)
        result = compare(
            lambda loop=loop: loop(x, stacked),
            lambda text=text: text(x, blocks),
            rounds=ROUNDS,
            calls=setting(5, 1),
        )
        note = "first results {:.2f} s ({:.2f} XLA's), text {:.2f} s ({:.2f})"
        note = note.format(*firsts[0], *firsts[1])
        rows.append(row(f"{depth} blocks", result, None, note))
    yield "chains of small blocks, a loop for its text", rows


TABLES = {
    "attention": attention,
    "blocks": blocks,
    "reads": reads,
    "turns": turns,
    "chains": chains,
}


def main() -> None:
    """Print all tables, or those that are named."""
    for name in named() or TABLES:
        for title, rows in TABLES[name]():
            print_table(title, rows)


if __name__ == "__main__":
    main()
