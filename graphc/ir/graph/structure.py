"""The structure of graphs, which decides whether two of them are the same.

Isomorphic graphs, bodies included, have equal *forms*: the same nodes on the same
operands, in whatever order they were made and whatever their symbols are called.
Sharing, rolling, patterns, `block` and the importers compare graphs by their forms.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.walk import depth_first, operands
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.text import expression
from graphc.ir.types import TensorType


class Structure:
    """A way to read graphs, in which everything written in a graph counts.

    Subclasses leave out what does not matter for their question.
    """

    def of(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Hashable:
        """Return the form of a graph."""
        return GraphReading(self, inputs, {}).form(outputs)

    def params(self, node: Node, reading: "GraphReading") -> Hashable:
        """The form of a node's params, within a graph that is being read."""
        return tuple([(k, reading.param(p)) for k, p in node.params.items()])

    def type(self, value: Value, reading: "GraphReading") -> Hashable:
        """The form of a value's type, within a graph that is being read."""
        return reading.type(value.type)

    def passed_on(self, node: Node) -> Sequence[Value]:
        """The values that a node passes on as its outputs; empty for most nodes."""
        return ()

    def literals(self, node: Node) -> Mapping[int, int]:
        """The inputs of a node that count as if they were literals in its bodies.

        Maps the position of each among the node's inputs to its position among the
        inputs of the bodies.
        """
        return {}

    def opaque(self, content: object) -> Hashable:
        """The form of the content of a param that is not a graph."""
        return content


EXACT = Structure()


def kind_of(node: Node) -> tuple[Hashable, ...]:
    """A key that is equal for nodes that do the same to operands of the same types."""
    types = tuple([v.type for v in (*node.inputs, *node.outputs)])
    return node.primitive, params_form(node), types


def params_form(node: Node) -> Hashable:
    """The params of a node, with bodies replaced by their forms."""
    if not any([type(p) is Opaque for p in node.params.values()]):
        return tuple(node.params.items())
    return tuple([(name, param_form(p)) for name, p in node.params.items()])


def param_form(param: object) -> Hashable:
    """A param, with bodies replaced by their forms."""
    if type(param) is not Opaque:
        return param
    content = param.content
    bodies = content if isinstance(content, tuple) else (content,)
    if not all([isinstance(body, Body) for body in bodies]):
        return param
    return tuple(map(_form_of, bodies))


_forms: WeakKeyDictionary[Body, Hashable] = WeakKeyDictionary()


def _form_of(body: Body) -> Hashable:
    """The form of a body, kept because pass after pass asks for it."""
    form = _forms.get(body)
    if form is None:
        reading = GraphReading(EXACT, body.inputs, {}, body)
        form = _forms[body] = reading.form(body.outputs)
    return form


def with_operands(
    labels: Mapping[Node, int], nodes: Iterable[Node], rounds: int
) -> dict[Node, int]:
    """Extend the labels of nodes by those of their operands, `rounds` nodes back.

    Nodes that are not in `nodes` keep their labels.
    """
    known, nodes = dict(labels), list(nodes)
    for _ in range(rounds):
        known |= {
            n: hash((known[n], *[(known[v.node], v.index) for v in n.inputs]))
            for n in nodes
        }
    return known


class GraphReading:
    """The walk over one graph.

    Values are numbered where they are first met. So are symbols, except those that
    stand for values. `literals` are the known forms of some inputs of a body.
    """

    def __init__(
        self,
        how: Structure,
        inputs: Sequence[Value],
        literals: Mapping[int, Hashable],
        body: Body | None = None,
    ) -> None:
        self._how = how
        self._literals: dict[Value, Hashable] = {
            inputs[i]: literal for i, literal in literals.items()
        }
        self._symbols: dict[Symbol, str] = {}
        self._bounds: list[Hashable] = []
        self._numbers: dict[Value, int] = {}
        self._rows: dict[Hashable, int] = {}
        self._inner: dict[int, Hashable] = {}  # literals of the node being read
        for symbol in () if body is None else body.size_params:
            self._symbol(symbol)
        for value in inputs:
            if value not in self._literals:
                self._number(value, ("input", len(self._rows), how.type(value, self)))

    def form(self, outputs: Sequence[Value]) -> Hashable:
        """The form of the graph that ends in `outputs`."""
        for node in depth_first([v.node for v in outputs], self._operands):
            self._read(node)
        ends = tuple([self._numbers[v] for v in outputs])
        return ends, tuple(self._rows), tuple(self._bounds)

    def _operands(self, node: Node) -> Sequence[Value]:
        """The operands of a node that count."""
        passed_on = self._how.passed_on(node)
        if passed_on:
            return passed_on
        literals = self._how.literals(node)
        if not literals:
            return operands(node)
        return [v for i, v in enumerate(operands(node)) if i not in literals]

    def _number(self, value: Value, row: Hashable) -> None:
        self._numbers[value] = self._rows.setdefault(row, len(self._rows))

    def _read(self, node: Node) -> None:
        """Number the outputs of a node whose operands are numbered already."""
        passed_on = self._how.passed_on(node)
        computation: Hashable = None
        for value in node.outputs:
            if value in self._numbers:  # an input
                continue
            if value in self._literals:
                self._number(value, self._literals[value])
            elif passed_on:
                self._numbers[value] = self._numbers[passed_on[value.index]]
            else:  # read the node once, for all of its outputs
                if computation is None:
                    computation = self._computation(node)
                self._number(value, self._row(value, computation))

    def _row(self, value: Value, computation: Hashable) -> Hashable:
        """The form of a value, given that of the node that computes it."""
        return computation, value.index, self._how.type(value, self)

    def _computation(self, node: Node) -> Hashable:
        """The form of a node: its primitive, operands, params and guards."""
        literals = self._how.literals(node)
        self._inner = {at: self._literal(node.inputs[i]) for i, at in literals.items()}
        taken = [v for i, v in enumerate(node.inputs) if i not in literals]
        takes = tuple([self._numbers[v] for v in taken])
        params = self._how.params(node, self)
        guards = self._sizes(n for g in node.guards for n in (g.left, g.right))
        return node.primitive.name, takes, params, guards

    def _literal(self, value: Value) -> Hashable:
        return self._row(value, self._computation(value.node))

    def type(self, type: TensorType) -> Hashable:
        """The form of a type, with symbols by their numbers."""
        return type.dtype, self._sizes(type.shape), type.weak

    def _sizes(self, sizes: Iterable[object]) -> Hashable:
        return tuple(map(self._size, sizes))

    def _size(self, size: object) -> Hashable:
        return expression(size, self._symbol) if isinstance(size, Dim) else size

    def _symbol(self, symbol: Symbol) -> str:
        """The name of a symbol, by its value or the order in which symbols are met."""
        name = self._symbols.get(symbol)
        if name is None:
            origin: Any = symbol.origin
            number = self._numbers.get(origin, "")
            name = self._symbols[symbol] = f"n{number}_{len(self._symbols)}"
            self._bounds.append((name, symbol.lower, self._size(symbol.upper)))
        return name

    def param(self, param: object) -> Hashable:
        """The form of a param; other types differ, and so do 0.0 and -0.0."""
        if isinstance(param, tuple):
            return tuple(map(self.param, param))
        if isinstance(param, Dim):
            return self._size(param)
        if isinstance(param, Opaque):
            return self._content(param.content)
        exact = repr(param) if isinstance(param, float | complex) else param
        return type(param), exact

    def _content(self, content: object) -> Hashable:
        if isinstance(content, tuple):
            return tuple(map(self._content, content))
        if not isinstance(content, Body):
            return self._how.opaque(content)
        if self._how is EXACT and not self._inner:
            return _form_of(content)
        inner = GraphReading(self._how, content.inputs, self._inner, content)
        return inner.form(content.outputs)
