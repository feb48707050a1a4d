"""Sizes that vary together: one schedule of capacities, not one for each size.

Two axes that never change alone would be compiled for each pair of capacities that
comes, though the size of one tells that of the other but for some elements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.sizes.dims import Size, Symbol, evaluate, symbols_in
from graphc.ops.effects.capacities import Capacities, TiedCapacities, rounded_up
from graphc.transform.policies import Pad

KnownRooms = dict[tuple[int, ...], tuple[int, ...]]  # that calls had, by those needed


@dataclass(frozen=True)
class Tied(Pad):
    """The policy of a size that was seen to vary together with others.

    The tied sizes of a program go from one capacity to the next at once, each at most
    one too far; `ahead` says how many capacities this size is ahead of the others, None
    where they do not vary together. The capacities of one call serve other calls with
    axes up to about `most`, whose work grows with this `power` of the other axes.
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
        """The policy as a param of the op that rounds up."""
        return TiedCapacities(
            minimum=self.minimum, ahead=self.ahead, most=self.most, power=self.power
        )

    @property
    def of_computed(self) -> Pad:
        """The policy for sizes computed from a tied one, with capacities of its own."""
        return Pad(minimum=self.minimum)


@dataclass(frozen=True)
class RoundedSize:
    """A size of the original graph whose capacity is chosen when a call begins.

    The capacity is `symbol` in the padded graph. The capacity of a size that is not an
    axis may depend on the capacities that axes need alone.
    """

    size: Size
    symbol: Symbol
    capacities: Capacities


def needed_alone(
    sizes: Sequence[Size], symbols: Sequence[Symbol]
) -> list[tuple[int, Symbol]]:
    """The places and symbols of the capacities that other sizes depend on."""
    asked = {s for size in sizes for s in symbols_in(size)}
    return [(i, symbol) for i, symbol in enumerate(symbols) if symbol in asked]


def chosen_capacities(
    rounded: Sequence[RoundedSize],
    sizes: Mapping[Symbol, int],
    known: KnownRooms | None = None,
) -> dict[Symbol, int]:
    """Choose the number of each capacity in a call of these sizes.

    The capacities are among `known` ones, if these are given and serve the call; new
    capacities are added to `known`. Raises ValueError where no capacity has room.
    """
    symbols = [one.symbol for one in rounded]
    alone: dict[Symbol, int] = {}
    for i, symbol in needed_alone([one.size for one in rounded], symbols):
        number = evaluate(rounded[i].size, sizes)
        [alone[symbol]] = rounded_up([rounded[i].capacities], [number])
    numbers = [evaluate(one.size, {**sizes, **alone}) for one in rounded]
    rooms = rounded_up([one.capacities for one in rounded], numbers, known)
    return dict(zip(symbols, rooms, strict=True))
