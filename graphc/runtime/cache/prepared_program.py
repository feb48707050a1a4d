"""A program that is ready to run; the plan before it may be made later."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphc.backends.program import Source
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Symbol
from graphc.transform.planning.plan import Plan


@dataclass(frozen=True)
class ProgramFacts:
    """All that running a program takes: its text, and what its plan says about calls.

    A program is `alone` if all that it does is call its one segment, `wide` if it
    allows 64-bit arrays, and `padded` if its segments run at capacities.
    """

    text: str
    alone: bool
    wide: bool
    padded: bool
    padded_inputs: tuple[int, ...]  # positions of arguments stored at capacities
    segments: int
    statics: tuple[int, ...]  # positions of static inputs


class PreparedProgram:
    """The facts of a program, and its plan, which `make` computes on demand."""

    def __init__(
        self,
        facts: ProgramFacts,
        inputs: tuple[Value, ...],
        make: Callable[[], tuple[Plan, Source]],
        foreigns: Mapping[str, Callable[..., object]] = {},
    ) -> None:
        self.facts = facts
        self.inputs = inputs
        self.foreigns = foreigns
        self._make = make
        self._program: tuple[Plan, Source] | None = None

    @classmethod
    def of(cls, plan: Plan, source: Source) -> "PreparedProgram":
        """Return the program of a plan that has been made."""
        pad = plan.padded
        facts = ProgramFacts(
            text=source.text,
            alone=source.alone,
            wide=source.wide,
            padded=pad is not None,
            padded_inputs=() if pad is None else tuple(sorted(pad.padded_inputs)),
            segments=len(plan.segments),
            statics=plan.static_inputs,
        )
        inputs = plan.called.inputs
        prepared = cls(facts, inputs, lambda: (plan, source), source.foreigns)
        prepared._program = plan, source
        return prepared

    def _both(self) -> tuple[Plan, Source]:
        if self._program is None:
            self._program = self._make()
        return self._program

    @property
    def planned(self) -> bool:
        """Whether the plan has been made."""
        return self._program is not None

    @property
    def plan(self) -> Plan:
        """The plan that the program was printed from."""
        return self._both()[0]

    @property
    def value_names(self) -> Mapping[Value, str]:
        """The names of values in the text."""
        return self._both()[1].values

    @property
    def sizes(self) -> dict[str, Symbol]:
        """The sizes by their names in the text.

        If older graphs are alive, nodes are shared with them, and a program may be
        printed in another order than the one that was kept. Then only those sizes are
        known by their names that nothing else is named after.
        """
        source = self._both()[1]
        if source.text == self.facts.text:
            return source.sizes
        count = Counter(symbol.name for symbol in source.sizes.values())
        pairs = source.sizes.items()
        return {n: s for n, s in pairs if n == s.name and count[n] == 1}
