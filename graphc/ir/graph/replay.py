"""Rebuild parts of a graph on other values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.build import SIZE_OP, as_value
from graphc.ir.graph.interning import intern_node
from graphc.ir.graph.nodes import Graph, Node, Params, Value, entries_of, origins
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.params.kinds import is_record
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute, symbol_dim, symbols_in

Replaced = tuple[Graph, list[tuple[Value, Value]]]  # pairs of an old and a new value
# Rules that give a node with the same result once the sizes that a node asks for are
# known.
SETTLING: RuleTable[Callable[[Node], Node]] = RuleTable("settling")


def region_between(
    outputs: Iterable[Value], inputs: Iterable[Value], roots: Iterable[Node] = ()
) -> list[Node]:
    """The nodes through which `outputs` depend on `inputs`, in topological order.

    The walk ends at inputs, and at nodes that are older than all inputs and roots.
    Nodes of `roots` count as nodes that read an input. Without inputs and roots, the
    region is empty.
    """
    first, inside = set(inputs), set(roots)
    if not (first or inside):
        return []
    serials = [v.node.serial for v in first] + [n.serial - 1 for n in inside]
    oldest = min(serials)
    nodes: dict[Node, None] = {}
    stack = [v.node for v in outputs if v not in first]
    while stack:
        node = stack.pop()
        if node.serial > oldest and node not in nodes:
            nodes[node] = None
            stack += [v.node for v in operands(node) if v not in first]
    for node in sorted(nodes, key=lambda n: n.serial):
        if any(v in first or v.node in inside for v in operands(node)):
            inside.add(node)
    return sorted(inside & nodes.keys(), key=lambda n: n.serial)


def replayed(
    outputs: Sequence[Value],
    new: Mapping[Value, Value],
    region: Iterable[Node],
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> list[Value]:
    """Rebuild `outputs`, with the nodes of `region` on the values of `new`.

    `sizes` replaces symbols of axes.
    """
    replacements = dict(new)
    for node in region:
        fresh = renewed(node, replacements, node.place.plain, sizes)
        for old, value in zip(node.outputs, fresh.outputs, strict=True):
            replacements.setdefault(old, value)
    return [replacements.get(v, v) for v in outputs]


def rebuilt(outputs: Sequence[Value], new: Mapping[Value, Value]) -> list[Value]:
    """Rebuild `outputs` with each key of `new` replaced by its value."""
    return replayed(outputs, new, region_between(outputs, new))


def substituted(
    outputs: Sequence[Value], new: Mapping[Value, Value], sizes: Mapping[Symbol, Size]
) -> list[Value]:
    """Rebuild `outputs` with values and sizes substituted.

    Nodes that have such a size are rebuilt even if they depend on no replaced value.
    """
    return replayed(outputs, new, region_substituted(outputs, new, sizes), sizes)


def region_substituted(
    outputs: Sequence[Value], new: Mapping[Value, Value], sizes: Mapping[Symbol, Size]
) -> list[Node]:
    """The nodes that change with the values and sizes, in topological order."""

    def edges(node: Node) -> list[Value]:
        return [v for v in operands(node) if v not in new]

    region: dict[Node, None] = {}
    for node in ancestors([v for v in outputs if v not in new], edges):
        depends = any(v in new or v.node in region for v in operands(node))
        if depends or not sizes.keys().isdisjoint(symbols_needed(node)):
            region[node] = None
    return list(region)


def symbols_needed(node: Node) -> list[Symbol]:
    """The symbols whose sizes must be known when the node is compiled."""
    symbols = symbols_of(node)
    if node.primitive.demanding:
        return symbols
    return [s for s in symbols if s.origin is None]


def symbols_of(node: Node) -> list[Symbol]:
    """The symbols of the types, params and guards of a node."""
    sizes: list[object] = [n for v in node.outputs for n in v.type.shape]
    sizes += entries_of(node.params)
    for guard in node.guards:
        sizes += [guard.left, guard.right]
    return [s for n in sizes for s in symbols_in(n)]


def copied(
    outputs: Sequence[Value], new: Mapping[Value, Value], region: Iterable[Node]
) -> list[Value]:
    """Rebuild `outputs` on values that have the types of the values they replace.

    No rules of primitives are run, so no node of `region`, which is in topological
    order, may compute integers that are known as sizes.
    """
    replacements = dict(new)
    for node in region:
        inputs = tuple([replacements.get(v, v) for v in node.inputs])
        types = tuple([v.type for v in node.outputs])
        with standing_at(node.place):
            fresh = intern_node(
                node.primitive, inputs, dict(node.params), types, node.guards
            )
        replacements.update(zip(node.outputs, fresh.outputs, strict=True))
    return [replacements.get(v, v) for v in outputs]


def renewed(
    node: Node,
    replacements: Mapping[Value, Value],
    place: SourceLocation,
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> Node:
    """Rebuild a node on replaced operands, for the user's line `place`."""
    params = params_with_sizes(node, replacements, sizes)
    if node.primitive is SIZE_OP:  # replaced symbols change the origins of a size
        if isinstance(params["size"], int):
            return as_value(params["size"]).node
        inputs = origins(params["size"])
    else:
        inputs = [replacements.get(v, v) for v in node.inputs]
    with standing_at(place):
        fresh = rebuild(node, tuple(inputs), params)
        rule = SETTLING.find(node.primitive)
        return fresh if rule is None else rule(fresh)


def rebuild_with(
    node: Node, replacements: dict[Value, Value], place: SourceLocation
) -> Node:
    """Rebuild a node on replaced operands, and add its outputs to `replacements`.

    Returns the node itself where no operand is replaced.
    """
    if not any(v in replacements for v in operands(node)):
        return node
    fresh = renewed(node, replacements, place)
    replacements.update(zip(node.outputs, fresh.outputs, strict=True))
    return fresh


def change_nodes(
    outputs: Sequence[Value],
    change: Callable[[Node, SourceLocation], Sequence[Value]],
) -> tuple[list[Value], dict[Value, Value]]:
    """Change the nodes that outputs depend on, taken in order.

    `change` is given each node, rebuilt on replaced operands, and the node's place. It
    returns the values that replace the outputs of the node. The result is the new
    outputs, then the replacements of all values that changed.
    """
    replacements: dict[Value, Value] = {}
    for node in ancestors(outputs):
        new = rebuild_with(node, replacements, node.place)
        changed = change(new, node.place)
        if changed is not new.outputs:
            replacements.update(zip(node.outputs, changed, strict=True))
    return [replacements.get(v, v) for v in outputs], replacements


def params_with_sizes(
    node: Node,
    replacements: Mapping[Value, Value],
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> Params:
    """The params of a node, with the sizes of replaced values replaced."""
    # A node that does not demand sizes on the host has them among its inputs.
    known = node.demands if node.primitive.demanding else node.inputs
    changed: dict[Symbol, Size] = {}
    changed.update(
        (v.symbol, _size_of(replacements[v])) for v in known if v in replacements
    )
    changed.update(sizes)
    if not changed:
        return node.params
    return resized(node.params, lambda size: substitute(size, changed))


def _size_of(integer: Value) -> Size:
    """The size that an integer stands for: a number if constant, else its symbol."""
    number = None if integer.sizes is None else integer.sizes[()]
    return number if isinstance(number, int) else symbol_dim(integer.symbol)


def resized(params: Params, resize: Callable[[Size], Size]) -> dict[str, object]:
    """Apply `resize` to the sizes in params."""

    def one(param: object) -> Any:
        if isinstance(param, tuple):
            items = map(one, param)
            return type(param)(*items) if is_record(param) else tuple(items)
        return resize(param) if isinstance(param, Dim) else param

    return {name: one(param) for name, param in params.items()}
