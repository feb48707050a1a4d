"""An Equinox model reads lines of text, each as long as it is.

A gated recurrent unit of Equinox guesses the next character of each line of this
repository's README; Optax makes the steps. The program is what it would be with
`jax.jit`, which compiles it anew for every length. `graphc.jit` in its place compiles
for a few capacities, and sums the terms of the loss in the scan that stacks them.

The packages equinox and optax are needed. The first losses are compared with those of
`jax.jit`. Compilations and seconds of both are drawn into recurrent_lines.png. Run it:
python examples/recurrent_lines.py
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import graphc

TEXT = Path(__file__).parents[1] / "README.md"
KINDS, WIDTH, STEPS, COMPARED = 96, 32, 200, 15
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


class Reader(eqx.Module):
    """A recurrent model of characters."""

    embedding: jax.Array
    cell: eqx.nn.GRUCell
    out: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second, third = jax.random.split(key, 3)
        self.embedding = jax.random.normal(first, (KINDS, WIDTH)) / WIDTH**0.5
        self.cell = eqx.nn.GRUCell(WIDTH, WIDTH, key=second)
        self.out = eqx.nn.Linear(WIDTH, KINDS, key=third)

    def __call__(self, line: Any) -> Any:
        """Return minus the log probability of each character but the first."""

        def step(h: Any, pair: Any) -> tuple[Any, Any]:
            before, after = pair
            h = self.cell(self.embedding[before], h)
            scores = jax.nn.log_softmax(self.out(h))
            return h, -scores[after]

        return jax.lax.scan(step, jnp.zeros(WIDTH), (line[:-1], line[1:]))[1]


def lines() -> list[np.ndarray]:
    """Return each line as the numbers of its characters, in a random order."""
    rows = [line for line in TEXT.read_text(encoding="utf-8").splitlines() if line[2:]]
    order = np.random.default_rng(0).permutation(len(rows))
    codes = [np.array([ord(c) - 32 for c in rows[i]]) for i in order]
    return [np.where((c < 0) | (c > 94), 95, c).astype("int32") for c in codes]


def step(model: Reader, state: Any, line: Any) -> tuple[Reader, Any, Any]:
    """Return the model and the optimiser's state after a step, and the loss before."""
    cost = eqx.filter_value_and_grad(lambda model: jnp.mean(model(line)))
    value, slopes = cost(model)
    updates, state = OPTIMISER.update(slopes, state)
    return eqx.apply_updates(model, updates), state, value


def trained(
    compiled: Callable[..., Any], text: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Take a step on each line; return the losses, and the time after each step."""
    model = Reader(jax.random.key(0))
    state = OPTIMISER.init(eqx.filter(model, eqx.is_array))
    losses, seconds, began = [], [], time.perf_counter()
    for line in text:
        model, state, value = compiled(model, state, line)
        losses.append(float(value))
        seconds.append(time.perf_counter() - began)
    return np.array(losses), np.array(seconds)


def draw(path: Path, seconds: dict[str, np.ndarray]) -> None:
    """Draw when the steps were done."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, times in seconds.items():
        axes.plot(range(1, len(times) + 1), times, label=name)
    axes.set(xlabel="steps, each on another line", ylabel="seconds since the start")
    axes.legend()
    figure.savefig(path)


def main(steps: int = STEPS, compared: int = COMPARED, folder: Path = Path()) -> int:
    """Train, for some steps both ways; return 0 if everything agrees."""
    text = lines()[:steps]
    ours, theirs = graphc.jit(step), jax.jit(step)
    losses, seconds = trained(ours, text)
    wanted, others = trained(theirs, text[:compared])
    few, many = len(ours.stats().compilations), len({len(x) for x in text[:compared]})
    print(f"graphc.jit, {steps} lines of {len(set(map(len, text)))} lengths:", end=" ")
    print(f"{few} compilations, {seconds[-1]:.1f} s")
    print(f"jax.jit, {compared} lines: {many} compilations, {others[-1]:.1f} s")
    print(*ours.stats().changes, sep="\n")
    print(f"losses: first {losses[0]:.2f}, mean of the last ten", end=" ")
    print(f"{np.mean(losses[-10:]):.2f}")
    names = f"graphc.jit, {few} compilations", f"jax.jit, {many} compilations"
    times = dict(zip(names, (seconds, others), strict=True))
    draw(folder / "recurrent_lines.png", times)
    agree = np.allclose(losses[:compared], wanted, rtol=1e-3, atol=1e-3)
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
