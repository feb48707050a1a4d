"""Capacities that are guessed: no segment ends where one is read from the device.

A size that the first of two segments computes, and at whose capacity arrays of the
second are stored, costs a read in between, and a compilation of both for each capacity
of the axes. Where both depend on the same axes they become one, which is told a
capacity that was enough before. The size is read behind it, and where there is no room
for it the segment runs again: a guess changes no result, but how often it is run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphc.control.fitting_branches import is_numbered
from graphc.control.switch import reports_misfits
from graphc.ir.graph.bodies import within_sized
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import shown_name
from graphc.ops.effects.capacities import BUCKET, Capacities
from graphc.ops.effects.host_calls import CALLS
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)


@dataclass(frozen=True, repr=False)
class GuessingSegment(Segment):
    """A segment for capacities that its own results tell: `guesses`, by `followed_by`.

    The driver does the steps that it is `followed_by` each time it is run.
    `capacities` are those that there are of each guess.
    """

    guesses: tuple[Symbol, ...] = ()
    followed_by: tuple[PlanStep, ...] = ()
    capacities: tuple[Capacities, ...] = ()


def guessed(plan: Plan) -> Plan:
    """The plan with capacities guessed where that makes one segment of two.

    On a mesh, nothing is guessed.

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
    place = 0
    while place < len(steps):
        end = _second(steps, place)
        if end is not None:
            one = _together(plan, steps, place, end)
            if one is not None:
                steps[place : end + 1] = [one, *one.followed_by]
        place += 1
    return replace(plan, steps=tuple(_numbered(steps)))


def driven_steps(plan: Plan) -> list[PlanStep]:
    """The steps that the driver does, without those that belong to guesses."""
    guessing = [s for s in plan.steps if isinstance(s, GuessingSegment)]
    followed_by = {id(step) for segment in guessing for step in segment.followed_by}
    return [step for step in plan.steps if id(step) not in followed_by]


def _second(steps: Sequence[PlanStep], first: int) -> int | None:
    """The place of the next segment, if capacities alone are read in between.

    There may be checks too, which a result that is left unused can wait for.
    """
    if not _is_plain(steps[first]):
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
    """Whether a step is a segment that may be run again, and reports no faults."""
    if type(step) is not Segment:
        return False
    nodes = [*step.nodes, *(node for node, _ in within_sized(step.nodes))]
    calls = any(node.primitive in CALLS for node in nodes)
    return not (calls or reports_misfits(step.nodes) or is_numbered(step.nodes))


def _together(
    plan: Plan, steps: Sequence[PlanStep], first: int, second: int
) -> GuessingSegment | None:
    """Both segments as one; None where it would be compiled more often than they are.

    It is, where the second does not depend on all that the first depends on.
    """
    before, after = steps[first], steps[second]
    assert isinstance(before, Segment) and isinstance(after, Segment)
    followed_by = tuple(steps[first + 1 : second])
    buckets = [s.node for s in followed_by if isinstance(s, HostNode)]
    needed = [plan.resolve(n.inputs[0]) for n in buckets]
    needed += [plan.resolve(s.condition) for s in followed_by if isinstance(s, Check)]
    reads = [s.value for s in followed_by if isinstance(s, Read)]
    guesses = tuple([v.symbol for v in reads])
    known = {*before.keys, *guesses}
    same = set(after.keys) == known and set(guesses) <= set(after.statics)
    if not guesses or not same or len(guesses) != len(buckets):
        return None
    if not set(needed) <= {*before.outputs}:
        return None
    inside = {*before.nodes, *after.nodes}
    asked = {*needed, *_asked_later(plan, steps[second + 1 :])}
    inputs = [v for v in after.inputs if v.node not in inside]
    names = ", ".join(sorted(map(shown_name, guesses)))
    reason = f"{after.reason}; {names} is guessed: it runs again if that is too small"
    return GuessingSegment(
        before.index,
        tuple(dict.fromkeys([*before.nodes, *after.nodes])),
        tuple(dict.fromkeys([*before.inputs, *inputs])),
        tuple(dict.fromkeys([*before.statics, *after.statics])),
        (*[v for v in before.outputs if v in asked], *after.outputs),
        after.keys,
        reason,
        derived=tuple(dict.fromkeys([*before.derived, *after.derived])),
        guesses=guesses,
        followed_by=followed_by,
        capacities=tuple([v.node.params["capacities"] for v in reads]),
    )


def _asked_later(plan: Plan, steps: Iterable[PlanStep]) -> Iterable[Value]:
    """The values that later steps and the results need."""
    yield from map(plan.resolve, plan.graph.outputs)
    for step in steps:
        if isinstance(step, Segment):
            yield from step.inputs
        elif isinstance(step, Read):
            yield plan.resolve(step.value)
        elif isinstance(step, HostNode):
            yield from map(plan.resolve, step.node.inputs)
        elif isinstance(step, Check):
            yield plan.resolve(step.condition)


def _numbered(steps: Iterable[PlanStep]) -> Iterable[PlanStep]:
    """The steps, with segments numbered in their order."""
    index = 0
    for step in steps:
        if not isinstance(step, Segment):
            yield step
            continue
        yield step if step.index == index else replace(step, index=index)
        index += 1
