"""Group compiled nodes into segments: split by varying sizes, merge by cost."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from graphc.analysis.cost import CPU, HANDED
from graphc.control.call import CALL
from graphc.ir.graph.bodies import bodies_of
from graphc.ir.graph.build import SIZE_OP
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.sizes.dims import Size, Symbol, symbols_in
from graphc.ops.effects.capacities import is_capacity
from graphc.transform.printed_sizes import Keys, printed_symbols

Operands = Callable[[Node], Iterable[Node]]


@dataclass(frozen=True)
class CostModel:
    """The savings and costs of a split, in units of the compilation of one node.

    `base` is the cost of a further segment beyond its nodes: the fixed part of a
    compilation and the dispatches of its calls, which depends on the device. `handed`
    is the cost of a value that one segment hands to another, over a thousand calls.
    Axes and capacities are expected to take few sizes, an integer argument many: beside
    an integer, axes and capacities count for nothing. A program that `adapts` soon
    becomes one for many sizes; until then, a size that is read from an array is another
    one in each call, and whatever else varies makes few more of them.
    """

    base: float = CPU.segment
    handed: float = 1000 * HANDED / CPU.compiled
    axis_sizes: float = 1.25
    value_sizes: float = 8.0
    window: int = 8  # the number of latest parts to try for a merge
    adapts: bool = False

    def variants(self, keys: Keys) -> float:
        """The number of combinations of sizes to expect of these symbols."""
        values = [symbol for symbol in keys if not _is_axis_or_capacity(symbol)]
        if not values:
            return self.axis_sizes ** min(len(keys), 8)
        arguments = sum(not (self.adapts and _is_read(symbol)) for symbol in values)
        of_arguments = self.value_sizes ** min(arguments, 8)
        if arguments == len(values):
            return of_arguments
        of_calls = self.value_sizes * self.axis_sizes ** min(len(values) - 1, 8)
        return max(of_arguments, of_calls)

    def cost(self, weight: float, keys: Keys) -> float:
        """The expected compilation cost of one segment over its life."""
        return self.variants(keys) * (self.base + weight)


UNDIVIDED = CostModel(axis_sizes=1.0, value_sizes=1.0)  # no split for sizes pays


def _is_axis_or_capacity(symbol: Symbol) -> bool:
    """Whether a symbol is an axis or a capacity."""
    return symbol.origin is None or is_capacity(symbol)


def _is_read(symbol: Symbol) -> bool:
    """Whether a symbol is a number that is computed from an array."""
    origin = symbol.origin
    return isinstance(origin, Value) and any(v.type.rank for v in origin.node.inputs)


@dataclass(eq=False)
class Part:
    """Nodes that will be compiled together, in topological order."""

    level: int
    keys: Keys
    nodes: list[Node] = field(default_factory=list)
    weight: float = 0.0

    def merge_cost(self, other: "Part", handed: int, model: CostModel) -> float:
        """The increase in expected cost by merging; negative where it saves.

        `handed` is the number of values that this part hands to the other if they stay
        two.
        """
        together = model.cost(self.weight + other.weight, self.keys | other.keys)
        apart = model.cost(self.weight, self.keys) + handed * model.handed
        return together - apart - model.cost(other.weight, other.keys)

    def add(self, node: Node) -> None:
        """Add a node whose operands are in."""
        self.nodes.append(node)
        self.weight += compile_weight(node)

    def absorb(self, other: "Part") -> None:
        """Take over the nodes of `other`."""
        self.keys |= other.keys
        self.nodes += other.nodes
        self.weight += other.weight


def compile_weight(node: Node) -> float:
    """The weight of a node in a compilation: scalars vanish in their users.

    XLA compiles the call of a shared function as if its nodes stood there, and the body
    of a loop once.
    """
    if not node.primitive.may_have_bodies:  # as most
        return _weight_of_node(node)
    inside = sum(compile_weight(one) for body in bodies_of(node) for one in body.nodes)
    return inside if node.primitive is CALL else inside + _weight_of_node(node)


def _weight_of_node(node: Node) -> float:
    for value in (*node.outputs, *node.inputs):
        if value.type.shape:
            return 1.0
    return 0.1


def varying_symbols(node: Node) -> Keys:
    """The symbols whose values a compilation of this node depends on."""
    return VaryingSymbols().keys(node)


class VaryingSymbols:
    """The symbols whose values the compilation of nodes depends on.

    Most nodes of a graph have the same shapes as other nodes, so they share one object
    of keys, which saves a set for each node, and compares quickly.
    """

    def __init__(self) -> None:
        self._of_shapes: dict[tuple[tuple[Size, ...], ...], Keys] = {}

    def keys(self, node: Node) -> Keys:
        """The symbols of one node."""
        if node.primitive is SIZE_OP:
            return frozenset(s for s in printed_symbols(node) if s.origin is None)
        shapes = tuple([v.type.shape for v in (*node.inputs, *node.outputs)])
        in_shapes = self._of_shapes.get(shapes)
        if in_shapes is None:
            in_shapes = frozenset(s for n in chain(*shapes) for s in symbols_in(n))
            self._of_shapes[shapes] = in_shapes
        has_text = node.params or node.guards
        return printed_symbols(node) | in_shapes if has_text else in_shapes


def split_by_keys(
    keys: dict[Node, Keys], levels: dict[Node, int], operands: Operands
) -> list[list[Part]]:
    """Group nodes of the same level and keys into parts, as waves: no edge points back.

    `keys` holds the nodes to group, in topological order. Within a level, a node whose
    keys differ from an operand's opens a later wave.
    """
    wave: dict[Node, int] = {}
    waves: dict[tuple[int, int], dict[Keys, Part]] = {}
    for node, node_keys in keys.items():
        level, at = levels[node], 0
        for operand in operands(node):
            others = keys.get(operand)
            if others is not None and levels[operand] == level:
                differs = others is not node_keys and others != node_keys
                at = max(at, wave[operand] + differs)
        wave[node] = at
        parts = waves.get((level, at))
        if parts is None:
            parts = waves[level, at] = {}
        if node_keys not in parts:
            parts[node_keys] = Part(level, node_keys)
        parts[node_keys].add(node)
    return [list(waves[at].values()) for at in sorted(waves)]


def merge_parts(
    waves: Iterable[Iterable[Part]], operands: Operands, model: CostModel
) -> list[Part]:
    """Merge parts where that saves; the result is in the order of execution.

    A part may join any part of its level that comes no earlier than its operands:
    every edge then points forward in the list, so there are no cycles.
    """
    merged: list[Part] = []
    place: dict[Node, int] = {}
    latest: dict[tuple[int, Keys], int] = {}
    for part in (p for wave in waves for p in wave):
        sources = {o for node in part.nodes for o in operands(node) if o in place}
        handed = Counter(place[source] for source in sources)
        earliest = max(handed, default=0)
        same_keys = latest.get((part.level, part.keys), -1)
        at = _best_part(part, merged, same_keys, earliest, handed, model)
        if at == len(merged):
            merged.append(Part(part.level, part.keys))
        merged[at].absorb(part)
        latest[part.level, merged[at].keys] = at
        place |= dict.fromkeys(part.nodes, at)
    for part in merged:
        part.nodes.sort(key=attrgetter("serial"))
    return merged


def _best_part(
    part: Part,
    merged: list[Part],
    same_keys: int,
    earliest: int,
    handed: Mapping[int, int],
    model: CostModel,
) -> int:
    """The index of the part in `merged` to join; len(merged) for a new part.

    `handed` says how many values each merged part hands to this one.
    """
    if same_keys >= earliest and merged[same_keys].keys == part.keys:
        return same_keys
    best, best_cost = len(merged), 0.0
    for at in range(max(earliest, len(merged) - model.window), len(merged)):
        if merged[at].level == part.level:
            cost = merged[at].merge_cost(part, handed.get(at, 0), model)
            if cost <= best_cost:
                best, best_cost = at, cost
    return best
