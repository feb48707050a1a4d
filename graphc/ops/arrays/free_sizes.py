"""Sizes of a reshape that may turn out to be -1 when the function is called.

A size that is an element of an array, or that `where` chooses, may be -1 as in NumPy.
Integer arithmetic works out such a size, which is read, before anything is reshaped. A
scalar argument of the function is taken for the size itself, so that it equals its
other uses; it is refused where it is negative.
"""

from graphc.ir.graph.build import INPUT, Shape, as_size, shape_text, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim, Size, less_equal, maximum, symbol_dim
from graphc.ir.types import product


def may_be_free(n: Size) -> bool:
    """Whether a size is read from data and may be negative."""
    if not isinstance(n, Dim) or less_equal(0, n) is True:
        return False
    symbol = n.symbols[0]
    if not isinstance(symbol.origin, Value) or n is not symbol_dim(symbol):
        return False
    return symbol.origin.node.primitive is not INPUT


def with_free_sizes(value: Value, new_shape: Shape) -> tuple[Value, Shape]:
    """The array to reshape, with checks of its sizes, and the sizes without -1."""
    places = [i for i, n in enumerate(new_shape) if may_be_free(n)]
    if not places:
        return value, new_shape
    total, sizes = value.type.size, list(new_shape)
    # 1 where a size is -1, else 0
    free = {i: maximum(0, -new_shape[i]) for i in places}
    for i in places:
        reason = "a size must not be negative, except one that is -1"
        value = F._at_most(-1, new_shape[i], reason, value, "reshape")
    if len(places) > 1:
        reason = "only one size may be -1"
        value = F._at_most(sum(free.values()), 1, reason, value, "reshape")
    for i in places:
        row_size = product(new_shape[:i] + new_shape[i + 1 :])
        reason = "-1 cannot be worked out beside a size of 0"
        value = F._at_most(free[i], maximum(0, row_size), reason, value, "reshape")
        rows = maximum(1, row_size)
        shape = shape_text(value.type.shape)
        reason = f"the sizes beside -1 do not divide the elements of {shape}"
        remainder = free[i] * (total % rows)
        value = F._at_most(remainder, 0, reason, value, "reshape", "divisibility")
        n, others = size_value(new_shape[i]), size_value(total // rows)
        sizes[i] = as_size(F.where(F.equal(n, -1), others, n))
    return value, tuple(sizes)
