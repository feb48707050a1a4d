"""Arrays that nothing needs any more, which NumPy programs delete to free memory."""

from collections.abc import Callable, Container, Iterable

from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import operands


def last_uses(
    order: Iterable[Node], keep: Container[Value], resolve: Callable[[Value], Value]
) -> dict[Node, list[Value]]:
    """For each node, the arrays that nothing needs after it, except those to `keep`."""
    last: dict[Value, Node] = {}
    for node in order:
        for value in node.outputs:
            last[value] = node
        for value in operands(node):
            last[resolve(value)] = node
    dead_after: dict[Node, list[Value]] = {}
    for value, node in last.items():
        fixed = value.node.primitive.inline or value.node.primitive is INPUT
        if value not in keep and not fixed:
            dead_after.setdefault(node, []).append(value)
    return dead_after
