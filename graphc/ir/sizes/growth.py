"""Whether sizes grow with other sizes, or at least never shrink."""

from collections.abc import Collection

from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim, symbols_in
from graphc.ir.sizes.polynomials import Atom, Call, Monomial, calls_in, polynomial
from graphc.ir.sizes.ranges import SizeRange, largest

MOST_WEIGHT = 64  # of the sizes that are left to the prover


def grows(size: Size, symbols: Collection[Symbol]) -> bool:
    """Whether a size provably never shrinks where these symbols grow.

    Sums, products and extremes of growing parts grow, so each part is examined by
    itself; other parts are left to the prover.
    """
    growth = _GrowthOfParts(symbols)
    for call in calls_in(size):
        growth.look_at(call)
    return growth.of(size)


def has_capacity(size: Dim) -> bool:
    """Whether capacities of its symbols give a capacity of a size; not so for n//m.

    The size must grow with its symbols, or never exceed a size that does.
    """
    if grows(size, size.symbols):
        return True
    return largest(size, lambda s: SizeRange(s.lower, symbol_dim(s))) is not None


class _GrowthOfParts:
    """Whether the parts of a size grow, each found after its own parts."""

    def __init__(self, symbols: Collection[Symbol]) -> None:
        self._symbols = symbols
        self._found: dict[Atom, bool] = {}

    def of(self, size: Size) -> bool:
        if not isinstance(size, Dim) or self._is_fixed(size):
            return True
        terms = polynomial(size).items()
        return all(self._term(term, c) for term, c in terms) or self._is_proved(size)

    def _is_fixed(self, size: Size) -> bool:
        return set(symbols_in(size)).isdisjoint(self._symbols)

    def _is_proved(self, size: Dim) -> bool:
        if size.weight > MOST_WEIGHT:
            return False
        more: dict[Symbol, Size] = {
            s: symbol_dim(s) + dims.fresh_axis("more")
            for s in size.symbols
            if s in self._symbols
        }
        return dims.less_equal(size, dims.substitute(size, more)) is True

    def _term(self, term: Monomial, factor: int) -> bool:
        """Whether a term grows; in a product, its factors must not be negative."""
        parts = [symbol_dim(atom) for atom in term]
        if all(map(self._is_fixed, parts)):
            return True
        if factor < 0 or not all(map(self._atom, term)):
            return False
        return len(parts) == 1 or all(map(_is_natural, parts))

    def _atom(self, atom: Atom) -> bool:
        return isinstance(atom, Symbol) or self._found[atom]

    def look_at(self, call: Call) -> None:
        """Note whether a call grows, once this is known of its parts."""
        self._found[call] = self._grows(call.op, *call.args)

    def _grows(self, op: str, *args: Size) -> bool:
        if all(map(self._is_fixed, args)):
            return True
        if op in ("min", "max"):
            return all(map(self.of, args))
        if op == "*":
            return all(map(self.of, args)) and all(map(_is_natural, args))
        if op == "stretch":
            return False
        a, by = args
        growing = op == "//" and self._is_fixed(by) and dims.less_equal(1, by) is True
        return growing and self.of(a)


def _is_natural(size: Size) -> bool:
    low, _ = dims.bounds(size)
    return low is not None and low >= 0
