"""Calls of a function for NumPy that differ only in sizes, and their programs."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax

from graphc.errors import GraphError, SourceLocation
from graphc.explain.program_text import ProgramText
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.results import in_structure
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import CHECKED, SizeFamily
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern, shapes_of
from graphc.importers.jax.sizes.samples import MOST_UNLIKE, UNLIKE
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.choices import (
    CallersError,
    Options,
    compiled_by,
    dims_of,
    require_names_of_call,
)
from graphc.importers.jax.trace.decisions import Decision, Decisions
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.jax.unrolled.alone import folded
from graphc.importers.jax.unrolled.by_size import (
    UnrolledTemplate,
    is_small,
    runs_steps_in_python,
    template,
    trials,
)
from graphc.importers.numpy.arguments import arrays_of
from graphc.importers.numpy.tracing import NumpyTrace, inputs_of, trace_function
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray, NDArray
from graphc.runtime.driver.log import Compilation
from graphc.runtime.function import Function
from graphc.transform.policies import names_in

LEAST_FOLDED = 300  # nodes of a graph, which take seconds to compile


@dataclass(frozen=True, eq=False)
class NumpyProgram:
    """A function for NumPy at all sizes of a pattern, which may be numbers.

    The program holds for sizes by which the function takes the same `decisions` or, if
    its Python loops were unrolled, for sizes whose traces its `template` describes.
    """

    pattern: SizePattern
    trace: NumpyTrace
    compiled: Function
    how: Options
    foreign: tuple[str, ...] = ()
    template: UnrolledTemplate | None = None
    arrays_at_sizes: dict[ShapesOfCall, list[NDArray]] = field(default_factory=dict)

    @property
    def decisions(self) -> Decisions:
        """The decisions by sizes that the function takes."""
        return self.trace.decisions

    @property
    def facts(self) -> list[str]:
        """The facts about sizes that the program relies on, with the lines that ask."""
        return self.decisions.described(self.decisions.taken)

    @property
    def questions(self) -> Sequence[Decision]:
        """The questions about sizes whose answers choose this program."""
        return self.decisions.taken

    @property
    def is_compared(self) -> bool:
        """Whether each new size is compared with its own trace before it is served."""
        return self.template is not None

    @property
    def steps_at(self) -> SourceLocation | None:
        """The line of steps that Python counts, in a loop that was unrolled."""
        return None if self.template is None else self.template.steps_at

    def trailing_arguments(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The graph's arguments that follow the leaves in a call of these sizes."""
        return [*self.arrays_at_sizes.get(sizes, ())]

    def admits(self, sizes: ShapesOfCall, trace: NumpyTrace) -> bool:
        """Whether the template describes the trace at these sizes."""
        assert self.template is not None
        if sizes not in self.arrays_at_sizes:
            graph, named = trace.checked(self.how.check), self.pattern.sizes(sizes)
            try:
                arrays = self.template.arrays_at(named, graph)
            except Unsupported:
                return False
            if trace.types != self.trace.types:
                return False
            self.arrays_at_sizes[sizes] = arrays
        return True

    def __call__(self, call: JaxCall, specs: list[Spec]) -> object:
        """Compute the results of a call, in their structure."""
        trailing = self.trailing_arguments(shapes_of(specs))
        results = self.compiled(*arrays_of(call.leaves, specs), *trailing)
        return jax.tree.unflatten(self.trace.tree, results)

    def runner(self, call: JaxCall, specs: list[Spec]) -> OnLeaves:
        """Return a function of the leaves that runs calls like this one.

        The call has just run, so its plan is known.
        """
        unflatten = in_structure(self.trace.tree)

        def by_driver(*inputs: object) -> object:
            return unflatten(self.compiled(*inputs))

        inputs = tuple(arrays_of(call.leaves, specs))
        trailing = self.trailing_arguments(shapes_of(specs))
        planned = self.compiled.planned_run((*inputs, *trailing), unflatten, by_driver)
        run = planned or by_driver
        if not all(map(operator.is_, inputs, call.leaves)):
            return lambda *leaves: run(*arrays_of(leaves, specs), *trailing)
        return (lambda *leaves: run(*leaves, *trailing)) if trailing else run

    def in_jax(self, call: JaxCall, specs: list[Spec]) -> object:
        """Compute the results of a call that JAX traces, in one segment or not at all.

        Data are not checked, since JAX raises no errors of data.
        """
        with jax.enable_x64(True):  # dtypes are the graph's, whatever the mode
            results = self._unchecked.jax_callable(*arrays_of(call.leaves, specs))
        return jax.tree.unflatten(self.trace.tree, results)

    @cached_property
    def _unchecked(self) -> Function:
        if not self.how.check:
            return self.compiled
        return _compiled(replace(self.how, check=False), self.trace.graph)

    @property
    def source(self) -> ProgramText:
        """The text of the compiled program."""
        return self.compiled.source

    def compilations(self) -> list[Compilation]:
        """The compilations of the program."""
        return self.compiled.stats().compilations

    def report(self, full: bool) -> Iterator[str]:
        """Yield lines about how the program is compiled."""
        yield "on values of graphc"
        yield self.compiled.explain(full)


def _compiled(how: Options, graph: Graph) -> Function:
    """Compile a graph, with the part of `dims` that names its sizes."""
    return compiled_by(replace(how, dims=dims_of(how.dims, names_in(graph))), graph)


@dataclass
class NumpyFamily(SizeFamily[NumpyProgram, NumpyProgram]):
    """The calls of one function for NumPy that differ only in sizes.

    `direct` is the trace at exactly the sizes of the current call, if there is one.
    """

    direct: tuple[ShapesOfCall, NumpyTrace] | None = None
    unlike: int = 0  # how often traces at several sizes did not fit together

    def alone(self, sizes: ShapesOfCall) -> NumpyProgram:
        """The program for exactly these sizes."""
        if sizes not in self.compiled:
            trace, self.direct = self._exact_trace(sizes), None
            if len(trace.graph.nodes) >= LEAST_FOLDED:
                trace = self._folded(SizePattern(sizes), trace)
            self.compiled[sizes] = self._program(SizePattern(sizes), trace)
        return self.compiled[sizes]

    def _folded(self, pattern: SizePattern, trace: NumpyTrace) -> NumpyTrace:
        """A trace with its loops folded, if that pays."""
        inputs = inputs_of(pattern, {}, self.specs, self.names())
        graph = folded(trace.checked(self.options.check), inputs)
        return trace if graph is None else replace(trace, graph=graph, unread=())

    def _exact_trace(self, sizes: ShapesOfCall) -> NumpyTrace:
        """The trace at exactly these sizes, kept for the current call."""
        direct = self.direct  # once, as other threads may change it
        if direct is None or direct[0] != sizes:
            direct = self.direct = sizes, self._trace(SizePattern(sizes))
        return direct[1]

    def program_at(self, sizes: ShapesOfCall) -> NumpyProgram | None:
        """The program for a call of these sizes; None if it is compiled exactly."""
        try:
            program = super().program_at(sizes)
        except BaseException:
            self.direct = None
            raise
        if program is not None:
            self.direct = None
        return program

    def functions(self) -> list[Function]:
        """The functions that run programs."""
        return [*super().functions(), *(p.compiled for p in self.compiled.values())]

    def _trace(
        self, pattern: SizePattern, sizes: ShapesOfCall | None = None
    ) -> NumpyTrace:
        """Trace the function for a pattern, with decisions as for these sizes."""
        subject = self.function, self.call, pattern, self.specs, self.names()
        named = None if sizes is None else pattern.sizes_if_fit(sizes)
        return trace_function(*subject, named, self.names_of_axes(pattern.shapes))

    def _program(self, pattern: SizePattern, trace: NumpyTrace) -> NumpyProgram:
        how = self.options_for(pattern)
        graph = trace.checked(how.check)
        if pattern.names:  # else only sizes that depend on data have names
            axes = dict.fromkeys(names_in(graph), "") | self.axes_named(pattern)
            require_names_of_call(how.dims, axes)
        return NumpyProgram(pattern, trace, _compiled(how, graph), how)

    def _serves(self, program: NumpyProgram, sizes: ShapesOfCall) -> bool:
        """Whether the function decides by these sizes as the program assumes.

        If loops were unrolled, its trace at these sizes is compared with the program.
        """
        if program.template is not None:
            unwritten = self.captured[id(program)].is_unwritten()
            return unwritten and program.admits(sizes, self._exact_trace(sizes))
        return super()._serves(program, sizes) and self._decides(program, sizes)

    def _decides(self, program: NumpyProgram, sizes: ShapesOfCall) -> bool:
        return program.decisions.hold(program.pattern.sizes(sizes))

    def _new_program(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> NumpyProgram | None:
        if self._is_alone(pattern, sizes):
            return None
        try:
            trace = self._trace(pattern, sizes)
            pinning = trace.decisions.pinning(pattern.sizes(sizes))
            if pinning:
                self._pin(sizes, trace.decisions.described(pinning))
                return None
            if trace.decisions.fit_only(pattern.sizes(sizes)):
                with suppress(Unsupported):
                    return self._program_with_loops(
                        pattern, sizes, Unsupported(UNLIKE)
                    )
            program = self._like(pattern, trace) or self._program(pattern, trace)
        except GraphError as error:
            return self._program_with_loops(pattern, sizes, error)
        except (Unsupported, CallersError):
            raise
        except Exception as error:  # of a library that accepts no symbolic size
            self._require_accepted(sizes)
            raise Unsupported(f"{type(error).__name__}: {error}") from error
        self.checked: set[ShapesOfCall] = set()
        for known in (*self.seen, sizes):
            self._require_agreement(program, known)
        return program

    def _program_with_loops(
        self,
        pattern: SizePattern,
        sizes: ShapesOfCall,
        error: GraphError | Unsupported,
    ) -> NumpyProgram:
        """The program for a pattern, made of traces in which loops are unrolled.

        Raises the `error` with which the trace for all sizes failed if there is none.
        Raises Unsupported for loops of so few steps that they are compiled alone.
        """
        if self._has_few_steps(sizes):
            raise Unsupported(UNLIKE)
        if self.unlike == MOST_UNLIKE:
            raise error
        self._exact_trace(sizes)  # raises what the function does at these sizes
        few_steps = is_small(pattern.sizes(sizes))
        for one in self._patterns_with_fixed_axes(pattern, sizes):
            with suppress(Unsupported):
                program = self._folded_program(one, sizes)
                if not few_steps and not program.admits(
                    sizes, self._exact_trace(sizes)
                ):
                    break
                said = pattern.sizes(sizes).items()
                self._tell_fixed({s: n for s, n in said if s not in one.names})
                return program
        self.unlike += not few_steps
        raise error

    def _folded_program(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> NumpyProgram:
        """The program of these and of other sizes, or of larger ones if they are small.

        Raises Unsupported if the traces do not fit together.
        """
        how, failed = self.options_for(pattern), Unsupported(UNLIKE)
        for trial in trials(pattern.sizes(sizes)):
            try:
                unrolled, trace = self._template(pattern, trial, how)
            except Unsupported as error:
                failed = error
                continue
            compiled = _compiled(how, unrolled.graph)
            if runs_steps_in_python(compiled):
                break
            return NumpyProgram(pattern, trace, compiled, how, template=unrolled)
        raise failed

    def _patterns_with_fixed_axes(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> Iterator[SizePattern]:
        """Yield a pattern, and one with numbers for axes that were said to vary.

        They are axes for which the function accepts a single size.
        """
        yield pattern
        named = pattern.sizes(sizes) if self.shapes is not None else {}
        fixed = pattern
        for name, n in named.items():
            others = [{**named, name: other} for other in (n + 1, 2 * n)]
            if not self._traces_at(pattern, others):
                fixed = fixed.fixed(name, n)
        if fixed != pattern:
            yield fixed

    def _has_few_steps(self, sizes: ShapesOfCall) -> bool:
        """Whether loops that a program has for other sizes may not show at these."""
        return any(
            program.template is not None
            and program.template.has_few_steps(program.pattern.sizes(sizes))
            for program in self._siblings(sizes)
        )

    def _template(
        self,
        pattern: SizePattern,
        all_sizes: Iterable[Mapping[str, int]],
        how: Options,
    ) -> tuple[UnrolledTemplate, NumpyTrace]:
        """Fit traces at several sizes together. Raises Unsupported."""
        if not pattern.names:
            raise Unsupported("no size varies")
        samples = self._traces_at(pattern, all_sizes)
        if not samples:
            raise Unsupported(UNLIKE)
        first = samples[0][1]
        samples = [sample for sample in samples if sample[1].types == first.types]
        graphs = [trace.checked(how.check) for _, trace in samples]
        numbers = [sizes for sizes, _ in samples]
        unrolled = template(
            graphs,
            numbers,
            pattern.least,
            lambda symbols: inputs_of(pattern, symbols, self.specs, self.names()),
        )
        decisions = Decisions(unrolled.symbols)
        trace = NumpyTrace(unrolled.graph, first.tree, (), decisions)
        return unrolled, trace

    def _traces_at(
        self, pattern: SizePattern, all_sizes: Iterable[Mapping[str, int]]
    ) -> list[tuple[Mapping[str, int], NumpyTrace]]:
        """Traces at those of the sizes that the function accepts."""
        traces, direct = list[tuple[Mapping[str, int], NumpyTrace]](), self.direct
        for sizes in all_sizes:
            shapes = self._shapes_at(pattern, sizes)
            if direct is not None and direct[0] == shapes:
                traces.append((sizes, direct[1]))
                continue
            with suppress(Exception):  # whatever it raises at sizes it cannot take
                traces.append((sizes, self._trace(SizePattern(shapes))))
        return traces

    def _shapes_at(
        self, pattern: SizePattern, sizes: Mapping[str, int]
    ) -> ShapesOfCall:
        return shapes_of([spec.at(sizes) for spec in pattern.specs(self.specs)])

    def _like(self, pattern: SizePattern, trace: NumpyTrace) -> NumpyProgram | None:
        """Return an existing program that equals the trace, or None.

        One may exist if only something captured has changed.
        """
        for program in self.programs:
            unwritten = self.captured[id(program)].is_unwritten()
            if (
                unwritten
                and program.pattern == pattern
                and program.trace.is_like(trace)
            ):
                return program
        return None

    def function_to_draw(self, one: NumpyProgram) -> tuple[Function, str]:
        """The function that runs a program."""
        return one.compiled, ""

    def _require_accepted(self, sizes: ShapesOfCall) -> None:
        """Raise the error that the function itself raises at these sizes, if any."""
        self.alone(sizes)

    def _require_agreement(self, program: NumpyProgram, sizes: ShapesOfCall) -> None:
        """Compare types with a trace at these sizes, where they are Python numbers.

        Only types need comparing: code that needs the number of a named size raises an
        error, and decisions by sizes are recorded.
        """
        if program.template is not None:
            if not program.admits(sizes, self._exact_trace(sizes)):
                raise Unsupported(UNLIKE)
            return
        done = sizes in self.checked or len(self.checked) >= CHECKED
        if done or not program.pattern.has(sizes) or not self._decides(program, sizes):
            return
        if self._trace(SizePattern(sizes)).types != program.trace.types:
            raise Unsupported(f"its results have other types for {sizes}")
        self.checked.add(sizes)
