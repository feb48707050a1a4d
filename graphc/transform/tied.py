"""Sizes that vary together: one schedule of capacities, not one for each of them.

Two axes of which neither changes alone would be compiled for each pair of capacities
that comes, though the sizes of one tell those of the other but for some elements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.sizes.dims import Dim, Size, Symbol, evaluate
from graphc.ops.effects.capacities import Capacities, TiedCapacities, rounded_up
from graphc.transform.policies import Pad

KnownRooms = dict[tuple[int, ...], tuple[int, ...]]  # that calls had, by those needed


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


@dataclass(frozen=True)
class RoundedSize:
    """A size of the original graph whose capacity is chosen when a call begins.

    The capacity is `symbol` in the padded graph. One that is not of an axis may depend
    on the capacities that axes need alone.
    """

    size: Size
    symbol: Symbol
    capacities: Capacities


def needed_alone(
    sizes: Sequence[Size], symbols: Sequence[Symbol]
) -> list[tuple[int, Symbol]]:
    """The places and symbols of the capacities that others of these sizes depend on."""
    asked = {s for size in sizes if isinstance(size, Dim) for s in size.symbols}
    return [(i, symbol) for i, symbol in enumerate(symbols) if symbol in asked]


def chosen_capacities(
    rounded: Sequence[RoundedSize],
    sizes: Mapping[Symbol, int],
    known: KnownRooms | None = None,
) -> dict[Symbol, int]:
    """The number of each capacity in a call of these sizes.

    It is one of those that are `known`, where these are given and serve the call; new
    ones are added. Raises ValueError where there is none.
    """
    symbols = [one.symbol for one in rounded]
    alone: dict[Symbol, int] = {}
    for i, symbol in needed_alone([one.size for one in rounded], symbols):
        number = evaluate(rounded[i].size, sizes)
        [alone[symbol]] = rounded_up([rounded[i].capacities], [number])
    numbers = [evaluate(one.size, {**sizes, **alone}) for one in rounded]
    rooms = rounded_up([one.capacities for one in rounded], numbers, known)
    return dict(zip(symbols, rooms, strict=True))
