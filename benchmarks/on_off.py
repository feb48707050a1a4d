"""Rewrites on against off, over programs of all kinds: none may become slower.

    python -m benchmarks.on_off [families] [catalogue] [generated] [examples]

Each table has the losers: programs that take more than 1.02 times as long as they do as
written, or more than 1.05 times the memory. The note has the memory, XLA's count of
operations, and the rules that were applied. The last row is for all programs of the
kind. If sizes are read or are arguments, the time is that of compiled calls. Rules that
save compilations may cost such a call some microseconds; the note has the numbers of
compiled programs.

Results are compared, up to rounding of the largest elements.
"""

import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import graphc
from benchmarks import corpus
from benchmarks.corpus import Program
from benchmarks.harness import (
    CPU,
    Comparison,
    Row,
    compare,
    named,
    print_table,
    row,
    setting,
)
from benchmarks.rules import TIME, alike, calls_of, executables, loses_memory, text_of
from benchmarks.rules import work as work_of
from graphc.rewrites import Rules, default, none

SEEDS = range(setting(300, 1))
KINDS: dict[str, Callable[[], Iterable[Program]]] = {
    "families": corpus.families,
    "catalogue": corpus.catalogue,
    "generated": lambda: corpus.generated(SEEDS),
    "examples": setting(corpus.examples, lambda: iter(())),
}


class Measured(NamedTuple):
    """The row of a program that rewrites change, and whether the program is a loser."""

    row: Row
    ratio: float
    loses: bool


def measured(program: Program) -> Measured | None:
    """Compare a program with itself as written.

    Return None if XLA makes the same program of both, or if longer arguments no longer
    fit, since their values may be sizes of each other.
    """
    with jax.enable_x64(True):
        given = [_on_device(a) for a in program.arrays]
    new, old = (_function(program, rules) for rules in (default, none))
    if new.source == old.source:
        return None
    try:
        as_written = old(*given)
    except graphc.CallError:
        return None
    alike(jax.tree.leaves(new(*given)), jax.tree.leaves(as_written))
    both = executables(new, old, given)
    if both is not None and text_of(both[0]) == text_of(both[1]):
        return None
    result = _compared(lambda: new(*given), lambda: old(*given))
    loses = result.ratio - result.spread / 2 > TIME
    if both is None:
        counts = [len(f.plan.segments) for f in (new, old)]
        note = f"{counts[0]} programs, for {counts[1]}"
    else:
        note, loses = work_of(*both), loses or loses_memory(*both)
    rules = Counter(a.rule.name for a in new.rewrites)
    applied = ", ".join(f"{name} {n}" for name, n in rules.items())
    return Measured(
        row(program.name, result, TIME, f"{note}; {applied}"), result.ratio, loses
    )


def _on_device(x: Any) -> Any:
    return jnp.asarray(x) if isinstance(x, np.ndarray) else x


def _function(program: Program, rules: Rules) -> Any:
    return graphc.function(
        program.inputs, program.outputs, **program.options, rewrites=rules
    )


def _compared(ours: Callable[[], Any], theirs: Callable[[], Any]) -> Comparison:
    """Compare the time of calls, in more turns if one side seems to lose."""
    calls = setting(calls_of(theirs), 1)
    result = compare(ours, theirs, rounds=setting(7, 2), calls=calls, clock=CPU)
    if result.ratio <= TIME:
        return result
    return compare(ours, theirs, rounds=setting(41, 2), calls=calls, clock=CPU)


def losers(programs: Iterable[Program]) -> Iterator[Row]:
    """Yield the rows of programs that lose, and then one row for all programs."""
    ratios, count, lost = [], 0, 0
    for program in islice(programs, setting(None, 1)):
        count += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = measured(program)
        except AssertionError:
            yield Row(program.name, "", note="RESULTS DIFFER by more than rounding")
            continue
        if found is None:
            continue
        ratios.append(found.ratio)
        lost += found.loses
        if found.loses:
            yield found.row
    middle = statistics.median(ratios) if ratios else 1.0
    note = f"{len(ratios)} of {count} programs changed, {lost} losers; median ratio"
    yield Row("all", "", "", middle, None, note)


def main() -> None:
    """Print a table for each kind, or only for the named kinds."""
    for name in named() or KINDS:
        print_table(f"{name}: losers", list(losers(KINDS[name]())))


if __name__ == "__main__":
    main()
