"""Decisions by sizes that Python code takes while JAX traces it.

A symbolic size must answer `n % 4 == 0` with yes or no, and the trace then holds for
the sizes that answer alike. So each question that the symbols leave open is answered
for the sizes of the traced call, and recorded with the line that asks: see `recorder`.

Code that asks for the text, the hash or the number of a size may do anything with it,
so no list of questions describes that code; and nothing notices when code asks for a
size's identity. Such a trace is opaque: it must be compared with a trace of each new
size.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from graphc.errors import GraphError, SourceLocation
from graphc.ir.sizes.dims import (
    MOST_SHOWN,
    Dim,
    Size,
    equal,
    evaluate,
    less_equal,
    substitute,
    symbol_dim,
    symbols_in,
    weight,
)
from graphc.ir.sizes.polynomials import Symbol, calls_in, polynomial
from graphc.ir.sizes.text import expression

Relation = Literal["==", ">="]
OPAQUE = "the text, the hash, the number or the identity"  # of a size
FEWEST_OF_LOOP = 4  # steps
NEARBY = range(1, 25)  # added to a size, for equal remainders by its divisors
_NEGATED = {"==": "!=", ">=": "<"}
_SWAPPED = {"==": "==", "!=": "!=", ">=": "<=", "<": ">"}


@dataclass(frozen=True)
class Decision:
    """The answer to a question about two sizes, and the line that asked it."""

    left: Size
    relation: Relation
    right: Size
    answer: bool
    place: SourceLocation
    by_user: bool  # rather than JAX, which asks if sizes must be equal

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether the question has the same answer for these sizes."""
        try:
            left, right = (evaluate(side, sizes) for side in (self.left, self.right))
        except GraphError:  # a size is divided by 0
            return False
        return answer_for(left, self.relation, right) is self.answer

    @property
    def symbols(self) -> list[Symbol]:
        """The symbols in both sides of the question."""
        return list(dict.fromkeys((*symbols_in(self.left), *symbols_in(self.right))))

    def symbol_pinned(self) -> Symbol | None:
        """The symbol that the answer restricts to a single number, or None."""
        difference = self.left - self.right
        if self.relation != "==" or not self.answer or not isinstance(difference, Dim):
            return None
        atoms = polynomial(difference).atoms()
        (atom,) = atoms if len(atoms) == 1 else (None,)
        return atom if isinstance(atom, Symbol) else None

    def text(self, words: Mapping[Symbol, str]) -> str:
        """Show the fact, with words for symbols: `x.shape[0] % 4 == 0`."""
        relation = self.relation if self.answer else _NEGATED[self.relation]
        sides = self.left, self.right
        if isinstance(self.left, int):
            relation, sides = _SWAPPED[relation], sides[::-1]
        left, right = (
            str(side)  # which is short
            if weight(side) > MOST_SHOWN
            else expression(side, lambda symbol: words.get(symbol, symbol.name))
            for side in sides
        )
        return f"{left} {relation} {right}"

    @property
    def is_long(self) -> bool:
        """Whether its text leaves out what it asks."""
        return max(weight(self.left), weight(self.right)) > MOST_SHOWN

    def __str__(self) -> str:
        return self.text({})


@dataclass(frozen=True)
class Decisions:
    """The decisions of a trace, about the symbols of its sizes.

    `opaque` is the line that asked something that cannot be recorded, or None. `words`
    maps the names of sizes to the user's words for them.
    """

    symbols: Mapping[str, Symbol]
    taken: tuple[Decision, ...] = ()
    opaque: SourceLocation | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def hold(self, sizes: Mapping[str, int]) -> bool:
        """Whether all decisions have the same answers for these sizes, by name."""
        return not self.differing(sizes)

    def differing(self, sizes: Mapping[str, int]) -> list[Decision]:
        """The decisions that have a different answer for these sizes."""
        numbers = self._numbers(sizes)
        return [d for d in self.taken if not d.holds(numbers)]

    def fit_only(self, sizes: Mapping[str, int]) -> bool:
        """Whether the decisions are those of a loop, and fit no size nearby.

        A loop of Python that goes on while an axis is long asks in each step.
        """
        if len(self.taken) < FEWEST_OF_LOOP:
            return False
        return any(
            not any(self.hold({**sizes, name: max(n + k, 0)}) for k in (-1, *NEARBY))
            for name, n in sizes.items()
        )

    def pinning(self, sizes: Mapping[str, int]) -> list[Decision]:
        """The facts that hold for these sizes alone; [] if other sizes share them.

        Each fact is answered as for these sizes.
        """
        numbers = self._numbers(sizes)
        facts = [
            d if d.holds(numbers) else replace(d, answer=not d.answer)
            for d in self.taken
        ]
        pinned = {d.symbol_pinned(): d for d in facts}
        pinned.pop(None, None)
        return list(pinned.values()) if len(pinned) == len(self.symbols) else []

    def facts_by_user(self) -> set[str]:
        """The facts that the user's code asks for, as text."""
        return {str(decision) for decision in self.taken if decision.by_user}

    def implied_sizes(self) -> dict[str, Size]:
        """The sizes as the facts imply them: 3 * m for a size that 3 divides."""
        implied: dict[Symbol, Size] = {s: symbol_dim(s) for s in self.symbols.values()}
        for fact in self.taken:
            if fact.relation != "==" or not fact.answer:
                continue
            difference = substitute(fact.left - fact.right, implied)
            for symbol, multiple in _multiples(difference):
                new = {symbol: multiple}
                if equal(substitute(difference, new), 0) is True:
                    implied = {s: substitute(n, new) for s, n in implied.items()}
                    break
        return {name: implied[symbol] for name, symbol in self.symbols.items()}

    def names_of_fixed_sizes(self) -> list[str]:
        """The names of the sizes for which JAX accepts a single number."""
        pinned = {d.symbol_pinned() for d in self.taken if not d.by_user}
        return [name for name, symbol in self.symbols.items() if symbol in pinned]

    def described(self, decisions: Iterable[Decision]) -> list[str]:
        """Describe decisions in the user's words, each with its line."""
        words = {self.symbols[name]: text for name, text in self.words.items()}
        by_jax = {d: "" if d.by_user else ", asked by JAX" for d in decisions}
        return [f"{d.text(words)} ({d.place}{who})" for d, who in by_jax.items()]

    def _numbers(self, sizes: Mapping[str, int]) -> dict[Symbol, int]:
        return {symbol: sizes[name] for name, symbol in self.symbols.items()}


def known_answer(left: Size, relation: Relation, right: Size) -> bool | None:
    """The answer to a question for all sizes; None if it depends on their numbers."""
    return equal(left, right) if relation == "==" else less_equal(right, left)


def answer_for(left: int, relation: Relation, right: int) -> bool:
    """The answer to a question about numbers."""
    return left == right if relation == "==" else left >= right


def _multiples(size: Size) -> Iterator[tuple[Symbol, Size]]:
    """Symbols that `size` divides by a number, each with a multiple to replace it."""
    for call in calls_in(size):
        divided, *by = call.args
        if not (isinstance(divided, Dim) and divided.is_symbol):
            continue
        if len(by) == 1 and isinstance(by[0], int):
            (symbol,) = divided.symbols
            least = -(-(symbol.lower or 0) // by[0])
            times = Symbol(symbol.name, lower=least)
            yield symbol, by[0] * symbol_dim(times)
