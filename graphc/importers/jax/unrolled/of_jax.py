"""Graphs of JAX's traces at several sizes, in which loops of Python are unrolled."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

import jax
from jax.extend.core import Jaxpr
from jax.extend.core.primitives import (
    dynamic_slice_p,
    dynamic_update_slice_p,
    gather_p,
    scatter_p,
    slice_p,
)

from graphc.importers.jax.read.jaxprs import equations, largest_result
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
from graphc.importers.jax.unrolled.alone import SMALL_VALUE
from graphc.importers.jax.unrolled.by_size import has_loops
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Symbol, symbol_dim
from graphc.ir.types import TensorType

# JAX 0.12 reads all rows that Python asks for by one "unstack".
READS = {p.name for p in (slice_p, dynamic_slice_p, gather_p)} | {"unstack"}
WRITES = scatter_p, dynamic_update_slice_p
LEAST_EQUATIONS = 200  # which XLA may compile for seconds
LEAST_ALIKE = 20  # writes, or reads of one array, that may be those of a loop


def may_have_loops(jaxpr: Jaxpr) -> bool:
    """Whether a trace may have steps of Python's loops that are as fast in a loop.

    On other devices than a CPU, each step of a loop takes long to start.
    """
    if jaxpr.effects or jax.default_backend() != "cpu":
        return False
    eqns = [*equations(jaxpr)]
    if len(eqns) < LEAST_EQUATIONS:
        return False
    reads = [eqn for eqn in eqns if eqn.primitive.name in READS]
    writes = [eqn for eqn in eqns if eqn.primitive in WRITES]
    arrays = Counter(id(eqn.invars[0]) for eqn in reads for _ in eqn.outvars)
    if max((len(writes), *arrays.values())) < LEAST_ALIKE:
        return False
    moves = {*map(id, reads), *map(id, writes)}
    computed = Counter(largest_result(eqn) for eqn in eqns if id(eqn) not in moves)
    repeated = [n for n, times in computed.items() if times >= LEAST_ALIKE]
    return max(repeated, default=0) <= max((SMALL_VALUE, *map(largest_result, reads)))


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


def shows_loops(subject: Subject, trace: TracedFunction, names: Sequence[str]) -> bool:
    """Whether a trace at sizes that are numbers has steps of Python's loops."""
    with suppress(Unsupported):
        return has_loops(exact_source(subject, trace, names).graph)
    return False


def graph_like(
    source: ImportedGraph, subject: Subject, trace: TracedFunction, names: Sequence[str]
) -> Graph:
    """The graph of a trace that captures the same as `source`. Raises Unsupported."""
    other = exact_source(subject, trace, names)
    if not same_arrays(source.captured, other.captured):
        raise Unsupported(UNLIKE)
    return other.graph


def inputs_at(
    pattern: SizePattern, symbols: Mapping[str, Symbol], graph: Graph
) -> list[Value]:
    """The inputs of a graph, with the sizes that a pattern names for its arguments."""
    named = JaxSizes({name: symbol_dim(symbol) for name, symbol in symbols.items()})
    inputs = list[Value]()
    for value, shape in zip(graph.inputs, pattern.shapes, strict=False):
        words = value.type.shape[len(shape) :]  # of the keys of random numbers
        known = [named.text(n) if isinstance(n, str) else n for n in shape]
        type = TensorType(value.dtype, (*known, *words), value.type.weak)
        inputs.append(variable(value.name, type))
    return [*inputs, *graph.inputs[len(inputs) :]]
