"""Calls whose lengths may be few or many: compiled at once, or when it pays.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.tiering

(More threads than free cores would spin, which counts as CPU time of NumPy.) One
process makes 3,000 calls on 100 distinct lengths in 17..1000; the k-th most frequent
length comes in proportion to 1/k (Zipf). The program is compiled at the first visit of
a length, or runs on NumPy alone, or has `tier="auto"`. The tables have the CPU seconds
of all calls, and of one pass in which each length comes once. Target: one pass in less
than 0.5 s for a 64-128-128-1 tanh MLP, with mean squared error, logsumexp and mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    Row,
    print_table,
    same,
    seconds,
    setting,
    some,
    time_text,
    xla_compilations,
)

CALLS, LENGTHS, WIDTHS = *setting((3000, 100), (6, 3)), (64, 128, 128, 1)
Array = Any


@dataclass(frozen=True)
class Work:
    """A program over arrays with `columns` and any number of rows."""

    name: str
    graph: Callable[[Any], list[Any]]
    columns: int


def mlp(x: Any) -> list[Any]:
    """Apply a network to the rows, with the numbers that a training loop reads."""
    rng = np.random.default_rng(1)
    hidden = x
    for i, (m, n) in enumerate(zip(WIDTHS[:-1], WIDTHS[1:], strict=True)):
        weights = (rng.normal(size=(m, n)) / m**0.5).astype("float32")
        hidden = (gt.tanh(hidden) if i else hidden) @ weights
    found = hidden[:, 0]
    return [gt.mean((found - x[:, 0]) ** 2), gt.nn.logsumexp(found), gt.mean(found)]


def attention(x: Any) -> list[Any]:
    """Weight rows by their similarity: costs grow with the square of the length."""
    return [gt.sum(gt.nn.softmax(x @ x.T, axis=-1) @ x, 0)]


def moments(x: Any) -> list[Any]:
    """Do so little work that NumPy is hardly slower than compiled code."""
    return [gt.mean(x, 0), gt.var(x, 0), gt.max(x, 0), gt.nn.logsumexp(x, axis=0)]


WORK = [
    Work("MLP", mlp, WIDTHS[0]),
    Work("attention", attention, 16),
    Work("moments", moments, 4),
]


def data(work: Work) -> tuple[list[Array], list[int]]:
    """Make the arrays, and say which of them each call is given."""
    rng = np.random.default_rng(0)
    lengths = rng.choice(np.arange(17, 1001), LENGTHS, replace=False)
    arrays = [rng.normal(size=(n, work.columns)).astype("float32") for n in lengths]
    share = 1 / np.arange(1, LENGTHS + 1)
    return arrays, rng.choice(LENGTHS, CALLS, p=share / share.sum()).tolist()


def over(f: Any, arrays: list[Array], order: list[int]) -> tuple[float, int]:
    """Return the CPU seconds and compilations of these calls, one after the other."""

    def run() -> Any:
        for i in order:
            result = f(arrays[i])
            [np.asarray(part) for part in result]
        return result

    with xla_compilations() as compiled:
        spent = seconds(run, 1, CPU)
    return spent, len(compiled)


def made(work: Work, tier: Any, dims: str = "specialize") -> Any:
    """Compile the function; it warns of many sizes, whose cost is measured here."""
    x = gt.tensor("x", "float32", ("n", work.columns))
    return graphc.function([x], work.graph(x), tier=tier, dims=dims)


def first_pass(work: Work) -> Row:
    """Measure a pass over each length once."""
    arrays, _ = data(work)
    once = list(range(LENGTHS))
    spent, built = over(made(work, "auto"), arrays, once)
    alone, _ = over(made(work, "numpy"), arrays, once)
    target = 0.5 if work.name == "MLP" else None
    note = f"{built} compilations; rival: NumPy alone"
    return Row(work.name, time_text(spent), time_text(alone), spent, target, note)


def rows(work: Work) -> list[Row]:
    """Measure all calls; each function starts anew."""
    arrays, order = data(work)
    functions = {t: made(work, t) for t in ("auto", "jax", "numpy")}
    spent = {t: over(f, arrays, order) for t, f in functions.items()}
    for i in (0, order[0]):
        same(functions["auto"](arrays[i]), functions["jax"](arrays[i]), 1e-3)
    padded = over(made(work, "auto", "pad"), arrays, order)
    rivals = [
        ("against compiled at once", spent["auto"], spent["jax"]),
        ("against never compiled", spent["auto"], spent["numpy"]),
        ("with dims='pad', against without", padded, spent["auto"]),
    ]
    return [
        Row(f"{work.name}: {name}", time_text(ours), time_text(other), ours / other,
            None, f"{built} compilations instead of {others}")
        for name, (ours, built), (other, others) in rivals
    ]


def main() -> None:
    """Print the tables."""
    title = f"{LENGTHS} lengths once each, CPU time"
    print_table(title, map(first_pass, some(WORK)), number="s")
    found = [row for work in some(WORK) for row in rows(work)]
    print_table(f"{CALLS} calls with Zipf-distributed lengths, CPU time", found)


if __name__ == "__main__":
    main()
