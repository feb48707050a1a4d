"""Calls that differ only in sizes: compiled exactly, or by one program for many."""

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from graphc.errors import GraphError, user_place
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.pattern import (
    LEAST,
    ShapesOfCall,
    SizePattern,
    SmallAxes,
    common_pattern,
    names_of_sizes,
    shapes_as_text,
    sizes_that_vary,
    small_axes,
    with_small_axes,
)
from graphc.importers.jax.sizes.programs import ManySizes, OneSize
from graphc.importers.jax.sizes.shared_decisions import known_pattern, schedules_for
from graphc.importers.jax.sizes.words import (
    check_results,
    describes_results,
    pattern_of,
)
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.captures import Snapshot
from graphc.importers.jax.trace.choices import (
    CallersError,
    Options,
    names_in_shapes,
)
from graphc.importers.jax.trace.decisions import OPAQUE
from graphc.importers.jax.trace.tracing import Spec, SpecShape
from graphc.ir.garbage import only_young_garbage
from graphc.runtime.driver.stance import CompilationLimit, Refused
from graphc.runtime.function import Function
from graphc.warning_kinds import GraphWarning

CHECKED = 3  # sizes at which a program is compared with `shapes` or a trace
MOST_PROGRAMS = 8  # per pattern, for sizes that the function decides differently
FEWER = "Let it treat fewer of them differently, or compute with the size as a number."
RECENT = 2  # sizes of siblings that show a new program what varies


class FallbackWarning(GraphWarning):
    """Warns of a JAX function that is compiled once for each size after all.

    >>> import graphc, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", graphc.FallbackWarning)  # to find the line

    It also warns of a function that was asked to donate arguments and does not, since
    their sizes vary.
    """

    entry = "fallback"


ManyT = TypeVar("ManyT", bound=ManySizes)
OneT = TypeVar("OneT", bound=OneSize)


@dataclass
class SizeFamily(ABC, Generic[ManyT, OneT]):
    """The calls of one function that differ only in sizes.

    `compiled` holds programs for single sizes, and `programs` those for many. `pinned`
    holds facts that are true of single sizes only. A program for a single size is
    `also_for` calls of the patterns listed there, which differ in sizes that nothing
    reads. `foretold` says why there will be no program for many sizes, if that is all
    but certain.
    """

    function: Callable[..., Any]
    call: JaxCall  # of the first call
    specs: list[Spec]
    shapes: Any
    options: Options
    refused: str = ""  # why there is no program for many sizes
    foretold: str = ""  # the same, once the user has been warned
    left: list[str] = field(default_factory=list)  # why some calls are left to JAX
    programs: list[ManyT] = field(default_factory=list)  # the last is in use
    compiled: dict[ShapesOfCall, OneT] = field(default_factory=dict)
    seen: list[ShapesOfCall] = field(default_factory=list)
    exactly: set[ShapesOfCall] = field(default_factory=set)
    checked: set[ShapesOfCall] = field(default_factory=set)
    served: dict[ShapesOfCall, ManyT] = field(default_factory=dict)
    captured: dict[int, Snapshot] = field(default_factory=dict)  # by program
    pinned: dict[ShapesOfCall, list[str]] = field(default_factory=dict)
    also_for: dict[ShapesOfCall, dict[str, None]] = field(default_factory=dict)
    whose_results_fit: set[ShapesOfCall] = field(default_factory=set)
    has_many: bool = False  # whether a limit was reached, so that more sizes are exact
    started: SizePattern | None = None  # the pattern that other processes know
    small: SmallAxes = ()  # in all calls, if these form a family of their own
    like: "SizeFamily[ManyT, OneT] | None" = None
    otherwise = ""  # how sizes are then compiled, in a warning

    @property
    def program(self) -> ManyT | None:
        """The program for many sizes that is in use, if any."""
        return self.programs[-1] if self.programs else None

    @property
    def exact_because(self) -> str:
        """Why each size is compiled alone; "" if that is not so."""
        return self.refused or self.foretold

    def wants_program(self, sizes: ShapesOfCall) -> bool:
        """Whether a call of these sizes needs a program for many."""
        if sizes in self.exactly:
            return False
        first = not self.seen and not self._has_decisions(sizes)
        if first:
            self.seen.append(sizes)
        is_open = first and self.shapes is None  # nothing tells yet what varies
        chosen = not (is_open or self.refused or self._is_small(sizes))
        if not chosen:
            self.exactly.add(sizes)
        return chosen

    def _has_decisions(self, sizes: ShapesOfCall) -> bool:
        """Whether saved decisions tell what varies in calls of these sizes."""
        decisions = self.options.decisions
        self.started, policies = known_pattern(
            decisions, self.names(), self.specs, sizes
        )
        if self.started is None:
            return False
        self.options = replace(self.options, decided=policies)
        self.seen.append(sizes)
        return True

    def options_for(self, pattern: SizePattern) -> Options:
        """The options for a program; saved decisions apply only to their own pattern.

        If all sizes are padded, capacities are chosen to suit the calls so far.
        """
        if pattern == self.started:
            return self.options
        schedules = {}
        if self.options.dims == "pad":
            schedules = schedules_for(pattern, self._known_calls(), self.options)
        return replace(self.options, decided=schedules)

    def learn_from_siblings(
        self,
        siblings: Sequence["SizeFamily[ManyT, OneT]"],
        sizes: ShapesOfCall,
        like: "SizeFamily[ManyT, OneT] | None",
    ) -> None:
        """Learn what varies from families whose axes of at most one element differ.

        This family begins with a call of `sizes`; all of its calls have the same small
        axes. Its sizes take their names from the family it is `like`.
        """
        self.small, self.like = small_axes(sizes), like
        if self.options.decisions is None:
            calls = [call for sibling in siblings for call in sibling._known_calls()]
            at_small = with_small_axes(calls, sizes)
            self.seen += dict.fromkeys(call for call in at_small if call != sizes)

    def names_small(self, sizes: ShapesOfCall) -> bool:
        """Whether the program's pattern names the sizes of a call with small ones."""
        pattern = None if self.program is None else self.program.pattern
        if pattern is None or pattern.sizes_if_fit(sizes) is None:
            return False
        return not pattern.has(sizes)

    def _known_calls(self) -> list[ShapesOfCall]:
        """The calls so far that show a new program what varies."""
        return [*self.seen, *list(self.served)[-RECENT:]]

    def _is_small(self, sizes: ShapesOfCall) -> bool:
        """Whether an axis that varies is shorter than programs for many sizes allow."""
        if self.shapes is not None or self.like is not None:
            pattern = self._given_pattern(sizes)
            if self.small and not pattern.names:
                return True
            varying_sizes = [*pattern.sizes(sizes).values(), *pattern.varying(sizes)]
        else:
            varying_sizes = sizes_that_vary(sizes, self.seen)
        least = LEAST if self.program is None else self.program.pattern.least
        return any(n < least for n in varying_sizes)

    def _given_pattern(self, sizes: ShapesOfCall) -> SizePattern:
        """The pattern from `shapes` or `like`, with numbers for small sizes."""
        if self.like is not None and self.like.program is not None:
            pattern = self.like.program.pattern
        else:
            pattern = pattern_of(self.shapes, self.call.form, sizes)
        for name, size in pattern.sizes(sizes).items() if self.small else ():
            pattern = pattern.fixed(name, size) if size < LEAST else pattern
        return pattern

    def results(self, sizes: ShapesOfCall, results: object) -> object:
        """Return the results of a call, after checking those at the first few sizes.

        Raises GraphError if their shapes are not those that `shapes` gives.
        """
        self.require_fit(
            sizes, lambda: tuple(np.shape(leaf) for leaf in jax.tree.leaves(results))
        )
        return results

    def require_fit(
        self, sizes: ShapesOfCall, result_shapes: Callable[[], ShapesOfCall]
    ) -> None:
        """Raise GraphError if results do not have the shapes that `shapes` gives.

        The results of the first few sizes are checked.
        """
        known = self.whose_results_fit
        if len(known) == CHECKED or sizes in known:
            return
        if describes_results(self.shapes):
            check_results(self.shapes, self.call.form, sizes, result_shapes())
        known.add(sizes)

    def specs_at(self, sizes: ShapesOfCall) -> list[Spec]:
        """The arguments at these sizes."""
        return SizePattern(sizes).specs(self.specs)

    def with_names(self, shapes: Sequence[SpecShape]) -> str:
        """Show the shapes of the arguments, with their names."""
        return shapes_as_text(self.names(), shapes)

    def names_of_axes(self, shapes: Sequence[SpecShape]) -> dict[str, str]:
        """Map sizes to axes such as `x.shape[0]`; {} if the user named the sizes."""
        if self.shapes is not None:
            return {}
        return SizePattern(tuple(shapes)).axes(self.names())

    def axes_named(self, pattern: SizePattern) -> dict[str, str]:
        """The names of sizes that `dims` may use, each with its first axis.

        They include the names that would come next if more axes varied, without an
        axis.
        """
        if self.like is not None and self.like.program is not None:
            pattern = self.like.program.pattern
        if self.shapes is None:
            names = names_of_sizes(sum(map(len, pattern.shapes)))
        else:
            names = names_in_shapes(self.shapes)
        axes = pattern.axes(self.names())
        return axes | {name: "" for name in names if name not in axes}

    def sizes_by_axis(self, sizes: ShapesOfCall) -> dict[str, int]:
        """The sizes of a call by axis, or by the names that `shapes` gives."""
        if self.shapes is not None:
            return pattern_of(self.shapes, self.call.form, sizes).sizes(sizes)
        axes = zip(self.names(), sizes, strict=True)
        return {f"{x}.shape[{i}]": n for x, s in axes for i, n in enumerate(s)}

    def names(self) -> list[str]:
        """The names of a graph's inputs, taken from the function's parameters."""
        return self.call.names(self.function)

    def functions(self) -> list[Function]:
        """The functions that run programs for many sizes."""
        return [program.compiled for program in self.programs]

    def expect(self, sizes: ShapesOfCall, beside: bool = False) -> None:
        """Expect calls of these and of other sizes, or `beside` those seen so far."""
        if self.shapes is None and (beside or not self.seen):
            self.seen += [sizes] * (sizes not in self.seen)

    def require_ready(self, sizes: ShapesOfCall, limit: CompilationLimit) -> None:
        """Raise Refused unless there is a program for calls of these sizes."""
        if sizes in self.served:
            return
        if not any(self._serves(known, sizes) for known in self._siblings(sizes)):
            raise Refused(limit)

    def program_at(self, sizes: ShapesOfCall) -> ManyT | None:
        """The program for a call of these sizes; None if it is compiled exactly."""
        program = self.served.get(sizes)
        if program is not None:
            return program
        try:
            with self.accepting_changes(), only_young_garbage():
                program = self._find_program(sizes)
                if program is not None:
                    self._require_agreement(program, sizes)
            if program is None:
                self.exactly.add(sizes)
                return None
        except CallersError as error:
            raise error.error from None
        except Unsupported as error:
            self._refuse(sizes, error)
            return None
        except GraphError as error:
            if self.shapes is not None and not self.program:
                raise
            reason = str(error).splitlines()[0]
        else:
            self.served[sizes] = program
            return program
        self._require_accepted(sizes)
        others = self._program_for_others(sizes)
        if others is not None:  # nothing says that these sizes differ from others
            self._warn(f"is compiled once for {others.pattern.shown(sizes)}: {reason}")
        self._refuse(sizes, Unsupported(reason))
        return None

    def _find_program(self, sizes: ShapesOfCall) -> ManyT | None:
        """The program that serves these sizes, perhaps new; None if they are exact.

        If the sizes do not fit the last pattern, the new program has a more general
        one.
        """
        siblings = self._siblings(sizes)
        for sibling in reversed(siblings):  # the newest may cover what older ones do
            if self._serves(sibling, sizes):
                return sibling
        if siblings:
            pattern = siblings[0].pattern
        elif self.shapes is not None or self.like is not None:
            pattern = self._given_pattern(sizes)
        elif self.started is not None and self.started.has(sizes):
            pattern = self.started
        else:
            self.seen.append(sizes)
            pattern = common_pattern(self.seen)
        captured = self.snapshot()
        program = self._new_program(pattern, sizes)
        if program is not None and program not in self.programs:
            self.captured[id(program)] = captured
            for known in self._known_calls():
                if known != sizes and pattern.has(known):
                    program.compiled.record_sizes(pattern.sizes(known))
            self.programs.append(program)
        return program

    def _siblings(self, sizes: ShapesOfCall) -> list[ManyT]:
        """The programs of the most general pattern so far, if the sizes fit it."""
        newest = self.program
        if newest is None or not newest.pattern.has(sizes):
            return []
        return [p for p in self.programs if p.pattern == newest.pattern]

    def _serves(self, program: ManyT, sizes: ShapesOfCall) -> bool:
        """Whether a program serves a call whose shapes fit its pattern."""
        return self.has_same_captures(program)

    def has_same_captures(self, program: ManyT) -> bool:
        """Whether the function captures the same as when a program was made."""
        return self.captured[id(program)].is_current()

    def snapshot(self) -> Snapshot:
        """A snapshot of all that the function and its static arguments capture now."""
        return Snapshot.of(self.function, *(static for _, static in self.call.statics))

    @contextmanager
    def accepting_changes(self) -> Generator[None]:
        """Accept changes of captures that tracing within makes, such as counts."""
        stale = {id(p) for p in self.programs if not self.has_same_captures(p)}
        yield
        for i in {id(p) for p in self.programs} - stale:
            self.captured[i] = self.captured[i].settled()

    @abstractmethod
    def _new_program(self, pattern: SizePattern, sizes: ShapesOfCall) -> ManyT | None:
        """Return a program for a pattern; None if these sizes must stay alone.

        Raises Unsupported or GraphError if the function has no such program.
        """

    @abstractmethod
    def function_to_draw(self, one: OneT) -> tuple[Function, str]:
        """The function of the graph of a program for a single size, and a remark.

        Raises Unsupported or GraphError if there is no graph.
        """

    @abstractmethod
    def _require_accepted(self, sizes: ShapesOfCall) -> None:
        """Raise the error that the function itself raises at these sizes, if any."""

    @abstractmethod
    def _require_agreement(self, program: ManyT, sizes: ShapesOfCall) -> None:
        """Raise Unsupported if the program differs from the function at some sizes."""

    def _is_alone(self, pattern: SizePattern, sizes: ShapesOfCall) -> bool:
        """Whether decisions by these sizes leave them to a program of their own.

        Either the facts hold for these sizes only, or there are too many programs.
        """
        siblings = self._siblings(sizes)
        for known in (sibling.decisions for sibling in siblings):
            pinning = known.pinning(pattern.sizes(sizes))
            if pinning:
                self._pin(sizes, known.described(pinning))
                return True
        if len(siblings) >= MOST_PROGRAMS:
            self._tell_limit(siblings, sizes)
        return len(siblings) >= MOST_PROGRAMS

    def _pin(self, sizes: ShapesOfCall, facts: list[str]) -> None:
        """Compile these sizes exactly, because of facts that hold for them alone."""
        self.pinned[sizes] = facts
        if len(self.pinned) > MOST_PROGRAMS and not self.has_many:
            self.has_many = True
            self._warn(
                f"asks for single sizes, of which {len(self.pinned)} were met; more of "
                f"them are compiled once each{self.otherwise}. It decides by "
                f"{facts[0]}. {FEWER}"
            )

    def _tell_limit(self, siblings: list[ManyT], sizes: ShapesOfCall) -> None:
        """Warn once that sizes are compiled exactly because programs are too many."""
        if self.has_many:
            return
        self.has_many = True
        named = siblings[0].pattern.sizes(sizes)
        facts = Counter(
            fact
            for known in (program.decisions for program in siblings)
            for fact in known.described(known.differing(named)[:1])
        )
        why = "".join(f" It decides by {fact}." for fact, _ in facts.most_common(1))
        places = [p.decisions.opaque for p in siblings if p.decisions.opaque]
        if places and not why:
            why = f" {places[0]} asks for {OPAQUE} of a size."
        self._warn(
            f"has {MOST_PROGRAMS} programs for sizes that it treats differently; more "
            f"such sizes are compiled once each{self.otherwise}.{why} {FEWER}"
        )

    def _refuse(self, sizes: ShapesOfCall, error: Unsupported) -> None:
        """Compile these sizes exactly from now on, and all if there is no program."""
        self.exactly.add(sizes)
        if self._program_for_others(sizes) is not None:
            return
        self.refused = str(error)
        if not self.foretold:
            self._warn(f"is compiled once for each size{self.otherwise}: {error}")

    def _program_for_others(self, sizes: ShapesOfCall) -> ManyT | None:
        """The newest program, if it serves other sizes of the same pattern."""
        program = self.program
        return program if program is not None and program.pattern.has(sizes) else None

    def _tell_fixed(self, sizes: Mapping[str, int]) -> None:
        """Warn of axes that `shapes` lets vary, for which only one size is accepted."""
        for name, size in sizes.items():
            self._warn(
                f"takes only {size} for the axis {name}, which does not vary: write "
                f"{size} or _ in `shapes`"
            )

    def _warn(self, problem: str) -> None:
        """Warn the user about the function, at the line of the call."""
        name = getattr(self.function, "__name__", "the function")
        text, place = f"{name} {problem}", user_place()
        warnings.warn_explicit(FallbackWarning(text), None, place.filename, place.line)

    def forget(self, sizes: ShapesOfCall) -> None:
        """Forget a call that raised, unless a program for its sizes is known."""
        if sizes in self.served or sizes in self.compiled:
            return
        self.exactly.discard(sizes)
        if sizes in self.seen:
            self.seen.remove(sizes)

    def compile_alone_from_now(self, sizes: ShapesOfCall) -> None:
        """Compile these sizes exactly from now on, since the program failed on them."""
        self.exactly.add(sizes)
