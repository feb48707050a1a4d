"""Bodies: the graphs inside the nodes of loops and branches."""

import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from graphc.errors import SourceLocation, graph_error, standing_at
from graphc.ir.graph.build import INPUT, body_input, set_lower_bound
from graphc.ir.graph.nodes import Graph, Node, Params, Value, is_literal, origins
from graphc.ir.graph.op import Opaque, rebuild, type_error
from graphc.ir.graph.replay import region_between, renewed, substituted, symbols_needed
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    bounds,
    named_axes,
    substitute,
    symbol_dim,
    symbols_in,
)
from graphc.ir.types import TensorType

StepResult = tuple[list[Value], list[Value]]  # carries after a step, and its outputs
StepFunction = Callable[[list[Value], list[Value]], StepResult]  # of carries and rows


@dataclass(frozen=True, eq=False)
class Body:
    """A closed graph: no value and no size in it belongs to the graph around it.

    Each of its sizes is one of `size_params`, the size of an axis of an input, or
    computed within the body.
    """

    inputs: tuple[Value, ...]
    size_params: tuple[Symbol, ...]
    outputs: tuple[Value, ...]

    @property
    def graph(self) -> Graph:
        """The body as a program whose outputs have no names."""
        return Graph.of(self.inputs, self.outputs)

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes of the body in topological order, without the inputs."""
        inputs = {v.node for v in self.inputs}
        return [n for n in ancestors(self.outputs) if n not in inputs]

    @cached_property
    def computed_sizes(self) -> set[Symbol]:
        """The sizes that the body computes, which differ from step to step."""
        known = {*axis_symbols(self.inputs), *self.size_params}
        return {s for node in self.nodes for s in symbols_needed(node)} - known

    @cached_property
    def runs_in_python(self) -> bool:
        """Whether sizes computed in the body keep it from being compiled as a whole."""
        return bool(self.computed_sizes) or any(map(runs_in_python, self.nodes))

    def call(self, values: Sequence[Value], size_args: Sequence[Size]) -> list[Value]:
        """Rebuild the outputs for these values and sizes."""
        new = dict(zip(self.inputs, values, strict=True))
        return substituted(
            self.outputs, new, self.sizes([v.type for v in values], size_args)
        )

    def sizes(
        self, types: Iterable[TensorType], size_args: Sequence[Size]
    ) -> dict[Symbol, Size]:
        """The replacements for sizes of the body, given inputs of these types."""
        replacements = dict(zip(self.size_params, size_args, strict=True))
        for value, type in zip(self.inputs, types, strict=True):
            for symbol, size in named_axes(value.type.shape, type.shape):
                replacements.setdefault(symbol, size)
        return replacements

    def with_outputs(self, outputs: Sequence[Value]) -> "Body | None":
        """The body with other outputs; None if these depend on more than its inputs."""
        changed = self.with_closed_outputs(outputs)
        if changed is self:
            return self
        if any(node.primitive is INPUT for node in changed.nodes):
            return None
        allowed = _symbols_made_in(changed) if self.computed_sizes else set[Symbol]()
        return changed if changed.computed_sizes <= allowed else None

    def with_closed_outputs(self, outputs: Sequence[Value]) -> "Body":
        """The body with other outputs, which depend on its inputs only.

        Returns the body itself where the outputs are its own.
        """
        if all(map(operator.is_, outputs, self.outputs)):
            return self
        return Body(self.inputs, self.size_params, tuple(outputs))

    def types(
        self, input_types: Sequence[TensorType], size_args: Sequence[Size]
    ) -> list[TensorType]:
        """The types of the outputs for inputs of these types. For type rules only."""
        for value, type in zip(self.inputs, input_types, strict=True):
            if value.dtype != type.dtype or value.type.rank != type.rank:
                raise type_error(f"the body takes {value.type}, not {type}")
        known = self.sizes(input_types, size_args)
        return [
            v.type.like([substitute(n, known) for n in v.type.shape])
            for v in self.outputs
        ]


class BodyCall(NamedTuple):
    """A body with the input types and size arguments that a node gives it."""

    body: Body
    types: Sequence[TensorType]
    size_args: Sequence[Size]

    @property
    def sizes(self) -> dict[Symbol, Size]:
        """The replacements for the sizes of the body."""
        return self.body.sizes(self.types, self.size_args)


def _symbols_made_in(body: Body) -> set[Symbol]:
    """The symbols that values of a body stand for, inputs included."""
    region = region_between(body.outputs, body.inputs)
    values = [*body.inputs, *(v for node in region for v in node.outputs)]
    return {v._symbol for v in values if v._symbol is not None}


def close_body(
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    op: str,
    own_size: Symbol | None = None,
    roots: Iterable[Node] = (),
) -> tuple[Body, list[Value], list[Size]]:
    """Close the graph between values: the body, its captures, and its size arguments.

    The first inputs of the body replace `inputs`, the others the captures. Sizes from
    outside become new symbols without an origin, with the same bounds.

    Values that depend on neither `inputs` nor `roots`, and do not have the size
    `own_size`, stay outside and are computed once. Raises GraphError if a size of the
    outputs depends on `inputs`, and if a size within does, except in a scan, which may
    run in Python.
    """
    region = region_between(outputs, inputs, roots)
    if own_size is not None:
        region = _with_sized(region, outputs, inputs, own_size)
        region = _with_transposes(region)
    beside = {other for node in region for other in node.primitive.beside(node)}
    region = sorted({*region, *beside}, key=lambda n: n.serial)
    inside, own_inputs = set(region), set(inputs)
    for node in region:
        if node.primitive.checks:
            raise graph_error(
                "a check cannot be made here",
                op=op,
                got=node.params["message"].content,
                hint="check the results or the arguments instead",
                where=node.place,
            )
        if op != "scan":
            _require_compiled(node, inside, own_inputs, op)
    for output in outputs:
        for value in (v for n in output.type.shape for v in origins(n)):
            if value.node in inside or value in own_inputs:
                raise graph_error(
                    "the result of a step has a size that depends on the step",
                    op=op,
                    got=str(output.type),
                    hint="pad it to a size that does not depend on the step",
                    where=output.node.place,
                )
    captures = dict.fromkeys(
        v
        for v in [*(v for n in region for v in n.inputs), *outputs]
        if v.node not in inside and v not in own_inputs and not is_literal(v)
    )
    return _closed_body(outputs, inputs, list(captures), region)


def _with_sized(
    region: list[Node], outputs: Sequence[Value], inputs: Sequence[Value], size: Symbol
) -> list[Node]:
    """Extend a region by nodes that need `size`, which only the inputs determine.

    The symbol is as new as the inputs, so only newer nodes can have it.
    """
    oldest = min(v.node.serial for v in inputs)
    new = ancestors(
        [v for v in outputs if v.node.serial > oldest],
        lambda node: [v for v in operands(node) if v.node.serial > oldest],
    )
    known = {*region, *(v.node for v in inputs)}
    sized = [n for n in new if n not in known and size in symbols_needed(n)]
    more = region_between(outputs, [v for n in sized for v in n.outputs])
    return sorted({*region, *sized, *more}, key=lambda n: n.serial)


def _with_transposes(region: Sequence[Node]) -> list[Node]:
    """Extend a region by the transposes it reads, which products need not copy."""
    inputs = {v.node for node in region for v in node.inputs}
    views = {node for node in inputs if node.primitive.layout}
    return sorted({*region, *views}, key=lambda n: n.serial)


def _require_compiled(
    node: Node, inside: set[Node], own_inputs: set[Value], op: str
) -> None:
    """Raise GraphError where a node of a body needs a size computed in that body."""
    for value in node.demands:
        if value.node in inside or value in own_inputs:
            raise graph_error(
                "a size in the body depends on values that change from step to step",
                op=op,
                got=f"{node.primitive.name} needs {value.symbol.name}",
                hint=value.node.primitive.size_remedy
                or "compute on the largest size and mask with gt.where",
                where=node.place,
            )
    if runs_in_python(node):
        raise graph_error(
            "a loop in the body runs in Python, as a size differs from step to step",
            op=op,
            got=node.primitive.name,
            hint="compute on the largest size and mask with gt.where",
            where=node.place,
        )


def runs_in_python(node: Node) -> bool:
    """Whether a node has a body that cannot be compiled as a whole."""
    if not node.primitive.may_have_bodies:
        return False
    return any(body.runs_in_python for body in bodies_of(node))


def _closed_body(
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    captures: list[Value],
    region: Sequence[Node],
) -> tuple[Body, list[Value], list[Size]]:
    outer_values = (*inputs, *captures)
    inside = {*region, *(v.node for v in inputs)}
    nodes = _nodes_of_body(outputs, outer_values, inside)
    late = _nodes_after_captures(nodes, captures)
    nodes.sort(key=lambda node: node in late)
    axes = axis_symbols(outer_values)
    size_arguments: dict[Symbol, None] = {}
    for node in nodes:
        outer = (s for s in symbols_needed(node) if not _is_computed_in(s, inside))
        size_arguments.update(dict.fromkeys(s for s in outer if s not in axes))
    params = _size_params({*axes, *size_arguments})
    new = dict(
        zip(
            outer_values,
            _inputs_of_body(outer_values, params, {*axes, *size_arguments}),
            strict=True,
        )
    )
    for old, inner in new.items():
        if old._symbol is not None:
            set_lower_bound(inner, old._symbol.lower)
    replacements = dict(new)
    for node in nodes:
        # A body without captures is as the user wrote it.
        place = node.place.plain if node in late else node.place
        fresh = renewed(node, replacements, place, params)
        replacements.update(zip(node.outputs, fresh.outputs, strict=True))
    body = Body(
        tuple(new.values()),
        tuple([params[s].symbols[0] for s in size_arguments]),
        tuple([replacements.get(v, v) for v in outputs]),
    )
    return body, captures, [symbol_dim(s) for s in size_arguments]


def _nodes_of_body(
    outputs: Sequence[Value], outer_values: Iterable[Value], inside: set[Node]
) -> list[Node]:
    """The nodes between values, and the literals that these nodes read."""
    known = set(outer_values)

    def edges(node: Node) -> list[Value]:
        needed = [*node.inputs, *(v for v in node.demands if v.node in inside)]
        return [v for v in needed if v not in known]

    return ancestors([v for v in outputs if v not in known], edges)


def _nodes_after_captures(
    nodes: Iterable[Node], captures: Iterable[Value]
) -> set[Node]:
    """The nodes that depend on captures."""
    taken, late = set(captures), set[Node]()
    for node in nodes:
        if any(v in taken or v.node in late for v in operands(node)):
            late.add(node)
    return late


def _is_computed_in(symbol: Symbol, inside: set[Node]) -> bool:
    """Whether one of the nodes in `inside` computes the size."""
    return isinstance(symbol.origin, Value) and symbol.origin.node in inside


def _size_params(symbols: Iterable[Symbol]) -> dict[Symbol, Dim]:
    """New symbols without an origin for `symbols` and the symbols of their bounds."""
    params: dict[Symbol, Dim] = {}
    for symbol in with_bounds(symbols):
        upper = symbol.upper
        if isinstance(upper, Dim):
            upper = substitute(upper, params)
        limits = symbol.lower, upper
        inner = Symbol(symbol.name, None, *limits, may_be_one=symbol.may_be_one)
        params[symbol] = symbol_dim(inner)
    return params


def with_bounds(symbols: Iterable[Symbol]) -> list[Symbol]:
    """The symbols and the symbols of their bounds, oldest first."""
    closed = set(symbols)
    stack = list(closed)
    while stack:
        upper = stack.pop().upper
        new = set(symbols_in(upper)) - closed
        closed |= new
        stack += new
    return sorted(closed, key=lambda s: s.serial)


def _inputs_of_body(
    outer_values: Iterable[Value],
    params: Mapping[Symbol, Dim],
    known: Container[Symbol],
) -> list[Value]:
    """Make variables, with new sizes, for values from outside.

    A formula with symbols that the body does not know becomes a size of its own.
    """
    others: dict[Dim, Dim] = {}

    def size(n: Size) -> Size:
        if isinstance(n, int):
            return n
        if all(s in known for s in n.symbols):
            return substitute(n, params)
        if n not in others:
            others[n] = symbol_dim(Symbol(n.symbols[0].name, None, *bounds(n)))
        return others[n]

    return [
        body_input(
            v.name or v.node.primitive.name,
            TensorType(v.dtype, tuple(map(size, v.type.shape)), v.type.weak),
        )
        for v in outer_values
    ]


def axis_symbols(inputs: Iterable[Value]) -> set[Symbol]:
    """The symbols that are by themselves the size of an axis."""
    shapes = [v.type.shape for v in inputs]
    return {symbol for shape in shapes for symbol, _ in named_axes(shape, shape)}


def with_inner_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes in order, each before the nodes of its bodies."""
    stack = list(nodes)[::-1]
    if not any([p.may_have_bodies for p in {node.primitive for node in stack}]):
        yield from reversed(stack)
        return
    while stack:
        node = stack.pop()
        yield node
        for body in reversed(bodies_of(node)):
            stack += reversed(body.nodes)


def sized_inner_nodes(
    nodes: Iterable[Node],
) -> Iterator[tuple[Node, Mapping[Symbol, Size]]]:
    """Like `with_inner_nodes`, but with the replacements for the sizes of each body."""
    none: Mapping[Symbol, Size] = {}
    stack = [(node, none) for node in nodes][::-1]
    while stack:
        node, outer = stack.pop()
        yield node, outer
        for call in reversed([*node.primitive.body_calls(node)]):
            sizes = {s: substitute(n, outer) for s, n in call.sizes.items()}
            stack += [(n, sizes) for n in reversed(call.body.nodes)]


def bodies_in(nodes: Iterable[Node]) -> Iterator[Body]:
    """Yield the bodies of nodes, each before the bodies inside it."""
    for node in with_inner_nodes(nodes):
        yield from bodies_of(node)


def change_bodies(params: Params, make: Callable[[Body], Body]) -> dict[str, Any]:
    """Apply `make` to the bodies among the params."""

    def one(param: object) -> object:
        if not isinstance(param, Opaque):
            return param
        content = param.content
        if isinstance(content, Body):
            new: Any = make(content)
        elif isinstance(content, tuple) and any(isinstance(c, Body) for c in content):
            new = tuple(map(make, content))
            new = content if all(map(operator.is_, new, content)) else new
        else:
            return param
        return param if new is content else Opaque(param.name, new)

    return {name: one(param) for name, param in params.items()}


def with_new_bodies(
    node: Node, make: Callable[[Body], Body], place: SourceLocation
) -> Node:
    """Rebuild a node with `make` applied to its bodies, for the user's line `place`.

    Returns the node itself where no body changes.
    """
    params = change_bodies(node.params, make)
    if all(params[name] is param for name, param in node.params.items()):
        return node
    with standing_at(place):
        return rebuild(node, node.inputs, params)


def has_bodies(node: Node) -> bool:
    """Whether a node has bodies."""
    return node.primitive.may_have_bodies and bool(bodies_of(node))


def bodies_of(node: Node) -> list[Body]:
    """The bodies of a node."""
    if not node.primitive.may_have_bodies:  # most nodes
        return []
    return [call.body for call in node.primitive.body_calls(node)]
