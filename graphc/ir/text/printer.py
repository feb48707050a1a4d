"""Graphs as text: one line per node, with its type, its inputs and its params.

    graph(x: float32[n, 3], k: int64[]) {
      tanh: float32[n, 3] = tanh(x)
      rows: float32[clip(k, n), 3] = basic_index(tanh; kinds="s", starts=(None,), ...)
      return rows
    }

A size is written with the names of axes. `b?` may be 1, and so stretch. `?x_0` is an
axis of its own, even if others have that name, and a value's name stands for its
integer. Parts of a long size have lines of their own before it, as
`size = 2*n - min(1, n)`. The bodies of a node come before it, each with its sizes and
their bounds, its inputs, and the sizes that it is given as arguments:

    body = body(?k from 1 to 9; carry: float32[?k], row: float32[]; ?k) {
      add: float32[?k] = add(carry, row)
      return add
    }
    scan: float32[n] = scan(x, y; body=opaque("body", body), carries=1, ...)

Gradient rules and functions only have names here, as `opaque("rule")`.
`graphc.ir.text.reader` reads back a text without these.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

import numpy as np

from graphc.errors import graph_error, label
from graphc.ir.graph.bodies import Body, with_bounds
from graphc.ir.graph.build import INPUT, SIZE_OP, Data, tuple_text
from graphc.ir.graph.nodes import Graph, Node, Value, entries_of
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.params.kinds import Text
from graphc.ir.sizes.dims import Dim, Symbol, axis, symbol_dim
from graphc.ir.sizes.names import NamesOnce
from graphc.ir.sizes.text import expression, shared_parts
from graphc.ir.types import DTYPES, DType, NDArray, TensorType, real_dtype

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
RESERVED = {
    *("graph", "return", "of", "weak", "None", "True", "False", "nan", "inf"),
    *("min", "max", "clip", "stretch", "axis", *DTYPES),
}
MOST_SHOWN = 16  # elements of an array that is written as numbers
MOST_WEIGHT = 64  # terms of a size that is written in one piece
_WIDTH = 88


def is_plain(name: str) -> bool:
    """Whether a name can be written into the text without quotes."""
    return NAME.fullmatch(name) is not None and name not in RESERVED


def to_text(
    graph: Graph, hint: Callable[[Value], str] | None = None, comments: bool = False
) -> str:
    """Write a graph as text, from which `parse_graph` makes the same graph.

    `hint` names values, by default after their ops. With `comments`, the user's lines
    and the guards follow the nodes. Raises GraphError where a variable or a size of the
    graph does not come from its inputs.
    """
    return "\n".join(Writer(graph, hint or _op_name, comments).lines()) + "\n"


def has_text(node: Node) -> bool:
    """Whether the text of a node can be read back: the node holds no functions."""
    opaque = [p.content for p in node.params.values() if isinstance(p, Opaque)]
    graphs = [c if isinstance(c, tuple) else (c,) for c in opaque]
    return all(isinstance(one, (Body, Node)) for content in graphs for one in content)


def _op_name(value: Value) -> str:
    return value.node.primitive.name


def in_order(graph: Graph) -> list[Node]:
    """The nodes of a graph, without its inputs, in an order that text preserves.

    Nodes are ordered by age, except those that depend on no input, which may be older
    than the graph: they come just before the first node that needs them.
    """
    nodes = ancestors((*graph.inputs, *graph.outputs))
    dependent: set[Node] = set()
    placed: dict[Node, None] = {}
    for node in nodes:
        if node.primitive is INPUT or any(v.node in dependent for v in operands(node)):
            dependent.add(node)
            _place(node, dependent, placed)
    for value in graph.outputs:
        _place(value.node, dependent, placed)
    return [node for node in placed if node.primitive is not INPUT]


def _place(node: Node, dependent: set[Node], placed: dict[Node, None]) -> None:
    """Place a node after its ancestors, placing these first where necessary."""
    stack = [(node, iter(operands(node)))]
    while stack:
        last, remaining = stack[-1]
        value = next(remaining, None)
        if value is None:
            placed[last] = None
            stack.pop()
        elif value.node not in placed and value.node not in dependent:
            stack.append((value.node, iter(operands(value.node))))


class _Names(NamesOnce):
    """Hands out names that are valid in the text, each once."""

    def __init__(self, taken: Iterable[str]) -> None:
        super().__init__([*RESERVED, *taken])

    def unique(self, proposed: str) -> str:
        base = label(proposed.encode("ascii", "replace").decode())
        return self.once(base if NAME.fullmatch(base) else f"_{base}")


class Writer:
    """The names of everything in one graph, and its lines of text."""

    def __init__(
        self, graph: Graph, hint: Callable[[Value], str], comments: bool
    ) -> None:
        self._graph = graph
        self._hint = hint
        self._comments = comments
        self._nodes = in_order(graph)
        self._axes: dict[Symbol, str] = {
            s: self._axis(s) for s in self._symbols() if s.origin is None
        }
        names = _Names(name for name in self._axes.values() if name)
        fresh = _Names(())
        for symbol, name in self._axes.items():
            self._axes[symbol] = name or f"?{fresh.unique(symbol.name)}"
        self._names: dict[Value, str] = {}
        self._unique = names.unique
        for value, name in zip(graph.inputs, graph.input_names, strict=True):
            self._names[value] = names.unique(name)
        for value in (v for node in self._nodes for v in node.outputs):
            self._names[value] = names.unique(hint(value))
        self._written: dict[Dim, str] = {}
        self._parts: dict[Dim, str] = {}
        self._waiting: list[str] = []  # lines to write before the next one

    def _symbols(self) -> Iterable[Symbol]:
        """The symbols of all sizes, in the order in which they are named."""
        variables = [v.node for v in self._graph.inputs]
        sizes = _sizes([*variables, *self._nodes])
        return dict.fromkeys(s for n in sizes for s in n.symbols)

    def _axis(self, symbol: Symbol) -> str:
        """The name of an axis if it is plain, else a call; "" for a fresh axis."""
        name = symbol.name
        if symbol_dim(symbol) is not axis(name):
            return ""
        plain = is_plain(name.removesuffix("?" * symbol.may_be_one))
        return name if plain else f"axis({json.dumps(name)})"

    def lines(self) -> Iterator[str]:
        """Yield the lines of the whole text."""
        yield from self.head("graph")
        for node in self._nodes:
            yield from self.lines_of(node)
        yield self.result()
        yield "}"

    def head(self, word: str) -> Iterator[str]:
        """Yield the first line with the inputs; if too long, a line for each input."""
        inputs = list(map(self._input, self._graph.inputs, self._graph.input_names))
        yield from self._parts_before("")
        line = f"{word}({', '.join(inputs)}) {{"
        if len(line) <= _WIDTH:
            yield line
        else:
            yield f"{word}("
            yield from (f"    {text}," for text in inputs)
            yield ") {"

    def result(self) -> str:
        """The line that returns the outputs."""
        outputs = map(self._output, self._graph.outputs, self._graph.output_names)
        return f"  return {', '.join(outputs)}"

    def _input(self, value: Value, called: str) -> str:
        """Write `x: T`, or `x "call name" of "own name": T` where names differ."""
        name, own_name = self._names[value], value.name
        text = name if called == name else f"{name} {json.dumps(called)}"
        text += "" if own_name == called else f" of {json.dumps(own_name)}"
        return f"{text}: {self._type(value.type)}"

    def _output(self, value: Value, called: str) -> str:
        if not called:
            return self._names[value]
        key = called if is_plain(called) else json.dumps(called)
        return f"{key}={self._names[value]}"

    def lines_of(self, node: Node) -> list[str]:
        """The line of a node, after the lines for parts of its sizes."""
        line = self._line(node)
        return [*self._parts_before("  "), line]

    def _parts_before(self, indent: str) -> list[str]:
        """Take the waiting lines: parts of long sizes, as `size = 2*n - min(1, n)`."""
        lines = [indent + line for line in self._waiting]
        self._waiting.clear()
        return lines

    def _line(self, node: Node) -> str:
        names = ", ".join(self._names[v] for v in node.outputs)
        types = ", ".join(self._type(v.type) for v in node.outputs)
        implied = node.primitive is SIZE_OP  # the names in the size tell them
        inputs = "" if implied else ", ".join(map(self.name, node.inputs))
        params = ", ".join(f"{k}={self._param(p)}" for k, p in node.params.items())
        call = f"{inputs}; {params}" if params else inputs
        text = f"  {names}: {types} = {node.primitive.name}({call})"
        return text + self._comment(node) if self._comments else text

    def _comment(self, node: Node) -> str:
        guards = [
            f"{self._param(g.left)} {g.relation} {self._param(g.right)}"
            for g in node.guards
        ]
        needs = f"; needs {', '.join(guards)}" if guards else ""
        return f"  # {node.place}{needs}"

    def name(self, value: Value) -> str:
        """The name of a value. Raises GraphError if it is not in the graph."""
        name = self._names.get(value)
        if name is None:
            raise graph_error(
                f"{value!r} does not come from the inputs of the graph",
                op="to_text",
                where=value.node.place,
            )
        return name

    def symbol(self, symbol: Symbol) -> str:
        """The name of a size."""
        origin = symbol.origin
        return self.name(origin) if isinstance(origin, Value) else self._axes[symbol]

    def _type(self, type: TensorType) -> str:
        sizes = ", ".join(map(self._param, type.shape))
        return f"{'weak ' if type.weak else ''}{type.dtype.name}[{sizes}]"

    def _param(self, param: object) -> str:
        """A param as text. Raises GraphError for a kind without a text."""
        match param:
            case Dim():
                return self._dim(param)
            case tuple():
                return tuple_text(map(self._param, param))
            case str():
                return json.dumps(param)
            case Text():
                return json.dumps(param.content)
            case np.dtype():
                return param.name
            case Data():
                return data_text(param.array)
            case TensorType():
                return self._type(param)
            case None | bool() | int() | float():
                return repr(param)
            case Opaque():
                return self._opaque(param.name, param.content)
            case _:
                return self._record(param)

    def _record(self, param: object) -> str:
        """A data class as the tuple of its fields, as named tuples are written."""
        if not is_dataclass(param):
            kind = type(param).__name__
            raise graph_error(f"a param of type {kind} has no text", op="to_text")
        return self._param(tuple([getattr(param, f.name) for f in fields(param)]))

    def _opaque(self, name: str, content: object) -> str:
        """A body or a node of this graph by its name; for other objects, their name."""
        called = json.dumps(name)
        if isinstance(content, Node):  # only a remark, which may be left out
            first = self._names.get(content.outputs[0])
            return "None" if first is None else f"opaque({called}, {first})"
        if isinstance(content, Body):
            return f"opaque({called}, {self._body(name, content)})"
        if isinstance(content, tuple) and all(isinstance(b, Body) for b in content):
            bodies = tuple_text(self._body(name, body) for body in content)
            return f"opaque({called}, {bodies})"
        return f"opaque({called})"

    def _body(self, name: str, body: Body) -> str:
        """The name of a body, whose lines are written next."""
        body_name = self._unique(name)
        first, *lines = _BodyWriter(body, self._hint, self._comments).lines()
        self._waiting += [f"{body_name} = {first}", *lines]
        return body_name

    def _dim(self, size: Dim) -> str:
        if size not in self._written:
            for part in shared_parts(size) if size.weight > MOST_WEIGHT else ():
                if part not in self._parts:
                    text = self._formula(part)
                    name = self._parts[part] = self._unique("size")
                    self._waiting.append(f"{name} = {text}")
            self._written[size] = self._formula(size)
        return self._written[size]

    def _formula(self, size: Dim) -> str:
        return expression(size, self.symbol, "clip({}, {})", self._parts)


class _BodyWriter(Writer):
    """The names and lines of a body, in which nothing is from outside."""

    def __init__(
        self, body: Body, hint: Callable[[Value], str], comments: bool
    ) -> None:
        self._body_itself = body
        super().__init__(body.graph, hint, comments)

    def _symbols(self) -> Iterable[Symbol]:
        """The symbols, each after the symbols in its bounds."""
        symbols = {*super()._symbols(), *self._body_itself.size_params}
        return with_bounds(s for s in symbols if s.origin is None)

    def head(self, word: str) -> Iterator[str]:
        """Yield the first line: the sizes, the inputs, and the size parameters."""
        sizes = ", ".join(map(self._declared, self._axes))
        graph = self._graph
        inputs = ", ".join(map(self._input, graph.inputs, graph.input_names))
        params = ", ".join(map(self.symbol, self._body_itself.size_params))
        yield f"body({sizes}; {inputs}; {params}) {{"

    def _declared(self, symbol: Symbol) -> str:
        """Write a size and its bounds, as `?k from 1 to 9`."""
        lower = "" if symbol.lower is None else f" from {symbol.lower}"
        upper = "" if symbol.upper is None else f" to {self._param(symbol.upper)}"
        return self._axes[symbol] + lower + upper + " stretches" * symbol.may_be_one

    def _input(self, value: Value, called: str) -> str:
        """Write an input, as `x of "own name": T from 0` for one that is 0 or more."""
        name, symbol = self._names[value], value._symbol
        own_name = "" if called == name else f" of {json.dumps(called)}"
        lower = None if symbol is None else symbol.lower
        least = "" if lower is None else f" from {lower}"
        return f"{name}{own_name}: {self._type(value.type)}{least}"


def _sizes(nodes: Iterable[Node]) -> Iterator[Dim]:
    """The symbolic sizes that the text of some nodes contains."""
    for node in nodes:
        shapes = [v.type.shape for v in node.outputs]
        guards = [(g.left, g.right) for g in node.guards]
        sizes = chain(*shapes, *guards, entries_of(node.params))
        yield from (n for n in sizes if isinstance(n, Dim))


def data_text(array: NDArray) -> str:
    """An array as text: its numbers, or its bytes if it is long or numbers lose detail.

    A complex number is written as two numbers.

    >>> data_text(np.array([0.5, -0.0], "float32")), data_text(np.array(1 - 2j))
    ('float32[2](0.5, -0.0)', 'complex128[](1.0, -2.0)')
    """
    head = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
    if array.size <= MOST_SHOWN:
        texts = list(map(str, array.ravel().view(real_dtype(array.dtype))))
        if from_texts(texts, array.dtype).tobytes() == array.tobytes():
            return f"{head}({', '.join(texts)})"
    return f'{head}("{array.tobytes().hex()}")'


def from_texts(texts: Sequence[str], dtype: DType) -> NDArray:
    """Make a vector from the texts of numbers; raises ValueError for other texts."""
    part = real_dtype(dtype)  # a complex number is written as two
    if part.kind == "b" and not {"True", "False"}.issuperset(texts):
        raise ValueError("only True and False are bools")
    reads: dict[str, Callable[[str], Any]] = {"b": "True".__eq__, "i": int, "u": int}
    read = reads.get(part.kind, float)
    return np.array([read(t) for t in texts], part).view(dtype)
