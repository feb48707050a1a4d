"""Ops that compute no new numbers: each element of a result is an element of an input.

So a bound of the inputs is a bound of the results, and nothing is rounded in between.
"""

from collections.abc import Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP

# Each element of the result is one of the first input.
MOVING = {
    *(OP.basic_index, OP.broadcast_to, OP.cummax, OP.cummin, OP.dynamic_slice),
    *(OP.expand_dims, OP.full, OP.gather, OP.max, OP.min, OP.partition, OP.positive),
    *(OP.reshape, OP.sort, OP.specify_shape, OP.squeeze, OP.stop_gradient),
    OP.transpose,
}
# Each element of the result is one of some input.
JOINING = {OP.concatenate, OP.stack, OP.max_from, OP.min_from}
CHOOSING = {OP.maximum, OP.minimum}


def sources_of(node: Node) -> Sequence[Value] | None:
    """The values whose elements the results have; None where `node` computes others."""
    if node.primitive in MOVING:
        return node.inputs[:1]
    if node.primitive in JOINING or node.primitive in CHOOSING:
        return node.inputs
    return node.inputs[1:] if node.primitive is OP.where else None
