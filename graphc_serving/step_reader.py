"""The steps of a file, checked: each is of a known kind, of values made before it.

Ranks and dtypes are followed from the inputs to the results, so that at a call only
sizes can be others than a step needs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from graphc_serving.kinds import DTYPES, is_integer, list_of, of, shape_of, shortened
from graphc_serving.steps import (
    FUNCTIONS,
    LARGEST,
    OPERANDS,
    WORDS,
    Formula,
    Kind,
    Step,
)

MOST_FACTORS = 64  # of a term, and operands of a function


class Stage(NamedTuple):
    """The kinds of arguments and outputs of programs, and how many integers choose."""

    arguments: tuple[Kind, ...]
    statics: int
    outputs: tuple[Kind, ...]


class StepReader:
    """Reads steps one after another, and keeps of which kind each value is.

    That of an integer is None.
    """

    def __init__(self, given: Sequence[Kind], stages: Sequence[Stage]) -> None:
        self.kinds: list[Kind | None] = list(given)
        self._stages = stages
        self._readers: Mapping[str, Callable[[Any], Any]] = {
            "array": self.array,
            "arrays": lambda x: tuple(map(self.array, list_of(x))),
            "bool": lambda x: of(bool, x),
            "count": _count,
            "formula": self._formula,
            "formulas": self._formulas,
            "function": lambda x: _one_of(FUNCTIONS, x),
            "integer dtype": _integer_dtype,
            "relation": lambda x: _one_of(("==", "<="), x),
            "rows": lambda x: tuple(map(shape_of, list_of(x))),
            "sizes": self._sizes,
            "text": lambda x: of(str, x),
            "texts": lambda x: tuple([of(str, text) for text in list_of(x)]),
        }

    def step(self, given: Any) -> Step:
        """One step. Raises TypeError or ValueError where it is none."""
        word, *parts = list_of(given)
        kinds = WORDS[_one_of(WORDS, word)].parts
        if len(parts) != len(kinds):
            raise ValueError(f"the step {word} has {len(kinds)} parts")
        pairs = zip(kinds, parts, strict=True)
        step = Step(word, tuple([self._readers[kind](part) for kind, part in pairs]))
        self.kinds += self._made(step)
        return step

    def array(self, number: Any) -> int:
        """The number of an array that there is."""
        found: int = of(int, number)
        if not 0 <= found < len(self.kinds) or self.kinds[found] is None:
            raise ValueError(f"{found} is no array")
        return found

    def _made(self, step: Step) -> list[Kind | None]:
        """The kinds of what a step makes. Raises ValueError where it cannot."""
        made = _MADE.get(step.word)
        return [None] if made is None else made(self, *step.parts)

    def _kind(self, number: int) -> Kind:
        kind = self.kinds[number]
        assert kind is not None  # as `array` has found
        return kind

    def _of_axis(self, array: int, axis: int) -> list[Kind | None]:
        _require(axis < self._kind(array).rank, "there is no such axis")
        return [None]

    def _of_read(self, array: int, name: str, cut: bool) -> list[Kind | None]:
        dtype, rank = self._kind(array)
        _require(is_integer(dtype) and not rank, "what is read must be an integer")
        return [None]

    def _of_apply(self, name: str, formulas: Sequence[Any]) -> list[Kind | None]:
        count, wanted = len(formulas), OPERANDS.get(name)
        fits = 0 < count <= MOST_FACTORS and wanted in (None, count)
        _require(fits, f"{name} takes another number of operands")
        return [None]

    def _of_number(self, formula: Formula, dtype: str) -> list[Kind | None]:
        return [Kind(dtype, 0)]

    def _of_capacities(
        self, fixed: Sequence[Any], wanted: Sequence[Any], rows: Sequence[Any]
    ) -> list[Kind | None]:
        width = len(fixed) + len(wanted)
        _require(all(len(row) == width for row in rows), "a row has another length")
        return [None] * len(wanted)

    def _of_same(self, array: int, sizes: Sequence[Any]) -> list[Kind | None]:
        _require(len(sizes) == self._kind(array).rank, "it has another rank")
        return [self._kind(array)]

    def _of_check(self, *parts: Any) -> list[Kind | None]:
        return []

    def _of_require(self, array: int, texts: Sequence[str]) -> list[Kind | None]:
        dtype, rank = self._kind(array)
        fits = not rank and len(texts) == 1 if dtype == "bool" else rank == 1
        _require(fits and bool(texts), "what is tested must be a condition")
        _require(dtype == "bool" or is_integer(dtype), "a condition has no numbers")
        return []

    def _of_run(
        self, stage: int, arrays: Sequence[int], statics: Sequence[Any]
    ) -> list[Kind | None]:
        _require(stage < len(self._stages), f"there is no stage {stage}")
        known = self._stages[stage]
        fits = tuple(map(self._kind, arrays)) == known.arguments
        fits = fits and len(statics) == known.statics
        _require(fits, f"stage {stage} has other arguments")
        return list(known.outputs)

    def _of_grow(
        self,
        stage: int,
        arrays: Sequence[int],
        statics: Sequence[Any],
        carries: int,
        name: str,
    ) -> list[Kind | None]:
        """A piece takes what one before it gives: carries, whether it goes on first."""
        made = self._of_run(stage, arrays, [*statics, None])
        given: list[Kind | None] = [self._kind(i) for i in arrays[:carries]]
        fits = 0 < carries < len(made) and made[:carries] == given
        fits = fits and made[0] == Kind("bool", 0) and made[carries] == Kind("int32", 0)
        rows = [kind for kind in made[carries + 1 :] if kind is not None]
        _require(fits and all(kind.rank for kind in rows), f"stage {stage} is no loop")
        return made

    def _of_rows(self, array: int, count: Any) -> list[Kind | None]:
        _require(self._kind(array).rank > 0, "a number has no rows")
        return [self._kind(array)]

    def _sizes(self, given: Any) -> tuple[Formula | None, ...]:
        parts = list_of(given)
        return tuple([None if x is None else self._formula(x) for x in parts])

    def _formulas(self, given: Any) -> tuple[Formula, ...]:
        return tuple(map(self._formula, list_of(given)))

    def _formula(self, given: Any) -> Formula:
        return tuple(map(self._term, list_of(given)))

    def _term(self, given: Any) -> tuple[int, tuple[int, ...]]:
        factor, numbers = list_of(given)
        _require(-LARGEST <= of(int, factor) < LARGEST, "a factor has over 64 bits")
        _require(len(list_of(numbers)) <= MOST_FACTORS, "a term has many factors")
        return factor, tuple(map(self._integer, numbers))

    def _integer(self, number: Any) -> int:
        found: int = of(int, number)
        if not 0 <= found < len(self.kinds) or self.kinds[found] is not None:
            raise ValueError(f"{found} is no integer")
        return found


_MADE: Mapping[str, Callable[..., list[Kind | None]]] = {
    "axis": StepReader._of_axis,
    "read": StepReader._of_read,
    "apply": StepReader._of_apply,
    "number": StepReader._of_number,
    "capacities": StepReader._of_capacities,
    "pad": StepReader._of_same,
    "cut": StepReader._of_same,
    "check": StepReader._of_check,
    "require": StepReader._of_require,
    "run": StepReader._of_run,
    "grow": StepReader._of_grow,
    "rows": StepReader._of_rows,
}


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _count(given: Any) -> int:
    found: int = of(int, given)
    _require(found >= 0, f"{found} is no count")
    return found


def _one_of(words: Any, given: Any) -> str:
    word: str = of(str, given)
    _require(word in words, f"{shortened(word, 20)!r} is unknown")
    return word


def _integer_dtype(given: Any) -> str:
    dtype: str = of(str, given)
    _require(dtype in DTYPES and is_integer(dtype), f"{shortened(dtype, 20)} is no int")
    return dtype
