"""Check the steps of a file: each is of a known kind, of values made before it.

Ranks and dtypes are followed from the inputs to the results, so that at a call only
sizes can differ from what a step needs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from graphc_serving.kinds import (
    DTYPES,
    FLOATS,
    Kind,
    Shape,
    is_integer,
    list_of,
    of,
    one_of,
    shape_of,
    shortened,
)
from graphc_serving.loops import Loop
from graphc_serving.steps import (
    FUNCTIONS,
    LARGEST,
    OPERANDS,
    WORDS,
    Formula,
    Step,
)
from graphc_serving.ufuncs import UFUNCS, result_of

MOST_FACTORS = 64  # of a term, and operands of a function
DEEPEST = 8  # loops within loops


class Stage(NamedTuple):
    """The kinds of a stage's arguments and outputs, and how many integers it takes."""

    arguments: tuple[Kind, ...]
    statics: int
    outputs: tuple[Kind, ...]


class StepReader:
    """Reads steps one after another, and remembers the kind of each value.

    The kind of an integer is None.
    """

    def __init__(
        self, kinds: Sequence[Kind | None], stages: Sequence[Stage], depth: int = 0
    ) -> None:
        self.kinds: list[Kind | None] = list(kinds)
        self._stages = stages
        self._depth = depth
        self._readers: Mapping[str, Callable[[object], object]] = {
            "array": self.array,
            "arrays": lambda x: tuple(map(self.array, list_of(x))),
            "bool": lambda x: of(bool, x),
            "count": _count,
            "dtype": lambda x: one_of(DTYPES, x),
            "float": _float,
            "float dtype": lambda x: one_of(FLOATS, x),
            "formula": self._formula,
            "formulas": self._formulas,
            "function": lambda x: one_of(FUNCTIONS, x),
            "integer dtype": _integer_dtype,
            "loop": self._loop,
            "relation": lambda x: one_of(("==", "<="), x),
            "rows": lambda x: tuple(map(shape_of, list_of(x))),
            "sizes": self._sizes,
            "text": lambda x: of(str, x),
            "texts": lambda x: tuple([of(str, text) for text in list_of(x)]),
            "ufunc": lambda x: one_of(UFUNCS, x),
        }

    def step(self, stored: object) -> Step:
        """Read one step; raise TypeError or ValueError where it is none."""
        first, *parts = list_of(stored)
        word = one_of(WORDS, first)
        kinds = WORDS[word].parts
        if len(parts) != len(kinds):
            raise ValueError(f"the step {word} has {len(kinds)} parts")
        pairs = zip(kinds, parts, strict=True)
        step = Step(word, tuple([self._readers[kind](part) for kind, part in pairs]))
        self.kinds += self._result_kinds(step)
        return step

    def array(self, number: object) -> int:
        """Return the number of an array; raise TypeError or ValueError for others."""
        place = of(int, number)
        if not 0 <= place < len(self.kinds) or self.kinds[place] is None:
            raise ValueError(f"{place} is not an array")
        return place

    def _result_kinds(self, step: Step) -> list[Kind | None]:
        """The kinds of the values that a step makes; raise ValueError if it cannot."""
        rule = _RESULT_KINDS.get(step.word)
        return [None] if rule is None else rule(self, *step.parts)

    def _kind(self, number: int) -> Kind:
        kind = self.kinds[number]
        assert kind is not None  # as `array` has found
        return kind

    def _of_axis(self, array: int, axis: int) -> list[Kind | None]:
        _require(axis < self._kind(array).rank, "there is no such axis")
        return [None]

    def _of_read(self, array: int, name: str, cut: bool) -> list[Kind | None]:
        dtype, rank = self._kind(array)
        _require(is_integer(dtype) and not rank, "only an integer can be read")
        return [None]

    def _of_apply(self, name: str, formulas: Sequence[Formula]) -> list[Kind | None]:
        count, operands = len(formulas), OPERANDS.get(name)
        fits = 0 < count <= MOST_FACTORS and operands in (None, count)
        _require(fits, f"{name} takes a different number of operands")
        return [None]

    def _of_number(self, number: object, dtype: str) -> list[Kind | None]:
        return [Kind(dtype, 0)]

    def _of_cast(self, array: int, dtype: str) -> list[Kind | None]:
        kind = self._kind(array)
        real = not any(name.startswith("complex") for name in (kind.dtype, dtype))
        _require(real, "complex numbers are not cast")
        return [Kind(dtype, kind.rank)]

    def _of_compute(self, name: str, arrays: Sequence[int]) -> list[Kind | None]:
        operands = list(map(self._kind, arrays))
        dtype = result_of(name, operands)
        return [Kind(dtype, max(kind.rank for kind in operands))]

    def _of_zeros(self, sizes: Sequence[Formula], dtype: str) -> list[Kind | None]:
        return [Kind(dtype, len(sizes))]

    def _of_capacities(
        self, fixed: Sequence[Formula], sizes: Sequence[Formula], rows: Sequence[Shape]
    ) -> list[Kind | None]:
        width = len(fixed) + len(sizes)
        _require(all(len(row) == width for row in rows), "a row has another length")
        return [None] * len(sizes)

    def _of_same(self, array: int, sizes: Sequence[object]) -> list[Kind | None]:
        _require(len(sizes) == self._kind(array).rank, "it has another rank")
        return [self._kind(array)]

    def _of_check(self, *parts: object) -> list[Kind | None]:
        return []

    def _of_require(self, array: int, texts: Sequence[str]) -> list[Kind | None]:
        dtype, rank = self._kind(array)
        fits = not rank and len(texts) == 1 if dtype == "bool" else rank == 1
        _require(fits and bool(texts), "only a condition can be tested")
        _require(dtype == "bool" or is_integer(dtype), "a condition has no numbers")
        return []

    def _of_run(
        self, stage: int, arrays: Sequence[int], statics: Sequence[object]
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
        statics: Sequence[Formula],
        carries: int,
        name: str,
    ) -> list[Kind | None]:
        """A piece takes the carries of the piece before; the first carry is a flag."""
        results = self._of_run(stage, arrays, [*statics, None])
        carried: list[Kind | None] = [self._kind(i) for i in arrays[:carries]]
        fits = 0 < carries < len(results) and results[:carries] == carried
        fits = (
            fits
            and results[0] == Kind("bool", 0)
            and results[carries] == Kind("int32", 0)
        )
        rows = [kind for kind in results[carries + 1 :] if kind is not None]
        _require(fits and all(kind.rank for kind in rows), f"stage {stage} is no loop")
        return results

    def _loop(self, stored: object) -> Loop:
        """Read a loop, and its body with the kinds of the values that it is given."""
        parts = list_of(stored)
        *arrays, integers, length, reverse, counted, going = parts[:8]
        name, stacked, body, ends = parts[8:]
        _require(self._depth < DEEPEST, "loops are nested too deeply")
        carries, rows, captures = (tuple(map(self.array, list_of(x))) for x in arrays)
        sizes = self._formulas(integers)
        of_rows = list(map(self._kind, rows))
        _require(all(kind.rank for kind in of_rows), "a scalar has no rows")
        kinds: list[Kind | None] = list(map(self._kind, carries))
        kinds += [Kind(dtype, rank - 1) for dtype, rank in of_rows]
        kinds += [*map(self._kind, captures), *[None] * len(sizes)]
        inner = StepReader(kinds, self._stages, self._depth + 1)
        loop = Loop(
            carries,
            rows,
            captures,
            sizes,
            None if length is None else self._formula(length),
            of(bool, reverse),
            None if counted is None else self.array(counted),
            None if going is None else self.array(going),
            of(str, name),
            tuple([self._read_stacked(*list_of(x)) for x in list_of(stacked)]),
            tuple(map(inner.step, list_of(body))),
            tuple(map(inner.array, list_of(ends))),
        )
        self._require_loop(loop, inner)
        return loop

    def _read_stacked(
        self, dtype: object, sizes: object
    ) -> tuple[str, tuple[Formula, ...]]:
        return one_of(DTYPES, dtype), self._formulas(sizes)

    def _require_loop(self, loop: Loop, body: "StepReader") -> None:
        """Raise ValueError unless a body gives the values a loop carries and stacks."""
        expected = [self._kind(i) for i in loop.carries]
        expected += [Kind("bool", 0)] * (loop.going is not None)
        expected += [Kind(dtype, len(sizes)) for dtype, sizes in loop.stacked]
        _require(
            [body._kind(i) for i in loop.results] == expected,
            "the body of a loop gives other values",
        )
        if loop.counted is not None:
            dtype, rank = self._kind(loop.counted)
            _require(is_integer(dtype) and not rank, "steps are counted by an integer")
        flag = None if loop.going is None else self._kind(loop.going)
        _require(flag in (None, Kind("bool", 0)), "a bool says whether a loop goes on")
        ends = loop.length is not None or loop.counted is not None or flag is not None
        _require(ends, "a loop has no end")

    def _of_loop(self, loop: Loop) -> list[Kind | None]:
        kinds: list[Kind | None] = [self._kind(i) for i in loop.carries]
        kinds += [Kind("int32", 0)] * (loop.going is not None)
        return kinds + [Kind(dtype, len(sizes) + 1) for dtype, sizes in loop.stacked]

    def _of_rows(self, array: int, count: Formula) -> list[Kind | None]:
        _require(self._kind(array).rank > 0, "a scalar has no rows")
        return [self._kind(array)]

    def _sizes(self, stored: object) -> tuple[Formula | None, ...]:
        parts = list_of(stored)
        return tuple([None if x is None else self._formula(x) for x in parts])

    def _formulas(self, stored: object) -> tuple[Formula, ...]:
        return tuple(map(self._formula, list_of(stored)))

    def _formula(self, stored: object) -> Formula:
        return tuple(map(self._term, list_of(stored)))

    def _term(self, stored: object) -> tuple[int, tuple[int, ...]]:
        first, second = list_of(stored)
        factor, numbers = of(int, first), list_of(second)
        _require(-LARGEST <= factor < LARGEST, "a factor has over 64 bits")
        _require(len(numbers) <= MOST_FACTORS, "a term has many factors")
        return factor, tuple(map(self._integer, numbers))

    def _integer(self, number: object) -> int:
        place = of(int, number)
        if not 0 <= place < len(self.kinds) or self.kinds[place] is not None:
            raise ValueError(f"{place} is not an integer")
        return place


_RESULT_KINDS: Mapping[str, Callable[..., list[Kind | None]]] = {
    "axis": StepReader._of_axis,
    "read": StepReader._of_read,
    "apply": StepReader._of_apply,
    "number": StepReader._of_number,
    "literal": StepReader._of_number,
    "cast": StepReader._of_cast,
    "compute": StepReader._of_compute,
    "zeros": StepReader._of_zeros,
    "capacities": StepReader._of_capacities,
    "pad": StepReader._of_same,
    "cut": StepReader._of_same,
    "check": StepReader._of_check,
    "require": StepReader._of_require,
    "run": StepReader._of_run,
    "grow": StepReader._of_grow,
    "rows": StepReader._of_rows,
    "loop": StepReader._of_loop,
}


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _count(stored: object) -> int:
    count = of(int, stored)
    _require(count >= 0, f"{count} is not a count")
    return count


def _float(stored: object) -> str:
    """Check a float in hexadecimal digits, which give its exact value."""
    text = of(str, stored)
    float.fromhex(text)
    return text


def _integer_dtype(stored: object) -> str:
    dtype = of(str, stored)
    _require(dtype in DTYPES and is_integer(dtype), f"{shortened(dtype, 20)} is no int")
    return dtype
