"""Arrays of many lengths: padded by rule, padded by hand, and compiled for each.

    python -m benchmarks.lengths [--exact]

There are 200 random lengths in 1..5000 (attention and Cholesky: 1..500), timed from the
first call to the last in one process. By hand means power-of-two buckets, zeros after
the data and masks written by a person. `--exact` also runs `jax.jit` on arrays as they
are, which compiles for each length and takes minutes. If PyTorch is installed, there
are rows of its `torch.compile(dynamic=True)`. Targets: as many compilations as by hand,
a total CPU time of at most 1.15 times that by hand, and of at most 1.1 times in a
second pass over the lengths.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import torch_rival
from benchmarks.harness import (
    CPU,
    Comparison,
    Row,
    comparison,
    print_table,
    same,
    seconds,
    setting,
    some,
    time_text,
    xla_compilations,
)

COUNT, ROUNDS = setting((200, 5), (3, 2))
Array = Any
Call = Callable[[Array], Array]


@dataclass(frozen=True)
class Work:
    """A program, as a graph and with masks by hand; the data have `columns`."""

    name: str
    graph: Callable[[Any], Any]
    plain: Callable[[Array], Array]
    masked: Callable[[Array, Array, Array], Array]  # data, mask, length
    columns: int = 0
    longest: int = 5000
    growth: float = 2.0


def variance(x: Array, mask: Array, n: Array) -> Array:
    """Compute mean, variance, maximum and logsumexp of the true elements."""
    mean = jnp.sum(jnp.where(mask, x, 0)) / n
    centred = jnp.where(mask, x - mean, 0)
    largest = jnp.max(jnp.where(mask, x, -jnp.inf))
    total = jnp.sum(jnp.where(mask, jnp.exp(x - largest), 0))
    return jnp.stack([mean, jnp.sum(centred**2) / n, largest, largest + jnp.log(total)])


def masked_attention(x: Array, mask: Array, n: Array) -> Array:
    """Weight rows by their similarity, and sum them up."""
    scores = jnp.where(mask[:, 0], x @ x.T, -jnp.inf)
    found = jax.nn.softmax(scores, axis=-1) @ jnp.where(mask, x, 0)
    return jnp.sum(jnp.where(mask, found, 0), 0)


def kernel(x: Array, xp: Any) -> Array:
    """Compute a covariance matrix of points on a line."""
    return xp.exp(-0.5 * (x[:, None] - x) ** 2) + xp.eye(x.shape[0]) * 0.1


def masked_gp(x: Array, mask: Array, n: Array) -> Array:
    """Compute the log determinant, with an identity in the padding."""
    both = mask[:, None] & mask
    matrix = jnp.where(both, kernel(x, jnp), jnp.eye(x.shape[0]))
    factor = jnp.linalg.cholesky(matrix)
    return 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))


def masked_median(x: Array, mask: Array, n: Array) -> Array:
    """Take the mean of the middle two; NaN if there is a NaN, as for `jnp.median`."""
    ordered = jnp.sort(jnp.where(mask, x, jnp.inf))
    middle = 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])
    return jnp.where(jnp.any(jnp.isnan(x)), jnp.nan, middle)


def masked_entropy(x: Array, mask: Array, n: Array) -> Array:
    """Compute the mean cross-entropy of class 0."""
    losses = jax.nn.logsumexp(x, axis=1) - x[:, 0]
    return jnp.sum(jnp.where(mask[:, 0], losses, 0)) / n


MIX = (np.random.default_rng(1).normal(size=(3, 16, 16)) / 8).astype("float32")


def gru(xp: Any, h: Array, x: Array) -> Array:
    """Take one step of a gated recurrent unit."""
    keep = 1 / (1 + xp.exp(-(h @ MIX[0] + x)))
    reset = 1 / (1 + xp.exp(-(h @ MIX[1] + x)))
    return keep * h + (1 - keep) * xp.tanh((reset * h) @ MIX[2] + x)


def plain_gru(x: Array) -> Array:
    """Return the state after a sequence."""
    start = jnp.zeros(16, "float32")
    return jax.lax.scan(lambda h, row: (gru(jnp, h, row), None), start, x)[0]


def masked_gru(x: Array, mask: Array, n: Array) -> Array:
    """Hold the state after the sequence has ended."""

    def step(h: Array, row: Array) -> tuple[Array, None]:
        value, inside = row
        return jnp.where(inside, gru(jnp, h, value), h), None

    return jax.lax.scan(step, jnp.zeros(16, "float32"), (x, mask[:, 0]))[0]


TAPS = np.array([0.2, 0.3, 0.5, 0.3, 0.2], "float32")

WORK = [
    Work(
        "likelihood sum",
        lambda x: gt.sum(-0.5 * x**2 - 0.9),
        lambda x: jnp.sum(-0.5 * x**2 - 0.9),
        lambda x, mask, n: jnp.sum(jnp.where(mask, -0.5 * x**2 - 0.9, 0)),
    ),
    Work(
        "mean, var, max, logsumexp",
        lambda x: gt.stack([gt.mean(x), gt.var(x), gt.max(x), gt.nn.logsumexp(x)]),
        lambda x: jnp.stack(
            [jnp.mean(x), jnp.var(x), jnp.max(x), jax.nn.logsumexp(x)]
        ),
        variance,
    ),
    Work(
        "cross-entropy",
        lambda x: gt.mean(gt.nn.logsumexp(x, axis=1) - x[:, 0]),
        lambda x: jnp.mean(jax.nn.logsumexp(x, axis=1) - x[:, 0]),
        masked_entropy,
        columns=10,
    ),
    Work(
        "attention",
        lambda x: gt.sum(gt.nn.softmax(x @ x.T, axis=-1) @ x, 0),
        lambda x: jnp.sum(jax.nn.softmax(x @ x.T, axis=-1) @ x, 0),
        masked_attention,
        columns=16,
        longest=500,
    ),
    Work(
        "GP log determinant",
        lambda x: 2 * gt.sum(gt.log(gt.diagonal(gt.linalg.cholesky(kernel(x, gt))))),
        lambda x: 2
        * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(kernel(x, jnp))))),
        masked_gp,
        longest=500,
        growth=1.5,
    ),
    Work(
        "GRU",
        lambda x: gt.scan(lambda h, row: (gru(gt, h, row), None), gt.zeros(16), x)[0],
        plain_gru,
        masked_gru,
        columns=16,
    ),
    Work(
        "median",
        lambda x: gt.median(x),
        lambda x: jnp.median(x),
        masked_median,
    ),
    Work(
        "convolution, squared",
        lambda x: gt.sum(gt.nn.conv(x[None, None], TAPS[None, None], 1, "SAME") ** 2),
        lambda x: jnp.sum(jnp.convolve(x, TAPS, mode="same") ** 2),
        lambda x, mask, n: jnp.sum(
            jnp.where(mask, jnp.convolve(jnp.where(mask, x, 0), TAPS, "same"), 0) ** 2
        ),
    ),
]


def by_hand(work: Work) -> Callable[[Array], Array]:
    """Write what a person writes: a capacity, zeros after the data, a mask."""
    capacity = graphc.Pad(growth=work.growth).capacity

    @jax.jit
    def run(x: Array, n: Array) -> Array:
        mask = jnp.arange(x.shape[0]) < n
        return work.masked(x, mask[:, None] if work.columns else mask, n)

    def call(x: Array) -> Array:
        padded = np.zeros((capacity(len(x)), *x.shape[1:]), "float32")
        padded[: len(x)] = x
        return run(padded, np.int32(len(x)))

    return call


def ours(work: Work, auto: bool) -> Any:
    """Compile the program as a graph."""
    shape = ("n", work.columns) if work.columns else ("n",)
    x = gt.tensor("x", "float32", shape)
    dims = "auto" if auto else {"n": graphc.Pad(growth=work.growth)}
    return graphc.function([x], work.graph(x), dims=dims)


def data(work: Work) -> list[Array]:
    """Make the arrays of one pass; the first is long enough for a median."""
    rng = np.random.default_rng(0)
    rest = (work.columns,) if work.columns else ()
    lengths = rng.integers(1, setting(work.longest, 12) + 1, COUNT)
    return [rng.normal(size=(n, *rest)).astype("float32") for n in lengths]


def over(call: Callable[[Array], Array], arrays: list[Array]) -> list[Array]:
    """Call the program on all arrays: one pass."""
    return [call(x) for x in arrays]


def rows(work: Work, exact: bool) -> list[Row]:
    """Measure one program."""
    arrays = data(work)
    hand, made, auto = by_hand(work), ours(work, False), ours(work, True)
    first, built, results = [], [], []
    for call in (made, hand, auto):
        with xla_compilations() as compiled:
            pass_ = lambda c=call: results.append(over(c, arrays))  # noqa: E731
            first.append(seconds(pass_, 1, CPU))
        built.append(len(compiled))
    for found in results[1:]:
        same(found, results[0], rtol=1e-3)
    told = made.plan.forecast({"n": [len(x) for x in arrays]})
    note = f"{built[0]} compilations, by hand {built[1]}, auto {built[2]}"
    if exact:
        plain = jax.jit(work.plain)
        with xla_compilations() as compiled:
            alone = seconds(lambda: results.append(over(plain, arrays)), 1, CPU)
        same(results[-1], results[0], rtol=1e-3)
        note += f"; exact {len(compiled)}, {time_text(alone)}"
    steady = passes(made, hand, arrays)
    against = in_torch(work, made, arrays, first[0], results[0])
    return [
        Row(f"{work.name}: first pass", time_text(first[0]), time_text(first[1]),
            first[0] / first[1], 1.15, note),
        Row(f"{work.name}: auto", time_text(first[2]), time_text(first[1]),
            first[2] / first[1], None, "; ".join(auto.stats().changes)),
        Row(f"{work.name}: later passes", time_text(steady.ours / COUNT),
            time_text(steady.theirs / COUNT), steady.ratio, 1.1,
            f"per call; {told.waste:.2f}x of the elements", steady.spread),
        *against,
    ]


def passes(ours: Call, theirs: Call, arrays: list[Array]) -> Comparison:
    """Compare later passes over the arrays."""
    pairs = [
        (seconds(lambda: over(ours, arrays)), seconds(lambda: over(theirs, arrays)))
        for _ in range(ROUNDS)
    ]
    return comparison(pairs)


def in_torch(
    work: Work, made: Call, arrays: list[Array], ours: float, results: list[Array]
) -> list[Row]:
    """Compare with `torch.compile(dynamic=True)`, if PyTorch is installed."""
    rival = torch_rival.compiled(work.name)
    if rival is None:
        return []
    found: list[list[Array]] = []
    first = seconds(lambda: found.append(over(rival, arrays)), 1)
    same(found[0], results, rtol=1e-3)
    steady = passes(made, rival, arrays)
    return [
        Row(f"{work.name}: torch, first", time_text(ours), time_text(first),
            ours / first, None, "wall clock: it compiles in other processes"),
        Row(f"{work.name}: torch, later", time_text(steady.ours / COUNT),
            time_text(steady.theirs / COUNT), steady.ratio, None, "per call",
            steady.spread),
    ]


def overhead() -> Row:
    """Measure what padding adds to a call with 1,000 elements."""
    x = gt.tensor("x", "float32", ("n",))
    padded = graphc.function([x], gt.exp(x), dims="pad")
    plain = graphc.function([x], gt.exp(x), dims="specialize")
    array = np.ones(1000, "float32")
    pairs = []
    for call in (padded, plain):
        seconds(lambda c=call: c(array))
    rounds, calls = setting((15, 200), (2, 1))
    for _ in range(rounds):
        both = (seconds(lambda f=f: f(array), calls) for f in (padded, plain))
        pairs.append(tuple(both))
    extra = float(np.median([a - b for a, b in pairs])) * 1e6
    both = comparison(pairs)
    return Row("exp of 1,000 elements, padded and cut", time_text(both.ours),
               time_text(both.theirs), extra, 30, "us more than without padding")


def main() -> None:
    """Print the tables."""
    exact = "--exact" in sys.argv
    found = [row for work in some(WORK) for row in rows(work, exact)]
    print_table(f"{COUNT} lengths, against padding by hand", found)
    print_table("Overhead of a call", [overhead()], number="us")


if __name__ == "__main__":
    main()
