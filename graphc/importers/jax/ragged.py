"""`graphc.ragged` for JAX functions: written for one example, called with many."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import Any

import jax
import numpy as np

from graphc.backends.program import Outputs
from graphc.errors import CallError, ErrorKind, graph_error
from graphc.importers.decorated_function import DecoratedFunction
from graphc.importers.jax.call.decorated_types import Jitted
from graphc.importers.jax.call.program import FunctionRead, read_for_pattern, results_of
from graphc.importers.jax.call.report import JitCompilation, JitStats
from graphc.importers.jax.decorator import jit
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import CHECKED
from graphc.importers.jax.sizes.pattern import (
    LEAST,
    ShapesOfCall,
    SizePattern,
    common_pattern,
    shapes_of,
)
from graphc.importers.jax.trace.arguments import Arguments, JaxCall, arrays
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec, TracedFunction
from graphc.ir.tracebacks import hide_own_frames
from graphc.ir.types import ConcreteArray
from graphc.runtime.driver.failure import refused_call
from graphc.runtime.ragged import Ragged, Rows, ragged_graph


@dataclass(frozen=True)
class Examples:
    """The examples of a call, each as a call of its own."""

    calls: list[JaxCall]
    shared: list[bool]  # which leaves all examples have in common

    @property
    def sizes(self) -> list[ShapesOfCall]:
        """The shapes of the leaves of each example."""
        return [shapes_of(call.specs()) for call in self.calls]


@dataclass
class RaggedProgram:
    """A compiled program for examples of all sizes of a pattern."""

    pattern: SizePattern
    read: FunctionRead
    results: TracedFunction
    compiled: Ragged
    checked: dict[ShapesOfCall, bool] = field(default_factory=dict)

    def serves(self, sizes: ShapesOfCall, specs: list[Spec]) -> bool:
        """Whether the program computes what JAX traces for an example of these sizes.

        Examples with a size of one or none are always compared, since JAX may trace
        these differently.
        """
        if sizes not in self.checked:
            named = self.pattern.sizes(sizes)
            if not self.read.decisions.hold(named):
                return False
            small = any(n < LEAST for n in named.values())
            known = sum(self.checked.values()) >= CHECKED
            doubted = self.read.decisions.opaque or not all(self.checked.values())
            if known and not small and not doubted:
                return True
            direct = self.read.subject.read(SizePattern(sizes).specs(specs))
            self.checked[sizes] = self.read.agrees(direct, named)
        return self.checked[sizes]


@dataclass
class RaggedFamily:
    """Examples that differ only in sizes, and the program for them."""

    seen: list[ShapesOfCall] = field(default_factory=list)
    program: RaggedProgram | None = None


class RaggedFunction(DecoratedFunction):
    """A function of one example, compiled for lists of examples; see `ragged`."""

    def __init__(
        self,
        function: Callable[..., object],
        shared: tuple[int, ...],
        options: Mapping[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._shared = shared
        self._options = dict(options)
        self._arguments = Arguments(function)
        self._families: dict[Hashable, RaggedFamily] = {}
        self._alone: Jitted[..., Any] = jit(function, rewrites=options["rewrites"])
        self._calls = 0

    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._function, (self._shared, self._options)

    @hide_own_frames
    def __call__(self, /, *args: object) -> Any:
        """Compute lists of the results of each example, or their sums.

        Raises CallError if the arguments are not examples of one kind.
        """
        self._calls += 1
        examples = self._examples(args)
        specs = examples.calls[0].specs()
        family = self._family(examples, specs)
        program = self._program(family, examples, specs)
        served = [program.serves(sizes, specs) for sizes in examples.sizes]
        together = [i for i, s in enumerate(served) if s]
        columns = _run_together(program, examples, together)
        alone = {
            i: self._run_alone(program, examples, i)
            for i, s in enumerate(served)
            if not s
        }
        return self._join_results(program, columns, together, alone)

    def _examples(self, args: tuple[object, ...]) -> Examples:
        """Make a call for each example; raises CallError if their numbers differ."""
        shared_positions = {i % len(args) if args else i for i in self._shared}
        lists = {
            i: _listed(a, i) for i, a in enumerate(args) if i not in shared_positions
        }
        counts = {len(items) for items in lists.values()}
        if len(counts) != 1:
            got = ", ".join(map(str, sorted(counts))) or "no list of examples"
            raise _misfit("the arguments have different numbers of examples", got)
        count = counts.pop()
        if not count:
            raise _misfit("there are no examples, so their types are not known", "0")
        rows = [
            tuple(lists[i][k] if i in lists else a for i, a in enumerate(args))
            for k in range(count)
        ]
        shared = [
            i in shared_positions
            for i, a in enumerate(rows[0])
            for _ in jax.tree.leaves(a)
        ]
        return Examples([self._arguments.call(row, {}) for row in rows], shared)

    def _family(self, examples: Examples, specs: list[Spec]) -> RaggedFamily:
        kinds = [call.kind(call.specs()) for call in examples.calls]
        for i, kind in enumerate(kinds):
            if kind != kinds[0]:
                got = f"example 0: {_types(examples.calls[0])}; "
                got += f"example {i}: {_types(examples.calls[i])}"
                raise _misfit("examples differ in more than sizes", got, "dtype")
        return self._families.setdefault(kinds[0], RaggedFamily())

    def _program(
        self, family: RaggedFamily, examples: Examples, specs: list[Spec]
    ) -> RaggedProgram:
        """Return the program so far, or a new one that serves more sizes."""
        distinct = list(dict.fromkeys(examples.sizes))
        program = family.program
        if program is None or not all(map(program.pattern.has, distinct)):
            seen = list(dict.fromkeys((*family.seen, *distinct)))
            program = family.program = self._new_program(seen, examples, specs)
            family.seen = seen  # only now: making it may have raised
        return program

    def _new_program(
        self, seen: Sequence[ShapesOfCall], examples: Examples, specs: list[Spec]
    ) -> RaggedProgram:
        subject = Subject(self._function, examples.calls[0].without_leaves())
        pattern = common_pattern(seen)
        sizes = [n for s in seen for n in pattern.sizes(s).values()]
        pattern = replace(pattern, least=min([LEAST, *sizes]))
        names = [f"x{i}" for i in range(len(specs))]
        subject.read(specs)  # raises the function's own errors, as JAX does
        recorder = Recorder(max(map(pattern.sizes, seen), key=_least_size))
        try:
            read = read_for_pattern(subject, pattern, specs, names, recorder)
        except Unsupported as error:
            problem = f"this function of JAX cannot be read: {error.reason}"
            raise graph_error(problem, op="ragged", where=error.place) from None
        if read.source.acts:
            problem = "this function of JAX has side effects, such as printing"
            raise graph_error(problem, op="ragged", hint="call it for each example")
        graph = read.source.graph
        input_sharing = list(zip(graph.inputs, examples.shared, strict=False))
        shared = [v for v, same in input_sharing if same]
        shared += graph.inputs[len(input_sharing) :]
        structure = Outputs("list", (), (Outputs("single"),) * len(graph.outputs))
        compiled = ragged_graph(graph, structure, shared, "exact", **self._options)
        results = results_of(read, pattern, specs)
        return RaggedProgram(pattern, read, results, compiled)

    def _run_alone(
        self, program: RaggedProgram, examples: Examples, number: int
    ) -> list[ConcreteArray]:
        """Compute one example that the program does not serve; return its leaves.

        Raises CallError if the results have a different structure from the other
        examples'.
        """
        args, _ = examples.calls[number].arguments(examples.calls[number].leaves)
        results = self._alone(*args)
        tree, others = jax.tree.structure(results), program.results.tree
        if tree != others:
            problem = "examples have results of different structures"
            got = f"{others}; of example {number}: {tree}"
            raise _misfit(problem, got.replace("PyTreeDef", ""), "argument")
        return jax.tree.leaves(results)

    def _join_results(
        self,
        program: RaggedProgram,
        columns: Sequence[ConcreteArray] | None,
        together: list[int],
        alone: Mapping[int, list[Any]],
    ) -> object:
        """Join the results of all examples, in the structure of one example's."""
        tree = program.results.tree
        parts = []
        for k in range(tree.num_leaves):
            if self._options["total"]:
                terms = [results[k] for results in alone.values()]
                terms += [] if columns is None else [columns[k]]
                parts.append(sum(terms[1:], terms[0]))
                continue
            rows = {i: results[k] for i, results in alone.items()}
            rows |= dict(
                zip(together, [] if columns is None else columns[k], strict=True)
            )
            parts.append([rows[i] for i in sorted(rows)])
        return jax.tree.unflatten(tree, parts)

    def stats(self) -> JitStats:
        """Calls and compilations so far, including those for single examples."""
        alone = self._alone.stats()
        stats = JitStats(self._calls, fallbacks=alone.fallbacks, foreign=alone.foreign)
        for family in self._families.values():
            if family.program is not None:
                program_stats = family.program.compiled.function.stats()
                stats.compilations.extend(
                    JitCompilation(**vars(one), program=f"{family.program.pattern}")
                    for one in program_stats.compilations
                )
        stats.compilations.extend(
            replace(one, program=f"one example {one.program}")
            for one in alone.compilations
        )
        return stats

    def __repr__(self) -> str:
        return f"<graphc.ragged of {self._function!r}>"


def _least_size(sizes: Mapping[str, int]) -> int:
    return min(sizes.values(), default=0)


def _listed(argument: Any, position: int) -> list[ConcreteArray]:
    if isinstance(argument, Rows):
        return argument.examples()
    if isinstance(argument, (list, tuple)) or np.ndim(argument):
        return list(argument)
    problem = f"argument {position} must be a list of examples"
    raise _misfit(problem, type(argument).__name__, "argument")


def _run_together(
    program: RaggedProgram, examples: Examples, numbers: Sequence[int]
) -> Sequence[ConcreteArray] | None:
    """Run some of the examples by one program; None if there are none."""
    if not numbers:
        return None
    calls = [examples.calls[i] for i in numbers]
    columns = zip(*(arrays(call.leaves, call.specs()) for call in calls), strict=True)
    arguments = [
        column[0] if same else list(column)
        for column, same in zip(columns, examples.shared, strict=True)
    ]
    results: list[ConcreteArray] = program.compiled(
        *arguments, *program.read.source.captured
    )
    return results


def _types(call: JaxCall) -> str:
    """Show the arguments of an example, with types in place of arrays."""
    shown = [f"{s.dtype}{list(s.shape)}" for s in call.specs()]
    return str(call.arguments(shown)[0])[1:-1].replace("'", "")


def _misfit(problem: str, got: str, kind: ErrorKind = "shape") -> CallError:
    return refused_call(problem, kind, op="ragged", got=got)
