"""Functions of JAX under `graphc.jit`, against `jax.jit` of the same.

    python -m benchmarks.jax_in [same] [lengths]

The first tables have one size, at which both sides compile the same function. The
others have many lengths. `jax.jit` compiles for each of these, except for functions
that are padded and masked by hand.
"""

import jax
import numpy as np

import graphc
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    comparison,
    named,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
    with_whole_products,
    xla_compilations,
)
from benchmarks.jax_in_models import MODELS, WIDTH

COUNT = setting(200, 2)
LONGEST = setting(300, 9)
LEAST = 16  # by hand, arrays are padded to 16 rows, or 32, 64, ...


def rows_of(n):
    """Return an array of n rows."""
    return np.random.default_rng(n).normal(size=(n, WIDTH)).astype("float32")


def fresh(model):
    """Return the model as a function that neither side has compiled yet."""
    return lambda x: model(x)


def at_one_size(name, model):
    """Measure the run time, the overhead of a call, and the first result."""
    ours, theirs = graphc.jit(fresh(model)), jax.jit(fresh(model))
    large, small = (jax.device_put(rows_of(n)) for n in (setting(2000, 8), 4))
    same(ours(large), theirs(large))
    run = compare(lambda: ours(large), lambda: theirs(large), calls=setting(5, 1))
    other, rival = graphc.jit(fresh(model)), jax.jit(fresh(model))
    call = compare(lambda: other(small), lambda: rival(small), calls=setting(500, 1))
    firsts = [
        tuple(
            seconds(lambda j=jit: j(fresh(model))(small), 1, CPU)
            for jit in (graphc.jit, jax.jit)
        )
        for _ in range(setting(7, 2))
    ]
    return [
        row(f"{name}: 2,000 rows", run, 1.05),
        row(f"{name}: 4 rows", call, 1.05, "the overhead of a call"),
        row(f"{name}: first result", comparison(firsts), 1.25, "CPU seconds"),
    ]


def by_hand(padded):
    """Make a function of rows that pads them to a power of two for a padded model."""
    compiled = jax.jit(padded)

    def run(x):
        n = len(x)
        capacity = max(LEAST, 1 << (n - 1).bit_length())
        filled = np.zeros((capacity, WIDTH), x.dtype)
        filled[:n] = x
        return compiled(filled, n)

    return run


def over_lengths(name, model, padded):
    """Measure one pass over many lengths, and one more when all is compiled."""
    sizes = np.random.default_rng(1).integers(2, LONGEST, COUNT)
    arrays = [rows_of(int(n)) for n in sizes]
    ways = [graphc.jit(fresh(model)), jax.jit(fresh(model)), by_hand(padded)]
    results, built, times = [], [], []
    for function in ways:
        with xla_compilations() as compiled:
            run = lambda f=function: results.append([f(x) for x in arrays])  # noqa: E731
            times.append(seconds(run, 1, CPU))
        built.append(len(compiled))
    for other in results[1:]:
        same(results[0], other, rtol=1e-3)
    note = f"{built[0]} compilations, {built[1]} of jax.jit"
    ours, theirs, hand = map(time_text, times)
    once, again = (lambda f=f: [f(x) for x in arrays] for f in ways[::2])
    calls = compare(once, again, rounds=7, clock=CPU)
    more = f"{built[0]} compilations, {built[2]} by hand"
    return [
        Row(f"{name}: jax.jit", ours, theirs, times[0] / times[1], 0.05, note),
        Row(f"{name}: by hand", ours, hand, times[0] / times[2], 1.15, more),
        row(f"{name}: by hand, compiled", calls),
    ]


def main():
    """Print the tables."""
    with_whole_products()
    wanted = named() or ["same", "lengths"]
    if "same" in wanted:
        pairs = some((name, model) for name, (model, _) in MODELS.items())
        found = [r for pair in pairs for r in at_one_size(*pair)]
        print_table("One size", found)
    if "lengths" in wanted:
        found = [r for name, pair in MODELS.items() for r in over_lengths(name, *pair)]
        print_table(f"{COUNT} lengths, CPU seconds", found)


if __name__ == "__main__":
    main()
