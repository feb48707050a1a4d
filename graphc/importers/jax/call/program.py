"""One compiled program that serves all sizes of a pattern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphc.errors import GraphError, SourceLocation
from graphc.importers.jax.call.alike import are_alike
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.results import (
    as_distinct_arrays,
    as_jax_results,
    in_structure,
    needs_conversion,
)
from graphc.importers.jax.read.callbacks import sharing
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import (
    Unsupported,
    reading,
    text_of_error,
    users_place,
)
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern, shapes_of
from graphc.importers.jax.sizes.same_equations import have_same_equations, same_arrays
from graphc.importers.jax.sizes.samples import UNLIKE, Sample, sample_at
from graphc.importers.jax.sizes.template import Template
from graphc.importers.jax.trace.arguments import JaxCall, arrays
from graphc.importers.jax.trace.choices import Options, compiled_by, dims_of
from graphc.importers.jax.trace.decisions import Decision, Decisions
from graphc.importers.jax.trace.dimensions import recording
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import (
    ImportedGraph,
    Spec,
    TracedFunction,
    inputs_of,
    retracer_of,
)
from graphc.importers.jax.unrolled.by_size import (
    UnrolledTemplate,
    runs_steps_in_python,
    template,
)
from graphc.importers.jax.unrolled.of_jax import exact_source, graph_like, inputs_at
from graphc.ir.sizes.dims import Size, symbol_dim
from graphc.ir.sizes.polynomials import Symbol
from graphc.ir.types import ConcreteArray
from graphc.rewriting.default import NONE
from graphc.runtime.function import Function

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef


@dataclass(frozen=True)
class TraceAtSizes:
    """The template's numbers for the trace of a call, and its results' structure."""

    numbers: Sequence[ConcreteArray]
    tree: Any


@dataclass(frozen=True)
class FunctionRead:
    """A function as read for many sizes: its trace, its graph and its decisions.

    The `recorder` answers the questions that were asked about sizes during the trace.
    """

    subject: Subject
    traced: TracedFunction
    source: ImportedGraph
    decisions: Decisions
    recorder: Recorder

    def agrees(self, direct: TracedFunction, sizes: Mapping[str, int]) -> bool:
        """Whether the function as read computes, at `sizes`, what JAX traces there.

        Python code can decide by a size in ways that a trace at symbols does not
        reveal.
        """
        if result_shapes(self.traced, sizes) != result_shapes(direct, {}):
            return False
        return self._is_alike(direct, sizes, {}, self.recorder)

    def covers(self, other: "FunctionRead") -> bool:
        """Whether this reading also holds at the sizes for which `other` was decided.

        JAX asks whether a slice spans the whole axis, and if so leaves the slice out. A
        slice as long as the axis computes the same.
        """
        if self.recorder.is_opaque or other.recorder.is_opaque:
            return False
        if self.decisions.facts_by_user() != other.decisions.facts_by_user():
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
        """Whether this trace at `sizes` computes what `other` does at `other_sizes`."""
        traced = self.traced
        if (traced.tree, traced.weak) != (other.tree, other.weak):
            return False
        needs_rules = self.subject.needs_rules
        if have_same_equations(traced, other, sizes, other_sizes, needs_rules):
            return True
        arguments = self.source.graph.inputs[: len(other.inner.invars)]
        names = [v.name for v in arguments]

        def read(trace: TracedFunction, numbers: Mapping[str, Size]) -> ImportedGraph:
            # Each reading has inputs of its own: bodies take from them what is known
            # outside.
            inputs = inputs_of(other, other_sizes, names)
            return self.subject.graph(trace, numbers, inputs)

        try:
            how = self.recorder.how_shared
            # Reading calls the rules of derivatives again.
            with recording(self.recorder), sharing(*how) as verdicts:
                generic = read(traced, sizes)
            with recording(other_recorder), sharing(*how, verdicts):
                special = read(other, other_sizes)
            same = same_arrays(generic.captured, special.captured)
            return same and are_alike(generic.graph, special.graph)
        except (GraphError, Unsupported):
            return False


@dataclass
class JaxProgram:
    """A function for the sizes of a pattern, as a graph and compiled.

    The program holds for sizes by which the function takes the same `decisions`, or for
    sizes whose traces are described by its `template` or, where these have unrolled
    loops of Python, by `unrolled`. It also holds for `other_decisions`, which were
    found to make no difference. A program is `doubted` after its decisions held at some
    sizes where JAX traced something else. The sizes in `checked` are those whose own
    traces it was found to agree with.
    """

    pattern: SizePattern
    read: FunctionRead
    traced: TracedFunction  # of the results
    compiled: Function
    template: Template | None = None
    unrolled: UnrolledTemplate | None = None
    traces_at_sizes: dict[ShapesOfCall, "TraceAtSizes"] = field(default_factory=dict)
    checked: set[ShapesOfCall] = field(default_factory=set)
    doubted: bool = False
    other_decisions: list[Decisions] = field(default_factory=list)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the function decides by these sizes as the program assumes."""
        return any(decisions.hold(sizes) for decisions in self.all_decisions)

    @property
    def all_decisions(self) -> list[Decisions]:
        """Each set of decisions under which the function computes the same."""
        return [self.decisions, *self.other_decisions]

    @property
    def decisions(self) -> Decisions:
        """The decisions by sizes that the function takes."""
        return self.read.decisions

    @property
    def source(self) -> ImportedGraph:
        """The graph that was compiled."""
        return self.read.source

    @property
    def facts(self) -> list[str]:
        """The facts about sizes that the program relies on, with the lines that ask."""
        others = [{*map(str, d.taken)} for d in self.other_decisions]
        common = (d for d in self.decisions.taken if all(str(d) in o for o in others))
        return self.decisions.described(common)

    @property
    def questions(self) -> list[Decision]:
        """The questions about sizes whose answers choose this program."""
        return [d for decisions in self.all_decisions for d in decisions.taken]

    @property
    def is_sampled(self) -> bool:
        """Whether the program was made of traces at several sizes."""
        return self.template is not None or self.unrolled is not None

    @property
    def is_compared(self) -> bool:
        """Whether each new size is compared with its own trace before it is served."""
        return bool(self.is_sampled or self.doubted or self.decisions.opaque)

    @property
    def steps_at(self) -> SourceLocation | None:
        """The line of steps that Python counts, in a loop that was unrolled."""
        return None if self.unrolled is None else self.unrolled.steps_at

    @property
    def foreign(self) -> tuple[str, ...]:
        """The equations that JAX runs inside the program, and why."""
        return self.source.foreign

    def trailing_arguments(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The graph's arguments that follow the leaves in a call of these sizes."""
        if not self.is_sampled:
            return [*self.source.captured]
        return [*self.source.captured, *self.traces_at_sizes[sizes].numbers]

    def __call__(self, call: JaxCall, specs: Sequence[Spec]) -> object:
        """Compute the results of a call, in their structure."""
        return self.runner(call, specs)(*call.leaves)

    def runner(self, call: JaxCall, specs: Sequence[Spec]) -> OnLeaves:
        """Return a function of the leaves that runs calls like this one."""
        sizes, tree = shapes_of(specs), self.traced.tree
        captured = self.trailing_arguments(sizes)
        if self.is_sampled:
            tree = self.traces_at_sizes[sizes].tree
        finish = self._finish(tree)

        def by_driver(*inputs: object) -> object:
            return finish(as_distinct_arrays(self.compiled(*inputs), inputs))

        inputs = (*arrays(call.leaves, specs), *captured)
        planned = self.compiled.planned_run(inputs, finish, by_driver)
        run = by_driver if planned is None else planned
        if self.source.acts:
            run = _called_once(run)
        if not call.are_arrays(specs):
            return lambda *leaves: run(*arrays(leaves, specs), *captured)
        return (lambda *leaves: run(*leaves, *captured)) if captured else run

    def _finish(self, tree: "PyTreeDef") -> Callable[[list[ConcreteArray]], object]:
        """Return a function that turns the graph's outputs into structured results.

        Outputs after the results are dropped.
        """
        traced, count = self.traced, len(self.traced.inner.outvars)
        if any(map(needs_conversion, traced.inner.outvars)):
            return lambda outputs: tree.unflatten(as_jax_results(outputs, traced))
        finish = in_structure(tree)
        if len(self.source.graph.outputs) > count:
            return lambda outputs: finish(outputs[:count])
        return finish

    def admits(
        self,
        subject: Subject,
        sizes: ShapesOfCall,
        specs: list[Spec],
        trace: Callable[[], TracedFunction],
    ) -> bool:
        """Whether the template describes the `trace` at these sizes.

        If so, the template's numbers and the structure of the results are kept for
        `sizes`.
        """
        if sizes not in self.traces_at_sizes:
            named = self.pattern.sizes(sizes)
            if self.template is not None and not self.template.is_possible(named):
                return False
            direct = trace()
            try:
                numbers = self._numbers_of(subject, direct, named)
            except Unsupported:
                return False
            self.traces_at_sizes[sizes] = TraceAtSizes(
                numbers, subject.results(direct, specs).tree
            )
        return True

    def _numbers_of(
        self, subject: Subject, direct: TracedFunction, sizes: Mapping[str, int]
    ) -> Sequence[ConcreteArray]:
        """The numbers that a trace at these sizes passes to the template.

        Raises Unsupported if the template does not describe the trace.
        """
        if self.unrolled is not None:
            names = [v.name for v in self.source.graph.inputs]
            names = names[: len(direct.inner.invars)]
            graph = graph_like(self.source, subject, direct, names)
            return self.unrolled.arrays_at(sizes, graph)
        assert self.template is not None
        try:
            return self.template.numbers(subject.comparable(direct).jaxpr, sizes)
        except Unsupported:  # other steps may compute the same
            if self.template.fed or not self.read.agrees(direct, sizes):
                raise
            return []


def result_shapes(trace: TracedFunction, sizes: Mapping[str, int]) -> ShapesOfCall:
    """The shapes of the results of a trace at these sizes."""
    number: Callable[[object], Any] = JaxSizes(sizes).of
    avals: list[Any] = [v.aval for v in trace.inner.outvars]
    return tuple(tuple(map(number, getattr(aval, "shape", ()))) for aval in avals)


def _called_once(run: OnLeaves) -> OnLeaves:
    """Wrap `run` so that no failed call is retried: it may have had effects already."""

    def called(*leaves: object) -> object:
        try:
            return run(*leaves)
        except GraphError as error:
            raise error.__cause__ or error from None

    return called


class Pinned(Exception):
    """Raised when facts about sizes would restrict a program to a single size."""

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
    """Return a program for those sizes of a pattern that are decided as in a call.

    If the decisions make no difference to one of the `siblings`, that program is
    returned. If a sibling's decisions make none to the new program, it serves the
    sibling's sizes too. Raises Unsupported if the function cannot be read so, and
    Pinned if no other sizes are decided alike.
    """
    read = read_for_pattern(subject, pattern, specs, names, recorder)
    pinning = read.decisions.pinning(recorder.sizes)
    if pinning:
        raise Pinned(read.decisions.described(pinning))
    for sibling in siblings:
        if sibling.template is None and sibling.read.covers(read):
            sibling.other_decisions.append(read.decisions)
            return sibling
    results = results_of(read, pattern, specs)
    executable = compile_imported(read.source, options, pattern.names)
    covered = [s for s in siblings if s.template is None and read.covers(s.read)]
    others = [one for s in covered for one in s.all_decisions]
    return JaxProgram(pattern, read, results, executable, other_decisions=others)


def results_of(
    read: FunctionRead, pattern: SizePattern, specs: Sequence[Spec]
) -> TracedFunction:
    """Return the trace that gives the results, for sizes decided as in `read`."""
    sized_specs = [spec.at(read.recorder.sizes) for spec in pattern.specs(specs)]
    return read.subject.results(read.traced, sized_specs)


def read_for_pattern(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    recorder: Recorder,
) -> FunctionRead:
    """Read the function for those sizes of a pattern that are decided as in a call.

    Raises Unsupported if it cannot be traced or read at symbols.
    """
    try:
        trace = subject.read(pattern.specs(specs), max(pattern.least, 1), recorder)
    except Exception as error:  # whatever Python code raises for a symbol
        raise _untraceable(pattern, error) from error
    symbols = pattern.new_symbols()
    sizes = {name: symbol_dim(symbol) for name, symbol in symbols.items()}
    try:
        # Reading calls the rules of derivatives.
        with reading(), recording(recorder), sharing(*recorder.how_shared):
            source = subject.graph(trace, sizes, inputs_of(trace, sizes, names))
    except (GraphError, Unsupported):
        raise
    except Exception as error:  # raised by such a rule
        raise _untraceable(pattern, error) from error
    return FunctionRead(subject, trace, source, recorder.decisions(symbols), recorder)


def _untraceable(pattern: SizePattern, error: Exception) -> Unsupported:
    reason = f"it cannot be traced at sizes {pattern}: {text_of_error(error)}"
    return Unsupported(reason, users_place(error) if str(error) else None)


def _bounded_symbol(name: str, template: Template, least: int) -> Symbol:
    """The symbol of a size, bounded so that no axis in the template is negative."""
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
    """Return a program for sizes of a pattern, built from traces at some of them.

    The `template` describes these traces, of which `first` is one. `asking` is the line
    that asks for the number of a size, if known.
    """
    named_specs = pattern.specs(specs)
    retrace = retracer_of(partial(sample_at, subject), named_specs)
    tree = first.trace.tree
    trace = TracedFunction(template.jaxpr, tree, retrace, True, template.fed)
    known = {
        name: _bounded_symbol(name, template, pattern.least) for name in pattern.names
    }
    sizes = {name: symbol_dim(symbol) for name, symbol in known.items()}
    with reading():
        source = subject.graph(trace, sizes, inputs_of(trace, sizes, names))
    program = compile_imported(source, options, pattern.names)
    recorder = Recorder(first.sizes)
    decisions = Decisions(known, opaque=asking)  # opaque, so all traces are compared
    read = FunctionRead(subject, trace, source, decisions, recorder)
    results = results_of(read, pattern, specs)
    return JaxProgram(pattern, read, results, program, template)


def program_of_loops(
    subject: Subject,
    pattern: SizePattern,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
    samples: Sequence[Sample],
    asking: SourceLocation | None,
) -> JaxProgram:
    """Return a program for sizes of a pattern, in whose traces loops are unrolled.

    Raises Unsupported if the traces at several sizes differ in more than the number of
    steps, integers and constants.
    """
    if not samples:
        raise Unsupported(UNLIKE)
    first, *others = samples
    source = exact_source(subject, first.trace, names)
    graphs = [graph_like(source, subject, other.trace, names) for other in others]
    unrolled = template(
        [source.graph, *graphs],
        [sample.sizes for sample in samples],
        pattern.least,
        lambda symbols: inputs_at(pattern, symbols, source.graph),
    )
    source = replace(source, graph=unrolled.graph)
    program = compile_imported(source, options, pattern.names)
    if runs_steps_in_python(program):
        raise Unsupported("the sizes in its loops cannot be padded")
    decisions = Decisions(unrolled.symbols, opaque=asking)
    recorder = Recorder(first.sizes)
    read = FunctionRead(subject, first.trace, source, decisions, recorder)
    results = results_of(read, pattern, specs)
    return JaxProgram(pattern, read, results, program, unrolled=unrolled)


def compile_imported(
    source: ImportedGraph, options: Options, names: Sequence[str]
) -> Function:
    """Compile an imported graph whose sizes have these names.

    If only one size varies and `dims` says nothing about it, one segment is best: the
    size is padded soon, and from then on whatever does not depend on it is compiled
    anew for few capacities only. Raises Unsupported for a graph without outputs.
    """
    if not source.graph.outputs:
        raise Unsupported("it has no results")
    options = replace(options, dims=dims_of(options.dims, names))
    if source.acts:  # effects must happen exactly as often as traced: no rewrites
        options = replace(options, rewrites=NONE)
    if len(names) == 1 and options.dims is None:
        try:
            return compiled_by(options, source.graph, True)
        except GraphError:  # a size must be read before all can be compiled
            pass
    return compiled_by(options, source.graph)
