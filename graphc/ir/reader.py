"""The reader of graphs as text: the inverse of `graphc.ir.text`.

Text may come from anywhere: it is data, and none of it is ever run. Text that is not
exactly a graph raises GraphError with the line.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import GraphError, SourceLocation, graph_error
from graphc.ir import dims
from graphc.ir.build import SIZE_OP, Data, as_size, size_value, variable
from graphc.ir.dims import Dim, Size
from graphc.ir.graph import SERIALS, Graph, Node, Value
from graphc.ir.op import PRIMITIVES, Primitive
from graphc.ir.text import from_texts
from graphc.ir.tokens import Tokens
from graphc.ir.types import DTYPES, DType, TensorType

_LITERALS = {
    **{"None": None, "True": True, "False": False},
    **{"nan": math.nan, "inf": math.inf},
}
_FUNCTIONS: dict[str, Callable[..., Size]] = {
    "min": dims.minimum,
    "max": dims.maximum,
    "clip": dims.clip,
    "stretch": dims.stretch,
}
_SUMS: dict[str, Callable[[Any, Any], Size]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Size]] = {
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def parse_graph(text: str, inputs: Sequence[Value] | None = None) -> Graph:
    """The graph that `to_text` writes as `text`.

    Its inputs are new variables, or `inputs`, which must have the types in the text.
    Raises GraphError with the line where the text is not that of a valid graph.
    """
    return _Reader(text, inputs).graph()


class _Params(Tokens):
    """Reads types and params; names are values, and those that are not, axes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values: dict[str, Value] = {}
        self._fresh: dict[str, Size] = {}
        self._parts: dict[str, Size] = {}

    def type(self, given: Sequence[Size] = ()) -> TensorType:
        """`float32[n, 3]`; `given` are the sizes that fresh axes stand for."""
        weak = self.accept("weak")
        dtype = self.dtype()
        self.expect("[")
        known = iter(given)

        def size() -> Size:
            n = next(known, 0)
            if isinstance(n, Dim) and self.peek().startswith("?"):
                self._fresh.setdefault(self.peek(), n)
            found = self.size()
            if isinstance(found, int) and not 0 <= found < 2**63:
                self.fail("an axis has 0 to 2**63 - 1 elements", self.at - 1)
            return found

        return TensorType(dtype, tuple(self.several(size, "]")), weak)

    def dtype(self) -> DType:
        """A dtype by its name."""
        name = self.take("name", "a dtype")
        if name not in DTYPES:
            self.fail(f"there is no dtype {name}", self.at - 1)
        return DTYPES[name]

    def size(self) -> Size:
        """A number or an expression of sizes."""
        return self.as_size(self.param())

    def as_size(self, param: Any) -> Size:
        """`param`, which must be a size."""
        if isinstance(param, bool) or not isinstance(param, (int, Dim)):
            self.fail("expected a size", self.at - 1)
        return param

    def param(self) -> Any:
        """Any param; sums and products are those of sizes."""
        return self.chain(self.product, _SUMS)

    def product(self) -> Any:
        """A factor, or several."""
        return self.chain(self.factor, _PRODUCTS)

    def chain(
        self, read: Callable[[], Any], signs: dict[str, Callable[[Any, Any], Size]]
    ) -> Any:
        """Operands with signs between them, from left to right."""
        left = read()
        while self.peek() in signs:
            sign = self.peek()
            self.at += 1
            a, b = self.as_size(left), self.as_size(read())
            left = self.calculate(signs[sign], a, b)
        return left

    def calculate(self, function: Callable[..., Size], *args: Size) -> Size:
        """A size from sizes."""
        try:
            return function(*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            self.fail(f"no size: {error}", self.at - 1)

    def factor(self) -> Any:
        """An operand with any number of minus signs before it."""
        minus = False
        while self.accept("-"):
            minus = not minus
        operand = self.operand()
        if minus and not isinstance(operand, float):
            return -self.as_size(operand)
        return -operand if minus else operand

    def operand(self) -> Any:
        """An operand without signs, but for those in parentheses."""
        name = self.peek()
        if name == "(":
            return self.nested(self.group)
        if self.next_is("text"):
            return self.string()
        if self.next_is("number"):
            return self.number()
        if name in DTYPES:
            return self.dtype_or_more()
        if name == "opaque" and self.after_next() == "(":
            self.fail("a graph or a rule inside of a node cannot be read")
        self.take("name", "a param")
        if name in _LITERALS:
            return _LITERALS[name]
        if name in _FUNCTIONS or name == "axis":
            return self.nested(lambda: self.call(name))
        return self.symbol(name)

    def group(self) -> Any:
        """A size in parentheses, or a tuple."""
        self.expect("(")
        if self.accept(")"):
            return ()
        first = self.param()
        if self.accept(")"):
            return self.as_size(first)
        self.expect(",")
        return (first, *self.several(self.param, ")"))

    def number(self) -> int | float:
        """A number, an int where it has only digits."""
        text = self.take("number", "a number")
        try:
            return int(text) if text.isdecimal() else float(text)
        except ValueError:
            self.fail("this number is too long", self.at - 1)

    def call(self, name: str) -> Size:
        """`min(n, 3)`, or `axis("any name")`."""
        self.expect("(")
        if name == "axis":
            size: Size = dims.axis(self.string())
            self.expect(")")
            return size
        return self.calculate(_FUNCTIONS[name], *self.several(self.size, ")"))

    def symbol(self, name: str) -> Size:
        """The integer that a name stands for."""
        if name in self._values:
            try:
                return as_size(self._values[name])
            except GraphError:
                self.fail(f"{name} is no integer scalar", self.at - 1)
        if name in self._parts:
            return self._parts[name]
        if name.startswith("?"):
            return self._fresh.setdefault(name, dims.fresh_axis(name[1:]))
        return dims.axis(name)

    def dtype_or_more(self) -> Any:
        """A dtype, a type with its sizes, or an array with its elements."""
        at = self.at
        dtype = self.dtype()
        if self.peek() != "[":
            return dtype
        self.at = at
        type = self.type()
        return self.array(type) if self.peek() == "(" else type

    def array(self, type: TensorType) -> Data:
        """The elements of an array: numbers, or its bytes."""
        at = self.at
        self.expect("(")
        try:
            if self.next_is("text"):
                raw = bytes.fromhex(self.string())
                self.expect(")")
                return Data(np.frombuffer(raw, type.dtype).reshape(type.shape))
            texts = self.several(self.element, ")")
            return Data(from_texts(texts, type.dtype).reshape(type.shape))
        except (OverflowError, TypeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            self.fail(f"no elements of {type}: {error}", at)

    def element(self) -> str:
        """A number or a bool, as it is written."""
        minus = "-" if self.accept("-") else ""
        kind = "number" if self.next_is("number") else "name"
        return minus + self.take(kind, "a number")


class _Reader(_Params):
    """Reads statements, and builds their nodes."""

    def __init__(self, text: str, inputs: Sequence[Value] | None) -> None:
        super().__init__(text)
        self._given = inputs

    def graph(self) -> Graph:
        """The whole text."""
        while self.after_next() == "=":
            self.part()
        for sign in ("graph", "("):
            self.expect(sign)
        inputs = self.several(self.input, ")")
        if self._given is not None and len(self._given) != len(inputs):
            self.fail(f"{len(self._given)} inputs are given, not {len(inputs)}", 0)
        self.expect("{")
        while not self.accept("return"):
            self.part() if self.after_next() == "=" else self.node()
        outputs = self.several(self.output, "}")
        if not self.next_is("end"):
            self.fail("nothing may follow the graph")
        values, names = zip(*inputs, strict=True) if inputs else ((), ())
        results, called = zip(*outputs, strict=True) if outputs else ((), ())
        return Graph(values, results, names, called)

    def input(self) -> tuple[Value, str]:
        """One input: its variable and its name."""
        at, position = self.at, len(self._values)
        name = self.take("name", "the name of an input")
        called = self.string() if self.next_is("text") else name
        own = self.string() if self.accept("of") else called
        self.expect(":")
        if self._given is None:
            value = variable(own, self.type())
            value.node.place = SourceLocation("<graph>", self.line(at))
        elif position < len(self._given):
            value = self._given[position]
            type = self.type(value.type.shape)
            if not type.same(value.type):
                problem = f"{name} is {type} here, and a {value.type} is given"
                self.fail(problem, at)
        else:
            self.fail(f"{position} inputs are given, and none for {name}", at)
        self.define(name, value, at)
        return value, called

    def output(self) -> tuple[Value, str]:
        """One output: its value and its name, "" for none."""
        if self.next_is("text"):
            called = self.string()
        elif self.after_next() == "=":
            called = self.take("name", "a name")
        else:
            return self.value(), ""
        self.expect("=")
        return self.value(), called

    def part(self) -> None:
        """`size = 2*n`: the name of a part of the sizes that follow."""
        at = self.at
        name = self.take("name", "a name")
        self.expect("=")
        self.require_new(name, at)
        self._parts[name] = self.size()

    def node(self) -> None:
        """`a, b: T, U = op(x; p=1)`."""
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
        for label, value in zip(names, values, strict=True):
            self.define(label, value, start)

    def compare(self, op: str, names: list[str], values: Sequence[Value]) -> None:
        """Read the types of a node, which must be those that it has."""
        at = self.at
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        self.expect("=")
        made = [v.type for v in values]
        if len(made) != len(types) or not all(map(TensorType.same, made, types)):
            got, said = (", ".join(map(str, t)) for t in (made, types))
            self.fail(f"{op} gives {got}, where the text says {said}", at)
        if len(names) != len(values):
            self.fail(f"{len(names)} names for the {len(values)} values of {op}", at)

    def arguments(self) -> tuple[list[Value], dict[str, Any]]:
        """The inputs and params between the parentheses of an op."""
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

    def named_param(self) -> tuple[str, Any]:
        """`axis=1`."""
        name = self.take("name", "the name of a param")
        self.expect("=")
        return name, self.param()

    def build(
        self, name: str, inputs: list[Value], params: dict[str, Any], at: int
    ) -> tuple[Value, ...]:
        """The values of a node. The rule of the op checks inputs and params."""
        primitive = PRIMITIVES.get(name)
        if primitive is None or not primitive.interned:
            self.fail(f"there is no op called {name}", at)
        newest = next(SERIALS)
        try:
            node = _bind(primitive, tuple(inputs), primitive.kinds.read(params))
        except GraphError as error:
            self.fail(str(error).split("\n  at ")[0], at)
        except Exception as error:  # rules trust their params, which may be anything
            self.fail(f"{name} does not take these inputs and params: {error}", at)
        if node.serial > newest:
            node.place = SourceLocation("<graph>", self.line(at))
        return node.outputs

    def value(self) -> Value:
        """A value by its name."""
        name = self.take("name", "the name of a value")
        if name not in self._values:
            self.fail(f"{name} is not defined before", self.at - 1)
        return self._values[name]

    def define(self, name: str, value: Value, at: int) -> None:
        """`name` stands for `value` from here on."""
        self.require_new(name, at)
        self._values[name] = value

    def require_new(self, name: str, at: int) -> None:
        """Raise GraphError for a name that stands for something already."""
        if name in self._values or name in self._parts or "?" in name:
            self.fail(f"{name} cannot be defined here", at)


def _bind(
    primitive: Primitive, inputs: tuple[Value, ...], params: dict[str, Any]
) -> Node:
    """The node of an op; that of a size is made from the size alone."""
    if primitive is not SIZE_OP:
        return primitive.bind(inputs, params)
    value = size_value(**SIZE_OP.kinds.checked(params))
    if inputs or isinstance(value, int):
        raise graph_error("a size that is a number, or has inputs")
    return value.node
