"""The history of a function of `graphc.jit`, as data and as text."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from graphc.importers.jax.sizes.family import ManySizes, SizeFamily
from graphc.importers.jax.sizes.pattern import MOST_SHOWN, ShapesOfCall
from graphc.runtime.function import Function


@dataclass(frozen=True)
class JitStats:
    """`compilations`: a line for each; `fallbacks`: why sizes are compiled one by one.

    `changes` are those of programs for many sizes, as in `Function.stats()`. `foreign`:
    what JAX runs inside of these programs, at true sizes, and why. `decisions` are the
    facts about sizes by which Python code, the user's or JAX's, decides what the
    program is, each with its line, and how many calls it was so in.
    """

    calls: int = 0
    compilations: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    decisions: dict[str, int] = field(default_factory=dict)


def stats_of(calls: int, families: Iterable[SizeFamily[Any, Any]]) -> JitStats:
    """The calls and compilations of these kinds of calls."""
    stats = JitStats(calls)
    for family in families:
        for sizes, one in family.compiled.items():
            start = f"exactly {_shown(sizes)}"
            texts = one.compilations()
            stats.compilations.extend(f"{start}: {t}" if t else start for t in texts)
        stats.fallbacks.extend(filter(None, [family.refused, *family.left]))
        for program in family.programs:
            own = program.compiled.stats()
            stats.foreign.extend(program.foreign)
            for fact in program.facts:
                calls_so_far = stats.decisions.get(fact, 0)
                stats.decisions[fact] = calls_so_far + own.calls
            stats.changes.extend(own.changes)
            stats.compilations.extend(
                f"{program.pattern}: {one.reason}" for one in own.compilations
            )
    return stats


def _shown(sizes: ShapesOfCall) -> str:
    first, last = sizes[:MOST_SHOWN], sizes[MOST_SHOWN:][-1:]
    shown = list(map(str, (*first, *last)))
    if len(sizes) > len(shown):
        shown.insert(MOST_SHOWN, "...")
    return ", ".join(shown) or "without arrays"


def explained(
    function: Callable[..., Any], families: Iterable[SizeFamily[Any, Any]], full: bool
) -> str:
    """The compiled programs of these kinds of calls, and the reasons."""
    name = getattr(function, "__name__", "the function")
    lines = [f"jit of {name}"]
    for family in families:
        lines += _lines(family, full)
    return "\n".join(lines)


def _lines(family: SizeFamily[Any, Any], full: bool) -> Iterator[str]:
    for sizes, one in family.compiled.items():
        first, *more = one.told(full)
        yield f"compiled exactly for {_shown(sizes)}: {first}"
        yield from (f"  where {fact}" for fact in family.pinned.get(sizes, ()))
        for pattern in family.also_for.get(sizes, ()):
            yield f"  and run for sizes {pattern}: nothing reads those that differ"
        yield from more
    if family.refused:
        yield f"compiled once for each size: {family.refused}"
    yield from (f"calls that jax.jit compiles: {reason}" for reason in family.left)
    for program in family.programs:
        if family.also_for and not program.compiled.stats().compilations:
            continue  # what was compiled exactly is run in its place
        yield f"compiled for all sizes {program.pattern}{_limits(program)}:"
        if program.opaque is not None:
            yield f"  each new size is traced and compared, for {program.opaque}"
            yield "  asks for the text, the hash or the number of a size"
        yield from (f"  run by JAX in it: {reason}" for reason in program.foreign)
        yield program.compiled.explain(full)


def _limits(program: ManySizes) -> str:
    if not program.facts:
        return ""
    return f" where {', '.join(program.facts)}, in {_counted(program.compiled)}"


def _counted(compiled: Function) -> str:
    """How often a function was called, in words."""
    calls = compiled.stats().calls
    return f"{calls} call{'s' * (calls != 1)}"


def source_of(families: Iterable[SizeFamily[Any, Any]]) -> str:
    """The texts of the compiled programs, one after another."""
    found: list[Any] = []
    for family in families:
        found += [program.compiled.source for program in family.programs]
        found += [one.source for one in family.compiled.values()]
    return "\n\n".join(found)
