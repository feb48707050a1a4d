"""Regions: consumers of a large value that a loop computes along one of its axes."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.analysis.spread import is_spread
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.rewriting.loops.find.affine_reads import Stream, View
from graphc.rewriting.loops.find.axis_rules import REDUCTIONS
from graphc.rewriting.loops.find.producers import LIGHT, PartPlace, Producers, UsersOf
from graphc.rewriting.loops.fuse.outer_products import (
    Large,
    large_outer_products,
    whole_values,
)
from graphc.rewriting.loops.fuse.streamed_values import Streamed

MOVES = (OP.basic_index, OP.reshape, OP.gather, OP.scatter, OP.concatenate, OP.stack)
FARTHEST = 50  # nodes to follow from one large value to the next
# XLA fuses these with elementwise ops on a CPU; not any, all, prod and extremes.
FUSED = {OP.sum, OP.expand_dims, OP.squeeze, OP.broadcast_to, OP.transpose}
BRIDGES = {*REDUCTIONS, *LIGHT, *MOVES}  # little work between two large values


@dataclass(frozen=True)
class GraphFacts:
    """The facts about the large values of a graph.

    `roots` are the large values that are computed from no other large value, with a bit
    for each; `roots_behind` gives the bits of the roots on which a node depends.
    """

    nodes: Sequence[Node]
    uses: UsersOf
    large: Large
    whole: set[Value]
    roots: dict[Value, int]
    roots_behind: dict[Node, int]

    def is_gone(self, value: Value) -> bool:
        """Whether a value is large and need not be materialised."""
        return value in self.large and value not in self.whole


def facts_of(graph: Graph, least: int) -> GraphFacts | None:
    """Return the facts about the large values of a graph; None if there are none."""
    nodes = graph.nodes
    large = large_outer_products(nodes, least)
    if not large:
        return None
    whole = whole_values(nodes, graph, large)
    dependent = {v for v in large if any(x in large for x in v.node.inputs)}
    first = (v for v in large if v not in whole and v not in dependent)
    roots = {v: 1 << i for i, v in enumerate(first)}
    roots_behind = {v.node: bit for v, bit in roots.items()}
    for node in nodes:
        bits = roots_behind.get(node, 0)
        for value in operands(node):
            bits |= roots_behind[value.node]
        roots_behind[node] = bits
    return GraphFacts(nodes, UsersOf(nodes, graph), large, whole, roots, roots_behind)


class TileConsumers(Streamed):
    """The values computed tile by tile from large ones, along one of their axes.

    `seeds` are the large values, each with the axis. `in_tiles`: the loop is given
    their tiles. `more` places are computed in any case, for a node outside the region,
    and `users` are nodes outside that use parts. `backwards`: the last tile comes
    first.
    """

    def __init__(
        self,
        seeds: Mapping[Value, int],
        facts: GraphFacts,
        in_tiles: bool = False,
        more: Sequence[PartPlace] = (),
        users: Iterable[Node] = (),
        backwards: bool = False,
    ) -> None:
        self.seed: Value
        self.seed, axis = next(iter(seeds.items()))
        length = self.seed.type.shape[axis]
        super().__init__(Stream(length, True, backwards), facts.uses)
        self.facts = facts
        self._bit = facts.roots[self.seed]
        whole = self.stream.whole
        self.views |= {
            value: whole.along(seed_axis) for value, seed_axis in seeds.items()
        }
        self.rows: dict[Value, View] = {}  # smaller values, with one tile for each tile
        self._walk()
        has = frozenset(seeds if in_tiles else ())
        self.producers: Producers = Producers(
            self.stream, facts.uses, self._is_within, has
        )
        read = [place for how in self.reductions.values() for place in how.places]
        places = [*self.rows.items(), *read, *more]
        self.producers.collect(places, [*self._reduction_nodes(), *users])
        self.stacked_values: list[Value] = self._values_to_stack()

    def _is_within(self, value: Value) -> bool:
        return self.facts.is_gone(value) or value in self.views

    def _walk(self) -> None:
        """Visit the users of tiles, in order."""
        far = 0
        for node in self.facts.uses.each_after(self.views, self._gives_tiles):
            far = 0 if any(map(self.facts.is_gone, node.inputs)) else far + 1
            self._visit(node)
            if far == FARTHEST:
                break

    def _gives_tiles(self, node: Node) -> bool:
        return any(map(self._has_tiles, node.outputs))

    def _has_tiles(self, value: Value) -> bool:
        """Whether the users of a value may be computed tile by tile."""
        return value in self.views or any(value in r for r in self._rescaled)

    def _reduction_nodes(self) -> set[Node]:
        """Return the reductions, and nodes of rescaled values that only these use."""
        reducing, rescaled = set(self.reductions), self._rescaled_nodes()
        for node in sorted(rescaled, key=lambda n: n.serial, reverse=True):
            if self.uses.are_among(node.outputs[0], reducing):
                reducing.add(node)
        return reducing

    @property
    def nodes(self) -> set[Node]:
        """The nodes that the body computes."""
        return {*self.producers.nodes, *self._reduction_nodes()}

    def _values_to_stack(self) -> list[Value]:
        """Return the live-out values to stack, from which cheap ones are recomputed."""
        inside, uses, needed = self.nodes, self.facts.uses, set[Value]()
        for value, _ in reversed(self.producers.recomputed):
            if value in self.facts.large:
                continue
            is_needed = any(v in needed for n in uses.of(value) for v in n.outputs)
            if is_needed or not uses.are_among(value, inside):
                needed.add(value)
        return [v for v in self.rows if v in needed]

    def depends(self, value: Value) -> bool:
        """Whether a value depends on the seeds."""
        return bool(self.facts.roots_behind[value.node] & self._bit)

    def _visit(self, node: Node) -> None:
        if any(map(self.depends, node.demands)) or len(node.outputs) != 1:
            return
        if not self.depends(node.outputs[0]):
            return
        dependent = [x for x in node.inputs if self._has_tiles(x)]
        reads_large = any(map(self.facts.is_gone, dependent))
        reduction = self._reduction_of(node) if reads_large else None
        if reduction is not None:
            self.reductions[node] = reduction
            return
        out, view = node.outputs[0], self._view_of(node)
        if view is None:
            if reads_large and out not in self.facts.whole:
                for rescaled in self._rescaled:
                    rescaled.visit(node)
            return
        light = node.primitive.elementwise or node.primitive in BRIDGES
        if reads_large or light or out in self.facts.large:
            self.views[out] = view
        if reads_large and out not in self.facts.large:
            self.rows[out] = view

    def is_part(self, value: Value, view: View | None) -> bool:
        """Whether tiles of a value with this view are available; None: all of it."""
        if self.depends(value):
            return view is not None and self.views.get(value) == view
        if view is None:
            return True
        n = value.type.shape[view.axis]
        return is_one(n) or equal(n, self.stream.length) is not False

    @property
    def saves_memory(self) -> bool:
        """Whether the loop saves materialising a large value."""
        if not self.reductions and not self.stacked_values:
            return False
        if not self.facts.large[self.seed].sure and not self._reduces_columns():
            return False
        read = [v for v, _ in self.producers.inputs]
        whole = any(v in self.facts.large or self._is_as_large(v) for v in read)
        return not whole

    @property
    def is_fused(self) -> bool:
        """Whether XLA makes one loop of the region by itself, and no large value.

        On a CPU it does so if each large value has one use on the way to one sum. A
        value that several reductions read is materialised first; so is one whose
        extreme is taken, since programs also look for NaN in it.
        """
        uses, nodes = self.facts.uses, self.nodes
        large = [v for n in nodes for v in n.outputs if v in self.facts.large]
        return (
            len(self.live_out_values) == 1
            and all(n.primitive.elementwise or n.primitive in FUSED for n in nodes)
            and all(len(uses.of(v)) == 1 for v in large)
        )

    def _is_as_large(self, value: Value) -> bool:
        return less_equal(self.seed.type.nbytes, value.type.nbytes) is True

    def _reduces_columns(self) -> bool:
        """Whether an op other than a product reduces columns, as in a softmax."""
        return any(v.node.primitive in REDUCTIONS for v in self.rows)

    @property
    def cost(self) -> tuple[int, int]:
        """Sort key: lowest for the region with most reductions, then fewest carries."""
        return -len(self.reductions) - len(self.rows), len(self.reductions)

    @property
    def live_out_values(self) -> list[Value]:
        """The live-out values of the region."""
        return [*self.stacked_values, *(node.outputs[0] for node in self.reductions)]


def _is_spread(region: TileConsumers) -> bool:
    """Whether a loop over a region would take rows that lie on several devices."""
    sizes = (n for node in region.nodes for v in node.inputs for n in v.type.shape)
    return any(map(is_spread, sizes))


def best_region(
    seed: Value, facts: GraphFacts, inside: Container[Size] = ()
) -> TileConsumers | None:
    """Return the region along the best axis of a large value; None if none pays.

    Axes whose size is in `inside` are no choice. Arrays that are spread over devices
    are left to those devices.
    """
    shape = seed.type.shape
    if any(map(is_spread, shape)):
        return None
    axes = [a for a in facts.large[seed].axes if shape[a] not in inside]
    regions = [TileConsumers({seed: axis}, facts) for axis in axes]
    gaining = [r for r in regions if r.saves_memory and not _is_spread(r)]
    return min(gaining, key=lambda r: r.cost, default=None)
