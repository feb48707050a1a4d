"""Checks within loops and branches, which carry along whether the checks held.

The loop or branch raises when it is done, see `control.checks`.
"""

from collections.abc import Callable, Sequence

from graphc.control.scan import OPTIONS, SCAN, run_scan, scan_inputs
from graphc.control.switch import Branch, run_switch
from graphc.ir.graph.bodies import Body, BodyCall, StepResult
from graphc.ir.graph.nodes import Node, Value


def with_checked_bodies(
    node: Node, checked: Callable[[BodyCall], Body]
) -> Sequence[Value]:
    """Rebuild a loop or branch with `checked` bodies.

    `checked` is to return a body without checks as the same object.
    """
    calls = node.primitive.body_calls(node)
    bodies = [checked(call) for call in calls]
    if all(new is call.body for new, call in zip(bodies, calls, strict=True)):
        return node.outputs
    if node.primitive is SCAN:
        return _rebuilt_loop(node, bodies[0])
    index, *values = node.inputs

    def branch(body: Body) -> Branch:
        return lambda arguments: body.call(arguments, node.params["sizes"])

    return run_switch(index, [branch(body) for body in bodies], values)


def _rebuilt_loop(node: Node, body: Body) -> Sequence[Value]:
    params = node.params
    parts = scan_inputs(node.inputs, params)

    def step(carry: list[Value], row: list[Value]) -> StepResult:
        outputs = body.call([*carry, *row, *parts.captures], params["sizes"])
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
