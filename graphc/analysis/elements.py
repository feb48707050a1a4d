"""Ops that compute no number: each element of a result is one of their inputs'.

So a bound of the inputs is one of the results, and no rounding is between them.
"""

from collections.abc import Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP

# Elements of the first input.
MOVING = {
    *(OP.basic_index, OP.broadcast_to, OP.cummax, OP.cummin, OP.dynamic_slice),
    *(OP.expand_dims, OP.full, OP.gather, OP.max, OP.min, OP.partition, OP.positive),
    *(OP.reshape, OP.sort, OP.specify_shape, OP.squeeze, OP.stop_gradient),
    OP.transpose,
}
# Elements of any input.
JOINING = {OP.concatenate, OP.stack, OP.max_from, OP.min_from}
CHOOSING = {OP.maximum, OP.minimum}


def sources_of(node: Node) -> Sequence[Value] | None:
    """The values whose elements the results have; None where it computes others."""
    if node.primitive in MOVING:
        return node.inputs[:1]
    if node.primitive in JOINING or node.primitive in CHOOSING:
        return node.inputs
    return node.inputs[1:] if node.primitive is OP.where else None
