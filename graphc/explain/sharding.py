"""Where arrays lie on a mesh, segment by segment, in words."""

from collections.abc import Iterable

from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Size
from graphc.ops.effects.shardings import FREE, WHOLE
from graphc.transform.planning.foreseen_messages import foreseen_messages
from graphc.transform.planning.plan import Plan, Segment
from graphc.transform.sharding.by_hand import choices
from graphc.transform.sharding.sent import Gathering, Messages


def sharding_lines(plan: Plan) -> dict[int, list[str]]:
    """Tell where the arguments and results of segments lie, and what devices send.

    Return the lines of each segment by its index; none if there is no mesh.
    """
    if plan.layout is None:
        return {}
    messages = foreseen_messages(plan)
    steps = [step for step in plan.steps if isinstance(step, Segment)]
    return {s.index: _lines(plan, s, messages[s.index]) for s in steps}


def _lines(plan: Plan, segment: Segment, messages: Messages) -> list[str]:
    lines: list[str] = []
    for what, values in ("takes", segment.inputs), ("gives", segment.outputs):
        lines += _location_lines(
            plan, what, list(dict.fromkeys(map(plan.resolve, values)))
        )
    lines.append(f"    holds on each device: {plan.bytes_held(segment)} bytes")
    lines += dict.fromkeys(_chosen_lines(segment))
    return [*lines, *_messages(messages)]


def without_mesh(plan: Plan) -> list[str]:
    """Name the user's lines that choose shardings although there is no mesh."""
    if plan.mesh is not None:
        return []
    places = dict.fromkeys(one.node.place for one in choices(plan.graph.nodes))
    return [f"with_sharding at {p} does nothing: there is no mesh" for p in places]


def _messages(messages: Messages) -> Iterable[str]:
    """Yield lines for what is gathered, sent by rule, or left to XLA to decide."""
    for asking, size in _bytes_by_call(messages.gathers):
        yield f"    {asking} needs axes whole: {size} bytes to each device"
    kinds = [f"{kind}, {size} bytes" for kind, size in messages.bytes.items()]
    if kinds or not messages.unforeseen:
        yield f"    sends, by rule: {'; '.join(kinds) or 'nothing'}"
    for asking, size in _bytes_by_call(messages.unforeseen):
        yield f"    no rule for {asking}: {size} bytes, if XLA gathers them"


def _bytes_by_call(gatherings: Iterable[Gathering]) -> Iterable[tuple[str, Size]]:
    """Add up the bytes for each of the user's calls."""
    sizes: dict[str, list[Size]] = {}
    for one in gatherings:
        asking = f"{one.node.reported} at {one.node.place}"
        sizes.setdefault(asking, []).append(one.bytes)
    return [(asking, sum(parts)) for asking, parts in sizes.items()]


def _chosen_lines(segment: Segment) -> Iterable[str]:
    """Tell where arrays lie by choices of the user, which their gradients follow."""
    for choice in choices(segment.nodes):
        names = [a.content for _, a in choice.names if a not in (WHOLE, FREE)]
        place = f"over {' and '.join(names)}" if names else "whole on each device"
        node = choice.node
        yield f"    lays {place} by hand: {node.outputs[0].type} at {node.place}"


def _location_lines(plan: Plan, what: str, values: list[Value]) -> Iterable[str]:
    """Yield a line for each way in which some of the values lie."""
    places: dict[str, list[str]] = {}
    for value in values:
        axes = plan.place(value)
        if axes is None:
            places.setdefault("as JAX decides", []).append(_name(value))
        elif any(axes):
            along = " and ".join(name for name in axes if name is not None)
            places.setdefault(f"over {along}", []).append(_name(value))
        else:
            places.setdefault("whole on each device", []).append(_with_bytes(value))
    for place, names in places.items():
        yield f"    {what} {place}: {'; '.join(names)}"


def _with_bytes(value: Value) -> str:
    return f"{_name(value)}, {value.type.nbytes} bytes"


def _name(value: Value) -> str:
    return value.name or value.node.reported
