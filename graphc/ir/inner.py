"""Graphs inside of nodes: the bodies of loops and branches."""

import operator
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakSet

from graphc.errors import graph_error
from graphc.ir.build import INPUT, SIZE_OP, variable
from graphc.ir.dims import Dim, Size, Symbol, substitute, symbol_dim
from graphc.ir.graph import Node, Params, Value, origins
from graphc.ir.op import Opaque, type_error
from graphc.ir.replay import region_between, replayed
from graphc.ir.types import TensorType, is_integer
from graphc.ir.walk import ancestors, operands

OF_BODIES: WeakSet[Node] = WeakSet()  # the variables that bodies were traced with


@dataclass(frozen=True, eq=False)
class Inner:
    """A graph of its own: nothing in it reaches out but through `inputs`.

    `symbols` are sizes that its inputs' shapes do not tell; the node gives them.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    symbols: tuple[Symbol, ...]

    @cached_property
    def nodes(self) -> list[Node]:
        """Its nodes in topological order, without the inputs."""
        given = {v.node for v in self.inputs}
        known = {*_told(self.inputs), *self.symbols}

        nodes = ancestors(self.outputs, lambda node: _operands_within(node, known))
        return [n for n in nodes if n not in given]

    @cached_property
    def computed(self) -> set[Symbol]:
        """The sizes that are computed within, which differ from step to step."""
        known = {*_told(self.inputs), *self.symbols}
        return {s for node in self.nodes for s in _symbols(node)} - known

    @cached_property
    def in_python(self) -> bool:
        """Whether it cannot be compiled as a whole, for such sizes in it."""
        return bool(self.computed) or any(map(runs_in_python, self.nodes))

    def applied(
        self, values: Sequence[Value], sizes: Sequence[Size] | None = None
    ) -> list[Value]:
        """The outputs, of other values; of other sizes, too, where these are given."""
        new = dict(zip(self.inputs, values, strict=True))
        if sizes is None:
            region = region_between(self.outputs, self.inputs)
            return replayed(self.outputs, new, region)
        known = self.known([v.type for v in values], sizes)
        return resized_too(self.outputs, new, known)

    def known(
        self, given: Iterable[TensorType], sizes: Sequence[Size]
    ) -> dict[Symbol, Size]:
        """What the sizes within are for inputs of these types, and `sizes`."""
        known = dict(zip(self.symbols, sizes, strict=True))
        for value, type in zip(self.inputs, given, strict=True):
            for n, m in zip(value.type.shape, type.shape, strict=True):
                if isinstance(n, Dim) and n is symbol_dim(n.symbols[0]):
                    known.setdefault(n.symbols[0], m)
        return known

    def changed(self, outputs: Sequence[Value]) -> "Inner | None":
        """With other outputs of its inputs; None where they need what is not given."""
        made = Inner(self.inputs, tuple(outputs), self.symbols)
        if any(node.primitive is INPUT for node in made.nodes):
            return None
        if self.computed:
            return made if made.computed <= _made_in(made) else None
        return None if made.computed else made

    def types(
        self, given: Sequence[TensorType], sizes: Sequence[Size]
    ) -> list[TensorType]:
        """The types of the outputs for inputs of these types. In a type rule only."""
        for value, type in zip(self.inputs, given, strict=True):
            if value.dtype != type.dtype or value.type.rank != type.rank:
                raise type_error(f"the body takes {value.type}, not {type}")
        known = self.known(given, sizes)
        return [v.type.like(_sized(v.type.shape, known)) for v in self.outputs]


def _sizes_taken(node: Node) -> tuple[Value, ...]:
    """The integers that a node takes as sizes."""
    return node.inputs if node.primitive is SIZE_OP else node.demands


def _operands_within(node: Node, known: Container[Symbol]) -> list[Value]:
    """What a node of a body needs; what gave `known` sizes is no part of that."""
    inputs = () if node.primitive is SIZE_OP else node.inputs
    return [*inputs, *(v for v in _sizes_taken(node) if v.symbol not in known)]


def resized_too(
    outputs: Sequence[Value], new: Mapping[Value, Value], sizes: Mapping[Symbol, Size]
) -> list[Value]:
    """Values of a graph, where others and other sizes stand for some."""
    return replayed(outputs, new, region_resized(outputs, new, sizes), sizes)


def region_resized(
    outputs: Sequence[Value], new: Mapping[Value, Value], sizes: Mapping[Symbol, Size]
) -> list[Node]:
    """The nodes that are others where values and sizes are, in topological order.

    What rewrites made in a body of a size alone depends on none of its inputs.
    """

    def edges(node: Node) -> list[Value]:
        return [v for v in _operands_within(node, sizes) if v not in new]

    region: dict[Node, None] = {}
    for node in ancestors([v for v in outputs if v not in new], edges):
        behind = any(v in new or v.node in region for v in operands(node))
        sized = any(v.symbol in sizes for v in _sizes_taken(node))
        if behind or sized or not sizes.keys().isdisjoint(_symbols(node)):
            region[node] = None
    return list(region)


def _sized(shape: Iterable[Size], known: Mapping[Symbol, Size]) -> tuple[Size, ...]:
    return tuple(substitute(n, known) if isinstance(n, Dim) else n for n in shape)


def _made_in(inner: Inner) -> set[Symbol]:
    """The symbols of values of a graph, inputs included."""
    region = region_between(inner.outputs, inner.inputs)
    values = [*inner.inputs, *(v for node in region for v in node.outputs)]
    return {v._symbol for v in values if v._symbol is not None}


def enclosed(
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    op: str,
    own_size: Symbol | None = None,
) -> tuple[Inner, list[Value], list[Size]]:
    """The graph between values as one of its own; what it takes from outside; sizes.

    What does not depend on `inputs`, nor has the size that is their own, stays outside:
    it is computed once. Raises GraphError where a size of the outputs depends on
    `inputs`; and where one within does, unless it is of a scan: that may run in Python.
    """
    region = region_between(outputs, inputs)
    if own_size is not None:
        region = _with_sized(region, outputs, inputs, own_size)
        region = _with_transposes(region)
    inside, own = set(region), set(inputs)
    for node in region:
        if node.primitive.name == "assert":
            raise graph_error(
                "a check cannot be made here",
                op=op,
                got=node.params["message"].content,
                hint="check what comes out, or what goes in",
                where=node.place,
            )
        if op != "scan":
            _require_compiled(node, inside, own, op)
    for output in outputs:
        for value in (v for n in output.type.shape for v in origins(n)):
            if value.node in inside or value in own:
                raise graph_error(
                    "what a step gives has a size that depends on the step",
                    op=op,
                    got=str(output.type),
                    hint="pad it to a size that does not",
                    where=output.node.place,
                )
    captured = dict.fromkeys(
        v
        for v in [*(v for n in region for v in n.inputs), *outputs]
        if v.node not in inside and v not in own and not _is_literal(v)
    )
    return _closed(outputs, inputs, list(captured), region)


def _with_sized(
    region: list[Node], outputs: Sequence[Value], inputs: Sequence[Value], size: Symbol
) -> list[Node]:
    """A region, and what has a size that only its inputs tell.

    The symbol is as new as they are, and so is what has it.
    """
    oldest = min(v.node.serial for v in inputs)
    new = ancestors(
        [v for v in outputs if v.node.serial > oldest],
        lambda node: [v for v in operands(node) if v.node.serial > oldest],
    )
    known = {*region, *(v.node for v in inputs)}
    sized = [n for n in new if n not in known and size in _symbols(n)]
    more = region_between(outputs, [v for n in sized for v in n.outputs])
    return sorted({*region, *sized, *more}, key=lambda n: n.serial)


def _with_transposes(region: Sequence[Node]) -> list[Node]:
    """A region, and the transposes that it takes: products need no copies of these."""
    inputs = {v.node for node in region for v in node.inputs}
    views = {node for node in inputs if node.primitive.name == "transpose"}
    return sorted({*region, *views}, key=lambda n: n.serial)


def _require_compiled(
    node: Node, inside: set[Node], own: set[Value], op: str
) -> None:
    """Raise GraphError where a node of a body needs a size that is computed within."""
    for value in node.demands:
        if value.node in inside or value in own:
            raise graph_error(
                "a size within depends on what changes from step to step",
                op=op,
                got=f"{node.primitive.name} needs {value.symbol.name}",
                hint=value.node.primitive.size_remedy
                or "compute on the largest size and mask with gt.where",
                where=node.place,
            )
    if runs_in_python(node):
        raise graph_error(
            "a loop within runs in Python, for a size that differs from step to step",
            op=op,
            got=node.primitive.name,
            hint="compute on the largest size and mask with gt.where",
            where=node.place,
        )


def runs_in_python(node: Node) -> bool:
    """Whether a node has a graph inside of it that cannot be compiled as a whole."""
    return any(inner.in_python for inner in inners_of(node))


def _is_literal(value: Value) -> bool:
    return value.node.primitive.inline and not value.node.inputs


def _closed(
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    captured: list[Value],
    region: Sequence[Node],
) -> tuple[Inner, list[Value], list[Size]]:
    new = {v: variable(v.name or v.node.primitive.name, v.type) for v in captured}
    made = replayed(outputs, new, region)
    given = (*inputs, *new.values())
    told = _told(given)
    within = _nodes_of_body(made, given)
    own = {*inputs, *(v for node in within for v in node.outputs)}
    asked: dict[Symbol, None] = {}
    for node in within:
        asked.update(dict.fromkeys(s for s in _symbols(node) if s not in told))
    symbols = tuple(s for s in asked if s.origin not in own)
    # A captured value that is a size too stands for the one outside.
    outside = {inside.symbol: v.symbol for v, inside in new.items() if _is_size(v)}
    sizes: list[Size] = [symbol_dim(outside.get(s, s)) for s in symbols]
    return Inner(given, tuple(made), symbols), captured, sizes


def _nodes_of_body(outputs: Sequence[Value], given: Sequence[Value]) -> list[Node]:
    """The nodes between values, and the literals that they take."""
    inside = {v.node for v in given}.union(region_between(outputs, given))

    def edges(node: Node) -> list[Value]:
        return [*node.inputs, *(v for v in node.demands if v.node in inside)]

    first = {v.node for v in given}
    return [n for n in ancestors(outputs, edges) if n not in first]


def _told(inputs: Iterable[Value]) -> set[Symbol]:
    """The sizes that shapes tell."""
    return {
        n.symbols[0]
        for v in inputs
        for n in v.type.shape
        if isinstance(n, Dim) and n is symbol_dim(n.symbols[0])
    }


def _is_size(value: Value) -> bool:
    return not value.type.rank and is_integer(value.dtype)


def _symbols(node: Node) -> list[Symbol]:
    """The sizes that a node needs to know when it is compiled."""
    sizes: list[object] = [n for v in node.outputs for n in v.type.shape]
    for param in node.params.values():
        sizes += param if isinstance(param, tuple) else [param]
    for guard in node.guards:
        sizes += [guard.left, guard.right]
    symbols = [s for n in sizes if isinstance(n, Dim) for s in n.symbols]
    if node.primitive.demanding:
        return symbols
    return [s for s in symbols if s.origin is None]


def within(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, in order, each before those of the graphs inside of it."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        for inner in reversed(inners_of(node)):
            stack += reversed(inner.nodes)


def bodies(nodes: Iterable[Node]) -> Iterator[Inner]:
    """The graphs inside of nodes, each before those inside of it."""
    for node in within(nodes):
        yield from inners_of(node)


def with_bodies(params: Params, make: Callable[[Inner], Inner]) -> dict[str, Any]:
    """Params with `make` of the graphs in them."""

    def one(param: Any) -> Any:
        content = param.content if isinstance(param, Opaque) else None
        if isinstance(content, Inner):
            new: Any = make(content)
        elif isinstance(content, tuple) and any(isinstance(c, Inner) for c in content):
            new = tuple(map(make, content))
            new = content if all(map(operator.is_, new, content)) else new
        else:
            return param
        return param if new is content else Opaque(param.name, new)

    return {name: one(param) for name, param in params.items()}


def has_inner(node: Node) -> bool:
    """Whether there are graphs inside of a node."""
    return bool(inners_of(node))


def inners_of(node: Node) -> list[Inner]:
    """The graphs inside of a node, without those inside of them."""
    found: list[Inner] = []
    for param in node.params.values():
        if isinstance(param, Opaque):
            parts = param.content
            listed = parts if isinstance(parts, tuple) else (parts,)
            found += [part for part in listed if isinstance(part, Inner)]
    return found
