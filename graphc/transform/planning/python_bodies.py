"""Bodies of loops that run in Python, as graphs of their own."""

from graphc.ir.graph.bodies import Body, runs_in_python
from graphc.ir.graph.nodes import Graph, Node, Value, sizes_needed
from graphc.ir.sizes.dims import Symbol
from graphc.transform.loops.doubling import with_doubling_loops


def body_graph(loop: Node) -> tuple[Graph, tuple[Symbol, ...], Node, Value]:
    """Return the graph of one step, and why it cannot be compiled as a whole.

    The sizes in the graph are known from its inputs and from the size parameters, which
    come second. The reason is a node within, then the value of the size that it needs.
    """
    body: Body = loop.params["body"].content
    graph, _ = with_doubling_loops(body.graph)
    return graph, body.size_params, *_find_inner_size(body)


def _find_inner_size(body: Body) -> tuple[Node, Value]:
    """The first node that needs a size computed within, and the value of that size."""
    for node in body.nodes:
        for value in sizes_needed(node):
            if value.symbol in body.computed_sizes:
                return node, value
    node = next(filter(runs_in_python, body.nodes))
    return _find_inner_size(node.params["body"].content)
