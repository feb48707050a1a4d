"""The gain of selective jit: models before and after a data-dependent mask.

    python -m benchmarks.selective_jit

The program is an MLP of 15 layers on 512 rows of 64 numbers, the rows that a mask over
its result keeps, an MLP of 15 layers on those rows, and a median; and the same on 64
rows of 512 numbers. (If it ended in a sum, a rule would make one segment with a mask.)
With `dims="specialize"`, the target is the time of a program that was partitioned by
hand, within 10%, and for a new number of rows only the second part may compile again.
The default, `"auto"`, may keep the rows at their bound once it has seen some numbers of
rows; other table rows show its times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import programs, pytensor_rival
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    comparison,
    print_table,
    row,
    same,
    seconds,
    setting,
    time_text,
    xla_compilations,
)
from graphc.runtime.function import Function

LAYERS = setting(15, 2)
Program = Callable[..., Any]


@dataclass(frozen=True)
class Data:
    """The size of the data."""

    rows: int
    width: int

    @property
    def kept(self) -> int:
        """Return how many rows the mask keeps in the timed calls."""
        return self.rows // 2

    @property
    def new(self) -> list[int]:
        """Return numbers of rows for calls that must compile."""
        return [self.kept + self.rows * i // 16 for i in range(1, setting(7, 3))]


def split(layers: Any) -> tuple[Any, Any, Any, Any]:
    """Split layers into weights and biases of the first MLP, then of the second."""
    n = LAYERS
    return layers[:n], layers[n : 2 * n], layers[2 * n : 3 * n], layers[3 * n :]


def symbolic(data: Data, dims: str) -> Function:
    """Compile the program in the plain way, with sizes treated as `dims` says."""
    x = gt.tensor("x", "float32", (data.rows, data.width))
    threshold = gt.scalar("threshold", "float32")
    layers = [
        gt.tensor(f"{name}{i}", "float32", (data.width,) * rank)
        for name, rank in (("w", 2), ("b", 1), ("v", 2), ("c", 1))
        for i in range(LAYERS)
    ]
    w, b, v, c = split(layers)
    h = programs.mlp(gt, x, w, b)
    kept = h[h[:, 0] > threshold]
    middle = gt.median(programs.mlp(gt, kept, v, c))
    return graphc.function([x, threshold, *layers], middle, dims=dims)


def first(x: Any, threshold: Any, w: Any, b: Any) -> Any:
    """Compute the part by hand up to the number of rows."""
    h = programs.mlp(jnp, x, w, b)
    mask = h[:, 0] > threshold
    return h, mask, jnp.count_nonzero(mask)


def second(h: Any, mask: Any, count: int, v: Any, c: Any) -> Any:
    """Compute the rest by hand, for a number of rows."""
    (rows,) = jnp.nonzero(mask, size=count)
    return jnp.median(programs.mlp(jnp, h[rows], v, c))


def by_hand() -> Program:
    """Join two jits, one of them with a static number of rows."""
    one, two = jax.jit(first), jax.jit(second, static_argnums=2)

    def call(x: Any, threshold: Any, *layers: Any) -> Any:
        w, b, v, c = split(layers)
        h, mask, count = one(x, threshold, w, b)
        return two(h, mask, int(count), v, c)

    return call


def without_jit(x: Any, threshold: Any, *layers: Any) -> Any:
    """Run the program in the plain way, op by op."""
    w, b, v, c = split(layers)
    h = programs.mlp(jnp, x, w, b)
    return jnp.median(programs.mlp(jnp, h[h[:, 0] > threshold], v, c))


@jax.jit
def masked(x: Any, threshold: Any, *layers: Any) -> Any:
    """Use one jit: all rows go through the second MLP, but only kept ones count."""
    w, b, v, c = split(layers)
    h = programs.mlp(jnp, x, w, b)
    keep = (h[:, 0] > threshold)[:, None]
    return jnp.nanmedian(jnp.where(keep, programs.mlp(jnp, h, v, c), jnp.nan))


def arguments(data: Data) -> Callable[[int], tuple[Any, ...]]:
    """Return a function from a number of rows to arguments with so many kept rows."""
    (w, b), (v, c) = (programs.layers(LAYERS, data.width, seed) for seed in (1, 2))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(data.rows, data.width)).astype("float32")
    largest = np.sort(np.asarray(programs.mlp(np, x, w, b)[:, 0]))[::-1]
    fixed = [jnp.asarray(a) for a in (x, *w, *b, *v, *c)]

    def for_rows(rows: int) -> tuple[Any, ...]:
        threshold = jnp.asarray((largest[rows - 1] + largest[rows]) / 2)
        return (fixed[0], threshold, *fixed[1:])

    return for_rows


def warm(f: Function, args: tuple[Any, ...]) -> list[Row]:
    """Compare calls that compile nothing with each rival."""
    rivals = {
        "partitioned by hand": (by_hand(), 1.1, 61),
        "un-jitted JAX": (without_jit, None, 11),
        "one jit, all rows masked": (masked, None, 61),
    }
    rows = []
    for name, (rival, target, rounds) in rivals.items():
        same(f(*args), rival(*args), 1e-3)
        with xla_compilations() as compiled:
            result = compare(lambda: f(*args), lambda r=rival: r(*args), rounds=rounds)
        assert not compiled, f"{len(compiled)} compilations in calls of the same shape"
        rows.append(row(f"warm call; rival: {name}", result, target))
    return rows


def new_counts(f: Function, args: Program, data: Data) -> Row:
    """Time calls with a new number of rows, in CPU seconds with XLA's included."""
    hand, pairs = by_hand(), []
    hand(*args(data.kept))
    for i, count in enumerate(data.new):
        both = [f, hand] if i % 2 else [hand, f]
        before, given = len(f.stats().compilations), args(count)
        with xla_compilations() as compiled:
            times = {g: seconds(lambda g=g, a=given: g(*a), clock=CPU) for g in both}
        segments = [c.segment for c in f.stats().compilations[before:]]
        assert segments == [1], f"segments {segments} were compiled, not the second"
        assert len(compiled) == 2
        pairs.append((times[f], times[hand]))
    what = "first call with a new number of rows (CPU time); rival: partitioned by hand"
    return row(what, comparison(pairs), 1.1, "one compilation each")


def adapted(args: Program, data: Data) -> list[Row]:
    """Time all new numbers of rows by the default policy, and warm calls afterwards."""
    jax.clear_caches()  # of the rival, which other rows have compiled
    f, hand = symbolic(data, "auto"), by_hand()
    given = [args(count) for count in (data.kept, *data.new)]
    spent = [seconds(lambda g=g: [g(*a) for a in given], clock=CPU) for g in (f, hand)]
    made = f"{len(f.stats().compilations)} compilations"
    note = "; ".join([made, *f.stats().changes])
    what = "auto, all numbers of rows (CPU time); rival: partitioned by hand"
    first = Row(what, *map(time_text, spent), spent[0] / spent[1], note=note)
    same(f(*given[0]), hand(*given[0]), 1e-3)
    warm = compare(lambda: f(*given[0]), lambda: hand(*given[0]), rounds=61)
    return [first, row("auto, warm call then; rival: partitioned by hand", warm)]


def unjitted_counts(args: Program, data: Data) -> Row:
    """Time JAX without jit, with a new number of rows."""
    without_jit(*args(data.kept))
    given = args(data.kept - 1)
    with xla_compilations() as compiled:
        time = seconds(lambda: without_jit(*given), clock=CPU)
    note = f"{len(compiled)} compilations"
    what = "first call with a new number of rows (CPU time); rival: un-jitted JAX"
    return Row(what, "", time_text(time), note=note)


def pytensor_rows(f: Function, args: tuple[Any, ...], data: Data) -> list[Row]:
    """Time PyTensor's C mode; its JAX mode cannot run this program."""
    if not pytensor_rival.available:
        return []
    x = pytensor_rival.tensor("x", (data.rows, data.width))
    threshold = pytensor_rival.tensor("threshold", ())
    layers = [pytensor_rival.tensor(f"p{i}", a.shape) for i, a in enumerate(args[2:])]
    w, b, v, c = split(layers)
    space = pytensor_rival.Space()
    h = programs.mlp(space, x, w, b)
    out = space.median(programs.mlp(space, h[h[:, 0] > threshold], v, c))
    rows = []
    for mode in ("CVM", "JAX"):
        g = pytensor_rival.compiled([x, threshold, *layers], out, mode)
        host = [np.asarray(a) for a in args]
        what = f"warm call; rival: PyTensor {mode}"
        try:
            same(f(*args), np.asarray(g(*host)), 1e-3)
        except Exception as error:  # any exception is its result
            rows.append(Row(what, "", "fails", note=type(error).__name__))
            continue
        result = compare(lambda: f(*args), lambda g=g: g(*host), rounds=11)
        rows.append(row(what, result))
    return rows


def main() -> None:
    """Print a table for each size of the data."""
    for data in setting([Data(512, 64), Data(64, 512)], [Data(32, 8)]):
        args, f = arguments(data), symbolic(data, "specialize")
        assert len(f.plan.segments) == 2
        kept = args(data.kept)
        rows = [*warm(f, kept), *pytensor_rows(f, kept, data)]
        rows += [new_counts(f, args, data), unjitted_counts(args, data)]
        rows += adapted(args, data)
        title = f"selective jit, {data.rows} rows of {data.width} (time per call)"
        print_table(title, rows)


if __name__ == "__main__":
    main()
