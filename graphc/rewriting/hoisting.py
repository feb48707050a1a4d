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
from graphc.ir.dims import equal, less_equal
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.walk import ancestors, operands
from graphc.ops.check import ASSERT
from graphc.rewriting.loop import Loop, is_loop, with_made
from graphc.rewriting.producers import PRODUCERS
from graphc.rewriting.rows import REDUCTIONS
from graphc.rewriting.rule import whole_graph
from graphc.rewriting.running import Carry, Running, picking, running
from graphc.rewriting.sizes import guarded
from graphc.rewriting.slices import picked
from graphc.rewriting.stepwise import Place, Uses, Wanted
from graphc.rewriting.views import View, derived, parents, usable

Pairs = list[tuple[Value, Value]]
SHRINKING = {*REDUCTIONS, "argmax", "argmin"}


class Region:
    """What is computed of the stacked outputs of a scan, row by row."""

    def __init__(self, loop: Loop, nodes: Sequence[Node], graph: Graph) -> None:
        self._loop = loop
        self._dependent: set[Node] = {loop.node}
        whole = View(0, 0, 1, loop.length)
        self.views: dict[Value, View] = dict.fromkeys(loop.stacked, whole)
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
        view = self.views.get(node.inputs[0]) if node.inputs else None
        found = None if view is None else self._reduction(node, view)
        if found is not None:
            self.reductions[node] = found
            return
        for axis in range(node.outputs[0].type.rank):
            view = self._view(node, axis)
            if view is not None:
                self.views[node.outputs[0]] = view

    def _reduction(self, node: Node, view: View) -> Running | None:
        """How a node reduces what comes row by row, if it does so over the rows."""
        if any(v.node in self._dependent for v in node.inputs[1:]):
            return None
        at = picked(node, view.axis)
        if at is None:
            return running(node, view.axis, self._loop.reverse)
        last = 0 if self._loop.reverse else self._loop.length - 1
        latest = equal(view.start + view.step * at, last) is True
        return picking(node, view.axis, at, latest)

    def _view(self, node: Node, axis: int) -> View | None:
        """The steps of the rows of a result, if it is computed row by row."""
        for x in node.inputs:
            known = self.views.get(x)
            view = None if known is None else derived(node, x, known, axis)
            if view is not None:
                found = parents(node, view)
                fits = found and all(map(self._is_row, node.inputs, found))
                return view if fits or self._is_checked(node, found) else None
        return None

    def _is_row(self, value: Value, view: View | None) -> bool:
        if value.node in self._dependent:
            known = self.views.get(value)
            if view is None or known is None:
                return False
            return known.axis == view.axis and known.matches(view)
        return view is None or usable(value, view, self._loop.length)

    def _is_checked(self, node: Node, found: "list[View | None] | None") -> bool:
        """Whether a node makes the check that the scan carries along."""
        if node.primitive.name != "assert" or found is None:
            return False
        held = _flag(node) in set(self._loop.ends)
        return held and self._is_row(node.inputs[0], found[0])

    def leaves(self, values: Iterable[Value]) -> set[Value]:
        """The stacked outputs that values are made of."""
        stack, seen = list(values), set(values)
        while stack:
            value = stack.pop()
            if value.node is not self._loop.node:
                new = {x for x in value.node.inputs if x in self.views} - seen
                seen |= new
                stack += new
        return {v for v in seen if v.node is self._loop.node}

    def shown(self) -> list[Value]:
        """Those values that something else needs."""
        rows = {v.node for v in self.views if v.node is not self._loop.node}
        inside = rows | set(self.reductions)
        return [v for v in self.views if not self.uses.are_among(v, inside)]

    def is_small(self, value: Value) -> bool:
        """Whether a reduction has left less of a stacked output."""
        node = value.node
        if node is self._loop.node:
            return False
        made = [x for x in node.inputs if x in self.views]
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
        whole = [v for v in shown if region.views[v].covers(loop.length)]
        small = [v for v in whole if region.is_small(v)]
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
        read = [n.inputs[0] for n in self._reductions]
        places = [(v, region.views[v]) for v in (*read, *self._small)]
        made = [v.node for v in region.views]
        wanted = Wanted(loop.length, region.uses, loop.stacked, made)
        wanted.collect(places, self._reductions)
        return self._assembled(wanted, places)

    def _assembled(
        self, wanted: Wanted, places: list[Place]
    ) -> tuple[dict[Value, Value], Pairs]:
        loop, runs = self._loop, list(self._reductions.values())
        stacked = [v for v in loop.stacked if v in self._kept]
        placed = wanted.placed or any(map(self._is_placed, runs, places))
        rows_of = len(loop.sequences)
        starts = [[loop.first_place()] if placed else [], *(r.start for r in runs)]
        ranges = _ranges(loop.carries + placed, runs)

        def step(carry: list[Value], given: list[Value]) -> tuple[list[Value], ...]:
            own = carry[: loop.carries]
            made = loop.inner.applied([*own, *given[:rows_of], *loop.rest])
            after, row = made[: loop.carries], made[loop.carries :]
            row_of = dict(zip(loop.stacked, row, strict=True))
            row_of |= zip(wanted.sequences, given[rows_of:], strict=True)
            number = carry[loop.carries] if placed else as_value(0)
            rows = wanted.computed(row_of, number)
            after += [loop.next_place(number)] if placed else []
            for run, (a, b), place in zip(runs, ranges, places, strict=False):
                after += self._stepped(run, carry[a:b], rows[place], place[1], number)
            small = [rows[place] for place in places[len(runs) :]]
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
        results += [F.moveaxis(v, 0, view.axis) for v, (_, view) in behind]
        return made, self._checked(results, wanted, made)

    def _is_placed(self, run: Running, place: Place) -> bool:
        return run.placed or not place[1].covers(self._loop.length)

    def _stepped(
        self, run: Running, carry: Carry, row: Value, view: View, number: Value
    ) -> Carry:
        """The carries of a reduction behind a step; some steps do not count."""
        after = run.step(carry, row, view.position(number))
        held = view.holds(number, self._loop.length)
        if held is None:
            return after
        return [F.where(held, a, b) for a, b in zip(after, carry, strict=True)]

    def _checked(
        self, results: list[Value], wanted: Wanted, made: dict[Value, Value]
    ) -> Pairs:
        """Each result in place of what it stands for; checks are made as before."""
        old = [*(n.outputs[0] for n in self._reductions), *self._small]
        checks = [n for n in wanted.nodes if n.primitive is ASSERT]
        pairs = []
        for before, after in zip(old, results, strict=True):
            after = guarded(wanted.guarded(after), before.node)
            for node in checks:
                flag = _flag(node)
                with standing_at(node.place.plain):
                    after = ASSERT(after, made.get(flag, flag), **node.params)
            pairs.append((before, after))
        return pairs


def _flag(node: Node) -> Value:
    """What a check needs to be true."""
    flag = node.inputs[1]
    while flag.node.primitive.name == "all" and not flag.node.params["axes"]:
        flag = flag.node.inputs[0]
    return flag


def _ranges(start: int, runs: Iterable[Running]) -> list[tuple[int, int]]:
    """Where the carries of each reduction are."""
    ends = [start]
    for run in runs:
        ends.append(ends[-1] + len(run.start))
    return list(pairwise(ends))


@whole_graph(over=("scan",), exact=False)
def reduction_in_scan(graph: Graph) -> tuple[Graph, Pairs] | None:
    """A reduction of what a scan stacks is computed in its body, step by step."""
    nodes = ancestors(graph.outputs)
    for node in nodes:
        if is_loop(node):
            loop = Loop(node)
            hoist = _Hoist(loop, Region(loop, nodes, graph))
            if hoist.found:
                made, pairs = hoist.made()
                return with_made(graph, nodes, made | dict(pairs)), pairs
    return None


HOISTING = PRODUCERS + reduction_in_scan
