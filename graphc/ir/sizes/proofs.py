"""Bounds of polynomials, by a search that is the same for any order of symbols."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

from graphc.ir.sizes.polynomials import Atom, Call, Monomial, Poly, Symbol, polynomial

if TYPE_CHECKING:
    from graphc.ir.sizes.dims import Size

MOST_LOOKS = 48  # polynomials to examine for one bound: about 1 ms
SHORT = 16  # terms of a polynomial; one k times as long counts as k
_Step = tuple[Poly, int, "Size | None", "Size | None"]


class _Memory(local):
    """The bounds that this thread has found, or None where it keeps none."""

    bounds: dict[frozenset[tuple[Monomial, int]], float] | None = None


_MEMORY = _Memory()


@contextmanager
def remembering_bounds() -> Generator[None]:
    """Find each bound only once; this keeps the polynomials alive until the end."""
    before, _MEMORY.bounds = _MEMORY.bounds, _MEMORY.bounds or {}
    try:
        yield
    finally:
        _MEMORY.bounds = before


def lower(p: Poly) -> float:
    """A lower bound of p; minus infinity where none is known."""
    known = _MEMORY.bounds
    if known is None:
        return _Proof().bound(p)
    key = frozenset(p.items())
    if key not in known:
        known[key] = _Proof().bound(p)
    return known[key]


def upper(p: Poly) -> float:
    """An upper bound of p; infinity where none is known."""
    return -lower(_negative(p))


def _negative(p: Poly) -> Poly:
    return Poly({m: -c for m, c in p.items()})


class _Proof:
    """A search for bounds; a bound is infinite or an int."""

    def bound(self, p: Poly) -> float:
        """A lower bound of p; if that takes too long, the sum of its terms' bounds."""
        self.left = MOST_LOOKS
        low = self.lower(p)
        if self.left >= 0:
            return low
        if len(p) == 1:
            return max(low, self.of_operands(p))
        return max(low, sum([self.term(m, c) for m, c in p.items()]))

    def of_operands(self, p: Poly) -> float:
        """The lower bound of a lone minimum or maximum, from those of its operands."""
        ((monomial, c),) = p.items()
        only = monomial[0]
        if len(monomial) > 1 or not isinstance(only, Call) or not only.side:
            return -math.inf
        factor = Poly({(): c})
        lows = [self.bound(factor.times(polynomial(x))) for x in only.args]
        return max(lows) if c * only.side < 0 else min(lows)

    def term(self, monomial: Monomial, c: int) -> float:
        """The lower bound of a term; a single call keeps its bound."""
        only = monomial[0] if len(monomial) == 1 else None
        if not isinstance(only, Call):
            return self.bound(Poly({monomial: c}))
        if c not in only.lows:
            only.lows[c] = self.bound(Poly({monomial: c}))
        return only.lows[c]

    def lower(self, p: Poly) -> float:
        """The largest lower bound of p that can be proved.

        Atom by atom, deepest first, p is replaced by something smaller that has only
        flatter atoms, so that terms cancel: n - min(n, m) >= n - n. For -min(a, b) the
        proof may choose between -a and -b. But min(a, b) is a or b, and the worse of
        them counts: such a split comes before all else, since the best choices depend
        on it.
        """
        if p.keys() <= {()}:
            return p.get((), 0)
        self.left -= 1 + len(p) // SHORT
        if self.left < 0:
            return -math.inf
        atom = _atom_to_replace(p)
        factor, remainder = p.collect(atom)
        if isinstance(atom, Call) and (atom.side or atom.op == "stretch"):
            cases = [
                self.lower(factor.times(polynomial(x)).plus(remainder))
                for x in atom.args
            ]
            chosen = atom.side and self.sign(factor) == -atom.side
            return max(cases) if chosen else min(cases)
        best = -math.inf
        for f, scale, low, high in self.steps(atom, factor):
            end = {1: low, -1: high}.get(self.sign(f))
            if end is not None:
                bound = self.lower(f.times(polynomial(end)).plus(remainder, scale))
                best = max(best, bound if math.isinf(bound) else -(-bound // scale))
        return best

    def sign(self, p: Poly) -> int:
        """1 where p is never negative, -1 where p is never positive, 0 if unknown."""
        return 1 if self.lower(p) >= 0 else -(self.lower(_negative(p)) >= 0)

    def steps(self, atom: Atom, factor: Poly) -> list[_Step]:
        """(f, scale, low, high): scale*factor*atom lies between f*low and f*high."""
        if isinstance(atom, Symbol):
            return [(factor, 1, atom.lower, atom.upper)]
        a, b = atom.args
        if atom.op == "clip":
            return [(factor, 1, 0, b)]
        if self.lower(polynomial(b)) < 0:
            return []
        low = 0 if self.lower(polynomial(a)) >= 0 else None
        if atom.op == "*":
            return [(factor, 1, low, None)]
        quotient, remainder = factor.divide(polynomial(b))
        if remainder and not isinstance(b, int):
            return [(factor, 1, low, a if low == 0 else None)]
        f, scale = (factor, b) if remainder and isinstance(b, int) else (quotient, 1)
        return [(factor, 1, low, None), (f, scale, a - b + 1, a)]  # of b*(a//b), b > 0


def _atom_to_replace(p: Poly) -> Atom:
    """The atom to replace first, whatever its age; ties are broken by name."""
    ranks = {a: (a.side * p.get((a,), 0) > 0, a.depth) for a in p.atoms()}
    most = max(ranks.values())
    candidates = [atom for atom, rank in ranks.items() if rank == most]
    if len(candidates) == 1:
        return candidates[0]
    terms: dict[Atom, list[tuple[int, int, int]]] = {atom: [] for atom in candidates}
    for monomial, c in p.items():
        for atom in {a for a in monomial if a in terms}:
            terms[atom].append((len(monomial), monomial.count(atom), c))
    return max(candidates, key=lambda a: (sorted(terms[a]), _name(a), a.serial))


def _name(atom: Atom) -> str:
    return atom.name if isinstance(atom, Symbol) else _text(atom)


def _text(call: Call) -> str:
    return f"{call.op}({', '.join(map(str, call.args))})"
