"""Facts about the nodes of a graph before they are grouped into segments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from graphc.analysis.binding_time import Time, binding_times
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Graph, Node, Value, origins
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.walk import ancestors, depth_first
from graphc.ir.sizes.dims import Symbol
from graphc.ir.types import is_integer
from graphc.ops.effects.assertions import ASSERT
from graphc.transform.planning.derived import derived_sizes
from graphc.transform.planning.plan import Check
from graphc.transform.printed_sizes import Keys


@dataclass(frozen=True)
class NodeFacts:
    """The facts about the nodes before they are grouped."""

    graph: Graph
    aliases: dict[Value, Value]
    checks: tuple[Check, ...]
    times: dict[Node, Time]
    compiled: tuple[Node, ...]
    demanded: tuple[Value, ...]  # sizes

    def resolve(self, value: Value) -> Value:
        """The value that is computed for `value`."""
        return self.aliases.get(value, value)

    @cached_property
    def derived(self) -> dict[Symbol, Keys]:
        """The sizes that segments work out from their axes when they are traced."""
        return derived_sizes(self.demanded, self.times, self.compiled)

    @cached_property
    def free(self) -> set[Node]:
        """The nodes that are cloned wherever they are used."""
        return {node for node in self.compiled if is_free(node)}

    @cached_property
    def driven(self) -> set[Node]:
        """The loops that the driver runs itself: step by step, or in pieces."""
        primitives = {node.primitive for node in self.compiled}
        if not any([p.driven or p.nests for p in primitives]):
            return set()
        return {n for n in self.compiled if n.primitive.driven or runs_in_python(n)}

    @cached_property
    def operands(self) -> dict[Node, list[Node]]:
        """The nodes that each node uses."""
        real = self.aliases
        if not real:
            return {n: [v.node for v in n.inputs] for n in self.compiled}
        return {n: [real.get(v, v).node for v in n.inputs] for n in self.compiled}

    @cached_property
    def held_operands(self) -> dict[Node, list[Node]]:
        """The operands that are not free, also those of free operands."""
        is_held = self.free.isdisjoint
        return {
            node: operands if is_held(operands) else self._held(operands)
            for node, operands in self.operands.items()
        }

    def _held(self, operands: list[Node]) -> list[Node]:
        held, stack = [], list(operands)
        while stack:
            operand = stack.pop()
            if operand in self.free:
                stack += self.operands[operand]
            else:
                held.append(operand)
        return held

    @cached_property
    def places(self) -> dict[Node, int]:
        """Where each node stands in this program; others may share older ones."""

        def needed(node: Node) -> list[Value]:
            return [self.resolve(v) for v in (*node.inputs, *sizes_needed(node))]

        roots = [self.resolve(v).node for v in self.graph.outputs]
        roots += [c.condition.node for c in self.checks]
        return {n: i for i, n in enumerate(depth_first(roots, needed))}

    def is_data(self, value: Value) -> bool:
        """Whether a value is computed on the device."""
        return self.times[value.node] is Time.DATA

    def device_sizes(self, node: Node) -> list[Value]:
        """The sizes of a node that are computed on the device."""
        if not node.demands and not node.guards:
            return []
        return [self.resolve(v) for v in sizes_needed(node) if self.is_data(v)]


def sizes_needed(node: Node) -> list[Value]:
    """The values that must be integers on the host to compile `node`."""
    needed = list(node.demands)
    for guard in node.guards:
        needed += origins(guard.left) + origins(guard.right)
    return needed


def is_free(node: Node) -> bool:
    """Whether a node is cloned wherever it is used, and never crosses segments.

    These are literals, sizes as numbers, and arrays filled from such numbers. Users of
    a literal array are not: a draw from a constant key is drawn once.
    """
    primitive = node.primitive
    if primitive.inline:
        return True
    for value in node.inputs:
        producer = value.node
        if value.type.shape or producer.inputs or not producer.primitive.inline:
            return False
    return primitive is not INPUT and primitive in EMISSION["jax"]


def _check(node: Node) -> Check:
    message, error = node.params["message"].content, node.params["error"].content
    return Check(node.inputs[1], message, node.params["kind"], error, node.place)


def facts_of(graph: Graph) -> NodeFacts:
    """The facts about a graph."""
    first: dict[Value, Check] = {}  # of each condition: the one that fails
    aliases: dict[Value, Value] = {}
    nodes: Sequence[Node] = graph.nodes
    for node in nodes if any([p.passes_on for p in graph.primitives]) else ():
        if node.primitive.passes_on:
            for output, x in zip(node.outputs, node.inputs, strict=False):
                aliases[output] = aliases.get(x, x)
        if node.primitive is ASSERT:
            first.setdefault(node.inputs[1], _check(node))
    checks = tuple(first.values())
    if checks:
        nodes = ancestors([*graph.outputs, *(c.condition for c in checks)])
    times = binding_times(nodes)
    compiled, demanded = _needed(graph, aliases, checks, times)
    return NodeFacts(graph, aliases, checks, times, compiled, demanded)


def is_early(value: Value, times: dict[Node, Time]) -> bool:
    """Whether it is an integer that only the host computes, from arguments alone."""
    node = value.node
    if node.primitive is INPUT or node.primitive in EMISSION["jax"]:
        return False
    number = not value.type.rank and is_integer(value.dtype)
    return number and times[node] is not Time.DATA


def _needed(
    graph: Graph,
    aliases: dict[Value, Value],
    checks: Iterable[Check],
    times: dict[Node, Time],
) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
    """The nodes that run on the device, and the sizes that they need on the host."""
    roots = [aliases.get(v, v) for v in graph.outputs]
    roots += [c.condition for c in checks if times[c.condition.node] is Time.DATA]
    stack = [v.node for v in roots]
    seen: set[Node] = set()
    asked: dict[Value, None] = {}
    data = Time.DATA
    while stack:
        node = stack.pop()
        if node in seen or node.primitive is INPUT:
            continue
        seen.add(node)
        for value in sizes_needed(node) if node.demands or node.guards else ():
            size = aliases.get(value, value)
            asked.setdefault(size)
            if times[size.node] is data:
                stack.append(size.node)
        for value in node.inputs:
            value = aliases.get(value, value) if aliases else value
            if times[value.node] is not data and is_early(value, times):
                asked.setdefault(value)
            elif value.node not in seen:
                stack.append(value.node)
    return tuple(sorted(seen, key=attrgetter("serial"))), tuple(asked)
