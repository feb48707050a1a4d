"""Graphs as text and arrays: what files of models and pickles hold of a graph."""

from collections.abc import Sequence
from typing import NamedTuple

from graphc.errors import graph_error
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.build import constant, literal_of, variable
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.replay import substituted
from graphc.ir.graph.walk import ancestors
from graphc.ir.text.printer import has_text, to_text
from graphc.ir.types import NDArray, is_inexact

LEAST = 1024  # bytes from which a constant is an input in place of a literal


class Lifted(NamedTuple):
    """A graph with its large constants as inputs, after its own; and the constants."""

    graph: Graph
    arrays: list[NDArray]


def lift_constants(graph: Graph) -> Lifted:
    """Make inputs of a graph's large constants; integers may be sizes, and stay."""
    values = [v for n in ancestors(graph.outputs) for v in n.outputs]
    literals = [(v, literal_of(v)) for v in values if is_inexact(v.dtype)]
    large = [(v, a) for v, a in literals if a is not None and a.nbytes >= LEAST]
    names = tuple([f"constant_{i}" for i in range(len(large))])
    pairs = zip(names, large, strict=True)
    new = {v: variable(name, v.type) for name, (v, _) in pairs}
    outputs = tuple(substituted(graph.outputs, new, {}))
    inputs = (*graph.inputs, *new.values())
    lifted_graph = Graph(
        inputs, outputs, (*graph.input_names, *names), graph.output_names
    )
    return Lifted(lifted_graph, [a for _, a in large])


def restore_constants(graph: Graph, arrays: Sequence[NDArray]) -> Graph:
    """Put constants, which were lifted, back in the place of the last inputs."""
    count = len(graph.inputs) - len(arrays)
    new = dict(zip(graph.inputs[count:], map(constant, arrays), strict=True))
    outputs = tuple(substituted(graph.outputs, new, {}))
    names = graph.input_names[:count]
    return Graph(graph.inputs[:count], outputs, names, graph.output_names)


def text_of(graph: Graph, op: str, hint: str) -> str:
    """Print a graph as text. Raises GraphError where a node has none."""
    for node in with_inner_nodes(ancestors(graph.outputs)):
        if not has_text(node):
            problem = f"{node.primitive.name} holds a function, and has no text"
            raise graph_error(problem, op=op, hint=hint, where=node.place)
    return to_text(graph)
