"""Everyday programs over 50 sizes: how often they are compiled, and what calls cost.

    python -m benchmarks.predictable [name of a program]

The first table counts the compilations of 74 programs: those below and those of
`everyday`. Targets: at most 9 by default and under `pad`, by default at most 2 more
than under `pad`, and none when all sizes come again. Results must be those at true
sizes, on NumPy or by JAX.

Sizes lie within a factor of 256. The other tables compare `dims="auto"` (the default),
`dims="pad"`, and JAX with padding and masks written by hand. Targets: compilations as
in the first table, under `pad` in one segment, and steady calls under `pad` that take
at most 1.15 times as long as by hand. A program is compiled for all sizes first. Then
calls are timed: ten sizes in turn, many times over. Both sides return JAX arrays of the
true sizes, and compute in the same dtypes.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.everyday import EVERYDAY
from benchmarks.harness import (
    Row,
    compare,
    named,
    print_table,
    row,
    same,
    setting,
    some,
    xla_compilations,
)

LEAST, MOST = 16, 4096
COUNT = setting(50, 3)
TIMED = setting(10, 2)
TURNS = 10  # only the first turn finds nothing in the caches of the processor
Array = Any
MOST_COMPILATIONS = 9
capacity = graphc.Pad().capacity


@dataclass(frozen=True)
class Work:
    """A program: its graph, its arguments for a size, and the version by hand.

    `by_hand` is jitted. It gets arrays whose first axes are padded with zeros, and then
    the true size. If `cut`, its result is cut to that size.
    """

    name: str
    graph: Callable[..., Any]
    types: Sequence[tuple[str, tuple[Any, ...]]]
    arguments: Callable[[int], list[Any]]
    by_hand: Callable[..., Any]
    cut: bool = False
    segments: int = 1


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def inside(x: Array, n: Array) -> Array:
    """Return a mask of the first n rows."""
    return jnp.arange(x.shape[0]) < n


def attention(q: Any, keys: Any, values: Any, n: Any) -> Any:
    return gt.nn.softmax(q @ keys[:n].T) @ values[:n]


def masked_attention(q: Array, keys: Array, values: Array, n: Array) -> Array:
    scores = jnp.where(inside(keys, n), q @ keys.T, -jnp.inf)
    return jax.nn.softmax(scores) @ values


def causal(x: Any) -> Any:
    n = x.shape[0]
    scores = gt.where(gt.tri(n, dtype="bool"), x @ x.T, -np.inf)
    return gt.nn.softmax(scores, axis=-1) @ x


def masked_causal(x: Array, n: Array) -> Array:
    keep = jnp.tri(x.shape[0], dtype=bool) & inside(x, n)
    return jax.nn.softmax(jnp.where(keep, x @ x.T, -jnp.inf), axis=-1) @ x


def windows(x: Any) -> Any:
    n = x.shape[0] // 4
    return gt.max(gt.reshape(x[: 4 * n], (n, 4)), axis=1).sum()


def masked_windows(x: Array, n: Array) -> Array:
    found = jnp.max(jnp.reshape(x, (-1, 4)), axis=1)
    return jnp.sum(jnp.where(inside(found, n // 4), found, 0))


def rotary(x: Any) -> Any:
    """Turn pairs of features by angles that grow with the position."""
    shape = gt.stack(x.shape)
    half = shape[-1] // 2
    share = (gt.arange(half) / half).astype("float32")
    angle = gt.arange(shape[0], dtype="float32")[:, None] / 100.0**share
    first, second = gt.reshape(x, (*x.shape[:1], 2, half)).swapaxes(0, 1)
    cos, sin = gt.cos(angle), gt.sin(angle)
    turned = gt.stack([first * cos - second * sin, first * sin + second * cos], 1)
    return gt.reshape(turned, shape[np.array([0, 1])])


def rotary_by_hand(x: Array, n: Array) -> Array:
    half = x.shape[1] // 2
    angle = jnp.arange(x.shape[0])[:, None] / 100.0 ** (jnp.arange(half) / half)
    first, second = x[:, :half], x[:, half:]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], 1)


def polynomial(x: Any, y: Any) -> Any:
    """Fit a cubic to points, by least squares."""
    powers = gt.stack([x**i for i in range(4)], axis=1)
    return gt.linalg.solve(powers.T @ powers + 1e-3 * np.eye(4, dtype="float32"),
                           powers.T @ y)


def polynomial_by_hand(x: Array, y: Array, n: Array) -> Array:
    powers = jnp.stack([x**i for i in range(4)], axis=1)
    powers = jnp.where(inside(x, n)[:, None], powers, 0)
    return jnp.linalg.solve(powers.T @ powers + 1e-3 * jnp.eye(4), powers.T @ y)


def moments_by_hand(x: Array, n: Array) -> Array:
    mask = inside(x, n)
    mean = jnp.sum(jnp.where(mask, x, 0)) / n
    return jnp.stack([mean, jnp.sum(jnp.where(mask, (x - mean) ** 2, 0)) / n])


def softmax_by_hand(x: Array, n: Array) -> Array:
    return jax.nn.softmax(jnp.where(inside(x, n), x, -jnp.inf))


def prefix_minima(x: Any, f: Any) -> Any:
    def step(t: Any, best: Any) -> Any:
        return best + gt.min(f[gt.arange(t)] + x[:t])

    return gt.fori_loop(1, x.shape[0], step, gt.zeros((), "float32"))


def prefix_minima_by_hand(x: Array, f: Array, n: Array) -> Array:
    def step(t: Array, best: Array) -> Array:
        return best + jnp.min(jnp.where(inside(x, t), f + x, jnp.inf))

    return jax.lax.fori_loop(1, n, step, jnp.zeros((), "float32"))


def change_points(x: Any) -> Any:
    """Compute by dynamic programming the least cost of cuts before each point."""
    sums = gt.concatenate([gt.zeros(1, "float32"), gt.cumsum(x)])

    def step(t: Any, best: Any) -> Any:
        i = gt.arange(t, dtype="int32")
        length = (t.astype("int32") - i).astype("float32")
        cost = 1 - (sums[t] - sums[i]) ** 2 / length
        return best.at[t].set(gt.min(best[:t] + cost))

    n = x.shape[0]
    return gt.fori_loop(1, n + 1, step, gt.zeros(n + 1, "float32"))[1:]


def change_points_by_hand(x: Array, n: Array) -> Array:
    sums = jnp.concatenate([jnp.zeros(1, "float32"), jnp.cumsum(x)])
    at = jnp.arange(sums.size)

    def step(t: Array, best: Array) -> Array:
        cost = 1 - (sums[t] - sums) ** 2 / jnp.where(at < t, t - at, 1)
        return best.at[t].set(jnp.min(jnp.where(at < t, best + cost, jnp.inf)))

    return jax.lax.fori_loop(1, n + 1, step, jnp.zeros_like(sums))[1:]


def sieve(x: Any) -> Any:
    """Return which of 0, 1, ... are primes."""
    n = x.shape[0]

    def step(i: Any, found: Any) -> Any:
        return gt.where(found[i], found.at[i * i :: i].set(False), found)

    return gt.fori_loop(2, n, step, gt.arange(n) >= 2)


def sieve_by_hand(x: Array, n: Array) -> Array:
    at = jnp.arange(x.shape[0])

    def step(i: Array, found: Array) -> Array:
        return found & ~(found[i] & (at >= i * i) & (at % i == 0))

    return jax.lax.fori_loop(2, n, step, at >= 2)


def cells(xp: Any, low: Any, width: Any, rate: Any, parts: Any) -> Any:
    """Integrate exp(-rate * t * t) on cells by Simpson's rule, in `parts` <= 8."""
    i = xp.arange(8)[:, None].astype("float32")
    step = width / parts
    points = [low + (i + share) * step for share in (0.0, 0.5, 1.0)]
    a, b, c = (xp.exp(-rate * t * t) for t in points)
    return xp.sum(xp.where(i < parts, (a + 4 * b + c) * step / 6, 0), 0)


def simpson(x: Any, rate: Any) -> Any:
    """Compute an integral and its slope; cells are halved until it is exact."""
    low, width = x[:-1], x[1:] - x[:-1]

    def halve(carry: Any) -> Any:
        parts, before, _ = carry
        found = cells(gt, low, width, rate[0], 2 * parts)
        return 2 * parts, found, gt.max(gt.abs(found - before))

    parts = gt.ones((), "float32")
    first = parts, cells(gt, low, width, rate[0], parts), gt.ones((), "float32")
    more = lambda carry: (carry[0] < 8) & (carry[2] > 1e-6)  # noqa: E731
    total = gt.sum(gt.while_loop(more, halve, first, max_steps=3)[1])
    return gt.concatenate([total[None], graphc.grad(total, rate)])


def simpson_by_hand(x: Array, rate: Array, n: Array) -> Array:
    inner = inside(x, n - 1)[:-1]
    low, width = x[:-1], jnp.where(inner, x[1:] - x[:-1], 0)

    def total(rate: Array) -> Array:
        def halve(carry: Any, parts: Array) -> Any:
            before, exact = carry
            found = cells(jnp, low, width, rate[0], parts)
            now = jnp.where(exact, before, found)
            return (now, exact | (jnp.max(jnp.abs(found - before)) <= 1e-6)), None

        first = cells(jnp, low, width, rate[0], 1.0)
        found, _ = jax.lax.scan(halve, (first, False), jnp.array([2.0, 4.0, 8.0]))
        return jnp.sum(found[0])

    return jnp.concatenate([total(rate)[None], jax.grad(total)(rate)])


VECTOR = [("x", ("n",))]
ROWS = floats(MOST, 8)
QUERY = floats(8)
LINE = np.linspace(-1, 1, MOST, dtype="float32")

WORK = [
    Work("moments", lambda x: gt.stack([gt.mean(x), gt.var(x)]), VECTOR,
         lambda n: [floats(n)], moments_by_hand),
    Work("exp(x[:k])", lambda x, k: gt.exp(x[:k]), [("x", ("n",)), ("k", ())],
         lambda n: [LINE, n], lambda x, n, _: jnp.exp(x), cut=True),
    Work("softmax(q @ K[:n].T) @ V[:n]", attention,
         [("q", (8,)), ("keys", ("m", 8)), ("values", ("m", 8)), ("k", ())],
         lambda n: [QUERY, ROWS, ROWS, n],
         lambda q, keys, values, n, _: masked_attention(q, keys, values, n)),
    Work("causal attention", causal, [("x", ("n", 8))], lambda n: [floats(n // 8, 8)],
         masked_causal, cut=True),
    Work("softmax(x)", lambda x: gt.nn.softmax(x), VECTOR, lambda n: [floats(n)],
         softmax_by_hand, cut=True),
    Work("pooled windows", windows, VECTOR, lambda n: [floats(n)], masked_windows),
    Work("cubic by least squares", polynomial, [("x", ("n",)), ("y", ("n",))],
         lambda n: [np.linspace(-1, 1, n, dtype="float32"), floats(n)],
         polynomial_by_hand),
    Work("rotary embedding", rotary, [("x", ("n", 8))], lambda n: [floats(n, 8)],
         rotary_by_hand, cut=True),
    Work("prefix minima in a loop", prefix_minima, [("x", ("n",)), ("f", ("n",))],
         lambda n: [floats(n // 8), floats(n // 8)], prefix_minima_by_hand),
    Work("change points", change_points, VECTOR, lambda n: [floats(n // 8)],
         change_points_by_hand, cut=True),
    Work("sieve", sieve, VECTOR, lambda n: [floats(n // 8)], sieve_by_hand, cut=True),
    Work("Simpson's rule and its slope", simpson, [("x", ("n",)), ("rate", (1,))],
         lambda n: [np.linspace(0, 2, n, dtype="float32"), np.ones(1, "float32")],
         simpson_by_hand),
]  # fmt: skip


def inputs_of(work: Work) -> list[Any]:
    return [
        gt.tensor(name, "float32" if shape else "int64", shape)
        for name, shape in work.types
    ]


def compiled(work: Work, dims: Any) -> Any:
    inputs = inputs_of(work)
    return graphc.function(inputs, work.graph(*inputs), dims=dims)


def hand_written(work: Work) -> Callable[..., Array]:
    """Add padding, masks and cutting to a program, as a person does."""
    run = jax.jit(work.by_hand)
    symbolic = [bool(shape) and isinstance(shape[0], str) for _, shape in work.types]

    def call(*args: Array) -> Array:
        n = next(len(a) for a, pads in zip(args, symbolic, strict=True) if pads)
        room = capacity(n)
        given = []
        for a, pads in zip(args, symbolic, strict=True):
            if pads:
                wide = np.zeros((room, *a.shape[1:]), a.dtype)
                wide[:n] = a
                a = wide
            given.append(a)
        result = run(*given, n)
        size = args[-1] if np.ndim(args[-1]) == 0 else n
        return jax.device_put(np.asarray(result)[:size]) if work.cut else result

    return call


def counted(f: Callable[..., Array], calls: list[list[Any]]) -> int:
    """Count how often XLA compiles for these calls."""
    with warnings.catch_warnings(), xla_compilations() as found:
        warnings.simplefilter("ignore", graphc.RecompilationWarning)
        for args in calls:
            jax.block_until_ready(f(*args))
    return len(found)


def most_by_default(of_pad: int) -> int:
    """Return how many compilations the default may take, given those under `pad`."""
    return min(MOST_COMPILATIONS, of_pad + 2)


def rows_of(work: Work) -> list[Row]:
    """Measure compilations, segments and steady calls of one program."""
    logs = np.random.default_rng(0).uniform(np.log(LEAST), np.log(MOST), COUNT)
    calls = [work.arguments(int(n)) for n in np.exp(logs)]
    default, pad = compiled(work, "auto"), compiled(work, "pad")
    hand = hand_written(work)
    of_hand = counted(hand, calls)
    of_default, of_pad = counted(default, calls), counted(pad, calls)
    for args in calls[:TIMED]:
        same(np.asarray(pad(*args)), np.asarray(hand(*args)), rtol=1e-3)
    assert counted(default, calls) == counted(pad, calls) == 0
    hands = f"by hand {of_hand}"
    steady = compare(
        lambda: [pad(*args) for args in calls[:TIMED]],
        lambda: [hand(*args) for args in calls[:TIMED]],
        calls=TURNS,
    )
    segments = len(pad.plan.segments)
    return [
        Row("compilations", f"pad {of_pad}", hands, of_pad, MOST_COMPILATIONS),
        Row("by default", f"{of_default}", hands, of_default, most_by_default(of_pad)),
        Row("segments", f"pad {segments}", number=segments, target=work.segments),
        row("steady calls", steady, 1.15),
    ]


def counts_of(name: str, default: Any, pad: Any, calls: list[list[Any]]) -> list[Row]:
    """Count the compilations of a program by default and under `pad`."""
    of_pad, of_default = counted(pad, calls), counted(default, calls)
    again = counted(default, calls) + counted(pad, calls)
    text = f"default {of_default}, pad {of_pad}"
    rows = [Row(name, text, number=of_default, target=most_by_default(of_pad))]
    if of_pad > MOST_COMPILATIONS:
        rows.append(Row(name, "under pad", number=of_pad, target=MOST_COMPILATIONS))
    if again:
        rows.append(Row(name, "sizes that were there", number=again, target=0))
    return rows


def counted_rows() -> list[Row]:
    """Count the compilations of all programs, and check their results."""
    logs = np.random.default_rng(0).uniform(np.log(LEAST), np.log(MOST), COUNT)
    sizes = [int(n) for n in np.exp(logs)]
    rows: list[Row] = []
    for work in some(WORK):
        default, pad = compiled(work, "auto"), compiled(work, "pad")
        calls = [work.arguments(n) for n in sizes]
        rows += counts_of(work.name, default, pad, calls)
    for program in some(p for p in EVERYDAY if p.name in (named() or [p.name])):
        default, pad = program.compiled("auto"), program.compiled("pad")
        calls = [program.arguments(n) for n in sizes]
        rows += counts_of(program.name, default, pad, calls)
        for args in calls[:TIMED]:
            exact = program.exact(args)
            for function in (default, pad):
                same(function(*args), exact, rtol=1e-3)
    return rows


def main() -> None:
    """Print the tables."""
    title = f"compilations, {COUNT} sizes from {LEAST} to {MOST}"
    print_table(title, counted_rows(), "number")
    for work in some([w for w in WORK if w.name in named()] or WORK):
        title = f"{work.name}, {COUNT} sizes from {LEAST} to {MOST}"
        print_table(title, rows_of(work), "number")


if __name__ == "__main__":
    main()
