"""A budget of compilations: capacities for all sizes of a program together.

Each segment is compiled once per combination of the capacities that it depends on. The
planner pads all sizes that vary, reads off which segment depends on which of them, and
chooses how many capacities each has, so that all combinations together stay within the
budget and the least work is done on padding.
"""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from graphc.control.print_loops import room_for
from graphc.errors import GraphError, SourceLocation, graph_error, in_number, shortened
from graphc.ir.graph.bodies import sized_inner_nodes
from graphc.ir.graph.build import INPUT, as_size
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.integers import integer_or_none
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    evaluate,
    substitute,
    symbol_dim,
    symbols_in,
)
from graphc.ir.sizes.names import CAPACITY, shown_name
from graphc.ir.tracebacks import with_errors_at_caller
from graphc.ops.effects.capacities import BUCKET
from graphc.transform.padding.padded_graph import Cut, PaddedGraph
from graphc.transform.planning.plan import Plan, Read, Segment, first_node_with_size
from graphc.transform.policies import (
    Bound,
    Pad,
    Policy,
    is_auto,
    learned,
    policy_of,
    require_sizes,
    symbols_of,
)

SAMPLES = 64  # sizes that stand for all between the smallest and the largest
SPREAD = 12  # samples of each size, where a size is computed from several
GROWTHS = 2.0, 4.0, 16.0, 256.0  # growths of the capacities of a computed size
MOST_TRIED = 4096  # choices of the numbers of capacities
Counts = tuple[int, ...]  # numbers of capacities, one per size


@with_errors_at_caller
@dataclass(frozen=True)
class Budget:
    """A limit on the number of compilations, whatever the sizes are.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x), dims=graphc.Budget(compilations=3))
    >>> f.plan.forecast({"n": range(1, 1000)}).compilations <= 3
    True

    The capacities are chosen for sizes from `smallest` to `largest`, or for the sizes
    that `sizes` lists by name, each as often as it is expected. Other sizes are no
    error, but may go over the budget, which one RecompilationWarning reports. A size
    that never changes is best listed alone: `sizes={"features": [4]}` has one capacity,
    and leaves all compilations to the other sizes. Compiling raises GraphError where
    the budget cannot be met.
    """

    compilations: int = 8
    smallest: int = 16
    largest: int = 4096
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("compilations", "smallest", "largest"):
            number = integer_or_none(getattr(self, name))
            if number is None:
                got = f"{name}={getattr(self, name)!r}"
                raise graph_error(f"{name} must be an integer", op="Budget", got=got)
            object.__setattr__(self, name, number)
        listed = self.sizes.values() if isinstance(self.sizes, Mapping) else [None]
        if not all(isinstance(n, Sequence) and not isinstance(n, str) for n in listed):
            raise graph_error(
                "sizes must be lists, by the names of sizes",
                op="Budget",
                got=f"sizes={shortened(repr(self.sizes))}",
                hint='sizes={"n": [3, 4, 5]}; for one that never changes, [4]',
            )
        if self.compilations < 1 or not 1 <= self.smallest <= self.largest:
            raise graph_error(
                "a budget needs at least one compilation, and 1 <= smallest <= largest",
                op="Budget",
                got=shortened(repr(self)),
            )


def check_dims(declared: object, op: str) -> None:
    """Raise GraphError for `dims` that are invalid whatever the graph is."""
    if isinstance(declared, Mapping):
        for key, value in declared.items():
            if not is_auto(value):
                policy_of(value, op, key)
    elif not (declared is None or is_auto(declared) or isinstance(declared, Budget)):
        policy_of(declared, op)


@dataclass(frozen=True)
class Spending:
    """Policies that keep to a budget: at most `compilations` for the sizes planned.

    `waste` is the work done at capacities over that at true sizes, on average.
    `unlisted` are the names of sizes that may be anything within the budget's range.
    """

    policies: dict[Symbol, Policy]
    compilations: int
    waste: float
    largest: dict[Symbol, int]
    unlisted: tuple[str, ...] = ()

    def summary(self, budget: Budget) -> str:
        """The line about the budget in reports."""
        text = (
            f"budget of {budget.compilations} compilations: at most "
            f"{self.compilations} for the sizes planned, {self.waste:.2f} times the "
            "work of true sizes"
        )
        if len(self.unlisted) < 2:
            return text
        names = " or ".join(self.unlisted)
        one = f"sizes={{{self.unlisted[-1]!r}: [4]}}"
        return f"{text}; if {names} is always the same, as 4, list it: {one}"


PlanOf = Callable[[dict[Symbol, Policy]], Plan]


def spend_budget(
    graph: Graph, before: Graph, budget: Budget, plan_of: PlanOf
) -> Spending:
    """Choose policies for all sizes of a graph that keep to a budget.

    `plan_of` plans the graph with policies. Raises GraphError, with the size and the
    line, where no capacities keep to the budget, and for a name of a size that is
    neither in the program nor in the graph `before` it was rewritten.
    """
    trial = {s: _trial_policy(s) for s in symbols_of(graph)}
    plan = _with_capacities_of_steps(plan_of(trial), trial)
    of_rows = [shown_name(s.rows) for s in plan.segments if s.rows is not None]
    require_sizes([n for n in budget.sizes if n not in of_rows], graph, before)
    stored = {} if plan.padded is None else plan.padded.stored_as
    keys = [{stored.get(s, s) for s in segment.keys} for segment in plan.segments]
    computed = _computed_sizes(plan, trial, budget)
    row_counts = _row_capacity_counts(plan, budget)
    true_counts = _true_size_counts(plan, budget, {*stored, *computed}) | row_counts
    padded = [s for s, p in trial.items() if isinstance(p, Pad)]
    needed = [s for s in padded if any(s in key_sizes for key_sizes in keys)]
    expected = [_expected_sizes(s, budget) for s in needed]

    growth, *coarser = GROWTHS if computed else GROWTHS[:1]
    while True:
        of_computed = {s: one.capacity_count(growth) for s, one in computed.items()}
        fixed = true_counts | of_computed
        choices = [
            (math.prod(map(_waste_of, expected, counts)), counts)
            for counts in _affordable_counts(needed, keys, fixed, budget.compilations)
        ]
        waste, best = min(choices)
        total = _total_compilations(needed, keys, fixed, best)
        if total <= budget.compilations:
            break
        if not coarser:
            raise _over_budget_error(plan, budget, total, of_computed | row_counts)
        growth = coarser.pop(0)
    chosen: dict[Symbol, Policy] = {
        s: replace(_learned_policy(sizes, count), growth=growth)
        for s, sizes, count in zip(needed, expected, best, strict=True)
    }
    for s in dict.fromkeys(s for one in computed.values() for s in one.origins):
        chosen.setdefault(s, Pad(growth=growth))
    largest = {s: max(e) for s, e in zip(needed, expected, strict=True)}
    unlisted = [shown_name(s) for s in needed if _listed_sizes(s, budget) is None]
    return Spending(trial | chosen, total, waste, largest, tuple(unlisted))


def _trial_policy(symbol: Symbol) -> Policy:
    """The policy to try: a bounded count stays at its bound, other sizes are padded."""
    origin = symbol.origin
    counted = isinstance(origin, Value) and origin.node.primitive is not INPUT
    return Bound() if counted and symbol.upper is not None else Pad()


@dataclass(frozen=True)
class _ComputedSize:
    """A size that is computed from others, and has capacities of its own.

    `values` are its values at the expected sizes of `origins`, whose policies say how
    the capacities grow.
    """

    values: set[int]
    origins: tuple[Symbol, ...]

    def capacity_count(self, growth: float) -> int:
        """The number of capacities at this growth."""
        return len({Pad(growth=growth).capacity(n) for n in self.values})


def _computed_sizes(
    plan: Plan, policies: Mapping[Symbol, Policy], budget: Budget
) -> dict[Symbol, _ComputedSize]:
    """The sizes that segments depend on and that are computed from padded sizes."""
    computed: dict[Symbol, _ComputedSize] = {}
    if plan.padded is None:
        return computed
    for symbol in (s for segment in plan.segments for s in segment.keys):
        origin = symbol.origin
        if not isinstance(origin, Value) or origin.node.primitive is not BUCKET:
            continue
        size = as_size(origin.node.inputs[0])
        old = _originals_in(size, plan.padded)
        origins = tuple(dict.fromkeys(old.values()))
        if not old or not all(isinstance(policies.get(s), Pad) for s in origins):
            continue
        few = [sorted(set(_expected_sizes(s, budget))) for s in origins]
        few = [[sizes[i] for i in _sample_positions(len(sizes))] for sizes in few]
        calls = (dict(zip(origins, one, strict=True)) for one in product(*few))
        values = {evaluate(size, {s: c[o] for s, o in old.items()}) for c in calls}
        computed[symbol] = _ComputedSize(values, origins)
    return computed


def _originals_in(size: Size, padded: PaddedGraph) -> dict[Symbol, Symbol]:
    """Map the symbols of a computed size, some of them capacities, to original ones."""
    known = padded.stored_as | padded.originals
    return {s: known.get(s, s) for s in symbols_in(size)}


def _at_true_sizes(size: Size, padded: PaddedGraph | None) -> Size:
    """A computed size as users know it, without the capacities that it is tied to."""
    if padded is None or not isinstance(size, Dim):
        return size
    true = {old: symbol_dim(new) for new, old in padded.originals.items()}
    stored = {s: padded.stored_as.get(s) for s in size.symbols}
    return substitute(size, {s: true[o] for s, o in stored.items() if o in true})


def _sample_positions(count: int) -> list[int]:
    """Some positions out of `count`, including the first and the last."""
    step = max(1, -(-count // SPREAD))
    return sorted({*range(0, count, step), count - 1})


def _with_capacities_of_steps(plan: Plan, policies: Mapping[Symbol, Policy]) -> Plan:
    """Let a plan know the sizes of capacities in the steps of Python loops, too.

    A step has symbols of its own. The symbols that the loop gives it have their
    capacities outside; a size that the step computes is found by its name, as in
    reports.
    """
    if plan.padded is None:
        return plan
    stored, loops = dict(plan.padded.stored_as), plan.loops
    for _, sizes in sized_inner_nodes([loop.node for loop in loops]):
        for inner, outer in sizes.items():
            if isinstance(outer, Dim) and outer.is_symbol:
                (symbol,) = outer.symbols
                if symbol in stored:
                    stored[inner] = stored[symbol]
    named = {f"{s.name}{CAPACITY}": s for s in policies}
    for segment in (s for loop in loops for s in loop.body.segments):
        for symbol in segment.keys:
            if symbol not in stored and symbol.name in named:
                stored[symbol] = named[symbol.name]
    return replace(plan, padded=replace(plan.padded, stored_as=stored))


def _row_capacity_counts(plan: Plan, budget: Budget) -> dict[Symbol, int]:
    """The number of capacities that rows of each capacity-doubling loop will have."""
    counts: dict[Symbol, int] = {}
    for segment in plan.segments:
        if segment.rows is not None:
            most = max(_expected_sizes(segment.rows, budget))
            counts[segment.rows] = len(room_for(most))
    return counts


def _true_size_counts(
    plan: Plan, budget: Budget, known: Container[Symbol]
) -> dict[Symbol, int]:
    """The true sizes that segments are compiled for: how many of each there will be.

    Raises GraphError where the number is not known, since it may then be any.
    """
    padded, counts = plan.padded, dict[Symbol, int]()
    originals = {} if padded is None else padded.originals
    for segment in plan.segments:
        for symbol in segment.keys:
            if symbol not in known and symbol is not segment.rows:
                listed = _listed_sizes(originals.get(symbol, symbol), budget)
                if listed is None:
                    raise _true_size_error(plan, segment, symbol)
                counts[symbol] = len(set(listed))
    return counts


def _over_budget_error(
    plan: Plan, budget: Budget, least: int, computed: Mapping[Symbol, int]
) -> GraphError:
    """The error for a program that has too many segments, true or computed sizes."""
    reads = [step for step in plan.glue if isinstance(step, Read)]
    cuts = () if plan.padded is None else plan.padded.cuts
    why, hint, place = "", "", None
    loop = next((one for one in plan.segments if one.rows), None)
    if loop is not None:
        why, hint, place = _describe_growing_loop(loop, computed)
    elif reads:
        why, hint, place = f": {reads[0].reason}", reads[0].remedy, reads[0].place
    elif cuts:
        why = f": {cuts[0].node.reported} needs true sizes, as {cuts[0].reason}"
        place = cuts[0].place
    elif computed:
        symbol = max(computed, key=lambda s: computed[s])
        segment = next(one for one in plan.segments if symbol in one.keys)
        node, origin = first_node_with_size(segment, symbol), symbol.origin
        assert isinstance(origin, Value)
        size = _at_true_sizes(as_size(origin.node.inputs[0]), plan.padded)
        name = shown_name(symbols_in(size)[0])
        why = f": {node.reported} has the size {size}, at {computed[symbol]} capacities"
        hint = f"list the sizes that you expect: Budget(sizes={{{name!r}: [...]}})"
        place = node.place
    segments = in_number(len(plan.segments), "segment")
    return graph_error(
        f"a budget of {budget.compilations} compilations cannot be met: the program "
        f"takes at least {least}, in {segments}{why}",
        op="function",
        hint=hint,
        where=place,
    )


def _describe_growing_loop(
    loop: Segment, counts: Mapping[Symbol, int]
) -> tuple[str, str, SourceLocation]:
    """The reason, the hint and the place to report for a capacity-doubling loop."""
    node = loop.nodes[-1]
    assert loop.rows is not None
    hint = (
        "give a bound of its steps, max_steps= of gt.while_loop, or list how many "
        f"you expect: Budget(sizes={{{shown_name(loop.rows)!r}: [...]}})"
    )
    rows = f"there are {counts[loop.rows]} capacities of rows"
    return f": {node.reported} keeps a row of each step: {rows}", hint, node.place


def _true_size_error(plan: Plan, segment: Segment, symbol: Symbol) -> GraphError:
    """The error for a size that some op needs as it is."""
    cut = _find_cut(plan.padded, symbol)
    original = plan.padded.originals.get(symbol, symbol) if plan.padded else symbol
    if cut is None:
        node = first_node_with_size(segment, symbol)
        name, place, why = node.reported, node.place, "it has no capacity"
    else:
        name, place, why = cut.node.reported, cut.place, cut.reason
    return graph_error(
        f"a budget of compilations cannot be met: {name} needs the true size "
        f"{shown_name(original)}, and is compiled for each one: {why}",
        op="function",
        hint="leave that op to another function, or give dims= as a dict of policies",
        where=place,
    )


def _find_cut(padded: PaddedGraph | None, symbol: Symbol) -> Cut | None:
    """The first fallback at true size that involves a size, else the first of all."""
    if padded is None:
        return None
    old = padded.originals.get(symbol, symbol)
    for cut in padded.cuts:
        values = [*cut.node.inputs, *cut.node.outputs]
        if any(old in symbols_in(n) for v in values for n in v.type.shape):
            return cut
    return padded.cuts[0] if padded.cuts else None


def _expected_sizes(symbol: Symbol, budget: Budget) -> list[int]:
    """The sizes to plan for: the listed sizes, or samples from smallest to largest."""
    listed = _listed_sizes(symbol, budget)
    if listed:
        return listed
    low, high = budget.smallest, budget.largest
    step = (high / low) ** (1 / SAMPLES)
    return [round(low * step**i) for i in range(SAMPLES + 1)]


def _listed_sizes(symbol: Symbol, budget: Budget) -> list[int] | None:
    """The sizes that the budget lists for a symbol by name, or None."""
    listed = budget.sizes.get(shown_name(symbol), budget.sizes.get(symbol.name))
    return None if listed is None else [max(int(n), 1) for n in listed]


def _learned_policy(sizes: Sequence[int], count: int) -> Pad:
    """A policy with `count` capacities for `sizes`, and more for larger sizes."""
    return Pad(buckets=learned(sizes, count).buckets, open_ended=True)


def _waste_of(sizes: Sequence[int], count: int) -> float:
    pad = _learned_policy(sizes, count)
    return sum(pad.capacity(n) for n in sizes) / sum(sizes)


def _total_compilations(
    needed: Sequence[Symbol],
    keys: Sequence[set[Symbol]],
    fixed: Mapping[Symbol, int],
    counts: Counts,
) -> int:
    """The number of compilations that these numbers of capacities take."""
    count_of = {**fixed, **dict(zip(needed, counts, strict=True))}
    return sum(math.prod(count_of.get(s, 1) for s in key_sizes) for key_sizes in keys)


def _affordable_counts(
    needed: Sequence[Symbol],
    keys: Sequence[set[Symbol]],
    fixed: Mapping[Symbol, int],
    most: int,
) -> Iterator[Counts]:
    """Yield numbers of capacities that cost at most `most`, to which none can be added.

    The least numbers are yielded too, whatever they cost.
    """
    start = (1,) * len(needed)
    stack = [start]
    seen: set[Counts] = {start}
    while stack and len(seen) < MOST_TRIED:
        counts = stack.pop()
        next_counts = [
            (*counts[:i], counts[i] + 1, *counts[i + 1 :]) for i in range(len(counts))
        ]
        costs = [_total_compilations(needed, keys, fixed, c) for c in next_counts]
        pairs = zip(next_counts, costs, strict=True)
        fitting = [counts for counts, cost in pairs if cost <= most]
        if not fitting:
            yield counts
        stack += [c for c in fitting if c not in seen]
        seen.update(fitting)
    yield start
