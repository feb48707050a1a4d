"""Sizes that vary together: one schedule of capacities, not one for each of them.

Two axes of which neither changes alone would be compiled for each pair of capacities
that comes, though the sizes of one tell those of the other but for some elements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graphc.ir.sizes.dims import Symbol
from graphc.ops.effects.capacities import Capacities, TiedCapacities, rounded_up
from graphc.transform.policies import Pad, Policy

SMALL = 64  # the most elements of axes that share a capacity whether they vary or not


@dataclass(frozen=True)
class Tied(Pad):
    """The policy of a size that was seen to vary together with others.

    Sizes of a program that are tied go from one capacity to the next at once, each at
    most one too far; `ahead` says how many capacities this one is before the others. Or
    they do so up to a capacity of `most` alone.
    """

    ahead: int = 0
    most: int = 0

    def __str__(self) -> str:
        if self.most:
            return f"{super().__str__()}, shared by axes up to {self.most}"
        return f"{super().__str__()}, tied to the sizes that vary with it"

    @property
    def capacities(self) -> TiedCapacities:
        """The same as what rounds up."""
        return TiedCapacities(minimum=self.minimum, ahead=self.ahead, most=self.most)

    @property
    def of_computed(self) -> Pad:
        """The policy of a size computed from one of this, which has its own."""
        return Pad(minimum=self.minimum)


def sharing_if_small(policies: dict[Symbol, Policy]) -> dict[Symbol, Policy]:
    """The policies, where axes that are padded alike share their first capacities.

    A program for each pair of small capacities costs more than to work on a few
    elements that are not there.
    """
    axes = [s for s, p in policies.items() if s.origin is None and p == Pad()]
    if len(axes) < 2:
        return policies
    return policies | dict.fromkeys(axes, Tied(most=SMALL))


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
) -> dict[Symbol, int]:
    """The capacity of each padded axis in a call of these sizes.

    Raises ValueError where there is none.
    """
    axes = list(symbols)
    rooms = rounded_up(capacities_of(policies, axes), [sizes[s] for s in axes])
    return dict(zip(axes, rooms, strict=True))
