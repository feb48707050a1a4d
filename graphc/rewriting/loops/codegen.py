"""The body of a loop over blocks."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from graphc.errors import standing_at
from graphc.ir.dims import Size, maximum
from graphc.ir.graph import Value
from graphc.ir.types import product
from graphc.rewriting.loops.tile_consumers import TileConsumers
from graphc.rewriting.loops.tile_producers import Cone, Resolve, TilePlace, inputs_of
from graphc.rewriting.sizes import guarded

StepResult = tuple[list[Value], list[Value]]


class Blocks:
    """The init, the body and the results of a tiled loop that computes a region.

    `known` maps a value from before the loop to its replacement.
    """

    def __init__(self, region: TileConsumers, known: Resolve) -> None:
        self._region, self._known = region, known
        self._joins = list(region.joins.values())
        self.start = [how.start(known) for how in self._joins]
        self.given = [(known(v), a) for v, a in region.cone.given]
        self.axes = [region.rows[v] for v in region.shown]

    def step(
        self,
        carry: list[Value],
        blocks: list[Value],
        count: Size,
        more: Mapping[TilePlace, Value] = MappingProxyType({}),
    ) -> StepResult:
        """The carries after a tile, and its live-out tiles; `more` are inputs too."""
        return self.left(carry, self.made(blocks, count, more))

    def made(
        self, blocks: list[Value], count: Size, more: Mapping[TilePlace, Value]
    ) -> dict[TilePlace, Value]:
        """All tiles that are computed from the input tiles."""
        cone = self._region.cone
        given = dict(zip(cone.given, blocks, strict=True))
        return cone.computed({**given, **more}, count, self._known)

    def left(self, carry: list[Value], made: Mapping[TilePlace, Value]) -> StepResult:
        """The carries after a tile, and its live-out tiles."""
        region, known = self._region, self._known
        after = []
        for how, before in zip(self._joins, carry, strict=True):
            with standing_at(how.node.place.plain):
                found = how.reduced(inputs_of(how.node, how.axes, made, known))
                after.append(how.join(before, found))
        return after, [made[v, region.rows[v]] for v in region.shown]

    def end(self, ends: list[Value], found: list[Value]) -> dict[Value, Value]:
        """Replacements of the live-out values, from the final carries and ys."""
        made = dict(zip(self._region.shown, found, strict=True))
        for how, carry in zip(self._joins, ends, strict=True):
            made[how.node.outputs[0]] = how.end(carry)
        cone = self._region.cone
        return {old: _guarded(cone, old, new) for old, new in made.items()}


def bytes_of_one(values: Iterable[TilePlace]) -> Size:
    """The bytes of one position of the largest of some values."""
    sizes: dict[Size, None] = {}
    for value, axis in values:
        shape = value.type.shape
        others = product([*shape[:axis], *shape[axis + 1 :]])
        sizes[others * value.dtype.itemsize] = None
    return maximum(1, *sizes)


def _guarded(cone: Cone, old: Value, new: Value) -> Value:
    """Keep the size checks of the replaced nodes."""
    for node in cone.nodes:
        new = guarded(new, node)
    return guarded(new, old.node)
