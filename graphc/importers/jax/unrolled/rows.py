"""Rows of arrays that steps write, read or join, as slices of these arrays.

A loop that writes one row of an array in each step, and reads nothing of the array, is
made to give the rows; they are written at once after it. Rows of one array that are
joined after a loop are a slice of it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from graphc.importers.jax.unrolled.params import joined_params
from graphc.importers.jax.unrolled.reading import Records
from graphc.importers.jax.unrolled.records import (
    CarriedValue,
    IndexItem,
    IndexItems,
    JoinedArrays,
    Moving,
    PartRead,
    PartSource,
    Record,
    RecordedLoop,
    RecordedStep,
    StepOperand,
    ValueRef,
    defined_in,
    is_zero,
    numbers_in,
    numbers_used_by,
)
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.ops.indexing.scatter import SLICE_UPDATE

LEAST = 4  # rows of an array that are joined as one


def row(source: PartSource, number: Moving) -> PartRead:
    """The row of an array at a place on its first axis."""
    return PartRead(source, (IndexItem("i", number, None, None),))


class SliceOfRows(NamedTuple):
    """The items of rows at equal distances, and whether they go `forwards` in it."""

    items: IndexItems
    forwards: bool


def slice_of_rows(items: IndexItems, count: Moving) -> SliceOfRows | None:
    """The slice of the rows that `count` steps of a loop read or write, if it is one.

    The rows must lie along the first of the axes that are left, and the distance of two
    must be a number other than 0.
    """
    moving = [i for i, item in enumerate(items) if not is_zero(_distance(item))]
    if len(moving) != 1 or any(item.kind != "i" for item in items[: moving[0] + 1]):
        return None
    (at,) = moving
    distance = _distance(items[at])
    if not isinstance(distance, int):
        return None
    outside = [
        item.mapped(lambda n: Moving(n.start, n.distances[1:])) for item in items
    ]
    first = outside[at].start
    assert first is not None
    moves = zip(first.distances, count.distances, strict=True)
    last = Moving(
        first.start + distance * (count.start - 1),
        tuple([by_first + distance * by_count for by_first, by_count in moves]),
    )
    low, high = (first, last) if distance > 0 else (last, first)
    stop = high._replace(start=high.start + 1)
    outside[at] = IndexItem(
        "s", low, stop, None if abs(distance) == 1 else abs(distance)
    )
    return SliceOfRows(tuple(outside), distance > 0)


def _distance(item: IndexItem) -> Size:
    """How far an item moves in a step of the innermost loop."""
    distances = [n.distances[0] for n in (item.start, item.stop) if n is not None]
    return next((n for n in distances if not is_zero(n)), 0)


def with_writes_after(loop: RecordedLoop, records: Records) -> list[Record]:
    """Return a loop, and the writes that need not be done in its steps."""
    writes = list[Record]()
    for carry in loop.carries:
        step = _write_of_row(loop, carry, records)
        if step is not None:
            loop, write = _without_write(loop, carry, step, records)
            writes.append(write)
    return [loop, *writes]


def _write_of_row(
    loop: RecordedLoop, carry: CarriedValue, records: Records
) -> RecordedStep | None:
    """The step that writes a row of a carried array, if that is all that uses it."""
    steps = [s for s in loop.steps if ValueRef(s.results[0]) == carry.passed]
    step = steps[0] if steps else None
    if not isinstance(step, RecordedStep) or step.primitive is not SLICE_UPDATE:
        return None
    array, value = step.operands
    uses = Counter(numbers_used_by(loop))
    alone = uses[carry.inside] == uses[step.results[0]] == 1
    is_stacked = not loop.stacked.keys().isdisjoint((carry.inside, *step.results))
    if array != ValueRef(carry.inside) or not alone or is_stacked:
        return None
    if joined_params(step.form, [])["how"] != "set":
        return None
    assert step.items is not None
    inside = isinstance(value, ValueRef) and value.value in set(defined_in(loop))
    if not inside or slice_of_rows(step.items, loop.count) is None:
        return None
    kinds = [item.kind for item in step.items]
    rank = step.types[0].rank + kinds.count("n") - kinds.count("i")
    return step if records.type_of(value).rank == rank else None


def _without_write(
    loop: RecordedLoop, carry: CarriedValue, step: RecordedStep, records: Records
) -> tuple[RecordedLoop, RecordedStep]:
    """Return a loop without a step that writes rows, and the write of all rows."""
    (value,) = numbers_in(step.operands[1])
    stacked = dict(loop.stacked)
    if value not in stacked:
        stacked[value] = records.new_stack(value, loop.count)
    assert step.items is not None
    part = slice_of_rows(step.items, loop.count)
    assert part is not None
    rows: StepOperand = ValueRef(stacked[value])
    if not part.forwards:
        rows = PartRead(ValueRef(stacked[value]), (IndexItem("s", None, None, -1),))
    operands = (carry.first, rows)
    write = replace(step, operands=operands, results=(carry.after,), items=part.items)
    steps = tuple([s for s in loop.steps if s is not step])
    carries = tuple([c for c in loop.carries if c is not carry])
    return replace(loop, steps=steps, carries=carries, stacked=stacked), write


def joined(record: Record) -> Record:
    """Replace the rows of an array that a step joins by a part of the array."""
    joins = OP.stack, OP.concatenate
    if not isinstance(record, RecordedStep) or record.primitive not in joins:
        return record
    parts = list(_parts(record.operands))
    if len(parts) == len(record.operands):
        return record
    params = joined_params(record.form, [n.start for n in record.integers])
    operands, runs = zip(*parts, strict=True)
    return JoinedArrays(
        params["axis"],
        record.primitive is OP.stack,
        operands,
        runs,
        record.results,
        record.types,
        record.place,
    )


def _parts(operands: Sequence[StepOperand]) -> Iterator[tuple[StepOperand, bool]]:
    """Yield the operands, with each run of rows of one array as one part of it."""
    start = 0
    while start < len(operands):
        run = _run_of_rows(operands, start)
        if run is None:
            yield operands[start], False
            start += 1
        else:
            part, length = run
            yield part, True
            start += length


def _run_of_rows(
    operands: Sequence[StepOperand], start: int
) -> tuple[PartRead, int] | None:
    """The part of an array that rows from `start` on are, and their number."""
    pair = operands[start : start + 2]
    if len(pair) < 2:
        return None
    first, second = pair
    if not isinstance(first, PartRead) or not isinstance(second, PartRead):
        return None
    at = _differing(first.items, second.items)
    if first.source != second.source or at is None:
        return None
    begin, distance = _start(first, at), _start(second, at) - _start(first, at)
    length = 2
    for operand in operands[start + 2 :]:
        if operand != _with_start(first, at, begin + length * distance):
            break
        length += 1
    if length < LEAST:
        return None
    last = begin + (length - 1) * distance
    stop = last + 1 if distance > 0 else last - 1
    item = IndexItem("s", Moving(begin), None if stop < 0 else Moving(stop), distance)
    return PartRead(
        first.source, (*first.items[:at], item, *first.items[at + 1 :])
    ), length


def _differing(a: IndexItems, b: IndexItems) -> int | None:
    """The only item in which two indices differ: a place on the first axis left."""
    if len(a) != len(b):
        return None
    at = [i for i, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1]]
    if len(at) != 1 or any(item.kind != "i" for item in (*a[: at[0] + 1], b[at[0]])):
        return None
    return at[0]


def _start(read: PartRead, at: int) -> int:
    start = read.items[at].start
    assert start is not None and isinstance(start.start, int)
    return start.start


def _with_start(read: PartRead, at: int, start: int) -> PartRead:
    item = read.items[at]._replace(start=Moving(start))
    return PartRead(read.source, (*read.items[:at], item, *read.items[at + 1 :]))
