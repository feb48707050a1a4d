"""The steps that a saved model takes at a call, as data.

Values are numbered: first the inputs, then the constants, then the arrays and integers
that each step makes. Steps run once each, in order. A formula is a sum of products of
integers: (factor, numbers of the integers) for each product. NumPy computes the floats
of sizes: with XLA's logarithm, one might be rounded to another size. A file can ask for
nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from graphc_serving.kinds import DType, NDArray, Shaped
from graphc_serving.ufuncs import UFUNCS, Computes

if TYPE_CHECKING:  # since loops follow steps
    from graphc_serving.loops import Loop

Formula = tuple[tuple[int, tuple[int, ...]], ...]
Row = tuple[int, ...]
StepValue: TypeAlias = Shaped | int
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

    def read(self, array: Shaped, name: str) -> int:
        """Read the integer in an array, the size called `name`."""
        ...

    def number(self, number: float, dtype: str) -> Shaped:
        """Make an array of an integer or a float."""
        ...

    def computed(self, function: Computes, operands: Sequence[Shaped]) -> Shaped:
        """Apply a function of NumPy's arrays, element by element."""
        ...

    def zeros(self, shape: Row, dtype: str) -> Shaped:
        """Make an array of zeros."""
        ...

    def holds(self, condition: Shaped) -> Sequence[int]:
        """Return nothing where a condition holds, else the numbers that it tells."""
        ...

    def row(self, step: Step, fixed: Row, sizes: Row) -> Row:
        """The capacities of a row that begins with `fixed` and has room for `sizes`."""
        ...

    def padded(self, array: Shaped, shape: Row) -> Shaped:
        """Pad an array with zeros at the end of its axes to this shape."""
        ...

    def cut(self, array: Shaped, shape: Row) -> Shaped:
        """Cut the padding off an array."""
        ...

    def run(self, stage: int, statics: Row, arrays: list[Shaped]) -> Sequence[Shaped]:
        """Run the program of a stage for these integers and shapes."""
        ...

    def steps(self, results: Sequence[Shaped], carries: int, name: str) -> int:
        """Read how many steps a piece of a loop did, and add them to size `name`."""
        ...

    def goes_on(self, results: Sequence[Shaped], name: str) -> bool:
        """Whether a loop goes on after a piece."""
        ...

    def loop(self, loop: "Loop", walk: "Walk") -> Sequence[Shaped]:
        """Run a loop whose steps are steps of the file."""
        ...

    def joined(self, pieces: Sequence[Shaped]) -> Shaped:
        """Join the rows of pieces in one array."""
        ...

    def rows(self, array: Shaped, count: int) -> Shaped:
        """Return `count` rows of an array, with zeros behind the rows it has."""
        ...


class Walk:
    """The values so far, of inputs and steps."""

    def __init__(self, values: Sequence[StepValue], doer: Doer) -> None:
        self._values: list[StepValue] = list(values)
        self._doer = doer

    def take(self, step: Step) -> None:
        """Take one step."""
        values = WORDS[step.word].take(self, self._doer, step)
        self._values += values

    def __len__(self) -> int:
        return len(self._values)

    def array(self, number: int) -> Shaped:
        """The value of this number, which is an array."""
        return cast(Shaped, self._values[number])

    def integer(self, number: int) -> int:
        """The value of this number, which is an integer."""
        return cast(int, self._values[number])

    def formula(self, formula: Formula) -> int:
        """The value of a formula."""
        terms = [c * math.prod(map(self.integer, numbers)) for c, numbers in formula]
        return within(sum(terms))

    def formulas(self, formulas: Sequence[Formula]) -> Row:
        """The values of formulas."""
        return tuple(map(self.formula, formulas))

    def shape(self, array: int, sizes: Sequence[Formula | None]) -> Row:
        """The shape of an array with other sizes, where None keeps a size."""
        pairs = zip(sizes, self.array(array).shape, strict=True)
        return tuple([n if f is None else self.formula(f) for f, n in pairs])


def follow(
    steps: Sequence[Step],
    values: Sequence[StepValue],
    results: Sequence[int],
    doer: Doer,
) -> list[Shaped]:
    """Take the steps, and return the results by their numbers; raise StepError."""
    walk = Walk(values, doer)
    for step in steps:
        walk.take(step)
    return list(map(walk.array, results))


def zeros(shape: Row, dtype: DType) -> NDArray:
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


def _axis(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, axis = step.parts
    return [int(walk.array(array).shape[axis])]


def _read(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, name, cut = step.parts
    number = doer.read(walk.array(array), name)
    if cut:
        return [max(-CUT, min(number, CUT))]
    if not -MOST_READ <= number <= MOST_READ:
        raise StepError(f"{name} is used as a size, which is at most 2**48: {number}")
    return [number]


def _sum(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    return [walk.formula(step.parts[0])]


def _apply(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    name, formulas = step.parts
    try:
        return [within(FUNCTIONS[name](*walk.formulas(formulas)))]
    except ZeroDivisionError:
        raise StepError("a size is divided by zero") from None


def _number(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    formula, dtype = step.parts
    return [doer.number(walk.formula(formula), dtype)]


def _literal(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    number, dtype = step.parts
    return [doer.number(float.fromhex(number), dtype)]


def _cast(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, dtype = step.parts
    return [doer.computed(lambda x: x.astype(dtype), [walk.array(array)])]


def _compute(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    name, arrays = step.parts
    try:
        return [doer.computed(UFUNCS[name], list(map(walk.array, arrays)))]
    except (MemoryError, ValueError) as error:
        raise StepError(f"{name}: {error}") from None


def _zeros(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    sizes, dtype = step.parts
    return [doer.zeros(walk.formulas(sizes), dtype)]


def _capacities(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    fixed, sizes, _ = step.parts
    return list(doer.row(step, walk.formulas(fixed), walk.formulas(sizes)))


def _pad(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, sizes = step.parts
    return [doer.padded(walk.array(array), walk.shape(array, sizes))]


def _cut(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, sizes = step.parts
    return [doer.cut(walk.array(array), walk.shape(array, sizes))]


def _check(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    left, relation, right, message = step.parts
    a, b = walk.formula(left), walk.formula(right)
    if not (a == b if relation == "==" else a <= b):
        shown = zip((a, b), (left, right), strict=True)
        got = " and ".join([str(n) for n, formula in shown if _varies(formula)])
        raise StepError(f"{message}; got {got}" if got else message)
    return []


def _varies(formula: Formula) -> bool:
    return any(numbers for _, numbers in formula)


def _require(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    condition, texts = step.parts
    failure = doer.holds(walk.array(condition))
    if failure:
        parts = [f"{n}{text}" for n, text in zip(failure[1:], texts[1:], strict=True)]
        raise StepError("".join([texts[0], *parts]))
    return []


def _run(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    stage, arrays, statics = step.parts
    arguments = list(map(walk.array, arrays))
    return list(doer.run(stage, walk.formulas(statics), arguments))


def _grow(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    """Run a loop in pieces, each of as many steps as were done before it."""
    stage, arrays, statics, carries, name = step.parts
    arguments, fixed = list(map(walk.array, arrays)), walk.formulas(statics)
    pieces: list[Sequence[Shaped]] = []
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


def _loop(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    return doer.loop(step.parts[0], walk)


def _rows(walk: Walk, doer: Doer, step: Step) -> Sequence[StepValue]:
    array, count = step.parts
    return [doer.rows(walk.array(array), walk.formula(count))]


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

    take: Callable[[Walk, Doer, Step], Sequence[StepValue]]
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
