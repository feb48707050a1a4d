"""Graphs of JAX's traces at several sizes, in which loops of Python are unrolled."""

from collections.abc import Mapping, Sequence

from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import Unsupported, reading
from graphc.importers.jax.sizes.pattern import SizePattern
from graphc.importers.jax.sizes.same_equations import same_arrays
from graphc.importers.jax.sizes.samples import UNLIKE
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import (
    ImportedGraph,
    TracedFunction,
    inputs_of,
)
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType


def exact_source(
    subject: Subject, trace: TracedFunction, names: Sequence[str]
) -> ImportedGraph:
    """Read a trace at sizes that are numbers. Raises Unsupported."""
    inputs = inputs_of(trace, {}, names)
    with reading():
        source = subject.graph(subject.comparable(trace), {}, inputs)
    if source.foreign or source.acts:
        raise Unsupported(UNLIKE)
    return source


def graph_like(
    source: ImportedGraph, subject: Subject, trace: TracedFunction, names: Sequence[str]
) -> Graph:
    """The graph of a trace that captures the same as `source`. Raises Unsupported."""
    other = exact_source(subject, trace, names)
    if not same_arrays(source.captured, other.captured):
        raise Unsupported(UNLIKE)
    return other.graph


def inputs_at(
    pattern: SizePattern, sizes: Mapping[str, Size], graph: Graph
) -> list[Value]:
    """The inputs of a graph, with the sizes that a pattern names for its arguments."""
    named = JaxSizes(sizes)
    inputs = list[Value]()
    for value, shape in zip(graph.inputs, pattern.shapes, strict=False):
        words = value.type.shape[len(shape) :]  # of the keys of random numbers
        known = [named.text(n) if isinstance(n, str) else n for n in shape]
        type = TensorType(value.dtype, (*known, *words), value.type.weak)
        inputs.append(variable(value.name, type))
    return [*inputs, *graph.inputs[len(inputs) :]]
