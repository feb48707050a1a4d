"""Axes that share capacities: how long they may be, by what calls take."""

from collections.abc import Sequence

from graphc.analysis.cost import DeviceCosts
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import Symbol
from graphc.transform.padding.call_time import call_seconds
from graphc.transform.policies import Pad, Policy
from graphc.transform.tied import Tied

LITTLE = 1 / 256  # of a compilation, the time that a call may take longer
LONGEST = 2**24  # elements of axes for which it is asked whether calls take longer


def sharing(
    policies: dict[Symbol, Policy], graph: Graph, costs: DeviceCosts
) -> dict[Symbol, Policy]:
    """The policies, where axes that are padded share the capacities that calls had.

    A program for each combination of capacities would cost more than calls in which
    some axes are longer than they have to be, as long as these are short.
    """
    axes = [s for s, p in policies.items() if s.origin is None and _doubles(p)]
    if len(axes) < 2:
        return policies
    shortest = min(p.minimum for p in map(policies.get, axes) if isinstance(p, Pad))
    most, power = _cheap(graph, axes, shortest, costs)
    if most == shortest:
        return policies
    aheads = [p.ahead for p in map(policies.get, axes) if isinstance(p, Tied)]
    far = dict(zip(axes, aheads, strict=True)) if len(aheads) == len(axes) else {}
    return policies | {
        s: Tied(minimum=shortest, ahead=far.get(s), most=most, power=power)
        for s in axes
    }


def _doubles(policy: Policy) -> bool:
    """Whether the capacities of a policy are those that double."""
    plain = type(policy) is Pad and policy == Pad(minimum=policy.minimum)
    return plain or isinstance(policy, Tied)


def _cheap(
    graph: Graph, axes: Sequence[Symbol], shortest: int, costs: DeviceCosts
) -> tuple[int, int]:
    """How long all axes may be until a call takes long, and the power of `Tied`."""
    compiled = costs.compiled * (costs.segment + len(graph.nodes))

    def seconds(longest: int, others: int) -> list[float]:
        """The seconds of calls in which each of the axes is longest."""
        sizes = [{s: longest if s is one else others for s in axes} for one in axes]
        return [call_seconds(graph, one, costs) for one in sizes]

    little, most = compiled * LITTLE, shortest
    while most < LONGEST and seconds(2 * most, 2 * most)[0] <= little:
        most *= 2
    longest = 4 * most
    least = seconds(longest, shortest)
    for power in range(2):
        more = seconds(longest, max(longest // 4 ** (1 + power), shortest))
        if all(b - a <= 2 * little for a, b in zip(least, more, strict=True)):
            return most, power
    return most, 2
