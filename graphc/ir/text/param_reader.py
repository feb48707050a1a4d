"""The reader of types and params in a graph's text, and the meaning of names there."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from graphc.errors import GraphError
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.build import Data, as_size
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Opaque
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.text.printer import from_texts
from graphc.ir.text.tokens import Tokens
from graphc.ir.types import DTYPES, DType, TensorType

_LITERALS = {
    **{"None": None, "True": True, "False": False},
    **{"nan": math.nan, "inf": math.inf},
}
_SUMS: dict[str, Callable[[Any, Any], Size]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Size]] = {
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


@dataclass
class Scope:
    """The meaning of names, in the text of a graph or in a body of its nodes.

    The scope of a body is `closed`: no size in it comes from outside. Fresh sizes of
    others are `least` or more.
    """

    closed: bool = False
    least: int = 0
    values: dict[str, Value] = field(default_factory=dict)
    fresh: dict[str, Size] = field(default_factory=dict)
    parts: dict[str, Size] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a name already has a meaning."""
        return name in self.values or name in self.parts or name in self.bodies


class ParamReader(Tokens):
    """Reads types and params, where names stand for values, or else for axes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scope: Scope = Scope()

    def type(self, fresh_sizes: Sequence[Size] = ()) -> TensorType:
        """Read `float32[n, 3]`; fresh axes stand for the sizes in `fresh_sizes`."""
        weak = self.accept("weak")
        dtype = self.dtype()
        self.expect("[")
        known = iter(fresh_sizes)

        def size() -> Size:
            n = next(known, 0)
            if isinstance(n, Dim) and self.peek().startswith("?"):
                self.scope.fresh.setdefault(self.peek(), n)
            length = self.size()
            if isinstance(length, int) and not 0 <= length < 2**63:
                self.fail("an axis has 0 to 2**63 - 1 elements", self.at - 1)
            return length

        return TensorType(dtype, tuple(self.several(size, "]")), weak)

    def dtype(self) -> DType:
        """Read a dtype by its name."""
        name = self.take("name", "a dtype")
        if name not in DTYPES:
            self.fail(f"there is no dtype {name}", self.at - 1)
        return DTYPES[name]

    def size(self) -> Size:
        """Read a number, or an expression of sizes."""
        return self.as_size(self.param())

    def as_size(self, param: object) -> Size:
        """Return `param`, which must be a size."""
        if isinstance(param, bool) or not isinstance(param, (int, Dim)):
            self.fail("expected a size", self.at - 1)
        return param

    def param(self) -> object:
        """Read any param; only sizes form sums and products."""
        return self.chain(self.product, _SUMS)

    def product(self) -> object:
        """Read a factor, or a product of several."""
        return self.chain(self.factor, _PRODUCTS)

    def chain(
        self, read: Callable[[], object], signs: dict[str, Callable[[Size, Size], Size]]
    ) -> object:
        """Read operands with signs between them, from left to right."""
        left = read()
        while self.peek() in signs:
            sign = self.peek()
            self.at += 1
            a, b = self.as_size(left), self.as_size(read())
            left = self.calculate(signs[sign], a, b)
        return left

    def calculate(self, function: Callable[..., Size], *args: Size) -> Size:
        """Compute a size from sizes."""
        try:
            return function(*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            self.fail(f"not a size: {error}", self.at - 1)

    def factor(self) -> Any:
        """Read an operand with any number of minus signs before it."""
        minus = False
        while self.accept("-"):
            minus = not minus
        operand = self.operand()
        if minus and not isinstance(operand, float):
            return -self.as_size(operand)
        return -operand if minus else operand

    def operand(self) -> Any:
        """Read an operand, which has signs only within parentheses."""
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
            return self.opaque()
        self.take("name", "a param")
        if name in _LITERALS:
            return _LITERALS[name]
        if name in dims.FUNCTIONS or name == "axis":
            return self.nested(lambda: self.call(name))
        return self.symbol(name)

    def group(self) -> object:
        """Read a size in parentheses, or a tuple."""
        self.expect("(")
        if self.accept(")"):
            return ()
        first = self.param()
        if self.accept(")"):
            return self.as_size(first)
        self.expect(",")
        return (first, *self.several(self.param, ")"))

    def number(self) -> int | float:
        """Read a number, which is an int if it consists of digits."""
        text = self.take("number", "a number")
        try:
            return int(text) if text.isdecimal() else float(text)
        except ValueError:
            self.fail("this number is too long", self.at - 1)

    def call(self, name: str) -> Size:
        """Read `min(n, 3)`, or `axis("any name")`."""
        self.expect("(")
        if name == "axis":
            self.require_open(name)
            size: Size = dims.axis(self.string())
            self.expect(")")
            return size
        return self.calculate(dims.FUNCTIONS[name], *self.several(self.size, ")"))

    def symbol(self, name: str) -> Size:
        """The integer that a name stands for."""
        if name in self.scope.values:
            try:
                return as_size(self.scope.values[name])
            except GraphError:
                self.fail(f"{name} is not an integer scalar", self.at - 1)
        if name in self.scope.parts:
            return self.scope.parts[name]
        if name in self.scope.fresh:
            return self.scope.fresh[name]
        self.require_open(name)
        if name.startswith("?"):
            size = dims.fresh_axis(name[1:], self.scope.least)
            return self.scope.fresh.setdefault(name, size)
        return dims.axis(name)

    def require_open(self, name: str) -> None:
        """Raise GraphError within a body, where only its own sizes are known."""
        if self.scope.closed:
            self.fail(f"{name} is not a size of this body", self.at - 1)

    def opaque(self) -> Opaque:
        """Read `opaque("body", body)`: a body or bodies of a node, or another node."""
        at = self.at
        self.at += 2
        name = self.string()
        if self.accept(")"):
            self.fail("a rule or a function inside a node cannot be read", at)
        self.expect(",")
        if self.accept("("):
            content: Any = tuple(self.several(self.body_of_node, ")"))
        elif self.peek() in self.scope.values:
            content = self.scope.values[self.take("name", "a value")].node
        else:
            content = self.body_of_node()
        self.expect(")")
        return Opaque(name, content)

    def body_of_node(self) -> Body:
        """Read the name of a body, and return the body."""
        name = self.take("name", "the name of a body")
        if name not in self.scope.bodies:
            self.fail(f"{name} is not a body", self.at - 1)
        return self.scope.bodies[name]

    def dtype_or_more(self) -> object:
        """Read a dtype, a type with its sizes, or an array with its elements."""
        at = self.at
        dtype = self.dtype()
        if self.peek() != "[":
            return dtype
        self.at: int = at
        type = self.type()
        return self.array(type) if self.peek() == "(" else type

    def array(self, type: TensorType) -> Data:
        """Read the elements of an array, as numbers or as bytes."""
        at, shape = self.at, cast("tuple[int, ...]", type.shape)  # or TypeError
        self.expect("(")
        try:
            if self.next_is("text"):
                raw = bytes.fromhex(self.string())
                self.expect(")")
                return Data(np.frombuffer(raw, type.dtype).reshape(shape))
            texts = self.several(self.element, ")")
            return Data(from_texts(texts, type.dtype).reshape(shape))
        except (OverflowError, TypeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            self.fail(f"cannot read the elements of {type}: {error}", at)

    def element(self) -> str:
        """Read a number or a bool, and return its text."""
        minus = "-" if self.accept("-") else ""
        kind = "number" if self.next_is("number") else "name"
        return minus + self.take(kind, "a number")
