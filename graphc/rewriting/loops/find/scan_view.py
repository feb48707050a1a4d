"""A scan, its parts by name, and graphs in which another scan replaces it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from graphc.errors import standing_at
from graphc.ir.graph.bodies import Body, StepFunction, StepResult
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Graph, Node, Params, Value
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.replay import Replaced, rebuild_with, renewed
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, Symbol
from graphc.ir.types import INT32, same_size

Facts = TypeVar("Facts")
Late = Callable[[Callable[[Value], Value]], Value]


def has_rows(node: Node) -> bool:
    """Whether a node is a scan over slices, perhaps over the first ones only.

    A scan over one slice does not count: its slice looks like a value shared by all
    iterations.
    """
    if node.primitive is not OP.scan or node.params["length"] is None:
        return False
    return not same_size(node.params["length"], 1)


class Loop:
    """A scan node, and its parts by name."""

    def __init__(self, node: Node) -> None:
        params = node.params
        self.node = node
        self.body: Body = params["body"].content
        self.length: Size = params["length"]
        self.reverse: bool = params["reverse"]
        self.carries: int = params["carries"]
        split = self.carries + params["sequences"]
        self.stops: bool = params["stops"]
        end = len(node.inputs) - params["counted"] - self.stops
        self.inits: tuple[Value, ...] = node.inputs[: self.carries]
        self.sequences: tuple[Value, ...] = node.inputs[self.carries : split]
        self.captures: tuple[Value, ...] = node.inputs[split:end]
        self.body_inputs: tuple[Value, ...] = node.inputs[:end]  # the body's inputs
        self.limit: Value | None = node.inputs[end] if params["counted"] else None
        self.going: Value | None = node.inputs[-1] if self.stops else None
        self.rows: tuple[Value, ...] = self.body.inputs[self.carries : split]
        self.final_carries: tuple[Value, ...] = node.outputs[: self.carries]
        self.after_carries: tuple[Value, ...] = node.outputs[self.carries :]
        # With early exit, the trip count comes first.
        self.stacked: tuple[Value, ...] = self.after_carries[self.stops :]

    @property
    def sizes(self) -> dict[Symbol, Size]:
        """The sizes that the scan passes for the symbols of the body."""
        (call,) = self.node.primitive.body_calls(self.node)
        return call.sizes

    def step(self, carry: list[Value], rows: list[Value]) -> StepResult:
        """Compute the carries after a step, and the slices that the step stacks."""
        results = self.body.call(
            [*carry, *rows, *self.captures], self.node.params["sizes"]
        )
        return results[: self.carries], results[self.carries :]

    def rebuild(
        self, step: StepFunction, first: Sequence[Value], rows: Sequence[Value]
    ) -> StepResult:
        """Rebuild the scan with another step; return final carries and other outputs.

        With early exit, the first output of the step says whether to stop.
        """
        params = self.node.params
        with standing_at(self.node.place.plain):
            return F._run_scan(
                step,
                first,
                rows,
                self.length,
                self.reverse,
                count=self.limit,
                going=self.going,
                unroll=params["unroll"],
                replay=params["replay"],
                per_chunk=params["per_chunk"],
            )

    def first_place(self) -> Value:
        """The position of the first step."""
        if self.reverse and self.limit is not None:
            return cast(self.limit - 1, INT32)
        start = size_value(self.length - 1) if self.reverse else 0
        return cast(as_value(start), INT32)

    def next_place(self, place: Value) -> Value:
        """The position of the next step."""
        return F.subtract(place, 1) if self.reverse else F.add(place, 1)


def with_replacements(
    graph: Graph,
    nodes: Iterable[Node],
    replacements: Mapping[Value, Value],
    late: Mapping[Value, Late],
) -> Replaced:
    """Return the graph with values replaced, and the old and new values in `late`.

    The new values in `replacements` do not depend on replaced values. Late ones may:
    each is built in its turn, from the replacements before it.
    """
    new, pairs = dict(replacements), []
    for node in nodes if late else _needed_nodes(graph.outputs, replacements):
        for old in node.outputs:
            if old in late:
                with standing_at(node.place.plain):
                    new[old] = late[old](lambda v: new.get(v, v))
                pairs.append((old, new[old]))
        if all(v in new for v in node.outputs):
            continue
        if any(v in new for v in operands(node)):
            fresh = renewed(node, new, node.place)
            fitting = zip(node.outputs, fresh.outputs, strict=True)
            new.update(pair for pair in fitting if pair[0] not in new)
    return graph.with_outputs([new.get(v, v) for v in graph.outputs]), pairs


def with_params(
    graph: Graph, nodes: Iterable[Node], params: Mapping[Node, Params]
) -> Replaced:
    """Return the graph with other params for some nodes, and the pairs of their values.

    These nodes may depend on each other.
    """
    new: dict[Value, Value] = {}
    pairs: list[tuple[Value, Value]] = []
    for node in nodes:
        fresh = rebuild_with(node, new, node.place)
        if node in params:
            with standing_at(node.place.plain):
                fresh = rebuild(fresh, fresh.inputs, {**fresh.params, **params[node]})
            new.update(zip(node.outputs, fresh.outputs, strict=True))
            pairs += zip(node.outputs, fresh.outputs, strict=True)
    return graph.with_outputs([new.get(v, v) for v in graph.outputs]), pairs


def _needed_nodes(
    outputs: Iterable[Value], replaced: Mapping[Value, Value]
) -> list[Node]:
    """The nodes that outputs still depend on, in topological order."""

    def edges(node: Node) -> list[Value]:
        return [v for v in operands(node) if v not in replaced]

    return ancestors([v for v in outputs if v not in replaced], edges)


def at_each_loop(
    graph: Graph,
    known: Callable[[list[Node], Graph], Facts],
    change: Callable[[Graph, list[Node], Loop, Facts], Replaced | None],
    which: Callable[[Node], bool] = has_rows,
) -> Replaced | None:
    """Apply `change` at each loop of a graph, also at loops that a change makes.

    `change` is given the graph, its nodes, a loop, and the facts that `known` finds in
    the graph before each change. `which` selects the loops to look at. Returns None if
    nothing changes.
    """
    seen: set[Node] = set()
    pairs: list[tuple[Value, Value]] = []
    nodes = ancestors(graph.outputs)
    facts = known(nodes, graph)
    while True:
        for node in nodes:
            if node in seen or not which(node) or not node.outputs:
                continue
            seen.add(node)
            changed = change(graph, nodes, Loop(node), facts)
            if changed is not None:
                break
        else:
            return (graph, pairs) if pairs else None
        graph, more = changed
        pairs += more
        nodes = ancestors(graph.outputs)
        facts = known(nodes, graph)
