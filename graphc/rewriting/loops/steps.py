"""Steps of a scan in chunks, where what is made of their outputs needs many at once.

`gt.mean(loss(ys @ out, labels))` of what a scan stacks is a large product: made of one
step's output in the body it were many small ones. So some steps are done, their outputs
are stacked, the product of these is made and reduced, and so on: no more than the
outputs of a chunk are there at once.
"""

import heapq

from graphc.errors import standing_at
from graphc.ir.build import as_value, cast, size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.types import same_size
from graphc.ir.walk import operands
from graphc.rewriting.loops.blocks import block_source
from graphc.rewriting.loops.body import Blocks, Pair, bytes_of_one
from graphc.rewriting.loops.loop import Loop, at_each_loop, with_made
from graphc.rewriting.loops.outer import Large, Pairs, kept_values
from graphc.rewriting.loops.region import SHRINKING
from graphc.rewriting.loops.regions import Facts, Region
from graphc.rewriting.loops.stepwise import Uses
from graphc.rewriting.rule import Replaced, Rule, whole_graph

BYTES = 2**20  # of the largest value in a chunk
STEPS = 16  # in a chunk at least


def scan_in_chunks(chunk: int | None = None) -> Rule:
    """The rule that does steps of a scan in chunks, of so many if that is said."""

    @whole_graph(over=("scan",), exact=False, name="scan_in_chunks", late=True)
    def rule(graph: Graph) -> Replaced | None:
        """What a scan stacks is reduced chunk by chunk, where a step is too little."""

        def change(
            graph: Graph, nodes: list[Node], loop: Loop, uses: Uses
        ) -> Replaced | None:
            return _in_chunks(graph, nodes, loop, uses, chunk)

        return at_each_loop(graph, Uses, change, _has_rows)

    return rule


def _has_rows(node: Node) -> bool:
    """Whether a node is a scan that does not stop before its last row, or counts."""
    params = node.params
    if node.primitive.name != "scan" or params["stops"] or params["length"] is None:
        return False
    return not same_size(params["length"], 1)


def _in_chunks(
    graph: Graph, nodes: list[Node], loop: Loop, uses: Uses, chunk: int | None
) -> Replaced | None:
    facts = _facts(graph, nodes, loop, uses)
    if facts is None:
        return None
    region = Region(dict.fromkeys(facts.roots, 0), facts, given=True)
    stacks = any(not uses.are_among(v, region.nodes) for v in facts.roots)
    some = region.joins or region.shown
    if stacks or not some or not (loop.sequences or region.cone.given):
        return None
    with standing_at(loop.node.place.plain):
        made = _made(loop, region, chunk)
    first = loop.node.outputs[0]
    changed, _ = with_made(graph, nodes, made, {})
    return changed, [(v, made[v]) for v in region.left] or [(first, made[first])]


def _facts(graph: Graph, nodes: list[Node], loop: Loop, uses: Uses) -> Facts | None:
    """What is known of what a scan stacks; None where something needs all of it."""
    large, users = _of_stacked(loop, uses)
    if not loop.stacked:
        return None
    kept = kept_values(users, graph, large)
    if any(v in kept for v in loop.stacked):
        return None
    behind = {loop.node: 1}
    for node in nodes:
        if node is not loop.node:
            behind[node] = int(any(behind[v.node] for v in operands(node)))
    return Facts(nodes, uses, large, kept, dict.fromkeys(loop.stacked, 1), behind)


def _of_stacked(loop: Loop, uses: Uses) -> tuple[Large, list[Node]]:
    """What has a row for each step, and the nodes that use such."""
    large: Large = {v: Pairs((0,), (), True) for v in loop.stacked}
    heap = [(n.serial, n) for v in loop.stacked for n in uses.of(v)]
    heapq.heapify(heap)
    seen: dict[Node, None] = {}
    while heap:
        _, node = heapq.heappop(heap)
        if node in seen:
            continue
        seen[node] = None
        axis = _row_axis(node, large)
        if axis is not None:
            out = node.outputs[0]
            large[out] = Pairs((axis,), (), True)
            for user in uses.of(out):
                heapq.heappush(heap, (user.serial, user))
    return large, list(seen)


def _row_axis(node: Node, large: Large) -> int | None:
    """The axis of the rows of a result that is as large as what has a row per step."""
    if len(node.outputs) != 1 or node.primitive.name in SHRINKING:
        return None
    for axis in range(node.outputs[0].type.rank):
        found = block_source(node, axis)
        pairs = zip(node.inputs, found or (), strict=found is not None)
        if any(x in large and a == large[x].rows[0] for x, a in pairs):
            return axis
    return None


def _made(loop: Loop, region: Region, chunk: int | None) -> dict[Value, Value]:
    """What stands for what a scan carries last, and for what is left of the rest."""
    blocks, count = Blocks(region, lambda v: v), loop.carries
    first = _first_place(loop)
    behind = count + len(first)

    def step(carry: list[Value], given: list[Value], steps: Size) -> Pair:
        split = len(loop.sequences)
        place, limit = _next_place(loop, carry[count:behind], steps)
        ends, stacked = F._run_scan(
            loop.step,
            carry[:count],
            given[:split],
            steps,
            loop.reverse,
            count=limit,
            unroll=loop.node.params["unroll"],
        )
        own = {(v, 0): x for v, x in zip(loop.stacked, stacked, strict=True)}
        after, left = blocks.step(carry[behind:], given[split:], steps, own)
        return [*ends, *place, *after], left

    large = [p for p in region.cone.made if p[0] in region.facts.large]
    ends, found = F._run_blocks(
        step,
        [*loop.first, *first, *blocks.start],
        [*((v, 0) for v in loop.sequences), *blocks.given],
        blocks.axes,
        length=loop.length,
        each=bytes_of_one([*large, *((v, 0) for v in loop.stacked)]),
        most=0 if chunk else BYTES,
        least=chunk or STEPS,
        reverse=loop.reverse,
    )
    made = blocks.end(ends[behind:], found)
    return made | dict(zip(loop.ends, ends, strict=False))


def _first_place(loop: Loop) -> list[Value]:
    """Where the first chunk begins, or ends if reversed; where steps are counted."""
    if loop.limit is None:
        return []
    start = size_value(loop.length) if loop.reverse else 0
    return [cast(as_value(start), loop.limit.dtype)]


def _next_place(
    loop: Loop, places: list[Value], steps: Size
) -> tuple[list[Value], Value | None]:
    """Where the next chunk begins, or ends, and how many steps this one does."""
    if loop.limit is None:
        return [], None
    many = cast(as_value(size_value(steps)), loop.limit.dtype)
    start = places[0] - many if loop.reverse else places[0]
    done = F.clip(loop.limit - start, 0, many)
    return [start if loop.reverse else start + many], done
