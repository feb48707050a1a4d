"""Strip-mine a scan and its backward scan, with large values computed between them.

The gradient of `gt.mean(loss(ys @ out, labels))` needs the ys for the loss, for their
cotangents, and in the backward scan. If the scans run one after the other, all ys are
materialised at once, and so are all cotangents. So the first loop keeps the carry
before each chunk. The second loop goes from the last chunk to the first: it recomputes
the steps of a chunk, computes its cotangents, and goes back through it. If there are
few chunks, the ys of the first loop are kept instead, and no step is recomputed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphc.ir.graph.bodies import StepResult, runs_in_python
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import params_with_sizes, rebuilt
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ir.types import same_size
from graphc.rewriting.loops.find.affine_reads import View
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.find.scan_view import Loop
from graphc.rewriting.loops.fuse.outer_products import Large, large_outer_products
from graphc.rewriting.loops.tile.chunks import (
    Limits,
    Replacements,
    ScanInChunks,
    next_place,
)
from graphc.rewriting.loops.tile.codegen import Blocks
from graphc.rewriting.loops.tile.tile_consumers import GraphFacts, TileConsumers
from graphc.rewriting.match.sizes import with_guards


def find_backward_loop(loop: Loop, large: Large, users: Sequence[Node]) -> Loop | None:
    """Return the only loop that uses a loop's ys, if it goes back over all iterations.

    The first loop must carry no more than it stacks.
    """
    scans = [Loop(node) for node in users if node.primitive is OP.scan]
    if len(scans) != 1 or not all(map(_is_plain, (loop, *scans))):
        return None
    back = scans[0]
    others = [*back.inits, *back.captures, *back.node.demands]
    rows = [v for v in back.sequences if v in large]
    if any(v in large for v in others) or any(large[v].rows != (0,) for v in rows):
        return None
    fits = back.reverse is not loop.reverse and back.limit is loop.limit
    fits = fits and same_size(loop.length, back.length)
    sizes: list[Size] = [v.type.nbytes for v in loop.body.outputs]
    carried, stacked = sum(sizes[: loop.carries]), sum(sizes[loop.carries :])
    return back if fits and less_equal(carried, stacked) is True else None


def _is_plain(loop: Loop) -> bool:
    params = loop.node.params
    return not (params["stops"] or params["replay"] or runs_in_python(loop.node))


class LoopPair:
    """A loop and its backward loop, in chunks, with the values computed between them.

    `facts` are about the ys of the first loop, leaving out the second.
    """

    def __init__(
        self, loop: Loop, back: Loop, facts: GraphFacts, limits: Limits
    ) -> None:
        self._loop, self._back, self._limits = loop, back, limits
        roots = dict.fromkeys(loop.stacked, 0)
        whole = self._whole = View.whole(loop.length)
        first = TileConsumers(roots, facts, in_tiles=True, backwards=loop.reverse)
        known = {v.node for v in first.live_out_values}
        later = replace(facts, roots_behind=_depends_on_ys(facts.nodes, loop, known))
        rows = [(v, whole) for v in back.sequences if later.roots_behind[v.node]]
        before = (v for v in back.sequences if not later.roots_behind[v.node])
        self._rows = list(dict.fromkeys([*loop.sequences, *before]))
        ends = [back.node, *first.nodes]
        self._second = TileConsumers(roots, later, True, rows, ends, back.reverse)
        # Values that both use are computed in both.
        self._first = TileConsumers(
            roots, facts, True, users=self._second.nodes, backwards=loop.reverse
        )
        # The ys of the first loop that the second one needs.
        available = self._second.producers.available_parts
        self._ys_between = list(dict.fromkeys(v for v, _ in available))
        computed = [
            p for r in (self._first, self._second) for p in r.producers.recomputed
        ]
        self._large = [p for p in computed if p[0] in facts.large]
        self._chunks = ScanInChunks(loop, self._first, self._ys_between)

    @property
    def _saves_memory(self) -> bool:
        """Whether some value between the loops is larger than its operands."""
        if not (self._first.live_out_values and self._large):
            return False
        if not self._limits.most:
            return True  # the user has set the chunk size
        nodes = [v.node for v, _ in self._large]
        outer = large_outer_products(sorted(set(nodes), key=lambda n: n.serial), 0)
        return any(pairs.sure for pairs in outer.values())

    def replacements(self) -> Replacements:
        """Return replacements of the values that are live after the two loops."""
        if not self._saves_memory:
            return {}
        self._extent = self._chunks.extent(self._large, self._limits)
        first, marks, stored = self._chunks.run(self._extent, keeps=True)
        return first | self._second_loop(first, marks, stored)

    def _second_loop(
        self,
        first: Replacements,
        marks_before: Sequence[Value],
        stored: Sequence[Value],
    ) -> Replacements:
        """Build the second loop from the results of the first one."""
        loop, back, second = self._loop, self._back, self._second
        known, rows = self._after_first(first), self._rows
        blocks, count = Blocks(second, known), len(back.inits)
        ends_at = len(rows) + len(blocks.inputs)

        def recompute(tiles: list[Value], steps: Size) -> list[Value]:
            row_of = dict(zip(rows, tiles, strict=False))
            own_rows, marks = [row_of[v] for v in loop.sequences], tiles[ends_at:]
            used = set(self._ys_between)
            _, slices = self._chunks.steps(marks, own_rows, steps, used)
            return [slices[v, self._whole] for v in self._ys_between]

        def step(carry: list[Value], tiles: list[Value], steps: Size) -> StepResult:
            marks_at = ends_at + len(self._ys_between)
            pairs = zip(self._ys_between, tiles[ends_at:marks_at], strict=True)
            stored_tiles = {(v, self._whole): x for v, x in pairs}
            read = tiles[len(rows) : ends_at]
            computed = blocks.compute_tiles(carry[count:], read, steps, stored_tiles)
            computed |= {(v, self._whole): x for v, x in zip(rows, tiles, strict=False)}
            limit = next_place(loop, tiles[marks_at + loop.carries :], steps)[1]
            extent = steps, back.reverse, limit
            ends, stacked = self._steps_back(carry[:count], computed, extent, known)
            after, live_out = blocks.finish_step(carry[count:], computed, steps)
            return [*ends, *after], [*stacked, *live_out]

        ends, ys = F._run_blocks(
            step,
            [*map(known, back.inits), *blocks.inits],
            [*((known(v), 0) for v in rows), *blocks.inputs],
            [*[0] * len(back.stacked), *blocks.axes],
            **self._extent,
            reverse=back.reverse,
            own=stored,
            marks=marks_before,
            again=recompute,
        )
        size = len(back.stacked)
        replacements = dict(zip(back.final_carries, ends, strict=False))
        replacements |= zip(back.stacked, ys, strict=False)
        for node in second.producers.nodes:
            replacements = {
                old: with_guards(new, node) for old, new in replacements.items()
            }
        return replacements | blocks.results(ends[count:], ys[size:])

    def _after_first(self, first: Replacements) -> Resolve:
        """Return a look-up of replacements for values after the first loop."""
        back = self._back
        values = [*back.inits, *back.captures, *self._rows, *back.node.demands]
        values += self._second.producers.outside_values()
        new = rebuilt(values, first)
        known = dict(zip(values, new, strict=True))
        return lambda v: known.get(v, v)

    def _steps_back(
        self,
        carry: list[Value],
        computed: Mapping[PartPlace, Value],
        extent: tuple[Size, bool, Value | None],
        known: Resolve,
    ) -> StepResult:
        """Run iterations of the second loop."""
        back, count = self._back, self._back.carries
        captures = list(map(known, back.captures))
        demands = {v: known(v) for v in back.node.demands}
        sizes = params_with_sizes(back.node, demands)["sizes"]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            results = back.body.call([*carry, *row, *captures], sizes)
            return results[:count], results[count:]

        rows = [computed[v, self._whole] for v in back.sequences]
        steps, reverse, limit = extent
        unroll = back.node.params["unroll"]
        return F._run_scan(
            step, carry, rows, steps, reverse, count=limit, unroll=unroll
        )


def _depends_on_ys(
    nodes: Sequence[Node], loop: Loop, known: set[Node]
) -> dict[Node, int]:
    """Mark with 1 the nodes that need a loop's ys, other than through `known` nodes."""
    ends, later = set(loop.final_carries), {loop.node: 1}
    for node in nodes:
        if node is not loop.node:
            needed = (v for v in operands(node) if v not in ends)
            later[node] = int(node not in known and any(later[v.node] for v in needed))
    return later
