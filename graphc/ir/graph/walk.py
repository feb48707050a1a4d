"""Walks over graphs: iterative, mostly in the order in which the nodes were made."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.ir.graph.nodes import Node, Value

Edges = Callable[["Node"], Iterable["Value"]]


def operands(node: "Node") -> "tuple[Value, ...]":
    """All values that a node needs: its inputs, and the values behind its sizes."""
    return node.inputs + node.demands


def inputs_of(node: "Node") -> "tuple[Value, ...]":
    """The values that a node needs at run time."""
    return node.inputs


def ancestors(values: "Iterable[Value]", edges: Edges = operands) -> "list[Node]":
    """The nodes that `values` depend on, their own included, in topological order."""
    stack = [v.node for v in values]
    seen: set[Node] = set(stack)
    while stack:
        for value in edges(stack.pop()):
            node = value.node
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return sorted(seen, key=attrgetter("serial"))


def users_by_value(
    nodes: "Iterable[Node]", edges: Edges = operands
) -> "dict[Value, list[Node]]":
    """The nodes that take each value, in their order, each once."""
    users: dict[Value, list[Node]] = defaultdict(list)
    for node in nodes:
        for value in dict.fromkeys(edges(node)):
            users[value].append(node)
    return users


def in_program_order(
    nodes: "Iterable[Node]", used_by: "Callable[[Node], Iterable[Node]]"
) -> "list[Node]":
    """Order nodes, inputs left out, as they were made, except those of constants only.

    A node that depends on constants only goes right before the first node that uses it.
    Another program may have made an equal node long before, and the order must not show
    whether it did.
    """
    order = sorted(nodes, key=attrgetter("serial"))
    constant: set[Node] = set()
    for node in order:
        for user in used_by(node):
            if user not in constant and (user.inputs or not user.primitive.inline):
                break
        else:
            constant.add(node)
    if not constant:
        return order
    ordered: dict[Node, None] = {}
    for root in sorted(order, key=constant.__contains__):
        if root in ordered:
            continue
        if constant.isdisjoint(used_by(root)):  # most nodes: nothing to wait for
            ordered[root] = None
            continue
        stack = [root]
        while stack:
            waiting = [n for n in used_by(stack[-1]) if n in constant]
            first = next((n for n in waiting if n not in ordered), None)
            if first is None:
                ordered.setdefault(stack.pop())
            else:
                stack.append(first)
    return list(ordered)


def depth_first(roots: "Iterable[Node]", edges: Edges = operands) -> "list[Node]":
    """The nodes behind `roots`, operands first, in an order set by this walk alone.

    The order of `ancestors` also depends on which nodes other graphs have made before.
    """
    ordered: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(list(roots))]
    while stack:
        node, left = stack.pop()
        if left:
            ordered[node] = None
        elif node not in ordered:
            stack.append((node, True))
            stack += [(v.node, False) for v in reversed(tuple(edges(node)))]
    return list(ordered)
