"""Sizes that share capacities: how long axes may be, by the time that calls take."""

from collections.abc import Sequence
from dataclasses import replace

from graphc.analysis.cost import DeviceCosts
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import Symbol
from graphc.ops.effects.capacities import TiedCapacities
from graphc.transform.padding.call_time import call_seconds
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.policies import Pad, Policy
from graphc.transform.tied_sizes import Tied

SMALL_PART = 1 / 256  # of a compilation: the time that a call may lose to longer axes
LONGEST = 2**24  # elements of axes, up to which calls are estimated


def share_capacities(
    policies: dict[Symbol, Policy], graph: Graph, costs: DeviceCosts
) -> dict[Symbol, Policy]:
    """Let padded sizes share the capacities of earlier calls, where that is cheaper.

    A program for each combination of capacities would cost more than calls in which
    some axes are longer than they have to be, as long as these calls are short. Where
    some sizes are integers, `share_inner_sizes` tells how long axes may be, once
    it is known what sizes the integers make.
    """
    doubling = [s for s, p in policies.items() if _doubles(p)]
    axes = [s for s in doubling if s.origin is None]
    arguments = set(graph.inputs)
    integers = [s for s in doubling if s.origin in arguments]
    if len(axes) + len(integers) < 2:
        return policies
    chosen = {s: p for s in (*axes, *integers) if isinstance(p := policies[s], Pad)}
    if integers:
        tied = {s: Tied(minimum=p.minimum, ahead=None) for s, p in chosen.items()}
        return policies | tied
    shortest = min(p.minimum for p in chosen.values())
    most, power = _cheap_lengths(graph, axes, shortest, costs)
    if most == shortest and not any(isinstance(p, Tied) for p in chosen.values()):
        return policies
    aheads = [p.ahead for p in chosen.values() if isinstance(p, Tied)]
    far = dict(zip(axes, aheads, strict=True)) if len(aheads) == len(axes) else {}
    return policies | {
        s: Tied(minimum=shortest, ahead=far.get(s), most=most, power=power)
        for s in axes
    }


def share_inner_sizes(padded: PaddedGraph, costs: DeviceCosts) -> PaddedGraph:
    """Let sizes that integers make share capacities with axes in a padded graph."""
    sizes = [s for s in padded.rounded if isinstance(s.capacities, TiedCapacities)]
    if not padded.inner or len(sizes) < 2:
        return padded
    shortest = min(one.capacities.minimum for one in sizes)
    symbols = [one.symbol for one in sizes]
    most, power = _cheap_lengths(padded.graph, symbols, shortest, costs)
    if most == shortest:
        return padded
    policies = {
        s: replace(p, most=most, power=power) if isinstance(p, Tied) else p
        for s, p in padded.policies.items()
    }
    inner = [
        replace(one, policy=replace(one.policy, most=most, power=power))
        for one in padded.inner
    ]
    return replace(padded, policies=policies, inner=tuple(inner))


def _doubles(policy: Policy) -> bool:
    """Whether the capacities of a policy double."""
    plain = type(policy) is Pad and policy == Pad(minimum=policy.minimum)
    return plain or isinstance(policy, Tied)


def _cheap_lengths(
    graph: Graph, axes: Sequence[Symbol], shortest: int, costs: DeviceCosts
) -> tuple[int, int]:
    """How long all axes may be before a call takes long, and the `power` of `Tied`."""
    compiled = costs.compiled * (costs.segment + len(graph.nodes))

    def seconds_of_equal(length: int) -> float:
        """The seconds of a call in which all axes have this length."""
        return call_seconds(graph, dict.fromkeys(axes, length), costs)

    def seconds(longest: int, others: int) -> list[float]:
        """The seconds of calls in each of which a different axis is the longest."""
        sizes = [{s: longest if s is one else others for s in axes} for one in axes]
        return [call_seconds(graph, one, costs) for one in sizes]

    little, most = compiled * SMALL_PART, shortest
    while most < LONGEST and seconds_of_equal(2 * most) <= little:
        most *= 2
    longest = 4 * most
    least = seconds(longest, shortest)
    for power in range(2):
        more = seconds(longest, max(longest // 4 ** (1 + power), shortest))
        if all(b - a <= 2 * little for a, b in zip(least, more, strict=True)):
            return most, power
    return most, 2
