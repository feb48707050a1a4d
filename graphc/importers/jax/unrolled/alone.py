"""The graph of one trace, whose sizes are numbers, with its loops folded."""

import math
from collections.abc import Sequence

from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.unrolled.by_size import template
from graphc.ir.graph.bodies import bodies_of, with_inner_nodes
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.primitives import OP

SMALL_VALUE = 2**12  # elements of a value that stays in the nearest cache


def folded(graph: Graph, inputs: Sequence[Value]) -> Graph | None:
    """Fold the loops in a graph, which then has far fewer nodes.

    Returns None if more than half of the nodes remain, or if a loop would be slower
    than its steps.
    """
    try:
        shorter = template([graph], [{}], 0, lambda _: inputs).graph
    except Unsupported:
        return None
    if 2 * len(shorter.nodes) > len(graph.nodes):
        return None
    return shorter if all(map(_is_as_fast, shorter.nodes)) else None


def _is_as_fast(node: Node) -> bool:
    """Whether a loop takes no longer than its steps one after another.

    XLA fuses steps, between which nothing is written then. A loop writes the values
    that it carries. These stay in a cache if they are small, and cost little beside
    rows of the same size that each step reads or gives.
    """
    if node.primitive is not OP.scan:
        return True
    steps = node.params["length"]
    inside = with_inner_nodes(_nodes_of_step(node))
    results = (v for n in inside for v in n.outputs)
    largest = max((_elements(v, steps) for v in results), default=0)
    rows = max(_elements(v, steps) for v in (*node.inputs, *node.outputs)) // steps
    return largest <= max(rows, SMALL_VALUE)


def _nodes_of_step(node: Node) -> list[Node]:
    (body,) = bodies_of(node)
    return body.nodes


def _elements(value: Value, steps: int) -> int:
    """The number of elements, if a size that differs between steps is their number."""
    return math.prod(n if isinstance(n, int) else steps for n in value.type.shape)
