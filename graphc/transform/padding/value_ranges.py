"""The ranges of sizes in which integers of a graph lie: counters, positions, lengths.

A size that differs from step to step of a loop has a capacity where an upper bound is
known. So each integer gets a range, in terms of sizes that are known outside of all
bodies. Arithmetic on integers with bounds is assumed not to wrap around.
"""

from graphc.control.scan import SCAN, scan_inputs
from graphc.control.tiled_loop import BLOCKS
from graphc.control.trip_count import STEPS
from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, Symbol, less_equal
from graphc.ir.sizes.polynomials import Call, polynomial
from graphc.ir.sizes.ranges import (
    RANGES,
    UNKNOWN,
    SizeRange,
    range_of_sum,
    range_over,
)
from graphc.ir.types import is_integer, same_size
from graphc.ops.arrays.integer_ranges import (
    INTEGER_RANGES,
    NEVER_WRAPS,
    IntegerRanges,
    RangeOf,
    Ranges,
    SafeRanges,
    is_small_multiple,
    range_of_joined,
    range_of_moved,
)

INTEGER_RANGES.define(STEPS, range_of_moved)
INTEGER_RANGES.define(BLOCKS, range_of_joined)


class ValueRanges(IntegerRanges):
    """The ranges of the values of a graph and of the bodies in it."""

    def __init__(self, around: RangeOf) -> None:
        super().__init__(around)
        self._outside = SafeRanges(around)  # of bodies
        self._sizes: dict[Symbol, SizeRange] = {}  # of bodies
        self._inner: set[Node] = set()
        self._counters: dict[Value, SizeRange] = {}  # in steps that run
        self._narrow: set[Value] = set()  # computed in integers of few bits

    def safe_range_of(self, value: Value) -> SizeRange:
        """The range that the elements of a value never leave.

        In bodies, only integers of few bits, unsigned ones below 0 and large multiples
        are taken to wrap around: a value computed from them has no range. A step is
        running there, so this range may be narrower than that of `of`, which also holds
        for arrays that are made where no step runs.
        """
        if value.node not in self._inner:
            return self._outside.of(value)
        if value in self._narrow:
            return UNKNOWN
        return self._counters.get(value) or self.of(value)

    def _range_of_symbol(self, symbol: Symbol) -> SizeRange:
        if symbol in self._sizes:
            return self._sizes[symbol]
        between = super()._range_of_symbol(symbol)
        origin = symbol.origin
        if not isinstance(origin, Value) or origin.node not in self._inner:
            return between
        known = origin in self._ranges
        return between if known else SizeRange(symbol.lower, symbol.upper)

    def observe(self, node: Node) -> None:
        """Find the ranges of a node's outputs, and of the values in its bodies."""
        sources = set(node.inputs)
        for call in node.primitive.body_calls(node):
            self._observe_body(node, call)
            sources.update(call.body.outputs)
        narrow = not sources.isdisjoint(self._narrow)
        self._narrow.update(
            v
            for v in node.outputs
            if narrow or _has_few_bits(v) or _is_large_multiple(v)
        )
        super().observe(node)
        if node not in self._inner:
            self._outside.observe(node)

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
            counted = _range_of_counter(self.of(value), by, last)
            carries.append(_if_never_below_zero(value, counted))
            if by and steps is not None:
                known = _range_of_counter(
                    self.of(value), by, _size_if_positive(steps) - 1
                )
                self._counters[carry] = _if_never_below_zero(value, known)
        return [*carries, *(self.of(v) for v in (*parts.rows, *parts.captures))]

    def _range_of_steps(self, node: Node) -> SizeRange:
        """The range of the number of steps; it may be 0 where a loop stops early."""
        parts, length = scan_inputs(node.inputs, node.params), node.params["length"]
        limits = [UNKNOWN if length is None else self.of_size(length)]
        limits += [] if parts.limit is None else [self.of(parts.limit)]
        return SizeRange(0, RANGES["min"](limits).high)

    def _range_of_result(self, value: Value) -> SizeRange:
        if value.node.primitive is SCAN:
            between = self._range_after_loop(value.node, value.index)
        else:
            between = super()._range_of_result(value)
        if value.node.primitive in NEVER_WRAPS:
            return between
        return _if_never_below_zero(value, between)

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


def _has_few_bits(value: Value) -> bool:
    return is_integer(value.dtype) and value.dtype.itemsize < 4


def _if_never_below_zero(value: Value, between: SizeRange) -> SizeRange:
    """The range of an unsigned result: below 0, it would wrap around to large ones."""
    is_ahead = between.low is not None and less_equal(0, between.low) is True
    return between if is_ahead or value.dtype.kind != "u" else UNKNOWN


def _is_large_multiple(value: Value) -> bool:
    """Whether this is a product of 32 bits with a number that is not small."""
    node = value.node
    if node.primitive is not OP.multiply or value.dtype.itemsize > 4:
        return False
    has_number = any(literal_of(x) is not None for x in node.inputs)
    return has_number and not is_small_multiple(node)


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
