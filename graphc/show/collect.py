"""From a program, as a function describes it, to the records of a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Size, Symbol
from graphc.ir.sizes.names import naming_sizes
from graphc.rewriting.engine.fixpoint import Application
from graphc.show.emitted_text import printed_lines
from graphc.show.nodes import Nodes
from graphc.show.records import CompilationRecord, PredicateRecord, ProgramRecord
from graphc.show.rewriting import Rewrites
from graphc.show.steps import Steps
from graphc.show.tables import Tables
from graphc.transform.planning.plan import Plan


class CompiledPart(Protocol):
    """A compilation as `stats()` has it."""

    @property
    def segment(self) -> int:
        """The index of the segment."""
        ...

    @property
    def seconds(self) -> float:
        """The seconds that the compilation took."""
        ...

    @property
    def reason(self) -> str:
        """The change that asked for it."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes compiled for, by the names that they have in the text."""
        ...


@dataclass(frozen=True)
class Predicate:
    """A fact about sizes that a program is for, and its text."""

    text: str
    left: Size
    relation: str
    right: Size
    answer: bool


@dataclass(frozen=True)
class ShownProgram:
    """All that a picture tells about one program.

    `names` are the names of sizes that differ from their own. `sizes` are the symbols
    by the names that they have in the program's text, and `values` the names of values
    there. `serves` says which calls the program is for; `calls_by_compilation` may be
    empty where nobody knows them.
    """

    name: str
    plan: Plan
    backend: str
    compiled: bool
    source: str
    names: Mapping[object, str]
    sizes: Mapping[str, Symbol]
    values: Mapping[Value, str]
    rewrites: Sequence[Application] = ()
    compilations: Sequence[CompiledPart] = ()
    calls: int | None = None
    calls_by_compilation: Sequence[int | None] = ()
    serves: str = ""
    predicates: Sequence[Predicate] = ()
    notes: Sequence[str] = ()


def collect(shown: ShownProgram) -> ProgramRecord:
    """Make the records of a program."""
    with naming_sizes(shown.plan.names(shown.names)):
        return _Collector(shown).record()


class _Collector:
    """Makes the records of one program, table by table."""

    def __init__(self, shown: ShownProgram) -> None:
        self._shown, self._plan = shown, shown.plan
        self._tables = Tables(shown.plan)
        self._nodes = Nodes(self._tables, shown.values)

    def record(self) -> ProgramRecord:
        shown, plan = self._shown, self._plan
        called = plan.called
        inputs = tuple([self._nodes.value(v) for v in plan.graph.inputs])
        for value in called.inputs:
            self._tables.type(value.type)
            self._tables.line(value.node.place)
        steps = Steps(self._nodes)
        compiled = steps.of if shown.compiled else steps.one_step
        step_records = compiled(plan)
        outputs = [self._nodes.value(plan.resolve(v)) for v in plan.graph.outputs]
        checks = steps.size_checks(plan)
        rewrites = Rewrites(shown.rewrites, self._nodes)
        compilations = tuple(
            map(self._compilation, shown.compilations, self._calls_by_compilation())
        )
        predicates = tuple(map(self._predicate, shown.predicates))
        notes = [*shown.notes, *self._notes(rewrites.left_out)]
        return ProgramRecord(
            shown.name,
            shown.backend,
            shown.compiled,
            shown.serves,
            shown.calls,
            inputs,
            tuple(outputs),
            plan.static_inputs,
            tuple(self._tables.symbols.records),
            self._tables.sizes,
            tuple(self._tables.lines.records),
            tuple(self._tables.types.records),
            tuple(self._nodes.values.records),
            tuple(self._nodes.nodes.records),
            step_records,
            checks,
            compilations,
            rewrites.records,
            predicates,
            tuple(notes),
            printed_lines(shown.source),
        )

    def _compilation(self, one: CompiledPart, calls: int | None) -> CompilationRecord:
        symbols = ((self._shown.sizes.get(k), n) for k, n in one.sizes.items())
        keys = [(self._tables.symbol(s), n) for s, n in symbols if s is not None]
        return CompilationRecord(
            one.segment,
            round(one.seconds, 4),
            one.reason,
            dict(one.sizes),
            tuple(keys),
            calls,
        )

    def _calls_by_compilation(self) -> Sequence[int | None]:
        calls = self._shown.calls_by_compilation
        return calls or [None] * len(self._shown.compilations)

    def _predicate(self, one: Predicate) -> PredicateRecord:
        left, right = self._tables.size(one.left), self._tables.size(one.right)
        return PredicateRecord(one.text, left, one.relation, right, one.answer)

    def _notes(self, left_out: int) -> list[str]:
        """List policies, fallbacks at true size, prices, and what is left out here."""
        padded, plan = self._plan.padded, self._plan
        notes = [plan.budget] * bool(plan.budget)
        if padded is not None:
            notes += map(str, padded.remarks)
        if left_out:
            notes.append(f"{left_out} more applications of rules are not recorded here")
        return list(dict.fromkeys(notes))
