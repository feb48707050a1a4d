"""The ranges of sizes in which integers of a graph lie: counters, positions, lengths.

A size that differs from step to step of a loop has a capacity where an upper bound is
known. So each integer gets a range, in terms of sizes that are known outside of all
bodies. Arithmetic on integers with bounds is assumed not to wrap around.
"""

from collections.abc import Callable, Sequence

from graphc.analysis.elements import JOINING, MOVING
from graphc.control.scan import SCAN, scan_inputs
from graphc.control.tiled_loop import BLOCKS
from graphc.control.trip_count import STEPS
from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.build import INPUT, SIZE_OP, literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Size, Symbol, less_equal, maximum
from graphc.ir.sizes.polynomials import Call, polynomial
from graphc.ir.sizes.ranges import (
    RANGES,
    UNKNOWN,
    SizeRange,
    range_between,
    range_of_sum,
    range_over,
)
from graphc.ir.types import is_integer, same_size

Ranges = list[SizeRange]
RangeOf = Callable[[Symbol], SizeRange]
INTEGER_RANGES: "RuleTable[RangeRule]" = RuleTable("ranges of integers")


class ValueRanges:
    """The ranges of the values of a graph, noted node by node in topological order.

    `around` gives the range of a size that is known outside of all bodies.
    """

    def __init__(self, around: RangeOf) -> None:
        self._range_outside = around
        self._ranges: dict[Value, SizeRange] = {}
        self._sizes: dict[Symbol, SizeRange] = {}  # of bodies
        self._inner: set[Node] = set()
        self._counters: dict[Value, SizeRange] = {}  # in steps that run
        self._narrow: set[Value] = set()  # computed in integers of few bits

    def safe_range_of(self, value: Value) -> SizeRange:
        """The range that the elements of a value never leave.

        Integers of few bits soon wrap around: a value computed from them has no range.
        In a body a step is running, so this range may be narrower than that of `of`,
        which also holds for arrays that are made where no step runs.
        """
        if value in self._narrow:
            return UNKNOWN
        return self._counters.get(value) or self.of(value)

    def of(self, value: Value) -> SizeRange:
        """The range of all elements of a value, if integers do not wrap around."""
        return self._ranges.get(value, UNKNOWN)

    def of_size(self, size: Size) -> SizeRange:
        """The range of a formula of sizes."""
        return range_between(size, self._range_of_symbol)

    def _range_of_symbol(self, symbol: Symbol) -> SizeRange:
        if symbol in self._sizes:
            return self._sizes[symbol]
        origin = symbol.origin
        if isinstance(origin, Value):
            if origin in self._ranges:
                return self._ranges[origin]
            if origin.node in self._inner:
                return SizeRange(symbol.lower, symbol.upper)
        return self._range_outside(symbol)

    def observe(self, node: Node) -> None:
        """Find the ranges of a node's outputs, and of the values in its bodies."""
        sources = set(node.inputs)
        for call in node.primitive.body_calls(node):
            self._observe_body(node, call)
            sources.update(call.body.outputs)
        narrow = not sources.isdisjoint(self._narrow)
        for value in node.outputs:
            if narrow or _has_few_bits(value):
                self._narrow.add(value)
            range_of_output = (
                self._find_range(value) if is_integer(value.dtype) else UNKNOWN
            )
            if range_of_output is not UNKNOWN:
                self._ranges[value] = range_of_output

    def _observe_body(self, node: Node, call: BodyCall) -> None:
        body = call.body
        self._sizes |= {s: self.of_size(n) for s, n in call.sizes.items()}
        all_narrow = not self._narrow.isdisjoint(node.inputs)
        self._narrow.update(v for v in body.inputs if all_narrow or _has_few_bits(v))
        for value, range_of_input in zip(
            body.inputs, self._ranges_of_inputs(node, call), strict=True
        ):
            self._inner.add(value.node)
            if range_of_input is not UNKNOWN:
                self._ranges[value] = range_of_input
        for inner in body.nodes:
            self._inner.add(inner)
            self.observe(inner)

    def _ranges_of_inputs(self, node: Node, call: BodyCall) -> Ranges:
        """The ranges of the inputs of a body."""
        if node.primitive is SCAN:
            return self._ranges_of_step(node, call)
        if len(node.inputs) == len(call.body.inputs) + 1:  # input 0 chooses a branch
            return [self.of(v) for v in node.inputs[1:]]
        return [UNKNOWN] * len(call.body.inputs)

    def _ranges_of_step(self, node: Node, call: BodyCall) -> Ranges:
        parts = scan_inputs(node.inputs, node.params)
        steps = self._range_of_steps(node).high
        last = None if steps is None else steps - 1
        carries = []
        for i, value in enumerate(parts.first):
            carry = call.body.inputs[i]
            by = _constant_difference(carry, call.body.outputs[i])
            carries.append(_range_of_counter(self.of(value), by, last))
            if by and steps is not None:
                known = _range_of_counter(
                    self.of(value), by, _size_if_positive(steps) - 1
                )
                self._counters[carry] = known
        return [*carries, *(self.of(v) for v in (*parts.rows, *parts.captures))]

    def _range_of_steps(self, node: Node) -> SizeRange:
        """The range of the number of steps; it may be 0 where a loop stops early."""
        parts, length = scan_inputs(node.inputs, node.params), node.params["length"]
        limits = [UNKNOWN if length is None else self.of_size(length)]
        limits += [] if parts.limit is None else [self.of(parts.limit)]
        return SizeRange(0, RANGES["min"](limits).high)

    def _find_range(self, value: Value) -> SizeRange:
        followed = self._range_of_formulas(value)
        if None not in followed:
            return followed
        low, high = self._range_of_result(value)
        return SizeRange(
            low if followed.low is None else followed.low,
            high if followed.high is None else followed.high,
        )

    def _range_of_formulas(self, value: Value) -> SizeRange:
        """The range of integers that are known as formulas of sizes."""
        if value.sizes is None or not value.sizes.size:
            return UNKNOWN
        return range_over([self.of_size(n) for n in value.sizes.flat])

    def _range_of_result(self, value: Value) -> SizeRange:
        node = value.node
        if node.primitive is SIZE_OP:
            return self.of_size(node.params["size"])
        literal = literal_of(value)
        if literal is not None and literal.size:
            return SizeRange(int(literal.min()), int(literal.max()))
        if node.primitive is SCAN:
            return self._range_after_loop(node, value.index)
        return self._range_by_rule(node)

    def _range_after_loop(self, node: Node, index: int) -> SizeRange:
        params, (call,) = node.params, node.primitive.body_calls(node)
        body, carries = call.body, params["carries"]
        if params["stops"] and index == carries:
            return self._range_of_steps(node)
        if index >= carries:
            stacked = self.of(body.outputs[index])
            partial = params["stops"] or params["counted"]  # the other rows are zeros
            return range_over([stacked, SizeRange(0, 0)]) if partial else stacked
        by = _constant_difference(body.inputs[index], body.outputs[index])
        return _range_of_counter(
            self.of(node.inputs[index]), by, self._range_of_steps(node).high
        )

    def _range_by_rule(self, node: Node) -> SizeRange:
        rule = INTEGER_RANGES.find(node.primitive)
        if rule is not None:
            return rule(self, node)
        if node.primitive.range is None or node.primitive is INPUT:
            return UNKNOWN
        _, low, high = node.primitive.range(node)
        return SizeRange(low, None if high is None else self.of_size(high).high)


def _has_few_bits(value: Value) -> bool:
    return is_integer(value.dtype) and value.dtype.itemsize < 4


RangeRule = Callable[[ValueRanges, Node], SizeRange]


@INTEGER_RANGES.of(*MOVING, OP.barrier, OP.convert, STEPS)
def _of_moved(known: ValueRanges, node: Node) -> SizeRange:
    """The elements of the result are elements of the first input."""
    return known.of(node.inputs[0])


@INTEGER_RANGES.of(*JOINING, BLOCKS)
def _of_joined(known: ValueRanges, node: Node) -> SizeRange:
    return range_over([known.of(v) for v in node.inputs])


@INTEGER_RANGES.of(OP.where)
def _of_chosen(known: ValueRanges, node: Node) -> SizeRange:
    return range_over([known.of(v) for v in node.inputs[1:]])


@INTEGER_RANGES.of(OP.argmax, OP.argmin, OP.argsort, OP.argpartition, OP.nonzero)
def _of_position(known: ValueRanges, node: Node) -> SizeRange:
    """A position is below the size of its axis, or of all axes: there is an element."""
    x, axis = node.inputs[0].type, node.params.get("axis")
    size = x.size if axis is None else x.shape[axis]
    return SizeRange(0, known.of_size(size - 1).high)


@INTEGER_RANGES.of(OP.remainder)
def _of_remainder(known: ValueRanges, node: Node) -> SizeRange:
    """The remainder by a size that is positive, at least where there are elements."""
    low, high = known.of(node.inputs[1])
    if low is None:
        return UNKNOWN
    if less_equal(1, low) is not True:
        axes = [known.of_size(n).high for n in node.outputs[0].type.shape]
        if not any(n is not None and less_equal(n, low) is True for n in axes):
            return UNKNOWN
        high = None if high is None else maximum(high, 1)
    return SizeRange(0, None if high is None else high - 1)


@INTEGER_RANGES.of(OP.iota)
def _of_iota(known: ValueRanges, node: Node) -> SizeRange:
    start, step = node.params["start"], node.params["step"]
    if not isinstance(step, int):
        return UNKNOWN
    ends = start, start + step * (node.params["length"] - 1)
    low, high = ends if step >= 0 else ends[::-1]
    return SizeRange(known.of_size(low).low, known.of_size(high).high)


def _constant_difference(before: Value, after: Value) -> int | None:
    """The constant by which one value exceeds another; None if there is none."""
    total = 0
    while after is not before:
        primitive = after.node.primitive
        if primitive not in (OP.add, OP.subtract):
            return None
        sign = 1 if primitive is OP.add else -1
        left, right = after.node.inputs
        constant = literal_of(right)
        if constant is None and sign == 1:
            left, constant = right, literal_of(left)
        if constant is None or constant.size != 1 or constant.dtype.kind not in "iu":
            return None
        after, total = left, total + sign * int(constant.flat[0])
    return total


def _size_if_positive(size: Size) -> Size:
    """A size that equals this one where it is positive: a for max(0, a)."""
    atom = polynomial(size).only_atom()
    if isinstance(atom, Call) and atom.op == "max" and len(atom.args) == 2:
        least, other = sorted(atom.args, key=lambda a: not isinstance(a, int))
        return other if same_size(least, 0) else size
    return size


def _range_of_counter(
    first: SizeRange, by: int | None, times: Size | None
) -> SizeRange:
    """The range of a number to which `by` is added at most `times` times."""
    if by is None:
        return UNKNOWN
    if by == 0:
        return first
    most = None if times is None else by * times
    low, high = (0, most) if by > 0 else (most, 0)
    return range_of_sum(first, SizeRange(low, high))


def _range_of_difference(parts: Sequence[SizeRange]) -> SizeRange:
    return range_of_sum(parts[0], parts[1], -1)


def _of_operands(rule: Callable[[Ranges], SizeRange]) -> RangeRule:
    return lambda known, node: rule([known.of(v) for v in node.inputs])


for _primitive, _rule in {
    OP.add: lambda parts: range_of_sum(parts[0], parts[1]),
    OP.subtract: _range_of_difference,
    OP.multiply: RANGES["*"],
    OP.floor_divide: RANGES["//"],
    OP.maximum: RANGES["max"],
    OP.minimum: RANGES["min"],
    OP.negative: lambda parts: range_of_sum(SizeRange(0, 0), parts[0], -1),
}.items():
    INTEGER_RANGES.define(_primitive, _of_operands(_rule))
