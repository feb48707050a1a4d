"""The steps of a loop that Python has run, as one step for all of them."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap, takewhile
from typing import cast

import numpy as np

from graphc.importers.jax.unrolled.reading import Records, are_whole
from graphc.importers.jax.unrolled.records import (
    CarriedValue,
    ConstantInteger,
    IndexItem,
    Moving,
    PartRead,
    PartSource,
    Record,
    RecordedLoop,
    StepOperand,
    ValueRef,
    defined_in,
    mapped,
    numbers_in,
    slots_of,
)
from graphc.importers.jax.unrolled.rows import row
from graphc.ir.sizes.dims import Size
from graphc.ir.types import NDArray

LEAST = 4  # steps of a loop
OperandColumn = Sequence[StepOperand]  # of one operand: what it is in each step


class UnlikeError(Exception):
    """Raised for steps that are not alike.

    `alike` counts the first ones that may be; it is 0 if that is not known.
    """

    def __init__(self, alike: int = 0) -> None:
        super().__init__()
        self.alike = alike


def form_of(item: IndexItem) -> Hashable:
    """An item without its integers."""
    return item.kind, item.start is None, item.stop is None, item.step, item.length


class AlikeSteps:
    """Blocks of records as the steps of a loop. Raises UnlikeError."""

    def __init__(self, records: Records, blocks: Sequence[Sequence[Record]]) -> None:
        self.count = len(blocks)
        self._records = records
        self._counterparts = [dict(_pairs(block, blocks[0])) for block in blocks]
        # Values in a step by what they are at first, and by the values passed on.
        self._inside: dict[tuple[StepOperand, int], int] = {}
        self._steps = tuple([self._step(row) for row in zip(*blocks, strict=True)])

    def _step(self, records: Sequence[Record]) -> Record:
        """The record of the loop for those of all steps."""
        slots = list(map(slots_of, records))
        operands = zip(*(s[0] for s in slots), strict=True)
        items = zip(*(s[1] for s in slots), strict=True)
        columns = zip(operands, depths_of(records[0]), strict=True)
        common = iter([self._common(column, depth) for column, depth in columns])
        moving = iter(list(map(_common_item, items)))
        return mapped(records[0], lambda _: next(common), lambda _: next(moving))

    def _common(self, column: OperandColumn, depth: int) -> StepOperand:
        """The operand of the loop for those of all steps, in so many loops within."""
        value = self._common_value(column, depth)
        if value is not None:
            return value
        if all(isinstance(operand, PartRead) for operand in column):
            return self._common_read(cast(Sequence[PartRead], column), depth)
        if all(isinstance(operand, ConstantInteger) for operand in column):
            return self._common_integer(cast(Sequence[ConstantInteger], column), depth)
        if all(operand == column[0] for operand in column):
            return column[0]
        return self._row_of_constants(column, depth)

    def _common_value(self, column: OperandColumn, depth: int) -> ValueRef | None:
        """The value in a step for those of all steps; None if there is none."""
        second = column[1]
        if isinstance(second, ValueRef) and second.value in self._counterparts[1]:
            same = self._counterparts[1][second.value]
            self._require_from(column, 0, same)
            return ValueRef(same)
        for distance in range(1, LEAST):
            operand = column[distance]
            if isinstance(operand, ValueRef) and operand.value in self._counterparts[0]:
                passed = self._counterparts[0][operand.value]
                self._require_from(column, distance, passed)
                for first in reversed(column[:distance]):
                    passed = self._carried(_from_outside(first, depth), passed)
                return ValueRef(passed)
        return None

    def _require_from(self, column: OperandColumn, distance: int, value: int) -> None:
        """Require that operands are a value of so many steps before."""
        pairs = zip(column[distance:], self._counterparts, strict=False)
        for step, (operand, numbers) in enumerate(pairs, distance):
            if not isinstance(operand, ValueRef) or numbers.get(operand.value) != value:
                raise UnlikeError(step)

    def _carried(self, first: StepOperand, passed: int) -> int:
        """The value in a step that is `first` at first, then what was passed on."""
        inside = self._inside.get((first, passed))
        if inside is None:
            type = self._records.types[passed]
            of_steps = chain.from_iterable(self._counterparts[:LEAST])
            is_before = set(numbers_in(first)).isdisjoint(of_steps)
            if not is_before or not self._records.type_of(first).same(type):
                raise UnlikeError
            inside = self._inside[first, passed] = self._records.new_value(type)
        return inside

    def _common_read(self, column: Sequence[PartRead], depth: int) -> PartRead:
        _require_equal([len(read.items) for read in column])
        columns = zip(*(read.items for read in column), strict=True)
        items = tuple(map(_common_item, columns))
        source = self._common([read.source for read in column], depth)
        if isinstance(source, PartRead):  # a row of tables that differ
            return PartRead(source.source, source.items + items)
        if not isinstance(source, PartSource):
            raise UnlikeError
        return PartRead(source, items)

    def _common_integer(
        self, column: Sequence[ConstantInteger], depth: int
    ) -> StepOperand:
        if len({(operand.dtype, operand.weak) for operand in column}) == 1:
            with suppress(UnlikeError):
                number = _common_number([operand.number for operand in column])
                return column[0]._replace(number=number)
        return self._row_of_constants(column, depth)

    def _row_of_constants(
        self, column: OperandColumn, depth: int
    ) -> PartRead | ConstantInteger:
        """A row of a table of constants, or an integer if these are evenly spaced."""
        arrays = list(map(self._records.array_of, column))
        if any(array is None for array in arrays):
            pairs = zip(column, arrays, strict=True)
            raise UnlikeError(_equal_at_first(list(starmap(_sort_of, pairs))))
        types = [self._records.type_of(operand) for operand in column]
        _require_equal([(type.dtype, type.shape, type.weak) for type in types])
        table, within = np.stack(cast(list[NDArray], arrays)), (0,) * depth
        if table.ndim == 1 and are_whole(table):
            with suppress(UnlikeError):
                number = _common_number([Moving(int(n), within) for n in table])
                return ConstantInteger(number, table.dtype, types[0].weak)
        return row(self._records.table(table, types[0].weak), Moving(0, (*within, 1)))

    def loop(
        self,
        last_uses: Mapping[int, int],
        end: int,
        replacements: dict[int, StepOperand],
    ) -> RecordedLoop:
        """Make the loop; `replacements` get those of values used from `end` on."""
        records = self._records
        carries = [
            CarriedValue(
                first,
                inside,
                ValueRef(passed),
                records.new_value(records.types[passed]),
            )
            for (first, passed), inside in self._inside.items()
        ]
        ends = {carry.passed: carry.after for carry in carries}
        stacked: dict[int, int] = {}
        for value, uses in self._uses_after(last_uses, end).items():
            after = ends.get(ValueRef(value))
            if after is not None and list(uses) == [self.count - 1]:
                replacements[uses[self.count - 1]] = ValueRef(after)
                continue
            stacked[value] = records.new_stack(value, self.count)
            for step, number in uses.items():
                replacements[number] = row(ValueRef(stacked[value]), Moving(step))
        return RecordedLoop(self.count, self._steps, tuple(carries), stacked)

    def _uses_after(
        self, last_uses: Mapping[int, int], end: int
    ) -> dict[int, dict[int, int]]:
        """By value in a step that is used after all: its number in each such step."""
        uses: dict[int, dict[int, int]] = {}
        for step, numbers in enumerate(self._counterparts):
            for number, value in numbers.items():
                if last_uses.get(number, -1) >= end:
                    uses.setdefault(value, {})[step] = number
        return uses


def _pairs(
    block: Sequence[Record], first: Sequence[Record]
) -> Iterator[tuple[int, int]]:
    """Yield the values that a block defines, each with that of the first block."""
    values, counterparts = (
        chain.from_iterable(map(defined_in, records)) for records in (block, first)
    )
    return zip(values, counterparts, strict=True)


def depths_of(record: Record, depth: int = 0) -> Iterator[int]:
    """Yield, for each operand of a record, how many loops of the record it is in."""
    if not isinstance(record, RecordedLoop):
        yield from [depth] * len(record.operands)
        return
    yield from [depth] * len(record.carries)
    for step in record.steps:
        yield from depths_of(step, depth + 1)
    yield from [depth + 1] * len(record.carries)


def _from_outside(operand: StepOperand, depth: int) -> StepOperand:
    """An operand within so many loops, as it stands outside of them."""

    def outside(number: Moving) -> Moving:
        if Moving(0, number.distances[:depth]).moves:
            raise UnlikeError
        return Moving(number.start, number.distances[depth:])

    if isinstance(operand, ConstantInteger):
        return operand._replace(number=outside(operand.number))
    if isinstance(operand, PartRead):
        items = tuple([item.mapped(outside) for item in operand.items])
        return operand._replace(items=items)
    return operand


def within(item: IndexItem, depth: int) -> IndexItem:
    """An item that stands outside of loops, as one that moves in none of so many."""
    return item.mapped(lambda number: Moving(number.start, (0,) * depth))


def _require_equal(keys: Sequence[Hashable]) -> None:
    alike = _equal_at_first(keys)
    if alike < len(keys):
        raise UnlikeError(alike)


def _equal_at_first(keys: Sequence[Hashable]) -> int:
    """The number of keys before one that differs from the first."""
    return sum(1 for _ in takewhile(lambda key: key == keys[0], keys))


def _sort_of(operand: StepOperand, array: NDArray | None) -> Hashable:
    """A key that is equal for operands that may stand beside each other in a column."""
    if array is not None:
        return "constant"
    return operand if isinstance(operand, ValueRef) else "read"


def _common_item(column: Sequence[IndexItem]) -> IndexItem:
    """The item of the loop for those of all steps."""
    _require_equal(list(map(form_of, column)))
    bounds = list[Moving | None]()
    for side in ("start", "stop"):
        numbers = [getattr(item, side) for item in column]
        bounds.append(None if numbers[0] is None else _common_number(numbers))
    distances = {0 if n is None else n.distances[-1] for n in bounds}
    common = column[0]._replace(start=bounds[0], stop=bounds[1])
    if common.kind == "s" and (len(distances) > 1 or not _may_move(common)):
        raise UnlikeError  # the slices differ in length
    return common


def _may_move(item: IndexItem) -> bool:
    """Whether a slice does not move, or has all elements between its bounds."""
    if not item.moves or item.length is None:
        return True
    start, stop = item.start, item.stop
    if start is None or stop is None or (item.step or 1) < 0:
        return False
    between: Size = stop.start - start.start
    assert isinstance(between, int)
    return item.length == len(range(0, between, item.step or 1))


def _common_number(column: Sequence[Moving]) -> Moving:
    """The integer of the loop for those of all steps."""
    first, distance = column[0], column[1].start - column[0].start
    for step, number in enumerate(column):
        if number != first._replace(start=first.start + step * distance):
            raise UnlikeError(step)
    return Moving(first.start, (*first.distances, distance))
