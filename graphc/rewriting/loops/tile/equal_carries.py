"""Equal carries of a tiled loop become one.

Reductions in one loop may carry the same value: the largest element so far is carried
for a maximum, and for each sum of exponentials.
"""

from collections.abc import Sequence

from graphc.control.carries import equal_carries
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
    same = equal_carries(first, lambda same: _outputs_of_equal(body, same)[:count])
    places = [i for i in range(count) if same[i] == i]
    if len(places) == count:
        return list(node.outputs)
    outputs = _outputs_of_equal(body, same)
    smaller = Body(
        _chosen(body.inputs, places, count),
        body.size_params,
        _chosen(outputs, places, count),
    )
    changed = {"body": Opaque("body", smaller), "carries": len(places)}
    fresh = rebuild(node, _chosen(node.inputs, places, count), {**params, **changed})
    ends = [fresh.outputs[places.index(i)] for i in same]
    return [*ends, *fresh.outputs[len(places) :]]


def _chosen(
    values: Sequence[Value], places: Sequence[int], count: int
) -> tuple[Value, ...]:
    """Select the carries that are kept, and what comes after the carries."""
    return (*(values[i] for i in places), *values[count:])


def _outputs_of_equal(body: Body, same: Sequence[int]) -> list[Value]:
    """Return the outputs of a body in which each carry is the one that it equals."""
    pairs = enumerate(same)
    new = {body.inputs[i]: body.inputs[j] for i, j in pairs if i != j}
    return rebuilt(body.outputs, new)
