"""Read a graph whose sizes are numbers into records, in the order of the trace."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.unrolled.joins import (
    joined_by,
    joined_element,
    joined_further,
)
from graphc.importers.jax.unrolled.params import are_sizes, split_params
from graphc.importers.jax.unrolled.records import (
    ConstantInteger,
    FilledArray,
    IndexItem,
    IndexItems,
    Moving,
    PartRead,
    PartSource,
    Record,
    RecordedStep,
    StepOperand,
    TableRef,
    ValueRef,
    numbers_in,
    numbers_used_by,
)
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import CONSTANT, literal_of
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.graph.walk import ancestors, depth_first
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import BOOL, NDArray, TensorType
from graphc.ops.indexing.basic import BASIC_INDEX, items_of
from graphc.ops.indexing.parse import SliceBound, slice_length
from graphc.ops.indexing.scatter import SLICE_UPDATE

MOST_WRITES = 8  # through which a read is followed
LARGEST = 2**11  # of the floats that count as integers: float16 holds them all


@dataclass(eq=False)
class Records:
    """The records of a graph, the types of all values by number, and its constants.

    The first values are the graph's inputs. Of each constant array, `tables` has one,
    and whether it is weak.
    """

    inputs: int
    records: list[Record] = field(default_factory=list)
    outputs: list[StepOperand] = field(default_factory=list)
    types: list[TensorType] = field(default_factory=list)
    tables: list[tuple[NDArray, bool]] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _sizes: dict[Hashable, tuple[bool, ...]] = field(default_factory=dict)

    def new_value(self, type: TensorType) -> int:
        """Number a new value."""
        self.types.append(type)
        return len(self.types) - 1

    def new_stack(self, value: int, count: Moving) -> int:
        """Number a new array, of what a value is in so many steps."""
        type = self.types[value]
        return self.new_value(type.like((count.start, *type.shape)))

    def constant(
        self, array: NDArray, weak: bool
    ) -> TableRef | FilledArray | ConstantInteger:
        """The operand for a constant."""
        if array.ndim == 0 and array.dtype.kind in "iu":
            return ConstantInteger(Moving(int(array)), array.dtype, weak)
        if array.ndim and array.size:
            element = array.ravel()[0]
            if array.tobytes() == array.size * element.tobytes():
                shape = tuple(map(Moving, array.shape))
                return FilledArray(self.table(element, weak), shape)
        return self.table(array, weak)

    def table(self, array: NDArray, weak: bool) -> TableRef:
        """The operand for a constant array."""
        array = np.asarray(array)
        key = array.dtype, array.shape, weak, array.tobytes()
        number = self._numbers.setdefault(key, len(self.tables))
        if number == len(self.tables):
            self.tables.append((array, weak))
        return TableRef(number)

    def fixed_integers(self, step: RecordedStep) -> list[Moving]:
        """The integers in the params of a step that may not be any size, as axes."""
        key = step.primitive, step.form, len(step.integers)
        if key not in self._sizes:
            self._sizes[key] = are_sizes(*key)
        pairs = zip(step.integers, self._sizes[key], strict=True)
        return [n for n, is_size in pairs if not is_size]

    def array_of(self, operand: StepOperand) -> NDArray | None:
        """The array of a constant operand; None for others."""
        match operand:
            case TableRef(number):
                return self.tables[number][0]
            case FilledArray(element, shape) if not any(n.moves for n in shape):
                return _repeated(self.tables[element.number][0], _starts(shape))
            case ConstantInteger(number, dtype) if not number.moves:
                return np.array(number.start, dtype)
        return None

    def type_of(self, operand: StepOperand) -> TensorType:
        """The type of an operand outside of loops."""
        match operand:
            case ValueRef(value):
                return self.types[value]
            case PartRead(source, items):
                type = self.type_of(source)
                whole = _repeated(np.array(0, np.int8), type.shape)
                return type.like(whole[tuple(map(_as_python, items))].shape)
            case ConstantInteger(_, dtype, weak):
                return TensorType(dtype, (), weak)
            case FilledArray(element, shape):
                return self.type_of(element).like(_starts(shape))
            case TableRef(number):
                array, weak = self.tables[number]
                return TensorType(array.dtype, array.shape, weak)


def _starts(numbers: Iterable[Moving]) -> tuple[Size, ...]:
    return tuple([n.start for n in numbers])


def _repeated(element: NDArray, shape: Sequence[Size]) -> NDArray:
    return np.broadcast_to(element, [n for n in shape if isinstance(n, int)])


def _as_python(item: IndexItem) -> Any:
    """An item outside of loops, as Python writes it."""
    start, stop = (None if n is None else n.start for n in (item.start, item.stop))
    return slice(start, stop, item.step) if item.kind == "s" else start


def are_whole(numbers: NDArray) -> bool:
    """Whether floats are integers that any dtype holds exactly, and none is -0.0."""
    if numbers.dtype.kind != "f":
        return False
    small = (abs(numbers) < LARGEST) & (numbers == np.trunc(numbers))
    return bool(np.all(small & ~((numbers == 0) & np.signbit(numbers))))


def records_of(graph: Graph) -> Records:
    """Read a graph whose sizes are numbers.

    Raises Unsupported for a node that no loop can hold.
    """
    records = Records(len(graph.inputs))
    nodes = _in_traced_order(graph)
    reader = _TraceReader(records, nodes, graph.outputs)
    for value in graph.inputs:
        reader.numbers[value] = records.new_value(value.type)
    for node in nodes:
        reader.read(node)
    records.outputs += map(reader.operand, graph.outputs)
    records.records = _needed(records)
    return records


def _needed(records: Records) -> list[Record]:
    """The records that outputs need: what was read as an operand needs no others."""
    numbers = {number for output in records.outputs for number in numbers_in(output)}
    needed = list[Record]()
    for record in reversed(records.records):
        if not numbers.isdisjoint(record.results):
            numbers.update(numbers_used_by(record))
            needed.append(record)
    return needed[::-1]


def _in_traced_order(graph: Graph) -> list[Node]:
    """The nodes that need no input, in the order of their use; then the others.

    The former may be older than the trace: another one has made them.
    """
    inputs = {v.node for v in graph.inputs}
    nodes = [node for node in ancestors(graph.outputs) if node not in inputs]
    dependent, before = list[Node](), set(inputs)
    for node in nodes:
        if any(v.node in before for v in node.inputs):
            dependent.append(node)
            before.add(node)
    used = (v.node for node in dependent for v in node.inputs)
    outputs = (v.node for v in graph.outputs)
    roots = [node for node in (*used, *outputs) if node not in before]
    return [*depth_first(dict.fromkeys(roots)), *dependent]


class _TraceReader:
    """The reader of one graph; `numbers` has the values that records define."""

    def __init__(
        self, records: Records, nodes: Sequence[Node], outputs: Iterable[Value]
    ) -> None:
        self.numbers: dict[Value, int] = {}
        self._records = records
        self._read_arrays = {read.array for read in map(_read_by, nodes) if read}
        steps = [node for node in nodes if not self._is_operand(node)]
        used = chain(*(node.inputs for node in steps), outputs)
        self._passing = joined_further(steps, Counter(map(_array_used, used)))

    def read(self, node: Node) -> None:
        """Read a node as a step, unless it is an operand."""
        if node.primitive is CONSTANT or self._is_operand(node):
            return
        if not self._passing.isdisjoint(node.outputs):
            return
        _require_readable(node)
        primitive, inputs, params = node.primitive, node.inputs, node.params
        part = _read_by(node) or _written_by(node)
        items = None if part is None else part.items
        if part is not None:
            primitive, inputs, params = part.primitive, part.inputs, {"how": part.how}
        elif primitive in (OP.stack, OP.concatenate):
            primitive, inputs = joined_by(node, self._passing)
        form, integers = split_params(params)
        operands = tuple(map(self.operand, inputs))
        types = tuple([v.type for v in node.outputs])
        results = tuple(map(self._records.new_value, types))
        self.numbers |= zip(node.outputs, results, strict=True)
        self._records.records.append(
            RecordedStep(
                primitive, form, integers, operands, results, types, node.place, items
            )
        )

    def _is_operand(self, node: Node) -> bool:
        """Whether a node reads part of an array, of which nothing is read in turn."""
        return _read_by(node) is not None and node.outputs[0] not in self._read_arrays

    def operand(self, value: Value) -> StepOperand:
        """The operand that stands for a value."""
        value = _followed(value)
        number = self.numbers.get(value)
        if number is not None:
            return ValueRef(number)
        read = _read_by(value.node)
        if read is None:
            data = value.node.params["data"]
            return self._records.constant(data.array, value.type.weak)
        source = self.operand(read.array)
        if not isinstance(source, PartSource):
            array = self._records.array_of(source)
            assert array is not None  # all of whose elements are equal
            part = np.asarray(array[tuple(map(_as_python, read.items))])
            return self._records.constant(part, value.type.weak)
        return PartRead(source, read.items)


class _PartOfArray(NamedTuple):
    """The part of an array that a node reads or, if it has a value, writes.

    `how` says what is done with a value: it is "set", or it is "add"-ed and so on.
    """

    array: Value
    items: IndexItems
    written: Value | None = None
    how: str = ""

    @property
    def primitive(self) -> Primitive:
        """The primitive that reads or writes such a part."""
        return BASIC_INDEX if self.written is None else SLICE_UPDATE

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs of that primitive."""
        return (self.array,) if self.written is None else (self.array, self.written)


def _read_by(node: Node) -> _PartOfArray | None:
    """The part of an array that a node reads.

    JAX reads an element as a slice of one element, without that axis.
    """
    if node.primitive is BASIC_INDEX:
        return _PartOfArray(node.inputs[0], _items_of(node))
    if node.primitive is not OP.squeeze:
        return None
    slices = node.inputs[0].node
    if slices.primitive is not BASIC_INDEX:
        return None
    items = _without_axes(_items_of(slices), node.params["axes"])
    return None if items is None else _PartOfArray(slices.inputs[0], items)


def _written_by(node: Node) -> _PartOfArray | None:
    """The part of an array that a node writes, and what.

    JAX sets an element as a slice of one element, to a value with that axis. The
    gradient of its read is added to others as an array that is zero elsewhere.
    """
    if node.primitive is SLICE_UPDATE:
        array, written = node.inputs
        part = _PartOfArray(array, _items_of(node), written, node.params["how"])
    elif node.primitive is OP.add and _adds_part(node):
        array, padded = sorted(node.inputs, key=_is_mostly_zero)
        written, low = padded.node.inputs[0], padded.node.params["low"]
        ends = [a + n for a, n in zip(low, written.type.shape, strict=True)]
        bounds = zip(map(Moving, low), map(Moving, ends), strict=True)
        items = tuple([IndexItem("s", *pair, None) for pair in bounds])
        part = _PartOfArray(array, items, written, "add")
    else:
        return None
    if written.node.primitive is OP.expand_dims:
        elements = _without_axes(part.items, written.node.params["axes"])
        if elements is not None:
            return part._replace(items=elements, written=written.node.inputs[0])
    return part


def _adds_part(node: Node) -> bool:
    """Whether a sum of two numeric arrays of one type adds to a part of one of them."""
    total = node.outputs[0].type
    same = all(v.type.same(total) for v in node.inputs)
    return same and total.dtype != BOOL and any(map(_is_mostly_zero, node.inputs))


def _is_mostly_zero(value: Value) -> bool:
    """Whether a value is an array with zeros around it."""
    node = value.node
    if node.primitive is not OP.pad:
        return False
    fill = literal_of(node.inputs[1])
    widths = [*node.params["low"], *node.params["high"]]
    is_zero = fill is not None and not fill.any()
    return is_zero and all(isinstance(n, int) and n >= 0 for n in widths)


def _without_axes(items: IndexItems, axes: Sequence[int]) -> IndexItems | None:
    """The items without these axes, if they are slices of one element there."""
    new_items, axis, remaining = list[IndexItem](), 0, set(axes)
    for item in items:
        if item.kind != "i" and axis in remaining:
            if item.kind == "n" or not _is_one_element(item):
                return None
            remaining.remove(axis)
            new_items.append(IndexItem("i", item.start, None, None))
        else:
            new_items.append(item)
        axis += item.kind != "i"
    return None if remaining else tuple(new_items)


def _is_one_element(item: IndexItem) -> bool:
    start, stop = item.start, item.stop
    if start is None or stop is None or item.step not in (None, 1):
        return False
    return stop.start == start.start + 1


def _followed(value: Value) -> Value:
    """The value just written to the elements that `value` reads, or joined as these."""
    for _ in range(MOST_WRITES):
        read = _read_by(value.node)
        joined = None if read is None else joined_element(read.array, read.items)
        if joined is not None and joined.type.same(value.type):
            value = joined
            continue
        write = None if read is None else _written_by(read.array.node)
        if read is None or write is None or write.written is None:
            break
        same = write.items == read.items and write.written.type.same(value.type)
        if write.how != "set" or not same:
            break
        value = write.written
    return value


def _array_used(value: Value) -> Value:
    """The array of which an operand is a part, or else the operand itself."""
    value = _followed(value)
    read = _read_by(value.node)
    return value if read is None else read.array


def _require_readable(node: Node) -> None:
    """Raise Unsupported for a node that no loop can hold, or whose sizes vary."""
    types = [v.type for v in (*node.inputs, *node.outputs)]
    if node.guards or any(isinstance(n, Dim) for type in types for n in type.shape):
        problem = f"{node.primitive.name} has sizes that depend on data"
        raise Unsupported(problem, node.place)
    if node.primitive.driven or runs_in_python(node):
        raise Unsupported(f"no loop can hold {node.primitive.name}", node.place)


def _items_of(node: Node) -> IndexItems:
    """The items of an index or of a write, with integers counted from the start."""
    items, axis = list[IndexItem](), 0
    shape = node.inputs[0].type.shape
    for kind, start, stop, step in items_of(node):
        assert not isinstance(step, Dim)
        length = None
        if kind == "i" or (kind == "s" and (step or 1) > 0):
            start, stop = (_from_start(bound, shape[axis]) for bound in (start, stop))
        if kind == "s":
            length = _number(slice_length(start, stop, step or 1, shape[axis]))
        axis += kind != "n"
        items.append(IndexItem(kind, _unmoved(start), _unmoved(stop), step, length))
    return tuple(items)


def _number(n: Size) -> int:
    assert isinstance(n, int)
    return n


def _from_start(bound: SliceBound, n: Size) -> SliceBound:
    """A bound that is counted from the start of an axis."""
    if isinstance(bound, int) and isinstance(n, int) and bound < 0:
        return max(bound + n, 0)
    return bound


def _unmoved(bound: Size | None) -> Moving | None:
    return None if bound is None else Moving(bound)
