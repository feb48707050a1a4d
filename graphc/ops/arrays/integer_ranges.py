"""The ranges in which integers of a graph lie, where bounds are known from their ops.

So a size can be known that depends on data: the numbers of `clip(x, 0, 4)` are at most
4, and `bincount` of them has five counts for `minlength=5`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from graphc.ir.graph.bodies import has_bodies
from graphc.ir.graph.build import INPUT, SIZE_OP, literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import enroll
from graphc.ir.params.exactness import has_room
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import (
    Size,
    Symbol,
    less_equal,
    maximum,
    minimum,
    symbol_dim,
)
from graphc.ir.sizes.ranges import (
    RANGES,
    UNKNOWN,
    SizeRange,
    range_between,
    range_of_sum,
    range_over,
)
from graphc.ir.types import BOOL, INT64, is_integer
from graphc.ops.arrays.elements import CHOOSING, JOINING, MOVING

Ranges = list[SizeRange]
RangeOf = Callable[[Symbol], SizeRange]
INTEGER_RANGES: "RuleTable[RangeRule]" = RuleTable("ranges of integers")


class IntegerRanges:
    """The ranges of the values of a graph, noted node by node in topological order.

    `around` gives the range of a size that is known outside of all bodies. Arithmetic
    on integers with bounds is assumed not to wrap around.
    """

    def __init__(self, around: RangeOf) -> None:
        self._range_outside = around
        self._ranges: dict[Value, SizeRange] = {}

    def of(self, value: Value) -> SizeRange:
        """The range of all elements of a value, if integers do not wrap around."""
        return self._ranges.get(value, UNKNOWN)

    def of_size(self, size: Size) -> SizeRange:
        """The range of a formula of sizes."""
        return range_between(size, self._range_of_symbol)

    def observe(self, node: Node) -> None:
        """Find the ranges of a node's outputs."""
        for value in node.outputs:
            range_of_output = (
                self._find_range(value) if is_integer(value.dtype) else UNKNOWN
            )
            if range_of_output is not UNKNOWN:
                self._ranges[value] = range_of_output

    def _range_of_symbol(self, symbol: Symbol) -> SizeRange:
        origin = symbol.origin
        if isinstance(origin, Value) and origin in self._ranges:
            return self._ranges[origin]
        return self._range_outside(symbol)

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
        return self._range_by_rule(node)

    def _range_by_rule(self, node: Node) -> SizeRange:
        rule = INTEGER_RANGES.find(node.primitive)
        if rule is not None:
            return rule(self, node)
        if node.primitive.range is None or node.primitive is INPUT:
            return UNKNOWN
        _, low, high = node.primitive.range(node)
        return SizeRange(low, None if high is None else self.of_size(high).high)


RangeRule = Callable[[IntegerRanges, Node], SizeRange]


@INTEGER_RANGES.of(OP.convert)
def _of_converted(known: IntegerRanges, node: Node) -> SizeRange:
    (x,), dtype = node.inputs, node.outputs[0].dtype
    between = SizeRange(0, 1) if x.dtype == BOOL else known.of(x)
    ends = between.numbers
    wraps = ends is not None and not all(has_room(dtype, n) for n in ends)
    return UNKNOWN if wraps else between


@INTEGER_RANGES.of(*MOVING, OP.barrier)
def range_of_moved(known: IntegerRanges, node: Node) -> SizeRange:
    """The elements of the result are elements of the first input."""
    return known.of(node.inputs[0])


@INTEGER_RANGES.of(*JOINING)
def range_of_joined(known: IntegerRanges, node: Node) -> SizeRange:
    """Each element of the result is one of some input."""
    return range_over([known.of(v) for v in node.inputs])


@INTEGER_RANGES.of(OP.where)
def _of_chosen(known: IntegerRanges, node: Node) -> SizeRange:
    return range_over([known.of(v) for v in node.inputs[1:]])


@INTEGER_RANGES.of(OP.argmax, OP.argmin, OP.argsort, OP.argpartition, OP.nonzero)
def _of_position(known: IntegerRanges, node: Node) -> SizeRange:
    """A position is below the size of its axis, or of all axes: there is an element."""
    x, axis = node.inputs[0].type, node.params.get("axis")
    size = x.size if axis is None else x.shape[axis]
    return SizeRange(0, known.of_size(size - 1).high)


@INTEGER_RANGES.of(OP.remainder)
def _of_remainder(known: IntegerRanges, node: Node) -> SizeRange:
    """The remainder has the sign of the divisor, and is 0 where that is 0.

    A size that is only positive where there are elements counts as positive.
    """
    low, high = known.of(node.inputs[1])
    if low is None:
        return UNKNOWN
    if less_equal(1, low) is not True:
        axes = [known.of_size(n).high for n in node.outputs[0].type.shape]
        if not any(n is not None and less_equal(n, low) is True for n in axes):
            most = None if high is None else maximum(high - 1, 0)
            return SizeRange(minimum(low + 1, 0), most)
        high = None if high is None else maximum(high, 1)
    return SizeRange(0, None if high is None else high - 1)


@INTEGER_RANGES.of(OP.bitwise_and)
def _of_common_bits(known: IntegerRanges, node: Node) -> SizeRange:
    """The bits of two numbers, one of which is 0 or more, are no more than that one."""
    ranges = [known.of(v) for v in node.inputs]
    most = [r.high for r in ranges if r.low is not None and less_equal(0, r.low)]
    highs = [n for n in most if n is not None]
    return SizeRange(0, minimum(*highs)) if highs else UNKNOWN


@INTEGER_RANGES.of(OP.searchsorted)
def _of_place(known: IntegerRanges, node: Node) -> SizeRange:
    """A place among sorted numbers, or behind them."""
    return SizeRange(0, known.of_size(node.inputs[0].type.shape[-1]).high)


@INTEGER_RANGES.of(OP.iota)
def _of_iota(known: IntegerRanges, node: Node) -> SizeRange:
    start, step = node.params["start"], node.params["step"]
    if not isinstance(step, int):
        return UNKNOWN
    ends = start, start + step * (node.params["length"] - 1)
    low, high = ends if step >= 0 else ends[::-1]
    return SizeRange(known.of_size(low).low, known.of_size(high).high)


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


# Their results are within the bounds of their operands, and so of their dtype.
NEVER_WRAPS = {*MOVING, *JOINING, *CHOOSING, OP.where, OP.remainder, OP.bitwise_and}
_MOST_FACTOR = 2**14  # of a size, which is at most 2**48: few sums of these wrap around
_MOST_STEP = 16  # of positions: with larger steps, numbers may need more than 32 bits
_FEW_VALUES = 2  # bytes of integers whose dtype is a bound worth knowing


def bound_of_positions(value: Value) -> Size | None:
    """A size that all elements of an array of positions are below; none is negative.

    None for other integers. Positions along an axis are taken to fit into 32 bits;
    numbers must be known to.
    """
    dtypes = {value.dtype}
    while _has_elements_of_first(value.node):
        value = value.node.inputs[0]
        dtypes.add(value.dtype)
    if literal_of(value) is None and not _makes_positions(value.node):
        return None
    ranges = IntegerRanges(_as_itself)
    ranges.observe(value.node)
    low, high = ranges.of(value)
    if high is None or low is None or less_equal(0, low) is not True:
        return None
    fits = not isinstance(high, int) or all(has_room(dtype, high) for dtype in dtypes)
    return high + 1 if fits else None


def _makes_positions(node: Node) -> bool:
    """Whether the results are positions along an axis, or numbers that count."""
    if node.primitive is not OP.iota:
        return node.primitive in (OP.argmax, OP.argmin, OP.argsort, OP.argpartition)
    step = node.params["step"]
    return isinstance(step, int) and abs(step) <= _MOST_STEP


def _has_elements_of_first(node: Node) -> bool:
    """Whether the results are elements of the first input, in no fewer than 32 bits."""
    is_cast = node.primitive is OP.convert and node.outputs[0].dtype.itemsize >= 4
    return (is_cast or node.primitive in MOVING) and is_integer(node.inputs[0].dtype)


def upper_bound(x: Value) -> Size | None:
    """The largest that an element of `x` can be, as a size; None if none is known.

    It holds whatever wraps around, so that sizes of results may rely on it.
    """
    ranges = SafeRanges(_as_itself)
    for node in ancestors([x], _integer_inputs):
        ranges.observe(node)
    return ranges.of(x).high


enroll(upper_bound, "_upper_bound")


def _integer_inputs(node: Node) -> list[Value]:
    """The inputs that have ranges: integers computed from others have none."""
    return [v for v in node.inputs if is_integer(v.dtype)]


def _as_itself(symbol: Symbol) -> SizeRange:
    return SizeRange(symbol_dim(symbol), symbol_dim(symbol))


class SafeRanges(IntegerRanges):
    """Ranges that no value leaves; loops and branches have none."""

    def of(self, value: Value) -> SizeRange:
        """The range of all elements of a value; that of a small dtype at least.

        An integer that serves as a size is within itself.
        """
        known = super().of(value)
        if known is UNKNOWN and value._symbol is not None:
            return self._range_of_symbol(value._symbol)
        small = is_integer(value.dtype) and value.dtype.itemsize <= _FEW_VALUES
        if known is not UNKNOWN or not small:
            return known
        limits = np.iinfo(value.dtype)
        return SizeRange(int(limits.min), int(limits.max))

    def _find_range(self, value: Value) -> SizeRange:
        if has_bodies(value.node):
            return UNKNOWN
        between = super()._find_range(value)
        if value.node.primitive in NEVER_WRAPS or _fits(value, between):
            return between
        positive = between.low is not None and less_equal(0, between.low) is True
        # A number that wraps around is less than before.
        return SizeRange(None, between.high) if positive else UNKNOWN


def _fits(value: Value, between: SizeRange) -> bool:
    """Whether integers in a range fit into the dtype of the value."""
    limits = np.iinfo(value.dtype)
    ends = between.numbers
    if ends is not None:
        return bool(limits.min <= ends[0] and ends[1] <= limits.max)
    if value.dtype.itemsize == 4 and bound_of_positions(value) is not None:
        return True
    if value.node.primitive is OP.multiply and not is_small_multiple(value.node):
        return False
    return value.dtype == INT64 and None not in between


def is_small_multiple(product: Node) -> bool:
    """Whether one factor is a number so small that 64 bits hold a size times it."""
    literals = [x for x in map(literal_of, product.inputs) if x is not None]
    return any(
        (x >= -_MOST_FACTOR).all() and (x <= _MOST_FACTOR).all() for x in literals
    )
