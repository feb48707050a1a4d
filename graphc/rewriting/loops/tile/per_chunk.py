"""Per-chunk work: scans with checkpoints as nested loops over chunks of iterations.

The gradient of such a scan does some work once per chunk. On the way forwards, the
carry before the chunk is written to its slot; backwards, the carries within the chunk
are recomputed. For the rules that fuse into scans, each direction is one loop over all
iterations, which does this work where a chunk begins. Here the work moves out: an outer
loop does it, and the iterations of a chunk are an inner loop, which reads slices in
place. So no slices are copied, and no iteration tests whether a chunk begins.
"""

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from graphc.control.scan_records import PerChunk, Replay
from graphc.errors import standing_at
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced, region_between, substituted
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import maximum
from graphc.ir.types import INT32
from graphc.ops.indexing.row_access import put, read, readable
from graphc.rewriting.engine.rule import whole_graph
from graphc.rewriting.loops.find.scan_view import Loop, at_each_loop, with_replacements
from graphc.rewriting.match.sizes import asks_late, with_guards

Carry = list[Value]


@whole_graph(over=("scan",), exact=True, late=True)
def scan_of_chunks(graph: Graph) -> Replaced | None:
    """Per-chunk work of a scan moves out of the loop over the steps of a chunk."""
    return at_each_loop(graph, lambda nodes, graph: None, _nest_chunks, _is_chunked)


def _is_chunked(node: Node) -> bool:
    """Whether a node is a chunked scan without early exit that is not unrolled.

    A scan with guards on sizes that the program computes stays, since it checks them.
    """
    if node.primitive is not OP.scan or node.params["per_chunk"] is None:
        return False
    unroll = node.params["unroll"]
    if node.params["stops"] or unroll != 1 or unroll is True:
        return False
    return not asks_late(node)


def _nest_chunks(
    graph: Graph, nodes: list[Node], loop: Loop, known: None
) -> Replaced | None:
    backward = loop.node.params["replay"] is not None
    used = {*graph.outputs, *(v for node in nodes for v in operands(node))}
    chunked = (_BackwardScan if backward else _ForwardScan)(loop, used)
    if not chunked.is_possible():
        return None
    with standing_at(loop.node.place.plain):
        replacements = dict(zip(chunked.results, chunked.run(), strict=True))
    first = loop.node.outputs[0]
    new_graph, _ = with_replacements(graph, nodes, replacements, {})
    return new_graph, [(first, replacements[first])]


class _Chunk(NamedTuple):
    """The number of iterations of a chunk, the carries after it, and per-chunk values.

    `replacements_at` maps the number of an iteration to replacements of values of the
    body.
    """

    steps: Value
    after: dict[int, Value]
    replacements_at: Callable[[Value], dict[Value, Value]]


class _ForwardScan:
    """A loop, and the part of its body that runs in the first iteration of a chunk.

    Only slices that are `used` are stacked: the others would be carried for nothing.
    """

    def __init__(self, loop: Loop, used: Container[Value]) -> None:
        per_chunk: PerChunk = loop.node.params["per_chunk"]
        self._number, places = per_chunk.number, per_chunk.carries
        self._loop = loop
        self._inputs, self._outputs = loop.body.inputs, loop.body.outputs
        self._chunk = cast(as_value(size_value(per_chunk.steps)), INT32)
        total = size_value(loop.length) if loop.limit is None else loop.limit
        self._total = cast(as_value(total), INT32)
        carries = range(loop.carries)
        same = [self._inputs[i] is self._outputs[i] for i in carries]
        self._changed = [i for i in carries if not same[i]]
        self._places = [i for i in places if not same[i]]
        self._chunk_values = [self._outputs[i] for i in self._places]
        self._array_numbers = self._arrays_of_carries(places)
        others = {*self._places, *self._array_numbers}
        self._changing_carries = [i for i in self._changed if i not in others]
        self._rows = list(map(readable, loop.sequences))
        self._sizes = loop.sizes
        outputs = zip(loop.stacked, self._outputs[loop.carries :], strict=True)
        pairs = [(v, slice) for v, slice in outputs if v in used]
        self._stacked = [v for v, _ in pairs]
        self._slices = [slice for _, slice in pairs]
        self.results = [*loop.node.outputs[: loop.carries], *self._stacked]

    def _arrays_of_carries(self, places: Sequence[int]) -> dict[int, int]:
        """Map the carries that are stored in arrays of a chunk to those arrays."""
        return {}

    def is_possible(self) -> bool:
        """Whether the per-chunk values depend on no slice, and have no other use."""
        rows = self._loop.rows
        chunk_values = self._chunk_values
        if region_between(chunk_values, rows) or set(chunk_values) & set(rows):
            return False
        stored_carries = (self._outputs[i] for i in self._array_numbers)
        per_chunk_values = {*chunk_values, *stored_carries}
        outputs = self._step_outputs()
        region = region_between(outputs, [*self._inputs, *per_chunk_values])
        used = {
            *outputs,
            *(v for node in region for v in operands(node)),
        } - per_chunk_values
        return all(self._inputs[i] not in used for i in self._places)

    def _step_outputs(self) -> Carry:
        """Return the outputs of an iteration: its carries, and its slices to stack."""
        carried = [self._outputs[i] for i in self._changing_carries]
        return [*carried, *self._slices]

    def run(self) -> Carry:
        """Return what replaces `results`: the final carries, and what is stacked."""
        loop, changed = self._loop, len(self._changed)
        room = maximum(loop.length, 1) if self._stacked else 1
        shapes = [(room, *v.type.shape[1:]) for v in self._stacked]
        pairs = zip(shapes, self._stacked, strict=True)
        arrays = [F.zeros(shape, v.dtype) for shape, v in pairs]
        start = [*(loop.inits[i] for i in self._changed), *arrays]

        def step(state: Carry, _: Carry) -> StepResult:
            carry = self._all_carries(state[:changed])
            return self._run_chunk(carry, state[changed:]), []

        # No iteration where sizes differ.
        count = with_guards(self._chunk_count(), loop.node)
        ends, _ = F._run_scan(step, start, [], None, False, count=count)
        stacked = [F._part(v, 0, 0, loop.length) for v in ends[changed:]]
        return [*self._all_carries(ends[:changed]), *stacked]

    def _chunk_count(self) -> Value:
        """The number of chunks."""
        return (self._total - 1) // self._chunk + 1

    def _all_carries(self, changed: Carry) -> Carry:
        """Return all carries; those that never change have their init."""
        changed_at = dict(zip(self._changed, changed, strict=True))
        return [changed_at.get(i, v) for i, v in enumerate(self._loop.inits)]

    def _run_chunk(self, carry: Carry, arrays: Carry) -> Carry:
        """Run a chunk: its per-chunk part, and then its iterations."""
        heads = self._recompute(self._chunk_values, carry, self._loop.rows, {})
        steps, after, replacements_at = self._begin_chunk(carry, heads)

        def step(state: Carry, _: Carry) -> StepResult:
            return self._run_step(carry, state, replacements_at), []

        count = len(self._changing_carries)
        first = [*(carry[i] for i in self._changing_carries), *arrays]
        ends, _ = F._run_scan(step, first, [], None, False, count=steps)
        after |= zip(self._changing_carries, ends[:count], strict=True)
        return [*(after[i] for i in self._changed), *ends[count:]]

    def _begin_chunk(self, carry: Carry, heads: Carry) -> _Chunk:
        steps = F.minimum(self._chunk, self._total - carry[self._number])
        once = dict(zip(self._chunk_values, heads, strict=True))
        after = dict(zip(self._places, heads, strict=True))
        return _Chunk(steps, after, lambda number: once)

    def _run_step(
        self,
        carry: Carry,
        state: Carry,
        replacements_at: Callable[[Value], dict[Value, Value]],
    ) -> Carry:
        count, carries = len(self._changing_carries), list(carry)
        for i, v in zip(self._changing_carries, state[:count], strict=True):
            carries[i] = v
        number = carries[self._number]
        place = self._slice_position(number)
        rows = [read(v, place) for v in self._rows]
        replacements = replacements_at(number)
        results = self._recompute(self._step_outputs(), carries, rows, replacements)
        arrays = zip(state[count:], results[count:], strict=True)
        return [*results[:count], *(put(x, place, v) for x, v in arrays)]

    def _slice_position(self, number: Value) -> Value:
        """The position of the slices of an iteration."""
        return self._total - 1 - number if self._loop.reverse else number

    def _recompute(
        self,
        outputs: Carry,
        carry: Carry,
        rows: Sequence[Value],
        replacements: dict[Value, Value],
    ) -> Carry:
        """Compute values of the body in an iteration."""
        inputs = [*carry, *rows, *self._loop.captures]
        new = dict(zip(self._inputs, inputs, strict=True)) | replacements
        return substituted(outputs, new, self._sizes)


class _BackwardScan(_ForwardScan):
    """The backward loop, whose per-chunk values are the carries before each iteration.

    These carries are stored in an array, followed by the carry after the chunk, so the
    carry after a recomputed step is read from there.
    """

    def _arrays_of_carries(self, places: Sequence[int]) -> dict[int, int]:
        replay: Replay = self._loop.node.params["replay"]
        replayed = range(replay.before, replay.before + len(replay.carries))
        pairs = zip(replayed, places, strict=True)
        return {
            i: self._places.index(place)
            for i, place in pairs
            if i in self._changed and place in self._places
        }

    def _chunk_count(self) -> Value:
        return self._loop.inits[self._number] // self._chunk + 1

    def _begin_chunk(self, carry: Carry, heads: Carry) -> _Chunk:
        place = F.remainder(carry[self._number], self._chunk)
        start, arrays = carry[self._number] - place, list(heads)
        for i, k in self._array_numbers.items():
            arrays[k] = put(heads[k], place + 1, carry[i])
        after = dict(zip(self._places, arrays, strict=True))
        after |= {
            i: read(arrays[k], cast(as_value(0), INT32))
            for i, k in self._array_numbers.items()
        }

        def replacements_at(number: Value) -> dict[Value, Value]:
            replayed = dict(zip(self._chunk_values, arrays, strict=True))
            for i, k in self._array_numbers.items():
                replayed[self._inputs[i]] = read(arrays[k], number - start + 1)
                replayed[self._outputs[i]] = read(arrays[k], number - start)
            return replayed

        return _Chunk(place + 1, after, replacements_at)

    def _slice_position(self, number: Value) -> Value:
        return number if self._loop.reverse else self._total - 1 - number
