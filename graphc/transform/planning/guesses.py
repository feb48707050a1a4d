"""Guessed capacities: no segment has to end where a capacity is read from the device.

A size that the first of two segments computes, and at whose capacity arrays of the
second are stored, costs a read in between, and a compilation of both for each capacity
of the axes. Where both depend on the same axes they become one segment, which is told a
capacity that was enough before. The size is read after it, and where the capacity is
too small the segment runs again: a guess changes no result, only how often the segment
runs.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.control.fitting_branches import is_numbered
from graphc.control.scan import SCAN
from graphc.control.switch import reports_misfits
from graphc.errors import standing_at
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Symbol, symbol_dim
from graphc.ir.sizes.names import shown_name
from graphc.ops.effects.capacities import BUCKET, Capacities
from graphc.ops.effects.host_calls import CALLS
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    JoinedPieces,
    LoopInPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)

# The most rows guessed for a loop at first: a row may be large, and most stay unused.
MOST_ROWS = 256


@dataclass(frozen=True, repr=False)
class GuessingSegment(Segment):
    """A segment that runs at guessed capacities, which its own results then tell.

    The driver does the steps in `followed_by` after each run; they tell the capacities
    needed for `guesses`. `capacities` are the capacities that each guess can have. For
    shapes that have not come before, no guess is above `first_most`, unless that is 0.
    """

    guesses: tuple[Symbol, ...] = ()
    followed_by: tuple[PlanStep, ...] = ()
    capacities: tuple[Capacities, ...] = ()
    first_most: int = 0


def with_guesses(plan: Plan, loops: bool = True) -> Plan:
    """Guess capacities in a plan where that makes one segment of two.

    On a mesh, nothing is guessed. With `loops`, the rows of loops of unknown length may
    be guessed too.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "int32", ("n",))
    >>> f = graphc.function([x], gt.bincount(x), dims="pad")
    >>> len(f.plan.segments), f.plan.reads
    (1, 1)
    """
    steps = list(plan.steps)
    if plan.padded is None or plan.mesh is not None:
        return plan
    if any(isinstance(s, PythonLoop) for s in steps):
        return plan
    if loops:
        steps, aliases = with_whole_loops(plan, steps)
        originals = plan.originals | _originals_of_counts(plan, aliases)
        plan = replace(plan, aliases=aliases, originals=originals)
    place = 0
    while place < len(steps):
        end = _find_next_segment(steps, place)
        if end is not None:
            one = _join_segments(plan, steps, place, end)
            if one is not None:
                steps[place : end + 1] = [one, *one.followed_by]
        place += 1
    return replace(plan, steps=tuple(_number_segments(steps)))


def with_whole_loops(
    plan: Plan, steps: Sequence[PlanStep]
) -> tuple[list[PlanStep], dict[Value, Value]]:
    """Run loops of unknown length at guessed capacities; return the steps and aliases.

    Such a loop runs in pieces, whose rows are joined where their number is read.
    """
    new: list[PlanStep] = []
    joins_by_rows: dict[Value, list[JoinedPieces]] = {}
    for step in steps:
        if isinstance(step, JoinedPieces):
            joins_by_rows.setdefault(step.node.inputs[0], []).append(step)
    replaced, joined = dict[Value, Value](), set[int]()
    for place, step in enumerate(steps):
        if id(step) in joined:
            continue
        if isinstance(step, LoopInPieces) and _may_run_again(step):
            reading = _find_row_steps(plan, steps, place, joins_by_rows)
            if reading is not None:
                step, stands_for = _whole_loop(step, *reading)
                joined |= set(map(id, reading[1]))
                replaced |= stands_for
        new.append(step)
    aliases = {k: replaced.get(v, v) for k, v in plan.aliases.items()} | replaced
    return [_with_inputs(s, aliases) for s in new] if joined else new, aliases


def _originals_of_counts(
    plan: Plan, aliases: Mapping[Value, Value]
) -> dict[Symbol, Symbol]:
    """The original sizes of the new loops' step counts, as for the loops before."""
    new_aliases = [(k, v) for k, v in aliases.items() if k not in plan.aliases]
    pairs = [(old._symbol, new._symbol) for old, new in new_aliases]
    symbols = [(old, new) for old, new in pairs if old and new and old is not new]
    return {new: plan.originals.get(old, old) for old, new in symbols}


def _with_inputs(step: PlanStep, aliases: Mapping[Value, Value]) -> PlanStep:
    """Make a step take the values that stand for its inputs."""
    if not isinstance(step, Segment) or aliases.keys().isdisjoint(step.inputs):
        return step
    inputs = dict.fromkeys(aliases.get(v, v) for v in step.inputs)
    return replace(step, inputs=tuple(inputs))


def _find_row_steps(
    plan: Plan,
    steps: Sequence[PlanStep],
    place: int,
    joins_by_rows: Mapping[Value, Sequence[JoinedPieces]],
) -> tuple[list[PlanStep], list[JoinedPieces]] | None:
    """The steps that read a loop's number of steps, and the steps that join its rows.

    None unless all of its rows are stored at one capacity for that number.
    """
    loop = steps[place]
    assert isinstance(loop, LoopInPieces)
    count, *stacked = loop.loop.outputs[loop.loop.params["carries"] :]
    joins = [s for rows in stacked for s in joins_by_rows.get(rows, ())]
    following = [*steps[place + 1 : place + 3]]
    if len(following) < 2 or not joins:
        return None
    bucket, read = following
    if not isinstance(bucket, HostNode) or not isinstance(read, Read):
        return None
    if not _tells_capacity(bucket) or read.value is not bucket.node.outputs[0]:
        return None
    capacity = symbol_dim(read.value.symbol)
    at_capacity = all(s.node.params["length"] is capacity for s in joins)
    counts = plan.resolve(bucket.node.inputs[0]) is count
    return (following, joins) if counts and at_capacity else None


def _whole_loop(
    step: LoopInPieces, followed_by: Sequence[PlanStep], joins: Sequence[JoinedPieces]
) -> tuple[GuessingSegment, dict[Value, Value]]:
    """Build a loop with rows at a guessed capacity; map the old values to its own.

    The loop goes on when its rows are full, to tell how many steps there are.
    """
    node, (_, read) = step.loop, followed_by
    assert isinstance(read, Read)
    room = read.value.symbol
    with standing_at(node.place.plain):
        most = as_value(np.int32(np.iinfo(np.int32).max))
        inputs = *node.inputs[:-1], most, node.inputs[-1]
        params = {**node.params, "length": symbol_dim(room), "counted": True}
        ends: tuple[Value, ...] = SCAN(*inputs, **params)
    count = node.outputs[node.params["carries"]]
    steps = ends[node.params["carries"]]
    steps._symbol = Symbol(count.symbol.name, steps, 0)
    stacked = dict(zip(node.outputs, ends, strict=True))
    replaced = {s.node.outputs[0]: stacked[s.node.inputs[0]] for s in joins}
    name = shown_name(room)
    whole = GuessingSegment(
        step.index,
        (*step.nodes[:-1], most.node, ends[0].node),
        step.inputs,
        (*step.statics[:-1], room),
        ends,
        (*[s for s in step.keys if s is not step.rows], room),
        f"it is compiled once for each capacity of its rows; {name} is guessed: it "
        "runs again if that is too small",
        derived=step.derived,
        guesses=(room,),
        followed_by=tuple(followed_by),
        capacities=(read.value.node.params["capacities"],),
        first_most=MOST_ROWS,
    )
    return whole, stacked | replaced


def driven_steps(plan: Plan) -> list[PlanStep]:
    """The steps that the driver does itself, without the steps that follow guesses."""
    guessing = [s for s in plan.steps if isinstance(s, GuessingSegment)]
    followed_by = {id(step) for segment in guessing for step in segment.followed_by}
    return [step for step in plan.steps if id(step) not in followed_by]


def _find_next_segment(steps: Sequence[PlanStep], first: int) -> int | None:
    """The place of the next segment, if only capacities are read in between.

    Checks may stand in between too: they can wait, as a result can be left unused.
    """
    if not (_is_plain(steps[first]) or type(steps[first]) is GuessingSegment):
        return None
    for place in range(first + 1, len(steps)):
        step = steps[place]
        if not _tells_capacity(step) and not isinstance(step, Check):
            return place if _is_plain(step) else None
    return None


def _tells_capacity(step: PlanStep) -> bool:
    """Whether a step chooses a capacity, or reads one."""
    if isinstance(step, HostNode):
        return step.node.primitive is BUCKET
    return isinstance(step, Read) and step.value.node.primitive is BUCKET


def _is_plain(step: PlanStep) -> bool:
    """Whether a step is a plain segment that may run again."""
    return type(step) is Segment and _may_run_again(step)


def _may_run_again(step: Segment) -> bool:
    """Whether a segment calls nothing on the host, and reports no faults."""
    calls = any(node.primitive in CALLS for node in with_inner_nodes(step.nodes))
    return not (calls or reports_misfits(step.nodes) or is_numbered(step.nodes))


def _join_segments(
    plan: Plan, steps: Sequence[PlanStep], first: int, second: int
) -> GuessingSegment | None:
    """Join two segments; None where the result would be compiled more often than both.

    It would be where the second does not depend on all that the first depends on.
    """
    before, after = steps[first], steps[second]
    assert isinstance(before, Segment) and isinstance(after, Segment)
    followed_by = tuple(steps[first + 1 : second])
    buckets = [s.node for s in followed_by if isinstance(s, HostNode)]
    values_between = [plan.resolve(n.inputs[0]) for n in buckets]
    values_between += [
        plan.resolve(s.condition) for s in followed_by if isinstance(s, Check)
    ]
    reads = [s.value for s in followed_by if isinstance(s, Read)]
    guesses = tuple([v.symbol for v in reads])
    known = {*before.keys, *guesses}
    same_keys = set(after.keys) == known or _is_arithmetic(after, known)
    are_static = set(guesses) <= {*before.statics, *after.statics}
    if not guesses or not same_keys or not are_static or len(guesses) != len(buckets):
        return None
    if not set(values_between) <= {*before.outputs}:
        return None
    inside = {*before.nodes, *after.nodes}
    requested_values = {*values_between, *plan.needed_by(steps[second + 1 :])}
    inputs = [v for v in after.inputs if v.node not in inside]
    names = ", ".join(sorted(map(shown_name, guesses)))
    reason = f"{after.reason}; {names} is guessed: it runs again if that is too small"
    return GuessingSegment(
        before.index,
        tuple(dict.fromkeys([*before.nodes, *after.nodes])),
        tuple(dict.fromkeys([*before.inputs, *inputs])),
        tuple(dict.fromkeys([*before.statics, *after.statics])),
        (*[v for v in before.outputs if v in requested_values], *after.outputs),
        tuple(dict.fromkeys([*before.keys, *after.keys])),
        reason,
        derived=tuple(dict.fromkeys([*before.derived, *after.derived])),
        guesses=guesses,
        followed_by=followed_by,
        capacities=tuple([v.node.params["capacities"] for v in reads]),
        first_most=before.first_most if isinstance(before, GuessingSegment) else 0,
    )


def _is_arithmetic(segment: Segment, known: Container[Symbol]) -> bool:
    """Whether a segment computes only numbers, which takes no time to compile."""
    values = (v for node in segment.nodes for v in (*node.inputs, *node.outputs))
    are_numbers = all(v.type.rank == 0 for v in values)
    return are_numbers and all(s in known for s in segment.keys)


def _number_segments(steps: Iterable[PlanStep]) -> Iterable[PlanStep]:
    """Number the segments among the steps in their order."""
    index = 0
    for step in steps:
        if not isinstance(step, Segment):
            yield step
            continue
        yield step if step.index == index else replace(step, index=index)
        index += 1
