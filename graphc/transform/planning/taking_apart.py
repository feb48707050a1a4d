"""Results that are made of slices of stacked arrays are computed after the segments.

A chain of blocks that was made a loop gives one array for each kind of result, of which
users ask for the part of each block, or for the parameter that it updates. In a
segment, XLA compiles kernels for each of these slices. Here one function of the place
is compiled, which the driver calls.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from graphc.analysis.cost import DeviceCosts, least_slices, worth_taking_apart
from graphc.control.scan import SCAN
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.sizes.dims import Dim
from graphc.rewriting.loops.find.work import typical, work_of
from graphc.transform.planning.grouping import varying
from graphc.transform.planning.plan import Plan, PlanStep, Segment, SlicesOfStacks
from graphc.transform.planning.result_parts import ResultPart, result_parts

REASON = (
    "slices of stacks: one function is compiled, and called for {} places; "
    'jit="fewest" leaves them in the segment that computes the stacks'
)
Resolve = Callable[[Value], Value]
Groups = list[list[ResultPart]]  # of parts that do the same, in order of their places


def taken_apart(plan: Plan, costs: DeviceCosts) -> Plan:
    """The plan where slices that are results only have steps of their own, if they pay.

    So have the results that are made of such a slice each, as updated parameters. There
    is one step for all that are cut at the same places.
    """
    if len(plan.graph.outputs) < least_slices(1):
        return plan
    together: dict[tuple[int, ...], Groups] = {}
    for parts in result_parts(plan):
        together.setdefault(tuple([p.place for p in parts]), []).append(parts)
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
        step = _step(index, places, group)
        if not worth_taking_apart(len(places), len(step.inputs), seconds):
            continue
        shorter = _without(steps, step, plan.resolve)
        if shorter is not None:
            steps = [*shorter, step]
            index += 1
    return replace(plan, steps=tuple(steps))


def _without(
    steps: list[PlanStep], later: SlicesOfStacks, resolve: Resolve
) -> list[PlanStep] | None:
    """The steps without nodes that a later one has; they give it what they compute.

    Slices that others take too stay. None where a step would be left empty.
    """
    slices = {v.node for v in later.slices}
    work = {node for node in later.nodes if node not in slices}
    compute = [s for s in steps if isinstance(s, Segment)]
    compute = [s for s in compute if not isinstance(s, SlicesOfStacks)]
    left = [node for step in compute for node in step.nodes if node not in work]
    needed = {resolve(v) for node in left for v in operands(node)}
    needed.update(v for step in compute for v in step.outputs)
    needed.difference_update(later.outputs)
    gone = work | {v.node for v in later.slices if v not in needed}
    taken = dict.fromkeys([*later.inputs, *(v for row in later.own for v in row)])
    shortened = list[PlanStep]()
    for step in steps:
        if isinstance(step, Segment) and not isinstance(step, SlicesOfStacks):
            step = _shorter(step, gone, taken, resolve)
            if not step.nodes:
                return None
        shortened.append(step)
    return shortened


def _shorter(
    segment: Segment, gone: Container[Node], taken: Iterable[Value], resolve: Resolve
) -> Segment:
    """A segment that leaves nodes out, and gives those values that it computes."""
    nodes = tuple([n for n in segment.nodes if n not in gone])
    if len(nodes) == len(segment.nodes):
        return segment
    computed = {v for node in nodes for v in node.outputs}
    outputs = dict.fromkeys(v for v in segment.outputs if v.node not in gone)
    outputs.update((v, None) for v in taken if v in computed)
    needed = {resolve(v) for node in nodes for v in operands(node)}
    inputs = [v for v in segment.inputs if v in needed or _tells_sizes(v)]
    return replace(segment, nodes=nodes, inputs=tuple(inputs), outputs=tuple(outputs))


def _tells_sizes(value: Value) -> bool:
    """Whether a segment may read a size from a value that it does not compute with."""
    sizes = any(isinstance(n, Dim) for n in value.type.shape)
    return sizes or value._symbol is not None


def _step(index: int, places: tuple[int, ...], groups: Groups) -> SlicesOfStacks:
    """The step that makes parts at the same places.

    Each call is given the stacks, the values that the parts of all places take, and
    those that the parts of one place take.
    """
    stacks = dict.fromkeys(v for parts in groups for v in parts[0].slices.values())
    rows = [
        row
        for parts in groups
        for row in zip(*(part.arguments for part in parts), strict=True)
    ]
    rows = list(dict.fromkeys(rows))
    common = [row[0] for row in rows if all(v is row[0] for v in row)]
    differing = [row for row in rows if any(v is not row[0] for v in row)]
    by_place = [parts for row in zip(*groups, strict=True) for parts in row]
    nodes = tuple(
        n for p in by_place for n in (*(v.node for v in p.slices), *p.nodes)
    )
    keys = frozenset().union(*map(varying, nodes))
    return SlicesOfStacks(
        index,
        nodes,
        inputs=(*stacks, *common),
        statics=(),
        outputs=tuple([v for part in by_place for v in part.results]),
        keys=tuple(sorted(keys, key=lambda s: (s.name, s.serial))),
        reason=REASON.format(len(places)),
        places=places,
        slices=tuple([v for part in by_place for v in part.slices]),
        own=tuple(zip(*differing, strict=True)) or ((),) * len(places),
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
