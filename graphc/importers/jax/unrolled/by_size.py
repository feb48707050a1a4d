"""One graph for all sizes, combined from traces at several sizes.

Once their loops are folded, the traces of a function differ only in integers and in
constant arrays. The integers become formulas of the sizes. Arrays that differ become
inputs, and each call passes those of its own trace, which must fit the template.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from graphc.errors import GraphError, SourceLocation
from graphc.importers.jax.read.unsupported import Unsupported, reading
from graphc.importers.jax.sizes.formulas import Formula, fit_formula
from graphc.importers.jax.sizes.same_equations import same_array
from graphc.importers.jax.sizes.samples import UNLIKE
from graphc.importers.jax.unrolled.alike_steps import LEAST
from graphc.importers.jax.unrolled.building import Building
from graphc.importers.jax.unrolled.folding import fold
from graphc.importers.jax.unrolled.reading import Records, records_of
from graphc.importers.jax.unrolled.records import (
    ConstantInteger,
    FilledArray,
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
    TableRef,
    ValueRef,
)
from graphc.ir.graph.build import constant, variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Size, Symbol, symbol_dim, symbols_in
from graphc.ir.types import NDArray, TensorType
from graphc.runtime.function import Function
from graphc.transform.planning.plan import PythonLoop

FEWEST_VALUES = 3  # of a size, from which formulas follow
PERIOD = 12  # sizes this far apart have equal remainders by its divisors
SMALL = 8  # sizes of axes that may be too short to show a loop


class _RecordParts:
    """Records taken apart: a form, which must be equal, integers and constant arrays.

    The records are rebuilt on the way: `size` replaces each integer, and the number of
    a table becomes its position among the `tables`.
    """

    def __init__(self, records: Records, size: Callable[[Size], Size]) -> None:
        self.all = records
        self.form: list[Hashable] = []
        self.integers: list[Size] = []
        self.counts: list[int] = []  # the places of the numbers of steps in them
        self.tables: list[tuple[NDArray, bool]] = []
        self.shapes: list[tuple[Size, ...]] = []  # of the tables
        self._size = size
        self._numbers: dict[int, int] = {}  # of values, in the order of the records
        self._define(range(records.inputs))
        self.records = list(map(self._record, records.records))
        self.outputs = self._operands(records.outputs)

    def _integer(self, n: Size) -> Size:
        self.integers.append(n)
        return self._size(n)

    def _integers(self, numbers: Iterable[Size]) -> tuple[Size, ...]:
        return tuple(map(self._integer, numbers))

    def _define(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            type = self.all.types[number]
            self.form.append((type.dtype, type.rank, type.weak))
            self._numbers[number] = len(self._numbers)

    def _record(self, record: Record) -> Record:
        match record:
            case RecordedLoop():
                fresh: Record = self._loop(record)
            case JoinedArrays():
                self.form.append((record.axis, record.stacked, record.runs))
                fresh = replace(record, operands=self._operands(record.operands))
            case RecordedStep():
                self.form.append((record.primitive, record.form, record.items is None))
                fresh = replace(
                    record,
                    integers=tuple(map(self._moving, record.integers)),
                    operands=self._operands(record.operands),
                    items=None if record.items is None else self._items(record.items),
                )
        self._define(record.results)
        return fresh

    def _loop(self, loop: RecordedLoop) -> RecordedLoop:
        self.form.append((len(loop.steps), len(loop.carries)))
        self.counts.append(len(self.integers))
        count = self._moving(loop.count)
        firsts = self._operands([carry.first for carry in loop.carries])
        self._define(carry.inside for carry in loop.carries)
        steps = tuple(map(self._record, loop.steps))
        all_passed = self._operands([carry.passed for carry in loop.carries])
        self.form.append(tuple([self._numbers[value] for value in loop.stacked]))
        carries = [
            replace(carry, first=first, passed=passed)
            for carry, first, passed in zip(
                loop.carries, firsts, all_passed, strict=True
            )
        ]
        return replace(loop, count=count, steps=steps, carries=tuple(carries))

    def _operands(self, operands: Sequence[StepOperand]) -> tuple[StepOperand, ...]:
        self.form.append(len(operands))
        return tuple(map(self._operand, operands))

    def _operand(self, operand: StepOperand) -> StepOperand:
        self.form.append(type(operand).__name__)
        match operand:
            case ValueRef() | TableRef():
                return self._source(operand)
            case PartRead(source, items):
                self.form.append(type(source).__name__)
                return PartRead(self._source(source), self._items(items))
            case FilledArray(element, shape):
                self.form.append(len(shape))
                numbers = tuple(map(self._moving, shape))
                return FilledArray(self._table(element), numbers)
            case ConstantInteger(number, dtype, weak):
                self.form.append((dtype, weak))
                return ConstantInteger(self._moving(number), dtype, weak)

    def _source(self, source: PartSource) -> PartSource:
        if isinstance(source, TableRef):
            return self._table(source)
        self.form.append(self._numbers[source.value])
        return source

    def _table(self, table: TableRef) -> TableRef:
        array, weak = self.all.tables[table.number]
        self.form.append((array.dtype, array.ndim, weak))
        self.shapes.append(self._integers(array.shape))
        self.tables.append((array, weak))
        return TableRef(len(self.tables) - 1)

    def _items(self, items: IndexItems) -> IndexItems:
        self.form.append(len(items))
        return tuple(map(self._item, items))

    def _item(self, item: IndexItem) -> IndexItem:
        self.form.append((item.kind, item.start is None, item.stop is None, item.step))
        return item.mapped(self._moving)

    def _moving(self, number: Moving) -> Moving:
        self.form.append(len(number.distances))
        return Moving(self._integer(number.start), self._integers(number.distances))


def _parts_of(graph: Graph) -> _RecordParts:
    """Fold the loops in a graph whose sizes are numbers, and take it apart.

    Raises Unsupported for a node that no loop can hold.
    """
    with reading():
        records = records_of(graph)
        fold(records)
        return _RecordParts(records, lambda n: n)


def has_loops(graph: Graph) -> bool:
    """Whether a graph whose sizes are numbers has steps that fold into loops."""
    with suppress(Unsupported):
        records = _parts_of(graph).records
        return any(isinstance(record, RecordedLoop) for record in records)
    return False


@dataclass(frozen=True, eq=False)
class UnrolledTemplate:
    """The traces of a function at all sizes, as inferred from a few of them.

    The last inputs of `graph` stand for arrays that differ between the traces.
    `varying` maps the positions of the tables that differ to the numbers of these
    inputs. `symbols` has its sizes, by name; the numbers of steps depend on those that
    are `looped` over.
    """

    graph: Graph
    symbols: Mapping[str, Symbol]
    parts: _RecordParts  # of the first trace
    formulas: Sequence[Formula]
    varying: Mapping[int, int]
    looped: frozenset[str]

    def has_few_steps(self, sizes: Mapping[str, int]) -> bool:
        """Whether a loop may have too few steps to show in a trace at these sizes."""
        return is_small({name: sizes[name] for name in self.looped})

    @property
    def steps_at(self) -> SourceLocation | None:
        """The user's line of the first step of the first loop."""
        loops = (r for r in self.parts.records if isinstance(r, RecordedLoop))
        return next((loop.place for loop in loops), None)

    def arrays_at(self, sizes: Mapping[str, int], trace: Graph) -> list[NDArray]:
        """The arrays for the last inputs, which a trace at some sizes has.

        Raises Unsupported if the template does not describe the trace.
        """
        parts = _parts_of(trace)
        expected = [formula.at(sizes) for formula in self.formulas]
        if parts.form != self.parts.form or parts.integers != expected:
            raise Unsupported(UNLIKE)
        arrays: dict[int, NDArray] = {}
        for i, (array, _) in enumerate(parts.tables):
            if i in self.varying:
                known = arrays.setdefault(self.varying[i], array)
            else:
                known, _ = self.parts.tables[i]
            if not same_array(array, known):
                raise Unsupported(UNLIKE)
        return [arrays[i] for i in range(len(arrays))]


def runs_steps_in_python(program: Function) -> bool:
    """Whether a program of JAX has a loop with sizes in its steps that are not padded.

    Python then calls each step, which is compiled for each of these sizes.
    """
    loops = (isinstance(step, PythonLoop) for step in program.plan.glue)
    return program.backend == "jax" and any(loops)


def is_small(sizes: Mapping[str, int]) -> bool:
    """Whether loops over one of these sizes may have too few steps to show."""
    return any(n <= SMALL for n in sizes.values())


def _with_enough_steps(sizes: Mapping[str, int]) -> dict[str, int]:
    """Larger sizes, over which loops have enough steps to show, and over n - m."""
    return {
        name: n + SMALL if n <= SMALL else n + 2 * SMALL for name, n in sizes.items()
    }


def sizes_beside(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes at which to trace a function besides these: odd and even ones.

    Smaller ones have shorter traces, unless they are too few to show loops.
    """
    for name, n in sizes.items():
        half = n // 2 + 2
        larger = n + 1, n + 2, n + 3
        others = (half, half + 1, n - 2) if n > 2 * SMALL else larger
        yield from ({**sizes, name: other} for other in others)


def trials(sizes: Mapping[str, int]) -> Iterator[list[Mapping[str, int]]]:
    """Yield lists of sizes at which to trace a function for a template.

    The traces at these sizes may be like others only at equal remainders, or may have
    too few steps, so that the template is made of larger sizes.
    """
    yield [sizes, *sizes_beside(sizes)]
    if is_small(sizes):
        enough = _with_enough_steps(sizes)
        yield [enough, *sizes_beside(enough)]
        return
    alike = [sizes]
    for name, n in sizes.items():
        period = -PERIOD if n > 2 * PERIOD + 2 * SMALL else PERIOD
        alike += [{**sizes, name: n + period}, {**sizes, name: n + 2 * period}]
    yield alike


def template(
    traces: Sequence[Graph],
    samples: Sequence[Mapping[str, int]],
    least: int,
    inputs_at: Callable[[Mapping[str, Symbol]], Sequence[Value]],
) -> UnrolledTemplate:
    """Make a template of the traces at several sizes, none of which is below `least`.

    `inputs_at` gives the inputs of its graph. Traces that differ from the first one in
    more than integers and constant arrays are left out. Raises Unsupported if fewer
    than `FEWEST_VALUES` values of a size remain, or if an integer follows no formula.
    """
    first, *others = map(_parts_of, traces)
    named = zip(others, samples[1:], strict=True)
    alike = [pair for pair in named if pair[0].form == first.form]
    parts = [first, *(other for other, _ in alike)]
    samples = [samples[0], *(numbers for _, numbers in alike)]
    for name in samples[0]:
        if len({numbers[name] for numbers in samples}) < FEWEST_VALUES:
            raise Unsupported(UNLIKE)
    columns = list(zip(*(p.integers for p in parts), strict=True))
    known = {column: fit_formula(column, samples) for column in dict.fromkeys(columns)}
    formulas = [known[column] for column in columns]
    counts = [formulas[i] for i in first.counts]
    bounds = {name: max(least, _least_size(name, counts)) for name in samples[0]}
    symbols = {name: Symbol(name, lower=bound) for name, bound in bounds.items()}
    inputs = inputs_at(symbols)
    sizes = {name: symbol_dim(symbol) for name, symbol in symbols.items()}
    remaining = iter(formulas)
    generic = _RecordParts(first.all, lambda _: next(remaining).at(sizes))
    varying = _varying_tables([p.tables for p in parts])
    arguments: dict[int, Value] = {}
    tables = list[Value]()
    for i, (array, weak) in enumerate(first.tables):
        if i not in varying:
            tables.append(constant(array, weak))
            continue
        number = varying[i]
        if number not in arguments:
            type = TensorType(array.dtype, generic.shapes[i], weak)
            arguments[number] = variable(f"table{number}", type)
        tables.append(arguments[number])
    numbers = {symbol: samples[0][name] for name, symbol in symbols.items()}
    building = Building(inputs, tables, first.all.types, numbers)
    try:
        with reading():
            building.build(generic.records)
            outputs = list(map(building.value, generic.outputs))
    except GraphError as error:  # the shapes of steps agree at these sizes only
        raise Unsupported(UNLIKE) from error
    graph = Graph.of([*inputs, *arguments.values()], outputs)
    looped = {s for count in _counts_in(generic.records) for s in symbols_in(count)}
    names = [name for name, s in symbols.items() if s in looped]
    return UnrolledTemplate(graph, symbols, first, formulas, varying, frozenset(names))


def _counts_in(records: Iterable[Record]) -> Iterator[Size]:
    """Yield the numbers of steps of all loops."""
    for record in records:
        if isinstance(record, RecordedLoop):
            yield record.count.start
            yield from _counts_in(record.steps)


def _least_size(name: str, counts: Sequence[Formula]) -> int:
    """The least size of this name at which loops have steps enough to be folded."""
    beyond = (replace(count, after=count.after - LEAST) for count in counts)
    return max((formula.bounds(name)[0] or 0 for formula in beyond), default=0)


def _varying_tables(
    traces: Iterable[Sequence[tuple[NDArray, bool]]],
) -> dict[int, int]:
    """Number the tables that differ between traces; equal ones have one number."""
    numbers: dict[Hashable, int] = {}
    varying: dict[int, int] = {}
    for i, tables in enumerate(zip(*traces, strict=True)):
        contents = tuple([(array.shape, array.tobytes()) for array, _ in tables])
        if len(set(contents)) > 1:
            varying[i] = numbers.setdefault(contents, len(numbers))
    return varying
