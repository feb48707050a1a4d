"""Store-to-load forwarding: a read after writes takes its element from the writes.

`x.at[i].set(v)[j]` is `where(i == j, v, x[j])`. So all reads of a step can come before
its writes, which can then be done in place (see `pipelined_writes`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from graphc.control.predicated_writes import WRITES
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import rebuild_with, region_between
from graphc.ir.namespace import F
from graphc.ir.types import INT64
from graphc.ops.indexing.gather import GATHER
from graphc.ops.indexing.scatter import SCATTER

_COMBINED: dict[str, Callable[[Value, Value], Value]] = {
    "set": lambda old, v: v,
    "add": lambda old, v: F.add(old, v),
    "multiply": lambda old, v: F.multiply(old, v),
    "min": lambda old, v: F.minimum(old, v),
    "max": lambda old, v: F.maximum(old, v),
}


@dataclass(frozen=True)
class OneStep:
    """The body of a loop on variables of its own, in the sizes around the loop."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that depend on the inputs, in topological order."""
        return region_between(self.outputs, self.inputs)


def readers(state: Value, body: OneStep, writes: Sequence[Node]) -> list[Node]:
    """The nodes that use a state of a carry, except those that write to it."""
    writers = set(writes)
    return [
        node
        for node in body.nodes
        if any(v is state for v in node.inputs[node in writers :])
    ]


def read_states(
    body: OneStep, states: Sequence[Value], writes: Sequence[Node]
) -> dict[int, list[Node]]:
    """The states of a carry that are read, by number, with the nodes that read them.

    A reshape moves no element, so it does not count as a new state.
    """
    reads: dict[int, list[Node]] = {}
    number = 0
    for k, state in enumerate(states):
        if k and writes[k - 1].primitive in WRITES:
            number = k
        reads.setdefault(number, []).extend(readers(state, body, writes))
    return {k: nodes for k, nodes in reads.items() if nodes}


def with_forwarded_reads(
    body: OneStep, states: Sequence[Value], writes: Sequence[Node]
) -> OneStep:
    """Move all reads of a carry in a body to the first of its states that is read.

    Returns the body unchanged where not all of the reads can be moved.
    """
    read = read_states(body, states, writes)
    if len(read) < 2:
        return body
    first, last = min(read), max(read)
    gathers = {node: k for k in read if k > first for node in read[k]}
    passed_writes = writes[first:last]
    if not all(_access_same_axes(node, w) for node in gathers for w in passed_writes):
        return body
    replacements: dict[Value, Value] = {}
    for node in body.nodes:
        rebuild_with(node, replacements, node.place.plain)
        if node in gathers:
            start = replacements.get(states[first], states[first])
            passed = writes[first : gathers[node]]
            replacements[node.outputs[0]] = _forwarded_read(
                node, start, passed, replacements
            )
    return replace(body, outputs=tuple([replacements.get(v, v) for v in body.outputs]))


def _access_same_axes(read: Node, write: Node) -> bool:
    """Whether a read and a write both access one element or row of the same axes."""
    if read.primitive is not GATHER or write.primitive is not SCATTER:
        return False
    places = [*read.inputs[1:], *write.inputs[2:]]
    same = read.params["axes"] == write.params["axes"]
    return same and all(i.type.rank == 0 for i in places)


def _forwarded_read(
    node: Node, start: Value, writes: Sequence[Node], replacements: dict[Value, Value]
) -> Value:
    """Turn a gather that follows some writes into one from the array before them."""
    axes = node.params["axes"]
    sizes = [start.shape[a] for a in axes]
    places = [replacements.get(i, i) for i in node.inputs[1:]]
    element: Value = GATHER(start, *places, **node.params)
    nearest = [
        F.clip(_index_from_start(i, n), 0, n - 1)
        for i, n in zip(places, sizes, strict=True)
    ]
    for write in writes:
        v, *indices = (replacements.get(x, x) for x in write.inputs[1:])
        pairs = zip(indices, sizes, nearest, strict=True)
        hits = [F.equal(_index_from_start(i, n), place) for i, n, place in pairs]
        hit = hits[0]
        for next_hit in hits[1:]:
            hit = F.logical_and(hit, next_hit)
        element = F.where(hit, _COMBINED[write.params["how"]](element, v), element)
    return element


def _index_from_start(index: Value, n: int | Value) -> Value:
    """Convert an index that may count from the end to one from the start."""
    wide = cast(index, INT64)
    return F.where(wide < 0, wide + n, wide)
