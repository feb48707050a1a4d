"""Find which axes of a function's arguments vary, and which vary together."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from graphc.importers.jax.read.sizes import JaxSizes, names_in
from graphc.importers.jax.trace.tracing import Spec, SpecShape
from graphc.ir.sizes.polynomials import Symbol

LEAST = 2  # JAX traces axes of one element or none differently from longer ones
MOST_SHOWN = 4  # arrays up to which every shape is listed, varying or not
ShapesOfCall = tuple[tuple[int, ...], ...]
SmallAxes = tuple[tuple[int, int, int], ...]  # argument, axis, and a size below `LEAST`
_Column = tuple[int, ...]  # the sizes of an axis, call by call


@dataclass(frozen=True)
class SizePattern:
    """The shape of each argument: numbers, and names of the sizes that vary.

    Other sizes are formulas in the names, as JAX reads them: "n + 1". Sizes that vary
    are at least `least`.
    """

    shapes: tuple[SpecShape, ...]
    least: int = LEAST

    @property
    def names(self) -> list[str]:
        """The names of the sizes that vary."""
        texts = (n for shape in self.shapes for n in shape if isinstance(n, str))
        return list(dict.fromkeys(name for text in texts for name in names_in(text)))

    def new_symbols(self) -> dict[str, Symbol]:
        """A new symbol of graphc for each size that varies, by name."""
        return {name: Symbol(name, lower=self.least) for name in self.names}

    def sizes(self, shapes_of_call: ShapesOfCall) -> dict[str, int]:
        """The sizes that the names have in a call; {} if its shapes do not fit."""
        return self.sizes_if_fit(shapes_of_call) or {}

    def sizes_if_fit(self, shapes_of_call: ShapesOfCall) -> dict[str, int] | None:
        """The sizes that the names have in a call; None if its shapes do not fit."""
        by_name: dict[str, int] = {}
        formulas = dict[str, int]()
        for shape, call_shape in zip(self.shapes, shapes_of_call, strict=True):
            if len(shape) != len(call_shape):
                return None
            for n, m in zip(shape, call_shape, strict=True):
                known = by_name if isinstance(n, str) and n.isidentifier() else formulas
                if (known.setdefault(n, m) if isinstance(n, str) else n) != m:
                    return None
        return by_name if not formulas or can_have_values(formulas, by_name) else None

    def has(self, shapes_of_call: ShapesOfCall) -> bool:
        """Whether the shapes of a call fit, with no varying size too small."""
        by_name = self.sizes_if_fit(shapes_of_call)
        if by_name is None:
            return False
        varying_sizes = [*by_name.values(), *self.varying(shapes_of_call)]
        return all(n >= self.least for n in varying_sizes)

    def varying(self, shapes_of_call: ShapesOfCall) -> list[int]:
        """The sizes of the axes that vary, in a call whose ranks fit."""
        pairs = zip(self.shapes, shapes_of_call, strict=True)
        axes = (axis for pair in pairs for axis in zip(*pair, strict=True))
        return [m for n, m in axes if isinstance(n, str)]

    def shown(self, shapes: ShapesOfCall) -> str:
        """Show the sizes that the names have in a call."""
        return text_of_sizes(self.sizes(shapes))

    def axes(self, arrays: Sequence[str]) -> dict[str, str]:
        """Map each name to its first axis, as in `x.shape[0]`; `arrays` are names."""
        first_axes: dict[str, str] = {}
        for array, shape in zip(arrays, self.shapes, strict=True):
            for i, n in enumerate(shape):
                if isinstance(n, str) and n.isidentifier():
                    first_axes.setdefault(n, f"{array}.shape[{i}]")
        return first_axes

    def specs(self, like: Sequence[Spec]) -> list[Spec]:
        """Arguments with the shapes of the pattern, and otherwise like these."""
        pairs = zip(self.shapes, like, strict=True)
        return [replace(one, shape=shape) for shape, one in pairs]

    def fixed(self, name: str, size: int) -> "SizePattern":
        """The pattern with a number in place of a name."""
        shapes = tuple(
            tuple(_with_number(n, name, size) for n in shape) for shape in self.shapes
        )
        return replace(self, shapes=shapes)

    def __str__(self) -> str:
        shown: list[str] = []
        for shape in self.shapes:
            text = " ".join(str(n).replace(" ", "") for n in shape) or "()"
            varies = any(isinstance(n, str) for n in shape)
            plain = len(self.shapes) > MOST_SHOWN and not varies
            if not (plain and shown[-1:] == ["..."]):
                shown.append("..." if plain else text)
        return ", ".join(shown)


def text_of_sizes(sizes: Mapping[str, int]) -> str:
    """Sizes by name, as messages show them: "n = 3, m = 4"."""
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())


def shapes_of(specs: Sequence[Spec]) -> ShapesOfCall:
    """The shapes of the arguments of a call."""
    return tuple(tuple(map(int, spec.shape)) for spec in specs)


def small_axes(sizes: ShapesOfCall) -> SmallAxes:
    """The axes that are so short that JAX traces them differently from longer ones."""
    if all(min(shape, default=LEAST) >= LEAST for shape in sizes):
        return ()
    return tuple(
        (i, j, n)
        for i, shape in enumerate(sizes)
        for j, n in enumerate(shape)
        if n < LEAST
    )


def with_small_axes(
    calls: Sequence[ShapesOfCall], sizes: ShapesOfCall
) -> list[ShapesOfCall]:
    """The shapes of calls, with those of another call on the axes that are small there.

    They also have its sizes on axes that follow from small ones in all the calls: if
    these have n and n + 1, then n + 1 is 2 where n is 1.
    """
    pattern = common_pattern([*calls, sizes])
    for name, size in pattern.sizes(sizes).items():
        pattern = pattern.fixed(name, size) if size < LEAST else pattern
    return [
        tuple(
            tuple(
                m if m < LEAST or isinstance(of_pattern, int) else n
                for n, m, of_pattern in zip(*shapes, strict=True)
            )
            for shapes in zip(call, sizes, pattern.shapes, strict=True)
        )
        for call in calls
    ]


def _with_number(size: int | str, name: str, number: int) -> int | str:
    """Put a number in place of a name in a size."""
    if isinstance(size, int) or name not in names_in(size):
        return size
    if names_in(size) == [name]:
        return JaxSizes({name: number}).number(size)
    return re.sub(rf"\b{name}\b", str(number), size)


def can_have_values(formulas: Mapping[str, int], known: dict[str, int]) -> bool:
    """Whether formulas can have these values; names that follow are put in `known`."""
    left = dict(formulas)
    while left:
        unknown = {text: {*names_in(text)} - {*known} for text in left}
        text = min(left, key=lambda text: len(unknown[text]))
        value, names = left.pop(text), [*unknown[text]]
        if len(names) > 1 or not _can_have_value(text, value, names, known):
            return False
    return True


def _can_have_value(
    text: str, value: int, names: list[str], known: dict[str, int]
) -> bool:
    """Solve one formula, of whose names at most one is unknown."""
    if names:
        (name,) = names
        at_0, at_1 = (JaxSizes({**known, name: n}).number(text) for n in (0, 1))
        if at_0 == at_1 or (value - at_0) % (at_1 - at_0):
            return False
        known[name] = (value - at_0) // (at_1 - at_0)
        if known[name] < 0:
            return False
    return JaxSizes(known).number(text) == value


def common_pattern(seen: Sequence[ShapesOfCall]) -> SizePattern:
    """The pattern of several calls: axes that were always equal share a name.

    Axes that always differed by the same number or the same factor share one as well:
    "n", "n + 1".
    """
    columns: list[list[_Column]] = [
        [tuple(sizes) for sizes in zip(*shapes, strict=True)]
        for shapes in zip(*seen, strict=True)
    ]
    vary = dict.fromkeys(c for shape in columns for c in shape if len(set(c)) > 1)
    related = _relations(list(vary))
    independent = [c for c in vary if c not in related]
    texts = dict(zip(independent, names_of_sizes(len(independent)), strict=True))
    texts |= {c: how.format(texts[base]) for c, (base, how) in related.items()}
    shapes = tuple(tuple(texts.get(c, c[0]) for c in shape) for shape in columns)
    return SizePattern(shapes)


def _relations(columns: list[_Column]) -> dict[_Column, tuple[_Column, str]]:
    """Map each column that follows from a smaller one to that one and its relation."""
    relations_by_column: dict[_Column, tuple[_Column, str]] = {}
    bases: list[_Column] = []
    for column in sorted(columns):
        relations = ((base, _relation(base, column)) for base in bases)
        first = next(((base, how) for base, how in relations if how), None)
        if first is None:
            bases.append(column)
        else:
            relations_by_column[column] = first
    return relations_by_column


def _relation(base: _Column, column: _Column) -> str:
    """How a column follows from `base`, written as {}; "" if it does not."""
    pairs = list(zip(base, column, strict=True))
    if len({b - a for a, b in pairs}) == 1:
        return f"{{}} + {column[0] - base[0]}"
    if all(a and not b % a for a, b in pairs) and len({b // a for a, b in pairs}) == 1:
        return f"{column[0] // base[0]} * {{}}"
    return ""


def names_of_sizes(count: int) -> list[str]:
    """The default names of sizes, in order, for use if `shapes` gives none."""
    letters = "nmkpqrst"
    return [letters[i] if i < len(letters) else f"n{i}" for i in range(count)]


def sizes_that_vary(
    shapes_of_call: ShapesOfCall, seen: Sequence[ShapesOfCall]
) -> list[int]:
    """The sizes of a call on those axes where an earlier call differed."""
    varying_sizes = []
    for i, shape in enumerate(shapes_of_call):
        for j, n in enumerate(shape):
            if any(other[i][j] != n for other in seen):
                varying_sizes.append(n)
    return varying_sizes


def shapes_as_text(names: Sequence[str], shapes: Sequence[SpecShape]) -> str:
    """Show the shapes of arguments: `x (n, 3), w (3,)`.

    If there are many, only those in which something varies are shown, or else the first
    few and the last.
    """
    texts = [
        f"{name} {_tuple_as_text(s)}" for name, s in zip(names, shapes, strict=True)
    ]
    if len(shapes) > MOST_SHOWN:
        varies = [any(isinstance(n, str) for n in shape) for shape in shapes]
        last = len(shapes) - 1
        ends = [i < MOST_SHOWN or i == last for i in range(len(shapes))]
        pairs = zip(texts, varies if any(varies) else ends, strict=True)
        texts = [text if is_shown else "..." for text, is_shown in pairs]
        texts = [text for text, _ in groupby(texts)]
    return ", ".join(texts) or "without arrays"


def _tuple_as_text(shape: SpecShape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
