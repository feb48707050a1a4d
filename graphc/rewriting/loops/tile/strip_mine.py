"""Strip-mining: iterations of a scan in chunks, where consumers need many outputs.

`gt.mean(loss(ys @ out, labels))` of the ys of a scan takes one large product; fused
into the body slice by slice, it would take many small ones. So a chunk of iterations
runs, its outputs are stacked and multiplied, the product is reduced, and the next chunk
runs: only the outputs of one chunk are materialised at a time.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.errors import standing_at
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced
from graphc.ir.graph.walk import ancestors, operands
from graphc.rewriting.engine.rule import Rule, whole_graph
from graphc.rewriting.loops.find.axis_rules import operand_axes
from graphc.rewriting.loops.find.producers import UsersOf
from graphc.rewriting.loops.find.scan_view import (
    Loop,
    at_each_loop,
    has_rows,
    with_replacements,
)
from graphc.rewriting.loops.fuse.consumers import SHRINKING
from graphc.rewriting.loops.fuse.outer_products import (
    Large,
    Pairs,
    large_outer_products,
    whole_values,
)
from graphc.rewriting.loops.tile.chunks import Limits, ScanInChunks
from graphc.rewriting.loops.tile.strip_mine_pair import LoopPair, find_backward_loop
from graphc.rewriting.loops.tile.tile_consumers import GraphFacts, TileConsumers


def scan_in_chunks(chunk: int | None = None, few: int | None = None) -> Rule:
    """Make the rule that runs a scan in chunks, of `chunk` steps if that is given.

    Where a gradient takes `few` chunks or less, no step is recomputed for it; by
    default 4 on a CPU, and 16 on an accelerator.
    """
    return _scan_in_chunks_for(chunk, few, CPU)


def _scan_in_chunks_for(chunk: int | None, few: int | None, costs: DeviceCosts) -> Rule:
    """Make the rule for a device: two values of a chunk stay in its cache.

    If steps have two rows or more, the product of a chunk is as fast as a larger one.
    """
    most, steps = costs.temporary // 2, costs.rows // 2
    few_chunks = costs.few_chunks if few is None else few
    if chunk:
        limits = Limits(0, chunk, few_chunks)
    else:
        limits = Limits(most, steps, few_chunks, costs.stacked_at_once)
    tuned = partial(_scan_in_chunks_for, chunk, few)

    @whole_graph(
        over=("scan",), exact=False, name="scan_in_chunks", late=True, tuned=tuned
    )
    def rule(graph: Graph) -> Replaced | None:
        """The ys of a scan are reduced chunk by chunk, where one step is too small."""

        def change(
            graph: Graph, nodes: list[Node], loop: Loop, uses: UsersOf
        ) -> Replaced | None:
            return _run_in_chunks(graph, nodes, loop, uses, limits)

        return at_each_loop(graph, UsersOf, change, runs_all_steps)

    return rule


def runs_all_steps(node: Node) -> bool:
    """Whether a node is a compiled scan without early exit."""
    return has_rows(node) and not (node.params["stops"] or runs_in_python(node))


def _run_in_chunks(
    graph: Graph, nodes: list[Node], loop: Loop, uses: UsersOf, limits: Limits
) -> Replaced | None:
    large, users = _values_by_slice(loop, uses)
    back = find_backward_loop(loop, large, users)
    if back is not None:
        outer = large_outer_products(nodes, 0)
        large = {v: pairs for v, pairs in outer.items() if pairs.sure} | large
        users = [n for n in nodes if n is not back.node]
    whole = whole_values(users, graph, large)
    if not loop.stacked or any(v in whole for v in loop.stacked):
        return None
    facts = _facts_about_ys(nodes, loop, uses, large, whole)
    with standing_at(loop.node.place.plain):
        if back is None:
            replacements = _reduce_alone(loop, facts, limits)
        else:
            replacements = LoopPair(loop, back, facts, limits).replacements()
    if not replacements:
        return None
    changed, _ = with_replacements(graph, nodes, replacements, {})
    if back is not None and not _are_removed((loop.node, back.node), changed):
        return None
    pairs = list(replacements.items())
    return changed, [p for p in pairs if p[0].node is not loop.node] or pairs[:1]


def _are_removed(nodes: Iterable[Node], graph: Graph) -> bool:
    return set(nodes).isdisjoint(ancestors(graph.outputs))


def _reduce_alone(loop: Loop, facts: GraphFacts, limits: Limits) -> dict[Value, Value]:
    """Return replacements of the results of a scan, if only reductions use its ys."""
    roots = dict.fromkeys(facts.roots, 0)
    region = TileConsumers(roots, facts, in_tiles=True, backwards=loop.reverse)
    stacks = any(not facts.uses.are_among(v, region.nodes) for v in facts.roots)
    results = region.reductions or region.stacked_values
    if stacks or not results or not (loop.sequences or region.producers.inputs):
        return {}
    chunks = ScanInChunks(loop, region)
    large = [p for p in region.producers.recomputed if p[0] in facts.large]
    return chunks.run(chunks.extent(large, replace(limits, few=0)))[0]


def _facts_about_ys(
    nodes: list[Node], loop: Loop, uses: UsersOf, large: Large, whole: set[Value]
) -> GraphFacts:
    """Return the facts about the ys of a scan."""
    roots_behind = {loop.node: 1}
    for node in nodes:
        if node is not loop.node:
            roots_behind[node] = int(any(roots_behind[v.node] for v in operands(node)))
    roots = dict.fromkeys(loop.stacked, 1)
    return GraphFacts(nodes, uses, large, whole, roots, roots_behind)


def _values_by_slice(loop: Loop, uses: UsersOf) -> tuple[Large, list[Node]]:
    """Return the values with a slice per iteration, and the nodes that use them."""
    large: Large = {v: Pairs((0,), (), True) for v in loop.stacked}
    users = []
    goes_on = lambda node: any(v in large for v in node.outputs)  # noqa: E731
    for node in uses.each_after(loop.stacked, goes_on):
        users.append(node)
        axis = _row_axis(node, large)
        if axis is not None:
            large[node.outputs[0]] = Pairs((axis,), (), True)
    return large, users


def _row_axis(node: Node, large: Large) -> int | None:
    """The sliced axis of a result with a slice for each iteration, or None."""
    if len(node.outputs) != 1 or node.primitive in SHRINKING:
        return None
    for axis in range(node.outputs[0].type.rank):
        input_axes = operand_axes(node, axis, tiled=True)
        pairs = zip(node.inputs, input_axes or (), strict=input_axes is not None)
        if any(x in large and a == large[x].rows[0] for x, a in pairs):
            return axis
    return None
