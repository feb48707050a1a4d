"""The outputs of a NumPy program that are copied before they are returned.

NumPy returns views where it can: of an argument, of a constant of the program, of an
array that is another output as well, or of an array that has one element in many
places. Whoever wrote to such a result would change something else. The `views` of
primitives say which values may be views, and of what; an array that nothing else holds
is returned without a copy.
"""

from collections.abc import Container, Iterable, Iterator

from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.op import views_of_inputs
from graphc.ir.graph.walk import ancestors

ViewEdges = dict[Value, list[Value]]


def copied_outputs(graph: Graph) -> frozenset[int]:
    """The positions of the outputs that must be copied.

    Of the outputs that may share memory, one is returned uncopied: preferably a whole
    array rather than a part of it, otherwise the first.
    """
    viewed, viewers = _view_edges(graph)
    held_values = filter(_is_retained, (*graph.outputs, *viewers))
    arguments = [v for v in graph.inputs if v.type.rank]  # others are scalars
    fixed = _reach((*arguments, *held_values), viewers)
    handed_out: set[Value] = set()
    copied = set()
    outputs = graph.outputs
    for i in sorted(range(len(outputs)), key=lambda i: outputs[i] in viewed):
        if outputs[i] in fixed:
            copied.add(i)
            continue
        aliases = _reach([outputs[i]], viewed, handed_out)
        if not aliases.isdisjoint(handed_out):
            copied.add(i)
        handed_out |= aliases
    return frozenset(copied)


def _view_edges(graph: Graph) -> tuple[ViewEdges, ViewEdges]:
    """For each value, the values that it may view, and the values that may view it."""
    viewed: ViewEdges = {}
    viewers: ViewEdges = {}
    for view, value in _view_pairs(graph):
        viewed.setdefault(view, []).append(value)
        viewers.setdefault(value, []).append(view)
    return viewed, viewers


def _view_pairs(graph: Graph) -> Iterator[tuple[Value, Value]]:
    for node in with_inner_nodes(ancestors(graph.outputs)):
        primitive = node.primitive
        yield from (views_of_inputs if primitive.passes_on else primitive.views)(node)


def _is_retained(value: Value) -> bool:
    """Whether the program keeps `value`, or `value` has one element in many places."""
    primitive = value.node.primitive
    return primitive.stretches or (primitive is CONSTANT and value.type.rank > 0)


def _reach(
    start: Iterable[Value], edges: ViewEdges, end: Container[Value] = ()
) -> set[Value]:
    """The values along `edges` from `start`; the walk stops at values in `end`."""
    stack = list(start)
    reached_values = set(stack)
    while stack:
        value = stack.pop()
        if value in end:
            continue
        new = [v for v in edges.get(value, ()) if v not in reached_values]
        reached_values.update(new)
        stack += new
    return reached_values
