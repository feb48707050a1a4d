"""The body of a loop over tiles."""

from collections.abc import Iterable, Mapping
from itertools import filterfalse
from types import MappingProxyType

from graphc.errors import standing_at
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.replay import replayed
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, maximum
from graphc.ir.types import INT32, product
from graphc.rewriting.loops.find.access import Tile, part_shape
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.fuse.stream_reductions import Carries
from graphc.rewriting.loops.tile.tile_consumers import TileConsumers
from graphc.rewriting.match.sizes import with_guards


class Blocks:
    """The init, the body and the results of a tiled loop that computes a region.

    `known` maps a value from before the loop to its replacement.
    """

    def __init__(self, region: TileConsumers, known: Resolve) -> None:
        self._region, self._known = region, known
        self._carries = Carries(region.reductions, known)
        placed = self._carries.placed or region.producers.placed
        self._place = [self._first_place()] * placed
        self.inits: list[Value] = [*self._place, *self._carries.start]
        inputs = region.producers.inputs
        self.inputs: list[tuple[Value, int]] = [
            (known(v), view.axis) for v, view in inputs
        ]
        self.axes: list[int] = [region.rows[v].axis for v in region.stacked_values]

    def _first_place(self) -> Value:
        """Return where the first tile starts, or the end if the last tile is first."""
        stream = self._region.stream
        return cast(as_value(size_value(stream.length * stream.backwards)), INT32)

    def step(
        self,
        carry: list[Value],
        tiles: list[Value],
        count: Size,
        more: Mapping[PartPlace, Value] = MappingProxyType({}),
    ) -> StepResult:
        """Compute the carries after a tile, and live-out tiles; `more` are inputs."""
        computed = self.compute_tiles(carry, tiles, count, more)
        return self.finish_step(carry, computed, count)

    def compute_tiles(
        self,
        carry: list[Value],
        tiles: list[Value],
        count: Size,
        more: Mapping[PartPlace, Value],
    ) -> dict[PartPlace, Value]:
        """Compute all tiles that depend on the input tiles."""
        producers = self._region.producers
        read = dict(zip(producers.inputs, tiles, strict=True))
        tile = Tile(count, self._next_place(carry, count)[1])
        return producers.compute_parts({**read, **more}, tile=tile, known=self._known)

    def finish_step(
        self, carry: list[Value], computed: Mapping[PartPlace, Value], count: Size
    ) -> StepResult:
        """Compute the carries after a tile, and return its live-out tiles."""
        region, split = self._region, len(self._place)
        after, first = self._next_place(carry, count)
        after += self._carries.step(carry[split:], computed, first)
        return after, [computed[v, region.rows[v]] for v in region.stacked_values]

    def _next_place(self, carry: list[Value], count: Size) -> tuple[list[Value], Value]:
        """Return the carry that places the next tile, and the start of this one."""
        if not self._place:
            return [], as_value(0)
        steps = cast(as_value(size_value(count)), INT32)
        if self._region.stream.backwards:
            first: Value = F.subtract(carry[0], steps)
            return [first], first
        return [F.add(carry[0], steps)], carry[0]

    def results(self, ends: list[Value], ys: list[Value]) -> dict[Value, Value]:
        """Replace the live-out values, using the final carries and ys."""
        replacements = dict(zip(self._region.stacked_values, ys, strict=True))
        carry = ends[len(self._place) :]
        for node, how, carries in self._carries.each_with_carry(carry):
            with standing_at(node.place.plain):
                replacements[node.outputs[0]] = how.end(
                    carries, self._resolve_after(replacements)
                )
        producers = self._region.producers
        return {
            old: with_guards(producers.with_guards(new), old.node)
            for old, new in replacements.items()
        }

    def _resolve_after(self, replacements: Mapping[Value, Value]) -> Resolve:
        """Return a look-up of values after the loop, which may need its results."""
        first = self._region.seed.node.serial

        def replaced(value: Value) -> Value:
            return replacements[value] if value in replacements else self._known(value)

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


def bytes_per_position(values: Iterable[PartPlace]) -> Size:
    """Return the bytes of one position of the largest of some values."""
    sizes: dict[Size, None] = {}
    for value, view in values:
        others = product(part_shape(value.type.shape, view.axis, None))
        sizes[others * value.dtype.itemsize] = None
    return maximum(1, *sizes)
