"""Producers in a tiled loop: large values, down to the tiles that the loop reads."""

from collections.abc import Callable, Container, Iterable, Mapping

from graphc.errors import standing_at
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.rewriting.loops.producers import UsersOf, after_users
from graphc.rewriting.loops.tile_rules import block, block_source
from graphc.rewriting.sizes import is_one

Resolve = Callable[[Value], Value]
TilePlace = tuple[Value, int]  # a value, and its tiled axis


class Cone:
    """The backward slice of some places, tile by tile.

    `within`: whether a value is computed by tile, whatever else uses it. `has`: values
    whose tiles the loop has, along a first axis.
    """

    def __init__(
        self,
        within: Callable[[Value], bool],
        uses: UsersOf,
        has: Container[Value] = frozenset(),
    ) -> None:
        self._has = has
        self._within = within
        self._uses = uses
        self._order: list[TilePlace] = []
        self._parents: dict[TilePlace, list[TilePlace | None]] = {}
        self.given: dict[TilePlace, None] = {}
        self.had: dict[TilePlace, None] = {}  # used places of the values in `has`
        self._fixed: list[TilePlace] = []  # the same for all tiles

    @property
    def made(self) -> list[TilePlace]:
        """The places that are computed, each after its operands."""
        return self._order

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are cloned into the body."""
        return list(dict.fromkeys(v.node for v, _ in self._order))

    def collect(self, places: Iterable[TilePlace], ends: Iterable[Node]) -> None:
        """Collect the producers of these tiles, which nodes `ends` use."""
        inside = set(ends)
        after_users(places, lambda place: self._needed(place, inside))
        self._order.reverse()

    def _needed(self, place: TilePlace, inside: set[Node]) -> list[TilePlace | None]:
        value, axis = place
        node = value.node
        if value in self._has:
            self.had[place] = None
            return []
        if is_one(value.type.shape[axis]):
            self._fixed.append(place)
            return []
        sources = None
        if self._within(value) or self._uses.is_better_among(value, inside):
            sources = block_source(node, axis)
        if sources is None:
            self.given[place] = None
            return []
        pairs = zip(node.inputs, sources, strict=True)
        needed = [None if a is None else (x, a) for x, a in pairs]
        inside.add(node)
        self._order.append(place)
        self._parents[place] = needed
        return needed

    def computed(
        self, given: Mapping[TilePlace, Value], count: Size, known: Resolve
    ) -> dict[TilePlace, Value]:
        """All tiles, of `count` positions, from the tiles that the loop reads.

        `known` maps a value that all tiles share to its replacement.
        """
        blocks = {**given, **{place: known(place[0]) for place in self._fixed}}
        for place in self._order:
            node, axis = place[0].node, place[1]
            needed = zip(node.inputs, self._parents[place], strict=True)
            inputs = [known(x) if of is None else blocks[of] for x, of in needed]
            with standing_at(node.place.plain):
                blocks[place] = block(node, axis, inputs, count)
        return blocks

    def outside(self) -> list[Value]:
        """The values from outside the loop that the tiles are computed from."""
        found = [v for v, _ in [*self.given, *self._fixed]]
        for value, axis in self._order:
            parents = zip(value.node.inputs, self._parents[value, axis], strict=True)
            found += [x for x, of in parents if of is None]
        return found
