"""Reductions of what a scan stacks are computed in its body, step by step.

`gt.mean((ys - targets) ** 2)` of a stacked output needs no stacked output: the loop
carries the sum along, and `targets` becomes one of its sequences. So it is for other
reductions, through ops that work on each row by itself, where the stacked output is
not needed otherwise; all those of one scan are computed in one. Reductions over other
axes only leave less to stack. Sums are added up in another order.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from graphc.errors import standing_at
from graphc.ir.build import as_value
from graphc.ir.dims import less_equal
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loop import Loop, with_made
from graphc.rewriting.producers import PRODUCERS
from graphc.rewriting.rows import REDUCTIONS, source
from graphc.rewriting.rule import whole_graph
from graphc.rewriting.running import RUNNING, Running, running
from graphc.rewriting.sizes import guarded
from graphc.rewriting.stepwise import Uses, Wanted, fits

Pairs = list[tuple[Value, Value]]
SHRINKING = {*REDUCTIONS, "argmax", "argmin"}


class Region:
    """What is computed of the stacked outputs of a scan, row by row."""

    def __init__(self, loop: Loop, nodes: Sequence[Node], graph: Graph) -> None:
        self._loop = loop
        self._dependent: set[Node] = {loop.node}
        self.axes: dict[Value, int] = dict.fromkeys(loop.stacked, 0)
        self.reductions: dict[Node, Running] = {}
        self.uses = Uses(nodes, graph.outputs)
        for node in nodes:
            if node.serial > loop.node.serial:
                self._visit(node)

    def _visit(self, node: Node) -> None:
        if not any(v.node in self._dependent for v in operands(node)):
            return
        self._dependent.add(node)
        if any(v.node in self._dependent for v in node.demands):
            return
        if node.primitive.name in RUNNING and self._reduces(node):
            return
        for axis in range(node.outputs[0].type.rank):
            if self._is_rowwise(node, axis):
                self.axes[node.outputs[0]] = axis

    def _reduces(self, node: Node) -> bool:
        """Whether a node reduces what comes row by row, over the rows."""
        axis = self.axes.get(node.inputs[0])
        if axis is None or any(v.node in self._dependent for v in node.inputs[1:]):
            return False
        found = running(node, axis, self._loop.reverse)
        if found is not None:
            self.reductions[node] = found
        return found is not None

    def _is_rowwise(self, node: Node, axis: int) -> bool:
        sources = source(node, axis)
        if sources is None:
            return False
        pairs = zip(node.inputs, sources, strict=True)
        return all(self._is_row(x, a) for x, a in pairs)

    def _is_row(self, value: Value, axis: int | None) -> bool:
        if value.node in self._dependent:
            return axis is not None and self.axes.get(value) == axis
        return axis is None or fits(value, axis, self._loop.length)

    def leaves(self, values: Iterable[Value]) -> set[Value]:
        """The stacked outputs that values are made of."""
        stack, seen = list(values), set(values)
        while stack:
            value = stack.pop()
            if value.node is not self._loop.node:
                new = {x for x in value.node.inputs if x in self.axes} - seen
                seen |= new
                stack += new
        return {v for v in seen if v.node is self._loop.node}

    def shown(self) -> list[Value]:
        """Those values that something else needs."""
        rows = {v.node for v in self.axes if v.node is not self._loop.node}
        inside = rows | set(self.reductions)
        return [v for v in self.axes if not self.uses.are_among(v, inside)]

    def is_small(self, value: Value) -> bool:
        """Whether a reduction has left less of a stacked output."""
        node = value.node
        if node is self._loop.node:
            return False
        made = [x for x in node.inputs if x in self.axes]
        if node.primitive.name in SHRINKING:
            return True
        size = value.type.size
        lesser = (less_equal(size, x.type.size) is True for x in made)
        return all(lesser) and all(map(self.is_small, made))


class _Hoist:
    """The scan that computes reductions of another one's outputs too."""

    def __init__(self, loop: Loop, region: Region) -> None:
        self._loop, self._region = loop, region
        shown = region.shown()
        small = [v for v in shown if region.is_small(v)]
        large = [v for v in shown if v not in set(small)]
        self._kept = region.leaves(large)
        self._reductions = {
            node: made
            for node, made in region.reductions.items()
            if region.leaves([node.inputs[0]]) - self._kept
        }
        self._small = [v for v in small if region.leaves([v]) - self._kept]

    @property
    def found(self) -> bool:
        """Whether there is anything to gain."""
        return bool(self._reductions or self._small)

    def made(self) -> tuple[dict[Value, Value], Pairs]:
        """What stands for the outputs of the scan, and for each reduction."""
        loop, region = self._loop, self._region
        inputs = [(n.inputs[0], region.axes[n.inputs[0]]) for n in self._reductions]
        places = [*inputs, *((v, region.axes[v]) for v in self._small)]
        made = [v.node for v in region.axes]
        wanted = Wanted(region.uses, loop.stacked, made)
        wanted.collect(places, self._reductions)
        return self._assembled(wanted, places)

    def _assembled(
        self, wanted: Wanted, places: list[tuple[Value, int]]
    ) -> tuple[dict[Value, Value], Pairs]:
        loop, runs = self._loop, list(self._reductions.values())
        stacked = [v for v in loop.stacked if v in self._kept]
        placed = any(run.placed for run in runs)
        split, rows_of = loop.carries + placed, len(loop.sequences)
        starts = [[loop.first_place()] if placed else [], *(r.start for r in runs)]
        ranges = _ranges(split, runs)

        def step(carry: list[Value], given: list[Value]) -> tuple[list[Value], ...]:
            own = carry[: loop.carries]
            made = loop.inner.applied([*own, *given[:rows_of], *loop.rest])
            after, row = made[: loop.carries], made[loop.carries :]
            row_of = dict(zip(loop.stacked, row, strict=True))
            row_of |= zip(wanted.sequences, given[rows_of:], strict=True)
            rows = wanted.computed(row_of)
            place = carry[loop.carries] if placed else as_value(0)
            after += [loop.next_place(place)] if placed else []
            for run, (a, b), at in zip(runs, ranges, places, strict=False):
                after += run.step(carry[a:b], rows[at], place)
            small = [rows[at] for at in places[len(runs) :]]
            return after, [*(row_of[v] for v in stacked), *small]

        with standing_at(loop.node.place.plain):
            ends, found = F._run_scan(
                step,
                [*loop.first, *(v for start in starts for v in start)],
                [*loop.sequences, *wanted.sequences],
                loop.length,
                loop.reverse,
            )
        made = dict(zip(loop.ends, ends, strict=False))
        made |= zip(stacked, found, strict=False)
        results = [run.end(ends[a:b]) for run, (a, b) in zip(runs, ranges, strict=True)]
        behind = zip(found[len(stacked) :], places[len(runs) :], strict=True)
        results += [F.moveaxis(v, 0, axis) for v, (_, axis) in behind]
        return made, self._guarded(results, wanted)

    def _guarded(self, results: list[Value], wanted: Wanted) -> Pairs:
        """Each result in place of what it stands for; sizes must fit as before."""
        old = [*(n.outputs[0] for n in self._reductions), *self._small]
        pairs = []
        for before, after in zip(old, results, strict=True):
            for node in [*wanted.nodes, before.node]:
                after = guarded(after, node)
            pairs.append((before, after))
        return pairs


def _ranges(start: int, runs: Iterable[Running]) -> list[tuple[int, int]]:
    """Where the carries of each reduction are."""
    ends = [start]
    for run in runs:
        ends.append(ends[-1] + len(run.start))
    return list(pairwise(ends))


@whole_graph(over=RUNNING, exact=False)
def reduction_in_scan(graph: Graph) -> tuple[Graph, Pairs] | None:
    """A reduction of what a scan stacks is computed in its body, step by step."""
    nodes = ancestors(graph.outputs)
    for node in nodes:
        if node.primitive.name == "scan":
            loop = Loop(node)
            hoist = _Hoist(loop, Region(loop, nodes, graph))
            if hoist.found:
                made, pairs = hoist.made()
                return with_made(graph, nodes, made | dict(pairs)), pairs
    return None


HOISTING = PRODUCERS + reduction_in_scan
