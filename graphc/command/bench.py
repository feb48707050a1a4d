"""`graphc bench`: a function compared with `jax.jit`, over the sizes of real calls."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import jax
import numpy as np

from graphc.command.errors import CommandError
from graphc.command.subject import CommandSubject, SizesOfCall
from graphc.command.target import user_code
from graphc.ir.types import NDArray
from graphc.runtime.driver import xla

TURNS = 30  # timed calls of both sides, for each of the sizes
MOST_TIMED = 5  # sizes whose calls are timed, once all are compiled
RTOL = 1e-4


@dataclass(frozen=True)
class FirstCalls:
    """One side of a comparison: the seconds and XLA compilations of all first calls."""

    seconds: float
    compilations: int


@dataclass(frozen=True)
class Duel:
    """graphc against `jax.jit` over calls of many sizes.

    `agree` tells whether all results are equal up to rounding. `ratio` is the median,
    over pairs of a call of graphc and one of `jax.jit`, of the ratio of their times.
    """

    calls: int
    graphc: FirstCalls
    jax: FirstCalls
    agree: bool
    ratio: float
    call_us: tuple[float, float]

    def __str__(self) -> str:
        lines = [f"{'':10}{'first calls':>14}{'compilations':>14}{'later call':>14}"]
        sides = (("graphc", self.graphc, 0), ("jax.jit", self.jax, 1))
        for name, side, i in sides:
            first, later = f"{side.seconds:.2f} s", f"{self.call_us[i]:.1f} us"
            lines.append(f"{name:10}{first:>14}{side.compilations:>14}{later:>14}")
        equal = "results agree" if self.agree else "RESULTS DIFFER"
        lines.append(
            f"{self.calls} calls; {equal}; later calls {self.ratio:.2f} of jax.jit"
        )
        return "\n".join(lines)


def bench(subject: CommandSubject, calls: Sequence[SizesOfCall]) -> Duel:
    """Compare a function with `jax.jit` of it, in one process on the same arguments.

    Raises CommandError where `jax.jit` cannot compile it: functions of NumPy, programs
    for NumPy, and those with a size that depends on data.
    """
    if subject.plain is None:
        raise CommandError(f"{subject.name} is not a function that jax.jit can compile")
    rival = jax.jit(subject.plain, static_argnums=subject.static_argnums)
    arguments = [subject.arguments(sizes) for sizes in calls]
    xla.listen(jax)
    _wait_for(jax.jit(lambda x: x + 1)(0))  # so that starting JAX is not timed
    with user_code(f"{subject.name} failed"):
        ours, own_results = _first_calls(subject.compiled, arguments)
    with user_code(f"jax.jit of {subject.name} failed"), _jax_widths(subject):
        theirs, results = _first_calls(rival, arguments)
    agree = all(map(_are_equal, own_results, results))
    some = arguments[:: max(1, len(arguments) // MOST_TIMED)][:MOST_TIMED]
    with _jax_widths(subject):
        turns = list(_time_in_turns(subject.compiled, rival, some))
    ratio = statistics.median(a / b for a, b in turns)
    medians = [1e6 * statistics.median(side) for side in zip(*turns, strict=True)]
    call_us = medians[0], medians[1]
    return Duel(len(arguments), ours, theirs, agree, ratio, call_us)


def _jax_widths(subject: CommandSubject) -> AbstractContextManager[object]:
    """Within the context, give JAX the widths that the compiled program itself uses."""
    return jax.enable_x64(True) if subject.wide else nullcontext()


def _wait_for(results: object) -> object:
    """Wait for the results to be computed, and return them."""
    return jax.block_until_ready(results)  # type: ignore[no-untyped-call]


def _first_calls(
    function: Callable[..., object], arguments: Sequence[Sequence[object]]
) -> tuple[FirstCalls, list[object]]:
    before, start = xla.EVENTS.count, time.perf_counter()
    results = [_wait_for(function(*args)) for args in arguments]
    seconds = time.perf_counter() - start
    return FirstCalls(seconds, xla.EVENTS.count - before), results


def _time_in_turns(
    ours: Callable[..., object],
    theirs: Callable[..., object],
    some: Sequence[Sequence[object]],
) -> Iterator[tuple[float, float]]:
    for _ in range(TURNS):
        for args in some:
            yield _seconds(ours, args), _seconds(theirs, args)


def _seconds(function: Callable[..., object], args: Sequence[object]) -> float:
    start = time.perf_counter()
    _wait_for(function(*args))
    return time.perf_counter() - start


def _are_equal(a: object, b: object) -> bool:
    """Whether two results are equal, up to the rounding of sums in another order."""
    ours, theirs = jax.tree.leaves(a), jax.tree.leaves(b)
    return len(ours) == len(theirs) and all(map(_are_close, ours, theirs))


def _are_close(a: object, b: object) -> bool:
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape:
        return False
    if x.dtype.kind in "biu":
        return bool(np.array_equal(x, y))
    x, y = (z.astype(complex if z.dtype.kind == "c" else float) for z in (x, y))
    return np.allclose(x, y, RTOL, RTOL * _scale(y), equal_nan=True)


def _scale(x: NDArray) -> float:
    """The largest finite magnitude, to which rounding errors are relative."""
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0.0))
