"""The reader of graphs as text: the inverse of `graphc.ir.text.printer`.

A text may come from anywhere: it is data, and no part of it is ever run. A text that is
not exactly a graph raises GraphError with the line.
"""

from collections.abc import Sequence
from typing import Any

from graphc.errors import GraphError, SourceLocation, graph_error, label
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.build import (
    SIZE_OP,
    body_input,
    set_lower_bound,
    size_value,
    variable,
)
from graphc.ir.graph.nodes import SERIALS, Graph, Node, Params, Value
from graphc.ir.graph.op import PRIMITIVES, Opaque, Primitive
from graphc.ir.graph.verify import verify_closed
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.text.param_reader import ParamReader, Scope
from graphc.ir.types import TensorType, is_integer

WITH_BODIES = "scan", "switch"  # other ops with bodies only come from rewriting


def parse_graph(
    text: str, inputs: Sequence[Value] | None = None, least: int = 0
) -> Graph:
    """Read the graph that `to_text` writes as `text`.

    Its inputs are new variables, with sizes of at least `least`, or `inputs`, which
    must have the types in the text. Raises GraphError with the line where the text is
    not that of a valid graph.
    """
    return _Reader(text, inputs, least).graph()


class _Statements(ParamReader):
    """Reads statements and builds their nodes."""

    def statements(self, until: str) -> None:
        """Read nodes, and the parts before them, up to the word `until`."""
        while not self.accept(until):
            self.part() if self.after_next() == "=" else self.node()

    def part(self) -> None:
        """Read `size = 2*n`, which names a part of later sizes, or `b = body(...)`."""
        at = self.at
        name = self.take("name", "a name")
        self.expect("=")
        self.require_new(name, at)
        if self.peek() == "body" and self.after_next() == "(":
            self.scope.bodies[name] = self.nested(self.body)
        else:
            self.scope.parts[name] = self.size()

    def body(self) -> Body:
        """Read a body, in which only its own names have a meaning."""
        at, outer = self.at, self.scope
        self.scope = Scope(closed=True)
        self.at += 2
        self.several(self.declared, ";")
        inputs = self.several(self.body_input, ";")
        params = self.several(self.size_param, ")")
        self.expect("{")
        self.statements("return")
        outputs = self.several(self.value, "}")
        self.scope = outer
        read = Body(tuple(inputs), tuple(params), tuple(outputs))
        try:
            verify_closed(read)
        except GraphError as error:
            self.fail(error.args[0].split("\n  at ")[0], at)
        if len(set(inputs)) < len(inputs) or len(set(params)) < len(params):
            self.fail("an input or a size is given twice", at)
        return read

    def declared(self) -> None:
        """Read a size of a body and its bounds, as `?k from 1 to 9`."""
        name = self.take("name", "a size")
        if not name.startswith("?") or name in self.scope.fresh:
            self.fail(f"{name} cannot be a size here", self.at - 1)
        lower = self.bound() if self.accept("from") else None
        upper = self.size() if self.accept("to") else None
        stretches = self.accept("stretches")
        symbol = Symbol(label(name[1:]), None, lower, upper, stretches)
        self.scope.fresh[name] = dims.symbol_dim(symbol)

    def bound(self) -> int:
        """Read a lower bound, which must be a number."""
        number = self.size()
        if not isinstance(number, int):
            self.fail("a lower bound must be a number", self.at - 1)
        return number

    def body_input(self) -> Value:
        """Read one input of a body, and its lower bound if it has one."""
        at = self.at
        name = self.take("name", "the name of an input")
        own_name = self.string() if self.accept("of") else name
        self.expect(":")
        value = body_input(own_name, self.type())
        if self.accept("from"):
            if value.type.rank or not is_integer(value.dtype):
                self.fail(f"{name} is not an integer scalar", at)
            set_lower_bound(value, self.bound())
        self.define(name, value, at)
        return value

    def size_param(self) -> Symbol:
        """Read the name of a size parameter of a body."""
        at = self.at
        size = self.scope.fresh.get(self.take("name", "a size"))
        if not isinstance(size, Dim):
            self.fail("the body has no such size", at)
        return size.symbols[0]

    def node(self) -> None:
        """Read a node: `a, b: T, U = op(x; p=1)`."""
        start = self.at
        names = [self.take("name", "a name or return")]
        while self.accept(","):
            names.append(self.take("name", "a name"))
        self.expect(":")
        at = self.at
        while self.peek() != "=":
            if self.next_is("end"):
                self.fail("expected '=', not the end")
            self.at += 1
        self.at += 1
        name = self.take("name", "an op")
        self.expect("(")
        inputs, params = self.arguments()
        end = self.at
        values = self.build(name, inputs, params, start)
        self.at = at
        self.compare(name, names, values)
        self.at = end
        for one, value in zip(names, values, strict=True):
            self.define(one, value, start)

    def compare(self, op: str, names: list[str], values: Sequence[Value]) -> None:
        """Read the types of a node, which must be those that its op gives."""
        at = self.at
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        self.expect("=")
        expected = [v.type for v in values]
        if len(expected) != len(types) or not all(
            map(TensorType.same, expected, types)
        ):
            got, said = (", ".join(map(str, t)) for t in (expected, types))
            self.fail(f"{op} gives {got}, where the text says {said}", at)
        if len(names) != len(values):
            self.fail(f"{len(names)} names for the {len(values)} values of {op}", at)

    def arguments(self) -> tuple[list[Value], dict[str, object]]:
        """Read the inputs and params between the parentheses of an op."""
        inputs: list[Value] = []
        while self.peek() not in (";", ")"):
            inputs.append(self.value())
            if not self.accept(","):
                break
        if self.accept(")"):
            return inputs, {}
        self.expect(";")
        params: dict[str, Any] = {}
        for name, param in self.several(self.named_param, ")"):
            if name in params:
                self.fail(f"{name} is given twice", self.at - 1)
            params[name] = param
        return inputs, params

    def named_param(self) -> tuple[str, object]:
        """Read a param with its name, as `axis=1`."""
        name = self.take("name", "the name of a param")
        self.expect("=")
        return name, self.param()

    def build(
        self, name: str, inputs: list[Value], params: Params, at: int
    ) -> tuple[Value, ...]:
        """Build a node, and return its values; the op checks inputs and params."""
        primitive = PRIMITIVES.get(name)
        if primitive is None or not primitive.interned:
            self.fail(f"there is no op called {name}", at)
        if name not in WITH_BODIES and Opaque in map(type, params.values()):
            self.fail(f"{name} has no graph that can be read", at)
        newest = next(SERIALS)
        try:
            node = _bind(primitive, tuple(inputs), primitive.kinds.read(params))
        except GraphError as error:
            self.fail(error.args[0].split("\n  at ")[0], at)
        except Exception as error:  # rules trust params, but these may be anything
            self.fail(f"{name} does not take these inputs and params: {error}", at)
        if node.serial > newest:
            node.place = SourceLocation("<graph>", self.line(at))
        return node.outputs

    def value(self) -> Value:
        """Read the name of a value, and return the value."""
        name = self.take("name", "the name of a value")
        if name not in self.scope.values:
            self.fail(f"{name} is not defined yet", self.at - 1)
        return self.scope.values[name]

    def define(self, name: str, value: Value, at: int) -> None:
        """Let `name` stand for `value` from here on."""
        self.require_new(name, at)
        self.scope.values[name] = value

    def require_new(self, name: str, at: int) -> None:
        """Raise GraphError for a name that already has a meaning."""
        if self.scope.has(name) or "?" in name:
            self.fail(f"{name} cannot be defined here", at)


class _Reader(_Statements):
    """Reads a whole graph, whose inputs and outputs have names."""

    def __init__(self, text: str, inputs: Sequence[Value] | None, least: int) -> None:
        super().__init__(text)
        self._given = inputs
        self.scope = Scope(least=least)

    def graph(self) -> Graph:
        """Read the whole text."""
        while self.after_next() == "=":
            self.part()
        for sign in ("graph", "("):
            self.expect(sign)
        inputs = self.several(self.input, ")")
        if self._given is not None and len(self._given) != len(inputs):
            self.fail(f"{len(self._given)} inputs are given, not {len(inputs)}", 0)
        self.expect("{")
        self.statements("return")
        outputs = self.several(self.output, "}")
        if not self.next_is("end"):
            self.fail("nothing may follow the graph")
        values, names = zip(*inputs, strict=True) if inputs else ((), ())
        results, called = zip(*outputs, strict=True) if outputs else ((), ())
        return Graph(values, results, names, called)

    def input(self) -> tuple[Value, str]:
        """Read one input, and return its variable and its name."""
        at, position = self.at, len(self.scope.values)
        name = self.take("name", "the name of an input")
        called = self.string() if self.next_is("text") else name
        own_name = self.string() if self.accept("of") else called
        self.expect(":")
        if self._given is None:
            value = variable(own_name, self.type())
            value.node.place = SourceLocation("<graph>", self.line(at))
        elif position < len(self._given):
            value = self._given[position]
            type = self.type(value.type.shape)
            if not type.same(value.type):
                problem = f"{name} is {type} here, but a {value.type} is given"
                self.fail(problem, at)
        else:
            self.fail(f"{position} inputs are given, and none for {name}", at)
        self.define(name, value, at)
        return value, called

    def output(self) -> tuple[Value, str]:
        """Read one output, and return its value and its name, "" for none."""
        if self.next_is("text"):
            called = self.string()
        elif self.after_next() == "=":
            called = self.take("name", "a name")
        else:
            return self.value(), ""
        self.expect("=")
        return self.value(), called


def _bind(
    primitive: Primitive, inputs: tuple[Value, ...], params: dict[str, Param]
) -> Node:
    """Build the node of an op; the node of a size is made from the size alone."""
    if primitive is not SIZE_OP:
        return primitive.bind(inputs, params)
    value = size_value(**SIZE_OP.kinds.checked(params))
    if inputs or isinstance(value, int):
        raise graph_error("a size must be symbolic, and takes no inputs")
    return value.node
