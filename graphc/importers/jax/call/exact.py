"""One call of a function at sizes that are numbers, as JAX compiles it.

If rewriting helps, the program of the rewritten graph replaces JAX's trace: because a
loop can stack less, a large array need not be made, one loop can do the steps that
Python took, or the blocks that repeat, or XLA is known to be wrong. Otherwise the trace
is compiled as it is, and gives the results of `jax.jit` to the bit.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, jaxpr_as_fun
from jax.extend.core.primitives import conv_general_dilated_p, dot_general_p

from graphc.errors import GraphError
from graphc.importers.jax.call.results import as_jax_results
from graphc.importers.jax.call.xla_mistakes import (
    is_worked_around,
    may_abort,
    may_be_miscompiled,
    wraps_around,
)
from graphc.importers.jax.read.jaxprs import equations, largest_result, words_of
from graphc.importers.jax.read.unsupported import Unsupported, reading
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import (
    Spec,
    TracedFunction,
    inputs_of,
    trace_function,
)
from graphc.importers.jax.unrolled.alone import folded
from graphc.importers.jax.unrolled.by_size import runs_steps_in_python
from graphc.importers.jax.unrolled.of_jax import may_have_loops
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray
from graphc.rewriting.default import NONE
from graphc.rewriting.engine.rule import Rules
from graphc.rewriting.loops.fuse_consumers import HOISTING
from graphc.rewriting.loops.roll.chains import NAME as ROLLED
from graphc.rewriting.loops.roll.repeats import LEAST_BLOCKS
from graphc.runtime.compile import function
from graphc.runtime.driver.log import Compilation
from graphc.runtime.function import Function

GAINING = {*(rule.name for rule in HOISTING), ROLLED}  # names of rules
LEAST_REPEATED = 400  # equations from which loops may save enough to pay
PRODUCTS = dot_general_p, conv_general_dilated_p
LARGE = 2**22  # elements of an array for which rewriting is tried


@dataclass
class Exact:
    """The compiled program of one call: its trace, or a rewritten program.

    `seconds` is the time of tracing and compiling: 0 if the call failed, and None if
    the user interrupted it.
    """

    traced: TracedFunction
    rewritten: Function | None
    captured: tuple[Any, ...]
    reason: str  # why it was not read as a graph, "" if it was or need not be
    foreign: tuple[str, ...] = ()  # equations of a rewritten program that JAX runs
    is_folded: bool = False  # whether the steps of Python's loops run in a loop
    seconds: float | None = 0.0

    def __call__(self, leaves: Sequence[ConcreteArray]) -> object:
        """The results of a call, in their structure."""
        if self.rewritten is None:
            results = jaxpr_as_fun(self.traced.jaxpr)(*leaves)
        else:
            arrays = [*map(words_of, leaves), *self.captured]
            with jax.enable_x64(True):  # dtypes are those of the trace, not of the mode
                raw_results = self.rewritten.jax_callable(*arrays)
            results = as_jax_results(raw_results, self.traced)
        return jax.tree.unflatten(self.traced.tree, results)

    @property
    def source(self) -> str:
        """The text of the compiled program."""
        return (
            str(self.traced.jaxpr) if self.rewritten is None else self.rewritten.source
        )

    def compilations(self) -> list[Compilation]:
        """The compilation by `jax.jit`; whoever keeps it knows sizes and reason."""
        return [] if self.seconds is None else [Compilation(0, self.seconds, "", {})]

    def report(self, full: bool) -> Iterator[str]:
        """Yield lines about how the program is compiled."""
        yield "as JAX traces it" if self.rewritten is None else "rewritten"
        if self.reason:
            yield f"  it was not read as a graph: {self.reason}"
        if self.is_folded:
            yield "  the steps that Python counts run in a loop"
        if self.rewritten is not None:
            yield from (f"  {a}" for a in self.rewritten.rewrites)
            yield from (f"  run by JAX in it: {reason}" for reason in self.foreign)


class CompilationTimes(threading.local):
    """The programs for single sizes that JAX compiles during the call at hand."""

    def __init__(self) -> None:
        self.programs: list[tuple[Exact, float]] = []
        self.interrupted: list[Exact] = []

    def trace_timed(self, trace: Callable[[], Exact]) -> Exact:
        """Trace a program, whose time runs from here to the end of the call."""
        started = time.perf_counter()
        program = trace()
        self.programs.append((program, started))
        return program

    @contextmanager
    def time_call(self, sizes: Callable[[], tuple[object, ...]]) -> Generator[None]:
        """Within the context, time programs of a call at these sizes, unless it fails.

        A program of an interrupted call is timed later, since JAX does not trace it
        again.
        """
        self.programs.clear()
        started_call = time.perf_counter()
        try:
            yield
        except Exception:
            raise
        except BaseException:
            for program, _ in self.programs:
                program.seconds = None
                self.interrupted.append(program)
            raise
        for program, started in self.programs:
            program.seconds = time.perf_counter() - started
        self.programs.clear()
        if self.interrupted:
            self._compile_again(sizes(), started_call)

    def _compile_again(self, sizes: tuple[object, ...], started: float) -> None:
        """Set the time of a program that an interrupted call was to compile."""
        for program in self.interrupted[:]:
            if tuple(x.shape for x in program.traced.jaxpr.in_avals) == sizes:
                self.interrupted.remove(program)
                program.seconds = time.perf_counter() - started


def compile_exactly(
    subject: Subject,
    specs: Sequence[Spec],
    names: Sequence[str],
    options: Options,
) -> Exact:
    """Compile a call with arguments of these types."""
    trace = trace_function(subject.flat, specs)
    is_derivative = subject.differentiated is not None  # which graphc takes
    replaced = is_derivative or may_abort(trace.inner) or wraps_around(trace.inner)
    loops = options.rewrites != NONE and may_have_loops(trace.inner)
    others = replaced or _may_gain(trace.inner) or may_be_miscompiled(trace.inner)
    if not (loops or others):
        return Exact(trace, None, (), "")
    try:
        inputs = inputs_of(trace, {}, names)
        read = subject.read(specs) if is_derivative else trace
        with reading():
            source = subject.graph(read, {}, inputs)
        rewritten = _folded_function(source.graph, options.rewrites) if loops else None
        is_folded = rewritten is not None
        if rewritten is None and not others:
            return Exact(trace, None, (), "")
        if rewritten is None:
            rewritten = _function_of(source.graph, options.rewrites)
    except (Unsupported, GraphError) as error:
        return Exact(trace, None, (), str(error).splitlines()[0])
    gains = any(a.rule.name in GAINING for a in rewritten.rewrites)
    gains = gains or replaced or is_folded
    if not gains and not is_worked_around(rewritten.plan.graph.nodes):
        return Exact(trace, None, (), "")
    foreign, captured = source.foreign, source.captured
    return Exact(trace, rewritten, captured, "", foreign, is_folded=is_folded)


def function_as_graph(
    subject: Subject, trace: TracedFunction, names: Sequence[str]
) -> Function:
    """The function of the graph of a trace as it is written; nothing is compiled.

    Raises Unsupported or GraphError if there is no such graph.
    """
    with reading():
        graph = subject.graph(trace, {}, inputs_of(trace, {}, names)).graph
    return _function_of(graph, NONE)


def _folded_function(graph: Graph, rewrites: Rules) -> Function | None:
    """The function of a graph with its loops folded, if that pays."""
    shorter = folded(graph, graph.inputs)
    program = None if shorter is None else _function_of(shorter, rewrites)
    return None if program is None or runs_steps_in_python(program) else program


def _function_of(graph: Graph, rewrites: Rules) -> Function:
    """The function of a graph, whose text JAX is to trace."""
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    return function(inputs, outputs, jit=False, rewrites=rewrites, unused="ignore")


def _may_gain(jaxpr: Jaxpr) -> bool:
    """Whether there are equations that rewriting might save."""
    if jaxpr.effects or not jaxpr.outvars:
        return False
    eqns = [*equations(jaxpr)]
    return any(map(_is_to_rewrite, eqns)) or _may_repeat(eqns)


def _may_repeat(eqns: Sequence[JaxprEqn]) -> bool:
    """Whether so many products have the same types that they may belong to blocks."""
    if len(eqns) < LEAST_REPEATED:
        return False
    products = [eqn for eqn in eqns if eqn.primitive in PRODUCTS]
    kinds = Counter(tuple(str(v.aval) for v in eqn.invars) for eqn in products)
    return max(kinds.values(), default=0) >= LEAST_BLOCKS


def _is_to_rewrite(eqn: JaxprEqn) -> bool:
    """Whether an equation is a scan, which may stack, or makes a large array."""
    return eqn.primitive.name == "scan" or largest_result(eqn) >= LARGE
