"""Conditions that rounding does not change, as `exp(x) >= 0`.

The result of an op lies between bounds, however it is rounded. A condition is firm
where these bounds decide it. An exponential is 0 only by underflow, which is the same
in every computation except for the last bit of the range of its dtype. NaN is not
considered: where rounding alone makes one, the results are no better than that.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.types import NDArray, is_float, is_inexact
from graphc.ops.arrays.elements import sources_of

_MOST_VALUES = 64  # looked at; what is not shown by then counts as false
Holds = Callable[["Interval", "Interval"], bool]


class Interval(NamedTuple):
    """Bounds of a value; if `is_nonzero`, it is 0 only by underflow."""

    low: float
    high: float
    is_nonzero: bool

    @property
    def is_zero(self) -> bool:
        """Whether the bounds leave nothing but 0."""
        return self.low == self.high == 0

    def __or__(self, other: "Interval") -> "Interval":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Interval(low, high, self.is_nonzero and other.is_nonzero)


_UNKNOWN = Interval(-math.inf, math.inf, False)


def is_firm(node: Node) -> bool:
    """Whether a node is a condition that is the same however its inputs are rounded."""
    if node.primitive is OP.isinf:
        return _has_firm_infinities(node.inputs[0])
    if node.primitive not in _COMPARISONS:
        return False
    if _is_decided_by_bounds(node):
        return True
    return any(map(_is_infinity, node.inputs)) and all(
        map(_has_firm_infinities, node.inputs)
    )


def _is_decided_by_bounds(node: Node) -> bool:
    """Whether the bounds of two numbers decide how they compare."""
    holds = _COMPARISONS.get(node.primitive)
    if holds is None or not all(is_float(v.dtype) for v in node.inputs):
        return False
    a, b = map(bounds_of, node.inputs)
    if a.high < b.low or a.low > b.high or holds(a, b):
        return True
    return (b.is_zero and a.is_nonzero) or (a.is_zero and b.is_nonzero)


def _is_infinity(value: Value) -> bool:
    bounds = bounds_of(value)
    return bounds.low == bounds.high and math.isinf(bounds.low)


_COMPARISONS: dict[Primitive, Holds] = {
    OP.greater_equal: lambda a, b: a.low >= b.high,
    OP.less: lambda a, b: a.low >= b.high,
    OP.less_equal: lambda a, b: a.high <= b.low,
    OP.greater: lambda a, b: a.high <= b.low,
    OP.equal: lambda a, b: False,
    OP.not_equal: lambda a, b: False,
}


def bounds_of(value: Value, known: dict[Value, Interval] | None = None) -> Interval:
    """Return the bounds of all elements of a value that are not NaN."""
    known = {} if known is None else known
    if value not in known:
        known[value] = _UNKNOWN  # where it is too deep
        known[value] = _bounds(value, known) if len(known) < _MOST_VALUES else _UNKNOWN
    return known[value]


def _bounds(value: Value, known: dict[Value, Interval]) -> Interval:
    literal, node = literal_of(value), value.node
    if literal is not None:
        return _bounds_of_literal(literal)
    if not is_inexact(value.dtype):
        return _UNKNOWN
    if node.primitive is OP.expit:
        return Interval(0.0, 1.0, False)
    if node.primitive in (OP.exp, OP.exp2):  # of 16 bits, it may not be rounded to 0
        return Interval(0.0, math.inf, value.dtype.itemsize >= 4)
    sources = sources_of(node)
    if sources is not None:
        return reduce(or_, [bounds_of(v, known) for v in sources])
    if node.primitive in (OP.add, OP.multiply, OP.true_divide):
        return _bounds_of_pair(node, *[bounds_of(v, known) for v in node.inputs])
    if node.primitive in (OP.sum, OP.square, OP.absolute, OP.sqrt):
        operand = bounds_of(node.inputs[0], known)
        if node.primitive is not OP.sum or operand.low >= 0:
            return Interval(0.0, math.inf, operand.is_nonzero)
    return _UNKNOWN


def _bounds_of_literal(array: NDArray) -> Interval:
    if array.dtype.kind not in "biuf" or not array.size or np.isnan(array).any():
        return _UNKNOWN
    return Interval(float(array.min()), float(array.max()), bool(array.all()))


def _bounds_of_pair(node: Node, a: Interval, b: Interval) -> Interval:
    """Bound a sum, product or quotient of numbers, if none of them is negative."""
    if a.low < 0 or b.low < 0:
        return _UNKNOWN
    if node.primitive is OP.add:
        return Interval(a.low + b.low, a.high + b.high, a.is_nonzero or b.is_nonzero)
    return Interval(0.0, math.inf, a.is_nonzero and b.is_nonzero)


_MASKS = {OP.logical_and, OP.logical_or, OP.logical_not, OP.expand_dims}
_MASKS |= {OP.broadcast_to, OP.bitwise_and, OP.bitwise_or}


def _has_firm_infinities(value: Value) -> bool:
    """Whether no rounding can make an element infinite that otherwise is not.

    Logarithms and quotients do so, where an operand that may be 0 is rounded.
    """
    seen, stack = {value}, [value]
    while stack:
        value = stack.pop()
        node = value.node
        if node.primitive.rounding == "stored" or not is_inexact(value.dtype):
            continue
        causes = _sources_of_infinities(node)
        if causes is None or len(seen) > _MOST_VALUES:
            return False
        stack += [v for v in causes if v not in seen]
        seen.update(causes)
    return True


def _sources_of_infinities(node: Node) -> Sequence[Value] | None:
    """Return the values whose infinities a node passes on; None if it makes others."""
    if node.primitive in (OP.log, OP.log2, OP.log10):
        return node.inputs if bounds_of(node.inputs[0]).is_nonzero else None
    if node.primitive is OP.true_divide:
        return node.inputs if bounds_of(node.inputs[1]).is_nonzero else None
    if node.primitive is OP.log1p:
        return node.inputs if bounds_of(node.inputs[0]).low > -1 else None
    if node.primitive is OP.where and not _is_firm_mask(node.inputs[0]):
        return None
    sources = sources_of(node)
    if sources is not None:
        return sources
    return node.inputs if node.primitive in _FINITE else None


def _is_firm_mask(value: Value) -> bool:
    """Whether a bool is made of comparisons that bounds decide."""
    pending = [value]
    for _ in range(_MOST_VALUES):
        if not pending:
            return True
        node = pending.pop().node
        if node.primitive.rounding == "stored" or _is_decided_by_bounds(node):
            continue
        if node.primitive not in _MASKS:
            return False
        pending += node.inputs
    return False


_FINITE = {
    *(OP.add, OP.subtract, OP.multiply, OP.negative, OP.absolute, OP.square, OP.sqrt),
    *(OP.exp, OP.exp2, OP.expit, OP.sum, OP.einsum),
    *(OP.slice_update, OP.expm1),
}
