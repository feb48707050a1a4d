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
from graphc.importers.jax.program import JaxProgram, Options, program_for
from graphc.importers.jax.subject import Subject
from graphc.importers.jax.tracing import Spec
from graphc.importers.jax.unsupported import Unsupported
from graphc.importers.jax.words import pattern_of

CHECKED = 3  # sizes at which a program is compared with a trace of their own


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
        if self.program and self.program.pattern.has(sizes):
            return self.program
        if self.shapes is not None:
            pattern = self._said(sizes)
        else:
            self.seen.append(sizes)
            pattern = generalised(self.seen)
        made = self._made(pattern, sizes)
        self.checked = set()
        for known in self.seen:
            self._check(made, known)
        self.programs.append(made)
        return made

    def _made(self, pattern: SizePattern, sizes: ShapesOfCall) -> JaxProgram:
        """The program for a pattern; where it needs that, for no smaller sizes only.

        Python code can compare sizes with numbers, which JAX decides for large ones.
        """
        subject, names, how = self.subject, self.names(), self.options
        try:
            return program_for(subject, pattern, self.specs, names, how)
        except Unsupported:
            least = min((pattern.sizes(sizes) or {}).values(), default=LEAST)
            larger = replace(pattern, least=least)
            return program_for(subject, larger, self.specs, names, how)

    def _check(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Compare with what JAX traces for these very sizes, where that may differ."""
        named = program.pattern.sizes(sizes) or {}
        if sizes in self.checked or not program.pattern.has(sizes):
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
