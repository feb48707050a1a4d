"""The edges of a picture: which part gives values to which, and in which lane.

The parts of a picture stand one below the other, in the order of the plan. An edge to
the next part is drawn in lane 0; an edge that passes others gets a lane beside them, in
which it overlaps no other edge.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphc.show.records import ProgramRecord, StepRecord

MOST_LANES = 10
MOST_NAMED = 8  # values of an edge that are named, at most


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge from one part to a later one, which carries `values`."""

    start: int
    end: int
    lane: int
    values: tuple[int, ...]


Carried = dict[tuple[int, int], dict[int, None]]


def edges_between(
    parts: Sequence[Sequence[int]], program: ProgramRecord
) -> list[DrawnEdge]:
    """Return the edges between parts, which are lists of nodes."""
    part_of = {node: i for i, part in enumerate(parts) for node in part}
    carried: Carried = {}
    for end, part in enumerate(parts):
        for node in part:
            for value in program.nodes[node].inputs:
                maker = program.values[value].node
                start = None if maker is None else part_of.get(maker)
                _carry(carried, start, end, value)
    return edges_in_lanes(carried)


def edges_between_steps(
    steps: Sequence[StepRecord], program: ProgramRecord, outer: bool
) -> list[DrawnEdge]:
    """Return the edges between steps, with arguments and results if `outer`.

    The arguments of the program are then the first part, and its results the last.
    """
    givers: dict[int, int] = dict.fromkeys(program.inputs, 0) if outer else {}
    readers: dict[int, int] = {}
    carried: Carried = {}
    for i, step in enumerate(steps, int(outer)):
        for value in step.inputs:
            _carry(carried, givers.get(value), i, value)
        for symbol in step.statics:
            number = program.symbols[symbol].value
            if number is not None:
                _carry(carried, readers.get(symbol, givers.get(number)), i, number)
        givers |= dict.fromkeys(step.outputs, i)
        if step.kind == "read":
            readers |= dict.fromkeys(step.keys, i)
    for value in program.outputs if outer else ():
        _carry(carried, givers.get(value), len(steps) + 1, value)
    return edges_in_lanes(carried)


def _carry(carried: Carried, start: int | None, end: int, value: int) -> None:
    if start is not None and start < end:
        carried.setdefault((start, end), {})[value] = None


def edges_in_lanes(carried: Carried) -> list[DrawnEdge]:
    """Put edges into lanes."""
    long = sorted(pair for pair in carried if pair[1] - pair[0] > 1)
    lanes = dict(zip(long, _lanes(long), strict=True))
    return [
        DrawnEdge(*pair, lanes.get(pair, 0), tuple(list(values)[:MOST_NAMED]))
        for pair, values in carried.items()
    ]


def _lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lane of each span, from 1, so that spans of one lane do not overlap.

    networkx gives the same lanes, as colours of the graph of overlaps, but that
    graph has an edge for each pair: 2,500 nested spans took 19 s, and take 1 ms here.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    count, lanes = 0, []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            count = lane = count + 1
        heapq.heappush(busy, (end, lane))
        lanes.append(min(lane, MOST_LANES))
    return lanes
