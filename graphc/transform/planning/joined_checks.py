"""The checks of a segment, reported as one array, which the host reads once.

Each result of a jitted function costs its call some time, and reading one costs as much
again. So the conditions that are checked right after a segment become one array: first
whether any fails, then the conditions one after another.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from graphc.control.switch import reports_misfits
from graphc.ir.graph.nodes import Value
from graphc.ops.common.conditions import is_reporting
from graphc.transform.planning.plan import Check, Plan, Segment, values_read_by


class JoinedChecks(NamedTuple):
    """Checks that a segment reports as one array.

    The conditions in `reported` are needed nowhere else.
    """

    checks: tuple[Check, ...] = ()
    reported: frozenset[Value] = frozenset()

    def places(self) -> Iterator[tuple[Check, int]]:
        """Yield each check with the place in the array where its condition begins."""
        place = 1
        for check in self.checks:
            yield check, place
            (count,) = check.condition.type.shape or (1,)
            assert isinstance(count, int)
            place += count


def joined_checks(plan: Plan) -> dict[int, JoinedChecks]:
    """The checks that segments report as one array, by the number of the segment.

    Only segments with two or more checks report them so.
    """
    if plan.mesh is not None:
        return {}
    joined: dict[int, JoinedChecks] = {}
    last_read = _last_reads(plan)
    for place, step in enumerate(plan.steps):
        if type(step) is not Segment or reports_misfits(step.nodes):
            continue
        checks = _checks_after(plan, place, step)
        if len(checks) > 1 and _have_one_dtype(checks):
            conditions = {plan.resolve(c.condition) for c in checks}
            end = place + len(checks)
            reported = frozenset(v for v in conditions if last_read[v] <= end)
            joined[step.index] = JoinedChecks(checks, reported)
    return joined


def _last_reads(plan: Plan) -> dict[Value, int]:
    """The place of the last step that reads each value; results are read after all."""
    places: dict[Value, int] = {}
    for place, step in enumerate(plan.steps):
        places |= dict.fromkeys(map(plan.resolve, values_read_by(step)), place)
    return places | dict.fromkeys(
        map(plan.resolve, plan.graph.outputs), len(plan.steps)
    )


def _checks_after(plan: Plan, place: int, segment: Segment) -> tuple[Check, ...]:
    """The checks right after the segment at `place`, of conditions that it computes."""
    computed, checks = set(segment.outputs), list[Check]()
    while (place := place + 1) < len(plan.steps):
        step = plan.steps[place]
        if not isinstance(step, Check) or plan.resolve(step.condition) not in computed:
            break
        checks.append(step)
    return tuple(checks)


def _have_one_dtype(checks: Iterable[Check]) -> bool:
    """Whether all numbers in conditions have one dtype, to which bools are cast."""
    types = [check.condition.type for check in checks]
    return len({t.dtype for t in types if is_reporting(t)}) <= 1
