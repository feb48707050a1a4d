"""Writes in loops, in an order in which XLA does them in place.

A step that reads an array and writes to it makes XLA copy the whole array: it does not
see that the reads come first. Here what a step would write is carried to the next one,
which writes before it reads, and the last of it is written behind the loop. The first
step has nothing to write: it writes what is there already.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import standing_at
from graphc.ir.build import constant
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.inner import Inner
from graphc.ir.namespace import F
from graphc.ir.op import Opaque
from graphc.ir.replay import region_between, renewed, replayed
from graphc.ir.walk import ancestors, operands
from graphc.transform.loops.masked import (
    chain,
    nothing,
    read_where_written,
    written,
)
from graphc.transform.loops.scan import SCAN, run_scan
from graphc.transform.loops.while_loop import WHILE, run_while


def in_place(graph: Graph) -> Graph:
    """The graph with loops that write before they read."""
    return replace(graph, outputs=tuple(_in_place(graph.outputs)))


def _in_place(outputs: Sequence[Value]) -> list[Value]:
    made: dict[Value, Value] = {}
    for node in ancestors(outputs):
        new = node
        if any(v in made for v in operands(node)):
            new = renewed(node, made, node.place)
        found = _loop_in_place(new)
        if found is not node.outputs:
            made.update(zip(node.outputs, found, strict=True))
    return [made.get(v, v) for v in outputs]


def _loop_in_place(node: Node) -> Sequence[Value]:
    params = {name: _inside(param) for name, param in node.params.items()}
    if any(params[name] is not node.params[name] for name in params):
        with standing_at(node.place.plain):
            node = node.primitive.bind(node.inputs, params)
    if node.primitive not in (SCAN, WHILE):
        return node.outputs
    late = _late_writes(node)
    if not late:
        return node.outputs
    with standing_at(node.place.plain):
        return _Delayed(node, late).run()


def _inside(param: Any) -> Any:
    """A param with the graphs in it worked off."""
    if not isinstance(param, Opaque):
        return param
    content = param.content
    if isinstance(content, Inner):
        made = _inner_in_place(content)
        return param if made is content else Opaque(param.name, made)
    if isinstance(content, tuple) and all(isinstance(c, Inner) for c in content):
        inners = tuple(map(_inner_in_place, content))
        return param if inners == content else Opaque(param.name, inners)
    return param


def _inner_in_place(inner: Inner) -> Inner:
    outputs = tuple(_in_place(inner.outputs))
    same = all(a is b for a, b in zip(outputs, inner.outputs, strict=True))
    return inner if same else Inner(inner.inputs, outputs, inner.symbols)


@dataclass(frozen=True)
class _Late:
    """The writes of a carry behind the state that is read, and that state."""

    carry: int
    read: Value
    writes: list[Node]


def _late_writes(node: Node) -> list[_Late]:
    inner: Inner = node.params["body"].content
    found = []
    for i in range(node.params["carries"]):
        start = inner.inputs[i]
        writes = chain(inner.outputs[i], start)
        if writes:
            late = _late(node, i, writes)
            found += [late] if late is not None else []
    return found


def _late(node: Node, i: int, writes: list[Node]) -> _Late | None:
    """The writes that are to be delayed; None where none must, or none can."""
    inner: Inner = node.params["body"].content
    states = [inner.inputs[i], *(w.outputs[0] for w in writes)]
    read = {k for k, state in enumerate(states[:-1]) if _is_read(state, inner, writes)}
    if len(read) != 1 or _is_tested(node, i):
        return None
    (k,) = read
    delayed = writes[k:]
    if any(_has_no_identity(w) for w in delayed):
        return None
    return _Late(i, states[k], delayed)


def _is_read(state: Value, inner: Inner, writes: Iterable[Node]) -> bool:
    """Whether a state is used, and not only to be written to."""
    own = set(writes)
    for node in inner.nodes:
        used = node.inputs[1:] if node in own else node.inputs
        if state in used:
            return True
    return False


def _is_tested(node: Node, i: int) -> bool:
    if node.primitive is SCAN:
        return False
    test: Inner = node.params["test"].content
    return bool(region_between(test.outputs, [test.inputs[i]]))


def _has_no_identity(write: Node) -> bool:
    """Whether nothing can be written that changes nothing: 1 times inf + 0j has NaN."""
    product = write.params.get("how") == "multiply"
    return product and write.outputs[0].dtype.kind == "c"


class _Delayed:
    """A loop, made anew with late writes."""

    def __init__(self, node: Node, late: list[_Late]) -> None:
        self.node, self.late = node, late
        self.inner: Inner = node.params["body"].content
        self.carries = node.params["carries"]
        split = self.carries + node.params.get("sequences", 0)
        self.first = list(node.inputs[: self.carries])
        self.rows = list(node.inputs[self.carries : split])
        self.rest = list(node.inputs[split:])
        changing = self.inner.inputs[:split]
        region = set(region_between(self.inner.outputs, changing))
        self._changing = {*changing, *(v for n in region for v in n.outputs)}
        # What is carried of each delayed write: its update, and indices that change.
        self.carried = [
            self._carried(w)
            for one in late
            for w in one.writes
            if w.primitive.name != "reshape"
        ]

    def _carried(self, write: Node) -> list[Value]:
        x, v, *indices = write.inputs
        if write.params["how"] != "add":
            v = F.broadcast_to(v, read_where_written(write, x).type.shape)
        return [v, *(i for i in indices if i in self._changing)]
