"""Parts that are alike and stand side by side, against JAX as written.

    python -m benchmarks.parallel_blocks

The first table has steps of an optimizer for many blocks. The blocks become loops, and
the updates stand side by side after these. Such a step is compared with a scan by hand,
whose parameters and state were stacked before. The second table has terms of a
likelihood, attention heads and members of an ensemble that are written one by one,
value and gradient, against `jax.jit` of the same. First results are CPU seconds from
nothing to the first result, everything included.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import blocks
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    print_table,
    row,
    same,
    seconds,
    setting,
    time_text,
)

KIND = blocks.KINDS["transformer"]
BLOCKS = setting((24, 100), (2,))
# How many terms, and data of each; how many heads or members, rows, width.
TERMS = setting(((20, 5), (200, 5), (200, 1000), (20, 10_000)), ((6, 5),))
HEADS = setting(((4, 64, 16), (8, 256, 32), (16, 1024, 32)), ((3, 8, 4),))
MEMBERS = setting(((8, 64, 32), (32, 256, 32)), ((3, 8, 4),))
Update = Callable[..., list[Any]]


def descent(xp: Any, p: Any, g: Any) -> list[Any]:
    """Update a parameter by a step of gradient descent."""
    return [p - np.float32(0.01) * g]


def adam(xp: Any, p: Any, g: Any, m: Any, v: Any) -> list[Any]:
    """Update a parameter and its state by a step of Adam, without its corrections."""
    m = np.float32(0.9) * m + np.float32(0.1) * g
    v = np.float32(0.99) * v + np.float32(0.01) * g * g
    return [p - np.float32(0.01) * m / (xp.sqrt(v) + np.float32(1e-8)), m, v]


def drawn(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Draw small normal numbers."""
    return jnp.asarray(rng.normal(size=shape).astype("float32") / 16)


def our_step(x: Any, all: Sequence[Any], update: Update, states: int) -> Any:
    """Compile the value and the updates of all parameters by graphc, one by one."""
    data = gt.tensor("x", "float32", x.shape)
    own = [
        {n: gt.tensor(f"{n}{i}", "float32", v.shape) for n, v in p.items()}
        for i, p in enumerate(all)
    ]
    cost, flat = KIND.loss(gt, data, own), jax.tree.leaves(own)
    state = [
        [gt.tensor(f"s{j}_{i}", "float32", p.type.shape) for i, p in enumerate(flat)]
        for j in range(states)
    ]
    steps = zip(flat, graphc.grad(cost, flat), *state, strict=True)
    updated = [v for given in steps for v in update(gt, *given)]
    return graphc.function([data, *flat, *sum(state, [])], [cost, *updated])


def step_by_hand(update: Update) -> Any:
    """Write the step in JAX as a scan over stacked parameters and state."""

    def cost(stacked: Any, x: Any) -> Any:
        body = KIND.block
        end, _ = jax.lax.scan(lambda y, p: (body(jnp, y, p), None), x, stacked)
        return jnp.mean(end * end)

    def step(x: Any, stacked: Any, *state: Any) -> Any:
        value, slopes = jax.value_and_grad(cost)(stacked, x)
        given = map(jax.tree.leaves, (stacked, slopes, *state))
        return value, [update(jnp, *one) for one in zip(*given, strict=True)]

    return jax.jit(step)


def training(count: int, update: Update, states: int) -> list[Row]:
    """Measure first results and calls of a step for `count` blocks."""
    rng = np.random.default_rng(0)
    x = drawn(KIND.x, rng)
    shapes = KIND.shapes.items()
    all = [{name: drawn(s, rng) for name, s in shapes} for _ in range(count)]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *all)
    flat = jax.tree.leaves(all)
    ours = x, *flat, *(jnp.zeros_like(v) for v in flat * states)
    zeros = [jax.tree.map(jnp.zeros_like, stacked) for _ in range(states)]
    theirs = x, stacked, *zeros
    what = f"{count} blocks, {update.__name__}"
    both = [
        (lambda: our_step(x, all, update, states), ours),
        (lambda: step_by_hand(update), theirs),
    ]
    return compared(f"{what}, scan by hand", both, lambda a, b: same(a[0], b[0], 1e-3))


def compared(
    what: str,
    sides: Sequence[tuple[Callable[[], Any], tuple[Any, ...]]],
    check: Callable[[Any, Any], None],
) -> list[Row]:
    """Compare first results and calls; a side is a function's maker and arguments."""
    made: list[Any] = []

    def first(make: Callable[[], Any], args: tuple[Any, ...]) -> float:
        def run() -> Any:
            made.append(make())
            return made[-1](*args)

        return seconds(run, clock=CPU)

    jax.block_until_ready([args for _, args in sides])
    ours, theirs = (first(*side) for side in sides)
    f, g = made
    (_, own), (_, other) = sides
    check(f(*own), g(*other))
    times = time_text(ours), time_text(theirs)
    found = compare(lambda: f(*own), lambda: g(*other), calls=5)
    return [Row(f"{what}: first", *times, ours / theirs), row(f"{what}: call", found)]


def both_ways(
    what: str, program: Callable[..., Any], *given: Any, parameters: int
) -> list[Row]:
    """Measure value and gradient of a program by graphc and by `jax.jit`.

    The last `parameters` of its arguments are its parameters.
    """
    split = len(given) - parameters

    def ours() -> Any:
        values = [gt.tensor(f"v{i}", v.dtype, v.shape) for i, v in enumerate(given)]
        value = program(gt, *values)
        return graphc.function(values, [value, *graphc.grad(value, values[split:])])

    def theirs() -> Any:
        slopes = jax.value_and_grad(
            lambda own, rest: program(jnp, *rest, *own), argnums=0
        )
        return jax.jit(lambda *args: slopes(args[split:], args[:split]))

    sides = [(ours, given), (theirs, given)]
    return compared(what, sides, lambda a, b: same(a, jax.tree.leaves(b), 1e-3))


def terms(xp: Any, *given: Any) -> Any:
    """Compute the logarithm of a likelihood: normal terms, each with its own data."""
    count = len(given) // 3
    data, means, scales = given[:count], given[count : 2 * count], given[2 * count :]
    parts = [
        xp.sum(np.float32(-0.5) * ((d - m) / xp.exp(s)) ** 2 - s)
        for d, m, s in zip(data, means, scales, strict=True)
    ]
    return reduce(lambda a, b: a + b, parts)


def heads(xp: Any, x: Any, *ws: Any) -> Any:
    """Square the outputs of attention heads, each written separately."""
    found = []
    for q, k, v in zip(ws[::3], ws[1::3], ws[2::3], strict=True):
        scores = (x @ q) @ (x @ k).T
        scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        found.append(scores / xp.sum(scores, axis=-1, keepdims=True) @ (x @ v))
    return xp.sum(xp.concatenate(found, axis=1) ** 2)


def members(xp: Any, x: Any, *ws: Any) -> Any:
    """Add up the squared errors of perceptrons on the same data."""
    parts = [
        xp.mean((xp.tanh(x @ up + bias) @ down - 1) ** 2)
        for up, bias, down in zip(ws[::3], ws[1::3], ws[2::3], strict=True)
    ]
    return reduce(lambda a, b: a + b, parts)


def side_by_side() -> list[Row]:
    """Measure terms, heads and members, value and gradient."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for count, size in TERMS:
        data = [drawn((size,), rng) for _ in range(count)]
        own = [drawn((), rng) for _ in range(2 * count)]
        what = f"{count} terms of {size}"
        rows += both_ways(what, terms, *data, *own, parameters=2 * count)
    for count, length, width in HEADS:
        x = drawn((length, 4 * width), rng)
        ws = [drawn((4 * width, width), rng) for _ in range(3 * count)]
        what = f"{count} heads, {length} rows"
        rows += both_ways(what, heads, x, *ws, parameters=3 * count)
    for count, length, width in MEMBERS:
        shapes = (width, 4 * width), (4 * width,), (4 * width, 1)
        ws = [drawn(shape, rng) for _ in range(count) for shape in shapes]
        x = drawn((length, width), rng)
        what = f"{count} perceptrons, {length} rows"
        rows += both_ways(what, members, x, *ws, parameters=3 * count)
    return rows


def main() -> None:
    """Print both tables."""
    kinds = (descent, 0), (adam, 2)
    steps = [r for n in BLOCKS for kind in kinds for r in training(n, *kind)]
    print_table("Steps of an optimizer", steps)
    print_table("Parts side by side", side_by_side())


if __name__ == "__main__":
    main()
