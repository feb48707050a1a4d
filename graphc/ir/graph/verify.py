"""The checker of the IR: it infers every node again and compares it with its record."""

from collections.abc import Hashable, Iterable

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.bodies import Body, axis_symbols, bodies_in
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.following import follow_sizes
from graphc.ir.graph.nodes import Graph, Guard, Node, Value, origins
from graphc.ir.graph.op import PRIMITIVES, infer_types
from graphc.ir.graph.replay import symbols_of
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.types import TensorType, same_size


def verify(graph: Graph) -> None:
    """Check a graph: names, order, params, and the types and guards of every node.

    The bodies of nodes are checked too, and must be closed: no value and no size in
    them belongs to the graph around them. Passes call this on their results. Raises
    GraphError that names the node, what it holds, what it should hold, and the user's
    line.
    """
    _verify_signature(graph)
    nodes = ancestors((*graph.inputs, *graph.outputs))
    _verify_nodes(nodes, graph.inputs, "graph")
    for body in bodies_in(nodes):
        _require_distinct("input of a body", body.inputs)
        input_nodes = [v.node for v in body.inputs]
        _verify_nodes([*input_nodes, *body.nodes], body.inputs, "body")
        verify_closed(body)


def _verify_nodes(nodes: Iterable[Node], inputs: Iterable[Value], what: str) -> None:
    input_nodes = {v.node for v in inputs}
    for node in nodes:
        _verify_order(node)
        _verify_params(node)
        _verify_types(node)
        if node.primitive is INPUT and node not in input_nodes:
            name = node.outputs[0].name
            raise _wrong(node, f"the variable {name!r} is not an input of the {what}")


def verify_closed(body: Body) -> None:
    """Require each size to be a parameter, an axis of an input, or computed within."""
    known = {*axis_symbols(body.inputs), *body.size_params}
    inside = {*(v.node for v in body.inputs), *body.nodes}
    for node in inside:
        for symbol in symbols_of(node):
            origin = symbol.origin
            computed = isinstance(origin, Value) and origin.node in inside
            if not (computed or symbol in known or node.primitive.driven):
                problem = f"the size {symbol.name} in a body is not the body's own"
                raise _wrong(node, problem, _types_text(v.type for v in node.outputs))


def _wrong(node: Node, problem: str, got: str = "", expected: str = "") -> GraphError:
    name = node.primitive.name
    return graph_error(
        problem, op=f"verify {name}", got=got, expected=expected, where=node.place
    )


def _verify_signature(graph: Graph) -> None:
    for what, values, names in (
        ("input", graph.inputs, graph.input_names),
        ("output", graph.outputs, graph.output_names),
    ):
        if len(values) != len(names):
            problem = f"{len(values)} {what}s have {len(names)} names"
            raise graph_error(problem, op="verify")
    for value in graph.inputs:
        if value.node.primitive is not INPUT:
            raise _wrong(value.node, "an input of the graph is not a variable")
        if any(map(origins, value.type.shape)):
            problem = "an axis of a variable has a size that is a value"
            raise _wrong(value.node, problem, str(value.type))
    _require_distinct("variable", graph.inputs)
    _require_distinct("input name", graph.input_names)


def _require_distinct(what: str, items: tuple[Hashable, ...]) -> None:
    if len(set(items)) < len(items):
        shown = ", ".join(map(str, items))
        raise graph_error(f"the same {what} is given twice", op="verify", got=shown)


def _verify_order(node: Node) -> None:
    """Require that operands are older than the node and outputs of their own nodes."""
    if PRIMITIVES.get(node.primitive.name) is not node.primitive:
        raise _wrong(node, "its primitive is not a registered one")
    for value in operands(node):
        if value.node.serial >= node.serial:
            raise _wrong(node, f"its operand {value!r} is not older than the node")
        if not any(value is output for output in value.node.outputs):
            raise _wrong(node, f"its operand {value!r} is not an output of its node")


def _verify_params(node: Node) -> None:
    """Require that params are of their kinds, and in the order of the type rule."""
    params = dict(node.params)
    try:
        expected = node.primitive.kinds.checked(params, node.inputs)
    except GraphError as error:
        problem = error.args[0].split("\n  at ")[0]
        raise _wrong(node, f"its params are wrong: {problem}") from None
    if tuple(params) != tuple(expected):
        got, needed = ", ".join(params), ", ".join(expected)
        raise _wrong(node, "its params are not those of the rule", got, needed)


def _verify_types(node: Node) -> None:
    """Require that the type rule gives the recorded types and guards again."""
    try:
        types, guards = infer_types(node.primitive, node.inputs, node.params)
    except GraphError as error:
        problem = error.args[0].split("\n  at ")[0]
        raise _wrong(node, f"it no longer fits its inputs: {problem}") from None
    recorded = tuple(v.type for v in node.outputs)
    if len(types) != len(recorded) or not all(map(TensorType.same, types, recorded)):
        problem = "the recorded type does not follow from the inputs"
        raise _wrong(node, problem, _types_text(recorded), _types_text(types))
    if node.primitive.interned and node.outputs:
        sizes = follow_sizes(node.primitive, node.inputs, node.params, types[0])
        guards += sizes.guards
    is_same = all(map(_is_same_guard, guards, node.guards))
    if len(guards) != len(node.guards) or not is_same:
        problem = "the recorded guards do not follow from the inputs"
        raise _wrong(node, problem, _guards_text(node.guards), _guards_text(guards))


def _is_same_guard(a: Guard, b: Guard) -> bool:
    alike = same_size(a.left, b.left) and same_size(a.right, b.right)
    return alike and a.relation == b.relation and a.reason == b.reason


def _types_text(types: Iterable[TensorType]) -> str:
    return ", ".join(map(str, types))


def _guards_text(guards: Iterable[Guard]) -> str:
    shown = [f"{g} ({g.reason})" for g in guards]
    return "; ".join(shown) or "none"
