"""The structure of bodies: equal for bodies that do the same, on any symbols."""

from collections.abc import Hashable, Iterable
from typing import Any

from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.sizes.dims import Dim, Symbol, expression
from graphc.ir.types import TensorType


def params_structure(node: Node) -> Hashable:
    """The params of a node, with the structure of the bodies in them."""
    if not any(type(p) is Opaque for p in node.params.values()):
        return tuple(node.params.items())
    return tuple([(name, _opened(p)) for name, p in node.params.items()])


def _opened(param: object) -> Hashable:
    content = param.content if type(param) is Opaque else None
    if isinstance(content, Body):
        return structure(content)
    if isinstance(content, tuple) and all(isinstance(c, Body) for c in content):
        return tuple(map(structure, content))
    return param


def structure(body: Body) -> Hashable:
    """Equal for bodies of the same nodes in the same order, on inputs of equal types.

    Symbols count by the order in which they are met, and by their bounds.
    """
    return _Reading(body).found


class _Reading:
    """The walk over one body."""

    def __init__(self, body: Body) -> None:
        self._symbols: dict[Symbol, str] = {}
        self._values: dict[Value, int] = {}
        params = tuple(map(self._symbol, body.size_params))
        inputs = tuple([self._made(v) for v in body.inputs])
        nodes = tuple([self._node(node) for node in body.nodes])
        outputs = tuple([self._values[v] for v in body.outputs])
        self.found: Hashable = (params, inputs, nodes, outputs)

    def _node(self, node: Node) -> Hashable:
        takes = tuple([self._values[v] for v in node.inputs])
        params = tuple([(k, self._param(p)) for k, p in node.params.items()])
        guards = tuple([self._size(n) for g in node.guards for n in (g.left, g.right)])
        outputs = tuple([self._made(v) for v in node.outputs])
        return node.primitive, takes, params, guards, outputs

    def _made(self, value: Value) -> Hashable:
        self._values[value] = len(self._values)
        return self._type(value.type)

    def _type(self, type: TensorType) -> Hashable:
        return type.dtype, self._sizes(type.shape), type.weak

    def _sizes(self, sizes: Iterable[object]) -> Hashable:
        return tuple(map(self._size, sizes))

    def _size(self, size: Any) -> Hashable:
        return expression(size, self._symbol) if isinstance(size, Dim) else size

    def _symbol(self, symbol: Symbol) -> str:
        name = self._symbols.get(symbol)
        if name is None:
            upper = "" if symbol.upper is None else str(symbol.upper)
            name = f"s{len(self._symbols)}_{symbol.lower}_{upper}"
            self._symbols[symbol] = name
        return name

    def _param(self, param: object) -> Hashable:
        if isinstance(param, tuple):
            return tuple(map(self._param, param))
        return self._size(param) if isinstance(param, Dim) else _opened(param)
