"""Arguments that a call gives away: which segment may overwrite them with results."""

from graphc.ir.graph.nodes import Value
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.plan import Plan, Segment


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
    return donated - plan.needed_by(plan.steps[places[0] + 1 :])
