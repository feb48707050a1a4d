"""The choice of the driver's nodes that NumPy, not XLA, computes in a model file."""

from collections.abc import Iterable

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.types import is_float
from graphc.ops.common.padding import ELEMENTS
from graphc.ops.elementwise.declare import CONVERT
from graphc_serving.kinds import FLOATS
from graphc_serving.ufuncs import UFUNCS


def is_of_numpy(node: Node) -> bool:
    """Whether a step of a file computes a node by NumPy, to the last bit as here."""
    is_of_words = node.primitive is CONVERT or function_of(node) in UFUNCS
    return is_of_words and _are_plain((*node.inputs, *node.outputs))


def function_of(node: Node) -> str | None:
    """Return the function of a model file that a node computes, if there is one.

    Powers and shifts in a file are those of Python's numbers. NumPy computes powers of
    arrays otherwise than powers of its scalars, and the driver may have either.
    """
    function, output = ELEMENTS.find(node.primitive), node.outputs[0].type
    if function is None or node.primitive is CONVERT:
        return None
    if node.primitive in (OP.power, OP.left_shift):
        name = "power" if node.primitive is OP.power else "shift"
        return name if output.weak and not output.rank else None
    return function.__name__


def rounds_otherwise(node: Node) -> bool:
    """Whether XLA, which computes a node for files, may differ in the last bit.

    A size computed from the result could then differ too: XLA's logarithm of 8 to the
    base of 2 is less than 3.
    """
    return node.primitive.rounding == "many" and any(
        is_float(v.dtype) for v in node.outputs
    )


def _are_plain(values: Iterable[Value]) -> bool:
    """Whether all values are of NumPy's own dtypes, and all literals are numbers."""
    return all(map(_is_plain, values))


def _is_plain(value: Value) -> bool:
    dtype, literal = value.dtype, literal_of(value)
    if literal is not None and (literal.ndim or dtype.kind == "b"):
        return False
    return dtype.kind in "biu" or dtype.name in FLOATS
