"""The steps that a saved model takes at a call, as data.

Values are numbered: first the inputs, then the constants, then the arrays and integers
that each step makes. Steps run once each, in order. A formula is a sum of products of
integers: (factor, numbers of the integers) for each product. NumPy computes the floats
of sizes: with XLA's logarithm, one might be rounded to another size. A file can ask for
nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphc_serving.ufuncs import UFUNCS

Formula = tuple[tuple[int, tuple[int, ...]], ...]
Row = tuple[int, ...]
LARGEST = 2**63  # every integer is below this, whatever a file computes
MOST_READ = 2**48  # no size is above this
FIRST_PIECE = 16  # steps of the first piece of a loop that runs in pieces
CUT = 2**49  # bounds of slices may be above this, and are cut to it


class StepError(ValueError):
    """Raised where a step cannot be taken for a call, with the reason."""


class Step(NamedTuple):
    """One step: a word of `WORDS`, and the parts it is given."""

    word: str
    parts: tuple[Any, ...]


class Doer(Protocol):
    """The methods that take steps on arrays, or on values that stand for them."""

    def read(self, array: Any, name: str) -> int:
        """Read the integer in an array, the size called `name`."""
        ...

    def number(self, number: float, dtype: str) -> Any:
        """Make an array of an integer or a float."""

    def computed(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Apply a function of NumPy's arrays, element by element."""

    def zeros(self, shape: Row, dtype: str) -> Any:
        """Make an array of zeros."""

    def holds(self, condition: Any) -> Sequence[int]:
        """Return nothing where a condition holds, else the numbers that it tells."""
        ...

    def row(self, step: Step, fixed: Row, sizes: Row) -> Row:
        """The capacities of a row that begins with `fixed` and has room for `sizes`."""
        ...

    def padded(self, array: Any, shape: Row) -> Any:
        """Pad an array with zeros at the end of its axes to this shape."""

    def cut(self, array: Any, shape: Row) -> Any:
        """Cut the padding off an array."""

    def run(self, stage: int, statics: Row, arrays: list[Any]) -> Sequence[Any]:
        """Run the program of a stage for these integers and shapes."""
        ...

    def steps(self, results: Sequence[Any], carries: int, name: str) -> int:
        """Read how many steps a piece of a loop did, and add them to size `name`."""
        ...

    def goes_on(self, results: Sequence[Any], name: str) -> bool:
        """Whether a loop goes on after a piece."""
        ...

    def loop(self, loop: Any, walk: "Walk") -> list[Any]:
        """Run a loop whose steps are steps of the file."""
        ...

    def joined(self, pieces: Sequence[Any]) -> Any:
        """Join the rows of pieces in one array."""

    def rows(self, array: Any, count: int) -> Any:
        """Return `count` rows of an array, with zeros behind the rows it has."""


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
        """The value of a formula."""
        terms = [c * math.prod([self[i] for i in numbers]) for c, numbers in formula]
        return within(sum(terms))

    def formulas(self, formulas: Sequence[Formula]) -> Row:
        """The values of formulas."""
        return tuple(map(self.formula, formulas))

    def shape(self, array: int, sizes: Sequence[Formula | None]) -> Row:
        """The shape of an array with other sizes, where None keeps a size."""
        pairs = zip(sizes, self[array].shape, strict=True)
        return tuple([n if f is None else self.formula(f) for f, n in pairs])


def follow(
    steps: Sequence[Step], values: Sequence[Any], results: Sequence[int], doer: Doer
) -> list[Any]:
    """Take the steps, and return the results by their numbers; raise StepError."""
    walk = Walk(values, doer)
    for step in steps:
        walk.take(step)
    return [walk[i] for i in results]


def zeros(shape: Row, dtype: Any) -> Any:
    """Make zeros of a shape that a file computes; raise StepError if too large."""
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):
        raise StepError(f"too little memory for an array of shape {shape}") from None


def within(integer: int) -> int:
    """Return the integer; raise StepError where 64 bits do not hold it."""
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
    """Run a loop in pieces, each of as many steps as were done before it."""
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
    """The first size that is not 1, or 1 if there is none."""
    return next((n for n in sizes if n != 1), 1)


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "*": lambda *sizes: math.prod(sizes),
    "//": lambda a, b: a // b,
    "clip": _clip,
    "max": lambda *sizes: max(sizes),
    "min": lambda *sizes: min(sizes),
    "stretch": _stretch,
}
OPERANDS = {"//": 2, "clip": 2}  # others take any number of operands but none


class Word(NamedTuple):
    """A kind of step: the function that takes it, and the kinds of its parts."""

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
