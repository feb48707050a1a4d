"""The steps of a loop that Python has run, as one step for all of them.

Integers that are evenly spaced become multiples of the step's number: places of
elements, sizes of arrays, and numbers of steps of the loops within.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cached_property
from itertools import chain, starmap, takewhile
from typing import cast

import numpy as np

from graphc.errors import SourceLocation
from graphc.importers.jax.unrolled.ragged import (
    are_evenly_spaced,
    largest_of,
    padded,
    part_before_zeros,
    part_of_row,
)
from graphc.importers.jax.unrolled.reading import Records, are_whole
from graphc.importers.jax.unrolled.records import (
    CarriedValue,
    ConstantInteger,
    FilledArray,
    IndexItem,
    IndexItems,
    Moving,
    PartRead,
    PartSource,
    Record,
    RecordedLoop,
    RecordedStep,
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
    return item.kind, item.start is None, item.stop is None, item.step


class AlikeSteps:
    """Blocks of records as the steps of a loop. Raises UnlikeError."""

    def __init__(self, records: Records, blocks: Sequence[Sequence[Record]]) -> None:
        self.count = len(blocks)
        self._records = records
        first = _values_in(blocks[0])
        self._counterparts = [
            dict(zip(_values_in(block), first, strict=True)) for block in blocks
        ]
        # Values in a step by what they are at first, and by the values passed on.
        self._inside: dict[tuple[StepOperand, int], int] = {}
        self._steps = tuple([self._step(row) for row in zip(*blocks, strict=True)])

    def _step(self, records: Sequence[Record]) -> Record:
        """The record of the loop for those of all steps."""
        slots = zip(*map(slots_of, records), strict=True)
        all_operands, all_items, all_numbers = (zip(*s, strict=True) for s in slots)
        columns = zip(all_operands, depths_of(records[0]), strict=True)
        operands = iter([self._common(column, depth) for column, depth in columns])
        items = iter(list(map(_common_item, all_items)))
        numbers = iter(list(map(_common_number, all_numbers)))
        return mapped(
            records[0],
            lambda _: next(operands),
            lambda _: next(items),
            lambda _: next(numbers),
        )

    @cached_property
    def _resized(self) -> set[int]:
        """The values in a step whose shapes differ between steps."""
        types = self._records.types
        return {
            value
            for numbers in self._counterparts[1:]
            for number, value in numbers.items()
            if types[number].shape != types[value].shape
        }

    def _common(self, column: OperandColumn, depth: int) -> StepOperand:
        """The operand of the loop for those of all steps, in so many loops within."""
        part = self._part_of_carry(column, [()] * self.count, depth)
        if part is not None:
            return part
        value = self._common_value(column, depth)
        if value is not None:
            return value
        if all(isinstance(operand, PartRead) for operand in column):
            return self._common_read(cast(Sequence[PartRead], column), depth)
        if all(isinstance(operand, ConstantInteger) for operand in column):
            return self._common_integer(cast(Sequence[ConstantInteger], column), depth)
        if all(isinstance(operand, FilledArray) for operand in column):
            return self._common_filled(cast(Sequence[FilledArray], column), depth)
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
            same = is_before and self._records.type_of(first).same(type)
            if not same or passed in self._resized:
                raise UnlikeError
            inside = self._inside[first, passed] = self._records.new_value(type)
        return inside

    def _part_of_carry(
        self, column: OperandColumn, all_items: Sequence[IndexItems], depth: int
    ) -> PartRead | None:
        """The part that steps read of a value of the step before, of another shape.

        Returns None for other operands.
        """
        second = column[1]
        if not isinstance(second, ValueRef):
            return None
        passed = self._counterparts[0].get(second.value)
        if passed is None or passed not in self._resized:
            return None
        self._require_from(column, 1, passed)
        first = _from_outside(column[0], depth)
        type = self._records.type_of(first)
        shapes = [type.shape, *self._shapes(passed)]
        key = first, passed
        if key not in self._inside:
            of_steps = chain.from_iterable(self._counterparts[:LEAST])
            is_before = set(numbers_in(first)).isdisjoint(of_steps)
            of_passed = self._records.types[passed]
            same = type.rank == of_passed.rank
            same = same and type.same(of_passed.like(type.shape))
            if not (is_before and same and are_evenly_spaced(shapes)):
                raise UnlikeError
            whole = self._records.new_value(type.like(largest_of(shapes)))
            self._inside[key] = whole
        all_bounded = list[IndexItems]()
        for items, shape in zip(all_items, shapes, strict=False):
            bounded = part_before_zeros(items, shape, depth)
            if bounded is None:
                raise UnlikeError
            all_bounded.append(bounded)
        columns = zip(*all_bounded, strict=True)
        return PartRead(ValueRef(self._inside[key]), tuple(map(_common_item, columns)))

    def _common_read(self, column: Sequence[PartRead], depth: int) -> PartRead:
        _require_equal([len(read.items) for read in column])
        all_items, sources = zip(*((r.items, r.source) for r in column), strict=True)
        part = self._part_of_carry(sources, all_items, depth)
        if part is not None:
            return part
        items = tuple(map(_common_item, zip(*all_items, strict=True)))
        source = self._common(sources, depth)
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

    def _common_filled(
        self, column: Sequence[FilledArray], depth: int
    ) -> FilledArray | PartRead | ConstantInteger:
        """An array of equal elements for those of all steps, or a row of constants."""
        elements = {operand.element for operand in column}
        if len(elements) > 1 or len({len(operand.shape) for operand in column}) > 1:
            return self._row_of_constants(column, depth)
        shapes = zip(*(operand.shape for operand in column), strict=True)
        return column[0]._replace(shape=tuple(map(_common_number, shapes)))

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
    ) -> tuple[list[RecordedStep], RecordedLoop]:
        """Make the loop, after steps that pad what it carries.

        `replacements` get those of values used from `end` on.
        """
        records, count = self._records, Moving(self.count)
        steps, stacked = list(self._steps), dict[int, int]()
        before, carries = list[RecordedStep](), list[CarriedValue]()
        afters: dict[int, StepOperand] = {}  # by the value passed on
        for (first, passed), inside in self._inside.items():
            after = records.new_value(records.types[inside])
            afters[passed] = ValueRef(after)
            last = passed
            if passed in self._resized:
                largest, shapes = records.types[inside].shape, self._shapes(passed)
                outside = [records.type_of(first).shape]
                place = self._place
                before.append(padded(first, outside, largest, records, place))
                steps.append(padded(ValueRef(passed), shapes, largest, records, place))
                (first_padded,), (last,) = before[-1].results, steps[-1].results
                first = ValueRef(first_padded)
                items = part_before_zeros((), shapes[-1], 0)
                assert items is not None
                afters[passed] = PartRead(ValueRef(after), items)
            carries.append(CarriedValue(first, inside, ValueRef(last), after))
        for value, uses in self._uses_after(last_uses, end).items():
            if value in afters and list(uses) == [self.count - 1]:
                replacements[uses[self.count - 1]] = afters[value]
            elif value in self._resized:
                shapes = self._shapes(value)
                largest = largest_of(shapes)
                pad = padded(ValueRef(value), shapes, largest, records, self._place)
                steps.append(pad)
                (whole,) = pad.results
                stack = stacked[whole] = records.new_stack(whole, count)
                for step, number in uses.items():
                    replacements[number] = part_of_row(stack, step, shapes[step])
            else:
                stacked[value] = records.new_stack(value, count)
                for step, number in uses.items():
                    replacements[number] = row(ValueRef(stacked[value]), Moving(step))
        return before, RecordedLoop(count, tuple(steps), tuple(carries), stacked)

    @property
    def _place(self) -> SourceLocation:
        return self._steps[-1].place

    def can_be_used_after(
        self, last_uses: Mapping[int, int], end: int, backwards: AbstractSet[int]
    ) -> bool:
        """Whether values used from `end` on have shapes that are evenly spaced.

        Those whose shapes differ may not be read `backwards`.
        """
        resized = self._resized & self._uses_after(last_uses, end).keys()
        return all(
            backwards.isdisjoint(self._numbers[value])
            and are_evenly_spaced(self._shapes(value))
            for value in resized
        )

    @cached_property
    def _numbers(self) -> dict[int, list[int]]:
        """By value in a step: its numbers in all steps."""
        all_numbers: dict[int, list[int]] = {}
        for numbers in self._counterparts:
            for number, value in numbers.items():
                all_numbers.setdefault(value, []).append(number)
        return all_numbers

    def _shapes(self, value: int) -> list[tuple[Size, ...]]:
        return [self._records.types[number].shape for number in self._numbers[value]]

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


def _values_in(block: Sequence[Record]) -> list[int]:
    """The values that a block defines, in a fixed order."""
    values = list[int]()
    for record in block:
        is_loop = isinstance(record, RecordedLoop)
        values += defined_in(record) if is_loop else record.results
    return values


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
    if isinstance(operand, FilledArray):
        return operand._replace(shape=tuple(map(outside, operand.shape)))
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
    lengths = {item.length for item in column}
    length = column[0].length if len(lengths) == 1 else None
    item = _with_common_bounds(column)
    if item.kind == "s" and item.moves:
        item = _with_common_bounds(list(map(_with_both_bounds, column)))
        whole = list(map(_is_whole, column))
        if not all(whole):
            raise UnlikeError(whole.index(False))
    return item._replace(length=length)


def _with_common_bounds(column: Sequence[IndexItem]) -> IndexItem:
    bounds = list[Moving | None]()
    for side in ("start", "stop"):
        numbers = [getattr(item, side) for item in column]
        bounds.append(None if numbers[0] is None else _common_number(numbers))
    return column[0]._replace(start=bounds[0], stop=bounds[1])


def _with_both_bounds(item: IndexItem) -> IndexItem:
    """A slice that goes forwards, with both of its bounds. Raises UnlikeError."""
    start, stop = item.start, item.stop
    if (item.step or 1) < 0:
        raise UnlikeError
    if start is None:
        assert stop is not None
        start = Moving(0, (0,) * len(stop.distances))
    if stop is None:
        if item.length is None or (item.step or 1) > 1:
            raise UnlikeError
        stop = start._replace(start=start.start + item.length)
    return item._replace(start=start, stop=stop)


def _is_whole(item: IndexItem) -> bool:
    """Whether a slice has all elements between its bounds."""
    start, stop = item.start, item.stop
    if item.length is None or start is None or stop is None:
        return True
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
