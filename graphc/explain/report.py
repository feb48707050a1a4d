"""The plan in words: segments, glue, static arguments, guards, each with its line."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from graphc.errors import SourceLocation, in_number
from graphc.explain.sharding import sharding_lines, without_mesh
from graphc.explain.summary import shown_nodes, title
from graphc.ir.graph.nodes import Guard, Node, origins
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import shown_name
from graphc.transform.planning.plan import (
    Check,
    Glue,
    HostNode,
    JoinedPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
    first_node_with_size,
)


def explain(plan: Plan, backend: str) -> str:
    """Report on a plan for people to read, with one block per step."""
    lines = [title(plan, backend), *_padding_lines(plan), *without_mesh(plan)]
    if backend == "numpy":
        lines.append("one straight program: nothing is compiled, and sizes are known")
        return "\n".join([*lines, *_guards(plan.segments)])
    segments = in_number(len(plan.segments), "compiled segment")
    lines.append(f"{segments}, {in_number(len(plan.glue), 'glue step')}")
    lines += _static_arguments(plan)
    lines += _steps(plan)
    return "\n".join(lines)


def _steps(plan: Plan) -> list[str]:
    """Return a block for each step; neighbours that read alike share one."""
    sharding, lines = sharding_lines(plan), []
    for block, alike in groupby(_step(step, sharding) for step in plan.steps):
        count = sum(1 for _ in alike)
        times = f" ({count} times)" if count > 1 else ""
        lines += ["", block[0] + times, *block[1:]]
    return lines


def _step(step: PlanStep, sharding: Mapping[int, list[str]]) -> list[str]:
    if isinstance(step, Segment):
        return [*_segment(step), *sharding.get(step.index, [])]
    if not isinstance(step, PythonLoop):
        return _glue(step)
    within = [f"  {line}".rstrip() for line in _steps(step.body)]
    return [*_glue(step), "", "  in each step:", *within]


def _padding_lines(plan: Plan) -> list[str]:
    """Tell which sizes are padded and how, and name the fallbacks at true size."""
    budget_lines = [plan.budget] * bool(plan.budget)
    if plan.padded is None:
        return budget_lines
    lines = [f"size {shown_name(s)}: {p}" for s, p in plan.padded.policies.items()]
    lines += budget_lines
    cuts: dict[tuple[str, str, str], int] = {}
    for cut in plan.padded.cuts:
        key = cut.node.reported, _place_text(cut.place), cut.reason
        cuts[key] = cuts.get(key, 0) + 1
    for (name, place, reason), count in cuts.items():
        times = f" ({count} times)" if count > 1 else ""
        lines.append(f"{name}{times} is computed at true sizes, compiled for each")
        lines += [f"  because {reason}", f"  asked for at {place}"]
    for price in dict.fromkeys(plan.padded.prices):
        lines.append(f"{price.node.reported} is padded at a price: {price.reason}")
        lines.append(f"  asked for at {_place_text(price.place)}")
    return lines


def _place_text(place: SourceLocation) -> str:
    return f"{place}: {place.code}" if place.code else str(place)


def _static_arguments(plan: Plan) -> list[str]:
    """Name the integers that serve as sizes, also those whose capacities are inputs."""
    graph, padded = plan.graph, plan.padded
    names = dict(zip(graph.inputs, graph.input_names, strict=True))
    inner = {} if padded is None else {one.capacity: one for one in padded.inner}
    static: dict[str, None] = {}
    for value in (graph.inputs[i] for i in plan.static_inputs):
        values = origins(inner[value].size) if value in inner else [value]
        static |= dict.fromkeys(names[v] for v in values)
    if not static:
        return ["static arguments: none"]
    return [f"static arguments, used as sizes: {', '.join(static)}"]


def _segment(segment: Segment) -> list[str]:
    nodes = shown_nodes(segment)
    first, last = nodes[0], nodes[-1]
    kind = "a loop" if segment.rows else in_number(len(nodes), "node")
    lines = [f"segment {segment.index}: {kind}, jitted"]
    lines.append(f"  from {_place_text(first.place)}")
    if last.place.line != first.place.line:
        lines.append(f"  to {_place_text(last.place)}")
    lines.append(f"  {segment.reason}")
    if segment.rows is not None:
        lines += GROWS
    for symbol in segment.statics:
        if symbol is segment.rows:
            continue
        node = first_node_with_size(segment, symbol)
        lines.append(f"  static argument {shown_name(symbol)}")
        lines.append(f"    needed by {node.reported} at {_place_text(node.place)}")
        lines.append(f"    to remove it: {_static_remedy(symbol)}")
    return lines + _guards([segment])


GROWS = [
    "  its number of steps is known when it stops: it runs until its rows are full,",
    "  then goes on in more; there are 16 at first",
    "  to remove it: give a bound of its steps: max_steps= of gt.while_loop",
]


def _static_remedy(symbol: Symbol) -> str:
    if symbol.origin is None:
        return "declare this axis with a number instead of a name"
    name = shown_name(symbol)
    return (
        f"keep the shape whatever {name} is, with "
        f"gt.where(gt.arange(...) < {name}, x, 0) instead of a slice"
    )


def _guards(segments: Iterable[Segment]) -> list[str]:
    first_needs: dict[Guard, Node] = {}
    for node in (n for s in segments for n in s.nodes):
        for guard in node.guards:
            first_needs.setdefault(guard, node)
    lines = []
    for guard, node in first_needs.items():
        lines.append(f"  guard {guard}: {guard.reason}")
        lines.append(f"    asked for by {node.reported} at {_place_text(node.place)}")
        lines.append(f"    to remove it: {_guard_remedy(guard)}")
    return lines


def _guard_remedy(guard: Guard) -> str:
    if guard.relation == "==":
        return "declare both axes with the same name, or with numbers"
    return "declare the sizes with numbers"


def _glue(step: Glue) -> list[str]:
    heads = {
        Read: "glue: one integer is read from the device",
        HostNode: "glue: host arithmetic",
        PythonLoop: "glue: a loop runs in Python",
        JoinedPieces: "glue: rows are joined",
        Check: "glue: a check",
    }
    lines = [heads[type(step)], f"  because {step.reason}"]
    if isinstance(step, Check):
        lines.append(f"  message: {step.shown}")
    lines.append(f"  asked for at {_place_text(step.place)}")
    lines.append(f"  to remove it: {step.remedy}")
    return lines
