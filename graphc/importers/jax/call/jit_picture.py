"""Draw a function of `graphc.jit`: its programs, and what chooses between them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from graphc.errors import GraphError
from graphc.importers.jax.call.report import explanation_of
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import SizeFamily
from graphc.importers.jax.sizes.pattern import ShapesOfCall
from graphc.importers.jax.sizes.programs import ManySizes, OneSize
from graphc.importers.jax.trace.decisions import Decisions
from graphc.runtime.function_picture import IN_USE
from graphc.show.collect import Predicate, ShownProgram
from graphc.show.picture import Picture

MOST_ALONE = 8  # programs for single sizes that are drawn: the most recent
Families = Sequence[SizeFamily[Any, Any]]


def picture_of(
    function: Callable[..., object], families: Families, calls: int
) -> Picture:
    """Draw a function: first the programs for single sizes, then those for many."""
    name = getattr(function, "__name__", "the function")
    notes: list[str] = []
    programs = [p for family in families for p in _of_family(family, notes)]
    if not programs:
        notes.append("nothing is compiled yet: call it first")
    about = explanation_of(function, families, False)
    return Picture(f"jit of {name}", programs, calls, about, notes)


def _of_family(
    family: SizeFamily[ManySizes, OneSize], notes: list[str]
) -> Iterator[ShownProgram]:
    alone = [*family.compiled.items()]
    if alone[MOST_ALONE:]:
        left = len(alone) - MOST_ALONE
        notes.append(f"{left} more programs for single sizes are compiled")
    if family.exact_because:
        notes.append(f"compiled once for each size: {family.exact_because}")
    for sizes, one in alone[-MOST_ALONE:]:
        yield from _programs_of_one_size(family, sizes, one, notes)
    for program in family.programs:
        yield from _for_many(program, family.with_names(program.pattern.shapes))


def _programs_of_one_size(
    family: SizeFamily[Any, Any], sizes: ShapesOfCall, one: object, notes: list[str]
) -> Iterator[ShownProgram]:
    text = f"exactly {family.with_names(sizes)}"
    try:
        function, why = family.function_to_draw(one)
    except (Unsupported, GraphError) as error:
        first = str(error).splitlines()[0]
        notes.append(f"compiled {text}, for which there is no graph: {first}")
        return
    facts = [f"where {fact}" for fact in family.pinned.get(sizes, ())]
    for program in function.shown_programs():
        about = [*facts, *([why] if why else [])]
        earlier = ", earlier" * (program.serves != IN_USE)
        yield replace(
            program,
            name=text + earlier,
            serves=f"for {text}{earlier}",
            calls=None,
            notes=about,
        )


def _for_many(program: ManySizes, shapes: str) -> Iterator[ShownProgram]:
    """The programs for many sizes, labelled by the shapes of their arguments."""
    facts = list(_predicates(program.decisions))
    notes = [f"run by JAX in it: {reason}" for reason in program.foreign]
    where = f" where {', '.join(f.text for f in facts)}" if facts else ""
    for one in program.compiled.shown_programs():
        earlier = ", earlier" * (one.serves != IN_USE)
        yield replace(
            one,
            name=f"{shapes}{where}{earlier}",
            serves=f"for all sizes of {shapes}{where}, {one.serves}",
            predicates=facts,
            notes=[*one.notes, *notes],
        )


def _predicates(decisions: Decisions) -> Iterable[Predicate]:
    texts = decisions.described(decisions.taken)
    for one, text in zip(dict.fromkeys(decisions.taken), texts, strict=True):
        yield Predicate(text, one.left, one.relation, one.right, one.answer)
