"""Nodes and values of a plan as records."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from graphc.errors import printable, shortened
from graphc.ir.graph.bodies import bodies_of
from graphc.ir.graph.build import CONSTANT, SIZE_OP, Data
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.params.kinds import Text
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import TensorType
from graphc.show.records import NodeRecord, ValueRecord
from graphc.show.tables import Table, Tables

LONGEST = 60  # characters of a param, of a literal and of a name


class Nodes:
    """The tables of nodes and values of one plan."""

    def __init__(self, tables: Tables, names: Mapping[Value, str]) -> None:
        self.tables = tables
        tables.value = self.value
        self.nodes: Table[NodeRecord] = Table[NodeRecord]()
        self.values: Table[ValueRecord] = Table[ValueRecord]()
        self._names = names

    def value(self, value: Value) -> int:
        """Return the place of a value, whether or not a node of the plan makes it."""
        known = self.values.find(value)
        if known is not None:
            return known
        type, node = self.tables.type(value.type), value.node
        literal = self.literal(value) if node.primitive.inline else ""
        record = ValueRecord(self.name(value), type, None, literal)
        return self.values.add(value, record)

    def name(self, value: Value) -> str:
        """Return the name of a value in the emitted text, or else the user's name."""
        name = self._names.get(value) or value.name or op_name(value.node)
        return shortened(printable(name), LONGEST)

    def literal(self, value: Value) -> str:
        """Return the text of a value that programs write as a literal."""
        return shortened(literal_text(value), LONGEST)

    def add(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """Record nodes and those inside of them, and return the places of `nodes`.

        Literals have no records.
        """
        shown = [node for node in nodes if not node.primitive.inline]
        stack = shown[::-1]
        while stack:
            node = stack[-1]
            self.enter(node)
            inner = [body.nodes for body in bodies_of(node)]
            waiting = [n for body in inner for n in _unrecorded(self.nodes, body)]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if self.nodes.find(node) is None:
                self._add(node, inner)
        return tuple(self._places(shown))

    def enter(self, node: Node) -> None:
        """Record the sizes that belong to the graphs inside of a node."""
        primitive = node.primitive
        for call in primitive.body_calls(node) if primitive.may_have_bodies else ():
            self.tables.enter(call)

    def _places(self, nodes: Iterable[Node]) -> Iterator[int]:
        for node in nodes:
            place = self.nodes.find(node)
            if place is not None:
                yield place

    def _add(self, node: Node, inner: list[list[Node]]) -> None:
        place = self.nodes.reserve(node)
        inputs = tuple([self.value(v) for v in node.inputs])
        outputs = []
        for value in node.outputs:
            outputs.append(self.value(value))
            record = self.values.records[outputs[-1]]
            self.values.records[outputs[-1]] = ValueRecord(
                record.name, record.type, place
            )
        self.nodes.records[place] = NodeRecord(
            op_name(node),
            self.tables.line(node.place),
            inputs,
            tuple(outputs),
            params_text(node.params),
            tuple([tuple(self._places(body)) for body in inner]),
        )


def op_name(node: Node) -> str:
    """Return the name of an op as printed graphs have it."""
    return node.primitive.name.strip("_")


def _unrecorded(table: Table[NodeRecord], nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that have no record yet, the last one first."""
    unrecorded = [n for n in nodes if not n.primitive.inline and table.find(n) is None]
    return unrecorded[::-1]


def literal_text(value: Value) -> str:
    """Return the text of a value that programs write as a literal."""
    node = value.node
    if node.primitive is SIZE_OP:
        return str(node.params["size"])
    if node.primitive is CONSTANT:
        array = node.params["data"].array
        if array.ndim == 0:
            return str(array)
        return f"{array.dtype.name}{list(array.shape)}"
    return node.primitive.name


def params_text(params: Params) -> str:
    """Write params for people to read, without those that are arrays or functions."""
    parts = (f"{k}={param_text(p)}" for k, p in params.items() if _is_shown(p))
    return shortened(printable(", ".join(parts)), LONGEST)


def _is_shown(param: object) -> bool:
    return param is not None and not isinstance(param, (Opaque, Data))


def param_text(param: object) -> str:
    """Write one param as text."""
    match param:
        case Dim() | TensorType():
            return str(param)
        case np.dtype():
            return str(param.name)
        case Text():
            return repr(param.content)
        case tuple():
            inner = ", ".join([param_text(p) for p in param[:6]])
            return f"({inner}{', ...' if param[6:] else ''})"
    return repr(param)
