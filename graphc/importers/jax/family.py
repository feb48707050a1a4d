"""Calls that differ in sizes alone: compiled exactly, or by one program for many."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from graphc.errors import GraphError
from graphc.importers.jax.arguments import JaxCall
from graphc.importers.jax.exact import Exact, exact
from graphc.importers.jax.pattern import (
    LEAST,
    ShapesOfCall,
    SizePattern,
    generalised,
    varying,
)
from graphc.importers.jax.program import (
    JaxProgram,
    Options,
    program_for,
    program_of_samples,
)
from graphc.importers.jax.subject import Subject
from graphc.importers.jax.tracing import Spec
from graphc.importers.jax.unsupported import Unsupported
from graphc.importers.jax.words import pattern_of

CHECKED = 3  # sizes at which a program is compared with a trace of their own
SAMPLED = 4  # calls seen whose traces are put together into one for all sizes
MOST_PROGRAMS = 8  # for sizes that turn out to be more general


class SizesVary(Exception):
    """Raised while JAX traces a call that a program for many sizes shall do."""


class FallbackWarning(UserWarning):
    """A function of JAX that is compiled once for each size after all."""


@dataclass
class SizeFamily:
    """The calls of one function that differ in nothing but sizes."""

    function: Callable[..., Any]
    call: JaxCall  # the first
    specs: list[Spec]
    shapes: Any
    options: Options
    refused: str = ""  # why there is no program for many sizes
    programs: list[JaxProgram] = field(default_factory=list)  # the last one is in use
    seen: list[ShapesOfCall] = field(default_factory=list)
    compiled: dict[ShapesOfCall, Exact] = field(default_factory=dict)
    exactly: set[ShapesOfCall] = field(default_factory=set)
    checked: set[ShapesOfCall] = field(default_factory=set)

    @property
    def program(self) -> JaxProgram | None:
        """The program for many sizes, where there is one."""
        return self.programs[-1] if self.programs else None

    @property
    def subject(self) -> Subject:
        """The function of the leaves of its arguments."""
        return Subject(self.function, self.call)

    def wants_program(self, sizes: ShapesOfCall) -> bool:
        """Whether a call of these sizes is one for a program for many."""
        if sizes in self.exactly:
            return False
        if self.shapes is not None and not self.seen:
            self.seen.append(sizes)
        first = not self.seen
        chosen = not (first or self.refused or self._is_small(sizes))
        if first:
            self.seen.append(sizes)
        if not chosen:
            self.exactly.add(sizes)
        return chosen

    def _is_small(self, sizes: ShapesOfCall) -> bool:
        """Whether an axis that varies has no more than one element."""
        if self.shapes is not None:
            pattern = self._said(sizes)
            found = list((pattern.sizes(sizes) or {}).values())
        else:
            found = varying(sizes, self.seen)
        least = LEAST if self.program is None else self.program.pattern.least
        return any(n < least for n in found)

    def _said(self, sizes: ShapesOfCall) -> SizePattern:
        return pattern_of(self.shapes, self.call.form, sizes)

    def trace(self, sizes: ShapesOfCall) -> Exact:
        """Compile one call with JAX, whose sizes are numbers."""
        found = exact(self.subject, self.specs_at(sizes), self.names(), self.options)
        self.compiled[sizes] = found
        return found

    def specs_at(self, sizes: ShapesOfCall) -> list[Spec]:
        """The arguments at these sizes."""
        pairs = zip(sizes, self.specs, strict=True)
        return [Spec(shape, s.dtype, s.weak) for shape, s in pairs]

    def names(self) -> list[str]:
        """The names of the inputs of graphs."""
        return [f"x{i}" for i in range(len(self.specs))]

    def program_at(self, sizes: ShapesOfCall) -> JaxProgram | None:
        """The program for a call of these sizes; None where it is to be exact."""
        try:
            program = self._fitting(sizes)
            self._check(program, sizes)
        except Unsupported as error:
            self._refuse(sizes, error)
            return None
        except GraphError as error:
            if self.shapes is not None and not self.program:
                raise
            self._refuse(sizes, Unsupported(str(error).splitlines()[0]))
            return None
        return program

    def _fitting(self, sizes: ShapesOfCall) -> JaxProgram:
        """The program so far, or a more general one where the sizes do not fit it."""
        program = self.program
        if program and program.pattern.has(sizes) and self._serves(program, sizes):
            return program
        if self.shapes is not None:
            pattern = self._said(sizes)
        else:
            self.seen.append(sizes)
            pattern = generalised(self.seen)
        made = self._made(pattern, sizes)
        self.programs.append(made)
        return made

    def _serves(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        if program.template is None or len(self.programs) == MOST_PROGRAMS:
            return True
        return program.admits(self.subject, sizes, self.specs_at(sizes))

    def _made(self, pattern: SizePattern, sizes: ShapesOfCall) -> JaxProgram:
        """The program for a pattern, by the first way that there is."""
        reasons: list[Unsupported] = []
        sampled = self.program is not None and self.program.template is not None
        ways = self._of_symbols, self._of_larger_symbols, self._of_samples
        for way in ways[-1:] if sampled else ways:
            try:
                made = way(pattern, sizes)
                self.checked = set()
                for known in (*self.seen, sizes):
                    self._check(made, known)
                return made
            except Unsupported as error:
                reasons.append(error)
        told = f"{reasons[0]}; traces at several sizes: {reasons[-1].reason}"
        raise Unsupported(told) from None

    def _of_symbols(self, pattern: SizePattern, _: ShapesOfCall) -> JaxProgram:
        return program_for(
            self.subject, pattern, self.specs, self.names(), self.options
        )

    def _of_larger_symbols(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram:
        """The program for no smaller sizes.

        Python code can compare sizes with numbers, which JAX decides for large ones.
        """
        least = min((pattern.sizes(sizes) or {}).values(), default=LEAST)
        return self._of_symbols(replace(pattern, least=least), sizes)

    def _of_samples(self, pattern: SizePattern, sizes: ShapesOfCall) -> JaxProgram:
        """The program by traces at single sizes: of this call, of others, and twice."""
        own = pattern.sizes(sizes) or {}
        samples = [own, *({**own, name: 2 * n} for name, n in own.items())]
        for seen in self.seen[-SAMPLED:]:
            found = pattern.sizes(seen)
            if found and found not in samples and pattern.has(seen):
                samples.append(found)
        subject, names, how = self.subject, self.names(), self.options
        return program_of_samples(subject, pattern, self.specs, names, how, samples)

    def _check(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Compare with what JAX traces for these very sizes, where that may differ."""
        named = program.pattern.sizes(sizes) or {}
        if sizes in self.checked or not program.pattern.has(sizes):
            return
        if program.template is not None:
            if not program.admits(self.subject, sizes, self.specs_at(sizes)):
                raise Unsupported("its steps depend on the sizes")
            self.checked.add(sizes)
            return
        if len(self.checked) < CHECKED or program.pattern.coincides(named):
            direct = self.subject.read(self.specs_at(sizes))
            if not program.agrees(direct, named):
                shown = ", ".join(f"{k} = {n}" for k, n in named.items())
                raise Unsupported(f"JAX traces something else for {shown}")
            self.checked.add(sizes)

    def _refuse(self, sizes: ShapesOfCall, error: Unsupported) -> None:
        """Compile these sizes exactly from now on, or all where there is no program."""
        self.exactly.add(sizes)
        program = self.program
        if program is not None and program.pattern.has(sizes):
            return  # it does the others
        self.refused = str(error)
        name = getattr(self.function, "__name__", "the function")
        text = f"{name} is compiled once for each size, as by jax.jit: {error}"
        warnings.warn(FallbackWarning(text), stacklevel=6)

    def failed(self, sizes: ShapesOfCall) -> None:
        """The program could not do a call of these sizes: JAX does."""
        self.exactly.add(sizes)
