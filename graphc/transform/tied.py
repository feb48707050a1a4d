"""Sizes that vary together: one schedule of capacities, not one for each of them.

Two axes of which neither changes alone would be compiled for each pair of capacities
that comes, though the sizes of one tell those of the other but for some elements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graphc.ir.sizes.dims import Symbol
from graphc.ops.effects.capacities import Capacities, TiedCapacities, rounded_up
from graphc.transform.policies import Pad, Policy

KnownRooms = list[tuple[int, ...]]  # the capacities that calls had


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
    known: KnownRooms | None = None,
) -> dict[Symbol, int]:
    """The capacity of each padded axis in a call of these sizes.

    It is one of those that are `known`, where these are given and serve the call; new
    ones are added. Raises ValueError where there is none.
    """
    axes = list(symbols)
    rooms = rounded_up(capacities_of(policies, axes), [sizes[s] for s in axes], known)
    return dict(zip(axes, rooms, strict=True))
