"""The lines of a program: a node that other functions build too has theirs first.

Equal nodes are one, and it has the line that built it first. The program of a second
function is rebuilt from where it shares such nodes, on copies with its own lines.
"""

from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import renewed
from graphc.ir.graph.walk import operands


def on_its_lines(graph: Graph) -> Graph:
    """The program, with each node at a line of the functions that it is made of.

    These are the functions of nodes that no other function builds. Of a node that none
    of these builds, the function that built it last is the one that is being compiled.
    """
    nodes = graph.nodes
    if not any([node.askers for node in nodes]):
        return graph
    functions = {n.place.function for n in nodes if n.inputs and not n.askers}
    replacements: dict[Value, Value] = {}
    for node in nodes:
        place = _line(node, functions) if node.askers else node.place
        if any([v in replacements for v in operands(node)]):
            moved = renewed(node, replacements, place)
        elif place is not node.place:
            moved = _copied(node, place)
        else:
            continue
        replacements.update(zip(node.outputs, moved.outputs, strict=True))
    return graph.giving(replacements.get(v, v) for v in graph.outputs)


def _line(node: Node, functions: set[tuple[str, ...]]) -> SourceLocation:
    """The line of a node in these functions, the first or last; else the last one."""
    for place in (node.place, *reversed(node.askers)):
        if place.function in functions:
            return place
    return node.askers[-1]


def _copied(node: Node, place: SourceLocation) -> Node:
    """The same node at another line: one that is shared with nothing."""
    types = tuple([value.type for value in node.outputs])
    with standing_at(place):
        copy = Node(node.primitive, node.inputs, node.params, types, node.guards)
    copy.serial = node.serial  # programs keep the order in which they were written
    for value, new in zip(node.outputs, copy.outputs, strict=True):
        new.sizes, new.derivation = value.sizes, value.derivation
    return copy
