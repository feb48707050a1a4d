"""`check=True`: an index that leaves its axis fails a check.

A body is compiled as a whole: it carries along whether its checks held, and the loop or
branch raises when it is done (see `checks`). Outside of bodies, the checks come after a
result, where they hide nothing from rules.
"""

from collections.abc import Sequence
from dataclasses import replace

from graphc.control.scan import OPTIONS, SCAN, StepResult, parts_of, run_scan
from graphc.control.switch import SWITCH, Branch, run_switch
from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import exchange
from graphc.ir.graph.walk import ancestors
from graphc.ops.common.conditions import BOUNDS
from graphc.ops.effects.assertions import asserted


def watched(graph: Graph) -> Graph:
    """The graph with a check per index that depends on data.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x, i = gt.vector("x"), gt.vector("i", "int64")
    >>> total, _ = gt.scan(lambda c, k: (c + x[k], None), 0.0, i)
    >>> f = graphc.function([x, i], total, backend="numpy", check=True)
    >>> float(f(np.ones(3, "float32"), np.array([0, 2])))
    2.0
    """
    outputs = _watched(graph.outputs, inside=False)
    for node in ancestors(outputs):
        if node.primitive in BOUNDS:
            with standing_at(node.place.plain):
                outputs[0] = _checked(node, outputs[0])
    return replace(graph, outputs=tuple(outputs))


def _watched(outputs: Sequence[Value], inside: bool) -> list[Value]:
    def checked(node: Node, place: SourceLocation) -> Sequence[Value]:
        with standing_at(place.plain):
            return _with_checks(node, inside)

    replacements: dict[Value, Value] = {}
    exchange(ancestors(outputs), replacements, checked)
    return [replacements.get(v, v) for v in outputs]


def _with_checks(node: Node, inside: bool) -> Sequence[Value]:
    """The outputs of a node, with the checks that it needs in a body."""
    if node.primitive is SCAN:
        return _loop(node)
    if node.primitive is SWITCH:
        return _switch(node)
    if not inside or node.primitive not in BOUNDS:
        return node.outputs
    return [_checked(node, v) for v in node.outputs]


def _checked(node: Node, value: Value) -> Value:
    """A value, with a check that the indices of a node are in bounds."""
    conditions, kind = BOUNDS.rules[node.primitive]
    for condition, message in conditions(node):
        value = asserted(value, condition, message, kind)
    return value


def _body(body: Body) -> Body | None:
    """A body with its checks; None where there are none."""
    outputs = tuple(_watched(body.outputs, inside=True))
    same = all(a is b for a, b in zip(outputs, body.outputs, strict=True))
    return None if same else Body(body.inputs, body.size_params, outputs)


def _loop(node: Node) -> Sequence[Value]:
    params = node.params
    body = _body(params["body"].content)
    if body is None:
        return node.outputs
    parts = parts_of(node.inputs, params)

    def step(carry: list[Value], row: list[Value]) -> StepResult:
        outputs = body.call([*carry, *row, *parts.rest], params["sizes"])
        return outputs[: len(carry)], outputs[len(carry) :]

    ends, stacked = run_scan(
        step,
        parts.first,
        parts.rows,
        params["length"],
        params["reverse"],
        count=parts.limit,
        going=parts.going,
        **{name: params[name] for name in OPTIONS},
    )
    return [*ends, *stacked]


def _switch(node: Node) -> Sequence[Value]:
    bodies = [(_body(old), old) for old in node.params["branches"].content]
    if not any(new for new, _ in bodies):
        return node.outputs
    index, *values = node.inputs

    def branch(body: Body) -> Branch:
        return lambda taken: body.call(taken, node.params["sizes"])

    return run_switch(index, [branch(new or old) for new, old in bodies], values)
