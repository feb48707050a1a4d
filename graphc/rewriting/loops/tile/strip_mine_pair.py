"""Strip-mine a scan and its backward scan, with large values computed between them.

The gradient of `gt.mean(loss(ys @ out, labels))` needs the ys for the loss, for their
cotangents, and in the backward scan. Run one after the other, all ys are materialised
at once, and so are all cotangents. So the first loop keeps the carry before each chunk;
the second one, from the last chunk to the first, recomputes the steps of a chunk,
computes its cotangents, and goes back. If there are few chunks, the ys of the first
loop are kept instead, and no step is recomputed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import for_sizes, region_between, replayed
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ir.types import same_size
from graphc.rewriting.loops.find.affine_reads import View
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.find.scan_view import Loop
from graphc.rewriting.loops.fuse.outer_products import Large, outer_values
from graphc.rewriting.loops.tile.codegen import Blocks, StepResult, bytes_of_one
from graphc.rewriting.loops.tile.tile_consumers import GraphFacts, TileConsumers
from graphc.rewriting.match.sizes import guarded

Replacements = dict[Value, Value]


@dataclass(frozen=True)
class Limits:
    """The size of a chunk: the bytes of the largest value in it, and its iterations.

    With at most `few` chunks, the steps of the first loop are not recomputed.
    """

    most: int
    least: int
    few: int


def loop_back(loop: Loop, large: Large, users: Sequence[Node]) -> Loop | None:
    """The only loop that uses the ys of one, if it goes back over all its iterations.

    It carries no more than it stacks.
    """
    scans = [Loop(node) for node in users if node.primitive is OP.scan]
    if len(scans) != 1 or not all(map(_is_plain, (loop, *scans))):
        return None
    back = scans[0]
    others = [*back.first, *back.rest, *back.node.demands]
    rows = [v for v in back.sequences if v in large]
    if any(v in large for v in others) or any(large[v].rows != (0,) for v in rows):
        return None
    fits = back.reverse is not loop.reverse and back.limit is loop.limit
    fits = fits and same_size(loop.length, back.length)
    carried, stacked = (_bytes(loop.body.outputs[at]) for at in _split(loop))
    return back if fits and less_equal(carried, stacked) is True else None


def _split(loop: Loop) -> tuple[slice, slice]:
    return slice(loop.carries), slice(loop.carries, None)


def _bytes(values: Sequence[Value]) -> Size:
    sizes = [v.type.size * v.dtype.itemsize for v in values]
    return sum(sizes, start=0)


def _is_plain(loop: Loop) -> bool:
    params = loop.node.params
    return not (params["stops"] or params["replay"] or runs_in_python(loop.node))


class Both:
    """A loop and its backward loop, in chunks, with the values computed between them.

    `facts` are about the ys of the first loop, without the second one.
    """

    def __init__(
        self, loop: Loop, back: Loop, facts: GraphFacts, limits: Limits
    ) -> None:
        self._loop, self._back, self._limits = loop, back, limits
        roots = dict.fromkeys(loop.stacked, 0)
        whole = self._whole = View.whole(loop.length)
        first = TileConsumers(roots, facts, given=True, backwards=loop.reverse)
        known = {v.node for v in first.left}
        later = replace(facts, behind=_later(facts.nodes, loop, known))
        rows = [(v, whole) for v in back.sequences if later.behind[v.node]]
        before = (v for v in back.sequences if not later.behind[v.node])
        self._rows = list(dict.fromkeys([*loop.sequences, *before]))
        ends = [back.node, *first.nodes]
        self._second = TileConsumers(roots, later, True, rows, ends, back.reverse)
        # Values that both use are computed in both.
        self._first = TileConsumers(
            roots, facts, True, of=self._second.nodes, backwards=loop.reverse
        )
        # The ys of the first loop that the second one needs.
        self._own = list(dict.fromkeys(v for v, _ in self._second.producers.had))
        computed = [p for r in (self._first, self._second) for p in r.producers.made]
        self._large = [p for p in computed if p[0] in facts.large]

    @property
    def _gains(self) -> bool:
        """Whether some value between them is larger than its operands."""
        if not (self._first.left and self._large):
            return False
        if not self._limits.most:
            return True  # the user has set the chunk size
        nodes = [v.node for v, _ in self._large]
        outer = outer_values(sorted(set(nodes), key=lambda n: n.serial), 0)
        return any(pairs.sure for pairs in outer.values())

    def made(self) -> Replacements:
        """Replacements of the values that are live after the two loops."""
        if not self._gains:
            return {}
        first, marks, stored = self._forth()
        return first | self._back_again(first, marks, stored)

    @property
    def _extent(self) -> dict[str, Any]:
        """The numbers of iterations and of chunks."""
        large = [*self._large, *((v, self._whole) for v in self._loop.stacked)]
        limits = asdict(self._limits)
        return {"length": self._loop.length, "each": bytes_of_one(large), **limits}

    def _forth(self) -> tuple[Replacements, list[Value], list[Value]]:
        """The first loop; the carries before each chunk; ys, where stored."""
        loop, blocks = self._loop, Blocks(self._first, lambda v: v)
        place, split = first_place(loop), len(loop.sequences)
        count = loop.carries + len(place)
        used = {*self._own, *(v for v, _ in self._first.producers.had)}

        def step(carry: list[Value], tiles: list[Value], steps: Size) -> StepResult:
            ends, slices = self._steps(carry[:count], tiles[:split], steps, used)
            after, left = blocks.step(carry[count:], tiles[split:], steps, slices)
            return [*ends, *after], [
                *left,
                *(slices[v, self._whole] for v in self._own),
            ]

        ends, ys = F._run_blocks(
            step,
            [*loop.first, *place, *blocks.start],
            [*((v, 0) for v in loop.sequences), *blocks.given],
            [*blocks.axes, *[0] * len(self._own)],
            **self._extent,
            reverse=loop.reverse,
            keeps=count,
            stores=len(self._own),
        )
        size = len(ys) - len(self._own)
        replacements = blocks.end(ends[count:], ys[count:size])
        replacements |= zip(loop.ends, ends, strict=False)
        return replacements, ys[:count], ys[size:]

    def _back_again(
        self,
        first: Replacements,
        marks_before: Sequence[Value],
        stored: Sequence[Value],
    ) -> Replacements:
        """The second loop, from the results of the first one."""
        loop, back, second = self._loop, self._back, self._second
        known, rows = self._known(first), self._rows
        blocks, count = Blocks(second, known), len(back.first)
        ends_at = len(rows) + len(blocks.given)

        def again(tiles: list[Value], steps: Size) -> list[Value]:
            row_of = dict(zip(rows, tiles, strict=False))
            own_rows, marks = [row_of[v] for v in loop.sequences], tiles[ends_at:]
            _, slices = self._steps(marks, own_rows, steps, set(self._own))
            return [slices[v, self._whole] for v in self._own]

        def step(carry: list[Value], tiles: list[Value], steps: Size) -> StepResult:
            behind = ends_at + len(self._own)
            pairs = zip(self._own, tiles[ends_at:behind], strict=True)
            stored_tiles = {(v, self._whole): x for v, x in pairs}
            read = tiles[len(rows) : ends_at]
            computed = blocks.made(carry[count:], read, steps, stored_tiles)
            computed |= {(v, self._whole): x for v, x in zip(rows, tiles, strict=False)}
            limit = next_place(loop, tiles[behind + loop.carries :], steps)[1]
            extent = steps, back.reverse, limit
            ends, stacked = self._steps_back(carry[:count], computed, extent, known)
            after, left = blocks.left(carry[count:], computed, steps)
            return [*ends, *after], [*stacked, *left]

        ends, ys = F._run_blocks(
            step,
            [*map(known, back.first), *blocks.start],
            [*((known(v), 0) for v in rows), *blocks.given],
            [*[0] * len(back.stacked), *blocks.axes],
            **self._extent,
            reverse=back.reverse,
            own=stored,
            marks=marks_before,
            again=again,
        )
        size = len(back.stacked)
        replacements = dict(zip(back.ends, ends, strict=False))
        replacements |= zip(back.stacked, ys, strict=False)
        for node in second.producers.nodes:
            replacements = {
                old: guarded(new, node) for old, new in replacements.items()
            }
        return replacements | blocks.end(ends[count:], ys[size:])

    def _known(self, first: Replacements) -> Resolve:
        """Look up replacements of values after the first loop."""
        back = self._back
        values = [*back.first, *back.rest, *self._rows, *back.node.demands]
        values += self._second.producers.outside()
        new = replayed(values, first, region_between(values, first))
        known = dict(zip(values, new, strict=True))
        return lambda v: known.get(v, v)

    def _steps_back(
        self,
        carry: list[Value],
        computed: Mapping[PartPlace, Value],
        extent: tuple[Size, bool, Value | None],
        known: Resolve,
    ) -> StepResult:
        """Iterations of the second loop."""
        back, count = self._back, self._back.carries
        captures = list(map(known, back.rest))
        sizes = for_sizes(back.node, {v: known(v) for v in back.node.demands})["sizes"]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            results = back.body.call([*carry, *row, *captures], sizes)
            return results[:count], results[count:]

        rows = [computed[v, self._whole] for v in back.sequences]
        options = {"count": extent[2], "unroll": back.node.params["unroll"]}
        pair: StepResult = F._run_scan(step, carry, rows, *extent[:2], **options)
        return pair

    def _steps(
        self, carry: list[Value], rows: list[Value], steps: Size, used: set[Value]
    ) -> tuple[list[Value], dict[PartPlace, Value]]:
        """Iterations of the first loop: the carries after them, and their slices."""
        loop, count = self._loop, self._loop.carries
        places = [i for i, v in enumerate(loop.stacked) if v in used]
        place, limit = next_place(loop, carry[count:], steps)

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            after, slices = loop.step(carry, row)
            return after, [slices[i] for i in places]

        options = {"count": limit, "unroll": loop.node.params["unroll"]}
        extent = steps, loop.reverse
        ends, stacked = F._run_scan(step, carry[:count], rows, *extent, **options)
        pairs = zip(places, stacked, strict=True)
        return [*ends, *place], {(loop.stacked[i], self._whole): x for i, x in pairs}


def _later(nodes: Sequence[Node], loop: Loop, known: set[Node]) -> dict[Node, int]:
    """The nodes that depend on the ys of a loop, other than through `known` nodes."""
    ends, later = set(loop.ends), {loop.node: 1}
    for node in nodes:
        if node is not loop.node:
            needed = (v for v in operands(node) if v not in ends)
            later[node] = int(node not in known and any(later[v.node] for v in needed))
    return later


def first_place(loop: Loop) -> list[Value]:
    """The start of the first chunk, or its end if reversed, if steps are counted."""
    if loop.limit is None:
        return []
    start = size_value(loop.length) if loop.reverse else 0
    return [cast(as_value(start), loop.limit.dtype)]


def next_place(
    loop: Loop, places: list[Value], steps: Size
) -> tuple[list[Value], Value | None]:
    """The start, or end, of the next chunk, and the number of steps of this one."""
    if loop.limit is None:
        return [], None
    many = cast(as_value(size_value(steps)), loop.limit.dtype)
    start = places[0] - many if loop.reverse else places[0]
    done = F.clip(loop.limit - start, 0, many)
    return [start if loop.reverse else start + many], done
