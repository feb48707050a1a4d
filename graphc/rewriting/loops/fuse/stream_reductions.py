"""Stream reductions: init, step and projection of the carries of a loop.

A loop reduces slices one by one, or tiles of several positions. Either way a reduction
says where its parts are, and how each part changes the carries.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from graphc.errors import standing_at
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.rewriting.loops.find.affine_reads import View
from graphc.rewriting.loops.find.producers import PartPlace, Resolve

Carry = list[Value]
PartsRead = Mapping[PartPlace, Value]  # slices, or tiles, which keep their axis
Start = Callable[[Resolve], Carry]
ReductionStep = Callable[[Carry, PartsRead, Value], Carry]
End = Callable[[Carry, Resolve], Value]


@dataclass(frozen=True)
class StreamReduction:
    """A reduction of the parts at `places`, which are slices or tiles.

    `start` makes the init, from replacements of values from before the loop. `step`
    takes the carries, the parts, and the position of the slice, or of the first one in
    a tile; `placed` tells whether it uses the position. `end` projects the final
    carries to the result, from replacements of values after the loop. Values that
    `start` reads, or that each step reads as a whole, are among the places too, seen as
    `ALL`.
    """

    places: Sequence[PartPlace]
    start: Start
    step: ReductionStep
    end: End
    placed: bool = False

    def by_iterations(self, view: View, length: Size) -> "StreamReduction":
        """Return the reduction by iterations, to which `view` assigns positions."""
        if view.covers(length):
            return self

        def step(carry: Carry, parts: PartsRead, number: Value) -> Carry:
            after = self.step(carry, parts, view.position(number))
            return update_where(after, carry, view.has_position(number, length))

        return replace(self, step=step, placed=True)


def update_where(after: Carry, before: Carry, condition: Value | None) -> Carry:
    """Return the carries after an iteration, or those before it if not `condition`."""
    if condition is None:
        return after
    return [F.where(condition, a, b) for a, b in zip(after, before, strict=True)]


OwnCarry = tuple[Node, StreamReduction, Carry]


class Carries:
    """The carries of some reductions in one loop, one reduction after the other."""

    def __init__(
        self, reductions: Mapping[Node, StreamReduction], known: Resolve
    ) -> None:
        self._reductions = reductions
        starts = []
        for node, how in reductions.items():
            with standing_at(node.place.plain):
                starts.append(how.start(known))
        self.start: list[Value] = [v for start in starts for v in start]
        ends = accumulate(map(len, starts), initial=0)
        self._ranges = [slice(*pair) for pair in pairwise(ends)]
        self.placed: bool = any(how.placed for how in reductions.values())

    def step(self, carry: Carry, parts: PartsRead, position: Value) -> Carry:
        """Compute the carries after an iteration."""
        after = []
        for node, how, carries in self.each_with_carry(carry):
            with standing_at(node.place.plain):
                after += how.step(carries, parts, position)
        return after

    def each_with_carry(self, carry: Carry) -> Iterator[OwnCarry]:
        """Yield each reduction with its own carries."""
        pairs = zip(self._reductions.items(), self._ranges, strict=True)
        for (node, how), places in pairs:
            yield node, how, carry[places]
