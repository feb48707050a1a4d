"""One compiled program for all sizes of a pattern."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core.primitives import convert_element_type_p

from graphc.importers.jax.alike import agree, alike
from graphc.importers.jax.arguments import JaxCall
from graphc.importers.jax.jaxprs import array_of
from graphc.importers.jax.pattern import SizePattern
from graphc.importers.jax.subject import Subject
from graphc.importers.jax.tracing import (
    Imported,
    Spec,
    TracedFunction,
    imported,
    inputs_of,
)
from graphc.importers.jax.unsupported import Unsupported
from graphc.ir.dims import Size, symbol_dim
from graphc.ir.polynomials import Symbol
from graphc.rewriting.rule import Rules
from graphc.runtime.arguments import Backend
from graphc.runtime.compile import function
from graphc.runtime.function import Function


@dataclass(frozen=True)
class Options:
    """How `graphc.jit` compiles; see there."""

    dims: Any
    rewrites: Rules
    backend: Backend


@dataclass(frozen=True)
class JaxProgram:
    """A function for all sizes of a pattern, as a graph and compiled."""

    pattern: SizePattern
    traced: TracedFunction
    told: TracedFunction  # of the results
    source: Imported
    compiled: Function

    def __call__(self, call: JaxCall, specs: Sequence[Spec]) -> Any:
        """The results of a call, in their structure."""
        found = self.compiled(*call.arrays(specs), *self.source.captured)
        results = restored(found, self.told)
        return jax.tree.unflatten(self.told.tree, results)

    def agrees(self, direct: TracedFunction, sizes: Mapping[str, int]) -> bool:
        """Whether it computes at some sizes what JAX traces for them.

        Python code can decide by a size, and JAX answers for all of them at once.
        """
        names = [v.name for v in self.source.graph.inputs[: len(direct.inner.invars)]]
        inputs = inputs_of(direct, {}, names)
        try:
            own = imported(self.traced, dict(sizes), inputs).graph
            other = imported(direct, {}, inputs).graph
        except Unsupported:
            return False
        return alike(own, other) or agree(own, other)


def restored(found: Sequence[Any], function: TracedFunction) -> list[Any]:
    """Results as JAX gives them: weak types, and keys, made of plain arrays."""
    avals = [v.aval for v in function.inner.outvars]
    return [_restored(x, aval) for x, aval in zip(found, avals, strict=True)]


def _restored(x: Any, aval: Any) -> Any:
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
    try:
        found = subject.read(pattern.specs(specs), pattern.least)
    except Exception as error:  # whatever Python code does with a size that is none
        line = str(error).strip().splitlines() or [""]
        reason = f"{type(error).__name__}: {line[0]}"
        raise Unsupported(
            f"it cannot be traced at sizes {pattern}: {reason}"
        ) from error
    sizes: dict[str, Size] = {
        name: symbol_dim(Symbol(name, lower=pattern.least)) for name in pattern.names
    }
    inputs = inputs_of(found, sizes, names)
    source = subject.graph(found, sizes, inputs)
    results = subject.results(found, specs)
    return JaxProgram(pattern, found, results, source, compiled(source, options))


def compiled(source: Imported, options: Options) -> Function:
    """The function of an imported graph."""
    graph = source.graph
    if not graph.outputs:
        raise Unsupported("it has no results")
    return function(
        list(graph.inputs),
        list(graph.outputs),
        dims=options.dims,
        rewrites=options.rewrites,
        backend=options.backend,
        unused="ignore",
        casting="exact",
    )
