"""A driver in the form of a model file: its steps, and their names and stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

from graphc.ir.graph.nodes import Node
from graphc.ir.sizes.dims import Symbol
from graphc.ir.types import NDArray
from graphc.ops.effects.capacities import Capacities
from graphc_serving.steps import Step


@dataclass
class FileDriver:
    """Steps, the numbers of the results, and what the steps do not say themselves.

    A capacity step holds the number of its `policies` in place of rows. `segments` are
    the segments that stages run, or nodes that the driver computes on the host. `names`
    are the names of sizes; `of_data` holds those of sizes that depend on data and are
    read. The first `running` steps run all programs, for which the sizes `reads` must
    be known. `constants` come after the inputs.
    """

    names: dict[Symbol, str]
    originals: Mapping[Symbol, Symbol]
    constants: Sequence[NDArray]
    steps: Sequence[Step] = ()
    results: list[int] = field(default_factory=list)
    policies: list[Sequence[Capacities]] = field(default_factory=list)
    segments: list[int | Node] = field(default_factory=list)
    of_data: dict[str, None] = field(default_factory=dict)
    reads: Sequence[str] = ()
    running: int = 0

    def name(self, symbol: Symbol, hint: str = "") -> str:
        """Return the name of a size, which no other size has."""
        symbol = self.originals.get(symbol, symbol)
        if symbol not in self.names:
            taken, name = set(self.names.values()), hint or symbol.name
            others = (f"{name}_{i}" for i in count(1))
            self.names[symbol] = next(
                n for n in chain([name], others) if n not in taken
            )
        return self.names[symbol]

    def stage(self, program: int | Node) -> int:
        """Add a stage that runs a program, and return its number."""
        self.segments.append(program)
        return len(self.segments) - 1
