"""Tiling: reductions of large temporaries tile by tile, never materialised as a whole.

`gt.nn.logsumexp(-(x[:, None] - y) ** 2, 1)` needs no array of all pairs: a loop takes
tiles of as many rows as stay in the cache, and computes and reduces each. A sum alone
is left as it is on a CPU, where XLA makes a loop of it by itself. Products, as
`softmax(q @ k.T) @ v`, and gradients are tiled alike; a value that is used again after
a reduction over the rows is recomputed. The number of rows in a tile follows from the
sizes; where all sizes are small, there is one tile.

A tile of rows of `q @ k.T` is as wide as there are columns. Where there are many
columns, and reductions over them can be accumulated, as in `softmax(q @ k.T) @ v`, the
body of the loop over rows is itself a loop over tiles of columns: memory stays the same
however many columns there are, and more rows share what is read for a tile.
"""

from collections.abc import Container, Hashable, Iterable
from dataclasses import replace
from functools import partial

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.errors import standing_at
from graphc.ir.graph.bodies import Body, has_bodies
from graphc.ir.graph.nodes import Graph, Node, Params, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.replay import Replaced, renewed
from graphc.ir.graph.structure import kind_of
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.rewriting.engine.rule import Rule, whole_graph
from graphc.rewriting.loops.find.axis_rules import REDUCTIONS
from graphc.rewriting.loops.find.contractions import PRODUCTS
from graphc.rewriting.loops.find.scan_view import with_params
from graphc.rewriting.loops.fuse.folds import POSITIONS
from graphc.rewriting.loops.fuse.outer_products import (
    component_of,
    large_outer_products,
)
from graphc.rewriting.loops.tile.codegen import Blocks, bytes_per_position
from graphc.rewriting.loops.tile.equal_carries import without_equal_carries
from graphc.rewriting.loops.tile.tile_consumers import (
    GraphFacts,
    TileConsumers,
    best_region,
    facts_of,
)

WIDE = 8  # a tile made in tiles of columns has this many times the rows of another
MOST_WORK = 1.25  # how many times the products such tiles may take: they save memory
OF_SCANS = "keeps", "stores", "own", "marks"  # params of loops that belong to a scan


def blocking(block_bytes: int | None = None, rows: int | None = None) -> Rule:
    """Make the rule that computes reductions of large values in blocks.

    The largest value in a block has about `block_bytes` bytes; by default as many as
    stay in the cache of a CPU, or an eighth of the memory of an accelerator.
    `graphc.rewrites.default - "large_in_blocks" + blocking(2**24)` are rules with more
    bytes. Blocks of `rows` rows of products, 256 on a CPU, are computed in blocks of
    columns if they have more bytes than that; with `rows=0` they never are.
    """
    return _blocking_for(block_bytes, rows, CPU)


def _blocking_for(
    block_bytes: int | None, rows: int | None, costs: DeviceCosts
) -> Rule:
    """Make the rule for a device."""
    most = costs.whole if block_bytes is None else block_bytes
    wide = WIDE * costs.rows if rows is None else rows

    def rule(graph: Graph, fuses: bool) -> Replaced | None:
        replaced = tile_temporaries(graph, most, costs.rows, fuses=fuses)
        if replaced is None and wide:
            replaced = _tile_columns(graph, most, wide, costs.rows)
        return replaced

    declared = whole_graph(
        over=tuple(op.name for op in (*PRODUCTS, *REDUCTIONS, *POSITIONS)),
        exact=False,
        name="large_in_blocks",
        late=True,
    )

    @declared
    def where_fused(graph: Graph) -> Replaced | None:
        """Reductions of temporaries that XLA does not fuse are made tile by tile."""
        return rule(graph, fuses=True)

    @declared
    def everywhere(graph: Graph) -> Replaced | None:
        """Reductions of outer-product temporaries are computed tile by tile."""
        return rule(graph, fuses=False)

    tuned = partial(_blocking_for, block_bytes, rows)
    return replace(everywhere, tuned=tuned, fused=where_fused)


def tile_temporaries(
    graph: Graph,
    most: int,
    least: int,
    inside: Container[Size] = (),
    fuses: bool = False,
) -> Replaced | None:
    """Replace large temporaries by tiled loops, as many as do not overlap.

    Tiles have `most` bytes, or `least` positions if they are multiplied. `inside` are
    the sizes of axes that are tiled already. If the compiler `fuses`, the loops that it
    makes by itself are left to it.
    """
    facts = facts_of(graph, most)
    if facts is None:
        return None
    region_of: dict[Value, TileConsumers] = {}
    family, seen = component_of(facts.large), set[Value]()
    for seed in facts.roots:
        region = None if family[seed] in seen else best_region(seed, facts, inside)
        if region is None or (fuses and region.is_fused):
            continue
        if not any(v in region_of for v in region.live_out_values):
            region_of.update(dict.fromkeys(region.live_out_values, region))
            seen.add(family[seed])
    rebuilder = _Rebuilder(facts, region_of, most, least)
    outputs = rebuilder.run(graph)
    if not rebuilder.pairs:
        return None
    return graph.with_outputs(outputs), rebuilder.pairs


class _Rebuilder:
    """Rebuild a graph around loops, each placed before its first live-out value."""

    def __init__(
        self,
        facts: GraphFacts,
        region_of: dict[Value, TileConsumers],
        most: int,
        least: int,
    ) -> None:
        self._facts, self._region_of = facts, region_of
        self._most, self._least = most, least
        self._new: dict[Value, Value] = {}
        self.pairs: list[tuple[Value, Value]] = []

    def run(self, graph: Graph) -> tuple[Value, ...]:
        """Rebuild the nodes in order, and return the new outputs."""
        for node in self._facts.nodes:
            for first in node.outputs[:1]:
                if first in self._region_of and first not in self._new:
                    self._place_loop(self._region_of[first], node)
            self._rebuild_node(node)
        return tuple(map(self._new_value, graph.outputs))

    def _new_value(self, value: Value) -> Value:
        return self._new.get(value, value)

    def _rebuild_node(self, node: Node) -> None:
        if all(v in self._new for v in node.outputs):
            return
        if any(v in self._new for v in operands(node)):
            fresh = renewed(node, self._new, node.place)
            self._new.update(zip(node.outputs, fresh.outputs, strict=True))

    def _place_loop(self, region: TileConsumers, at: Node) -> None:
        """Build a loop, or give it up if it needs a live-out value of a later loop."""
        needed = self._nodes_after(region.producers.outside_values(), at)
        outputs = [v for n in needed for v in n.outputs]
        if any(v in self._region_of and v not in self._new for v in outputs):
            self._drop_region(region)
            return
        for node in needed:
            self._rebuild_node(node)
        with standing_at(region.seed.node.place.plain):
            replacements = self._make_loop(region)
        if not replacements:
            self._drop_region(region)
        self._new.update(replacements)
        self.pairs += replacements.items()

    def _drop_region(self, region: TileConsumers) -> None:
        for value in region.live_out_values:
            del self._region_of[value]

    def _nodes_after(self, values: Iterable[Value], at: Node) -> list[Node]:
        """Return the nodes after `at` that values need and that need large values."""
        roots_behind = self._facts.roots_behind

        def later(node: Node) -> list[Value]:
            return [v for v in operands(node) if is_later(v)]

        def is_later(value: Value) -> bool:
            return value.node.serial > at.serial and bool(roots_behind[value.node])

        return ancestors(filter(is_later, values), later)

    def _make_loop(self, region: TileConsumers) -> dict[Value, Value]:
        """Make a tiled loop; return replacements of the live-out values of a region.

        There are none if the loop reads no rows: nothing would tell how many a tile
        has.
        """
        blocks = Blocks(region, self._new_value)
        if not blocks.inputs:
            return {}
        products = any(node.primitive in PRODUCTS for node in region.nodes)
        large = [p for p in region.producers.recomputed if p[0] in region.facts.large]
        ends, ys = F._run_blocks(
            blocks.step,
            blocks.inits,
            blocks.inputs,
            blocks.axes,
            length=region.stream.length,
            each=bytes_per_position(large),
            most=self._most,
            least=self._least if products else 1,
        )
        if ends:
            outputs = without_equal_carries(ends[0].node)
            ends, ys = outputs[: len(ends)], outputs[len(ends) :]
        return blocks.results(ends, ys)


def _tile_columns(graph: Graph, most: int, rows: int, inner: int) -> Replaced | None:
    """Give loops over tiles of rows a body in tiles of columns, where that pays.

    Loops that are alike, as those of equal layers, share one body.
    """
    nodes = graph.nodes
    params: dict[Node, Params] = {}
    known: dict[Hashable, Body | None] = {}
    for node in filter(_is_loop_over_rows, nodes):
        lines = tuple([n.place for n in node.params["body"].content.nodes])
        kind = kind_of(node), lines
        if kind not in known:
            known[kind] = _body_in_columns(node, most, inner)
        body = known[kind]
        if body is not None:
            least = max(rows, node.params["least"])
            params[node] = {"columns": Opaque("columns", (body,)), "least": least}
    return with_params(graph, nodes, params) if params else None


def _is_loop_over_rows(node: Node) -> bool:
    """Whether a node is a loop over tiles that holds no other, and no scan."""
    params = node.params
    if node.primitive is not OP.blocks or any(params[name] for name in OF_SCANS):
        return False
    if params["columns"].content:
        return False
    body: Body = node.params["body"].content
    products = any(n.primitive in PRODUCTS for n in body.nodes)
    return products and not any(map(has_bodies, body.nodes))


def _body_in_columns(node: Node, most: int, least: int) -> Body | None:
    """Rewrite a tiled loop's body in tiles of columns; None if that does not pay."""
    params, body = node.params, node.params["body"].content
    carries = params["carries"]
    tiles = zip(body.inputs[carries:], params["axes"], strict=False)
    rows = {v.type.shape[axis] for v, axis in tiles}
    graph = body.graph
    while (replaced := tile_temporaries(graph, most, least, rows)) is not None:
        graph = replaced[0]
    new_body: Body | None = body.with_outputs(graph.outputs)
    if new_body is None or large_outer_products(new_body.nodes, 0):
        return None
    most_products = MOST_WORK * _count_products(body.nodes)
    return new_body if _count_products(new_body.nodes) <= most_products else None


def _count_products(nodes: Iterable[Node]) -> int:
    """Count the products of large values, those in loops included."""
    count, body_nodes = 0, list(nodes)
    large = large_outer_products(body_nodes, 0)
    for node in body_nodes:
        if node.primitive in PRODUCTS:
            count += any(v in large for v in (*node.inputs, *node.outputs))
        elif has_bodies(node):
            count += _count_products(node.params["body"].content.nodes)
    return count
