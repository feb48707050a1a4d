"""Results that are slices of stacked arrays are cut from these after the segments.

A chain of blocks that was made a loop gives one array for each kind of result, of which
users ask for the part of each block. In a segment, XLA compiles a kernel for each of
these slices. Here one function of the place is compiled, which the driver calls.
"""

from collections.abc import Container, Iterable
from dataclasses import replace

from graphc.analysis.cost import DeviceCosts, least_slices, worth_taking_apart
from graphc.control.scan import SCAN
from graphc.ir.graph import Node, Value
from graphc.rewriting.loops.repeats import place_of
from graphc.rewriting.loops.work import typical, work_of
from graphc.transform.grouping import varying
from graphc.transform.plan import (
    Check,
    HostNode,
    Plan,
    PlanStep,
    PythonLoop,
    Segment,
    SlicesOfStacks,
)

REASON = (
    "slices of stacks: one function is compiled, and called for {} places; "
    'jit="fewest" leaves them in the segment that computes the stacks'
)
Positions = tuple[int, ...]
Slices = dict[int, Value]  # of one array, by their places


def taken_apart(plan: Plan, costs: DeviceCosts) -> Plan:
    """The plan where slices that are results only have steps of their own, if they pay.

    There is one for all stacks that are cut at the same places.
    """
    stacks = _stacks(plan)
    together: dict[Positions, list[Value]] = {}
    for stack, slices in stacks.items():
        together.setdefault(tuple(sorted(slices)), []).append(stack)
    groups = {
        places: group
        for places, group in together.items()
        if len(places) * len(group) >= least_slices(len(group))
    }
    if not groups:
        return plan
    seconds = _seconds(plan, costs)
    steps, index = list(plan.steps), len(plan.segments)
    for places, group in groups.items():
        if worth_taking_apart(len(places), seconds):
            cut = [stacks[stack][place] for place in places for stack in group]
            gone = frozenset(cut)
            steps = [_without(step, gone, group) for step in steps]
            steps.append(_step(index, places, group, cut))
            index += 1
    return replace(plan, steps=tuple(steps))


def _stacks(plan: Plan) -> dict[Value, Slices]:
    """The slices that are results and nothing else, by the arrays that they are of."""
    resolve = plan.resolve
    slices: dict[Value, int] = {}
    for value in map(resolve, plan.graph.outputs):
        place = place_of(value)
        if place is not None and value._symbol is None:
            slices[value] = place
    if len(slices) < least_slices(1):
        return {}
    used = set(map(resolve, _operands(plan.steps)))
    found: dict[Value, Slices] = {}
    for value, place in slices.items():
        stack = resolve(value.node.inputs[0])
        computed = not stack.node.primitive.inline
        if value not in used and computed and isinstance(stack.type.shape[0], int):
            found.setdefault(stack, {})[place] = value
    return found


def _operands(steps: Iterable[PlanStep]) -> Iterable[Value]:
    """The values that steps take."""
    for step in steps:
        if isinstance(step, Segment):
            for node in step.nodes:
                yield from node.inputs
        elif isinstance(step, (HostNode, PythonLoop)):
            yield from step.node.inputs
        elif isinstance(step, Check):
            yield step.condition


def _without(step: PlanStep, slices: Container[Value], stacks: list[Value]) -> PlanStep:
    """A step that leaves these slices out, and gives those stacks that it computes."""
    if not isinstance(step, Segment):
        return step
    nodes = tuple([n for n in step.nodes if n.outputs[0] not in slices])
    if len(nodes) == len(step.nodes):
        return step
    made = {v for node in nodes for v in node.outputs}
    outputs = dict.fromkeys(v for v in step.outputs if v not in slices)
    outputs.update((v, None) for v in stacks if v in made)
    return replace(step, nodes=nodes, outputs=tuple(outputs))


def _step(
    index: int, places: Positions, stacks: list[Value], slices: list[Value]
) -> SlicesOfStacks:
    """The step that cuts stacks at the same places."""
    nodes = tuple([v.node for v in slices])
    keys = frozenset().union(*map(varying, nodes))
    return SlicesOfStacks(
        index,
        nodes,
        inputs=tuple(stacks),
        statics=(),
        outputs=tuple(slices),
        keys=tuple(sorted(keys, key=lambda s: (s.name, s.serial))),
        reason=REASON.format(len(places)),
        places=places,
    )


def _seconds(plan: Plan, costs: DeviceCosts) -> float:
    """About how long a call takes, without what depends on data."""
    return sum(_taken(n, costs) for s in plan.segments for n in s.nodes)


def _taken(node: Node, costs: DeviceCosts) -> float:
    """About how many seconds a node takes."""
    if node.primitive is not SCAN:
        return work_of(node) / costs.products
    steps = typical(1 if node.params["length"] is None else node.params["length"])
    each = sum(_taken(n, costs) for n in node.params["body"].content.nodes)
    return steps * (costs.step + each)
