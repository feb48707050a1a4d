"""Calls of a function for NumPy that differ only in sizes, and their programs."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax

from graphc.errors import GraphError
from graphc.explain.program_text import ProgramText
from graphc.importers.jax.call.known_calls import OnLeaves
from graphc.importers.jax.call.structures import in_structure
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import CHECKED, SizeFamily
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
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
from graphc.importers.numpy.arguments import arrays_of
from graphc.importers.numpy.tracing import NumpyTrace, trace_function
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray
from graphc.runtime.driver.log import Compilation
from graphc.runtime.function import Function
from graphc.transform.policies import names_in


@dataclass(frozen=True, eq=False)
class NumpyProgram:
    """A function for NumPy at all sizes of a pattern, which may be numbers.

    The program holds for sizes by which the function takes the same `decisions`.
    """

    pattern: SizePattern
    trace: NumpyTrace
    compiled: Function
    how: Options
    foreign: tuple[str, ...] = ()

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
        """Whether each new size is compared with its own trace: never."""
        return False

    def trailing_arguments(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The graph's arguments that follow the leaves in a call: there are none."""
        return []

    def __call__(self, call: JaxCall, specs: list[Spec]) -> object:
        """Compute the results of a call, in their structure."""
        results = self.compiled(*arrays_of(call.leaves, specs))
        return jax.tree.unflatten(self.trace.tree, results)

    def runner(self, call: JaxCall, specs: list[Spec]) -> OnLeaves:
        """Return a function of the leaves that runs calls like this one.

        The call has just run, so its plan is known.
        """
        unflatten = in_structure(self.trace.tree)

        def by_driver(*inputs: object) -> object:
            return unflatten(self.compiled(*inputs))

        inputs = tuple(arrays_of(call.leaves, specs))
        run = self.compiled.planned_run(inputs, unflatten, by_driver) or by_driver
        if all(map(operator.is_, inputs, call.leaves)):
            return run
        return lambda *leaves: run(*arrays_of(leaves, specs))

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
    """The calls of one function for NumPy that differ only in sizes."""

    def alone(self, sizes: ShapesOfCall) -> NumpyProgram:
        """The program for exactly these sizes."""
        if sizes not in self.compiled:
            pattern = SizePattern(sizes)
            self.compiled[sizes] = self._program(pattern, self._trace(pattern))
        return self.compiled[sizes]

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
        """Whether the function decides by these sizes as the program assumes."""
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
            program = self._like(pattern, trace) or self._program(pattern, trace)
        except (GraphError, Unsupported, CallersError):
            raise
        except Exception as error:  # of a library that accepts no symbolic size
            self._require_accepted(sizes)
            raise Unsupported(f"{type(error).__name__}: {error}") from error
        self.checked: set[ShapesOfCall] = set()
        for known in (*self.seen, sizes):
            self._require_agreement(program, known)
        return program

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
        done = sizes in self.checked or len(self.checked) >= CHECKED
        if done or not program.pattern.has(sizes) or not self._decides(program, sizes):
            return
        if self._trace(SizePattern(sizes)).types != program.trace.types:
            raise Unsupported(f"its results have other types for {sizes}")
        self.checked.add(sizes)
