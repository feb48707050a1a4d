"""Functions of JAX under `graphc.jit`, against `jax.jit` of the same.

    python -m benchmarks.jax_in [same] [lengths]

First at one size, where both compile the same; then over many lengths, each of which
`jax.jit` compiles.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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
    xla_compilations,
)

COUNT = setting(200, 6)
LONGEST = setting(300, 9)
W = np.random.default_rng(0).normal(size=(16, 48)).astype("float32") / 8


def attention(x):
    """One head over rows, and the sum of what it gives."""
    q, k, v = jnp.split(x @ W, 3, axis=1)
    return jnp.sum(jax.nn.softmax(q @ k.T / 4) @ v, 0)


def likelihood(x):
    """Rows under a normal distribution that is fitted to them."""
    mean = x.mean(0)
    scale = jnp.sqrt(((x - mean) ** 2).mean(0) + 1e-3)
    return -jnp.mean(((x - mean) / scale) ** 2 / 2 - jnp.log(scale))


def recurrent(x):
    """A recurrent net over rows: the mean squared step of its state."""

    def step(h, r):
        new = jnp.tanh(h @ W[:, :16] + r)
        return new, new - h

    _, steps = lax.scan(step, jnp.zeros(16), x)
    return jnp.mean(steps**2)


MODELS = {"attention": attention, "likelihood": likelihood, "recurrent": recurrent}


def rows_of(n):
    """An array of n rows."""
    return np.random.default_rng(n).normal(size=(n, 16)).astype("float32")


def fresh(model):
    """The model as a function that neither side has compiled yet."""
    return lambda x: model(x)


def at_one_size(name, model):
    """Run time, overhead of a call, and the first result."""
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


def over_lengths(name, model):
    """One pass over many lengths."""
    sizes = np.random.default_rng(1).integers(2, LONGEST, COUNT)
    arrays = [rows_of(int(n)) for n in sizes]
    results, built, times = [], [], []
    for jit in (graphc.jit, jax.jit):
        function = jit(fresh(model))
        with xla_compilations() as compiled:
            run = lambda f=function: results.append([f(x) for x in arrays])  # noqa: E731
            times.append(seconds(run, 1, CPU))
        built.append(len(compiled))
    same(results[0], results[1], rtol=1e-4)
    note = f"{built[0]} compilations, {built[1]} of jax.jit"
    ours, theirs = map(time_text, times)
    return [Row(name, ours, theirs, times[0] / times[1], 0.05, note)]


def main():
    """Print the tables."""
    wanted = named() or ["same", "lengths"]
    if "same" in wanted:
        found = [r for item in some(MODELS.items()) for r in at_one_size(*item)]
        print_table("One size", found)
    if "lengths" in wanted:
        found = [r for item in some(MODELS.items()) for r in over_lengths(*item)]
        print_table(f"{COUNT} lengths, CPU seconds", found)


if __name__ == "__main__":
    main()
