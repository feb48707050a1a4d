"""Equal carries of a tiled loop become one.

Reductions of one loop may carry the same: the largest element so far, for a maximum and
for each sum of exponentials.
"""

from collections.abc import Sequence

from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Opaque, rebuild
from graphc.ir.graph.replay import region_between, replayed


def without_equal_carries(node: Node) -> list[Value]:
    """The outputs of a tiled loop, of one that carries no value twice."""
    params, body, count = (
        node.params,
        node.params["body"].content,
        node.params["carries"],
    )
    same, outputs = _classes(body, node.inputs[:count])
    places = [i for i in range(count) if same[i] == i]
    if len(places) == count:
        return list(node.outputs)
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
    """The carries that are kept, and what comes after the carries."""
    return (*(values[i] for i in places), *values[count:])


def _classes(body: Body, first: Sequence[Value]) -> tuple[list[int], list[Value]]:
    """For each carry the first one that equals it, and the outputs in terms of these.

    Carries with one init are taken for equal until their steps differ.
    """
    known: dict[Value, int] = {}
    same = [known.setdefault(v, i) for i, v in enumerate(first)]
    while True:
        pairs = enumerate(same)
        new = {body.inputs[i]: body.inputs[j] for i, j in pairs if i != j}
        region = region_between(body.outputs, new)
        outputs = replayed(body.outputs, new, region)
        groups: dict[tuple[int, Value], int] = {}
        now = [groups.setdefault((j, outputs[i]), i) for i, j in enumerate(same)]
        if now == same:
            return same, outputs
        same = now
