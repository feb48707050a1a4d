"""Sizes that vary together: one schedule of capacities, not one for each of them.

Two axes of which neither changes alone would be compiled for each pair of capacities
that comes, though the sizes of one tell those of the other but for some elements.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.analysis.cost import DeviceCosts
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import Symbol
from graphc.ops.effects.capacities import Capacities, TiedCapacities, rounded_up
from graphc.transform.call_time import call_seconds
from graphc.transform.policies import Pad, Policy

Rooms = list[tuple[int, ...]]  # the capacities that calls had

LITTLE = 1 / 16  # of a compilation, the time that calls may take longer
LONGEST = 2**24  # of which it is asked whether calls take longer


@dataclass(frozen=True)
class Tied(Pad):
    """The policy of a size that was seen to vary together with others.

    Sizes of a program that are tied go from one capacity to the next at once, each at
    most one too far; `ahead` says how many capacities this one is before the others,
    None where they do not vary together. The capacities of one call serve others, of
    axes up to `most`, about, of which the work grows with a `power` of the others.
    """

    ahead: int | None = 0
    most: int = 0
    power: int = 0

    def __str__(self) -> str:
        text = super().__str__()
        if self.ahead is not None:
            text += ", tied to the sizes that vary with it"
        return f"{text}, shared by axes up to {self.most}" if self.most else text

    @property
    def capacities(self) -> TiedCapacities:
        """The same as what rounds up."""
        return TiedCapacities(
            minimum=self.minimum, ahead=self.ahead, most=self.most, power=self.power
        )

    @property
    def of_computed(self) -> Pad:
        """The policy of a size computed from one of this, which has its own."""
        return Pad(minimum=self.minimum)


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
        """Those of calls in which each of the axes is longest."""
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


def capacities_of(
    policies: Mapping[Symbol, Policy], symbols: Iterable[Symbol]
) -> list[Capacities]:
    """The capacities of padded axes, in their order; axes have no bounds."""
    chosen = [policies[s] for s in symbols]
    capacities = [p.capacities for p in chosen if isinstance(p, Pad)]
    assert len(capacities) == len(chosen)
    return capacities


def chosen_capacities(
    policies: Mapping[Symbol, Policy],
    symbols: Iterable[Symbol],
    sizes: Mapping[Symbol, int],
    known: Rooms | None = None,
) -> dict[Symbol, int]:
    """The capacity of each padded axis in a call of these sizes.

    It is one of those that are `known`, where these are given and serve the call; new
    ones are added. Raises ValueError where there is none.
    """
    axes = list(symbols)
    rooms = rounded_up(capacities_of(policies, axes), [sizes[s] for s in axes], known)
    return dict(zip(axes, rooms, strict=True))
