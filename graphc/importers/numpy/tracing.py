"""Trace a function of NumPy into the graph of its values, for sizes of a pattern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax

from graphc.errors import graph_error, standing_at
from graphc.importers.derivatives import Differentiated
from graphc.importers.jax.call.alike import are_alike
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.sizes.pattern import SizePattern
from graphc.importers.jax.trace.answers import Answers, answering
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.decisions import Decisions
from graphc.importers.jax.trace.in_order import in_order
from graphc.importers.jax.trace.subject import derivatives_in_order, wrt_leaves
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.numpy.libraries import explaining_libraries
from graphc.importers.numpy.names import names_of_user, numpy_of_values
from graphc.importers.numpy.traced.arrays import array_of_argument
from graphc.importers.numpy.traced.draws import defined_at, no_draws
from graphc.importers.numpy.traced.long_integers import require_64_bits
from graphc.importers.numpy.traced.memory import require_python_fits, values_computed
from graphc.importers.numpy.traced.refusals import needing_numbers
from graphc.ir.graph.build import as_strong_value, variable
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import symbol_dim
from graphc.ir.sizes.polynomials import Symbol
from graphc.ir.types import DType, TensorType
from graphc.ops.common.conditions import Checking
from graphc.transform.planning.bounds_checks import find_unread_nodes, with_checks_of


@dataclass(frozen=True)
class NumpyTrace:
    """The graph of a function of its leaves; `tree` is the structure of its results.

    `unread` holds nodes that the function computes although no result needs them. The
    trace is valid for all sizes by which the function takes the same `decisions`.
    """

    graph: Graph
    tree: Any
    unread: Sequence[Node]
    decisions: Decisions

    def checked(self, check: Checking) -> Graph:
        """The graph; if `check` is set, with the checks that no result needs."""
        return with_checks_of(self.graph, self.unread, check) if check else self.graph

    def is_like(self, other: "NumpyTrace") -> bool:
        """Whether another trace provably computes the same at the same sizes."""
        facts, other_facts = ({*map(str, x.decisions.taken)} for x in (self, other))
        if self.types != other.types or facts != other_facts:
            return False
        if any(decision.is_long for decision in self.decisions.taken):
            return False
        return are_alike(self.checked(True), other.checked(True))

    @property
    def types(self) -> tuple[object, list[tuple[DType, int]]]:
        """The structure of the results, with their dtypes and ranks."""
        return self.tree, [(v.dtype, v.type.rank) for v in self.graph.outputs]


def trace_function(
    function: Callable[..., object],
    call: JaxCall,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    sizes: Mapping[str, int] | None = None,
    words: Mapping[str, str] = MappingProxyType({}),
) -> NumpyTrace:
    """Trace a function for arguments whose sizes follow a pattern.

    Where the function decides by sizes, the trace is that for `sizes`; `words` says how
    the user knows them. Raises GraphError, at the user's line, where the function does
    what values cannot do.
    """
    symbols = pattern.new_symbols()
    answers = None if sizes is None else Answers(symbols, sizes, words)
    inputs = inputs_of(pattern, symbols, specs, names)
    args, named = call.arguments(list(map(array_of_argument, inputs)))
    how = function if isinstance(function, Differentiated) else None
    called = how.function if how else function
    with numpy_of_values(), needing_numbers(), values_computed() as values:
        with (
            no_draws(called),
            explaining_libraries(),
            answering(answers),
            names_of_user(called),
        ):
            results = called(*args, **named)
        leaves, tree = jax.tree.flatten(in_order(results))
        with standing_at(defined_at(called)):
            outputs = [_output_of_leaf(leaf) for leaf in leaves]
        nodes = ancestors([*outputs, *values])
        require_python_fits(nodes)
        require_64_bits(nodes)
        if how is not None:
            wrt = [inputs[i] for i in wrt_leaves(call, how)]
            outputs = derivatives_in_order(how, outputs, wrt)
            tree = jax.tree.structure(in_order(_derivatives(how, tree, args)))
    graph = Graph.of(inputs, outputs)
    decisions = Decisions(symbols) if answers is None else answers.decisions
    return NumpyTrace(graph, tree, find_unread_nodes(graph, values), decisions)


def _output_of_leaf(leaf: object) -> Value:
    if isinstance(leaf, (str, bytes)):
        problem = "the function returns text, but results must be arrays or numbers"
        hint = "return it without the text, or print with gt.debug_print"
        raise graph_error(problem, op="jit", got=repr(leaf), hint=hint)
    return as_strong_value(leaf)


def inputs_of(
    pattern: SizePattern,
    symbols: Mapping[str, Symbol],
    specs: Sequence[Spec],
    names: Sequence[str],
) -> list[Value]:
    """Make new variables for the leaves of a call."""
    sizes = {name: symbol_dim(symbol) for name, symbol in symbols.items()}
    variables, named = [], JaxSizes(sizes)
    for name, spec, shape in zip(names, specs, pattern.shapes, strict=True):
        sizes_of_axes = tuple(named.text(n) if isinstance(n, str) else n for n in shape)
        variables.append(
            variable(name, TensorType(spec.dtype, sizes_of_axes, spec.weak))
        )
    return variables


def _derivatives(how: Differentiated, tree: Any, args: Sequence[object]) -> object:
    """A tree with the structure that the derivatives of results in `tree` have."""
    several = not isinstance(how.argnums, int)
    slopes = tuple(args[i] for i in how.argnums) if several else args[how.argnums]  # type: ignore[union-attr,index]
    inner = jax.tree.structure(in_order(slopes))
    if how.derivative in ("jacobian", "hessian"):
        outer = tree if how.derivative == "jacobian" else inner
        slopes = outer.unflatten([slopes] * outer.num_leaves)
    results = tree.unflatten([object()] * tree.num_leaves)  # as JAX does itself
    if how.derivative == "value_and_grad":
        return results, slopes
    return (slopes, results[1]) if how.has_aux else slopes
