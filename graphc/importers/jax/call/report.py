"""The history of a function of `graphc.jit`, as data and as text."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from graphc.errors import in_number
from graphc.explain.program_text import ProgramText
from graphc.importers.jax.sizes.family import SizeFamily
from graphc.importers.jax.sizes.pattern import MOST_SHOWN, ShapesOfCall
from graphc.importers.jax.sizes.programs import ManySizes, OneSize
from graphc.importers.jax.trace.decisions import OPAQUE
from graphc.runtime.driver.log import Compilation, in_numbers


@dataclass(frozen=True)
class JitCompilation(Compilation):
    """A compilation, as `graphc.function` reports it, and the `program` it belongs to.

    `sizes` are named by axes, such as `x.shape[0]`, or by the names in `shapes`. For a
    padded program they are capacities. `program` tells the shapes of the arguments.
    """

    program: str

    def __str__(self) -> str:
        part = f", segment {self.segment}" if self.segment else ""
        return f"{self.program}{part}: {self.seconds:.3f} s, {self.reason}"


@dataclass(frozen=True)
class JitStats:
    """The `compilations`, and the `fallbacks`: why sizes are compiled one by one.

    `changes` are those of programs for many sizes, as in `Function.stats()`. `foreign`
    lists the equations that JAX runs inside these programs, at true sizes, and why.
    `decisions` lists the facts about sizes by which Python code, the user's or JAX's,
    decides what the program computes, each with its line and the number of calls in
    which it held. A line that asks for something other than a fact, such as the text of
    a size, is listed there too.
    """

    calls: int = 0
    compilations: list[JitCompilation] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    decisions: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        seconds = sum(one.seconds for one in self.compilations)
        counts = in_numbers(self.calls, len(self.compilations))
        return f"<graphc.JitStats: {counts} in {seconds:.1f} s>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [in_numbers(self.calls, len(self.compilations))]
        lines += [f"  {one}" for one in self.compilations]
        lines += [f"  {change}" for change in self.changes]
        lines += [f"  compiled once for each size: {why}" for why in self.fallbacks]
        lines += [f"  run by JAX: {why}" for why in self.foreign]
        decisions = self.decisions.items()
        lines += [f"  where {fact}, in {calls} calls" for fact, calls in decisions]
        return "\n".join(lines)


def stats_of(calls: int, families: Iterable[SizeFamily[Any, Any]]) -> JitStats:
    """Collect the statistics of a function from its families of calls."""
    stats = JitStats(calls)
    for family in families:
        for sizes, one in family.compiled.items():
            stats.compilations.extend(_compilations_of_one(family, sizes, one))
        stats.fallbacks.extend(filter(None, [family.exact_because, *family.left]))
        for program in family.programs:
            program_stats = program.compiled.stats()
            stats.foreign.extend(program.foreign)
            for fact in (*program.facts, *_opaque_question(program)):
                calls_so_far = stats.decisions.get(fact, 0)
                stats.decisions[fact] = calls_so_far + program_stats.calls
            stats.changes.extend(program_stats.changes)
            stats.compilations.extend(compilations_for(family, program))
    return stats


def compilations_for(
    family: SizeFamily[ManySizes, OneSize], program: ManySizes
) -> Iterator[JitCompilation]:
    """The compilations of a program for many sizes."""
    shapes = program.pattern.shapes
    axes, text = family.names_of_axes(shapes), family.with_names(shapes)
    axes |= {f"{name}_capacity": axis for name, axis in axes.items()}
    for one in program.compiled.stats().compilations:
        sizes = {axes.get(name, name): n for name, n in one.sizes.items()}
        yield JitCompilation(one.segment, one.seconds, one.reason, sizes, text)


def _compilations_of_one(
    family: SizeFamily[ManySizes, OneSize], sizes: ShapesOfCall, program: OneSize
) -> Iterator[JitCompilation]:
    """The compilations of a program for a single size."""
    by_axis, text = family.sizes_by_axis(sizes), f"exactly {family.with_names(sizes)}"
    facts = " and ".join(family.pinned.get(sizes, ()))
    why = f"where {facts}" if facts else "first call of these sizes"
    for one in program.compilations():
        reason = one.reason or why
        yield JitCompilation(one.segment, one.seconds, reason, by_axis, text)


def _opaque_question(program: ManySizes) -> list[str]:
    """The question to a program that is not a fact, with its line; or no question."""
    if program.steps_at is not None:
        return [f"the number of steps that Python takes ({program.steps_at})"]
    place = program.decisions.opaque
    return [] if place is None else [f"{OPAQUE} of a size ({place})"]


def explanation_of(
    function: Callable[..., object],
    families: Iterable[SizeFamily[ManySizes, OneSize]],
    full: bool,
) -> str:
    """Describe the compiled programs of these families, with the reasons."""
    name = getattr(function, "__name__", "the function")
    lines = [f"jit of {name}"]
    for family in families:
        lines += _lines_of_family(family, full)
    return "\n".join(lines)


def _lines_of_family(
    family: SizeFamily[ManySizes, OneSize], full: bool
) -> Iterator[str]:
    yield from _exact_lines(family, full)
    if family.exact_because:
        yield f"compiled once for each size: {family.exact_because}"
    yield from (f"calls that jax.jit compiles: {reason}" for reason in family.left)
    compared = sum(program.is_compared for program in family.programs)
    for program in family.programs:
        if family.also_for and not program.compiled.stats().compilations:
            continue  # a program that was compiled exactly runs instead
        shapes = family.with_names(program.pattern.shapes)
        yield f"compiled for all sizes of {shapes}{_limits_of_program(program)}:"
        is_stale = not family.has_same_captures(program)
        if is_stale:
            yield "  made before values that the function captures have changed"
        if is_stale or program.is_compared:
            yield from _lines_on_comparing(program)
        if is_stale or (program.is_compared and compared > 1):
            yield from _lines_on_sizes(family, program)
        yield from (f"  run by JAX in it: {reason}" for reason in program.foreign)
        yield program.compiled.explain(full)


def _lines_on_comparing(program: ManySizes) -> Iterator[str]:
    """Say why the traces of new sizes are compared with that of a program."""
    place, steps_at = program.decisions.opaque, program.steps_at
    compared = "  each new size is traced and compared"
    if steps_at is not None:
        yield f"{compared}, since Python counts the steps at {steps_at}"
    elif place is not None:
        yield f"{compared}, since {place}"
        yield f"  asks for {OPAQUE} of a size"
    else:
        yield compared


def _lines_on_sizes(
    family: SizeFamily[ManySizes, OneSize], program: ManySizes
) -> Iterator[str]:
    """Say which sizes a program has served, of several that may serve the same."""
    served = [sizes for sizes, one in family.served.items() if one is program]
    shown = [program.pattern.shown(sizes) for sizes in served[:MOST_SHOWN]]
    more = " ..." if len(served) > MOST_SHOWN else ""
    if shown:
        yield f"  so far for {'; '.join(shown)}{more}"


def _exact_lines(family: SizeFamily[ManySizes, OneSize], full: bool) -> Iterator[str]:
    """Describe the programs for single sizes; those without reasons are grouped."""
    plain: dict[str, list[str]] = {}
    for sizes, one in family.compiled.items():
        first, *more = one.report(full)
        reasons = [f"  where {fact}" for fact in family.pinned.get(sizes, ())]
        reasons += [
            f"  also run for sizes {pattern}: nothing reads the sizes that differ"
            for pattern in family.also_for.get(sizes, ())
        ]
        described, reasons = family.with_names(sizes), reasons + more
        if reasons or full:
            yield f"compiled exactly for {described}: {first}"
            yield from reasons
        else:
            plain.setdefault(first, []).append(described)
    for first, each in plain.items():
        for described in each[:MOST_SHOWN]:
            yield f"compiled exactly for {described}: {first}"
        if len(each) > MOST_SHOWN:
            others = f"{len(each) - MOST_SHOWN} more, the last for {each[-1]}"
            yield f"compiled exactly for {others}: {first}"


def _limits_of_program(program: ManySizes) -> str:
    calls = in_number(program.compiled.stats().calls, "call")
    alike = " that are traced alike" if program.is_compared else ""
    facts = f" where {', '.join(program.facts)}" if program.facts else ""
    return f"{alike}{facts}, in {calls}" if alike or facts else ""


def source_of(families: Iterable[SizeFamily[ManySizes, OneSize]]) -> ProgramText:
    """Join the texts of the compiled programs."""
    texts: list[Any] = []
    for family in families:
        texts += [program.compiled.source for program in family.programs]
        texts += [one.source for one in family.compiled.values()]
    return ProgramText.joined(texts)
