"""Sizes of axes: integer expressions in a normal form, with three-valued comparison.

A size is a plain `int` or a `Dim`: a polynomial with integer coefficients over *atoms*,
which are symbols, `a//b`, `min`, `max` and `clip`. Dims are hash-consed, so equality is
usually identity: (n + 1)*(n - 1) is n*n - 1. Where it is not, a small prover answers:
equal(maximum(n, m) + minimum(n, m), n + m) is True, equal(n, n + 1) is False,
equal(n, m) is None, and n == m raises GraphError.

Three things are taken for granted, not checked: divisors are not zero, so (n*m)//m
is n; the size of a clip is not negative; symbols lie within their bounds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakValueDictionary

from graphc.errors import GraphError, label

# Every atom has a larger serial than the atoms in its arguments or bounds.
_serials = count()
_serial = operator.attrgetter("serial")


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Symbol:
    """An integer that is not known yet; no two symbols are equal.

    `origin` is None for an axis, else the graph value that computes the integer.
    `lower` and `upper` are bounds that always hold, None where there is none.
    """

    name: str
    origin: object = field(default=None, repr=False)
    lower: int | None = None
    upper: Size | None = None
    serial: int = field(default_factory=_serials.__next__, init=False, repr=False)
    side = 0  # see _SIDES


class _Call:
    """An atom computed from other sizes; interned."""

    __slots__ = ("__weakref__", "args", "op", "serial", "side", "symbols", "weight")

    def __init__(self, op: str, args: tuple[Size, ...]) -> None:
        self.op, self.side = op, _SIDES.get(op, 0)
        # By text: what is printed must not depend on which argument is older.
        self.args = tuple(sorted(args, key=str)) if self.side else args
        self.symbols = {s for x in args if isinstance(x, Dim) for s in x.symbols}
        self.weight = sum(map(weight, args))
        self.serial = next(_serials)


MOST_SHOWN = 64  # terms of a formula in a message
CLIP = "slice({}).indices({})[1]"  # what `clip` is in Python
_SIDES = {"min": 1, "max": -1}  # a size times this is what the op minimises
_Atom = Symbol | _Call
_Monomial = tuple[_Atom, ...]  # sorted by serial; () is the constant term
_Step = tuple["_Poly", int, "Size | None", "Size | None"]


class _Poly(dict[_Monomial, int]):
    """Coefficients, none of them 0; never changed once they are in a Dim."""

    def size(self) -> Size:
        return self.get((), 0) if self.keys() <= {()} else _intern(self)

    def plus(self, other: _Poly, factor: int = 1) -> _Poly:
        total = _Poly(self)
        for monomial, coefficient in other.items():
            value = total.pop(monomial, 0) + factor * coefficient
            if value:
                total[monomial] = value
        return total

    def times(self, other: _Poly) -> _Poly:
        total = _Poly()
        for m, c in self.items():
            moved = {tuple(sorted(m + k, key=_serial)): c * v for k, v in other.items()}
            total = total.plus(_Poly(moved))
        return total

    def atoms(self) -> dict[_Atom, None]:
        return dict.fromkeys(atom for monomial in self for atom in monomial)

    def only_atom(self) -> _Atom | None:
        """The atom that this is, None where there is more to it."""
        monomial, coefficient = next(iter(self.items()), ((), 0))
        return monomial[0] if len(self) == len(monomial) == coefficient == 1 else None

    def collect(self, atom: _Atom) -> tuple[_Poly, _Poly]:
        """(factor, rest) with self == factor*atom + rest and no `atom` in rest."""
        split = [(_without(m, (atom,)), m, c) for m, c in self.items()]
        factor = {left: c for left, _, c in split if left is not None}
        return _Poly(factor), _Poly({m: c for left, m, c in split if left is None})

    def lead(self) -> _Monomial:
        """The first in an order that multiplication keeps, as long division needs."""
        return max(self, key=lambda m: (len(m), [atom.serial for atom in m]))

    def divide(self, by: _Poly) -> tuple[_Poly, _Poly]:
        """(quotient, rest) with self == quotient*by + rest."""
        p, quotient, rest, lead = self, _Poly(), _Poly(), by.lead()
        while p:
            top = p.lead()
            left, (whole, part) = _without(top, lead), divmod(p[top], by[lead])
            # A constant may be split, a term may not: 3*n//2 reads well as it is.
            if left is None or not whole or (top and part):
                rest[top] = p[top]
                p = p.plus(_Poly({top: p[top]}), -1)
            else:
                quotient[left] = whole
                p = p.plus(_Poly({left: whole}).times(by), -1)
        # A rest after division by a sum would depend on which symbol is older.
        return (_Poly(), self) if rest and len(by) > 1 else (quotient, rest)

    def moduli(self) -> tuple[list[tuple[int, _Call]], _Poly]:
        """([(c, a//b), ...], rest) with self == c*(a % b) + ... + rest."""
        found, p = [], self
        for atom in sorted(self.atoms(), key=_serial, reverse=True):  # outer ones first
            if isinstance(atom, _Call) and atom.op == "//":
                a, whole = _poly(atom.args[0]), _poly(symbol_dim(atom) * atom.args[1])
                lead = next(iter(whole))
                c = -p.get(lead, 0) // whole[lead]
                rest = p.plus(a, -c).plus(whole, c)
                if len(rest) == len(p) - len(a) - len(whole):
                    found.append((c, atom))
                    p = rest
        return found, p


def _poly(size: Size) -> _Poly:
    if isinstance(size, Dim):
        return size._terms
    return _Poly({(): int(size)} if size else {})


def _without(monomial: _Monomial, part: _Monomial) -> _Monomial | None:
    """monomial / part, or None where that is no monomial."""
    for atom in part:
        if atom not in monomial:
            return None
        at = monomial.index(atom)
        monomial = monomial[:at] + monomial[at + 1 :]
    return monomial


# Keys hold ids, not references. So a symbol dies even if its origin leads back to a Dim
# of that symbol, and no id is reused as long as the entry's value lives.
_dims: WeakValueDictionary[frozenset[tuple[int, ...]], Dim] = WeakValueDictionary()
_calls: WeakValueDictionary[Hashable, _Call] = WeakValueDictionary()
_axes: WeakValueDictionary[str, Symbol] = WeakValueDictionary()


def _intern(terms: _Poly) -> Dim:
    key = frozenset([(*map(id, m), c) for m, c in terms.items()])
    dim = _dims.get(key)
    return _dims.setdefault(key, Dim(terms)) if dim is None else dim


def _call(op: str, *args: Size) -> Dim:
    marks = [(id(x),) if isinstance(x, Dim) else int(x) for x in args]
    key = op, frozenset(marks) if op in _SIDES else tuple(marks)
    return symbol_dim(_calls.get(key) or _calls.setdefault(key, _Call(op, args)))


def _method(function: Callable[[Dim, Size], Size]) -> Callable[[Dim, Size], Size]:
    """An operator that leaves operands which are no sizes to their own class.

    Results with an int are kept by the Dim: they hold no symbols but its own.
    """

    def operate(a: Dim, b: Size) -> Size:
        if type(b) is not int:
            return function(a, b) if isinstance(b, (int, Dim)) else NotImplemented
        result = a._results.get((function, b))
        if result is None:
            result = a._results[function, b] = function(a, b)
        return result

    return operate


class Dim:
    """A size that is not constant; `symbols` are all that occur, ordered by name.

    `weight` is how many terms its formula has, those within its functions too. Parts
    may occur in it often, so that it can be far more than the memory it takes.
    """

    __slots__ = ("__weakref__", "_results", "_terms", "_text", "symbols", "weight")

    def __init__(self, terms: _Poly) -> None:
        self._terms, self._text = terms, ""
        self._results: dict[tuple[object, int], Size] = {}
        calls = [a for m in terms for a in m if isinstance(a, _Call)]
        self.weight: int = len(terms) + sum(call.weight for call in calls)
        parts = [{a} if isinstance(a, Symbol) else a.symbols for a in terms.atoms()]
        order = sorted(set[Symbol]().union(*parts), key=lambda s: (s.name, s.serial))
        self.symbols: tuple[Symbol, ...] = tuple(order)

    __add__ = __radd__ = _method(lambda a, b: a._terms.plus(_poly(b)).size())
    __mul__ = __rmul__ = _method(lambda a, b: a._terms.times(_poly(b)).size())
    __sub__ = _method(lambda a, b: a._terms.plus(_poly(b), -1).size())
    __rsub__ = _method(lambda a, b: _poly(b).plus(a._terms, -1).size())
    __floordiv__ = _method(lambda a, b: _divide(a, b))
    __rfloordiv__ = _method(lambda a, b: _divide(b, a))
    __mod__ = _method(lambda a, b: a - b * _divide(a, b))
    __rmod__ = _method(lambda a, b: b - a * _divide(b, a))
    __hash__ = object.__hash__

    def __neg__(self) -> Size:
        return 0 - self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Dim):
            return NotImplemented
        answer = equal(self, other)
        if answer is None:
            raise GraphError(f"{self} == {other} is not provable: use dims.equal(a, b)")
        return answer

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        if self.weight > MOST_SHOWN:
            return f"<{self.weight} terms>"
        if not self._text:
            printer = _Printer(lambda symbol: label(symbol.name), "clip({}, {})")
            self._text = printer.size(self)
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self})"


Size = int | Dim


def weight(size: Size) -> int:
    """How many terms a formula has."""
    return size.weight if isinstance(size, Dim) else 1


def axis(name: str) -> Dim:
    """The size of all axes called `name`: one symbol, at least 0."""
    return symbol_dim(_axes.get(name) or _axes.setdefault(name, Symbol(name, lower=0)))


def fresh_axis(name: str) -> Dim:
    """The size of one axis, no other than itself even where the names agree."""
    return symbol_dim(Symbol(label(name), lower=0))


def symbol_dim(symbol: _Atom) -> Dim:
    """The size that is just `symbol`."""
    return _intern(_Poly({(symbol,): 1}))


def _divide(a: Size, b: Size) -> Size:
    """a//b. Each rule hands something simpler back to here, until none applies."""
    by = _poly(b)
    if not by:
        raise GraphError(f"{a} is divided by zero")
    if all(c < 0 for c in by.values()):
        return _divide(-a, -b)
    quotient, rest = _poly(a).divide(by)
    return quotient.size() + (_divide_rest(rest, by) if rest else 0)


def _divide_rest(p: _Poly, by: _Poly) -> Size:
    """p//by where no multiple of `by` can be taken out of p."""
    for atom in set[_Atom].intersection(*map(set, (*p, *by))):
        return _divide(p.collect(atom)[0].size(), by.collect(atom)[0].size())
    constant, c = p.get((), 0), by.get((), 0) if len(by) == 1 else 0
    factors = [k for m, k in p.items() if m or not c]
    shared = math.gcd(*by.values(), *factors)
    if shared > 1:  # floor((k*x + r)/(k*c)) is floor(x/c) for 0 <= r < k and c > 0
        return _divide(*(q.divide(_poly(shared))[0].size() for q in (p, by)))
    if c and all(k < 0 for k in factors):  # so that ceil(n/2) has one form only
        return -_divide(_poly(c - 1).plus(p, -1).size(), c)
    inner = p.plus(_poly(constant), -1).only_atom()
    if c and isinstance(inner, _Call) and inner.op == "//":
        x, y = inner.args
        return _divide(x + constant * y, y * c)
    return _call("//", p.size(), by.size())


def ceil_div(a: Size, b: Size) -> Size:
    """a/b rounded up. `b` must not be zero, which is checked for constants only."""
    return -_divide(-a, b)


def _extreme(op: str, sizes: tuple[Size, ...]) -> Size:
    side = _SIDES[op]
    kept: list[Size] = []
    for size in sizes:
        atom = _poly(size).only_atom()
        flat = atom.args if isinstance(atom, _Call) and atom.op == op else (size,)
        for x in flat:
            if not any(less_equal(side * y, side * x) for y in kept):
                kept = [y for y in kept if not less_equal(side * x, side * y)] + [x]
    if not kept:
        raise GraphError(f"the {op}imum of no sizes: give at least one")
    return kept[0] if len(kept) == 1 else _call(op, *kept)


def minimum(*sizes: Size) -> Size:
    """The smallest of the sizes."""
    return _extreme("min", sizes)


def maximum(*sizes: Size) -> Size:
    """The largest of the sizes."""
    return _extreme("max", sizes)


def clip(index: Size, size: Size) -> Size:
    """`slice(index).indices(size)[1]`, for a `size` that is not negative."""
    if less_equal(size, -1):
        raise GraphError(f"an axis cannot have {size} elements")
    if less_equal(0, index):
        return minimum(index, size)
    if less_equal(index, -1):
        return maximum(index + size, 0)
    if less_equal(size, 0) or less_equal(size, index):
        return size
    return 0 if less_equal(index + size, 0) else _call("clip", index, size)


def equal(a: Size, b: Size) -> bool | None:
    """Whether a == b: for all values of the symbols, for none, or None: unknown."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    difference = _poly(a).plus(_poly(b), -1)
    # Atoms are integers, so 2*n and 2*m + 1 differ by an odd number.
    step = math.gcd(*(c for m, c in difference.items() if m))
    if step and difference.get((), 0) % step:
        return False
    low, high = _Proof().range(difference)
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def less_equal(a: Size, b: Size) -> bool | None:
    """Whether a <= b: for all values of the symbols, for none, or None: unknown."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    low, high = _Proof().range(_poly(b).plus(_poly(a), -1))
    return True if low >= 0 else False if high < 0 else None


def bounds(d: Size) -> tuple[int | None, int | None]:
    """Numbers that `d` is never below and never above, None where none is known."""
    low, high = (None if math.isinf(x) else int(x) for x in _Proof().range(_poly(d)))
    return low, high


class _Proof:
    """A search for bounds; a bound is infinite or an int."""

    def range(self, p: _Poly) -> tuple[float, float]:
        return self.bound(p), -self.bound(_Poly().plus(p, -1))

    def bound(self, p: _Poly) -> float:
        """As `lower`; if that takes too long, the sum of what each term is at least."""
        self.left = 48  # polynomials to look at: about 1 ms
        low = self.lower(p)
        if self.left >= 0 or len(p) == 1:
            return low
        return max(low, sum([self.bound(_Poly({m: c})) for m, c in p.items()]))

    def lower(self, p: _Poly) -> float:
        """A number that p is never below, as large as is provable.

        Atom by atom, from the youngest, p is replaced with something smaller that has
        only older ones, so that terms cancel: n - min(n, m) >= n - n. For -min(a, b)
        both -a and -b can be chosen. But min(a, b) is a or b, and the worse one counts:
        such a split precedes all else, for what is best to choose depends on it.
        """
        if p.keys() <= {()}:
            return p.get((), 0)
        self.left -= 1
        if self.left < 0:
            return -math.inf
        atom = max(p.atoms(), key=lambda a: (a.side * p.get((a,), 0) > 0, a.serial))
        factor, rest = p.collect(atom)
        if isinstance(atom, _Call) and atom.side:
            cases = [self.lower(factor.times(_poly(x)).plus(rest)) for x in atom.args]
            return max(cases) if self.sign(factor) == -atom.side else min(cases)
        best = -math.inf
        for f, scale, low, high in self.steps(atom, factor):
            end = {1: low, -1: high}.get(self.sign(f))
            if end is not None:
                bound = self.lower(f.times(_poly(end)).plus(rest, scale))
                best = max(best, bound if math.isinf(bound) else -(-bound // scale))
        return best

    def sign(self, p: _Poly) -> int:
        """1 where p is never negative, -1 where never positive, 0 where not known."""
        return 1 if self.lower(p) >= 0 else -(self.lower(_Poly().plus(p, -1)) >= 0)

    def steps(self, atom: _Atom, factor: _Poly) -> list[_Step]:
        """(f, scale, low, high): scale*factor*atom lies between f*low and f*high."""
        if isinstance(atom, Symbol):
            return [(factor, 1, atom.lower, atom.upper)]
        a, b = atom.args
        if atom.op == "clip":
            return [(factor, 1, 0, b)]
        if self.lower(_poly(b)) < 0:
            return []
        low = 0 if self.lower(_poly(a)) >= 0 else None
        quotient, rest = factor.divide(_poly(b))
        if rest and not isinstance(b, int):
            return [(factor, 1, low, a if low == 0 else None)]
        f, scale = (factor, b) if rest and isinstance(b, int) else (quotient, 1)
        return [(factor, 1, low, None), (f, scale, a - b + 1, a)]  # of b*(a//b), b > 0


FUNCTIONS: dict[str, Callable[..., Size]] = {  # what atoms are made by
    "//": _divide,
    "min": minimum,
    "max": maximum,
    "clip": clip,
}


def evaluate(d: Size, sizes: Mapping[Symbol, int]) -> int:
    """The value of `d` where the symbols have the values `sizes`."""
    value = substitute(d, sizes)
    if isinstance(value, Dim):
        raise GraphError(f"{d} has no value: {value.symbols[0].name} is not known")
    return value


def substitute(d: Size, sizes: Mapping[Symbol, Size]) -> Size:
    """`d` with symbols replaced by sizes; the other symbols stay."""
    values: dict[_Atom, Size] = dict(sizes.items())

    def rebuild(size: Size) -> Size:
        terms = _poly(size).items()
        return sum((c * math.prod(map(value, m)) for m, c in terms), start=0)

    def value(atom: _Atom) -> Size:
        if atom not in values and isinstance(atom, _Call):
            values[atom] = FUNCTIONS[atom.op](*map(rebuild, atom.args))
        return values[atom] if atom in values else symbol_dim(atom)

    return rebuild(d)


def expression(d: Size, name_of: Callable[[Symbol], str], clip: str = CLIP) -> str:
    """A Python expression for `d` in terms of variables for its symbols."""
    return _Printer(name_of, clip).size(d)


@dataclass
class _Printer:
    name_of: Callable[[Symbol], str]
    clip: str

    def size(self, d: Size) -> str:
        moduli, p = _poly(d).moduli()
        terms = [(c, -1, True, [self.atom(x, " % ")]) for c, x in moduli]
        for m, c in p.items():
            quotient = len(m) == 1 and isinstance(m[0], _Call) and m[0].op == "//"
            terms.append((c, -len(m), quotient, sorted(map(self.atom, m))))
        text = ""
        for c, _, bare, factors in sorted(terms, key=lambda t: (t[0] < 0, *t[1:])):
            parts = [str(abs(c))] * (abs(c) != 1 or not factors) + factors
            bare = bare and len(parts) == 1 and bool(text or c > 0)
            term = factors[0][1:-1] if bare else "*".join(parts)
            text += (" - " if c < 0 else " + ") + term
        return "-" * text.startswith(" - ") + text[3:] or "0"

    def atom(self, atom: _Atom, sign: str = "//") -> str:
        if isinstance(atom, Symbol):
            return self.name_of(atom)
        if atom.op == "//":
            return f"({sign.join(map(self.operand, atom.args))})"
        args = (sorted if atom.side else list)(map(self.size, atom.args))
        call = f"{atom.op}({', '.join(args)})"
        return self.clip.format(*args) if atom.op == "clip" else call

    def operand(self, d: Size) -> str:
        atom = _poly(d).only_atom()
        text = self.atom(atom) if atom else self.size(d)
        return text if atom or isinstance(d, int) else f"({text})"
