"""Integers that are positions along some axis, as far as their nodes tell."""

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ir.types import is_integer
from graphc.ops.arrays.elements import MOVING

_MOST_STEP = 16  # of positions: with larger steps, numbers may need more than 32 bits
_FINDING = (OP.argmax, OP.argmin, OP.argsort, OP.argpartition)


def bound_of_positions(value: Value) -> Size | None:
    """A size that all elements of an array of positions are below; none is negative.

    None for other integers. Positions are taken to fit into 32 bits.
    """
    while (bound := _bound_of_result(value)) is None:
        if not _has_elements_of_first(value.node):
            return None
        value = value.node.inputs[0]
    return bound


def _bound_of_result(value: Value) -> Size | None:
    """The bound of positions that a node makes itself."""
    node, literal = value.node, literal_of(value)
    if literal is not None:
        is_known = is_integer(value.dtype) and literal.size and literal.min() >= 0
        return int(literal.max()) + 1 if is_known else None
    if node.primitive is OP.iota:
        return _bound_of_counted(*(node.params[k] for k in ("start", "step", "length")))
    if node.primitive in _FINDING:
        x, axis = node.inputs[0].type, node.params["axis"]
        return x.size if axis is None else x.shape[axis]
    return None


def _bound_of_counted(start: Size, step: Size, length: Size) -> Size | None:
    """The bound of numbers that count by a small step, if none is negative."""
    if not isinstance(step, int) or abs(step) > _MOST_STEP:
        return None
    last = start + step * (length - 1)
    least, most = (start, last) if step > 0 else (last, start)
    return most + 1 if less_equal(0, least) is True else None


def _has_elements_of_first(node: Node) -> bool:
    """Whether the results are elements of the first input, in no fewer than 32 bits."""
    is_cast = node.primitive is OP.convert and node.outputs[0].dtype.itemsize >= 4
    return (is_cast or node.primitive in MOVING) and is_integer(node.inputs[0].dtype)
