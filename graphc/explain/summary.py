"""The plan in a few lines: one per segment, and one per reason for a glue step.

`report` tells the whole, with the user's code.
"""

from collections.abc import Iterable, Sequence

from graphc.analysis.fixed_sizes import pinned_sizes
from graphc.errors import in_number
from graphc.explain.sharding import sharding_lines, without_mesh
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import shown_name
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.plan import (
    Check,
    Plan,
    PythonLoop,
    Read,
    Segment,
)


def summary(plan: Plan, backend: str) -> str:
    """The short form of the report on a plan."""
    lines = [title(plan, backend), *_sizes(plan), *_static_size_lines(plan)]
    lines += [f"  {line}" for line in without_mesh(plan)]
    if backend == "numpy":
        return "\n".join([*lines, "  one straight program: nothing is compiled"])
    lines += _segments(plan)
    remarks = () if plan.padded is None else plan.padded.remarks
    lines += dict.fromkeys([*(f"  {one}" for one in remarks), *_driver_lines(plan)])
    return "\n".join([*lines, "explain(full=True) has each step, with your lines"])


def title(plan: Plan, backend: str) -> str:
    """The first line of both forms of the report."""
    named = zip(plan.called.input_names, plan.called.inputs, strict=True)
    inputs = ", ".join(f"{name}: {value.type}" for name, value in named)
    name = {"jax": "JAX", "numpy": "NumPy"}[backend]
    return f"{name} program of ({inputs})"


def shown_nodes(segment: Segment) -> Sequence[Node]:
    """The nodes of a segment whose lines are shown, if there are any: not literals.

    Programs share literals, so that the line of one may be of another program.
    """
    return [n for n in segment.nodes if not n.primitive.inline] or segment.nodes


def _sizes(plan: Plan) -> list[str]:
    policies = {} if plan.padded is None else plan.padded.policies
    lines = [f"  {shown_name(s)}: {p}" for s, p in policies.items()]
    return lines + [f"  {plan.budget}"] * bool(plan.budget)


def _static_size_lines(plan: Plan) -> Iterable[str]:
    """Yield a line for each named size that must be one number."""
    for one in pinned_sizes(n for segment in plan.segments for n in segment.nodes):
        asking = f"{one.node.reported} at {one.node.place}"
        yield f"  {shown_name(one.symbol)} must be {one.number}: {asking} needs it"


def _segments(plan: Plan) -> Iterable[str]:
    sharding = sharding_lines(plan)
    for segment in plan.segments:
        nodes = shown_nodes(segment)
        first, last = nodes[0].place, nodes[-1].place
        where = f"{first}" if first.line == last.line else f"{first} to {last.line}"
        counted = f"{in_number(len(nodes), 'node')} from {where}"
        yield f"  segment {segment.index}: {counted}, {_compiled(plan, segment)}"
        yield from sharding.get(segment.index, [])


def _compiled(plan: Plan, segment: Segment) -> str:
    """Tell how often a segment is compiled, in terms of sizes that users can name."""
    pad = plan.padded
    stored: dict[Symbol, str] = {}
    if pad is not None:
        stored = {one.capacity.symbol: str(one.size) for one in pad.inner}
        stored |= {capacity: shown_name(s) for capacity, s in pad.stored_as.items()}
    names = dict.fromkeys(_axis_name(plan, s) for s in segment.keys if s not in stored)
    padded = dict.fromkeys(stored[s] for s in segment.keys if s in stored)
    parts = [", ".join(names)] * bool(names)
    parts += [f"capacity of {', '.join(padded)}"] * bool(padded)
    if segment.rows is not None:
        parts.append("capacity of its rows")
    compiled = f"compiled per {' and '.join(parts)}" if parts else "compiled once"
    if isinstance(segment, GuessingSegment):
        of_guesses = ", ".join(stored.get(s, shown_name(s)) for s in segment.guesses)
        return f"{compiled}, guessed for {of_guesses}"
    return compiled


def _axis_name(plan: Plan, symbol: Symbol) -> str:
    if plan.padded is not None:
        original = plan.padded.originals.get(symbol, symbol)
        if original in plan.padded.capacities:
            return f"true size of {shown_name(original)}"
        symbol = original
    origin = symbol.origin
    static = isinstance(origin, Value) and origin.node.primitive is INPUT
    return shown_name(symbol) + " (static)" * static


def _driver_lines(plan: Plan) -> Iterable[str]:
    """Yield a line for each step of the driver that is no segment."""
    for step in plan.glue:
        if isinstance(step, Read):
            yield f"  read at {step.place}: {step.reason}; else: {step.remedy}"
        elif isinstance(step, Check):
            yield f"  check at {step.place}: {step.shown}"
        elif isinstance(step, PythonLoop):
            yield f"  loop in Python: {step.reason}; else: {step.remedy}"
        else:
            yield f"  on the host at {step.place}: {step.reason}"
