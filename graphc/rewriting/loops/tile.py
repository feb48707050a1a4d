"""Tiling: reductions of large temporaries tile by tile, never materialised as a whole.

`gt.sum(gt.exp(-(x[:, None] - y) ** 2) * b, 1)` needs no array of all pairs: a loop
takes a tile of the rows, as many as stay in the cache, and computes and reduces these.
Products, as `softmax(q @ k.T) @ v`, and gradients are tiled alike; a value that is
used again after a reduction over the rows is recomputed. The number of rows in a tile
follows from the sizes; where all sizes are small, there is one tile.
"""

from collections.abc import Iterable
from dataclasses import replace

from graphc.errors import standing_at
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.replay import renewed
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loops.codegen import Blocks, bytes_of_one
from graphc.rewriting.loops.outer_products import PRODUCTS, families
from graphc.rewriting.loops.slice_rules import REDUCTIONS
from graphc.rewriting.loops.tile_consumers import (
    GraphFacts,
    TileConsumers,
    best_region,
    facts_of,
)
from graphc.rewriting.rule import Replaced, Rule, whole_graph

BYTES = 2**21  # of the largest value in a tile
ROWS = 32  # in a tile that is multiplied by a matrix


def blocking(block_bytes: int = BYTES) -> Rule:
    """The rule that makes reductions of what is large in blocks.

    The largest value in a block has about so many bytes: as many as stay in the cache.
    `graphc.rewrites.default - "large_in_blocks" + blocking(2**24)` are rules with more.
    """

    @whole_graph(
        over=tuple(op.name for op in (*PRODUCTS, *REDUCTIONS)),
        exact=False,
        name="large_in_blocks",
        late=True,
    )
    def rule(graph: Graph) -> Replaced | None:
        """Reductions of outer-product temporaries are computed tile by tile."""
        return _blocked(graph, block_bytes)

    return rule


def _blocked(graph: Graph, most: int) -> Replaced | None:
    """Replace large temporaries by tiled loops, as many as do not overlap."""
    facts = facts_of(graph, most)
    if facts is None:
        return None
    found: dict[Value, TileConsumers] = {}
    family, seen = families(facts.large), set[Value]()
    for seed in facts.roots:
        region = None if family[seed] in seen else best_region(seed, facts)
        if region is not None and not any(v in found for v in region.left):
            found.update(dict.fromkeys(region.left, region))
            seen.add(family[seed])
    rebuilt = _Rebuilt(facts, found, most)
    outputs = rebuilt.run(graph)
    if not rebuilt.pairs:
        return None
    return replace(graph, outputs=outputs), rebuilt.pairs


class _Rebuilt:
    """Rebuild a graph around loops, each placed before its first live-out value."""

    def __init__(
        self, facts: GraphFacts, found: dict[Value, TileConsumers], most: int
    ) -> None:
        self._facts, self._waiting, self._most = facts, found, most
        self._new: dict[Value, Value] = {}
        self.pairs: list[tuple[Value, Value]] = []

    def run(self, graph: Graph) -> tuple[Value, ...]:
        """Rebuild the nodes in order, and return the new outputs."""
        for node in self._facts.nodes:
            first = node.outputs[0] if node.outputs else None
            if first in self._waiting and first not in self._new:
                self._loop(self._waiting[first], node)
            self._renew(node)
        return tuple(map(self._known, graph.outputs))

    def _known(self, value: Value) -> Value:
        return self._new.get(value, value)

    def _renew(self, node: Node) -> None:
        if all(v in self._new for v in node.outputs):
            return
        if any(v in self._new for v in operands(node)):
            fresh = renewed(node, self._new, node.place)
            self._new.update(zip(node.outputs, fresh.outputs, strict=True))

    def _loop(self, region: TileConsumers, at: Node) -> None:
        """Build a loop, or give it up if it needs a live-out value of a later loop."""
        needed = self._behind(region.outside(), at)
        if any(
            v in self._waiting and v not in self._new for n in needed for v in n.outputs
        ):
            for value in region.left:
                del self._waiting[value]
            return
        for node in needed:
            self._renew(node)
        with standing_at(region.seed.node.place.plain):
            made = self._made(region)
        self._new.update(made)
        self.pairs += made.items()

    def _behind(self, values: Iterable[Value], at: Node) -> list[Node]:
        """The nodes after `at` on which values depend, of those of large values."""
        behind = self._facts.behind

        def later(node: Node) -> list[Value]:
            return [v for v in operands(node) if is_later(v)]

        def is_later(value: Value) -> bool:
            return value.node.serial > at.serial and bool(behind[value.node])

        return ancestors(filter(is_later, values), later)

    def _made(self, region: TileConsumers) -> dict[Value, Value]:
        """Replacements of the live-out values of a region, by a tiled loop."""
        blocks = Blocks(region, self._known)
        products = any(node.primitive in PRODUCTS for node in region.nodes)
        large = [p for p in region.cone.made if p[0] in region.facts.large]
        ends, found = F._run_blocks(
            blocks.step,
            blocks.start,
            blocks.given,
            blocks.axes,
            length=region.length,
            each=bytes_of_one(large),
            most=self._most,
            least=ROWS if products else 1,
        )
        return blocks.end(ends, found)
