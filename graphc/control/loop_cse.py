"""Loop CSE: merge a scan with the superset scan that its gradient needs.

The gradient of a scan runs the scan again to get the carry before each step as well.
This superset scan returns all outputs of the first scan, and names it: where a graph
has both, the first is dropped.
"""

from collections.abc import Callable, Iterable, Sequence

from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import rebuild_with
from graphc.ir.graph.walk import ancestors, operands


def merge_scans(graph: Graph) -> Graph:
    """The graph without scans that a superset scan replaces.

    Gradients can no longer be taken of the result: the nodes that rules of gradients
    hold values with are removed.
    """
    if not graph.may_have_bodies and not any(p.for_gradients for p in graph.primitives):
        return graph
    return graph.with_outputs(_drop_gradient_nodes(merge_in_values(graph.outputs)))


def _drop_gradient_nodes(outputs: Sequence[Value]) -> list[Value]:
    replacements: dict[Value, Value] = {}
    for node in ancestors(outputs):
        if node.primitive.for_gradients:
            pairs = zip(node.outputs, node.inputs, strict=False)
            replacements.update((old, replacements.get(new, new)) for old, new in pairs)
        else:
            rebuild_with(node, replacements, node.place)
    return [replacements.get(v, v) for v in outputs]


def merge_in_values(outputs: Sequence[Value]) -> list[Value]:
    """Rebuild values without the scans that a superset scan replaces."""
    nodes = ancestors(outputs)
    inside = set(nodes)
    supersets = {
        node.params["superset_of"].content: node
        for node in nodes
        if node.params.get("superset_of") is not None
    }
    supersets = {old: new for old, new in supersets.items() if old in inside}
    if not supersets:
        return list(outputs)

    def operand_nodes(node: Node) -> list[Node]:
        if node in supersets:
            return [supersets[node]]
        return [v.node for v in operands(node)]

    replacements: dict[Value, Value] = {}
    for node in order_nodes(outputs, operand_nodes):
        if node in supersets:
            new = [replacements.get(v, v) for v in _outputs_from(node, supersets[node])]
            replacements.update(zip(node.outputs, new, strict=True))
        else:
            rebuild_with(node, replacements, node.place)
    return [replacements.get(v, v) for v in outputs]


def _outputs_from(node: Node, superset: Node) -> list[Value]:
    """The outputs of a scan, from a superset scan that may carry and stack more."""
    carries, start = node.params["carries"], superset.params["carries"]
    stop = start + len(node.outputs) - carries
    return [*superset.outputs[:carries], *superset.outputs[start:stop]]


def order_nodes(
    outputs: Iterable[Value], before: Callable[[Node], list[Node]]
) -> list[Node]:
    """The nodes that values depend on, each after the nodes that `before` returns."""
    done: dict[Node, None] = {}
    stack = [v.node for v in outputs][::-1]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        waiting = [n for n in before(node) if n not in done]
        if waiting:
            stack += waiting
        else:
            done[node] = None
            stack.pop()
    return list(done)
