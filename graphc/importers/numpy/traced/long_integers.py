"""Check that Python's integers computed from data fit the 64 bits they have in a trace.

Python's integers have any number of bits. Integers computed from sizes keep that here,
since the host computes them. For integers computed from data, each call checks whether
64 bits are enough.
"""

import operator
from collections.abc import Callable, Iterable, Mapping

from graphc.errors import standing_at
from graphc.importers.numpy.traced.memory import require
from graphc.importers.numpy.traced.python_numbers import LARGEST
from graphc.ir.graph.build import INPUT, cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.types import FLOAT64, is_integer

TOO_LONG = "an integer of Python has more than 63 bits: compute with floats"


def _shifted(x: Value, bits: Value) -> Value:
    return x * 2.0**bits


_ON_FLOATS: Mapping[Primitive, Callable[[Value, Value], Value]] = {
    OP.add: operator.add,
    OP.subtract: operator.sub,
    OP.multiply: operator.mul,
    OP.power: operator.pow,
    OP.left_shift: _shifted,
}


def require_64_bits(nodes: Iterable[Node]) -> None:
    """Make calls check that Python's integers computed from data fit 64 bits.

    The nodes are in topological order.
    """
    of_sizes: set[Node] = set()
    for node in nodes:
        is_input = node.primitive is INPUT
        if not is_input and of_sizes.issuperset([v.node for v in node.inputs]):
            of_sizes.add(node)
        elif _computes_integer(node):
            with standing_at(node.place.plain):
                floats = [cast(v, FLOAT64) for v in node.inputs]
                rough = _ON_FLOATS[node.primitive](*floats)
                require(abs(rough) < LARGEST, TOO_LONG)


def _computes_integer(node: Node) -> bool:
    output = node.outputs[0].type
    is_number = output.weak and not output.rank and is_integer(output.dtype)
    return is_number and node.primitive in _ON_FLOATS
