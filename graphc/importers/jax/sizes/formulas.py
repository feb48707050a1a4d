"""Express integers that vary between traces as formulas in the traces' sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import gcd
from typing import Any

from graphc.importers.jax.read.unsupported import Unsupported

SMALL_DIVISORS = range(2, 17)
LARGEST_MULTIPLE = 8  # of a size before a division
BLOCKS = (20, 24, 25, 32, 48, 50, 64, 96, 100, 128, 192, 256, 512, 1000, 1024)


@dataclass(frozen=True)
class Formula:
    """A sum of multiples of products of sizes, divided and rounded down.

    The sum consists of `shift` and the `parts`: the names in each product, and its
    factor. The sum is divided by `divisor` or, if `modulo` is set, the remainder is
    taken. A quotient is then multiplied by `blocks`. Finally `after` is added.
    """

    shift: int
    parts: tuple[tuple[tuple[str, ...], int], ...] = ()
    divisor: int = 1
    modulo: bool = False
    after: int = 0
    blocks: int = 1

    def at(self, sizes: Mapping[str, object]) -> Any:
        """Evaluate the formula for these sizes, which are numbers or symbols."""
        total: Any = self.shift
        for names, times in self.parts:
            product: Any = times
            for name in names:
                product = product * sizes[name]
            total = total + product
        if self.modulo:
            return total % self.divisor + self.after
        whole = total // self.divisor if self.divisor > 1 else total
        return whole * self.blocks + self.after

    def bounds(self, name: str) -> tuple[int | None, int | None]:
        """The least and the largest size of this name that give no negative value.

        A bound is None if it is unknown: bounds are known only for a multiple of this
        size alone, plus a number.
        """
        is_plain = self.divisor == self.blocks == 1 and not self.modulo
        if not is_plain or len(self.parts) != 1 or self.parts[0][0] != (name,):
            return None, None
        times, shift = self.parts[0][1], self.shift + self.after
        return (-(shift // times), None) if times > 0 else (None, shift // -times)


def fit_formula(column: Sequence[int], samples: Sequence[Mapping[str, int]]) -> Formula:
    """Return the simplest known formula that gives `column` at these sizes.

    Raises Unsupported if none is found.
    """
    if len(set(column)) == 1:
        return Formula(column[0])
    names = list(samples[0])
    for formula in _candidates(column, samples, names):
        pairs = zip(column, samples, strict=True)
        if all(formula.at(sizes) == n for n, sizes in pairs):
            return formula
    shown = ", ".join(map(str, column))
    raise Unsupported(f"a size that is {shown} follows no formula that is known here")


def _candidates(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    first, sizes = column[0], samples[0]
    yield from _linear_formulas(column, samples, names)
    for name in names:
        yield from _block_formulas(name)
    yield from _multiples_of_blocks(column, samples, names)
    for name in names:
        for divisor in (*SMALL_DIVISORS, *BLOCKS):
            small = divisor in SMALL_DIVISORS
            for shift in range(divisor) if small else (0, divisor - 1):
                for blocks in (1, divisor):
                    base = Formula(shift, (((name,), 1),), divisor, blocks=blocks)
                    yield replace(base, after=first - base.at(sizes))
            for times in (1, -1):
                base = Formula(0, (((name,), times),), divisor, True)
                yield replace(base, after=first - base.at(sizes))
    products = [*combinations(names, 2), *((name, name) for name in names)]
    for product in products:
        yield from _multiples_of_product(product, column, samples)
    for name in names:  # triangular numbers
        for sign in (1, -1):
            base = Formula(0, (((name, name), 1), ((name,), sign)), 2)
            yield replace(base, after=first - base.at(sizes))
    yield from _quotients(column, samples, names)
    yield from _quotients_of_sums(column, samples, names)


def _linear_formulas(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    """Formulas without division: first the sizes alone, as arguments have them."""
    for name in names:
        yield Formula(0, (((name,), 1),))
    yield from _sums_of_sizes(column, samples, names)
    for name in names:  # for samples that determine no sum
        yield from _multiples_of_product((name,), column, samples)


def _multiples_of_blocks(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    """Multiples of the number of blocks in a size."""
    for count in chain.from_iterable(map(_block_formulas, names)):
        if count.blocks == 1 and not count.modulo:
            multiples = _multiples_of(count, column, samples)
            yield from (multiple for multiple in multiples if not multiple.after)


def _quotients(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    """A multiple of a rounded quotient, of a multiple of a size, plus a number."""
    pairs = [(k, d) for k in range(1, LARGEST_MULTIPLE + 1) for d in SMALL_DIVISORS]
    for times, divisor in pairs:
        for name in names if gcd(times, divisor) == 1 else ():
            for shift in range(divisor):
                quotient = Formula(shift, (((name,), times),), divisor)
                yield from _multiples_of(quotient, column, samples)


def _quotients_of_sums(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    """A multiple of a rounded quotient, of a sum of sizes, plus a number.

    A sum has two or three sizes; of two, one may be doubled or subtracted.
    """
    sums = [
        tuple(((name,), 1) for name in summed)
        for count in (2, 3)
        for summed in combinations(names, count)
    ]
    for a, b in combinations(names, 2):
        for of_a, of_b in ((1, 2), (2, 1), (1, -1), (-1, 1)):
            sums.append((((a,), of_a), ((b,), of_b)))
    for parts in sums:
        for divisor in SMALL_DIVISORS:
            for shift in range(divisor):
                quotient = Formula(shift, parts, divisor)
                yield from _multiples_of(quotient, column, samples)


def _multiples_of(
    formula: Formula, column: Sequence[int], samples: Sequence[Mapping[str, int]]
) -> Iterator[Formula]:
    """A multiple of a formula plus a number, if two values determine the factor."""
    values = [formula.at(sizes) for sizes in samples]
    for n, value in zip(column[1:], values[1:], strict=True):
        if value != values[0]:
            blocks, remainder = divmod(n - column[0], value - values[0])
            if blocks and not remainder:
                after = column[0] - blocks * values[0]
                yield replace(formula, blocks=blocks, after=after)
            return


def _block_formulas(name: str) -> Iterator[Formula]:
    """A size in whole blocks, the number of blocks, or how much is missing or left."""
    size = (((name,), 1),)
    for divisor in (*SMALL_DIVISORS, *BLOCKS):
        for shift in (divisor - 1, 0):
            yield Formula(shift, size, divisor, blocks=divisor)
            yield Formula(shift, size, divisor)
        for times in (-1, 1):
            yield Formula(0, (((name,), times),), divisor, True)


def _multiples_of_product(
    product: tuple[str, ...],
    column: Sequence[int],
    samples: Sequence[Mapping[str, int]],
) -> Iterator[Formula]:
    """A multiple of a product of sizes, plus a number."""
    multiple = Formula(0, ((product, 1),))
    values = [multiple.at(sizes) for sizes in samples]
    for n, value in zip(column[1:], values[1:], strict=True):
        if value != values[0] and (n - column[0]) % (value - values[0]) == 0:
            times = (n - column[0]) // (value - values[0])
            yield Formula(column[0] - times * values[0], ((product, times),))
            return


def _sums_of_sizes(
    column: Sequence[int], samples: Sequence[Mapping[str, int]], names: Sequence[str]
) -> Iterator[Formula]:
    """A sum of multiples of all sizes, plus a number.

    The factor of a size follows from a sample that differs from the first in that size
    alone, or otherwise only in sizes whose factors are known.
    """
    first, pairs = samples[0], list(zip(column[1:], samples[1:], strict=True))
    factors: dict[str, int] = {}
    for _ in names:
        for n, sizes in pairs:
            differing = [k for k in names if sizes[k] != first[k]]
            unknown = [k for k in differing if k not in factors]
            if len(unknown) != 1:
                continue
            name = unknown[0]
            known = sum(
                factors[k] * (sizes[k] - first[k]) for k in differing if k in factors
            )
            more = n - column[0] - known
            factors[name], remainder = divmod(more, sizes[name] - first[name])
            if remainder:
                return
    shift = column[0] - sum(times * first[name] for name, times in factors.items())
    parts = [((name,), factors[name]) for name in names if factors.get(name)]
    yield Formula(shift, tuple(parts))
