"""Integers of 8 bits in programs for JAX: how they avoid a mistake of XLA.

On CPUs, XLA (of JAX 0.10 to 0.12) may do 8-bit arithmetic within a reduction: one that
reads the results, as they are or as floats, or one whose results the arithmetic reads.
Numbers that do not fit then become the nearest that fits: `x * x` of 100 is 127, and
not 16. Reductions of integers of 16 bits and more are kept apart from the arithmetic,
and so is what is converted by way of such integers.
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


def may_overflow(nodes: Iterable[Node]) -> bool:
    """Whether a program computes 8-bit integers that may overflow."""
    fit = OP.maximum, OP.minimum, OP.where  # results fit if the operands do
    return any(
        node.primitive.elementwise
        and node.primitive not in fit
        and any(map(is_narrow, node.outputs))
        for node in nodes
    )


def is_converted_apart(node: Node) -> bool:
    """Whether a node converts computed 8-bit integers to floats."""
    x, dtype = node.inputs[0], node.outputs[0].dtype
    reads_apart = is_integer(dtype) or dtype == BOOL
    return not reads_apart and is_narrow(x) and _is_computed(x)


def converted_text(p: Printing) -> str:
    """The text of a conversion's input, made 16 bits wide first if XLA needs that."""
    is_apart = p.xp != "np" and is_converted_apart(p.node)
    return p.inputs[0] + (_WIDER if is_apart else "")


def widened_text(p: Printing, array: str) -> tuple[str, str]:
    """The text of an extreme's operand, and a suffix for its result.

    `array` is the text of the first input's elements. If XLA would go wrong, it is
    widened, and the suffix converts the result back.
    """
    x = p.node.inputs[0]
    if p.xp == "np" or not is_narrow(x) or not p.wraps:
        return array, ""
    return array + _WIDER, f'.astype("{x.dtype.name}")'


def _is_computed(x: Value) -> bool:
    """Whether elements are computed, rather than those of an argument moved about."""
    node = x.node
    while len(node.inputs) == 1 and not node.primitive.elementwise:
        node = node.inputs[0].node
    return bool(node.inputs) or (node.primitive is INPUT and is_body_input(node))
