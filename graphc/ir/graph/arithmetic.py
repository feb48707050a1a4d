"""Compute a formula of sizes by arithmetic on values, as sizes differ per example."""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, Symbol
from graphc.ir.sizes.polynomials import Atom, calls_in, polynomial

Number = Any  # an integer, or a value


def arithmetic(size: Size, number_of: Callable[[Symbol], Number]) -> Number:
    """Compute `size` from the values of its symbols, which may be arrays."""
    value_of: dict[Atom, Number] = {}

    def formula(part: Size) -> Number:
        terms = [
            reduce(operator.mul, map(atom, monomial), coefficient)
            for monomial, coefficient in polynomial(part).items()
        ]
        return reduce(operator.add, terms, 0)

    def atom(one: Atom) -> Number:
        return number_of(one) if isinstance(one, Symbol) else value_of[one]

    for call in calls_in(size):
        value_of[call] = _FUNCTIONS[call.op](*map(formula, call.args))
    return formula(size)


def _clip(index: Number, size: Number) -> Number:
    from_end = F.maximum(index + size, 0)
    return F.where(F.less(index, 0), from_end, F.minimum(index, size))


def _stretch(a: Number, b: Number) -> Number:
    return F.where(F.equal(a, 1), b, a)


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "*": operator.mul,
    "//": lambda a, b: F.floor_divide(a, b),
    "min": lambda *sizes: reduce(F.minimum, sizes),
    "max": lambda *sizes: reduce(F.maximum, sizes),
    "clip": _clip,
    "stretch": lambda *sizes: reduce(_stretch, sizes),
}
