"""How heavy is a penguin? An Optax fit for every group of birds, compiled a few times.

The birds of one species, of one island or of one year are groups of different sizes.
For each group, body mass is fitted to the other measurements: in one call, a scan makes
all steps of Adam, with a falling rate. With `jax.jit`, the call is compiled for each
number of birds; with `graphc.jit`, it is compiled for a few capacities.

The data are in data/penguins.csv; see data/README.md for source and licence. The
package optax is needed. The first fits are compared with those of `jax.jit`. The
compilations and seconds of both are drawn into penguins_of_groups.png. Run it:
python examples/penguins_of_groups.py
"""

import csv
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import graphc

DATA = Path(__file__).parent / "data" / "penguins.csv"
MEASURED = "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"
GROUPED, LEAST, STEPS, COMPARED = ("species", "island", "year"), 8, 300, 8
OPTIMISER = optax.adam(optax.cosine_decay_schedule(0.1, STEPS))


def groups() -> dict[str, np.ndarray]:
    """Return the standardised measurements of groups of birds, by name."""
    with DATA.open(encoding="utf-8") as file:
        birds = [row for row in csv.DictReader(file) if row["body_mass_g"] != "NA"]
    whole = np.array([[float(bird[k]) for k in MEASURED] for bird in birds])
    whole = (whole - whole.mean(0)) / whole.std(0)
    found = {}
    kinds = [sorted({bird[k] for bird in birds}) for k in GROUPED]
    for wanted in product(*([*values, ""] for values in kinds)):
        own = [
            all(w in ("", bird[k]) for k, w in zip(GROUPED, wanted, strict=True))
            for bird in birds
        ]
        if sum(own) >= LEAST:
            name = ", ".join(filter(None, wanted)) or "all"
            found[name] = whole[own].astype("float32")
    return found


def fit(p: Any, birds: Any) -> tuple[Any, Any]:
    """Return the parameters after all steps, and the loss before each step."""

    def loss(p: Any) -> Any:
        guess = birds[:, :-1] @ p["slopes"] + p["offset"]
        return jnp.mean((guess - birds[:, -1]) ** 2)

    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        p, state = carry
        value, slopes = jax.value_and_grad(loss)(p)
        updates, state = OPTIMISER.update(slopes, state)
        return (optax.apply_updates(p, updates), state), value

    (p, _), losses = jax.lax.scan(step, (p, OPTIMISER.init(p)), length=STEPS)
    return p, losses


def fitted(
    compiled: Callable[..., Any], some: list[np.ndarray]
) -> tuple[list[Any], np.ndarray]:
    """Fit the groups one by one; return the fits, and the time when each was done."""
    start = {"slopes": jnp.zeros(3), "offset": jnp.float32(0)}
    found, seconds, began = [], [], time.perf_counter()
    for birds in some:
        p, losses = compiled(start, birds)
        found.append((np.asarray(p["slopes"]), np.asarray(losses)))
        seconds.append(time.perf_counter() - began)
    return found, np.array(seconds)


def draw(path: Path, seconds: dict[str, np.ndarray]) -> None:
    """Draw when the fits were done."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, times in seconds.items():
        axes.plot(range(1, len(times) + 1), times, label=name)
    axes.set(xlabel="fits, each of another group", ylabel="seconds since the start")
    axes.legend()
    figure.savefig(path)


def main(count: int = 100, compared: int = COMPARED, folder: Path = Path()) -> int:
    """Fit all groups, some of them both ways; return 0 if everything agrees."""
    chosen = dict(list(groups().items())[:count])
    some = list(chosen.values())
    ours, theirs = graphc.jit(fit), jax.jit(fit)
    found, seconds = fitted(ours, some)
    wanted, others = fitted(theirs, some[:compared])
    sizes = [len(birds) for birds in some]
    few, many = len(ours.stats().compilations), len(set(sizes[:compared]))
    print(f"graphc.jit, {len(some)} groups of {len(set(sizes))} sizes:", end=" ")
    print(f"{few} compilations, {seconds[-1]:.1f} s")
    print(f"jax.jit, {compared} groups: {many} compilations, {others[-1]:.1f} s")
    print(*ours.stats().changes, sep="\n")
    for name, (slopes, losses) in list(zip(chosen, found, strict=True))[-3:]:
        shown = ", ".join(f"{slope:.2f}" for slope in slopes)
        print(f"{name}: slopes {shown}; unexplained {losses[-1]:.2f}")
    names = f"graphc.jit, {few} compilations", f"jax.jit, {many} compilations"
    times = dict(zip(names, (seconds, others), strict=True))
    draw(folder / "penguins_of_groups.png", times)
    pairs = zip(found[:compared], wanted, strict=True)
    agree = all(np.allclose(a[i], b[i], atol=1e-3) for a, b in pairs for i in (0, 1))
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
