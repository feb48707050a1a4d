"""Divide ranges of sizes, ahead of calls, into sizes that a function treats alike.

JAX traces axes of one element or none differently from longer ones, and the function
may decide by sizes. So a few sizes are tried first. The questions that their programs
asked are then answered for all other sizes, and sizes with different answers are tried
too.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from graphc.errors import graph_error
from graphc.importers.jax.read.sizes import JaxSizes, names_in
from graphc.importers.jax.sizes.pattern import LEAST, ShapesOfCall
from graphc.importers.jax.sizes.programs import ManySizes
from graphc.importers.jax.trace.decisions import Decision
from graphc.importers.jax.trace.tracing import Spec
from graphc.runtime.ranges import Ways

MOST_TRIED = 50_000  # calls, each with different answers
MOST_COMPARED = 5_000  # calls that are each traced
MOST_ALONE = 1_000  # calls that are compiled one by one
MOST_FAILING = 200  # calls that the function may refuse, next to those it accepts
SizesByName = Mapping[str, int]


@dataclass(frozen=True)
class Question:
    """A question about sizes that was answered for a program for many sizes."""

    decision: Decision
    program: ManySizes

    def answer(self, shapes: ShapesOfCall) -> bool | None:
        """Whether the answer is the same at these shapes; None if they do not fit."""
        sizes = self.program.pattern.sizes_if_fit(shapes)
        if sizes is None:
            return None
        symbols = self.program.decisions.symbols
        return self.decision.holds({s: sizes[name] for name, s in symbols.items()})


@dataclass
class AlikeSizes:
    """The sizes of each name, divided by their answers to questions.

    `named` holds the types of the arguments, with names for sizes. `asked_of` maps a
    name to the questions that involve it alone. `each` holds the names whose sizes must
    all be tried one by one.
    """

    named: Sequence[Spec]
    values: Ways
    asked_of: dict[str, dict[str, Question]] = field(default_factory=dict)
    each: dict[str, str] = field(default_factory=dict)  # with the reason
    compares: bool = False  # whether each size is compared with its trace
    shapes: dict[tuple[str, int], ShapesOfCall] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text in self._texts():
            names = names_in(text)
            if len(names) > 1 and self._may_be_small(text, names):
                why = f"for some, axes of {text} have fewer than {LEAST} elements"
                self.each |= dict.fromkeys(names, why)

    def ways(self) -> list[Ways]:
        """Divide the sizes into parts that answer alike, as far as known by now.

        Raises GraphError if there are too many parts to try.
        """
        parts = [self._parts(name) for name in self.values]
        count = prod(map(len, parts))
        if count > (MOST_COMPARED if self.compares else MOST_TRIED):
            raise self._error_of_too_many(count)
        return [dict(zip(self.values, part, strict=True)) for part in product(*parts)]

    def examples(self) -> Iterator[dict[str, int]]:
        """Calls that show which sizes vary, changing one size at a time."""
        for ways in self.ways():
            first = {name: n[0] for name, n in ways.items()}
            varying = [name for name, n in ways.items() if len(n) > 1]
            yield from ({**first, name: ways[name][-1]} for name in varying)
            if varying:
                yield first

    def learn(self, program: ManySizes) -> bool:
        """Add the questions of a program; return whether any of them is new."""
        before = len(self.each), sum(map(len, self.asked_of.values()))
        if program.is_compared:
            self.compares = True
            why = "each size is compared with a trace of the function"
            self.each |= dict.fromkeys(self.values, why)
        texts = self.names_of(program)
        for decision in program.questions:
            self._add_question(Question(decision, program), texts)
        return before != (len(self.each), sum(map(len, self.asked_of.values())))

    def names_of(self, program: ManySizes) -> dict[str, str]:
        """Map each size that a program names to its text in the names of `named`."""
        texts: dict[str, str] = {}
        for row, spec in zip(program.pattern.shapes, self.named, strict=True):
            for name, text in zip(row, spec.shape, strict=True):
                if isinstance(name, str) and name.isidentifier():
                    texts.setdefault(name, str(text))
        return texts

    def shapes_at(self, sizes: SizesByName) -> ShapesOfCall:
        """The shapes of the arguments at these sizes."""
        return tuple(tuple(_number(n, sizes) for n in s.shape) for s in self.named)

    def _add_question(self, question: Question, texts: Mapping[str, str]) -> None:
        asked = [texts.get(s.name, s.name) for s in question.decision.symbols]
        in_asked = {name for text in asked for name in names_in(text)}
        names = [name for name in self.values if name in in_asked]
        if len(names) == 1:
            key = f"{question.decision} of {question.program.pattern}"
            (name,) = names
            self.asked_of.setdefault(name, {})[key] = question
        else:
            place = question.decision.place
            why = f"it decides by {' and '.join(names)} together, at {place}"
            self.each |= dict.fromkeys(names, why)

    def _parts(self, name: str) -> list[Sequence[int]]:
        """The sizes of a name, grouped by their answers."""
        if name in self.each:
            return [[n] for n in self.values[name]]
        parts: dict[Hashable, list[int]] = {}
        for n in self.values[name]:
            parts.setdefault(self._answers_at(name, n), []).append(n)
        return [*parts.values()]

    def _answers_at(self, name: str, n: int) -> Hashable:
        shapes = self.shapes.get((name, n))
        if shapes is None:
            sizes = {k: numbers[-1] for k, numbers in self.values.items()} | {name: n}
            shapes = self.shapes[name, n] = self.shapes_at(sizes)
        pairs = zip(self.named, shapes, strict=True)
        axes = (axis for spec, m in pairs for axis in zip(spec.shape, m, strict=True))
        small = tuple([min(m, LEAST) for text, m in axes if isinstance(text, str)])
        asked = self.asked_of.get(name, {}).values()
        return small, tuple([one.answer(shapes) for one in asked])

    def _texts(self) -> Iterator[str]:
        for spec in self.named:
            yield from (n for n in spec.shape if isinstance(n, str))

    def _may_be_small(self, text: str, names: Sequence[str]) -> bool:
        """Whether a formula of several names may be small while no name is."""
        several = [self.values[name] for name in names]
        ends = [(max(min(n), LEAST), max(*n, LEAST)) for n in several]
        corners = (dict(zip(names, corner, strict=True)) for corner in product(*ends))
        return any(_number(text, corner) < LEAST for corner in corners)

    def _error_of_too_many(self, count: int) -> Exception:
        why = next(iter(self.each.values()), "it treats many sizes differently")
        return graph_error(
            f"{count} calls of these sizes would have to be tried one by one: {why}",
            op="compile",
            got=_ranges_as_text(self.values),
            hint='give shorter ranges, or list the calls, as {"n": [16, 20]}',
        )


@dataclass
class TriedCalls:
    """The calls tried so far: programs by sizes, and errors by sizes."""

    alike: AlikeSizes
    program_at: Callable[[SizesByName], ManySizes | None]
    known: dict[tuple[int, ...], ManySizes | None] = field(default_factory=dict)
    failed: dict[tuple[int, ...], Exception] = field(default_factory=dict)

    def sizes_with_programs(self) -> Iterator[tuple[ManySizes | None, Ways]]:
        """Yield sizes with their programs; None for sizes that are compiled alone.

        Calls that the function refuses are left out if it accepts others. Raises
        GraphError if there are too many calls to try.
        """
        learns = True
        while learns:
            ways = self.alike.ways()
            # Try small sizes last: they may be treated like longer ones.
            programs = [self._programs_of_samples(one) for one in reversed(ways)][::-1]
            learns = False
            for program in (p for several in programs for p in several if p):
                learns |= self.alike.learn(program)
        if self.failed and not any(programs):
            raise next(iter(self.failed.values()))
        left = MOST_ALONE
        for one, several in zip(ways, programs, strict=True):
            if len(several) == 1 and several[0] is not None:
                yield several[0], one
                continue
            if several:
                left -= prod(map(len, one.values()))
                yield from self._programs_one_by_one(one, left)

    def _programs_of_samples(self, ways: Ways) -> list[ManySizes | None]:
        """The programs for the first, middle and last of the sizes in `ways`.

        None stands for sizes that are compiled alone.
        """
        programs: dict[int, ManySizes | None] = {}
        for place in (0.0, 0.5, 1.0):
            sizes = {k: n[int(place * (len(n) - 1))] for k, n in ways.items()}
            program = self._program_at(sizes)
            if tuple(sizes.values()) not in self.failed:
                programs[id(program)] = program
        return [*programs.values()]

    def _programs_one_by_one(
        self, ways: Ways, left: int
    ) -> Iterator[tuple[ManySizes | None, Ways]]:
        if left < 0:
            why = "no program for many sizes covers them, and f.explain() says why"
            raise graph_error(
                f"more than {MOST_ALONE} calls would be compiled one by one: {why}",
                op="compile",
                got=_ranges_as_text(ways),
                hint='list the calls that will come, as {"n": [16, 20]}',
            )
        for numbers in product(*ways.values()):
            sizes = dict(zip(ways, numbers, strict=True))
            program = self._program_at(sizes)
            if numbers not in self.failed:
                yield program, {name: [n] for name, n in sizes.items()}

    def _program_at(self, sizes: SizesByName) -> ManySizes | None:
        """The program for `sizes`; None if they compile alone or the call fails."""
        key = tuple(sizes.values())
        if key not in self.known:
            self.known[key] = self.attempt(self.program_at, sizes)
        return self.known[key]

    def attempt(
        self, program_at: Callable[[SizesByName], ManySizes | None], sizes: SizesByName
    ) -> ManySizes | None:
        """Return the program for `sizes`, or None and keep the error if that fails.

        Raises the error if too many calls have failed.
        """
        try:
            return program_at(sizes)
        except Exception as error:  # of the function at these sizes, or of compiling
            self.failed[tuple(sizes.values())] = error
            if len(self.failed) > MOST_FAILING:
                raise
            return None

    def require_one(self, several: Sequence[SizesByName]) -> None:
        """Raise the first error if all of these sizes failed."""
        tried = [tuple(sizes.values()) for sizes in several]
        if self.failed and self.failed.keys() >= set(tried):
            raise next(iter(self.failed.values()))


def _number(n: int | str, sizes: SizesByName) -> int:
    """The value of a size, or of a formula in names, at these sizes."""
    if isinstance(n, int):
        return n
    return sizes[n] if n in sizes else JaxSizes(sizes).number(n)


def _ranges_as_text(ways: Ways) -> str:
    """Show the first and the last size of each name."""
    return ", ".join(
        f"{k} = {n[0]}" + f"...{n[-1]}" * (len(n) > 1) for k, n in ways.items()
    )


def ways_of_plan(
    alike: AlikeSizes,
    program: ManySizes,
    ways: Ways,
    sizes_of_plan: Callable[[SizesByName], SizesByName],
) -> list[Ways]:
    """Translate sizes into the names that the plan of a program uses.

    `sizes_of_plan` does so for a single call. If sizes of the plan depend on each
    other, the calls are listed one by one.
    """
    first = sizes_of_plan({name: n[0] for name, n in ways.items()})
    by_plan: dict[str, Sequence[int]] = {name: [n] for name, n in first.items()}
    asked: list[str] = []
    for name, text in alike.names_of(program).items():
        names = names_in(text) if name in by_plan else []
        asked += names
        if len(names) == 1:
            by_plan[name] = [_number(text, {names[0]: n}) for n in ways[names[0]]]
    if len(set(asked)) == len(asked):
        return [by_plan]
    calls = (dict(zip(ways, one, strict=True)) for one in product(*ways.values()))
    return [{k: [n] for k, n in sizes_of_plan(call).items()} for call in calls]
