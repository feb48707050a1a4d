"""The structure of graphs: what decides whether two of them are the same.

A *form* is equal for graphs that are isomorphic, bodies included: the same nodes on the
same operands, in whatever order they were made and whatever their symbols are called.
Sharing, rolling, patterns, `block` and the importers compare graphs by it.
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
    """How a graph is read: all that is written in it counts.

    A subclass leaves out what does not matter for its question.
    """

    def of(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Hashable:
        """The form of a graph."""
        return GraphReading(self, inputs, {}).form(outputs)

    def params(self, node: Node, reading: "GraphReading") -> Hashable:
        """The params of a node within a graph that is read."""
        return tuple([(k, reading.param(p)) for k, p in node.params.items()])

    def type(self, value: Value, reading: "GraphReading") -> Hashable:
        """The type of a value within a graph that is read."""
        return reading.type(value.type)

    def passed_on(self, node: Node) -> Sequence[Value]:
        """The values that the outputs of a node are, if it does nothing to them."""
        return ()

    def literals(self, node: Node) -> Mapping[int, int]:
        """The inputs of a node that count as if they stood in its bodies.

        Each is the place among the inputs of the node, with that among those of its
        bodies.
        """
        return {}

    def opaque(self, content: object) -> Hashable:
        """A content of a param that is no graph."""
        return content


EXACT = Structure()


def kind_of(node: Node) -> tuple[Hashable, ...]:
    """Equal for nodes that do the same to operands of the same types."""
    types = tuple([v.type for v in (*node.inputs, *node.outputs)])
    return node.primitive, params_form(node), types


def params_form(node: Node) -> Hashable:
    """The params of a node, with forms in place of the bodies in them."""
    if not any([type(p) is Opaque for p in node.params.values()]):
        return tuple(node.params.items())
    return tuple([(name, param_form(p)) for name, p in node.params.items()])


def param_form(param: object) -> Hashable:
    """A param, with forms in place of the bodies in it."""
    if type(param) is not Opaque:
        return param
    content = param.content
    bodies = content if isinstance(content, tuple) else (content,)
    if not all([isinstance(body, Body) for body in bodies]):
        return param
    return tuple(map(_form_of, bodies))


_forms: WeakKeyDictionary[Body, Hashable] = WeakKeyDictionary()


def _form_of(body: Body) -> Hashable:
    """The form of a body, which is read once: pass after pass asks for it."""
    form = _forms.get(body)
    if form is None:
        reading = GraphReading(EXACT, body.inputs, {}, body)
        form = _forms[body] = reading.form(body.outputs)
    return form


def with_operands(
    labels: Mapping[Node, int], nodes: Iterable[Node], rounds: int
) -> dict[Node, int]:
    """Labels of nodes that tell also what they take, so many nodes back.

    Nodes that are not among these keep their labels.
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

    Values are numbered where they are first met, and so are symbols, unless they are
    those of values. `literals` are what is known of some inputs of a body.
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
        self._inner: dict[int, Hashable] = {}  # literals of the node that is read
        for symbol in () if body is None else body.size_params:
            self._symbol(symbol)
        for value in inputs:
            if value not in self._literals:
                self._number(value, ("input", len(self._rows), how.type(value, self)))

    def form(self, outputs: Sequence[Value]) -> Hashable:
        """The form of the graph that ends in these."""
        for node in depth_first([v.node for v in outputs], self._operands):
            self._read(node)
        ends = tuple([self._numbers[v] for v in outputs])
        return ends, tuple(self._rows), tuple(self._bounds)

    def _operands(self, node: Node) -> Sequence[Value]:
        """The values that count of those which a node needs."""
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
        """Number the outputs of a node, whose operands are numbered."""
        passed_on = self._how.passed_on(node)
        computation: Hashable = None
        for value in node.outputs:
            if value in self._numbers:  # an input
                continue
            if value in self._literals:
                self._number(value, self._literals[value])
            elif passed_on:
                self._numbers[value] = self._numbers[passed_on[value.index]]
            else:  # what is inside of the node is read once, for all of its outputs
                if computation is None:
                    computation = self._computation(node)
                self._number(value, self._row(value, computation))

    def _row(self, value: Value, computation: Hashable) -> Hashable:
        """A value by the node that computes it."""
        return computation, value.index, self._how.type(value, self)

    def _computation(self, node: Node) -> Hashable:
        """The primitive of a node, its params, and what it takes and requires."""
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
        """A type, its symbols by their numbers."""
        return type.dtype, self._sizes(type.shape), type.weak

    def _sizes(self, sizes: Iterable[object]) -> Hashable:
        return tuple(map(self._size, sizes))

    def _size(self, size: object) -> Hashable:
        return expression(size, self._symbol) if isinstance(size, Dim) else size

    def _symbol(self, symbol: Symbol) -> str:
        """The name of a symbol: that of its value, or of the place where it is met."""
        name = self._symbols.get(symbol)
        if name is None:
            origin: Any = symbol.origin
            number = self._numbers.get(origin, "")
            name = self._symbols[symbol] = f"n{number}_{len(self._symbols)}"
            self._bounds.append((name, symbol.lower, self._size(symbol.upper)))
        return name

    def param(self, param: object) -> Hashable:
        """A param: of another type it is another, and so is 0.0 than -0.0."""
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
