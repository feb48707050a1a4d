"""Sizes of axes: integer expressions in a normal form, with three-valued comparison.

A size is a plain `int` or a `Dim`: a polynomial with integer coefficients over *atoms*,
which are symbols, `a//b`, `min`, `max`, `clip` and `stretch`. Dims are hash-consed, so
equality is usually identity: (n + 1)*(n - 1) is n*n - 1. For the rest a small prover
answers: equal(maximum(n, m) + minimum(n, m), n + m) is True, equal(n, n + 1) is False,
equal(n, m) is None, and n == m raises GraphError.

Parts of sizes are shared, and each operation on a size looks at each part once, however
often it occurs and however deep it is nested. Products of long sums stay products.

Three things are assumed, not checked: divisors are not zero, so (n*m)//m is n; the size
of a clip is not negative; symbols lie within their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar
from weakref import WeakValueDictionary

from graphc.errors import GraphError, graph_error, label
from graphc.ir.sizes import proofs
from graphc.ir.sizes.names import SHOWN, is_of_maybe_one, shown_name
from graphc.ir.sizes.polynomials import (
    MOST_WEIGHT,
    SIDES,
    UNORDERED,
    Atom,
    Call,
    Poly,
    calls_in,
    polynomial,
)
from graphc.ir.sizes.polynomials import Symbol as Symbol
from graphc.ir.sizes.text import expression

PartT = TypeVar("PartT")
MOST_SHOWN = 64  # terms of a formula in a message
MOST_PRODUCTS = 1024  # terms that a product may have when it is written out
MOST_FACTORS = 32  # factors in a term that is written out
MOST_MAYBE_ONE = 6  # axes that may be 1, of which all subsets are tried
DEEPEST_LOOKED_AT = 4  # depth of formulas for which subsets are tried
MOST_COMPARED = 16  # sizes of which all pairs are compared to find an extreme

# Keys hold ids, not references, so a symbol can die even if its origin leads back to a
# Dim of that symbol. No id is reused as long as the entry's value lives.
_dims: WeakValueDictionary[frozenset[tuple[int, ...]], Dim] = WeakValueDictionary()
_calls: WeakValueDictionary[Hashable, Call] = WeakValueDictionary()
_axes: WeakValueDictionary[str, Symbol] = WeakValueDictionary()


def _intern(terms: Poly) -> Dim:
    key = frozenset([(*map(id, m), c) for m, c in terms.items()])
    dim = _dims.get(key)
    return _dims.setdefault(key, Dim(terms)) if dim is None else dim


def _size(terms: Poly) -> Size:
    return terms.get((), 0) if terms.keys() <= {()} else _intern(terms)


def _call(op: str, *args: Size) -> Dim:
    simplified = _existing_call(op, *args)
    if simplified is not None:
        return simplified
    return symbol_dim(_calls.setdefault(_call_key(op, args), Call(op, args)))


def _existing_call(op: str, *args: Size) -> Dim | None:
    """The call if it has been made before, and so cannot be simplified."""
    call = _calls.get(_call_key(op, args))
    return None if call is None else symbol_dim(call)


def _call_key(op: str, args: tuple[Size, ...]) -> Hashable:
    marks = [(id(x),) if isinstance(x, Dim) else int(x) for x in args]
    return op, frozenset(marks) if op in UNORDERED else tuple(marks)


def _operator(function: Callable[[Dim, Size], Size]) -> Callable[[Dim, Size], Size]:
    """An operator that returns NotImplemented for operands that are not sizes.

    The Dim keeps results with an int: they hold no symbols but its own.
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
    """A size that is not constant; `symbols` are all that occur in it, ordered by name.

    >>> import graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n", 3))
    >>> n = x.type.shape[0]
    >>> 2 * n + 1, gt.reshape(x, -1)
    (Dim(2*n + 1), <reshape: float32[3*n]>)

    `weight` is the number of terms in its formula, including those within functions.
    Parts may occur often, so it can be far larger than the memory used; it is counted
    up to a million. `depth` is the depth of the deepest atom.
    """

    __slots__ = (
        *("__weakref__", "_compared", "_results", "_terms", "_text", "depth"),
        *("symbols", "weight"),
    )

    def __init__(self, terms: Poly) -> None:
        self._terms, self._text = terms, ""
        self._results: dict[tuple[object, int], Size] = {}
        self._compared: dict[tuple[str, int], bool | None] = {}
        atoms = terms.atoms()
        calls = [a for m in terms for a in m if isinstance(a, Call)]
        total = len(terms) + sum([call.weight for call in calls])
        self.weight: int = min(total, MOST_WEIGHT)
        self.depth: int = max([atom.depth for atom in atoms])
        parts = [{a} if isinstance(a, Symbol) else a.symbols for a in atoms]
        order = sorted(set[Symbol]().union(*parts), key=lambda s: (s.name, s.serial))
        self.symbols: tuple[Symbol, ...] = tuple(order)

    if TYPE_CHECKING:

        def __add__(self, other: Size) -> Size: ...
        def __radd__(self, other: Size) -> Size: ...
        def __mul__(self, other: Size) -> Size: ...
        def __rmul__(self, other: Size) -> Size: ...
        def __sub__(self, other: Size) -> Size: ...
        def __rsub__(self, other: Size) -> Size: ...
        def __floordiv__(self, other: Size) -> Size: ...
        def __rfloordiv__(self, other: Size) -> Size: ...
        def __mod__(self, other: Size) -> Size: ...
        def __rmod__(self, other: Size) -> Size: ...
        def __hash__(self) -> int: ...
    else:
        __add__ = __radd__ = _operator(lambda a, b: _size(a._terms.plus(polynomial(b))))
        __mul__ = __rmul__ = _operator(lambda a, b: _multiply(a, b))
        __sub__ = _operator(lambda a, b: _size(a._terms.plus(polynomial(b), -1)))
        __rsub__ = _operator(lambda a, b: _size(polynomial(b).plus(a._terms, -1)))
        __floordiv__ = _operator(lambda a, b: _divide(a, b))
        __rfloordiv__ = _operator(lambda a, b: _divide(b, a))
        __mod__ = _operator(lambda a, b: a - b * _divide(a, b))
        __rmod__ = _operator(lambda a, b: b - a * _divide(b, a))
        __hash__ = object.__hash__

    def __neg__(self) -> Size:
        return 0 - self

    @property
    def is_symbol(self) -> bool:
        """Whether the size is a single symbol."""
        return self is symbol_dim(self.symbols[0])

    def compare_with(
        self, relation: Literal["at least", "at most"], n: int
    ) -> bool | None:
        """Compare with `n`, as `less_equal` does; kept, since type rules ask often."""
        key = relation, n
        if key not in self._compared:
            pair = (n, self) if relation == "at least" else (self, n)
            self._compared[key] = _compare_sizes(*pair)
        return self._compared[key]

    def __copy__(self) -> Dim:
        return self  # a size never changes and exists only once

    def __deepcopy__(self, _: object) -> Dim:
        return self

    def __reduce__(self) -> NoReturn:
        raise graph_error(
            "a size cannot be pickled: its symbols belong to this process",
            op="pickle",
            got=str(self),
            hint="keep str(size), or save a compiled function",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Dim):
            return NotImplemented
        answer = equal(self, other)
        if answer is None:
            raise GraphError(
                f"{self} == {other} is not provable: use dims.equal(a, b)", "size"
            )
        return answer

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        if self.weight > MOST_SHOWN:
            over = "over " if self.weight == MOST_WEIGHT else ""
            return f"<{over}{self.weight} terms>"
        if SHOWN.names:
            return expression(self, shown_name, "clip({}, {})")
        if not self._text:
            self._text = expression(self, shown_name, "clip({}, {})")
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self})"


Size = int | Dim


def weight(size: Size) -> int:
    """The number of terms in a formula."""
    return size.weight if isinstance(size, Dim) else 1


def symbols_in(size: object) -> tuple[Symbol, ...]:
    """The symbols of a size; a number, or an object that is no size, has none."""
    return size.symbols if isinstance(size, Dim) else ()


def axis(name: str) -> Dim:
    """The size of all axes called `name`: one symbol, at least 0; "b?" may be 1."""
    symbol = _axes.get(name)
    if symbol is None:
        fresh = Symbol(name, lower=0, may_be_one=is_of_maybe_one(name))
        symbol = _axes.setdefault(name, fresh)
    return symbol_dim(symbol)


def is_declared(symbol: Symbol) -> bool:
    """Whether a symbol is the size that users declare for all axes of its name."""
    return _axes.get(symbol.name) is symbol


def fresh_axis(name: str, least: int = 0) -> Dim:
    """The size of one axis, distinct from others even where the names agree."""
    return symbol_dim(Symbol(label(name), lower=least))


def symbol_dim(symbol: Atom) -> Dim:
    """The size that consists of `symbol` alone."""
    return _intern(Poly({(symbol,): 1}))


def named_axes(
    shape: Iterable[Size], parts: Iterable[PartT]
) -> Iterator[tuple[Symbol, PartT]]:
    """Yield each symbol that is a size of `shape`, with the part at its position."""
    for size, part in zip(shape, parts, strict=True):
        if isinstance(size, Dim) and size.is_symbol:
            yield size.symbols[0], part


def _multiply(a: Size, b: Size) -> Size:
    """a*b, written out unless that takes too many terms."""
    p, q = polynomial(a), polynomial(b)
    long = len(p) * len(q) > MOST_PRODUCTS and min(len(p), len(q)) > 1
    if long or p.degree() + q.degree() > MOST_FACTORS:
        return _call("*", a, b)
    return _size(p.times(q))


def _divide(a: Size, b: Size) -> Size:
    """a//b. Each rule calls this again on something simpler, until none applies."""
    by = polynomial(b)
    if not by:
        raise GraphError(f"{a} is divided by zero", "size")
    if all(c < 0 for c in by.values()):
        return _divide(-a, -b)
    quotient, remainder = polynomial(a).divide(by)
    return _size(quotient) + (_divide_rest(remainder, by) if remainder else 0)


def _divide_rest(p: Poly, by: Poly) -> Size:
    """p//by, where p holds no multiple of `by` that could be divided out."""
    for atom in set[Atom].intersection(*map(set, (*p, *by))):
        return _divide(_size(p.collect(atom)[0]), _size(by.collect(atom)[0]))
    constant, c = p.get((), 0), by.get((), 0) if len(by) == 1 else 0
    factors = [k for m, k in p.items() if m or not c]
    shared = math.gcd(*by.values(), *factors)
    if shared > 1:  # floor((k*x + r)/(k*c)) is floor(x/c) for 0 <= r < k and c > 0
        return _divide(*(_size(q.divide(polynomial(shared))[0]) for q in (p, by)))
    if c and all(k < 0 for k in factors):  # so that ceil(n/2) has one form only
        return -_divide(_size(polynomial(c - 1).plus(p, -1)), c)
    inner = p.plus(polynomial(constant), -1).only_atom()
    if c and isinstance(inner, Call) and inner.op == "//":
        x, y = inner.args
        return _divide(x + constant * y, y * c)
    return _call("//", _size(p), _size(by))


def ceil_div(a: Size, b: Size) -> Size:
    """a/b rounded up. `b` must not be zero, which is checked for constants only."""
    return -_divide(-a, b)


def _extreme(op: str, *sizes: Size) -> Size:
    known = _existing_call(op, *sizes)
    if known is not None:
        return known
    side = SIDES[op]
    candidates: list[Size] = []
    flat: list[Size] = []
    for size in sizes:
        atom = polynomial(size).only_atom()
        flat += atom.args if isinstance(atom, Call) and atom.op == op else (size,)
    # The simplest come first: of two that are equal, the first is kept.
    for x in sorted(dict.fromkeys(flat), key=lambda x: (weight(x), str(x))):
        near = candidates if len(flat) <= MOST_COMPARED else ()
        if not any(less_equal(side * y, side * x) for y in near):
            dropped = {id(y) for y in near if less_equal(side * x, side * y)}
            candidates = [y for y in candidates if id(y) not in dropped] + [x]
    if not candidates:
        raise GraphError(f"the {op}imum of no sizes: give at least one", "size")
    return candidates[0] if len(candidates) == 1 else _call(op, *candidates)


def minimum(*sizes: Size) -> Size:
    """The smallest of the sizes."""
    return _kept_extreme(_MIN, sizes)


def maximum(*sizes: Size) -> Size:
    """The largest of the sizes."""
    return _kept_extreme(_MAX, sizes)


_MIN, _MAX = partial(_extreme, "min"), partial(_extreme, "max")


def _kept_extreme(function: Callable[..., Size], sizes: tuple[Size, ...]) -> Size:
    """The extreme of sizes; for a Dim and an int, the Dim keeps it, see `_operator`."""
    a, b = sizes if len(sizes) == 2 else (0, 0)
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int) or not isinstance(b, int):
        return function(*sizes)
    result = a._results.get((function, b))
    if result is None:
        result = a._results[function, b] = function(a, b)
    return result


def is_one(n: Size) -> bool:
    """Whether a size is the number 1."""
    return isinstance(n, int) and n == 1


def may_be_one(size: Size) -> bool:
    """Whether a size is 1 if some of its axes that may be 1 are, whatever the others.

    Such an axis stretches: `b` does, and `b*c`, but neither `b + 1` nor a plain `n`.
    """
    if isinstance(size, int):
        return False
    symbols = [s for s in size.symbols if s.may_be_one]
    if not symbols:
        return False
    answer = size._results.get((may_be_one, 0))
    if answer is None:
        answer = size._results[may_be_one, 0] = int(_is_one_for_some(size, symbols))
    return bool(answer)


def _is_one_for_some(size: Dim, symbols: list[Symbol]) -> bool:
    """Whether a size is 1 if some of the symbols are; a long size, if all are."""
    long = len(symbols) > MOST_MAYBE_ONE or size.depth > DEEPEST_LOOKED_AT
    counts = range(len(symbols) if long else 1, len(symbols) + 1)
    chosen = (some for k in counts for some in combinations(symbols, k))
    sizes = (substitute(size, dict.fromkeys(some, 1)) for some in chosen)
    return any(map(is_one, sizes))


def stretch(*sizes: Size) -> Size:
    """The size that broadcasting gives axes of these sizes: the one that is not 1.

    Sizes that are not 1 are assumed to be equal.
    """
    flat: dict[Size, None] = {}
    for size in sizes:
        atom = polynomial(size).only_atom()
        nested = isinstance(atom, Call) and atom.op == "stretch"
        flat.update(dict.fromkeys(atom.args if nested else (size,)))  # type: ignore[union-attr]
    wide = [n for n in flat if not is_one(n)]
    sure = [n for n in wide if not may_be_one(n)]
    if sure or len(wide) < 2:
        return (sure or wide or [1])[0]
    return _call("stretch", *wide)


def clip(index: Size, size: Size) -> Size:
    """`slice(index).indices(size)[1]`, for a `size` that is not negative."""
    known = _existing_call("clip", index, size)
    if known is not None:
        return known
    if less_equal(size, -1):
        raise GraphError(f"an axis cannot have {size} elements", "size")
    if less_equal(0, index):
        return minimum(index, size)
    if less_equal(index, -1):
        return maximum(index + size, 0)
    if less_equal(size, 0) or less_equal(size, index):
        return size
    return 0 if less_equal(index + size, 0) else _call("clip", index, size)


def equal(a: Size, b: Size) -> bool | None:
    """Whether a == b for all values of the symbols, for none, or None for unknown."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    difference = polynomial(a).plus(polynomial(b), -1)
    # Atoms are integers, so 2*n and 2*m + 1 differ by an odd number.
    step = math.gcd(*(c for m, c in difference.items() if m))
    if step and difference.get((), 0) % step:
        return False
    low = proofs.lower(difference)
    if low > 0:
        return False
    high = proofs.upper(difference)
    return True if low == high == 0 else False if high < 0 else None


def less_equal(a: Size, b: Size) -> bool | None:
    """Whether a <= b for all values of the symbols, for none, or None for unknown."""
    if isinstance(a, int):
        return a <= b if isinstance(b, int) else b.compare_with("at least", a)
    return a.compare_with("at most", b) if isinstance(b, int) else _compare_sizes(a, b)


def _compare_sizes(a: Size, b: Size) -> bool | None:
    difference = polynomial(b).plus(polynomial(a), -1)
    if proofs.lower(difference) >= 0:
        return True
    return False if proofs.upper(difference) < 0 else None


def bounds(d: Size) -> tuple[int | None, int | None]:
    """Numbers that bound `d` from below and above; None where none is known."""
    ends = [prove(polynomial(d)) for prove in (proofs.lower, proofs.upper)]
    low, high = (None if math.isinf(x) else int(x) for x in ends)
    return low, high


FUNCTIONS: dict[str, Callable[..., Size]] = {  # the functions that make atoms
    "*": lambda a, b: a * b,
    "//": _divide,
    "min": minimum,
    "max": maximum,
    "clip": clip,
    "stretch": stretch,
}


def evaluate(d: Size, sizes: Mapping[Symbol, int]) -> int:
    """The value of `d` for the given values of its symbols."""
    value = substitute(d, sizes)
    if isinstance(value, Dim):
        raise GraphError(
            f"{d} has no value: {value.symbols[0].name} is not known", "size"
        )
    return value


def evaluate_equal(d: Size, number: int) -> int:
    """The value of `d` where each of its symbols has this number."""
    return evaluate(d, dict.fromkeys(symbols_in(d), number))


def substitute(d: Size, sizes: Mapping[Symbol, Size]) -> Size:
    """Replace symbols in `d` by sizes; other symbols stay."""
    if not isinstance(d, Dim) or sizes.keys().isdisjoint(d.symbols):
        return d
    values: dict[Atom, Size] = dict(sizes.items())
    for call in calls_in(d):
        if not call.symbols.isdisjoint(values):
            args = [with_atoms(n, values) for n in call.args]
            values[call] = FUNCTIONS[call.op](*args)
    return with_atoms(d, values)


def with_atoms(d: Size, values: Mapping[Atom, Size]) -> Size:
    """Replace symbols and calls in `d`; other atoms stay."""
    total = Poly()
    for monomial, c in polynomial(d).items():
        factors = [values[a] if a in values else symbol_dim(a) for a in monomial]
        total.add(polynomial(math.prod(factors)).items(), c)
    return _size(total)
