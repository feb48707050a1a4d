"""The work of nodes: about how many operations they take."""

import numpy as np

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, evaluate_equal
from graphc.rewriting.loops.find.contractions import PRODUCTS

HEAVY = (*PRODUCTS, OP.conv)
EXTREMES = (OP.max, OP.min, OP.max_from, OP.min_from, OP.peak)
REDUCTIONS = frozenset({
    *(*EXTREMES, OP.sum, OP.prod, OP.all, OP.any, OP.count_nonzero),
    *(OP.sum_of_squares, OP.argmax, OP.argmin),
})  # fmt: skip
TYPICAL = 64  # the size taken for one that is not known


def work_of(node: Node) -> float:
    """Estimate the number of operations that a node takes."""
    sizes = [typical_size(v.type.size) for v in (*node.inputs, *node.outputs)]
    if node.primitive in HEAVY:
        return float(np.sqrt(np.prod(np.array(sizes, float))))
    return float(max(sizes))


def typical_size(size: Size) -> int:
    """Return a size as an integer, taking `TYPICAL` for each symbol in it."""
    return evaluate_equal(size, TYPICAL)


def typical_bytes(value: Value) -> int:
    """Estimate the bytes of a value."""
    return typical_size(value.type.nbytes)
