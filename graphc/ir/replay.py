"""Building part of a graph once more on other values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphc.errors import Place, standing_at
from graphc.ir.build import SIZE_OP, as_value
from graphc.ir.dims import Dim, Size, Symbol, substitute, symbol_dim
from graphc.ir.graph import Node, Params, Value, origins
from graphc.ir.op import rebuild
from graphc.ir.rules import RuleTable
from graphc.ir.walk import operands

# The node that does the same where sizes that one asks about have become known.
SETTLING: RuleTable[Callable[[Node], Node]] = RuleTable("settling")


def region_between(outputs: Iterable[Value], inputs: Iterable[Value]) -> list[Node]:
    """The nodes through which `outputs` depend on `inputs`, in topological order.

    Nodes behind which no input stands are not walked through twice, nor are inputs.
    """
    first = set(inputs)
    nodes: dict[Node, None] = {}
    stack = [v.node for v in outputs if v not in first]
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes[node] = None
            stack += [v.node for v in operands(node) if v not in first]
    inside: set[Node] = set()
    for node in sorted(nodes, key=lambda n: n.serial):
        if any(v in first or v.node in inside for v in operands(node)):
            inside.add(node)
    return sorted(inside, key=lambda n: n.serial)


def replayed(
    outputs: Sequence[Value],
    new: Mapping[Value, Value],
    region: Iterable[Node],
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> list[Value]:
    """`outputs`, with the nodes of `region` made anew on the values of `new`.

    `sizes` are those of axes that are others there.
    """
    made = dict(new)
    for node in region:
        fresh = renewed(node, made, node.place.plain, sizes)
        made.update(zip(node.outputs, fresh.outputs, strict=True))
    return [made.get(v, v) for v in outputs]


def renewed(
    node: Node,
    made: Mapping[Value, Value],
    place: Place,
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> Node:
    """A node on the values that stand for its own, made for a line of the user."""
    params = for_sizes(node, made, sizes)
    if node.primitive is SIZE_OP:  # a size that stands for another tells its origins
        if isinstance(params["size"], int):
            return as_value(params["size"]).node
        inputs = origins(params["size"])
    else:
        inputs = [made.get(v, v) for v in node.inputs]
    with standing_at(place):
        fresh = rebuild(node, tuple(inputs), params)
        rule = SETTLING.find(node.primitive)
        return fresh if rule is None else rule(fresh)


def for_sizes(
    node: Node,
    made: Mapping[Value, Value],
    sizes: Mapping[Symbol, Size] = MappingProxyType({}),
) -> Params:
    """The params of a node, where sizes that stand for replaced values are replaced."""
    # A node that does not demand its sizes on the host has them as inputs.
    known = node.demands if node.primitive.demanding else node.inputs
    changed = dict(sizes)
    changed.update((v.symbol, symbol_dim(made[v].symbol)) for v in known if v in made)
    if not changed:
        return node.params
    return resized(node.params, lambda size: substitute(size, changed))


def resized(params: Params, resize: Callable[[Size], Size]) -> dict[str, Any]:
    """Params with `resize` of the sizes in them."""

    def one(param: Any) -> Any:
        if isinstance(param, tuple):
            return tuple(map(one, param))
        return resize(param) if isinstance(param, Dim) else param

    return {name: one(param) for name, param in params.items()}
