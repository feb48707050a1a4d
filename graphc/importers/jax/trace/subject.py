"""A function as it is read: traced by JAX, and differentiated if it is a gradient."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, Signature
from itertools import accumulate
from typing import Any

from graphc.importers.derivatives import Differentiated
from graphc.importers.jax.read.libraries import lowered
from graphc.importers.jax.read.settings import for_many_sizes
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.tracing import (
    ImportedGraph,
    Spec,
    TracedFunction,
    import_traced,
    trace_function,
)
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Size
from graphc.ir.types import is_inexact
from graphc.transform.derivatives.gradients import grad, jacobian


@dataclass(frozen=True)
class Subject:
    """A function, and the call whose leaves are its flat arguments.

    If it `keeps_rules`, JAX must find the derivative rules of functions in the result.
    """

    function: Callable[..., Any]
    call: JaxCall
    keeps_rules: bool = False

    @cached_property
    def flat(self) -> Callable[..., object]:
        """The function, taking the leaves."""
        return self._function_of_leaves(self.function)

    def read(
        self,
        specs: Sequence[Spec],
        least: int | None = None,
        recorder: Recorder | None = None,
    ) -> TracedFunction:
        """Trace what the graph is made of; for a gradient, the original function."""
        how = self.differentiated
        read = self.flat if how is None else self._function_of_leaves(how.function)
        with for_many_sizes():
            return trace_function(read, specs, least, recorder)

    def comparable(self, trace: TracedFunction) -> TracedFunction:
        """A trace at numbers in which every size is in a known place."""
        if self.needs_rules:
            return trace
        return replace(trace, jaxpr=lowered(trace.jaxpr))

    @property
    def needs_rules(self) -> bool:
        """Whether reading depends on the derivative rules of functions."""
        return self.keeps_rules or self.differentiated is not None

    def results(self, read: TracedFunction, specs: Sequence[Spec]) -> TracedFunction:
        """The trace that gives the results, at sizes that are numbers."""
        return trace_function(self.flat, specs) if self.differentiated else read

    @property
    def differentiated(self) -> Differentiated | None:
        """The function if it is a derivative to be taken here, else None."""
        is_gradient = isinstance(self.function, Differentiated)
        return self.function if is_gradient else None  # type: ignore[return-value]

    def _function_of_leaves(
        self, function: Callable[..., object]
    ) -> Callable[..., object]:
        """Make a function of leaves that JAX reports by the user's line and names."""

        def flat(*leaves: object) -> object:
            args, named = self.call.arguments(leaves)
            return function(*args, **named)

        flat.__wrapped__ = function  # type: ignore[attr-defined]
        flat.__signature__ = Signature(  # type: ignore[attr-defined]
            [Parameter(n, Parameter.POSITIONAL_ONLY) for n in self.call.names(function)]
        )
        return flat

    def graph(
        self, read: TracedFunction, sizes: Mapping[str, Size], inputs: Sequence[Value]
    ) -> ImportedGraph:
        """Read the graph for these inputs. Raises Unsupported if that is impossible."""
        how = self.differentiated
        if how is None:
            keeps_rules = self.keeps_rules
            return import_traced(
                read, sizes, inputs, keeps_rules=keeps_rules, may_act=True
            )
        source = import_traced(read, sizes, inputs, differentiates=True)
        primal = source.graph
        wrt = [inputs[i] for i in wrt_leaves(self.call, how)]
        if not all(is_inexact(v.dtype) for v in wrt):
            raise Unsupported("derivatives are taken with respect to floats")
        outputs = derivatives_in_order(how, primal.outputs, wrt)
        return replace(source, graph=Graph.of(primal.inputs, outputs))


def wrt_leaves(call: JaxCall, how: Differentiated) -> list[int]:
    """The leaves of a call with respect to which a function is differentiated.

    Raises Unsupported for a static argument.
    """
    counts = [arg.num_leaves for arg in call.form.children()[0].children()]
    ends = list(accumulate(counts))
    statics = {where for where, _ in call.statics}
    numbers = (how.argnums,) if isinstance(how.argnums, int) else how.argnums
    positions = [i % len(counts) for i in numbers]
    if not statics.isdisjoint(positions):
        raise Unsupported("it is differentiated with respect to a static argument")
    return [leaf for i in positions for leaf in range(ends[i] - counts[i], ends[i])]


def derivatives_in_order(
    how: Differentiated, outputs: Sequence[Value], wrt: list[Value]
) -> list[Value]:
    """The derivatives of the outputs, in the order of JAX."""
    if how.derivative == "jacobian" and not how.has_aux:
        blocks = jacobian(list(outputs), wrt, disconnected="zero")
        return [block for row in blocks for block in row]
    cost, *aux = outputs
    if how.derivative == "jacobian" or cost.type.rank:
        raise Unsupported("a gradient needs a scalar result, a Jacobian no aux")
    slopes: list[Value] = grad(cost, wrt, disconnected="zero")
    if how.derivative == "value_and_grad":
        return [cost, *aux, *slopes]
    if how.derivative == "hessian":
        rows = jacobian(slopes, wrt, disconnected="zero")
        slopes = [block for row in rows for block in row]
    return [*slopes, *aux]
