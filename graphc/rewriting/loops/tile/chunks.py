"""Iterations of a scan in chunks, each followed by what consumes its ys.

A chunk of iterations runs, and its ys are stacked; all that is computed from these ys
comes before the next chunk, so only one chunk's ys exist at a time.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, maximum, minimum
from graphc.rewriting.loops.find.affine_reads import View
from graphc.rewriting.loops.find.producers import PartPlace
from graphc.rewriting.loops.find.scan_view import Loop
from graphc.rewriting.loops.tile.codegen import Blocks, bytes_per_position
from graphc.rewriting.loops.tile.tile_consumers import TileConsumers

Replacements = dict[Value, Value]


@dataclass(frozen=True)
class Limits:
    """Limits on a chunk: `most` bytes for its largest value, and `least` iterations.

    With at most `few` chunks, the steps of a first loop are not recomputed. Where the
    largest value and what is stacked have at most `whole` bytes, there is one chunk.
    """

    most: int
    least: int
    few: int
    whole: int = 0


@dataclass(frozen=True)
class ScanInChunks:
    """A loop, and the part of the graph that consumes its ys chunk by chunk.

    `ys_to_store` are ys that a later loop takes too.
    """

    loop: Loop
    consumers: TileConsumers
    ys_to_store: Sequence[Value] = ()

    @property
    def whole(self) -> View:
        """The view of all iterations."""
        return View.whole(self.loop.length)

    def extent(self, large: Sequence[PartPlace], limits: Limits) -> Params:
        """Return the params of the loop over chunks, given its `large` values."""
        stacked = [(v, self.whole) for v in self.loop.stacked]
        length, each = self.loop.length, bytes_per_position([*large, *stacked])
        if limits.whole:  # one chunk if all fit in `whole`: as if each had one byte
            together = length * (each + bytes_per_position(stacked))
            each = maximum(1, each * minimum(1, together // (limits.whole + 1)))
        extent = {"length": length, "each": each, "most": limits.most}
        return {**extent, "least": limits.least, "few": limits.few}

    def run(
        self, extent: Params, keeps: bool = False
    ) -> tuple[Replacements, list[Value], list[Value]]:
        """Run the loop chunk by chunk.

        Returns the replacements, the carries before chunks if it `keeps` them, and the
        stored ys.
        """
        loop, blocks = self.loop, Blocks(self.consumers, lambda v: v)
        place, split = first_place(loop), len(loop.sequences)
        count = loop.carries + len(place)
        available = self.consumers.producers.available_parts
        used = {*self.ys_to_store, *(v for v, _ in available)}

        def step(carry: list[Value], tiles: list[Value], steps: Size) -> StepResult:
            ends, slices = self.steps(carry[:count], tiles[:split], steps, used)
            after, live_out = blocks.step(carry[count:], tiles[split:], steps, slices)
            shown = [slices[v, self.whole] for v in self.ys_to_store]
            return [*ends, *after], [*live_out, *shown]

        ends, ys = F._run_blocks(
            step,
            [*loop.inits, *place, *blocks.inits],
            [*((v, 0) for v in loop.sequences), *blocks.inputs],
            [*blocks.axes, *[0] * len(self.ys_to_store)],
            **extent,
            reverse=loop.reverse,
            keeps=count if keeps else 0,
            stores=len(self.ys_to_store),
        )
        first, size = count if keeps else 0, len(ys) - len(self.ys_to_store)
        replacements = blocks.results(ends[count:], ys[first:size])
        replacements |= zip(loop.final_carries, ends, strict=False)
        return replacements, ys[:first], ys[size:]

    def steps(
        self, carry: list[Value], rows: list[Value], steps: Size, used: Container[Value]
    ) -> tuple[list[Value], dict[PartPlace, Value]]:
        """Run iterations; return the carries after them, and the slices `used`."""
        loop, count = self.loop, self.loop.carries
        places = [i for i, v in enumerate(loop.stacked) if v in used]
        place, limit = next_place(loop, carry[count:], steps)

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            after, slices = loop.step(carry, row)
            return after, [slices[i] for i in places]

        ends, stacked = F._run_scan(
            step,
            carry[:count],
            rows,
            steps,
            loop.reverse,
            count=limit,
            unroll=loop.node.params["unroll"],
        )
        pairs = zip(places, stacked, strict=True)
        return [*ends, *place], {(loop.stacked[i], self.whole): x for i, x in pairs}


def first_place(loop: Loop) -> list[Value]:
    """Return the start of the first chunk, or its end if reversed.

    The list is empty unless steps are counted.
    """
    if loop.limit is None:
        return []
    start = size_value(loop.length) if loop.reverse else 0
    return [cast(as_value(start), loop.limit.dtype)]


def next_place(
    loop: Loop, places: list[Value], steps: Size
) -> tuple[list[Value], Value | None]:
    """Return the start, or end, of the next chunk, and how many steps this one runs."""
    if loop.limit is None:
        return [], None
    chunk = cast(as_value(size_value(steps)), loop.limit.dtype)
    start = places[0] - chunk if loop.reverse else places[0]
    done = F.clip(loop.limit - start, 0, chunk)
    return [start if loop.reverse else start + chunk], done
