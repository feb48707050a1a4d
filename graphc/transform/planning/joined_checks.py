"""The checks of a segment, reported as one array, which the host reads once.

Each result of a jitted function costs its call some time, and reading one costs as much
again. So the conditions that are checked right behind a segment are one array: first
whether any fails, then the conditions one after the other.
"""

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from graphc.control.switch import reports_misfits
from graphc.ir.graph.nodes import Value
from graphc.ops.common.conditions import tells
from graphc.transform.planning.donated import read_by
from graphc.transform.planning.plan import Check, Plan, PlanStep, Segment


class JoinedChecks(NamedTuple):
    """Checks that a segment reports as one array; `reported` there and nowhere else."""

    checks: tuple[Check, ...] = ()
    reported: frozenset[Value] = frozenset()

    def places(self) -> Iterator[tuple[Check, int]]:
        """The checks, and where in the array the condition of each begins."""
        place = 1
        for check in self.checks:
            yield check, place
            (count,) = check.condition.type.shape or (1,)
            assert isinstance(count, int)
            place += count


def joined_checks(plan: Plan) -> dict[int, JoinedChecks]:
    """The checks that segments report as one array, by the number of the segment.

    There are two or more of each.
    """
    if plan.mesh is not None:
        return {}
    joined: dict[int, JoinedChecks] = {}
    for place, step in enumerate(plan.steps):
        if type(step) is not Segment or reports_misfits(step.nodes):
            continue
        computed = set(step.outputs)
        behind = plan.steps[place + 1 :]
        checks = _first_checks(plan, behind, computed)
        if len(checks) > 1 and _have_one_dtype(checks):
            read = {v for s in behind[len(checks) :] for v in read_by(s)}
            read.update(plan.graph.outputs)
            conditions = {plan.resolve(c.condition) for c in checks}
            reported = frozenset(conditions - set(map(plan.resolve, read)))
            joined[step.index] = JoinedChecks(checks, reported)
    return joined


def _first_checks(
    plan: Plan, steps: Iterable[PlanStep], computed: Set[Value]
) -> tuple[Check, ...]:
    """The checks of computed values that the steps begin with."""
    checks = []
    for step in steps:
        if not isinstance(step, Check) or plan.resolve(step.condition) not in computed:
            break
        checks.append(step)
    return tuple(checks)


def _have_one_dtype(checks: Iterable[Check]) -> bool:
    """Whether all numbers have one dtype, to which bools are cast."""
    types = [check.condition.type for check in checks]
    return len({t.dtype for t in types if tells(t)}) <= 1
