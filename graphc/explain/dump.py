"""Values, graphs, plans and programs as text."""

import json
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from graphc.backends.names import Hints
from graphc.errors import graph_error
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.text.printer import Writer, to_text
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)


@runtime_checkable
class Printed(Protocol):
    """A compiled function, which has the text that it runs."""

    @property
    def source(self) -> str:
        """The text of the program."""
        ...


def dump(x: object) -> str:
    """The text of a value, a graph, a plan or a compiled function.

    >>> import graphc, graphc.tensor as gt
    >>> y = gt.tanh(gt.tensor("x", "float32", ("n", 3)))
    >>> print(graphc.dump(y).replace("  # <doctest graphc.explain.dump.dump[1]>:1", ""))
    graph(x: float32[n, 3]) {
      y: float32[n, 3] = tanh(x)
      return y
    }
    <BLANKLINE>

    Values have the names from the user's program, and each line tells where it was
    written. `graphc.ir.text.reader.parse_graph` reads the text of a graph; the text of
    a function is its source. Raises GraphError for anything else.
    """
    match x:
        case Value():
            return _value(x)
        case Graph():
            return to_text(x, _hints(x).hint, comments=True)
        case Plan():
            return "\n".join(_plan(x)) + "\n"
        case Printed():
            return x.source
    raise graph_error(
        "needs a value, a graph, a plan or a function",
        op="dump",
        got=f"{type(x).__module__}.{type(x).__qualname__}",
    )


def _value(x: Value) -> str:
    inputs = [n.outputs[0] for n in ancestors([x]) if n.primitive is INPUT]
    names = tuple(v.name for v in inputs)
    return dump(Graph(tuple(inputs), (x,), names, ("",)))


def _hints(graph: Graph) -> Hints:
    named = zip(graph.outputs, graph.output_names, strict=True)
    return Hints(ancestors(graph.outputs), {v: name for v, name in named if name})


def _plan(plan: Plan) -> Iterator[str]:
    writer = _PlanWriter(plan)
    yield from writer.head("plan")
    for step in plan.steps:
        yield from _step(writer, step)
    results = (writer.name(v) for v in plan.graph.outputs)
    yield f"  return {', '.join(results)}"
    yield "}"


class _PlanWriter(Writer):
    """The names of what a plan computes: its graph, and nodes that its steps add."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        graph = plan.graph
        values = [v for step in plan.steps for n in _nodes(step) for v in n.outputs]
        values += [s.condition for s in plan.glue if isinstance(s, Check)]
        whole = Graph(
            graph.inputs,
            (*graph.outputs, *values),
            graph.input_names,
            graph.output_names + ("",) * len(values),
        )
        super().__init__(whole, _hints(whole).hint, comments=True)

    def name(self, value: Value) -> str:
        """The name of a value, or of the equal one that the plan computes for it."""
        return super().name(self._plan.resolve(value))


def _nodes(step: PlanStep) -> Iterable[Node]:
    match step:
        case Segment():
            return step.nodes
        case HostNode() | PythonLoop():
            return [step.node]
    return []


def _step(writer: Writer, step: PlanStep) -> Iterator[str]:
    match step:
        case Segment():
            head = f"segment {step.index}({_names(writer, step)})"
            yield f"  {head} {{{_keys(writer, step)}"
            for node in step.nodes:
                yield from (f"  {line}" for line in writer.lines_of(node))
            yield f"    return {', '.join(map(writer.name, step.outputs))}"
            yield "  }"
        case Read():
            yield f"  read {writer.name(step.value)}  # {step.place}"
        case HostNode():
            *parts, line = writer.lines_of(step.node)
            yield from parts
            yield f"  host {line.strip()}"
        case PythonLoop():
            *parts, line = writer.lines_of(step.node)
            yield from parts
            yield f"  loop {line.strip()}"
            yield from (f"  {line}" for line in _plan(step.body))
        case Check():
            yield f"  check {writer.name(step.condition)}, {json.dumps(step.message)}"


def _names(writer: Writer, segment: Segment) -> str:
    """The arguments of a segment, with the static ones last."""
    inputs = ", ".join(map(writer.name, segment.inputs))
    statics = ", ".join(map(writer.symbol, segment.statics))
    return f"{inputs}; {statics}" if statics else inputs


def _keys(writer: Writer, segment: Segment) -> str:
    keys = ", ".join(map(writer.symbol, segment.keys))
    return f"  # compiled for each {keys}" if keys else "  # compiled once"
