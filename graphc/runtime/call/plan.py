"""Call plans: the work that remains in a padded call once its signature is known.

At each call, the driver of a padded program works out what depends on nothing but the
shapes of the arguments: capacities, true sizes, the parts of results that count. A call
plan holds all of this as numbers, so that calls of one signature run a few straight
lines: copy into zeroed buffers, run the jitted function, cut its results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.graph.nodes import Guard
from graphc.ir.sizes.dims import Dim, Size, Symbol, evaluate
from graphc.ir.sizes.lines import line_of
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.padding.storage import is_of_integers
from graphc.transform.planning.plan import Plan
from graphc.transform.tied_sizes import KnownRooms, chosen_capacities

KnownShape = tuple[int, ...]


@dataclass(frozen=True)
class CallPlan:
    """A padded call in numbers.

    `buffers` are the shapes that arguments are stored at, None for those that are
    handed over as they are; `integers` are the true sizes that the driver takes.
    `stored` are the shapes of the results before they are cut, and `cuts` their true
    shapes, None where nothing is cut.
    """

    buffers: tuple[KnownShape | None, ...]
    integers: tuple[int, ...]
    stored: tuple[KnownShape, ...]
    cuts: tuple[KnownShape | None, ...]


def call_plan(
    plan: Plan, shapes: Sequence[KnownShape], known: KnownRooms | None
) -> CallPlan | None:
    """Return the plan of calls whose arguments have these shapes.

    Capacities are taken from those `known` to the program, where it chooses among them.
    The plan is None where a guard fails, and where more than shapes decides what the
    driver does: integers of arguments, or counts of what the data select.
    """
    padded = plan.padded
    if padded is None or not _depends_on_shapes_alone(padded):
        return None
    sizes = _axis_sizes(padded, shapes)
    if not all(_holds(guard, sizes) for guard, _ in padded.branch_guards):
        return None
    if not all(_holds(guard, sizes) for guard, _ in padded.guards):
        return None  # the driver raises, and says why
    sizes |= chosen_capacities(padded.rounded, sizes, known)
    arguments = zip(padded.original.inputs, plan.graph.inputs, strict=False)
    results = zip(padded.original.outputs, plan.graph.outputs, strict=False)
    stored = tuple(_numeric_shape(new.type.shape, sizes) for _, new in results)
    true = (_numeric_shape(v.type.shape, sizes) for v in padded.original.outputs)
    triples = zip(true, stored, padded.ragged, strict=True)
    return CallPlan(
        tuple(
            None if old is new else _numeric_shape(new.type.shape, sizes)
            for old, new in arguments
        ),
        tuple(sizes[s] for s in padded.lengths),
        stored,
        tuple(t if axes and t != s else None for t, s, axes in triples),
    )


def _holds(guard: Guard, sizes: Mapping[Symbol, int]) -> bool:
    left, right = (
        evaluate(n, sizes) if isinstance(n, Dim) else n for n in guard.sides
    )
    return left == right if guard.relation == "==" else left <= right


def _depends_on_shapes_alone(padded: PaddedGraph) -> bool:
    """Whether the shapes of the arguments tell all sizes of a call."""
    symbols = [*padded.capacities, *padded.lengths]
    return (
        not padded.counts
        and not padded.inner
        and not padded.guards_by(integers=True)
        and not any(is_of_integers(guard) for guard, _ in padded.branch_guards)
        and all(s.origin is None for s in symbols)
    )


def _axis_sizes(padded: PaddedGraph, shapes: Sequence[KnownShape]) -> dict[Symbol, int]:
    """Return the sizes of a call, by the symbols of axes."""
    sizes: dict[Symbol, int] = {}
    for value, shape in zip(padded.original.inputs, shapes, strict=True):
        for size, n in zip(value.type.shape, shape, strict=True):
            if not isinstance(size, Dim):
                continue
            line = line_of(size, size.symbols[0])
            if line is not None:
                slope, offset = line
                sizes.setdefault(size.symbols[0], (n - offset) // slope)
    return sizes


def _numeric_shape(shape: Sequence[Size], sizes: Mapping[Symbol, int]) -> KnownShape:
    return tuple(evaluate(n, sizes) for n in shape)
