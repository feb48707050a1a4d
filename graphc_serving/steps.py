"""The steps that a saved model takes at a call, as data.

Values are numbered: first the inputs, then the constants, then what each step makes, an
array or an integer. Steps run once each, in order. A formula is a sum of products of
integers: (factor, numbers of the integers) for each. Floats of sizes are computed by
NumPy: a size that one is rounded to would be another one by XLA's logarithm. A file can
ask for nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphc_serving.ufuncs import UFUNCS

Formula = tuple[tuple[int, tuple[int, ...]], ...]
Row = tuple[int, ...]
LARGEST = 2**63  # an integer is below, whatever a file computes
MOST_READ = 2**48  # a size is not above
FIRST_PIECE = 16  # steps of a loop that runs in pieces
CUT = 2**49  # bounds of slices may be, and are taken for this


class StepError(ValueError):
    """A call that no step can be taken for, and why."""


class Step(NamedTuple):
    """One step: a word of `WORDS`, and what it is given."""

    word: str
    parts: tuple[Any, ...]


class Doer(Protocol):
    """Whoever takes the steps on arrays, or on what stands for them."""

    def read(self, array: Any, name: str) -> int:
        """The integer in an array, a size that is called so."""
        ...

    def number(self, number: float, dtype: str) -> Any:
        """An integer or a float as an array."""

    def computed(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The result of a function of NumPy's arrays, element by element."""

    def zeros(self, shape: Row, dtype: str) -> Any:
        """An array of zeros."""

    def holds(self, condition: Any) -> Sequence[int]:
        """Nothing where a condition holds, else the numbers that it tells."""
        ...

    def row(self, step: Step, fixed: Row, sizes: Row) -> Row:
        """Capacities: those of a row that has `fixed` before room for `sizes`."""
        ...

    def padded(self, array: Any, shape: Row) -> Any:
        """An array with zeros behind it, of this shape."""

    def cut(self, array: Any, shape: Row) -> Any:
        """The part of an array that counts."""

    def run(self, stage: int, statics: Row, arrays: list[Any]) -> Sequence[Any]:
        """What a program gives: of a stage, for these integers and shapes."""
        ...

    def steps(self, results: Sequence[Any], carries: int, name: str) -> int:
        """The steps that a loop has done in a piece; their number is called so."""
        ...

    def goes_on(self, results: Sequence[Any], name: str) -> bool:
        """Whether a loop goes on after a piece."""
        ...

    def loop(self, loop: Any, walk: "Walk") -> list[Any]:
        """What a loop gives whose steps are steps of the file."""
        ...

    def joined(self, pieces: Sequence[Any]) -> Any:
        """The rows of pieces in one array."""

    def rows(self, array: Any, count: int) -> Any:
        """So many rows of an array, with zeros behind those that there are."""


class Walk:
    """The values so far, of inputs and steps."""

    def __init__(self, values: Sequence[Any], doer: Doer) -> None:
        self._values = list(values)
        self._doer = doer

    def take(self, step: Step) -> None:
        """Take one step."""
        values = WORDS[step.word].take(self, self._doer, step)
        self._values += values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, number: int) -> Any:
        return self._values[number]

    def formula(self, formula: Formula) -> int:
        """The integer that a formula is for."""
        terms = [c * math.prod([self[i] for i in numbers]) for c, numbers in formula]
        return within(sum(terms))

    def formulas(self, formulas: Sequence[Formula]) -> Row:
        """The integers that formulas are for."""
        return tuple(map(self.formula, formulas))

    def shape(self, array: int, sizes: Sequence[Formula | None]) -> Row:
        """The shape of an array with other sizes, None for those that stay."""
        pairs = zip(sizes, self[array].shape, strict=True)
        return tuple([n if f is None else self.formula(f) for f, n in pairs])


def follow(
    steps: Sequence[Step], values: Sequence[Any], results: Sequence[int], doer: Doer
) -> list[Any]:
    """Take the steps: the results, by their numbers. Raises StepError."""
    walk = Walk(values, doer)
    for step in steps:
        walk.take(step)
    return [walk[i] for i in results]


def zeros(shape: Row, dtype: Any) -> Any:
    """Zeros of a shape that a file computes. Raises StepError where it is too large."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):
        raise StepError(f"there is no memory for an array of shape {shape}") from None


def within(integer: int) -> int:
    """The integer, unless no 64 bits hold it."""
    if not -LARGEST <= integer < LARGEST:
        raise StepError("a size has more than 64 bits")
    return integer


def _axis(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, axis = step.parts
    return [int(walk[array].shape[axis])]


def _read(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, name, cut = step.parts
    number = doer.read(walk[array], name)
    if cut:
        return [max(-CUT, min(number, CUT))]
    if not -MOST_READ <= number <= MOST_READ:
        raise StepError(f"{name} is used as a size, which is at most 2**48: {number}")
    return [number]


def _sum(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    return [walk.formula(step.parts[0])]


def _apply(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    name, formulas = step.parts
    try:
        return [within(FUNCTIONS[name](*walk.formulas(formulas)))]
    except ZeroDivisionError:
        raise StepError("a size is divided by zero") from None


def _number(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    formula, dtype = step.parts
    return [doer.number(walk.formula(formula), dtype)]


def _literal(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    number, dtype = step.parts
    return [doer.number(float.fromhex(number), dtype)]


def _cast(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, dtype = step.parts
    return [doer.computed(lambda x: x.astype(dtype), [walk[array]])]


def _compute(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    name, arrays = step.parts
    try:
        return [doer.computed(UFUNCS[name], [walk[i] for i in arrays])]
    except (MemoryError, ValueError) as error:
        raise StepError(f"{name}: {error}") from None


def _zeros(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    sizes, dtype = step.parts
    return [doer.zeros(walk.formulas(sizes), dtype)]


def _capacities(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    fixed, sizes, _ = step.parts
    return list(doer.row(step, walk.formulas(fixed), walk.formulas(sizes)))


def _pad(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, sizes = step.parts
    return [doer.padded(walk[array], walk.shape(array, sizes))]


def _cut(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, sizes = step.parts
    return [doer.cut(walk[array], walk.shape(array, sizes))]


def _check(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    left, relation, right, message = step.parts
    a, b = walk.formula(left), walk.formula(right)
    if not (a == b if relation == "==" else a <= b):
        shown = zip((a, b), (left, right), strict=True)
        got = " and ".join([str(n) for n, formula in shown if _varies(formula)])
        raise StepError(f"{message}; got {got}" if got else message)
    return []


def _varies(formula: Formula) -> bool:
    return any(numbers for _, numbers in formula)


def _require(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    condition, texts = step.parts
    failure = doer.holds(walk[condition])
    if failure:
        parts = [f"{n}{text}" for n, text in zip(failure[1:], texts[1:], strict=True)]
        raise StepError("".join([texts[0], *parts]))
    return []


def _run(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    stage, arrays, statics = step.parts
    arguments = [walk[i] for i in arrays]
    return list(doer.run(stage, walk.formulas(statics), arguments))


def _grow(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    """A loop in pieces, each of as many steps as were done before it."""
    stage, arrays, statics, carries, name = step.parts
    arguments, fixed = [walk[i] for i in arrays], walk.formulas(statics)
    pieces: list[Sequence[Any]] = []
    done, room = 0, FIRST_PIECE
    while True:
        results = doer.run(stage, (*fixed, room), arguments)
        arguments[:carries] = results[:carries]
        pieces.append(results[carries + 1 :])
        count = doer.steps(results, carries, name)
        done += count
        if not doer.goes_on(results, name):
            break
        if count < room:
            raise StepError("a loop that goes on has left out steps")
        room = done
    rows = [doer.joined(x) for x in zip(*pieces, strict=True)]
    return [*arguments[:carries], doer.number(done, "int32"), *rows]


def _loop(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    return doer.loop(step.parts[0], walk)


def _rows(walk: Walk, doer: Doer, step: Step) -> list[Any]:
    array, count = step.parts
    return [doer.rows(walk[array], walk.formula(count))]


def _clip(index: int, size: int) -> int:
    return slice(index).indices(max(size, 0))[1]


def _stretch(*sizes: int) -> int:
    """The size that is not 1."""
    return next((n for n in sizes if n != 1), 1)


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "*": lambda *sizes: math.prod(sizes),
    "//": lambda a, b: a // b,
    "clip": _clip,
    "max": lambda *sizes: max(sizes),
    "min": lambda *sizes: min(sizes),
    "stretch": _stretch,
}
OPERANDS = {"//": 2, "clip": 2}  # of the others there may be any number but none


class Word(NamedTuple):
    """How a kind of step is taken, and of which kinds its parts are."""

    take: Callable[[Walk, Doer, Step], list[Any]]
    parts: tuple[str, ...]


WORDS: Mapping[str, Word] = {
    "axis": Word(_axis, ("array", "count")),
    "read": Word(_read, ("array", "text", "bool")),
    "sum": Word(_sum, ("formula",)),
    "apply": Word(_apply, ("function", "formulas")),
    "number": Word(_number, ("formula", "integer dtype")),
    "literal": Word(_literal, ("float", "float dtype")),
    "cast": Word(_cast, ("array", "dtype")),
    "compute": Word(_compute, ("ufunc", "arrays")),
    "zeros": Word(_zeros, ("formulas", "dtype")),
    "capacities": Word(_capacities, ("formulas", "formulas", "rows")),
    "pad": Word(_pad, ("array", "sizes")),
    "cut": Word(_cut, ("array", "sizes")),
    "check": Word(_check, ("formula", "relation", "formula", "text")),
    "require": Word(_require, ("array", "texts")),
    "run": Word(_run, ("count", "arrays", "formulas")),
    "grow": Word(_grow, ("count", "arrays", "formulas", "count", "text")),
    "rows": Word(_rows, ("array", "formula")),
    "loop": Word(_loop, ("loop",)),
}
