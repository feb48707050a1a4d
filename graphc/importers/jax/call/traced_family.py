"""Calls of a JAX function that differ only in sizes, as JAX traces them.

Sizes by which the function decides alike share a program. Sizes decided otherwise get
another program, up to a limit; where a decision fits a single size, that size is
compiled exactly.
"""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from graphc.errors import SourceLocation
from graphc.importers.jax.call.exact import Exact, compile_exactly, function_as_graph
from graphc.importers.jax.call.identities import line_comparing_identity
from graphc.importers.jax.call.program import (
    JaxProgram,
    Pinned,
    program_for,
    program_of_loops,
    program_of_samples,
    result_shapes,
)
from graphc.importers.jax.call.unread import FirstExact
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import CHECKED, SizeFamily
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.sizes.samples import (
    MOST_UNLIKE,
    UNLIKE,
    Sample,
    SampledTraces,
    Sampling,
    Unlike,
)
from graphc.importers.jax.trace.choices import Options, require_names_of_call
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import TracedFunction, symbols_of
from graphc.importers.jax.unrolled.by_size import is_small, trials
from graphc.importers.jax.unrolled.of_jax import shows_loops
from graphc.ir.garbage import only_young_garbage
from graphc.runtime.function import Function

SAMPLED = 4  # calls seen, whose traces are combined into one for all sizes
AUDITS = bool(os.environ.get("GRAPHC_AUDIT"))  # each new size is traced and compared


@dataclass
class JaxFamily(SizeFamily[JaxProgram, Exact]):
    """The calls of one JAX function that differ only in sizes.

    If `withheld` gives a reason, there is no program for many sizes.
    """

    withheld: str = ""
    keeps: bool = False  # whether a warning is due that arguments are not donated
    unlike: int = 0  # the number of sizes whose traces resemble no others
    asking: SourceLocation | None = None  # the line that asks for the number of a size
    direct: tuple[ShapesOfCall, TracedFunction] | None = None  # for the current call
    first: FirstExact | None = None
    is_like_first: bool = False  # whether captures are still those of `first`
    otherwise = ", as by jax.jit"

    @property
    def subject(self) -> Subject:
        """The function, taking the leaves of its arguments."""
        return Subject(self.function, self.call)

    def function_to_draw(self, one: Exact) -> tuple[Function, str]:
        """The function of a program's graph, and how it relates to what is compiled.

        Raises Unsupported, or GraphError, if the trace cannot be read as a graph.
        """
        if one.rewritten is not None:
            return one.rewritten, "rewritten, then compiled by JAX as one"
        graph = function_as_graph(self.subject, one.traced, self.names())
        return graph, "JAX compiles its own trace, of which this is the graph"

    def trace(self, sizes: ShapesOfCall) -> Exact:
        """Compile one call exactly with JAX, at sizes that are numbers."""
        captured = self.snapshot() if not self.compiled else None
        specs, names = self.specs_at(sizes), self.names()
        with self.accepting_changes(), only_young_garbage():
            program = compile_exactly(self.subject, specs, names, self.options)
        self.require_fit(sizes, lambda: result_shapes(program.traced, {}))
        self.compiled[sizes] = program
        if captured is not None:
            self.first = FirstExact(sizes, program, captured.settled())
        return program

    def first_for(self, program: JaxProgram, sizes: ShapesOfCall) -> FirstExact | None:
        """The first program of the family if it also serves these sizes, else None."""
        first = self.first
        if first is None or self.options.backend != "jax":
            return None
        if not first.serves(program, sizes):
            return None
        self.also_for.setdefault(first.sizes, {})[
            self.with_names(program.pattern.shapes)
        ] = None
        return first

    def leave_to_jax(self, reason: str) -> None:
        """Leave a call to JAX, for a reason that is reported once."""
        if reason not in self.left:
            self.left.append(reason)
            self._warn(f"is called so that jax.jit compiles each size: {reason}")

    @contextmanager
    def accepting_changes(self) -> Generator[None]:
        """Accept changes that tracing makes, for the first program as well.

        The first program is not traced again after such changes.
        """
        first = self.first
        self.is_like_first = first is not None and first.captured.is_current()
        try:
            with super().accepting_changes():
                yield
            if first is not None and self.is_like_first:
                self.first = replace(first, captured=first.captured.settled())
        finally:
            self.is_like_first = False

    def program_at(self, sizes: ShapesOfCall) -> JaxProgram | None:
        """The program for a call of these sizes; None if it is compiled exactly."""
        try:
            program = super().program_at(sizes)
            if program is not None:
                self.require_fit(sizes, partial(self._result_shapes, program, sizes))
            return program
        finally:
            self.direct = None

    def _result_shapes(self, program: JaxProgram, sizes: ShapesOfCall) -> ShapesOfCall:
        """The shapes of the results of a program at these sizes."""
        if program.is_sampled:
            return result_shapes(self._exact_trace(sizes), {})
        return result_shapes(program.traced, program.pattern.sizes(sizes))

    def _find_program(self, sizes: ShapesOfCall) -> JaxProgram | None:
        program = super()._find_program(sizes)
        if self.keeps and program is not None:
            self.keeps = False
            self._warn(
                "does not donate its arguments where their sizes vary: they stay as "
                "they are, and its results take other memory"
            )
        return program

    def _exact_trace(self, sizes: ShapesOfCall) -> TracedFunction:
        """The trace at exactly these sizes, kept for the current call."""
        direct = self.direct  # once, as other threads may change it
        if direct is None or direct[0] != sizes:
            direct = self.direct = sizes, self.subject.read(self.specs_at(sizes))
        return direct[1]

    def _require_accepted(self, sizes: ShapesOfCall) -> None:
        """Raise the error that the function itself raises at these sizes, if any."""
        self._exact_trace(sizes)

    def _serves(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        """Whether a program computes the function at these sizes too.

        The program is compared with what JAX traces at these sizes if decisions may be
        hidden, or if a captured object has changed, which the function may not even
        read.
        """
        if not self.captured[id(program)].is_unwritten():
            return False
        if program.is_sampled:
            return self._admits(program, sizes)
        named = program.pattern.sizes(sizes)
        if not program.holds(named):
            return False
        fits = super()._serves(program, sizes)
        is_known = fits and not self._is_to_check(program, sizes)
        if is_known or self._agrees(program, sizes):
            return True
        if not fits:
            return False
        if AUDITS and program.decisions.opaque is None:
            self._warn(f"is traced differently for {program.pattern.shown(sizes)}")
        program.doubted = True
        return False

    def _admits(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        trace = partial(self._exact_trace, sizes)
        return program.admits(self.subject, sizes, self.specs_at(sizes), trace)

    def _is_to_check(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        if sizes in program.checked:
            return False
        opaque = program.doubted or program.decisions.opaque is not None
        return opaque or AUDITS or len(program.checked) < CHECKED

    def _agrees(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        """Whether a program agrees with what JAX traces at exactly these sizes.

        For the first sizes a trace exists already and need not be made again.
        """
        named, first = program.pattern.sizes(sizes), self.first
        known = None
        if first is not None and self.is_like_first:
            known = first.trace_at(sizes, self.subject)
        agrees = known is not None and program.read.agrees(known, named)
        agrees = agrees or program.read.agrees(self._exact_trace(sizes), named)
        if agrees:
            program.checked.add(sizes)
        return agrees

    def _new_program(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram | None:
        """Return the program for a pattern, made in the first way that works.

        Returns None if these sizes are to be compiled exactly. Raises Unsupported if no
        way works.
        """
        if self.withheld:
            raise Unsupported(self.withheld)
        require_names_of_call(self.options.dims, self.axes_named(pattern))
        if self._is_alone(pattern, sizes):
            return None
        if self._has_few_steps(sizes):
            raise Unlike
        reasons: list[Unsupported] = []
        sampled = self.program is not None and self.program.is_sampled
        readings = self._program_from_symbols, self._program_from_samples
        for reading in readings[-1:] if sampled else readings:
            try:
                program = reading(pattern, sizes)
                if program.decisions.fit_only(pattern.sizes(sizes)):
                    with suppress(Unsupported):
                        program = self._program_from_samples(pattern, sizes)
                self._check_at_known(program, sizes)
                self.foretold = ""
                return self._with_fixed_axes(program, sizes) or program
            except Pinned as pinned:
                self._pin(sizes, pinned.facts)
                return None
            except Unsupported as error:
                reasons.append(error)
                self.asking = self.asking or error.place
        first = self.shapes is not None and not self.programs
        said = pattern.names if first else []
        fixed = self._program_with_fixed_axis(pattern, sizes, said)
        if fixed is None:
            self._leave_if_odd(reasons)
        return fixed

    def _leave_if_odd(self, reasons: list[Unsupported]) -> None:
        """Raise Unsupported, unless other sizes may share a trace where these do not.

        The first sizes without a counterpart are compiled alone. If no two sizes are
        traced alike, that will not change, and is reported at once.
        """
        self.unlike += 1
        why, last = _join_reasons(reasons), reasons[-1]
        if not isinstance(last, Unlike) or self.unlike != 1:
            raise why
        if last.everywhere and self.program is None:
            self.foretold = str(why)
            self._warn(
                f"is compiled once for each size{self.otherwise}, unless two take the "
                f"same steps: {why}"
            )

    def _tell_unlike(self) -> None:
        """Warn once that sizes whose steps match no others are compiled exactly."""
        if self.program is not None and not self.has_many:
            self.has_many = True
            self._warn(
                f"takes other steps at {MOST_UNLIKE} sizes than at any other size that "
                f"was tried; more such sizes are compiled once each{self.otherwise}"
            )

    def _with_fixed_axes(
        self, program: JaxProgram, sizes: ShapesOfCall
    ) -> JaxProgram | None:
        """Replace a program that needs the number of an axis that `shapes` lets vary.

        Returns None if no axis can be fixed.
        """
        if self.shapes is None or self._siblings(sizes):
            return None
        needed = program.decisions.names_of_fixed_sizes()
        return self._program_with_fixed_axis(program.pattern, sizes, needed)

    def _program_with_fixed_axis(
        self, pattern: SizePattern, sizes: ShapesOfCall, names: Iterable[str]
    ) -> JaxProgram | None:
        """Return a program with some of the axes `names` fixed, or None.

        These axes were said to vary, but the function may accept a single size, such as
        that of a module's weights.
        """
        fixed: dict[str, int] = {}
        for name in names:
            if self._accepts_another_size(pattern, sizes, name):
                continue
            fixed[name] = size = pattern.sizes(sizes)[name]
            pattern = pattern.fixed(name, size)
            for reading in (self._program_from_symbols, self._program_from_samples):
                with suppress(Pinned, Unsupported):
                    program = reading(pattern, sizes)
                    self._check_at_known(program, sizes)
                    self._tell_fixed(fixed)
                    return program
        return None

    def _accepts_another_size(
        self, pattern: SizePattern, sizes: ShapesOfCall, name: str
    ) -> bool:
        """Whether the function accepts, for this axis, a size other than the call's."""
        named = pattern.sizes(sizes)
        for n in (named[name] + 1, 2 * named[name]):
            other_sizes = {**named, name: n}
            try:
                self.subject.read(
                    [s.at(other_sizes) for s in pattern.specs(self.specs)]
                )
            except Exception:  # whatever it raises for a size it cannot take
                continue
            return True
        return False

    def _program_from_symbols(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram:
        """Return the program read from a trace at symbols.

        JAX's own questions about order are answered only if the trace fails without
        answers.
        """
        recorder = self._recorder(pattern, sizes, answers_jax=False)
        try:
            return self._program_for_decisions(pattern, recorder)
        except Unsupported:
            if not recorder.was_silent:
                raise
        return self._program_for_decisions(
            pattern, self._recorder(pattern, sizes, answers_jax=True)
        )

    def _recorder(
        self, pattern: SizePattern, sizes: ShapesOfCall, answers_jax: bool
    ) -> Recorder:
        words = self.names_of_axes(pattern.shapes)
        recorder = Recorder(pattern.sizes(sizes), words, answers_jax)
        place = line_comparing_identity(self.function)
        if place is not None:
            recorder.observe(lambda: place)
        return recorder

    def _program_for_decisions(
        self, pattern: SizePattern, recorder: Recorder
    ) -> JaxProgram:
        names, options = self.names(), self.options_for(pattern)
        programs = [p for p in self.programs if p.pattern == pattern]
        current = list(filter(self.has_same_captures, programs))
        return program_for(
            self.subject, pattern, self.specs, names, options, recorder, current
        )

    def _program_from_samples(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram:
        """Return the program read from traces at single sizes, this call's included."""
        trace = self.subject.comparable(self._exact_trace(sizes))
        first = Sample(pattern.sizes(sizes), trace)
        if self.unlike >= MOST_UNLIKE:
            self._tell_unlike()
            raise Unlike
        seen = [pattern.sizes(s) for s in self.seen[-SAMPLED:] if pattern.has(s)]
        subject, names = self.subject, self.names()
        how = self.options_for(pattern)
        traces = SampledTraces(subject, pattern.specs(self.specs), first)
        loops: JaxProgram | None = None
        tries_loops = not is_small(first.sizes) and shows_loops(subject, trace, names)
        if tries_loops:
            with suppress(Unsupported):
                loops = self._program_of_loops(pattern, traces, how)
                if loops.unrolled and loops.unrolled.looped:
                    return loops
        try:
            template = self._sampling(pattern, sizes, traces).template(seen)
            return program_of_samples(
                subject, pattern, self.specs, names, how, template, first, self.asking
            )
        except Unsupported:
            if loops is not None:
                return loops
            if not tries_loops:
                with suppress(Unsupported):
                    return self._program_of_loops(pattern, traces, how)
            raise

    def _has_few_steps(self, sizes: ShapesOfCall) -> bool:
        """Whether loops that a program has for other sizes may not show at these."""
        return any(
            program.unrolled is not None
            and program.unrolled.has_few_steps(program.pattern.sizes(sizes))
            for program in self._siblings(sizes)
        )

    def _program_of_loops(
        self, pattern: SizePattern, traces: SampledTraces, how: Options
    ) -> JaxProgram:
        """Return the program read from traces in which loops of Python are unrolled.

        If these sizes are too few to show loops, it may be made of larger ones alone.
        """
        failed: Unsupported = Unlike()
        for trial in trials(traces.first.sizes):
            samples = _samples_at(trial, traces)
            try:
                return program_of_loops(
                    self.subject,
                    pattern,
                    self.specs,
                    self.names(),
                    how,
                    samples,
                    self.asking,
                )
            except Unsupported as error:
                failed = error
        raise failed

    def _sampling(
        self, pattern: SizePattern, sizes: ShapesOfCall, traces: SampledTraces
    ) -> Sampling:
        """How other sizes are traced: near the known ones if other programs' were."""
        templates = [program.template for program in self._siblings(sizes)]
        return Sampling(
            traces,
            symbols_of(pattern.names, pattern.least),
            pattern.least,
            any(template is not None and template.near for template in templates),
        )

    def _check_at_known(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Check a program at these sizes, and at sizes seen that it should serve.

        A program that may differ from size to size is checked at the other sizes only
        when they are called.
        """
        if program.unrolled is not None and is_small(program.pattern.sizes(sizes)):
            return  # it may be made of larger sizes alone
        if program.is_sampled or program.decisions.opaque is not None:
            self._require_agreement(program, sizes)
            return
        for known in dict.fromkeys((*self.seen, sizes)):
            try:
                self._require_agreement(program, known)
            except Unsupported:
                raise
            except Exception:  # raised by the user's function at these sizes
                if known == sizes:
                    raise
                self.seen.remove(known)

    def _require_agreement(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Raise Unsupported if the program is not what JAX traces for the sizes."""
        named = program.pattern.sizes(sizes)
        if not program.pattern.has(sizes) or not program.holds(named):
            return
        if program.is_sampled:
            if not self._admits(program, sizes):
                raise Unsupported(UNLIKE)
        elif self._is_to_check(program, sizes) and not self._agrees(program, sizes):
            shown = program.pattern.shown(sizes)
            reason = f"JAX traces something else for {shown}"
            if program.foreign:  # whose params hold functions or shapes
                reason = f"{reason}, perhaps in {program.foreign[0]}"
            raise Unsupported(reason, program.decisions.opaque)


def _samples_at(
    all_sizes: Iterable[Mapping[str, int]], traces: SampledTraces
) -> list[Sample]:
    """Traces at those of the sizes that the function accepts."""
    samples = list[Sample]()
    for sizes in all_sizes:
        with suppress(Unsupported):
            samples.append(Sample(sizes, traces.at(sizes)))
    return samples


def _join_reasons(reasons: list[Unsupported]) -> Unsupported:
    """Join the reasons why symbols gave no program, nor traces at several sizes."""
    why, last = str(reasons[0]), reasons[-1]
    if last.reason in why:
        return Unsupported(why)
    return Unsupported(f"{why}; traces at several sizes: {last}")
