"""Exchange decisions about sizes in `graphc.jit` with other processes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.tracing import Spec
from graphc.ir.sizes.polynomials import Symbol
from graphc.runtime.driver.devices import target_of
from graphc.runtime.variants.decisions import (
    DecidedInput,
    DecidedProgram,
    SavedDecisions,
)
from graphc.runtime.variants.seen_sizes import MANY, SeenSizes
from graphc.transform.policies import Pad, Policy

if TYPE_CHECKING:
    from graphc.importers.jax.sizes.family import SizeFamily
    from graphc.importers.jax.sizes.programs import ManySizes, OneSize


def name_of(function: Callable[..., object]) -> str:
    """The name of a function in a file of decisions."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def inputs_at(
    names: Sequence[str], pattern: SizePattern, specs: Sequence[Spec]
) -> tuple[DecidedInput, ...]:
    """Describe the arguments of a function, at sizes that are numbers or names."""
    return tuple(
        DecidedInput(name, str(spec.dtype), tuple(shape), spec.weak)
        for name, shape, spec in zip(names, pattern.shapes, specs, strict=True)
    )


def decisions_in(
    families: "Iterable[SizeFamily[ManySizes, OneSize]]",
) -> SavedDecisions:
    """The decisions of a function's programs for many sizes."""
    return SavedDecisions().merged(*map(_decisions_of_family, families))


def _decisions_of_family(family: "SizeFamily[ManySizes, OneSize]") -> SavedDecisions:
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
    """The pattern and policies that were decided for calls of these sizes.

    The pattern is None if no decided program has such arguments.
    """
    latest: tuple[SizePattern | None, Mapping[str, Policy]] = None, {}
    for program in () if decisions is None else decisions.programs:
        pattern = SizePattern(tuple(one.shape for one in program.inputs))
        if [*map(len, pattern.shapes)] != [*map(len, sizes)]:
            continue  # has other arguments
        alike = inputs_at(names, pattern, specs) == program.inputs
        if alike and pattern.has(sizes):
            latest = pattern, program.policies  # the last is the most general
    return latest


def schedules_for(
    pattern: SizePattern, calls: Iterable[ShapesOfCall], options: Options
) -> dict[str, Policy]:
    """Choose capacities for the sizes that vary, by the sizes of earlier calls.

    Axes that vary together share one schedule. If several vary independently, there is
    none. Returns {} after a single call.
    """
    symbols = {name: Symbol(name) for name in pattern.names}
    seen = SeenSizes(list(symbols.values()))
    for sizes in (pattern.sizes(call) for call in calls if pattern.has(call)):
        by_symbol = seen.by_symbol(sizes)
        seen.note_call(by_symbol)
        for symbol, n in by_symbol.items():
            seen.note(symbol, n, 0.0)
    if len(seen.calls) < MANY:
        return {}
    if len(symbols) == 1:
        first = seen.first_capacity
        return {name: Pad(minimum=first(s)) for name, s in symbols.items()}
    longest = max(max(sizes) for sizes in seen.sizes.values())
    is_long = longest > target_of(None, options.backend).costs.cheap
    tied = {} if is_long else seen.tied_policies(list(symbols.values()))
    return {symbol.name: policy for symbol, policy in tied.items()}
