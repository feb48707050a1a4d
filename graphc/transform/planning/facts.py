"""Facts about the nodes of a graph, collected before they are grouped into segments."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from graphc.analysis.binding_time import Time, binding_times
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import INPUT, SIZE_OP
from graphc.ir.graph.nodes import Graph, Node, Value, sizes_needed
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.walk import ancestors, depth_first
from graphc.ir.params.exactness import MOST, MOST_PADDED
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, Symbol
from graphc.ir.sizes.polynomials import polynomial
from graphc.ir.types import is_float, is_integer
from graphc.ops.effects.assertions import ASSERT
from graphc.transform.planning.derived_sizes import derived_sizes
from graphc.transform.planning.plan import Check
from graphc.transform.printed_sizes import Keys


@dataclass(frozen=True)
class NodeFacts:
    """The facts about the nodes of a graph before they are grouped."""

    graph: Graph
    aliases: dict[Value, Value]
    checks: tuple[Check, ...]
    times: dict[Node, Time]
    compiled: tuple[Node, ...]
    demanded: tuple[Value, ...]  # numbers that the host needs, mostly sizes
    rounded: frozenset[Value]  # numbers that the host alone computes

    def is_early(self, value: Value) -> bool:
        """Whether a value is a number that only the host computes, before segments."""
        return _is_early(value, self.times) or value in self.rounded

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
        if not any([p.driven or p.may_have_bodies for p in primitives]):
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
        """The operands of each node that are not free, also those behind free ones."""
        is_held = self.free.isdisjoint
        return {
            node: operands if is_held(operands) else self._held_behind(operands)
            for node, operands in self.operands.items()
        }

    def _held_behind(self, operands: list[Node]) -> list[Node]:
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
        """The position of each node in this program; others may share older nodes."""

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


def is_free(node: Node) -> bool:
    """Whether a node is cloned wherever it is used, and never crosses segments.

    These are literals, sizes as numbers, and arrays filled from such numbers. A node
    that uses a literal array is not free: a draw from a constant key happens once.
    """
    primitive = node.primitive
    if primitive.inline:
        return True
    for value in node.inputs:
        producer = value.node
        if value.type.shape or producer.inputs or not producer.primitive.inline:
            return False
    return primitive is not INPUT and primitive in EMISSION["jax"]


def _check_of(node: Node) -> Check:
    message, error = node.params["message"].content, node.params["error"].content
    return Check(node.inputs[1], message, node.params["kind"], error, node.place)


def facts_of(graph: Graph, lengths: Iterable[Value]) -> NodeFacts:
    """Collect the facts about a graph; its inputs `lengths` are sizes of arguments."""
    first: dict[Value, Check] = {}  # by condition: the first check, which would fail
    aliases: dict[Value, Value] = {}
    nodes: Sequence[Node] = graph.nodes
    for node in nodes if any([p.passes_on for p in graph.primitives]) else ():
        if node.primitive.passes_on:
            for output, x in zip(node.outputs, node.inputs, strict=False):
                aliases[output] = aliases.get(x, x)
        if node.primitive is ASSERT:
            first.setdefault(node.inputs[1], _check_of(node))
    checks = tuple(first.values())
    if checks:
        nodes = ancestors([*graph.outputs, *(c.condition for c in checks)])
    times = binding_times(nodes)
    rounded = _find_rounded(nodes, times, {v.node for v in lengths})
    compiled, demanded = _find_needed(graph, aliases, checks, times, rounded)
    return NodeFacts(graph, aliases, checks, times, compiled, demanded, rounded)


def _find_rounded(
    nodes: Iterable[Node], times: dict[Node, Time], lengths: Container[Node]
) -> frozenset[Value]:
    """The numbers made by rounding or comparing floats that depend on sizes alone.

    Libraries differ in the last bit of a logarithm, and so in the number it is rounded
    to. A size must be the same number everywhere, in programs and on the host, so NumPy
    computes it. A size that has been made an array, as JAX makes one of each, is left
    to the program.

    Powers and shifts of Python integers, and numbers computed from these up to a float,
    are left to Python too: they soon have more than 64 bits.
    """
    of_sizes: set[Node] = set()
    rounded: set[Value] = set()
    long: set[Value] = set()  # integers that may have more than 64 bits
    for node in nodes:
        if times[node] is Time.DATA:
            continue
        if node.primitive is INPUT:
            is_known = node in lengths
        else:
            is_known = of_sizes.issuperset([v.node for v in node.inputs])
        if not is_known or _makes_array(node):
            continue
        of_sizes.add(node)
        if times[node] is Time.BUILD:
            continue
        is_long = _gives_long_integer(node) or not long.isdisjoint(node.inputs)
        if is_long:
            long.update([v for v in node.outputs if _is_integer_of_python(v)])
        if is_long or _rounds(node):
            rounded.update(node.outputs)
    return frozenset(rounded)


def _gives_long_integer(node: Node) -> bool:
    """Whether a node gives or takes a Python integer of far more bits than sizes."""
    if node.primitive is OP.convert:
        number, output = node.inputs[0].node, node.outputs[0]
        of_size = number.primitive is SIZE_OP and _is_float(output)
        return of_size and _may_be_long(number.params["size"])
    is_power = node.primitive is OP.power or node.primitive is OP.left_shift
    return is_power and _is_integer_of_python(node.outputs[0])


def _may_be_long(size: Size) -> bool:
    """Whether a formula of sizes may have more than 62 bits.

    Different sizes that are multiplied are mostly the axes of one array, which has at
    most `MOST` elements.
    """
    for monomial, factor in polynomial(size).items():
        is_of_axes = len(set(monomial)) == len(monomial)
        most = MOST if is_of_axes else MOST_PADDED ** len(monomial)
        if abs(factor) * most > 2**62:
            return True
    return False


def _is_integer_of_python(value: Value) -> bool:
    return value.type.weak and not value.type.rank and is_integer(value.dtype)


def _makes_array(node: Node) -> bool:
    """Whether a node turns a Python integer into an array of integers."""
    (x, *_), (output, *_) = node.inputs or node.outputs, node.outputs
    is_strong = is_integer(output.dtype) and not output.type.weak
    return is_strong and x.type.weak and is_integer(x.dtype)


def _rounds(node: Node) -> bool:
    """Whether a node turns a float into a scalar that jumps where its input doesn't."""
    if any(v.type.rank for v in node.outputs):
        return False
    jumps = node.primitive.jumps or not any(map(_is_float, node.outputs))
    return jumps and any(map(_is_float, node.inputs))


def _is_float(value: Value) -> bool:
    return is_float(value.dtype)


def _is_early(value: Value, times: dict[Node, Time]) -> bool:
    """Whether only the host can compute an integer, from arguments alone."""
    node = value.node
    if node.primitive is INPUT or node.primitive in EMISSION["jax"]:
        return False
    number = not value.type.rank and is_integer(value.dtype)
    return number and times[node] is not Time.DATA


def _find_needed(
    graph: Graph,
    aliases: dict[Value, Value],
    checks: Iterable[Check],
    times: dict[Node, Time],
    rounded: Container[Value],
) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
    """The nodes that run on the device, and the sizes that they need on the host."""
    roots = [aliases.get(v, v) for v in graph.outputs]
    roots += [c.condition for c in checks if times[c.condition.node] is Time.DATA]
    stack = [v.node for v in roots]
    seen: set[Node] = set()
    requested_sizes: dict[Value, None] = {}
    data = Time.DATA
    while stack:
        node = stack.pop()
        if node in seen or node.primitive is INPUT:
            continue
        seen.add(node)
        for value in sizes_needed(node) if node.demands or node.guards else ():
            size = aliases.get(value, value)
            requested_sizes.setdefault(size)
            if times[size.node] is data:
                stack.append(size.node)
        for value in node.inputs:
            value = aliases.get(value, value) if aliases else value
            if value in rounded or _is_early(value, times):
                requested_sizes.setdefault(value)
            elif value.node not in seen:
                stack.append(value.node)
    return tuple(sorted(seen, key=attrgetter("serial"))), tuple(requested_sizes)
