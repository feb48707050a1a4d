"""Fuse consumers: reductions of the ys of a scan are computed in its body.

`gt.mean((ys - targets) ** 2)` of a ys output need not stack it: the loop carries the
sum, and `targets` becomes one of its sequences. The same holds for other reductions,
through ops that work on each slice by itself, if nothing else needs the ys; all
reductions of one scan are fused into one scan. Reductions over other axes leave less to
stack. Sums are added up in another order.
"""

from collections.abc import Iterable
from dataclasses import replace

from graphc.errors import standing_at
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced
from graphc.ir.namespace import F
from graphc.ops.effects.assertions import ASSERT
from graphc.rewriting.engine.rule import Rule, whole_graph
from graphc.rewriting.loops.find.producers import Producers, Resolve, UsersOf
from graphc.rewriting.loops.find.scan_view import (
    Late,
    Loop,
    at_each_loop,
    with_replacements,
)
from graphc.rewriting.loops.fuse.consumers import Consumers, condition_of_check
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carries,
    OwnCarry,
    StreamReduction,
)
from graphc.rewriting.loops.fuse_producers import PRODUCERS
from graphc.rewriting.loops.last_rows import LAST_ROWS
from graphc.rewriting.loops.tile.per_chunk import scan_of_chunks
from graphc.rewriting.loops.tile.reductions import blocking
from graphc.rewriting.loops.tile.strip_mine import runs_all_steps, scan_in_chunks
from graphc.rewriting.match.sizes import with_guards


class _Hoist:
    """A scan that replaces another one, and also computes reductions of its ys."""

    def __init__(self, loop: Loop, region: Consumers) -> None:
        self._loop, self._region = loop, region
        shown = region.live_out_values()
        small = [v for v in shown if region.is_small(v)]
        large = [v for v in shown if v not in set(small)]
        self._stored_ys = region.ys_of(large)
        self._reductions = {
            node: how
            for node, how in region.reductions.items()
            if region.ys_of([v for v, _ in how.places]) - self._stored_ys
        }
        self._small = [
            (v, region.views[v]) for v in small if region.ys_of([v]) - self._stored_ys
        ]

    @property
    def can_fuse(self) -> bool:
        """Whether there is anything to fuse."""
        return bool(self._reductions or self._small)

    def fuse_into(self, graph: Graph, nodes: Iterable[Node]) -> Replaced:
        """Return the graph with the fused scan, and what replaces each reduction."""
        loop, region = self._loop, self._region
        read = [place for how in self._reductions.values() for place in how.places]
        has, sliced = {*loop.stacked, *region.inactive.masks}, region.nodes
        producers = Producers(
            region.stream,
            region.uses,
            lambda value: value.node in sliced,
            has,
            region.own_place,
        )
        producers.collect([*read, *self._small], region.nodes)
        stacked = [v for v in loop.stacked if v in self._stored_ys]
        ends, stacked_rows, carries = self._build_scan(producers, stacked)
        replacements = dict(zip(loop.final_carries, ends, strict=False))
        count = [*loop.after_carries[: loop.stops]]
        replacements |= zip([*count, *stacked], stacked_rows, strict=False)
        checks = [n for n in producers.nodes if n.primitive is ASSERT]

        def checked(old: Value, new: Late) -> Late:
            """Keep the size checks and assertions of the replaced nodes."""

            def value(known: Resolve) -> Value:
                result = with_guards(producers.with_guards(new(known)), old.node)
                for node in checks:
                    with standing_at(node.place.plain):
                        condition = known(condition_of_check(node))
                        result = ASSERT(result, condition, **node.params)
                return result

            return value

        def ended(how: StreamReduction, carry: list[Value]) -> Late:
            return lambda known: how.end(carry, known)

        late: dict[Value, Late] = {}
        for node, how, carry in carries:
            late[node.outputs[0]] = checked(node.outputs[0], ended(how, carry))
        small = stacked_rows[len(count) + len(stacked) :]
        for (old, view), rows in zip(self._small, small, strict=True):
            part = F.moveaxis(view.select_rows(rows, loop.length), 0, view.axis)
            late[old] = checked(old, _same_value(part))
        return with_replacements(graph, nodes, replacements, late)

    def _build_scan(
        self, producers: Producers, stacked: list[Value]
    ) -> tuple[list[Value], list[Value], Iterable[OwnCarry]]:
        """Build the new scan; return its final carries, ys, and reductions' carries."""
        loop, carries = self._loop, Carries(self._reductions, lambda v: v)
        placed = producers.placed or carries.placed
        rows_of = len(loop.sequences)
        place, memory = [loop.first_place()] * placed, producers.initial_slices()
        before = loop.carries + placed
        after_memory = before + len(memory)
        masks = self._region.inactive.masks

        def step(carry: list[Value], slices: list[Value]) -> StepResult:
            after, row = loop.step(carry[: loop.carries], slices[:rows_of])
            row_of = dict(zip(loop.after_carries, row, strict=True))
            row_of |= dict.fromkeys(masks, as_value(True))
            row_of |= zip(producers.sequences, slices[rows_of:], strict=True)
            number = carry[loop.carries] if placed else as_value(0)
            remembered = carry[before:after_memory]
            rows = producers.compute_slices(row_of, number, remembered)
            after += [loop.next_place(number)] if placed else []
            after += producers.next_slices(remembered, rows)
            after += carries.step(carry[after_memory:], rows, number)
            small = [rows[place] for place in self._small]
            return after, [*row[: loop.stops], *(row_of[v] for v in stacked), *small]

        first = [*loop.inits, *place, *memory, *carries.start]
        ends, ys = loop.rebuild(step, first, [*loop.sequences, *producers.sequences])
        return ends[: loop.carries], ys, carries.each_with_carry(ends[after_memory:])


def _same_value(value: Value) -> Late:
    return lambda known: value


def _hoist_into(
    graph: Graph, nodes: list[Node], loop: Loop, uses: UsersOf
) -> Replaced | None:
    if _is_left_alone(loop):
        return None
    return _fuse_consumers(graph, nodes, loop, Consumers(loop, uses))


def _is_left_alone(loop: Loop) -> bool:
    """Whether to leave a loop alone, if counted or reversed with early exit."""
    return loop.limit is not None or bool(loop.stops and loop.reverse)


def _fuse_consumers(
    graph: Graph, nodes: list[Node], loop: Loop, consumers: Consumers
) -> Replaced | None:
    hoist = _Hoist(loop, consumers)
    return hoist.fuse_into(graph, nodes) if hoist.can_fuse else None


def _hoist_if_cheap(
    graph: Graph, nodes: list[Node], loop: Loop, uses: UsersOf
) -> Replaced | None:
    """Fuse as `_hoist_into` does, but leave sums that are rescaled to chunks of steps.

    XLA makes a loop of its own for each number that is carried, whereas a sum of
    stacked values is one loop over all rows of a chunk.
    """
    if _is_left_alone(loop):
        return None
    consumers = Consumers(loop, uses)
    if consumers.rescales and loop.sequences and runs_all_steps(loop.node):
        return None
    return _fuse_consumers(graph, nodes, loop, consumers)


_declared = whole_graph(over=("scan",), exact=False, name="reduction_in_scan")


@_declared
def _where_fused(graph: Graph) -> Replaced | None:
    """A reduction of the ys of a scan is computed in its body, if that is cheap."""
    return at_each_loop(graph, UsersOf, _hoist_if_cheap)


@_declared
def _everywhere(graph: Graph) -> Replaced | None:
    """A reduction of the ys of a scan is computed in its body, step by step."""
    return at_each_loop(graph, UsersOf, _hoist_into)


reduction_in_scan: Rule = replace(_everywhere, fused=_where_fused)


HOISTING = (
    LAST_ROWS
    + PRODUCERS
    + reduction_in_scan
    + scan_in_chunks()
    + scan_of_chunks
    + blocking()
)
