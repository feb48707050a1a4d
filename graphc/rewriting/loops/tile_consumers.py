"""Regions: consumers of a large value that a loop computes along one of its axes."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.errors import standing_at
from graphc.ir.dims import equal, less_equal
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.primitives import OP
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loops.outer_products import Large, kept_values, outer_values
from graphc.rewriting.loops.producers import LIGHT, UsersOf
from graphc.rewriting.loops.slice_rules import REDUCTIONS
from graphc.rewriting.loops.tile_producers import Cone, TilePlace
from graphc.rewriting.loops.tile_reductions import Joined, joined
from graphc.rewriting.loops.tile_rules import block_source
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
    `more` places are computed in any case, for a node outside the region.
    """

    def __init__(
        self,
        seeds: Mapping[Value, int],
        facts: GraphFacts,
        given: bool = False,
        more: Sequence[TilePlace] = (),
        of: Iterable[Node] = (),
    ) -> None:
        self.seed, axis = next(iter(seeds.items()))
        self.facts = facts
        self.length = self.seed.type.shape[axis]
        self._bit = facts.roots[self.seed]
        self._views = dict(seeds)
        self.rows: dict[Value, int] = {}  # smaller values, with one tile for each tile
        self.joins: dict[Node, Joined] = {}
        self._walk()
        has = frozenset(seeds if given else ())
        self.cone = Cone(self._is_within, facts.uses, has)
        places = [*self.rows.items(), *self._joined_places(), *more]
        self.cone.collect(places, [*self.joins, *of])
        self.shown = self._shown()

    def _is_within(self, value: Value) -> bool:
        return self.facts.is_gone(value) or value in self._views

    def _walk(self) -> None:
        """Visit the users of tiles, in order."""
        uses = self.facts.uses
        heap = [(node.serial, node) for v in self._views for node in uses.of(v)]
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
            if node.outputs and node.outputs[0] in self._views:
                for user in uses.of(node.outputs[0]):
                    heapq.heappush(heap, (user.serial, user))

    @property
    def nodes(self) -> set[Node]:
        """The nodes that are cloned into the body."""
        return {*self.cone.nodes, *self.joins}

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

    def _depends(self, value: Value) -> bool:
        return bool(self.facts.behind[value.node] & self._bit)

    def _joined_places(self) -> list[TilePlace]:
        return [
            (x, a)
            for node, how in self.joins.items()
            for x, a in zip(node.inputs, how.axes, strict=True)
            if a is not None
        ]

    def _visit(self, node: Node) -> None:
        if any(map(self._depends, node.demands)) or len(node.outputs) != 1:
            return
        if not self._depends(node.outputs[0]):
            return
        own = [x for x in node.inputs if x in self._views]
        closes = any(map(self.facts.is_gone, own))
        how = self._joined(node) if closes else None
        if how is not None:
            self.joins[node] = how
            return
        out, axis = node.outputs[0], self._view(node)
        if axis is None:
            return
        if out in self.facts.large:
            self._views[out] = axis
        elif closes:
            self._views[out] = self.rows[out] = axis
        elif node.primitive.elementwise or node.primitive in BRIDGES:
            self._views[out] = axis

    def _joined(self, node: Node) -> Joined | None:
        with standing_at(node.place.plain):
            how = joined(node, [self._views.get(x) for x in node.inputs])
        if how is None or not all(map(self._is_block, node.inputs, how.axes)):
            return None
        return how

    def _view(self, node: Node) -> int | None:
        """The tiled axis of a result, or None."""
        views = [self._views.get(x) for x in node.inputs]
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
        if self._depends(value):
            return axis is not None and self._views.get(value) == axis
        if axis is None:
            return True
        n = value.type.shape[axis]
        return is_one(n) or equal(n, self.length) is not False

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
        for node, how in self.joins.items():
            pairs = zip(node.inputs, how.axes, strict=True)
            found += [x for x, a in pairs if a is None]
        return found


def best_region(seed: Value, facts: GraphFacts) -> TileConsumers | None:
    """The region along the best axis of a large value; None if none pays."""
    found = [TileConsumers({seed: axis}, facts) for axis in facts.large[seed].axes]
    gaining = [region for region in found if region.gains]
    return min(gaining, key=lambda r: r.cost, default=None)
