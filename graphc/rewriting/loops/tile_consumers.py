"""Regions: consumers of a large value that a loop computes along one of its axes."""

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.errors import standing_at
from graphc.ir.dims import Size, equal, less_equal
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.primitives import OP
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loops.affine_reads import View
from graphc.rewriting.loops.online_softmax import Shifts
from graphc.rewriting.loops.outer_products import Large, kept_values, outer_values
from graphc.rewriting.loops.producers import LIGHT, SlicePlace, UsersOf
from graphc.rewriting.loops.slice_rules import REDUCTIONS
from graphc.rewriting.loops.stream_reductions import StreamReduction
from graphc.rewriting.loops.tile_producers import Cone, TilePlace
from graphc.rewriting.loops.tile_reductions import Tiling, of_tiles
from graphc.rewriting.loops.tile_rules import block_source
from graphc.rewriting.loops.welford import Centring
from graphc.rewriting.sizes import is_one

MOVES = (OP.basic_index, OP.reshape, OP.gather, OP.scatter, OP.concatenate, OP.stack)
FARTHEST = 50  # nodes to follow from one large value to the next
BRIDGES = {*REDUCTIONS, *LIGHT, *MOVES}  # little work between two large values


@dataclass(frozen=True)
class GraphFacts:
    """The facts about the large values of a graph.

    `roots` are the large values that are computed from no other, with a bit for each;
    `behind` gives the bits of the roots on which a node depends.
    """

    nodes: list[Node]
    uses: UsersOf
    large: Large
    kept: set[Value]
    roots: dict[Value, int]
    behind: dict[Node, int]

    def is_gone(self, value: Value) -> bool:
        """Whether a value is large and need not be materialised."""
        return value in self.large and value not in self.kept


def facts_of(graph: Graph, least: int) -> GraphFacts | None:
    """The facts about the large values of a graph; None if there are none."""
    nodes = ancestors(graph.outputs)
    large = outer_values(nodes, least)
    if not large:
        return None
    kept = kept_values(nodes, graph, large)
    made = {v for v in large if any(x in large for x in v.node.inputs)}
    first = (v for v in large if v not in kept and v not in made)
    roots = {v: 1 << i for i, v in enumerate(first)}
    behind = {v.node: bit for v, bit in roots.items()}
    for node in nodes:
        bits = behind.get(node, 0)
        for value in operands(node):
            bits |= behind[value.node]
        behind[node] = bits
    return GraphFacts(nodes, UsersOf(nodes, graph), large, kept, roots, behind)


class TileConsumers:
    """The values computed tile by tile from large ones, along one of their axes.

    `seeds` are the large values, each with the axis. `given`: the loop has their tiles.
    `more` places are computed in any case, for a node outside the region. `backwards`:
    the last tile comes first.
    """

    def __init__(
        self,
        seeds: Mapping[Value, int],
        facts: GraphFacts,
        given: bool = False,
        more: Sequence[TilePlace] = (),
        of: Iterable[Node] = (),
        backwards: bool = False,
    ) -> None:
        self.seed, axis = next(iter(seeds.items()))
        self.facts = facts
        self.length = self.seed.type.shape[axis]
        self._bit = facts.roots[self.seed]
        self.uses = facts.uses
        self.backwards = backwards
        self._whole = View.whole(self.length)
        self.views: dict[Value, View] = {}
        for value, own in seeds.items():
            self._see(value, own)
        self.rows: dict[Value, int] = {}  # smaller values, with one tile for each tile
        self.joins: dict[Node, StreamReduction] = {}
        extent = self.length, True
        self._late = Shifts(self, *extent), Centring(self, *extent)
        self._walk()
        has = frozenset(seeds if given else ())
        self.cone = Cone(self._is_within, facts.uses, has)
        places = [*self.rows.items(), *self._joined_places(), *more]
        self.cone.collect(places, [*self._reducing(), *of])
        self.shown = self._shown()

    def _is_within(self, value: Value) -> bool:
        return self.facts.is_gone(value) or value in self.views

    def _see(self, value: Value, axis: int) -> None:
        """Record that a value has tiles along an axis."""
        self.views[value] = self._whole.along(axis)

    def _axis(self, value: Value) -> int | None:
        """The tiled axis of a value, or None."""
        return self.views[value].axis if value in self.views else None

    def _walk(self) -> None:
        """Visit the users of tiles, in order."""
        uses = self.facts.uses
        heap = [(node.serial, node) for v in self.views for node in uses.of(v)]
        heapq.heapify(heap)
        seen: set[Node] = set()
        far = 0
        while heap and far < FARTHEST:
            _, node = heapq.heappop(heap)
            if node in seen:
                continue
            seen.add(node)
            far = 0 if any(map(self.facts.is_gone, node.inputs)) else far + 1
            self._visit(node)
            if node.outputs and self._goes_on(node.outputs[0]):
                for user in uses.of(node.outputs[0]):
                    heapq.heappush(heap, (user.serial, user))

    def _goes_on(self, value: Value) -> bool:
        """Whether the users of a value may be computed tile by tile."""
        return value in self.views or any(value in late for late in self._late)

    def _reducing(self) -> set[Node]:
        """The reductions, and the nodes of rescaled values that only these use."""
        found = set(self.joins)
        late = set[Node]().union(*(late.nodes for late in self._late))
        for node in sorted(late, key=lambda n: n.serial, reverse=True):
            if self.uses.are_among(node.outputs[0], found):
                found.add(node)
        return found

    @property
    def nodes(self) -> set[Node]:
        """The nodes that the body computes."""
        return {*self.cone.nodes, *self._reducing()}

    def _shown(self) -> list[Value]:
        """The live-out values to stack; cheap values are recomputed from these."""
        inside, uses, needed = self.nodes, self.facts.uses, set[Value]()
        for value, _ in reversed(self.cone.made):
            if value in self.facts.large:
                continue
            again = any(v in needed for n in uses.of(value) for v in n.outputs)
            if again or not uses.are_among(value, inside):
                needed.add(value)
        return [v for v in self.rows if v in needed]

    def depends(self, value: Value) -> bool:
        """Whether a value depends on the seeds."""
        return bool(self.facts.behind[value.node] & self._bit)

    def _joined_places(self) -> list[TilePlace]:
        places = (place for how in self.joins.values() for place in how.places)
        return [(x, view.axis) for x, view in places]

    def _visit(self, node: Node) -> None:
        if any(map(self.depends, node.demands)) or len(node.outputs) != 1:
            return
        if not self.depends(node.outputs[0]):
            return
        own = [x for x in node.inputs if self._goes_on(x)]
        closes = any(map(self.facts.is_gone, own))
        how = self._joined(node) if closes else None
        if how is not None:
            self.joins[node] = how
            return
        out, axis = node.outputs[0], self._view(node)
        if axis is None:
            if closes and out not in self.facts.kept:
                for late in self._late:
                    late.visit(node)
            return
        if out in self.facts.large:
            self._see(out, axis)
        elif closes:
            self.rows[out] = axis
            self._see(out, axis)
        elif node.primitive.elementwise or node.primitive in BRIDGES:
            self._see(out, axis)

    def _joined(self, node: Node) -> StreamReduction | None:
        """The reduction by which the loop computes a node, if it has one."""
        tiling = Tiling(list(map(self._axis, node.inputs)), self.length, self.backwards)
        with standing_at(node.place.plain):
            how = of_tiles(node, tiling)
        if how is not None and all(self.is_row(*place) for place in how.places):
            return how
        found = (late.task(node) for late in self._late)
        return next((how for how in found if how is not None), None)

    def _view(self, node: Node) -> int | None:
        """The tiled axis of a result, or None."""
        views = list(map(self._axis, node.inputs))
        for axis in range(node.outputs[0].type.rank):
            found = block_source(node, axis)
            if found is None:
                continue
            pairs = zip(views, found, strict=True)
            if any(v is not None and v == a for v, a in pairs):
                fits = all(map(self._is_block, node.inputs, found))
                return axis if fits else None
        return None

    def _is_block(self, value: Value, axis: int | None) -> bool:
        """Whether tiles of a value along an axis can be had; None: all of it."""
        if self.depends(value):
            return axis is not None and self._axis(value) == axis
        if axis is None:
            return True
        n = value.type.shape[axis]
        return is_one(n) or equal(n, self.length) is not False

    def is_row(self, value: Value, view: View | None) -> bool:
        """Whether tiles of a value, with this view, can be had; None: all of it."""
        return self._is_block(value, None if view is None else view.axis)

    @property
    def gains(self) -> bool:
        """Whether the loop saves materialising a large value."""
        if not self.joins and not self.shown:
            return False
        if not self.facts.large[self.seed].sure and not self._reduces():
            return False
        given = [v for v, _ in self.cone.given]
        whole = any(v in self.facts.large or self._is_as_large(v) for v in given)
        return not whole

    def _is_as_large(self, value: Value) -> bool:
        most = value.type.size * value.dtype.itemsize
        own = self.seed.type.size * self.seed.dtype.itemsize
        return less_equal(own, most) is True

    def _reduces(self) -> bool:
        """Whether columns are reduced by another op than a product, as in a softmax."""
        return any(v.node.primitive in REDUCTIONS for v in self.rows)

    @property
    def cost(self) -> tuple[int, int]:
        """Sort key: lowest for the region with most reductions, then fewest carries."""
        return -len(self.joins) - len(self.rows), len(self.joins)

    @property
    def left(self) -> list[Value]:
        """The live-out values of the region."""
        return [*self.shown, *(node.outputs[0] for node in self.joins)]

    def outside(self) -> list[Value]:
        """The values from outside the loop that the region reads."""
        found = self.cone.outside()
        for how in self.joins.values():
            found += how.needs
        return found

    def parts(self, tiles: Mapping[TilePlace, Value]) -> dict[SlicePlace, Value]:
        """Tiles, by the views that reductions know them by."""
        return {(v, self._whole.along(a)): x for (v, a), x in tiles.items()}


def best_region(
    seed: Value, facts: GraphFacts, inside: Container[Size] = ()
) -> TileConsumers | None:
    """The region along the best axis of a large value; None if none pays.

    Axes of a size that is `inside` are no choice.
    """
    shape = seed.type.shape
    axes = [a for a in facts.large[seed].axes if shape[a] not in inside]
    found = [TileConsumers({seed: axis}, facts) for axis in axes]
    gaining = [region for region in found if region.gains]
    return min(gaining, key=lambda r: r.cost, default=None)
