"""Fair timing on a busy machine, and one table per script.

Both sides run in one process and on the same input, in turns. The result is the median
of the ratios of neighbouring turns, since anything that slows the machine then slows
both sides. The scripts assert no times; they assert results and compile counts.

    python -m benchmarks.NAME --smallest

runs a script with few turns on the smallest data, as the tests do. Its numbers mean
nothing.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np

Run = Callable[[], Any]
Clock = Callable[[], float]
WALL, CPU = time.perf_counter, time.process_time
Setting = TypeVar("Setting")
COMPILED = "/jax/core/compile/backend_compile_duration"

_compiled: list[float] = []


def setting(usual: Setting, smallest: Setting) -> Setting:
    """Return `usual`, or `smallest` if the script was started with `--smallest`."""
    return smallest if "--smallest" in sys.argv else usual


def some(items: Iterable[Setting]) -> list[Setting]:
    """Return all `items`, or only the first of them with `--smallest`."""
    found = list(items)
    return found[: setting(len(found), 1)]


def named() -> list[str]:
    """Return the arguments that are not options: the names of tables to print."""
    return [a for a in sys.argv[1:] if not a.startswith("--")]


def _listen(event: str, seconds: float, **_: Any) -> None:
    if event == COMPILED:
        _compiled.append(seconds)


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextmanager
def xla_compilations() -> Iterator[list[float]]:
    """Collect the seconds of all XLA compilations made inside, from any caller."""
    start, found = len(_compiled), []
    yield found
    found += _compiled[start:]


@dataclass(frozen=True)
class Comparison:
    """Median seconds of both sides, and the median of the ratios of their turns.

    `spread` is the distance between the quartiles of the ratios: the noise. `least` has
    the fastest turns of both sides, which chance has slowed least.
    """

    ours: float
    theirs: float
    ratio: float
    spread: float
    least: tuple[float, float]


def seconds(run: Run, calls: int = 1, clock: Clock = WALL) -> float:
    """Return the seconds per call; wait at the end for arrays that JAX computes."""
    start = clock()
    for _ in range(calls):
        result = run()
    jax.block_until_ready(result)
    return (clock() - start) / calls


def compare(
    ours: Run, theirs: Run, *, rounds: int = 15, calls: int = 1, clock: Clock = WALL
) -> Comparison:
    """Time both sides in turns; the side that goes first changes every round."""
    rounds, calls, tidy = setting((rounds, calls, True), (2, 1, False))
    seconds(ours), seconds(theirs)  # do all work that happens only once
    pairs = []
    for i in range(rounds):
        if tidy and calls == 1:  # garbage of one turn is not timed with the next
            gc.collect()
        if i % 2:
            other = seconds(theirs, calls, clock)
            pairs.append((seconds(ours, calls, clock), other))
        else:
            own = seconds(ours, calls, clock)
            pairs.append((own, seconds(theirs, calls, clock)))
    return comparison(pairs)


def comparison(pairs: list[tuple[float, float]]) -> Comparison:
    """Summarise pairs of seconds, ours first."""
    ratios = [a / b for a, b in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    sides = list(zip(*pairs, strict=True))
    ours, theirs = map(statistics.median, sides)
    return Comparison(ours, theirs, middle, high - low, (min(sides[0]), min(sides[1])))


def same(a: Any, b: Any, rtol: float = 1e-5) -> None:
    """Assert that both sides gave the same dtypes, shapes, and numbers up to `rtol`."""
    flat_a, flat_b = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(flat_a) == len(flat_b)
    for x, y in zip(map(np.asarray, flat_a), map(np.asarray, flat_b), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype, x.shape)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


def with_whole_products() -> None:
    """Multiply float32 in all its digits, so that results of both sides compare.

    By default, GPUs keep 10 bits of the mantissa, and each program sums in its own
    order.
    """
    jax.config.update("jax_default_matmul_precision", "highest")


def emitted(f: Any) -> dict[str, Any]:
    """Execute the text of a compiled function once more; return its names."""
    names: dict[str, Any] = {"__name__": "emitted"}
    exec(f.source, names)
    return names


def peak_bytes(jitted: Any, *args: Any) -> int:
    """Return the bytes that XLA allocates for one call beside its arguments."""
    analysis = jitted.lower(*args).compile().memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


def exponent(sizes: Sequence[int], times: Iterable[float]) -> float:
    """Return the slope of log time over log size: 1 is linear. NaN for one size."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(list(times)), 1)[0])


@dataclass(frozen=True)
class Row:
    """One measurement; `target` is the largest `number` that is allowed."""

    what: str
    ours: str
    theirs: str = ""
    number: float | None = None
    target: float | None = None
    note: str = ""
    spread: float | None = None

    def cells(self) -> list[str]:
        number = "" if self.number is None else f"{self.number:.3g}"
        spread = "" if self.spread is None else f"{self.spread:.2g}"
        start = [self.what, self.ours, self.theirs, number, spread]
        return [*start, self._aim(), self.note]

    def _aim(self) -> str:
        if self.target is None or self.number is None:
            return ""
        met = self.number <= self.target
        return f"<= {self.target:g} {'met' if met else 'MISSED'}"


def row(
    what: str,
    result: Comparison,
    target: float | None = None,
    note: str = "",
) -> Row:
    """Make the row of a comparison."""
    times = [time_text(result.ours), time_text(result.theirs)]
    return Row(what, *times, result.ratio, target, note, result.spread)


def time_text(s: float) -> str:
    """Write seconds in a unit that reads well."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if s * scale >= 1:
            return f"{s * scale:.3g} {unit}"
    return f"{s * 1e6:.3g} us"


HEAD = ["what", "graphc", "rival", "number", "spread", "target", "note"]


def print_table(title: str, rows: Iterable[Row], number: str = "ratio") -> None:
    """Print rows under a title, in aligned columns."""
    head = [number if h == "number" else h for h in HEAD]
    lines = [head, *(r.cells() for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    print(f"\n{title}")
    for i, line in enumerate(lines):
        cells = (c.ljust(w) for c, w in zip(line, widths, strict=True))
        print("  " + "  ".join(cells).rstrip(), flush=True)
        if i == 0:
            print("  " + "  ".join("-" * w for w in widths))
