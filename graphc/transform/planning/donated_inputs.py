"""Arguments that a call gives away: which segment may overwrite them with results."""

from collections.abc import Iterable

from graphc.ir.graph.nodes import Value
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)


def inputs_to_overwrite(plan: Plan, segment: Segment) -> set[Value]:
    """The donated inputs that nothing reads after a segment, and that are not results.

    A segment that may run again on the same inputs takes none.
    """
    if isinstance(segment, GuessingSegment) or segment.rows is not None:
        return set()
    donated = {plan.graph.inputs[i] for i in plan.donated}
    places = [i for i, step in enumerate(plan.steps) if step is segment]
    if not donated or not places:
        return set()
    read_later = {
        v for step in plan.steps[places[0] + 1 :] for v in values_read_by(step)
    }
    read_later.update(plan.graph.outputs)
    return donated - set(map(plan.resolve, read_later))


def values_read_by(step: PlanStep) -> Iterable[Value]:
    """The values that a step reads but does not compute."""
    match step:
        case Segment():
            return step.inputs
        case Read():
            return [step.value]
        case Check():
            return [step.condition]
        case HostNode() | PythonLoop():
            return step.node.inputs
