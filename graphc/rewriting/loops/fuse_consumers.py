"""Fuse consumers: reductions of the ys of a scan are computed in its body.

`gt.mean((ys - targets) ** 2)` of a ys output need not stack it: the loop carries the
sum, and `targets` becomes one of its sequences. The same holds for other reductions,
through ops that work on each slice by itself, if the ys are not needed otherwise; all
reductions of one scan are fused into one. Reductions over other axes only leave less
to stack. Sums are added up in another order.
"""

from collections.abc import Iterable
from itertools import pairwise

from graphc.errors import standing_at
from graphc.ir.build import as_value
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ops.effects.assertions import ASSERT
from graphc.rewriting.loops.consumers import Consumers, flag_of
from graphc.rewriting.loops.fuse_producers import PRODUCERS
from graphc.rewriting.loops.per_chunk import scan_of_chunks
from graphc.rewriting.loops.producers import UsersOf, Wanted
from graphc.rewriting.loops.scan_view import Late, Loop, at_each_loop, with_made
from graphc.rewriting.loops.stream_reductions import Resolve, StreamReduction
from graphc.rewriting.loops.strip_mine import scan_in_chunks
from graphc.rewriting.loops.tile import blocking
from graphc.rewriting.rule import Replaced, whole_graph
from graphc.rewriting.sizes import guarded


class _Hoist:
    """A scan that also computes the reductions of another one's ys."""

    def __init__(self, loop: Loop, region: Consumers) -> None:
        self._loop, self._region = loop, region
        shown = region.shown()
        small = [v for v in shown if region.is_small(v)]
        large = [v for v in shown if v not in set(small)]
        self._kept = region.leaves(large)
        self._tasks = {
            node: task
            for node, task in region.tasks.items()
            if region.leaves([v for v, _ in task.places]) - self._kept
        }
        self._small = [
            (v, region.views[v]) for v in small if region.leaves([v]) - self._kept
        ]

    @property
    def found(self) -> bool:
        """Whether there is anything to fuse."""
        return bool(self._tasks or self._small)

    def made(self, graph: Graph, nodes: Iterable[Node]) -> Replaced:
        """The graph with the fused scan, and the replacement of each reduction."""
        loop, region = self._loop, self._region
        read = [place for task in self._tasks.values() for place in task.places]
        has = *loop.stacked, *region.undone.masks
        wanted = Wanted(loop.length, region.uses, has, region.nodes, region.own_place)
        wanted.collect([*read, *self._small], region.nodes)
        stacked = [v for v in loop.stacked if v in self._kept]
        ends, found, carries = self._scanned(wanted, stacked)
        made = dict(zip(loop.ends, ends, strict=False))
        count = [*loop.given[: loop.stops]]
        made |= zip([*count, *stacked], found, strict=False)
        checks = [n for n in wanted.nodes if n.primitive is ASSERT]

        def checked(old: Value, new: Late) -> Late:
            """Keep the size checks and assertions of the replaced nodes."""

            def value(known: Resolve) -> Value:
                found = guarded(wanted.guarded(new(known)), old.node)
                for node in checks:
                    with standing_at(node.place.plain):
                        found = ASSERT(found, known(flag_of(node)), **node.params)
                return found

            return value

        def ended(task: StreamReduction, carry: list[Value]) -> Late:
            return lambda known: task.end(carry, known)

        late: dict[Value, Late] = {}
        for (node, task), carry in zip(self._tasks.items(), carries, strict=True):
            late[node.outputs[0]] = checked(node.outputs[0], ended(task, carry))
        small = found[len(count) + len(stacked) :]
        for (old, view), rows in zip(self._small, small, strict=True):
            part = F.moveaxis(view.part(rows, loop.length), 0, view.axis)
            late[old] = checked(old, _same(part))
        return with_made(graph, nodes, made, late)

    def _scanned(
        self, wanted: Wanted, stacked: list[Value]
    ) -> tuple[list[Value], list[Value], list[list[Value]]]:
        """The final carries of the new scan, its ys, and those of each reduction."""
        loop, tasks = self._loop, list(self._tasks.values())
        placed = wanted.placed or any(task.placed for task in tasks)
        rows_of = len(loop.sequences)
        place, memory = [loop.first_place()] * placed, wanted.first_kept()
        own = [task.start(lambda v: v) for task in tasks]
        starts = [place, memory, *own]
        before = loop.carries + placed
        ranges = _ranges(before + len(memory), own)
        masks = self._region.undone.masks

        def step(
            carry: list[Value], given: list[Value]
        ) -> tuple[list[Value], list[Value]]:
            after, row = loop.step(carry[: loop.carries], given[:rows_of])
            row_of = dict(zip(loop.given, row, strict=True))
            row_of |= dict.fromkeys(masks, as_value(True))
            row_of |= zip(wanted.sequences, given[rows_of:], strict=True)
            number = carry[loop.carries] if placed else as_value(0)
            kept = carry[before : before + len(memory)]
            rows = wanted.computed(row_of, number, kept)
            after += [loop.next_place(number)] if placed else []
            after += wanted.next_kept(kept, rows)
            for task, (a, b) in zip(tasks, ranges, strict=True):
                after += task.step(carry[a:b], rows, number)
            small = [rows[place] for place in self._small]
            return after, [*row[: loop.stops], *(row_of[v] for v in stacked), *small]

        first = [*loop.first, *(v for start in starts for v in start)]
        ends, found = loop.again(step, first, [*loop.sequences, *wanted.sequences])
        return ends[: loop.carries], found, [ends[a:b] for a, b in ranges]


def _same(value: Value) -> Late:
    return lambda known: value


def _ranges(start: int, carries: Iterable[list[Value]]) -> list[tuple[int, int]]:
    """The range of the carries of each reduction."""
    ends = [start]
    for own in carries:
        ends.append(ends[-1] + len(own))
    return list(pairwise(ends))


def _hoisted(
    graph: Graph, nodes: list[Node], loop: Loop, uses: UsersOf
) -> Replaced | None:
    if loop.limit is not None or (loop.stops and loop.reverse):
        return None
    hoist = _Hoist(loop, Consumers(loop, nodes, uses))
    return hoist.made(graph, nodes) if hoist.found else None


@whole_graph(over=("scan",), exact=False)
def reduction_in_scan(graph: Graph) -> Replaced | None:
    """A reduction of the ys of a scan is computed in its body, step by step."""
    return at_each_loop(graph, UsersOf, _hoisted)


HOISTING = (
    PRODUCERS + reduction_in_scan + scan_in_chunks() + scan_of_chunks + blocking()
)
