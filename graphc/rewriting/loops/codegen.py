"""The body of a loop over tiles."""

from collections.abc import Iterable, Mapping
from itertools import accumulate, filterfalse, pairwise
from types import MappingProxyType

from graphc.errors import standing_at
from graphc.ir.build import as_value, cast, size_value
from graphc.ir.dims import Size, maximum
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.replay import replayed
from graphc.ir.types import INT32, product
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loops.tile_consumers import TileConsumers
from graphc.rewriting.loops.tile_producers import Cone, Resolve, TilePlace
from graphc.rewriting.sizes import guarded

StepResult = tuple[list[Value], list[Value]]


class Blocks:
    """The init, the body and the results of a tiled loop that computes a region.

    `known` maps a value from before the loop to its replacement.
    """

    def __init__(self, region: TileConsumers, known: Resolve) -> None:
        self._region, self._known = region, known
        self._joins = region.joins
        placed = any(how.placed for how in self._joins.values())
        self._place = [self._first_place()] * placed
        starts = [how.start(known) for how in self._joins.values()]
        self.start = [*self._place, *(v for start in starts for v in start)]
        ends = accumulate(map(len, starts), initial=len(self._place))
        self._ranges = [slice(*pair) for pair in pairwise(ends)]
        self.given = [(known(v), a) for v, a in region.cone.given]
        self.axes = [region.rows[v] for v in region.shown]

    def _first_place(self) -> Value:
        """The first position of the first tile, or the end if the last comes first."""
        region = self._region
        return cast(as_value(size_value(region.length * region.backwards)), INT32)

    def step(
        self,
        carry: list[Value],
        blocks: list[Value],
        count: Size,
        more: Mapping[TilePlace, Value] = MappingProxyType({}),
    ) -> StepResult:
        """The carries after a tile, and its live-out tiles; `more` are inputs too."""
        return self.left(carry, self.made(blocks, count, more), count)

    def made(
        self, blocks: list[Value], count: Size, more: Mapping[TilePlace, Value]
    ) -> dict[TilePlace, Value]:
        """All tiles that are computed from the input tiles."""
        cone = self._region.cone
        given = dict(zip(cone.given, blocks, strict=True))
        return cone.computed({**given, **more}, count, self._known)

    def left(
        self, carry: list[Value], made: Mapping[TilePlace, Value], count: Size
    ) -> StepResult:
        """The carries after a tile, and its live-out tiles."""
        region, tiles = self._region, self._region.parts(made)
        after, first = self._next_place(carry, count)
        for (node, how), own in zip(self._joins.items(), self._ranges, strict=True):
            with standing_at(node.place.plain):
                after += how.step(carry[own], tiles, first)
        return after, [made[v, region.rows[v]] for v in region.shown]

    def _next_place(self, carry: list[Value], count: Size) -> tuple[list[Value], Value]:
        """The carry that says where the next tile is, and where this one starts."""
        if not self._place:
            return [], as_value(0)
        many = cast(as_value(size_value(count)), INT32)
        if self._region.backwards:
            first: Value = F.subtract(carry[0], many)
            return [first], first
        return [F.add(carry[0], many)], carry[0]

    def end(self, ends: list[Value], found: list[Value]) -> dict[Value, Value]:
        """Replacements of the live-out values, from the final carries and ys."""
        made = dict(zip(self._region.shown, found, strict=True))
        for (node, how), own in zip(self._joins.items(), self._ranges, strict=True):
            with standing_at(node.place.plain):
                made[node.outputs[0]] = how.end(ends[own], self._after(made))
        cone = self._region.cone
        return {old: _guarded(cone, old, new) for old, new in made.items()}

    def _after(self, made: Mapping[Value, Value]) -> Resolve:
        """Look up a value after the loop, which may depend on results of it."""
        first = self._region.seed.node.serial

        def replaced(value: Value) -> Value:
            return made[value] if value in made else self._known(value)

        def is_old(value: Value) -> bool:
            return value.node.serial < first or replaced(value) is not value

        def resolve(value: Value) -> Value:
            if is_old(value):
                return replaced(value)
            nodes = ancestors([value], lambda node: filterfalse(is_old, operands(node)))
            new = {
                v: replaced(v) for node in nodes for v in operands(node) if is_old(v)
            }
            return replayed([value], new, nodes)[0]

        return resolve


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
