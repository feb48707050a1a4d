"""Pipelined writes: order the writes in loops so that XLA does them in place.

A step that reads an array and writes to it makes XLA copy the whole array, since XLA
does not see that the reads come first. Here the pending write of a step is carried to
the next step, which writes before it reads, and the last write comes after the loop.
The first step has no pending write: it does a no-op write.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.control.predicated_writes import (
    WRITES,
    apply_write,
    idle_update,
    read_where_written,
    write_if_any,
    writes_between,
)
from graphc.control.scan import GROWING, SCAN, run_scan, scan_inputs
from graphc.errors import standing_at
from graphc.ir.graph.bodies import Body, StepResult, runs_in_python, with_new_bodies
from graphc.ir.graph.build import body_input
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import change_nodes, rebuilt, region_between
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32
from graphc.ops.indexing.scatter import SCATTER
from graphc.transform.loops.store_forwarding import (
    OneStep,
    read_states,
    with_forwarded_reads,
)


def with_writes_in_place(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """Make loops write before they read; return the new graph and the replacements."""
    if not graph.may_have_bodies:
        return graph, {}
    outputs, replacements = change_nodes(graph.outputs, _loop_in_place)
    return graph.with_outputs(outputs), replacements


def _loop_in_place(node: Node, _: object) -> Sequence[Value]:
    node = with_new_bodies(node, _body_in_place, node.place.plain)
    if node.primitive not in (SCAN, GROWING) or runs_in_python(node):
        return node.outputs
    if not _writes_to_carries(node):
        return node.outputs
    with standing_at(node.place.plain):
        body = _body_reading_first(node)
        late = _all_late_writes(node, body)
        return _PipelinedLoop(node, body, late).run() if late else node.outputs


def _writes_to_carries(loop: Node) -> bool:
    body: Body = loop.params["body"].content
    carries = range(loop.params["carries"])
    return any(writes_between(body.outputs[i], body.inputs[i]) for i in carries)


def _body_in_place(body: Body) -> Body:
    outputs, _ = change_nodes(body.outputs, _loop_in_place)
    return body.with_outputs(outputs) or body


@dataclass(frozen=True)
class _LateWrites:
    """The writes to a carry after the only state that is read, and that state."""

    carry: int
    read: Value
    writes: list[Node]


def _body_step(node: Node) -> OneStep:
    """The body of a loop, in the sizes of the loop's inputs."""
    (call,) = node.primitive.body_calls(node)
    pairs = zip(call.body.inputs, call.types, strict=True)
    inputs = [body_input(v.name, type) for v, type in pairs]
    outputs = call.body.call(inputs, call.size_args)
    return OneStep(tuple(inputs), tuple(outputs))


def _body_reading_first(node: Node) -> OneStep:
    """The body of a loop, with reads between writes moved before them."""
    body = _body_step(node)
    for i in range(node.params["carries"]):
        writes = writes_between(body.outputs[i], body.inputs[i])
        if writes:
            body = with_forwarded_reads(body, _states_of_carry(body, i, writes), writes)
    return body


def _states_of_carry(body: OneStep, i: int, writes: list[Node]) -> list[Value]:
    """The states of a carry, before the first of its writes and after each."""
    return [body.inputs[i], *(w.outputs[0] for w in writes)]


def _all_late_writes(node: Node, body: OneStep) -> list[_LateWrites]:
    late_writes = []
    for i in range(node.params["carries"]):
        writes = writes_between(body.outputs[i], body.inputs[i])
        late = _find_late_writes(body, i, writes) if writes else None
        if late is not None and not _is_tested(node, body, i):
            late_writes.append(late)
    return late_writes


def _find_late_writes(body: OneStep, i: int, writes: list[Node]) -> _LateWrites | None:
    """The writes to sink into the next step; None if none has to, or if they cannot."""
    states = _states_of_carry(body, i, writes)
    read = read_states(body, states, writes)
    if len(read) != 1:
        return None
    (k,) = read
    delayed = writes[k:]
    real = [w for w in delayed if w.primitive in WRITES]
    if not real or any(idle_update(w, w.inputs[0]) is None for w in real):
        return None
    return _LateWrites(i, states[k], delayed)


def _is_tested(node: Node, body: OneStep, i: int) -> bool:
    """Whether the condition of the loop depends on a carry."""
    if not node.params["stops"]:
        return False
    stop = body.outputs[node.params["carries"]]
    return bool(region_between([stop], [body.inputs[i]]))


class _PipelinedLoop:
    """A loop, rebuilt with late writes."""

    def __init__(self, node: Node, body: OneStep, late: list[_LateWrites]) -> None:
        self._node, self._body, self._late = node, body, late
        parts = scan_inputs(node.inputs, node.params)
        self._first, self._rows, self._captures = map(list, parts[:3])
        self._limit, self._going = parts.limit, parts.going
        self._captures_start = len(self._first) + len(self._rows)
        changing_inputs = self._body.inputs[: self._captures_start]
        region = region_between(self._body.outputs, changing_inputs)
        self._changing = {*changing_inputs, *(v for n in region for v in n.outputs)}

    def run(self) -> Sequence[Value]:
        """Rebuild the loop, and return its outputs."""
        params = self._node.params
        ends, stacked = run_scan(
            self._step,
            [*self._first, *self._idle_writes()],
            self._rows,
            params["length"],
            params["reverse"],
            count=self._limit,
            going=self._going,
            unroll=params["unroll"],
            grows=self._node.primitive is GROWING,
        )
        return [*self._carries_written(ends, write_if_any), *stacked]

    def _step(self, carry: list[Value], row: list[Value]) -> StepResult:
        """Do the pending writes, then a step whose own late writes become pending."""
        body, carries = self._body, len(self._first)
        outputs = list(body.outputs)
        for late in self._late:
            outputs[late.carry] = late.read
        pending = [v for w in self._writes() for v in self._changing_inputs(w)]
        requested_outputs = [*outputs[:carries], *pending, *outputs[carries:]]
        arguments = [*self._carries_written(carry), *row, *self._captures]
        new = dict(zip(body.inputs, arguments, strict=True))
        results = rebuilt(requested_outputs, new)
        return results[: len(carry)], results[len(carry) :]

    def _writes(self) -> list[Node]:
        writes = [w for late in self._late for w in late.writes]
        return [w for w in writes if w.primitive in WRITES]

    def _changing_inputs(self, write: Node) -> list[Value]:
        """The inputs of a write that differ between steps: the update, some indices."""
        x, v, *indices = write.inputs
        if write.params["how"] not in ("add", "multiply"):
            v = F.broadcast_to(v, read_where_written(write, x).type.shape)
        return [v, *(i for i in indices if i in self._changing)]

    def _indices(self, write: Node, changing: Iterable[Value]) -> list[Value]:
        """All indices of a write, given the `changing` ones."""
        remaining = iter(changing)
        captures = dict(
            zip(self._body.inputs[self._captures_start :], self._captures, strict=True)
        )
        indices = write.inputs[2:]
        fixed = iter(rebuilt(indices, captures))
        pairs = [(next(fixed), i) for i in indices]
        return [next(remaining) if i in self._changing else v for v, i in pairs]

    def _idle_writes(self) -> list[Value]:
        """The init of the pending writes: no-op writes."""
        idle = []
        for late in self._late:
            x = self._first[late.carry]
            for write in late.writes:
                if write.primitive not in WRITES:
                    x = F.reshape(x, write.outputs[0].type.shape)
                    continue
                v, *changing = self._changing_inputs(write)
                beyond = self._index_out_of_bounds(write)
                places = [F.zeros(i.type.shape, i.dtype) for i in changing]
                if beyond is not None:
                    places[0] = F.full_like(places[0], beyond)
                    idle += [F.zeros(v.type.shape, v.dtype), *places]
                    continue
                update = idle_update(write, x, self._indices(write, places))
                assert update is not None
                idle += [F.broadcast_to(update, v.type.shape), *places]
        return idle

    def _index_out_of_bounds(self, write: Node) -> Size | None:
        """An index that is out of bounds, if writes there are dropped.

        A no-op write there reads no element of an array that may have none. None if the
        first changing index cannot hold such a number, or is known to lie inside.
        """
        if write.primitive is not SCATTER:
            return None
        x, params = write.inputs[0], write.params
        index_axes = zip(
            write.inputs[2:], params["axes"], params["inside"], strict=True
        )
        for index, axis, inside in index_axes:
            if index in self._changing:
                fits = np.can_cast(INT32, index.dtype) and not inside
                return x.type.shape[axis] if fits else None
        return None

    def _carries_written(
        self, carry: Sequence[Value], written: Callable[..., Value] = apply_write
    ) -> list[Value]:
        """The carries of the original loop, with all pending writes done."""
        ends, pending = list(carry[: len(self._first)]), iter(carry[len(self._first) :])
        for late in self._late:
            x = ends[late.carry]
            for write in late.writes:
                if write.primitive not in WRITES:
                    x = F.reshape(x, write.outputs[0].type.shape)
                    continue
                v, *changing = (next(pending) for _ in self._changing_inputs(write))
                x = written(write, x, v, self._indices(write, changing))
            ends[late.carry] = x
        return ends
