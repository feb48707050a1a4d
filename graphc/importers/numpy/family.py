"""The calls of a function of NumPy that differ in sizes alone, and their programs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax

from graphc.errors import GraphError, SourceLocation
from graphc.explain.program_text import ProgramText
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import SizeFamily
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.choices import (
    CallersError,
    Options,
    compiled_by,
    dims_of,
    require_names,
)
from graphc.importers.jax.trace.decisions import Decisions
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.numpy.arguments import arrays_of
from graphc.importers.numpy.tracing import NumpyTrace, traced
from graphc.ir.graph.nodes import Graph
from graphc.runtime.driver.log import Compilation
from graphc.runtime.function import Function
from graphc.transform.policies import names_in

CHECKED = 3  # sizes at which a program is compared with a trace of their own


@dataclass(frozen=True)
class NumpyProgram:
    """A function of NumPy for all sizes of a pattern, which may be numbers."""

    pattern: SizePattern
    trace: NumpyTrace
    compiled: Function
    how: Options
    decisions: Decisions = Decisions({})
    foreign: tuple[str, ...] = ()
    facts: list[str] = field(default_factory=list)
    opaque: SourceLocation | None = None

    def __call__(self, call: JaxCall, specs: list[Spec]) -> object:
        """The results of a call, in their structure."""
        results = self.compiled(*arrays_of(call, specs))
        return jax.tree.unflatten(self.trace.tree, results)

    def in_jax(self, call: JaxCall, specs: list[Spec]) -> object:
        """The results of a call that JAX traces; in one segment, or an error.

        Nothing is checked then: JAX raises no errors of data.
        """
        with jax.enable_x64(True):  # dtypes are those of the graph, not of the mode
            results = self._unchecked.jax_callable(*arrays_of(call, specs))
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
        """Each of them."""
        return self.compiled.stats().compilations

    def report(self, full: bool) -> Iterator[str]:
        """Lines about how it is compiled."""
        yield "on values of graphc"
        yield self.compiled.explain(full)


def _compiled(how: Options, graph: Graph) -> Function:
    """The function of a graph, whose sizes have the policies of their names."""
    return compiled_by(replace(how, dims=dims_of(how.dims, names_in(graph))), graph)


@dataclass
class NumpyFamily(SizeFamily[NumpyProgram, NumpyProgram]):
    """The calls of one function of NumPy that differ in nothing but sizes."""

    def alone(self, sizes: ShapesOfCall) -> NumpyProgram:
        """The program for these very sizes."""
        if sizes not in self.compiled:
            self.compiled[sizes] = self._program(SizePattern(sizes))
        return self.compiled[sizes]

    def functions(self) -> list[Function]:
        """The functions that run programs."""
        return [*super().functions(), *(p.compiled for p in self.compiled.values())]

    def _trace(self, pattern: SizePattern) -> NumpyTrace:
        return traced(self.function, self.call, pattern, self.specs, self.names())

    def _program(self, pattern: SizePattern) -> NumpyProgram:
        trace, how = self._trace(pattern), self.options_for(pattern)
        graph = trace.checked(how.check)
        if pattern.names:  # at true sizes, only what is counted has one
            axes = dict.fromkeys(names_in(graph), "") | pattern.axes(self.names())
            require_names(how.dims, axes)
        return NumpyProgram(pattern, trace, _compiled(how, graph), how)

    def _new_program(self, pattern: SizePattern, sizes: ShapesOfCall) -> NumpyProgram:
        try:
            program = self._program(pattern)
        except (GraphError, Unsupported, CallersError):
            raise
        except Exception as error:  # of a library that takes no size by a name
            self._require(sizes)
            raise Unsupported(f"{type(error).__name__}: {error}") from error
        self.checked = set()
        for known in (*self.seen, sizes):
            self._check(program, known)
        return program

    def looked_at(self, one: NumpyProgram) -> tuple[Function, str]:
        """The function that runs a program."""
        return one.compiled, ""

    def _require(self, sizes: ShapesOfCall) -> None:
        """Raise the error of the function itself at these sizes, if it has one."""
        self.alone(sizes)

    def _check(self, program: NumpyProgram, sizes: ShapesOfCall) -> None:
        """Compare types with a trace at these sizes, where they are numbers of Python.

        Python code cannot decide by a size that has only a name: that is an error.
        """
        done = sizes in self.checked or len(self.checked) >= CHECKED
        if done or not program.pattern.has(sizes):
            return
        if self._trace(SizePattern(sizes)).types != program.trace.types:
            raise Unsupported(f"its results have other types for {sizes}")
        self.checked.add(sizes)
