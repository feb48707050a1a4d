"""Equal carries of a tiled loop become one.

Reductions in one loop may carry the same value: the largest element so far is carried
for a maximum, and for each sum of exponentials.
"""

from collections.abc import Sequence

from graphc.control.carries import indices_of_equal
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Opaque, rebuild
from graphc.ir.graph.replay import rebuilt


def without_equal_carries(node: Node) -> list[Value]:
    """Rebuild a tiled loop so that it carries no value twice; return its outputs."""
    params, body, count = (
        node.params,
        node.params["body"].content,
        node.params["carries"],
    )
    first = node.inputs[:count]
    same = indices_of_equal(first, lambda same: _outputs_if_equal(body, same)[:count])
    places = [i for i in range(count) if same[i] == i]
    if len(places) == count:
        return list(node.outputs)
    outputs = _outputs_if_equal(body, same)
    smaller = Body(
        _keep_carries(body.inputs, places, count),
        body.size_params,
        _keep_carries(outputs, places, count),
    )
    changed = {"body": Opaque("body", smaller), "carries": len(places)}
    inputs = _keep_carries(node.inputs, places, count)
    fresh = rebuild(node, inputs, {**params, **changed})
    ends = [fresh.outputs[places.index(i)] for i in same]
    return [*ends, *fresh.outputs[len(places) :]]


def _keep_carries(
    values: Sequence[Value], places: Sequence[int], count: int
) -> tuple[Value, ...]:
    """Select the carries that are kept, and what comes after the carries."""
    return (*(values[i] for i in places), *values[count:])


def _outputs_if_equal(body: Body, same: Sequence[int]) -> list[Value]:
    """Return the outputs of a body in which each carry is the one that it equals."""
    pairs = enumerate(same)
    new = {body.inputs[i]: body.inputs[j] for i, j in pairs if i != j}
    return rebuilt(body.outputs, new)
