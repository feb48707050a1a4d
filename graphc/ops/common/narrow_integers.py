"""Integers of 8 bits in texts for JAX: XLA is kept from a mistake.

On CPUs, XLA (of JAX 0.10 to 0.12) may do arithmetic of 8 bits within a reduction that
reads it, of itself or of floats, or that it reads. Numbers that do not fit then become
the nearest that fits: `x * x` of 100 is 127, and not 16. Reductions of integers of 16
bits and more are done apart, and so is what is converted by way of these.
"""

from collections.abc import Iterable

from graphc.ir.graph.build import INPUT, is_body_input
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Printing
from graphc.ir.primitives import OP
from graphc.ir.types import BOOL, is_integer

_WIDER = '.astype("int16")'


def is_narrow(value: Value) -> bool:
    """Whether the elements are integers of 8 bits."""
    return is_integer(value.dtype) and value.dtype.itemsize == 1


def wraps(nodes: Iterable[Node]) -> bool:
    """Whether a program computes integers of 8 bits that may not fit."""
    fit = OP.maximum, OP.minimum, OP.where  # if their operands do
    return any(
        node.primitive.elementwise
        and node.primitive not in fit
        and any(map(is_narrow, node.outputs))
        for node in nodes
    )


def is_converted_apart(node: Node) -> bool:
    """Whether a conversion is of computed integers of 8 bits to floats."""
    x, dtype = node.inputs[0], node.outputs[0].dtype
    reads_apart = is_integer(dtype) or dtype == BOOL
    return not reads_apart and is_narrow(x) and _is_computed(x)


def apart_from_reductions(p: Printing) -> str:
    """The first input, which is converted, as the text may convert it."""
    is_apart = p.xp != "np" and is_converted_apart(p.node)
    return p.inputs[0] + (_WIDER if is_apart else "")


def of_wider(p: Printing, array: str) -> tuple[str, str]:
    """The text of elements of the first input, for an extreme, and what ends that."""
    x = p.node.inputs[0]
    if p.xp == "np" or not is_narrow(x) or not p.wraps:
        return array, ""
    return array + _WIDER, f'.astype("{x.dtype.name}")'


def _is_computed(x: Value) -> bool:
    """Whether elements are more than those of an argument at other places."""
    node = x.node
    while len(node.inputs) == 1 and not node.primitive.elementwise:
        node = node.inputs[0].node
    return bool(node.inputs) or (node.primitive is INPUT and is_body_input(node))
