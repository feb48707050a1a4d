"""Fold records that repeat into loops: the shortest first, so that loops may be nested.

Python runs the body of a loop in each step, and each time it is traced again. So a run
of records is periodic where it comes from a loop: each record does the same as the one
a period before. It is made a loop if the operands repeat too. They are the same in all
steps; or from the same step, or a step before; or parts of one array, or constants.

The first steps may differ, as one does that computes what all others take from it. They
stay outside of the loop.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from graphc.importers.jax.unrolled.alike_steps import (
    LEAST,
    AlikeSteps,
    UnlikeError,
    depths_of,
    form_of,
    within,
)
from graphc.importers.jax.unrolled.ragged import part_of
from graphc.importers.jax.unrolled.reading import Records
from graphc.importers.jax.unrolled.records import (
    JoinedArrays,
    PartRead,
    Record,
    RecordedLoop,
    StepOperand,
    ValueRef,
    defined_in,
    mapped,
    numbers_in,
    numbers_used_by,
    slots_of,
)
from graphc.importers.jax.unrolled.rows import joined, with_writes_after
from graphc.ir.types import NDArray

LONGEST = 1000  # records of a step
MOST_PERIODS = 12  # of a run in one step, as of loops that do `i % 12`
MOST_STARTS = 64  # steps of a run, or records of a step, at which a loop may start


def fold(records: Records) -> None:
    """Replace records by loops wherever they repeat."""
    while _fold_shortest(records):
        pass


def _fold_shortest(records: Records) -> bool:
    """Make loops of steps of the fewest records; tell whether there are any."""
    numbers: dict[Hashable, int] = {}
    kinds = [
        numbers.setdefault(_kind(record, records), len(numbers))
        for record in records.records
    ]
    array = np.array(kinds, int)
    shortest: dict[tuple[int, int], int] = {}  # periods of runs
    for period in range(1, min(len(kinds) // LEAST, LONGEST) + 1):
        runs = [
            run
            for run in _periodic_runs(array, period)
            if period <= MOST_PERIODS * shortest.setdefault(run, period)
        ]
        if runs and _Folding(records, array, period).run(runs):
            return True
    return False


def _periodic_runs(kinds: NDArray, period: int) -> list[tuple[int, int]]:
    """The bounds of runs in which each kind equals the one a period before."""
    alike = np.concatenate([[False], kinds[:-period] == kinds[period:], [False]])
    (changes,) = np.nonzero(alike[1:] != alike[:-1])
    bounds = changes.reshape(-1, 2).tolist()
    least = (LEAST - 1) * period
    return [(start, end + period) for start, end in bounds if end - start >= least]


def _kind(record: Record, records: Records) -> Hashable:
    """A key that is equal for records that do the same, to arrays of any sizes."""
    if isinstance(record, RecordedLoop):
        numbers = {number: i for i, number in enumerate(defined_in(record))}
        stacked = tuple([numbers[value] for value in record.stacked])
        steps = tuple([_kind(step, records) for step in record.steps])
        return steps, len(record.carries), stacked
    types = tuple([(t.dtype, t.rank, t.weak) for t in record.types])
    if isinstance(record, JoinedArrays):
        return record.axis, record.stacked, record.runs, types
    forms = None if record.items is None else tuple(map(form_of, record.items))
    fixed = tuple(records.fixed_integers(record))
    return record.primitive, record.form, fixed, types, forms


class _Folding:
    """One pass over the records, for loops whose steps have `period` records."""

    def __init__(self, records: Records, kinds: NDArray, period: int) -> None:
        self._all, self._kinds, self._period = records, kinds, period
        self._folded = list[Record]()
        self._replacements: dict[int, StepOperand] = {}

    def run(self, runs: Sequence[tuple[int, int]]) -> bool:
        """Make loops in these runs of the records; tell whether there are any."""
        records, end = self._all.records, 0
        for start, end_of_run in runs:
            if end and self._may_be_shorter(start, end_of_run):
                continue
            start = max(start, end)
            while (steps_at := self._first_loop(start, end_of_run)) is not None:
                first, steps = steps_at
                self._keep(records[end:first])
                start = end = first + steps.count * self._period
                before, loop = steps.loop(self._last_uses, end, self._replacements)
                self._folded += [*before, *with_writes_after(loop, self._all)]
        if not end:
            return False
        self._keep(records[end:])
        self._all.outputs = list(map(self._replaced, self._all.outputs))
        self._all.records = self._folded
        return True

    def _may_be_shorter(self, start: int, end: int) -> bool:
        """Whether the steps of a run may have fewer records, after the loops so far."""
        kinds, period = self._kinds[start:end], self._period
        return any(
            period % shorter == 0 and np.array_equal(kinds[shorter:], kinds[:-shorter])
            for shorter in range(1, period)
        )

    def _first_loop(self, start: int, end: int) -> "tuple[int, AlikeSteps] | None":
        """The position of the first loop in a run, and its steps.

        Steps end as the run does, rather than begin so: the first ones may differ.
        """
        period = self._period
        aligned = range((end - start) % period, end - start, period)[:MOST_STARTS]
        for first in dict.fromkeys((*aligned, *range(min(period, MOST_STARTS)))):
            most = (end - start - first) // period
            steps = self._longest(start + first, most) if most >= LEAST else None
            if steps is None:
                continue
            after = start + first + steps.count * period
            if steps.can_be_used_after(self._last_uses, after, self._read_backwards):
                return start + first, steps
        return None

    def _longest(self, first: int, most: int) -> "AlikeSteps | None":
        """The longest loop from a position on, of at least `LEAST` steps.

        A loop within a loop ends before the run does.
        """
        longest, blocks, count = None, list[Sequence[Record]](), LEAST
        while longest is None or longest.count < most:
            blocks += self._blocks(first, len(blocks), count)
            try:
                longest = AlikeSteps(self._all, blocks[:count])
                count = min(2 * count, most)
            except UnlikeError as error:
                if longest is None:
                    return None
                most = min(count - 1, error.alike or count)
                count = most if error.alike else (longest.count + count) // 2
        return longest

    def _blocks(self, first: int, start: int, stop: int) -> Iterator[Sequence[Record]]:
        """Yield the records of steps, of which number 0 is at position `first`."""
        for step in range(start, stop):
            at = first + step * self._period
            records = self._all.records[at : at + self._period]
            yield list(map(self._current, records))

    def _keep(self, records: Sequence[Record]) -> None:
        self._folded += [joined(self._current(record)) for record in records]

    def _current(self, record: Record) -> Record:
        """A record, with what loops made so far give in place of its operands."""
        if not self._replacements:
            return record
        depths = depths_of(record)
        return mapped(record, lambda operand: self._replaced(operand, next(depths)))

    def _replaced(self, operand: StepOperand, depth: int = 0) -> StepOperand:
        """The operand, or what loops give in its place, within so many loops."""
        source = operand.source if isinstance(operand, PartRead) else operand
        if not isinstance(source, ValueRef):
            return operand
        new = self._replacements.get(source.value, source)
        if isinstance(new, PartRead):
            new = PartRead(new.source, tuple([within(i, depth) for i in new.items]))
        if not isinstance(operand, PartRead):
            return new
        if isinstance(new, PartRead):
            return part_of(new, operand.items, depth)
        assert isinstance(new, ValueRef)
        return PartRead(new, operand.items)

    @cached_property
    def _read_backwards(self) -> set[int]:
        """The values of which parts are read backwards."""
        operands = (slots_of(record).operands for record in self._all.records)
        reads = chain(chain.from_iterable(operands), self._all.outputs)
        parts = (read for read in reads if isinstance(read, PartRead))
        backwards = (p for p in parts if any((i.step or 1) < 0 for i in p.items))
        return set(chain.from_iterable(map(numbers_in, backwards)))

    @cached_property
    def _last_uses(self) -> dict[int, int]:
        """By value: the position of the last record that uses it."""
        last: dict[int, int] = {}
        for position, record in enumerate(self._all.records):
            last |= dict.fromkeys(numbers_used_by(record), position)
        numbers = chain.from_iterable(map(numbers_in, self._all.outputs))
        return last | dict.fromkeys(numbers, len(self._all.records))
