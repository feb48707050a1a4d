"""Walks over graphs: iterative, in the order in which nodes were made."""

from collections.abc import Callable, Iterable
from operator import attrgetter

from graphc.ir.graph import Node, Value

Edges = Callable[[Node], Iterable[Value]]


def operands(node: Node) -> tuple[Value, ...]:
    """All values that a node needs: its inputs, and those that give it sizes."""
    return node.inputs + node.demands


def inputs_of(node: Node) -> tuple[Value, ...]:
    """The values that a node needs at run time."""
    return node.inputs


def ancestors(values: Iterable[Value], edges: Edges = operands) -> list[Node]:
    """The nodes that `values` depend on, themselves included, in topological order."""
    stack = [v.node for v in values]
    seen: set[Node] = set(stack)
    while stack:
        for value in edges(stack.pop()):
            node = value.node
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return sorted(seen, key=attrgetter("serial"))
