"""Conditions that rounding does not change: `exp(x) >= 0` is one, `x - y >= 0` is not.

What an op gives is known to lie between bounds, however it is rounded. A condition is
firm where these tell it. An exponential is 0 by underflow alone, which is the same in
each computation but for the last bit of the range of its dtype.
"""

import math
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from graphc.ir.build import literal_of
from graphc.ir.graph import Node, Value
from graphc.ir.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.types import is_inexact

_DEEPEST = 12  # ops that are looked through
Holds = Callable[["Bounds", "Bounds"], bool]


class Bounds(NamedTuple):
    """What a value lies between; `apart`: it is 0 by underflow alone."""

    low: float
    high: float
    apart: bool

    def __or__(self, other: "Bounds") -> "Bounds":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Bounds(low, high, self.apart and other.apart)


_UNKNOWN = Bounds(-math.inf, math.inf, False)


def is_firm(node: Node) -> bool:
    """Whether a node is a condition that is the same however its inputs are rounded."""
    if node.primitive in (OP.isinf, OP.isnan, OP.isfinite):
        return _has_firm_infinities(node.inputs[0], _DEEPEST)
    holds = _COMPARISONS.get(node.primitive.name)
    if holds is None or not all(is_inexact(v.dtype) for v in node.inputs):
        return False
    a, b = map(bounds_of, node.inputs)
    if a.high < b.low or a.low > b.high or holds(a, b):
        return True
    for value, own, other in ((node.inputs[0], a, b), (node.inputs[1], b, a)):
        if other.low == other.high == 0 and own.apart:
            return True
        if other.low == other.high and math.isinf(other.low):
            return _has_firm_infinities(value, _DEEPEST)
    return False


_COMPARISONS: dict[str, Holds] = {
    "greater_equal": lambda a, b: a.low >= b.high,
    "less": lambda a, b: a.low >= b.high,
    "less_equal": lambda a, b: a.high <= b.low,
    "greater": lambda a, b: a.high <= b.low,
    "equal": lambda a, b: False,
    "not_equal": lambda a, b: False,
}


def bounds_of(value: Value, depth: int = _DEEPEST) -> Bounds:
    """Bounds of all elements of a value that are no NaN."""
    literal = literal_of(value)
    if literal is not None:
        return _of_literal(literal)
    node = value.node
    if not depth or not is_inexact(value.dtype):
        return _UNKNOWN
    if node.primitive is OP.expit:
        return Bounds(0.0, 1.0, False)
    if node.primitive in (OP.exp, OP.exp2):  # of 16 bits, it may not be rounded to 0
        return Bounds(0.0, math.inf, value.dtype.itemsize >= 4)
    if node.primitive in _SAME:
        found = [bounds_of(v, depth - 1) for v in _SAME[node.primitive](node)]
        return reduce(or_, found)
    if node.primitive in (OP.add, OP.multiply, OP.true_divide):
        return _of_pair(node, *[bounds_of(v, depth - 1) for v in node.inputs])
    if node.primitive in (OP.sum, OP.square, OP.absolute, OP.sqrt):
        given = bounds_of(node.inputs[0], depth - 1)
        if node.primitive is not OP.sum or given.low >= 0:
            return Bounds(0.0, math.inf, given.apart)
    return _UNKNOWN


def _of_literal(array: "np.ndarray[Any, Any]") -> Bounds:
    if array.dtype.kind not in "biuf" or not array.size or np.isnan(array).any():
        return _UNKNOWN
    return Bounds(float(array.min()), float(array.max()), bool(array.all()))


def _of_pair(node: Node, a: Bounds, b: Bounds) -> Bounds:
    """Of a sum, product or quotient of numbers of which none is negative."""
    if a.low < 0 or b.low < 0:
        return _UNKNOWN
    if node.primitive is OP.add:
        return Bounds(a.low + b.low, a.high + b.high, a.apart or b.apart)
    return Bounds(0.0, math.inf, a.apart and b.apart)


_SAME: dict[Primitive, Callable[[Node], list[Value]]] = {}  # elements of these values
_SAME |= dict.fromkeys(
    [
        *(OP.expand_dims, OP.squeeze, OP.reshape, OP.transpose, OP.broadcast_to),
        *(OP.basic_index, OP.gather, OP.max, OP.min),
    ],
    lambda node: [node.inputs[0]],
)
_SAME |= dict.fromkeys(
    [OP.concatenate, OP.stack, OP.maximum, OP.minimum], lambda node: [*node.inputs]
)
_SAME[OP.where] = lambda node: [*node.inputs[1:]]
_MASKS = {OP.logical_and, OP.logical_or, OP.logical_not, OP.expand_dims}
_MASKS |= {OP.broadcast_to, OP.bitwise_and, OP.bitwise_or}


def _has_firm_infinities(value: Value, depth: int) -> bool:
    """Whether no rounding makes an element infinite that else is not.

    Logarithms and quotients do where what may be 0 is rounded.
    """
    node = value.node
    if node.primitive.rounding == "stored":
        return True
    if not depth or (node.primitive is OP.where and not _is_firm_mask(node.inputs[0])):
        return False
    if node.primitive in (OP.log, OP.log2, OP.log10):
        given = [*node.inputs] if bounds_of(node.inputs[0]).apart else None
    elif node.primitive is OP.true_divide:
        given = [*node.inputs] if bounds_of(node.inputs[1]).apart else None
    elif node.primitive in _SAME:
        given = _SAME[node.primitive](node)
    elif node.primitive in _FINITE:
        given = [*node.inputs]
    else:
        given = None
    return given is not None and all(_has_firm_infinities(v, depth - 1) for v in given)


def _is_firm_mask(value: Value) -> bool:
    """Whether a bool is made of conditions that are firm."""
    node = value.node
    if node.primitive.rounding == "stored" or is_firm(node):
        return True
    return node.primitive in _MASKS and all(map(_is_firm_mask, node.inputs))


_FINITE = {
    *(OP.add, OP.subtract, OP.multiply, OP.negative, OP.absolute, OP.square, OP.sqrt),
    *(OP.exp, OP.exp2, OP.expit, OP.sum, OP.max_from, OP.min_from, OP.einsum),
}
