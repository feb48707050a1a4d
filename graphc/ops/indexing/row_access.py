"""Reads and writes of single rows of arrays in loops, where the row must exist."""

from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import less_equal, maximum
from graphc.ir.types import same_shape


def read(x: Value, i: Value) -> Value:
    """Read row `i` of `x`, which must exist."""
    row: Value = F._gather(x, i, axes=(0,), inside=(True,))
    return row


def put(x: Value, i: Value, v: Value) -> Value:
    """Replace row `i` of `x`, which must exist, by `v`."""
    new_rows: Value = F._scatter(x, v, i, axes=(0,), how="set", inside=(True,))
    return new_rows


def readable(rows: Value) -> Value:
    """Add a row to empty `rows`, so that a program that reads one can be traced."""
    length = rows.type.shape[0]
    if less_equal(1, length) is True:
        return rows
    more = size_value(maximum(1 - length, 0))
    longer_rows: Value = F.pad(rows, [(0, more), *[(0, 0)] * (rows.type.rank - 1)])
    return longer_rows


def is_row(write: Node) -> bool:
    """Whether a scatter writes one whole row, at a place within the array.

    Such a write needs no scatter, whose place XLA checks in every step.
    """
    x, v, index = write.inputs[:3]
    axis, *more = write.params["axes"]
    if more or index.type.rank or index.dtype.kind != "i" or v.type.weak:
        return False
    shape = x.type.shape[:axis] + x.type.shape[axis + 1 :]
    sets = write.params["how"] == "set" and all(write.params["inside"])
    return sets and not v.node.primitive.inline and same_shape(v.type.shape, shape)
