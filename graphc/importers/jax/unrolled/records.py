"""The records of a trace: its steps in their order, and loops where steps repeat.

Values are numbered. Constants, and reads of parts of arrays, are no records but
operands: from one step of a loop to the next, they differ in integers alone.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from graphc.errors import SourceLocation
from graphc.ir.graph.op import Primitive
from graphc.ir.sizes.dims import Size
from graphc.ir.types import DType, TensorType


class Moving(NamedTuple):
    """An integer that moves by a distance in each step of the loops around it.

    The distance in the innermost loop comes first. There is one for each loop.
    """

    start: Size
    distances: tuple[Size, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether any distance is not 0."""
        return not all(map(is_zero, self.distances))


def is_zero(distance: Size) -> bool:
    """Whether a distance is 0 at all sizes."""
    return isinstance(distance, int) and distance == 0


class ValueRef(NamedTuple):
    """A value by its number."""

    value: int


class TableRef(NamedTuple):
    """A constant array by its number."""

    number: int


class FilledArray(NamedTuple):
    """An array whose elements are all equal: to that of a table of rank 0."""

    element: TableRef
    shape: tuple[Moving, ...]


class ConstantInteger(NamedTuple):
    """A constant number that is an integer, whatever its dtype."""

    number: Moving
    dtype: DType
    weak: bool


class IndexItem(NamedTuple):
    """An item of a basic index: an integer ("i"), a slice ("s") or a new axis ("n").

    Of a slice in the trace, `length` counts the elements: those that the axis has.
    """

    kind: str
    start: Moving | None
    stop: Moving | None
    step: int | None
    length: int | None = None

    @property
    def moves(self) -> bool:
        """Whether the item differs from step to step."""
        return any(bound is not None and bound.moves for bound in self[1:3])

    def mapped(self, change: Callable[[Moving], Moving]) -> "IndexItem":
        """The item with other integers."""
        start, stop = (None if n is None else change(n) for n in self[1:3])
        return self._replace(start=start, stop=stop)


IndexItems = tuple[IndexItem, ...]
PartSource = ValueRef | TableRef


class PartRead(NamedTuple):
    """A part of a value or of a table, by a basic index."""

    source: PartSource
    items: IndexItems


StepOperand = ValueRef | TableRef | FilledArray | ConstantInteger | PartRead


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """The application of a primitive to operands.

    `form` has its params, but for the `integers` in them. A basic index, or a write to
    one, has `items` besides.
    """

    primitive: Primitive
    form: Hashable
    integers: tuple[Moving, ...]
    operands: tuple[StepOperand, ...]
    results: tuple[int, ...]
    types: tuple[TensorType, ...]
    place: SourceLocation
    items: IndexItems | None


@dataclass(frozen=True, eq=False)
class JoinedArrays:
    """Arrays joined along an axis, which is a new one if they are `stacked`.

    Each operand is one of the arrays or, if it is in `runs`, has several of them along
    its first axis.
    """

    axis: int
    stacked: bool
    operands: tuple[StepOperand, ...]
    runs: tuple[bool, ...]
    results: tuple[int, ...]
    types: tuple[TensorType, ...]
    place: SourceLocation


@dataclass(frozen=True, eq=False)
class CarriedValue:
    """A value that is `first` before a loop, `inside` in a step, and `after` the loop.

    A step passes another value on to the next one.
    """

    first: StepOperand
    inside: int
    passed: StepOperand
    after: int


@dataclass(frozen=True, eq=False)
class RecordedLoop:
    """A loop of steps; `stacked` maps values of a step to the array of those of all."""

    count: Moving
    steps: "tuple[Record, ...]"
    carries: tuple[CarriedValue, ...]
    stacked: Mapping[int, int]

    @property
    def results(self) -> tuple[int, ...]:
        """The numbers of the values that the loop gives."""
        return (*(carry.after for carry in self.carries), *self.stacked.values())

    @property
    def place(self) -> SourceLocation:
        """The user's line of the first step."""
        first: Record = self
        while isinstance(first, RecordedLoop):
            first = first.steps[0]
        return first.place


Record = RecordedStep | JoinedArrays | RecordedLoop


def defined_in(record: Record) -> Iterator[int]:
    """Yield the numbers of all values that a record defines, in a fixed order."""
    if isinstance(record, RecordedLoop):
        for carry in record.carries:
            yield carry.inside
        for step in record.steps:
            yield from defined_in(step)
    yield from record.results


def mapped(
    record: Record,
    operand: Callable[[StepOperand], StepOperand],
    item: Callable[[IndexItem], IndexItem] = lambda item: item,
    number: Callable[[Moving], Moving] = lambda number: number,
) -> Record:
    """A record with other operands, items of indices and writes, and other integers.

    The functions are called in a fixed order, for the steps of loops too.
    """
    if isinstance(record, RecordedStep):
        operands = tuple(map(operand, record.operands))
        items = None if record.items is None else tuple(map(item, record.items))
        integers = tuple(map(number, record.integers))
        return replace(record, operands=operands, items=items, integers=integers)
    if isinstance(record, JoinedArrays):
        return replace(record, operands=tuple(map(operand, record.operands)))
    count = number(record.count)
    firsts = [operand(carry.first) for carry in record.carries]
    steps = tuple([mapped(step, operand, item, number) for step in record.steps])
    carries = [
        replace(carry, first=first, passed=operand(carry.passed))
        for carry, first in zip(record.carries, firsts, strict=True)
    ]
    return replace(record, count=count, steps=steps, carries=tuple(carries))


class Slots(NamedTuple):
    """The parts of records that may differ from step to step of a loop around them."""

    operands: list[StepOperand]
    items: list[IndexItem]
    numbers: list[Moving]


def slots_of(record: Record) -> Slots:
    """The operands, items and integers of a record, in the order of `mapped`."""
    if isinstance(record, JoinedArrays):
        return Slots(list(record.operands), [], [])
    if isinstance(record, RecordedStep):
        items, integers = list(record.items or ()), list(record.integers)
        return Slots(list(record.operands), items, integers)
    slots = Slots([carry.first for carry in record.carries], [], [record.count])
    for of_step in map(slots_of, record.steps):
        slots.operands.extend(of_step.operands)
        slots.items.extend(of_step.items)
        slots.numbers.extend(of_step.numbers)
    slots.operands.extend(carry.passed for carry in record.carries)
    return slots


def numbers_used_by(record: Record) -> Iterator[int]:
    """Yield the number of each value that a record uses, once for each use."""
    for operand in slots_of(record).operands:
        yield from numbers_in(operand)


def numbers_in(operand: StepOperand) -> tuple[int, ...]:
    """The number of the value in an operand, if there is one."""
    source = operand.source if isinstance(operand, PartRead) else operand
    return (source.value,) if isinstance(source, ValueRef) else ()
