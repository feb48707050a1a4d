"""Decisions about sizes in `graphc.jit`, from other processes and for them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.trace.tracing import Spec
from graphc.runtime.variants.decisions import (
    DecidedInput,
    DecidedProgram,
    SavedDecisions,
)
from graphc.transform.policies import Policy

if TYPE_CHECKING:
    from graphc.importers.jax.sizes.family import ManySizes, OneSize, SizeFamily


def name_of(function: Callable[..., object]) -> str:
    """The name that a function is known by in a file of decisions."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def inputs_at(
    names: Sequence[str], pattern: SizePattern, specs: Sequence[Spec]
) -> tuple[DecidedInput, ...]:
    """The arguments of a function, at sizes that are numbers or names."""
    return tuple(
        DecidedInput(name, str(spec.dtype), tuple(shape), spec.weak)
        for name, shape, spec in zip(names, pattern.shapes, specs, strict=True)
    )


def decisions_in(
    families: "Iterable[SizeFamily[ManySizes, OneSize]]",
) -> SavedDecisions:
    """The decisions of the programs for many sizes of a function."""
    return SavedDecisions().merged(*map(_of_family, families))


def _of_family(family: "SizeFamily[ManySizes, OneSize]") -> SavedDecisions:
    name, names = name_of(family.function), family.names()
    decided: list[DecidedProgram] = []
    for program in family.programs:
        inputs = inputs_at(names, program.pattern, family.specs)
        (decisions,) = program.compiled.decisions.programs
        facts = tuple(program.facts)
        known = replace(decisions, inputs=inputs, function=name, predicates=facts)
        decided.append(known)
    return SavedDecisions(tuple(decided))


def known_pattern(
    decisions: SavedDecisions | None,
    names: Sequence[str],
    specs: Sequence[Spec],
    sizes: ShapesOfCall,
) -> tuple[SizePattern | None, Mapping[str, Policy]]:
    """The pattern of calls like one of these sizes, and its policies, as is decided."""
    latest: tuple[SizePattern | None, Mapping[str, Policy]] = None, {}
    for program in () if decisions is None else decisions.programs:
        pattern = SizePattern(tuple(one.shape for one in program.inputs))
        if [*map(len, pattern.shapes)] != [*map(len, sizes)]:
            continue  # of other arguments
        alike = inputs_at(names, pattern, specs) == program.inputs
        if alike and pattern.has(sizes):
            latest = pattern, program.policies  # the last is the most general
    return latest
