"""One compiled program for all sizes of a pattern."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.dtypes
import numpy as np
from jax.extend.core.primitives import convert_element_type_p

from graphc.errors import GraphError
from graphc.importers.jax.alike import agree, alike
from graphc.importers.jax.arguments import JaxCall
from graphc.importers.jax.jaxprs import array_of
from graphc.importers.jax.pattern import ShapesOfCall, SizePattern, shapes_of
from graphc.importers.jax.subject import Subject
from graphc.importers.jax.template import Template, template
from graphc.importers.jax.tracing import (
    Imported,
    Spec,
    TracedFunction,
    imported,
    inputs_of,
    retracing,
    symbols_of,
)
from graphc.importers.jax.unsupported import Unsupported
from graphc.ir.dims import Size, symbol_dim
from graphc.ir.polynomials import Symbol
from graphc.rewriting.rule import Rules
from graphc.runtime.arguments import Backend
from graphc.runtime.compile import function
from graphc.runtime.function import Function
from graphc.runtime.pipeline import Jit


@dataclass(frozen=True)
class Options:
    """How `graphc.jit` compiles; see there."""

    dims: Any
    rewrites: Rules
    backend: Backend


@dataclass(frozen=True)
class OfCall:
    """The numbers of the trace of a call, and the structure of its results."""

    numbers: list[Any]
    tree: Any


@dataclass(frozen=True)
class JaxProgram:
    """A function for all sizes of a pattern, as a graph and compiled."""

    pattern: SizePattern
    traced: TracedFunction
    told: TracedFunction  # of the results
    source: Imported
    compiled: Function
    template: Template | None = None
    own: dict[ShapesOfCall, "OfCall"] = field(default_factory=dict)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Equations that JAX runs in it, and why."""
        return self.source.foreign

    def __call__(self, call: JaxCall, specs: Sequence[Spec]) -> Any:
        """The results of a call, in their structure."""
        given, tree = [*call.arrays(specs), *self.source.captured], self.told.tree
        if self.template is not None:
            own = self.own[shapes_of(specs)]
            given, tree = [*given, *own.numbers], own.tree
        found = self.compiled(*given)
        return jax.tree.unflatten(tree, restored(found, self.told))

    def admits(self, subject: Subject, given: ShapesOfCall, specs: list[Spec]) -> bool:
        """Whether the template describes what JAX traces for a call of these shapes."""
        assert self.template is not None
        if given not in self.own:
            sizes = self.pattern.sizes(given) or {}
            read = subject.read(specs)
            try:
                numbers = self.template.numbers(read.jaxpr, sizes)
            except Unsupported:
                return False
            self.own[given] = OfCall(numbers, subject.results(read, specs).tree)
        return True

    def agrees(self, direct: TracedFunction, sizes: Mapping[str, int]) -> bool:
        """Whether it computes at some sizes what JAX traces for them."""
        same = self.traced.tree == direct.tree
        return same and agrees(self.traced, self.source, direct, sizes)


def agrees(
    found: TracedFunction,
    source: Imported,
    direct: TracedFunction,
    sizes: Mapping[str, int],
) -> bool:
    """Whether a trace for many sizes computes what JAX traces for some of them.

    Python code can decide by a size, and JAX answers for all of them at once.
    """
    names = [v.name for v in source.graph.inputs[: len(direct.inner.invars)]]
    inputs = inputs_of(direct, {}, names)
    try:
        own = imported(found, dict(sizes), inputs).graph
        other = imported(direct, {}, inputs).graph
    except Unsupported:
        return False
    return alike(own, other) or agree(own, other)


def restored(found: Sequence[Any], function: TracedFunction) -> list[Any]:
    """Results as JAX gives them: weak types, and keys, made of plain arrays."""
    avals = [v.aval for v in function.inner.outvars]
    return [_restored(x, aval) for x, aval in zip(found, avals, strict=True)]


def _restored(x: Any, aval: Any) -> Any:
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(x.shape, jax.dtypes.float0)
    x = array_of(x, aval)
    if getattr(aval, "weak_type", False):
        how = {"new_dtype": x.dtype, "weak_type": True, "sharding": None}
        return convert_element_type_p.bind(x, **how)
    return x


def program_for(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
) -> JaxProgram:
    """A program for all sizes of a pattern. Raises Unsupported where there is none."""
    found, source = graph_for(subject, pattern, specs, names)
    results = subject.results(found, specs)
    made = compiled(source, options, len(pattern.names) == 1)
    return JaxProgram(pattern, found, results, source, made)


def graph_for(
    subject: Subject, pattern: SizePattern, specs: Sequence[Spec], names: Sequence[str]
) -> tuple[TracedFunction, Imported]:
    """The trace for all sizes of a pattern, and its graph.

    Raises Unsupported where there is none.
    """
    try:
        found = subject.read(pattern.specs(specs), max(pattern.least, 1))
    except Exception as error:  # whatever Python code does with a size that is none
        line = str(error).strip().splitlines() or [""]
        reason = f"{type(error).__name__}: {line[0]}"
        raise Unsupported(
            f"it cannot be traced at sizes {pattern}: {reason}"
        ) from error
    sizes: dict[str, Size] = {
        name: symbol_dim(Symbol(name, lower=pattern.least)) for name in pattern.names
    }
    return found, subject.graph(found, sizes, inputs_of(found, sizes, names))


def program_of_samples(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
    samples: Sequence[Mapping[str, int]],
) -> JaxProgram:
    """A program for all sizes of a pattern, by traces at some: see `template`."""
    own = pattern.specs(specs)
    traces = [_sampled(subject, [s.at(sizes) for s in own]) for sizes in samples]
    symbols = symbols_of(pattern.names, pattern.least)
    made = template([t.jaxpr for t in traces], samples, symbols)
    again = retracing(partial(_sampled, subject), own)
    found = TracedFunction(made.jaxpr, traces[0].tree, again, True, made.fed)
    sizes: dict[str, Size] = {
        name: symbol_dim(Symbol(name, lower=pattern.least)) for name in pattern.names
    }
    source = subject.graph(found, sizes, inputs_of(found, sizes, names))
    results = subject.results(found, specs)
    program = compiled(source, options, len(pattern.names) == 1)
    return JaxProgram(pattern, found, results, source, program, made)


def _sampled(subject: Subject, specs: Sequence[Spec]) -> TracedFunction:
    try:
        return subject.read(specs)
    except Exception as error:  # whatever Python code does with a size
        shown = ", ".join(str(s.shape) for s in specs)
        line = (str(error).splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {line}"
        raise Unsupported(f"it cannot be traced for {shown}: {reason}") from error


def compiled(source: Imported, options: Options, alone: bool = False) -> Function:
    """The function of an imported graph.

    Where one size varies `alone`, and nothing is said about it, one segment is best:
    the size is padded soon, and then whatever does not depend on it is compiled anew
    for few capacities only.
    """
    if not source.graph.outputs:
        raise Unsupported("it has no results")
    if alone and options.dims is None:
        try:
            return _compiled(source, options, True)
        except GraphError:  # something must be read before all can be compiled
            pass
    return _compiled(source, options, "auto")


def _compiled(source: Imported, options: Options, jit: Jit) -> Function:
    graph = source.graph
    return function(
        list(graph.inputs),
        list(graph.outputs),
        jit=jit if options.backend == "jax" else "auto",
        dims=options.dims,
        rewrites=options.rewrites,
        backend=options.backend,
        unused="ignore",
        casting="exact",
    )
