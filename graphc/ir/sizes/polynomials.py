"""Polynomials with integer coefficients over the atoms of sizes.

Atoms are symbols and calls (`a//b`, `min`, `max`, `clip`, `stretch`, and products that
are too long to be written out). `graphc.ir.sizes.dims` makes sizes from polynomials.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.ir.sizes.dims import Dim, Size

# Every atom has a larger serial than the atoms in its arguments or bounds.
_serials = count()
by_serial = operator.attrgetter("serial")


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Symbol:
    """An integer that is not known yet; no two symbols are equal.

    `origin` is None for an axis, else the graph value that computes the integer.
    `lower` and `upper` are bounds that always hold, None where there is none. `depth`
    exceeds the depth of any atom in the bounds. An axis that `may_be_one` broadcasts,
    as in NumPy, where it is 1.
    """

    name: str
    origin: object = field(default=None, repr=False)
    lower: int | None = None
    upper: Size | None = None
    may_be_one: bool = False
    serial: int = field(default_factory=_serials.__next__, init=False, repr=False)
    depth: int = field(default=0, init=False, repr=False)
    side = 0  # see SIDES

    def __post_init__(self) -> None:
        if self.upper is not None and not isinstance(self.upper, int):
            object.__setattr__(self, "depth", self.upper.depth + 1)


SIDES = {"min": 1, "max": -1}  # times this factor, a size is what the op minimises
UNORDERED = {*SIDES, "*", "stretch"}  # functions whose arguments commute
MOST_WEIGHT = 10**6  # the most terms that are counted


class Call:
    """An atom computed from other sizes; interned.

    `lows` keeps lower bounds that were proved for its multiples.
    """

    __slots__ = (
        *("__weakref__", "args", "depth", "lows", "op", "serial", "side", "symbols"),
        "weight",
    )

    def __init__(self, op: str, args: tuple[Size, ...]) -> None:
        self.op: str = op
        self.side: int = SIDES.get(op, 0)
        # Sorted by text, as the printed order must not depend on which argument is
        # older.
        self.args: tuple[Size, ...] = (
            tuple(sorted(args, key=str)) if op in UNORDERED else args
        )
        sizes = self.formulas
        self.symbols: set[Symbol] = {s for x in sizes for s in x.symbols}
        total = sum([x.weight for x in sizes]) + len(args) - len(sizes)
        self.weight: int = min(total, MOST_WEIGHT)
        self.depth: int = 1 + max([x.depth for x in sizes], default=0)
        self.lows: dict[int, float] = {}
        self.serial: int = next(_serials)

    @property
    def formulas(self) -> list[Dim]:
        """The arguments that are not numbers."""
        return [x for x in self.args if not isinstance(x, int)]


Atom = Symbol | Call
Monomial = tuple[Atom, ...]  # sorted by serial; () is the constant term


class Poly(dict[Monomial, int]):
    """Coefficients by monomial, none of them 0; never changed once in a Dim."""

    def plus(self, other: Poly, factor: int = 1) -> Poly:
        """self + factor*other."""
        total = Poly(self)
        total.add(other.items(), factor)
        return total

    def add(self, terms: Iterable[tuple[Monomial, int]], factor: int = 1) -> None:
        """Change self to self + factor*terms; only for one that is in no Dim yet."""
        for monomial, coefficient in terms:
            value = self.pop(monomial, 0) + factor * coefficient
            if value:
                self[monomial] = value

    def times(self, other: Poly) -> Poly:
        """self*other, fully written out."""
        total = Poly()
        for m, c in self.items():
            moved = [
                (tuple(sorted(m + k, key=by_serial)), c * v) for k, v in other.items()
            ]
            total.add(moved)
        return total

    def degree(self) -> int:
        """The number of factors in the longest product."""
        return max(map(len, self), default=0)

    def atoms(self) -> dict[Atom, None]:
        """All atoms that occur, each once."""
        return dict.fromkeys(atom for monomial in self for atom in monomial)

    def only_atom(self) -> Atom | None:
        """The atom that this polynomial consists of, or None if there is more."""
        monomial, coefficient = next(iter(self.items()), ((), 0))
        single = len(self) == coefficient == 1
        return monomial[0] if single and len(monomial) == 1 else None

    def collect(self, atom: Atom) -> tuple[Poly, Poly]:
        """(factor, rest) with self == factor*atom + rest and no `atom` in rest."""
        split = [(_without(m, (atom,)), m, c) for m, c in self.items()]
        factor = {left: c for left, _, c in split if left is not None}
        return Poly(factor), Poly({m: c for left, m, c in split if left is None})

    def lead(self) -> Monomial:
        """The leading monomial, in an order for long division: products keep it."""
        return max(self, key=_rank)

    def divide(self, by: Poly) -> tuple[Poly, Poly]:
        """(quotient, rest) with self == quotient*by + rest."""
        p, quotient, remainder, lead = Poly(self), Poly(), Poly(), by.lead()
        # Division by a single term never makes new terms.
        leads = iter(sorted(p, key=_rank, reverse=True) if len(by) == 1 else ())
        while p:
            top = next(leads, None) or p.lead()
            left, (whole, part) = _without(top, lead), divmod(p[top], by[lead])
            # A constant may be split, a term may not: 3*n//2 reads well as it is.
            if left is None or not whole or (top and part):
                if len(by) > 1:
                    # Such a remainder would depend on which symbol is older.
                    return Poly(), self
                remainder[top] = p.pop(top)
            else:
                quotient[left] = whole
                p.add(Poly({left: whole}).times(by).items(), -1)
                if top in p:
                    remainder[top] = p.pop(top)
        return quotient, remainder


def _rank(monomial: Monomial) -> tuple[int, list[int]]:
    return len(monomial), [atom.serial for atom in monomial]


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """monomial / part, or None where the quotient is no monomial."""
    for atom in part:
        if atom not in monomial:
            return None
        at = monomial.index(atom)
        monomial = monomial[:at] + monomial[at + 1 :]
    return monomial


def polynomial(size: Size) -> Poly:
    """The polynomial of a size."""
    if isinstance(size, int):
        return Poly({(): int(size)} if size else {})
    return size._terms


def calls_in(size: Size) -> list[Call]:
    """The calls within a size, each after those in its arguments."""
    calls: set[Call] = set()
    stack = [size]
    while stack:
        for atom in polynomial(stack.pop()).atoms():
            if isinstance(atom, Call) and atom not in calls:
                calls.add(atom)
                stack += atom.formulas
    return sorted(calls, key=by_serial)
