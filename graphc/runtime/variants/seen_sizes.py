"""The sizes that calls had, and the schedules of capacities that these suggest."""

from collections.abc import Mapping, Sequence
from copy import copy

from graphc.ir.sizes.polynomials import Symbol
from graphc.runtime.driver.log import Compilation
from graphc.transform.policies import Pad, Policy
from graphc.transform.tied_sizes import Tied

# How many sizes suggest that more will come is a question of calls, not of devices.
MANY = 2  # of one dim
MOST_CALLS = 8  # whose sizes are compared
MOST_AT_FIRST = 64  # the first capacity; work on fewer elements is next to nothing


class SeenSizes:
    """The sizes that a function was compiled for, by symbol.

    Symbols within bodies are found by name among the given symbols, `known`. `lost` are
    the seconds of all compilations for sizes after the first, `price` those of the last
    one.
    """

    def __init__(self, known: Sequence[Symbol]) -> None:
        self._known = set(known)
        self._named: dict[str, list[Symbol]] = {}
        for symbol in known:
            self._named.setdefault(symbol.name, []).append(symbol)
        self.sizes: dict[Symbol, set[int]] = {}
        self.last: dict[Symbol, int] = {}
        self.lost: dict[Symbol, float] = {}
        self.price: dict[Symbol, float] = {}
        # Sizes that came together; the list is replaced where one is added.
        self.calls: list[dict[Symbol, int]] = []

    def copy(self) -> "SeenSizes":
        """Return a copy, to which other sizes can be added."""
        other = copy(self)
        other.sizes = {symbol: set(sizes) for symbol, sizes in self.sizes.items()}
        other.last, other.lost = dict(self.last), dict(self.lost)
        other.price = dict(self.price)
        return other

    def add(
        self, compilations: Sequence[Compilation], names: dict[str, Symbol]
    ) -> None:
        """Record the sizes of compilations; `names` maps their names to symbols."""
        for compilation in compilations:
            sizes = {
                symbol: size
                for name, size in compilation.sizes.items()
                for symbol in self._matching_symbols(names.get(name))
            }
            self.note_together(sizes, compilation.seconds)

    def _matching_symbols(self, symbol: Symbol | None) -> Sequence[Symbol]:
        """Return the given symbols that a symbol of a program stands for, or may."""
        if symbol is None:
            return []
        return [symbol] if symbol in self._known else self.named(symbol.name)

    def named(self, name: str) -> Sequence[Symbol]:
        """Return the given symbols of this name."""
        return self._named.get(name, [])

    def by_symbol(self, sizes: Mapping[str, int]) -> dict[Symbol, int]:
        """Return sizes by symbol that were given by name."""
        return {s: size for name, size in sizes.items() for s in self.named(name)}

    def note_together(self, sizes: dict[Symbol, int], seconds: float) -> None:
        """Record sizes of one call, each of which took this many seconds."""
        for symbol, size in sizes.items():
            self.note(symbol, size, seconds)
        self.note_call(sizes)

    def note_call(self, sizes: dict[Symbol, int]) -> None:
        """Record sizes that came together."""
        if sizes and sizes not in self.calls[-MOST_CALLS:]:
            self.calls = [*self.calls[-MOST_CALLS:], sizes]

    def pairs_seen_together(self, one: Symbol, other: Symbol) -> list[tuple[int, int]]:
        """Return the pairs of two sizes, if neither came again without the other."""
        both = [c for c in self.calls if one in c and other in c]
        pairs = list(dict.fromkeys((c[one], c[other]) for c in both))
        alone = any(len(set(sizes)) < len(pairs) for sizes in zip(*pairs, strict=True))
        return [] if alone or len(pairs) < MANY else pairs

    def note(self, symbol: Symbol, size: int, seconds: float) -> None:
        """Record a size that took this many seconds to compile for."""
        before = self.sizes.setdefault(symbol, set())
        again = seconds if before and size not in before else 0.0
        self.lost[symbol] = self.lost.get(symbol, 0.0) + again
        if seconds:
            self.price[symbol] = seconds
        before.add(size)
        self.last[symbol] = size

    def tied_policies(self, axes: Sequence[Symbol]) -> dict[Symbol, Policy]:
        """Return policies for the axes that came together, which share a schedule.

        A program for each pair of capacities would cost more than the padding of some
        calls, unless the axes are long.
        """
        one, *others = axes
        pairs = {other: self.pairs_seen_together(one, other) for other in others}
        ahead = {other: _mean_gap(sizes) for other, sizes in pairs.items() if sizes}
        if not ahead:
            return {}
        first = min(0, *ahead.values())
        places = {one: 0} | ahead
        least = min(self.first_capacity(s) for s in places)
        return {s: Tied(minimum=least, ahead=n - first) for s, n in places.items()}

    def first_capacity(self, symbol: Symbol) -> int:
        """Return the first capacity of a size that varies: that of the least one seen.

        Compiling for fewer elements would not make any call shorter than it was.
        """
        least = min(self.sizes.get(symbol, ()), default=0)
        return min(Pad().capacity(least), MOST_AT_FIRST)


def _mean_gap(pairs: Sequence[tuple[int, int]]) -> int:
    """Return by how many capacities the second of two sizes is ahead, on average."""
    places = [[Pad().capacity(n).bit_length() for n in pair] for pair in pairs]
    return int(sum(after - before for before, after in places) / len(places))
