"""One compiled program for all sizes of a pattern."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.dtypes
import jax.numpy as jnp
import numpy as np
from jax.extend.core.primitives import convert_element_type_p

from graphc.errors import GraphError, SourceLocation
from graphc.importers.jax.call.alike import alike
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.structures import in_structure
from graphc.importers.jax.read.callbacks import sharing
from graphc.importers.jax.read.jaxprs import array_of, is_key, words_of
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import (
    Unsupported,
    raised,
    reading,
    users_place,
)
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern, shapes_of
from graphc.importers.jax.sizes.samples import Sample, sampled
from graphc.importers.jax.sizes.template import Template
from graphc.importers.jax.trace.arguments import JaxCall, arrays
from graphc.importers.jax.trace.choices import Options, compiled_by, dims_of
from graphc.importers.jax.trace.decisions import Decision, Decisions
from graphc.importers.jax.trace.dimensions import recording
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import (
    Imported,
    Spec,
    TracedFunction,
    inputs_of,
    retracing,
)
from graphc.ir.sizes.dims import Size, symbol_dim
from graphc.ir.sizes.polynomials import Symbol
from graphc.ir.types import ConcreteArray
from graphc.rewriting.default import NONE
from graphc.runtime.function import Function
from graphc_serving import private_jax

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef


@dataclass(frozen=True)
class OfCall:
    """The numbers of the trace of a call, and the structure of its results."""

    numbers: list[Any]
    tree: Any


Trace = Callable[[], TracedFunction]  # at the sizes of a call


@dataclass(frozen=True)
class FunctionRead:
    """A function as it is read for many sizes: its trace, its graph, its decisions.

    The `recorder` answers what is asked about the sizes of the trace.
    """

    subject: Subject
    traced: TracedFunction
    source: Imported
    decisions: Decisions
    recorder: Recorder

    def agrees(self, direct: TracedFunction, sizes: Mapping[str, int]) -> bool:
        """Whether it computes at some sizes what JAX traces for them.

        Python code can decide by a size in ways that are not to be seen.
        """
        if _result_shapes(self.traced, sizes) != _result_shapes(direct, {}):
            return False
        return self._is_alike(direct, sizes, {}, self.recorder)

    def covers(self, other: "FunctionRead") -> bool:
        """Whether it computes the same at all sizes that are decided as in `other`.

        JAX asks whether a slice is the whole axis, and takes no slice then: one that
        is as long as the axis gives the same.
        """
        if self.recorder.is_opaque or other.recorder.is_opaque:
            return False
        if self.decisions.by_user() != other.decisions.by_user():
            return False
        sizes = other.decisions.implied_sizes()
        return self._is_alike(other.traced, sizes, sizes, other.recorder)

    def _is_alike(
        self,
        other: TracedFunction,
        sizes: Mapping[str, Size],
        other_sizes: Mapping[str, Size],
        other_recorder: Recorder,
    ) -> bool:
        """Whether it computes, at these sizes, the same as another at its own."""
        traced = self.traced
        if (traced.tree, traced.weak) != (other.tree, other.weak):
            return False
        arguments = self.source.graph.inputs[: len(other.inner.invars)]
        names = [v.name for v in arguments]

        def read(trace: TracedFunction, numbers: Mapping[str, Size]) -> Imported:
            # Of inputs of its own: bodies take what is known outside from there.
            inputs = inputs_of(other, other_sizes, names)
            return self.subject.graph(trace, numbers, inputs)

        try:
            how = self.recorder.how_shared
            # Rules of derivatives are called again.
            with recording(self.recorder), sharing(*how) as verdicts:
                generic = read(traced, sizes)
            with recording(other_recorder), sharing(*how, verdicts):
                special = read(other, other_sizes)
            same = _same_arrays(generic.captured, special.captured)
            return same and alike(generic.graph, special.graph)
        except (GraphError, Unsupported):
            return False


@dataclass
class JaxProgram:
    """A function for the sizes of a pattern, as a graph and compiled.

    It holds for sizes by which the function takes the same `decisions`, or, as a
    `template`, for those whose traces it describes. It is `doubted` if it was another
    than a trace of sizes of which that was not to be seen. The sizes `checked` are
    those whose own traces it agrees with. It also is the function where that takes
    `other_decisions` which make no difference.
    """

    pattern: SizePattern
    read: FunctionRead
    traced: TracedFunction  # of the results
    compiled: Function
    template: Template | None = None
    traces_at_sizes: dict[ShapesOfCall, "OfCall"] = field(default_factory=dict)
    checked: set[ShapesOfCall] = field(default_factory=set)
    doubted: bool = False
    other_decisions: list[Decisions] = field(default_factory=list)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is the function at these sizes, by what that decides."""
        known = self.decisions, *self.other_decisions
        return any(decisions.hold(sizes) for decisions in known)

    @property
    def decisions(self) -> Decisions:
        """The decisions by sizes that the function takes."""
        return self.read.decisions

    @property
    def source(self) -> Imported:
        """The graph that is compiled."""
        return self.read.source

    @property
    def facts(self) -> list[str]:
        """The facts about sizes that it holds for, with the lines that ask for them."""
        others = [{*map(str, d.taken)} for d in self.other_decisions]
        common = (d for d in self.decisions.taken if all(str(d) in o for o in others))
        return self.decisions.described(common)

    @property
    def opaque(self) -> SourceLocation | None:
        """The line that asks for more of a size than facts, where one does."""
        return self.decisions.opaque

    @property
    def asked(self) -> list[Decision]:
        """The questions about sizes by whose answers it is chosen."""
        return [
            d for known in (self.decisions, *self.other_decisions) for d in known.taken
        ]

    @property
    def is_compared(self) -> bool:
        """Whether it serves sizes only after a comparison, each by itself."""
        return bool(self.template or self.doubted or self.opaque)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Equations that JAX runs in it, and why."""
        return self.source.foreign

    def beside(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The arguments of the graph after the leaves of a call of these sizes."""
        if self.template is None:
            return [*self.source.captured]
        return [*self.source.captured, *self.traces_at_sizes[sizes].numbers]

    def __call__(self, call: JaxCall, specs: Sequence[Spec]) -> object:
        """The results of a call, in their structure."""
        return self.runner(call, specs)(*call.leaves)

    def runner(self, call: JaxCall, specs: Sequence[Spec]) -> OnLeaves:
        """The function that runs calls like this one, on their leaves."""
        sizes, tree = shapes_of(specs), self.traced.tree
        captured = self.beside(sizes)
        if self.template is not None:
            tree = self.traces_at_sizes[sizes].tree
        finish = self._finish(tree)

        def by_driver(*inputs: object) -> object:
            return finish(distinct(self.compiled(*inputs), inputs))

        inputs = (*arrays(call.leaves, specs), *captured)
        planned = self.compiled.planned_run(inputs, finish, by_driver)
        run = by_driver if planned is None else planned
        if self.source.acts:
            run = _called_once(run)
        if not call.are_arrays(specs):
            return lambda *leaves: run(*arrays(leaves, specs), *captured)
        return (lambda *leaves: run(*leaves, *captured)) if captured else run

    def _finish(self, tree: "PyTreeDef") -> Callable[[list[ConcreteArray]], object]:
        """The function that gives results in their structure, of the graph's outputs.

        The last of these may be no results.
        """
        traced, count = self.traced, len(self.traced.inner.outvars)
        if any(map(_is_restored, traced.inner.outvars)):
            return lambda outputs: tree.unflatten(restored(outputs[:count], traced))
        finish = in_structure(tree)
        if len(self.source.graph.outputs) > count:
            return lambda outputs: finish(outputs[:count])
        return finish

    def admits(
        self, subject: Subject, sizes: ShapesOfCall, specs: list[Spec], trace: Trace
    ) -> bool:
        """Whether the template describes the trace at these sizes."""
        assert self.template is not None
        named = self.pattern.sizes(sizes) or {}
        if not self.template.is_possible(named):
            return False
        if sizes not in self.traces_at_sizes:
            direct = trace()
            try:
                jaxpr = subject.comparable(direct).jaxpr
                numbers = self.template.numbers(jaxpr, named)
            except Unsupported:  # other steps may be the same for all that
                if self.template.fed or not self.read.agrees(direct, named):
                    return False
                numbers = []
            self.traces_at_sizes[sizes] = OfCall(
                numbers, subject.results(direct, specs).tree
            )
        return True


def _result_shapes(
    trace: TracedFunction, sizes: Mapping[str, int]
) -> list[tuple[object, ...]]:
    """The shapes of the results of a trace at these sizes."""
    number = JaxSizes(sizes).of
    avals: list[Any] = [v.aval for v in trace.inner.outvars]
    return [tuple(map(number, getattr(aval, "shape", ()))) for aval in avals]


def _called_once(run: OnLeaves) -> OnLeaves:
    """A run after whose failure nothing is tried once more: it may have acted."""

    def called(*leaves: object) -> object:
        try:
            return run(*leaves)
        except GraphError as error:
            raise error.__cause__ or error from None

    return called


def _same_arrays(a: Sequence[ConcreteArray], b: Sequence[ConcreteArray]) -> bool:
    return len(a) == len(b) and all(map(_same_array, a, b))


def _same_array(a: object, b: object) -> bool:
    if a is b:
        return True
    x, y = np.asarray(words_of(a)), np.asarray(words_of(b))
    same_type = x.dtype == y.dtype and x.shape == y.shape
    return same_type and x.tobytes() == y.tobytes()


def distinct(
    results: list[ConcreteArray], inputs: Iterable[object]
) -> list[ConcreteArray]:
    """Results of which each is an array of its own, that its owner may donate."""
    identities = {*map(id, results)}
    if len(identities) == len(results) and identities.isdisjoint(map(id, inputs)):
        return results
    taken = set(map(id, inputs))
    copies = []
    for x in results:
        copies.append(x.copy() if id(x) in taken else x)
        taken.add(id(x))
    return copies


def restored(
    results: Sequence[ConcreteArray], function: TracedFunction
) -> list[ConcreteArray]:
    """Results as JAX gives them: weak types, and keys, made of plain arrays."""
    avals = [v.aval for v in function.inner.outvars]
    return [_restored(x, aval) for x, aval in zip(results, avals, strict=True)]


def _is_restored(result: Any) -> bool:
    """Whether a result is more than a plain array."""
    aval = result.aval
    weak = getattr(aval, "weak_type", False)
    return weak or is_key(aval.dtype) or aval.dtype == jax.dtypes.float0


def _restored(x: ConcreteArray, aval: Any) -> Any:
    if aval.dtype == jax.dtypes.float0:
        return jnp.zeros(x.shape, jax.dtypes.float0)
    x = array_of(x, aval)
    return _of_weak_type(x) if getattr(aval, "weak_type", False) else x


def _of_weak_type(x: ConcreteArray) -> ConcreteArray:
    """The array as one of a weak type, for which nothing is compiled unless traced."""
    if not isinstance(x, jax.core.Tracer):
        weak: ConcreteArray | None = private_jax.of_weak_type(x)
        if weak is not None:
            return weak
    how = {"new_dtype": x.dtype, "weak_type": True, "sharding": None}
    converted: ConcreteArray = convert_element_type_p.bind(x, **how)
    return converted


class Pinned(Exception):
    """Raised where a program would be for one size only, by these facts."""

    def __init__(self, facts: list[str]) -> None:
        super().__init__(*facts)
        self.facts = facts


def program_for(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
    recorder: Recorder,
    siblings: Sequence[JaxProgram] = (),
) -> JaxProgram:
    """A program for the sizes of a pattern that are decided as those of a call.

    It is one of the `siblings` where these decisions make no difference to it; where
    they make none to the new one, that serves their sizes too. Raises Unsupported where
    there is none, and Pinned where there are no other sizes.
    """
    read = read_for(subject, pattern, specs, names, recorder)
    pinning = read.decisions.pinning(recorder.sizes)
    if pinning:
        raise Pinned(read.decisions.described(pinning))
    for sibling in siblings:
        if sibling.template is None and sibling.read.covers(read):
            sibling.other_decisions.append(read.decisions)
            return sibling
    results = results_of(read, pattern, specs)
    executable = compiled(read.source, options, pattern.names)
    covered = [s for s in siblings if s.template is None and read.covers(s.read)]
    others = [one for s in covered for one in (s.decisions, *s.other_decisions)]
    return JaxProgram(pattern, read, results, executable, other_decisions=others)


def results_of(
    read: FunctionRead, pattern: SizePattern, specs: Sequence[Spec]
) -> TracedFunction:
    """The trace that gives the results, for sizes that are decided as they are read."""
    sized_specs = [spec.at(read.recorder.sizes) for spec in pattern.specs(specs)]
    return read.subject.results(read.traced, sized_specs)


def read_for(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    recorder: Recorder,
) -> FunctionRead:
    """The function for the sizes of a pattern that are decided as those of a call.

    Raises Unsupported where there is none.
    """
    try:
        trace = subject.read(pattern.specs(specs), max(pattern.least, 1), recorder)
    except Exception as error:  # whatever Python code does with a size that is none
        raise _untraceable(pattern, error) from error
    symbols = _symbols(pattern)
    sizes = {name: symbol_dim(symbol) for name, symbol in symbols.items()}
    try:
        # Rules of derivatives are called while it is read.
        with reading(), recording(recorder), sharing(*recorder.how_shared):
            source = subject.graph(trace, sizes, inputs_of(trace, sizes, names))
    except (GraphError, Unsupported):
        raise
    except Exception as error:  # of such a rule
        raise _untraceable(pattern, error) from error
    return FunctionRead(subject, trace, source, recorder.decisions(symbols), recorder)


def _untraceable(pattern: SizePattern, error: Exception) -> Unsupported:
    reason = f"it cannot be traced at sizes {pattern}: {raised(error)}"
    return Unsupported(reason, users_place(error) if str(error) else None)


def _symbols(pattern: SizePattern) -> dict[str, Symbol]:
    return {name: Symbol(name, lower=pattern.least) for name in pattern.names}


def _bounded(name: str, template: Template, least: int) -> Symbol:
    """The symbol of a size of which the template leaves no axis negative."""
    lower, upper = template.bounds(name)
    return Symbol(name, lower=max(least, lower or 0), upper=upper)


def program_of_samples(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
    template: Template,
    first: Sample,
    asking: SourceLocation | None,
) -> JaxProgram:
    """A program for sizes of a pattern, by traces at some: see `template`.

    One is the `first`. A line is `asking` for the number of a size, where one is known.
    """
    named_specs = pattern.specs(specs)
    again = retracing(partial(sampled, subject), named_specs)
    trace = TracedFunction(template.jaxpr, first.trace.tree, again, True, template.fed)
    known = {name: _bounded(name, template, pattern.least) for name in pattern.names}
    sizes = {name: symbol_dim(symbol) for name, symbol in known.items()}
    with reading():
        source = subject.graph(trace, sizes, inputs_of(trace, sizes, names))
    program = compiled(source, options, pattern.names)
    recorder = Recorder(first.sizes)
    decisions = Decisions(known, opaque=asking)  # each trace is compared
    read = FunctionRead(subject, trace, source, decisions, recorder)
    results = results_of(read, pattern, specs)
    return JaxProgram(pattern, read, results, program, template)


def compiled(source: Imported, options: Options, names: Sequence[str]) -> Function:
    """The function of an imported graph, whose sizes have these names.

    Where one size varies `alone`, and nothing is said about it, one segment is best:
    the size is padded soon, and then whatever does not depend on it is compiled anew
    for few capacities only.
    """
    if not source.graph.outputs:
        raise Unsupported("it has no results")
    options = replace(options, dims=dims_of(options.dims, names))
    if source.acts:  # as often as its steps are taken, so these stay as they are
        options = replace(options, rewrites=NONE)
    if len(names) == 1 and options.dims is None:
        try:
            return compiled_by(options, source.graph, True)
        except GraphError:  # something must be read before all can be compiled
            pass
    return compiled_by(options, source.graph)
