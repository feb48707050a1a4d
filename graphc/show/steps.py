"""The steps of a plan as records."""

from collections.abc import Iterator, Sequence
from itertools import chain

from graphc.ir.graph.nodes import Node
from graphc.ir.sizes.dims import Symbol
from graphc.show.nodes import Nodes
from graphc.show.records import SizeCheckRecord, StepRecord
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    JoinedPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)


def nodes_of(plan: Plan) -> list[Node]:
    """Return the nodes of all steps, including those of loops in Python."""
    nodes: list[Node] = []
    plans = [plan]
    while plans:
        for step in plans.pop().steps:
            match step:
                case Segment():
                    nodes += step.nodes
                case HostNode():
                    nodes.append(step.node)
                case PythonLoop():
                    plans.append(step.body)
    return nodes


def _device_memory(plan: Plan, segment: Segment) -> str:
    """Say how many bytes of a segment each device holds, if there is a mesh."""
    if plan.layout is None:
        return ""
    return f"{plan.bytes_held(segment)} bytes on each device"


class Steps:
    """Makes records of steps."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._tables = nodes.tables

    def of(self, plan: Plan) -> tuple[StepRecord, ...]:
        """Record the steps of a plan that is compiled."""
        return tuple([self._step(plan, step) for step in plan.steps])

    def one_step(self, plan: Plan) -> tuple[StepRecord, ...]:
        """Record a whole plan as one step: nothing is compiled, sizes are at hand."""
        nodes_of_steps = (_own_nodes(step) for step in plan.steps)
        nodes = self._nodes.add(chain.from_iterable(nodes_of_steps))
        inputs = tuple([self._nodes.value(v) for v in plan.graph.inputs])
        results = [plan.resolve(v) for v in plan.graph.outputs]
        outputs = tuple([self._nodes.value(v) for v in results])
        reason = "one straight program: nothing is compiled, and sizes are known"
        whole = StepRecord("program", reason, None, nodes, inputs, outputs)
        checks = [s for s in plan.steps if isinstance(s, Check)]
        return (whole, *[self._step(plan, check) for check in checks])

    def _step(self, plan: Plan, step: PlanStep) -> StepRecord:
        match step:
            case Segment():
                return self._segment(plan, step)
            case Read():
                value = self._nodes.value(plan.resolve(step.value))
                line = self._tables.line(step.place)
                return StepRecord(
                    "read",
                    step.reason,
                    line,
                    inputs=(value,),
                    keys=self._symbols([step.value.symbol]),
                    remedy=step.remedy,
                )
            case Check():
                value = self._nodes.value(plan.resolve(step.condition))
                line = self._tables.line(step.place)
                return StepRecord(
                    "check",
                    step.reason,
                    line,
                    (),
                    (value,),
                    remedy=step.remedy,
                    text=step.shown,
                )
        return self._host_step(step)

    def _segment(self, plan: Plan, step: Segment) -> StepRecord:
        first = next((n for n in step.nodes if not n.primitive.inline), None)
        return StepRecord(
            "segment",
            step.reason,
            None if first is None else self._tables.line(first.place),
            self._nodes.add(step.nodes),
            tuple([self._nodes.value(plan.resolve(v)) for v in step.inputs]),
            tuple([self._nodes.value(v) for v in step.outputs]),
            step.index,
            self._symbols(step.keys),
            self._symbols(step.statics),
            text=_device_memory(plan, step),
        )

    def _symbols(self, symbols: Sequence[Symbol]) -> tuple[int, ...]:
        return tuple([self._tables.symbol(s) for s in symbols])

    def _host_step(self, step: HostNode | PythonLoop) -> StepRecord:
        kind = "join" if isinstance(step, JoinedPieces) else "host"
        inner: tuple[StepRecord, ...] = ()
        if isinstance(step, PythonLoop):
            self._nodes.enter(step.node)
            kind, inner = "loop", self.of(step.body)
        nodes = self._nodes.add([step.node])
        return StepRecord(
            kind,
            step.reason,
            self._tables.line(step.place),
            nodes,
            tuple([self._nodes.value(v) for v in step.node.inputs]),
            tuple([self._nodes.value(v) for v in step.node.outputs]),
            remedy=step.remedy,
            steps=inner,
        )

    def size_checks(self, plan: Plan) -> tuple[SizeCheckRecord, ...]:
        """Record the relations of sizes that calls are checked for, each once."""
        padded = () if plan.padded is None else plan.padded.guards
        pairs = [(g, n) for n in nodes_of(plan) for g in n.guards]
        first = {guard: node for guard, node in reversed([*pairs, *padded])}
        return tuple(
            SizeCheckRecord(
                self._tables.size(guard.left),
                guard.relation,
                self._tables.size(guard.right),
                str(guard),
                guard.reason,
                node.reported,
                self._tables.line(node.place),
            )
            for guard, node in reversed(first.items())
        )


def _own_nodes(step: PlanStep) -> Iterator[Node]:
    """Yield the nodes that a step itself runs."""
    match step:
        case Segment():
            yield from step.nodes
        case HostNode() | PythonLoop():
            yield step.node
