"""Build a graph of records, with a scan for each loop."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from graphc.errors import standing_at
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.unrolled.params import joined_params
from graphc.importers.jax.unrolled.records import (
    ConstantInteger,
    FilledArray,
    IndexItem,
    IndexItems,
    JoinedArrays,
    Moving,
    PartRead,
    Record,
    RecordedLoop,
    StepOperand,
    TableRef,
    ValueRef,
    defined_in,
    is_zero,
)
from graphc.importers.jax.unrolled.rows import slice_of_rows
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import (
    as_size,
    as_value,
    cast,
    set_lower_bound,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, Symbol, ceil_div, maximum, substitute, symbols_in
from graphc.ir.types import INT64, TensorType
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.gather import DYNAMIC_SLICE
from graphc.ops.indexing.parse import FULL_ITEM, BasicItem, slice_length
from graphc.ops.indexing.scatter import SLICE_UPDATE


class Building:
    """The graph of records: the values so far, and the counters of the loops around.

    At the `sizes` of the trace, the values must have the `types` that they have there,
    in the first steps of loops.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        tables: Sequence[Value],
        types: Sequence[TensorType],
        sizes: Mapping[Symbol, int],
    ) -> None:
        self._values = dict(enumerate(inputs))
        self._tables = tables
        self._types, self._sizes = types, dict(sizes)
        self._counters: list[Value] = []  # of the innermost loop first
        self._rows: dict[int, Value] = {}  # by the identity of a read

    def build(self, records: Iterable[Record]) -> None:
        """Compute all records, in their order.

        Raises Unsupported for a result of another type than in the trace.
        """
        for record in records:
            with standing_at(record.place.plain):
                results = self._results_of(record)
            for number, value in zip(record.results, results, strict=True):
                self._require_type(value, self._types[number])
                self._values[number] = value

    def _require_type(self, value: Value, expected: TensorType) -> None:
        shape = tuple([substitute(n, self._sizes) for n in value.type.shape])
        if not replace(value.type, shape=shape).same(expected):
            raise Unsupported(f"{value.type} is not {expected} in a loop")

    def value(self, operand: StepOperand) -> Value:
        """The value of an operand within the loops around."""
        match operand:
            case ValueRef(value):
                return self._values[value]
            case TableRef(number):
                return self._tables[number]
            case FilledArray(element, shape):
                sizes = tuple(map(self._size, shape))
                filled: Value = F.full(sizes, self.value(element))
                return filled
            case ConstantInteger(number, dtype, weak):
                return cast(self._integer(number), dtype, weak)
            case PartRead(source, items):
                row = self._rows.get(id(operand))
                return self._part(self.value(source), items) if row is None else row

    def _integer(self, number: Moving) -> Value:
        """An integer that moves with the counters of the loops around."""
        total = cast(as_value(size_value(number.start)), INT64)
        for distance, counter in zip(number.distances, self._counters, strict=True):
            if not is_zero(distance):
                total = total + size_value(distance) * counter
        return total

    def _size(self, number: Moving) -> Size:
        """An integer as a size, which moves with the counters of the loops around."""
        size = number.start
        for distance, counter in zip(number.distances, self._counters, strict=True):
            if not is_zero(distance):
                steps = as_size(counter)
                # The trace's types are those of the first steps.
                self._sizes |= dict.fromkeys(symbols_in(steps), 0)
                size = size + distance * steps
        return size

    def _by_sizes(self, item: IndexItem) -> BasicItem:
        """An item of this step, with sizes as integers."""
        start, stop = (
            None if n is None else self._size(n) for n in (item.start, item.stop)
        )
        if item.moves and start is not None and stop is not None:
            stop = start + maximum(0, stop - start)  # as arrays have it
        return item.kind, start, stop, item.step

    def _results_of(self, record: Record) -> Sequence[Value]:
        if isinstance(record, RecordedLoop):
            return self._loop(record)
        if isinstance(record, JoinedArrays):
            return [self._join(record)]
        inputs = tuple(map(self.value, record.operands))
        params = joined_params(record.form, map(self._size, record.integers))
        if record.items is None:
            return record.primitive.bind(inputs, params).outputs
        if record.primitive is SLICE_UPDATE:
            array, part = inputs
            return [self._write(array, part, record.items, params["how"])]
        return [self._part(inputs[0], record.items)]

    def _part(self, x: Value, items: IndexItems) -> Value:
        """Apply a basic index; where an item moves, to the place of this step."""
        fixed, moving, axis = list[BasicItem](), dict[int, IndexItem](), 0
        for item in items:
            if item.moves:
                moving[axis] = item
            fixed.append(FULL_ITEM if item.moves else self._by_sizes(item))
            axis += item.moves or item.kind != "i"
        part = basic(x, tuple(fixed))
        places = {
            axis: self._integer(_present(item.start))
            for axis, item in moving.items()
            if item.kind == "i"
        }
        if places:
            inside = (True,) * len(places)
            part = F._gather(part, *places.values(), axes=tuple(places), inside=inside)
        for axis, item in moving.items():
            if item.kind == "s":
                left = axis - sum(place < axis for place in places)
                part = self._slice(part, left, item)
        return part

    def _slice(self, x: Value, axis: int, item: IndexItem) -> Value:
        """A slice of an axis that moves, or is longer in one step than in another."""
        length, every = self._size(_length_of(item)), item.step or 1
        if not isinstance(length, int):
            places = self._places(item, x.type.shape[axis])
            part: Value = F._gather(x, places, axes=(axis,), inside=(True,))
            return part
        if every > 1:  # to its last element, as the axis may end there
            length = (length - 1) // every * every + 1
        first = self._integer(_present(item.start))
        part = DYNAMIC_SLICE(x, first, axis=axis, length=length)
        return basic(part, (*[FULL_ITEM] * axis, ("s", None, None, item.step)))

    def _write(self, x: Value, part: Value, items: IndexItems, how: str) -> Value:
        """Write to a basic index, where items may move. Raises Unsupported."""
        if not any(item.moves for item in items):
            return self._write_by_sizes(x, part, items, how)
        if any(item.kind == "n" for item in items):
            raise Unsupported("a loop writes to a new axis of an array")
        places = {
            axis: self._integer(_present(item.start))
            for axis, item in enumerate(items)
            if item.kind == "i"
        }
        slices = tuple([item for item in items if item.kind == "s"])
        if not places:
            lengths = [self._size(_length_of(item)) for item in slices if item.moves]
            if not all(isinstance(n, int) for n in lengths):
                return self._write_by_sizes(x, part, slices, how)
            return self._write_windows(x, part, slices, how)
        axes, inside = tuple(places), (True,) * len(places)
        if slices:  # of the row at these places
            row = F._gather(x, *places.values(), axes=axes, inside=inside)
            part, how = self._write(row, part, slices, how), "set"
        written: Value = F._scatter(
            x, part, *places.values(), axes=axes, how=how, inside=inside
        )
        return written

    def _write_by_sizes(
        self, x: Value, part: Value, items: IndexItems, how: str
    ) -> Value:
        """Write to a basic index, whose bounds are sizes."""
        plain = map(self._by_sizes, items)
        kinds, starts, stops, steps = zip(*plain, strict=True)
        bounds = {"starts": starts, "stops": stops, "steps": steps}
        updated: Value = F._slice_update(
            x, part, how=how, kinds="".join(kinds), **bounds
        )
        return updated

    def _write_windows(
        self, x: Value, part: Value, slices: IndexItems, how: str
    ) -> Value:
        """Write to slices that move, and have as many elements in each step."""
        places = list[Value]()
        for axis, (item, n) in enumerate(zip(slices, x.type.shape, strict=False), 1):
            column = (-1, *[1] * (len(slices) - axis))
            places.append(F.reshape(self._places(item, n), column))
        axes, inside = tuple(range(len(places))), (True,) * len(places)
        written: Value = F._scatter(x, part, *places, axes=axes, how=how, inside=inside)
        return written

    def _places(self, item: IndexItem, n: Size) -> Value:
        """The places of a slice on an axis of `n` elements."""
        step = item.step or 1
        if step < 0:
            raise Unsupported("a loop writes to a slice backwards")
        if item.moves:  # and has all elements between its bounds
            length = ceil_div(self._size(_length_of(item)), step)
        else:
            _, start, stop, _ = self._by_sizes(item)
            length = slice_length(start, stop, step, n)
        first = self._integer(item.start or Moving(0, (0,) * len(self._counters)))
        places: Value = first + step * F.arange(length)
        return places

    def _join(self, join: JoinedArrays) -> Value:
        """Join arrays, and the rows of others."""
        arrays = []
        for operand, is_run in zip(join.operands, join.runs, strict=True):
            array = self.value(operand)
            if is_run:
                array = F.moveaxis(array, 0, join.axis)
            if is_run and not join.stacked:
                array = _with_axes_joined(array, join.axis)
            elif join.stacked and not is_run:
                array = F.expand_dims(array, join.axis)
            arrays.append(array)
        whole: Value = F.concatenate(arrays, join.axis) if arrays[1:] else arrays[0]
        return whole

    def _loop(self, loop: RecordedLoop) -> Sequence[Value]:
        """Run a loop as a scan over the rows that its steps read, and a counter."""
        reads = dict(self._rows_read_by(loop))
        sequences = list(dict.fromkeys(reads.values()))
        first = [self.value(carry.first) for carry in loop.carries]

        def step(carries: list[Value], rows: list[Value]) -> StepResult:
            *rows_read, counter = rows
            by_sequence = dict(zip(sequences, rows_read, strict=True))
            self._rows |= {read: by_sequence[rows] for read, rows in reads.items()}
            numbers = [carry.inside for carry in loop.carries]
            self._values |= zip(numbers, carries, strict=True)
            set_lower_bound(counter, 0)
            self._counters.insert(0, counter)
            self.build(loop.steps)
            passed = [self.value(carry.passed) for carry in loop.carries]
            self._counters.pop(0)
            return passed, [self._values[value] for value in loop.stacked]

        count = self._size(loop.count)
        all_rows = [*sequences, F.arange(count)]
        ends, stacked = F._run_scan(step, first, all_rows, count, False, pruned=True)
        return [*ends, *stacked]

    def _rows_read_by(self, loop: RecordedLoop) -> Iterator[tuple[int, Value]]:
        """Yield the identity of each read in a step that is a row of one array."""
        inside = {ValueRef(number) for number in defined_in(loop)}
        operands = [carry.passed for carry in loop.carries]
        for step in loop.steps:
            if not isinstance(step, RecordedLoop):
                operands += step.operands
        for read in operands:
            if not isinstance(read, PartRead) or read.source in inside:
                continue
            bounds = (n for item in read.items for n in item[1:3] if n is not None)
            assert all(len(n.distances) == len(self._counters) + 1 for n in bounds)
            part = slice_of_rows(read.items, loop.count)
            if part is not None:
                rows = self._part(self.value(read.source), part.items)
                yield id(read), rows if part.forwards else F.flip(rows, 0)


def _present(number: Moving | None) -> Moving:
    assert number is not None
    return number


def _length_of(item: IndexItem) -> Moving:
    """The distance between the bounds of a slice that moves."""
    start, stop = _present(item.start), _present(item.stop)
    moves = zip(start.distances, stop.distances, strict=True)
    return Moving(stop.start - start.start, tuple([b - a for a, b in moves]))


def _with_axes_joined(array: Value, axis: int) -> Value:
    """Make one axis of two that are side by side."""
    *before, n, m = array.type.shape[: axis + 2]
    joined: Value = F.reshape(array, (*before, n * m, *array.type.shape[axis + 2 :]))
    return joined
