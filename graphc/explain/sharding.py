"""Where arrays lie on a mesh, segment by segment, in words."""

from collections.abc import Iterable

from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Size
from graphc.ops.effects.shardings import FREE, WHOLE
from graphc.transform.planning.foreseen import foreseen
from graphc.transform.planning.plan import Plan, Segment
from graphc.transform.sharding.by_hand import choices
from graphc.transform.sharding.layout import MeshLayout
from graphc.transform.sharding.messages import Messages
from graphc.transform.sharding.whole import gathered


def sharding_lines(plan: Plan) -> dict[int, list[str]]:
    """Where the arguments and results of segments lie, and what devices send.

    Lines for each segment, by its index; nothing where there is no mesh.
    """
    layout = plan.layout
    if layout is None:
        return {}
    messages = foreseen(plan)
    steps = [step for step in plan.steps if isinstance(step, Segment)]
    return {s.index: _lines(plan, layout, s, messages[s.index]) for s in steps}


def _lines(
    plan: Plan, layout: MeshLayout, segment: Segment, messages: Messages
) -> list[str]:
    lines: list[str] = []
    for what, values in ("takes", segment.inputs), ("gives", segment.outputs):
        lines += _places(layout, what, list(dict.fromkeys(map(plan.resolve, values))))
    lines += dict.fromkeys(_by_hand(segment))
    lines += _gathered(layout, segment)
    return [*lines, *_messages(layout, messages)]


def without_mesh(plan: Plan) -> list[str]:
    """The lines of the user that choose shardings, where there is no mesh."""
    if plan.mesh is not None:
        return []
    places = dict.fromkeys(one.node.place for one in choices(plan.graph.nodes))
    return [f"with_sharding at {p} does nothing: there is no mesh" for p in places]


def _messages(layout: MeshLayout, messages: Messages) -> Iterable[str]:
    """The messages by rule, and the ops of which XLA decides."""
    kinds = [f"{kind}, {size} bytes" for kind, size in messages.bytes.items()]
    if kinds or not messages.unforeseen:
        yield f"    sends, by rule: {'; '.join(kinds) or 'nothing'}"
    sizes: dict[str, list[Size]] = {}
    for one in messages.unforeseen:
        if gathered(layout, one.node) is not None:
            continue  # of which all bytes are listed
        asking = f"{one.node.reported} at {one.node.place}"
        sizes.setdefault(asking, []).append(one.bytes)
    for asking, parts in sizes.items():
        yield f"    no rule for {asking}: {sum(parts)} bytes, if XLA gathers them"


def _by_hand(segment: Segment) -> Iterable[str]:
    """Where arrays lie by choices of the user, which their gradients follow."""
    for choice in choices(segment.nodes):
        names = [a.content for _, a in choice.names if a not in (WHOLE, FREE)]
        place = f"over {' and '.join(names)}" if names else "whole on each device"
        node = choice.node
        yield f"    lays {place} by hand: {node.outputs[0].type} at {node.place}"


def _gathered(layout: MeshLayout, segment: Segment) -> Iterable[str]:
    """A line for each call of the user whose ops need axes whole, with all bytes."""
    arrays: dict[str, list[Size]] = {}
    for node in segment.nodes:
        needs = gathered(layout, node)
        if needs is not None and needs.sent:
            asking = f"{node.reported} at {node.place}"
            arrays.setdefault(asking, []).extend(map(_bytes, needs.sent))
    for asking, sizes in arrays.items():
        yield f"    {asking} needs axes whole: {sum(sizes)} bytes to each device"


def _places(layout: MeshLayout, what: str, values: list[Value]) -> Iterable[str]:
    """A line for each way in which some of the values lie."""
    places: dict[str, list[str]] = {}
    for value in values:
        axes = layout.of(value)
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
    return f"{_name(value)}, {_bytes(value)} bytes"


def _bytes(value: Value) -> Size:
    return value.type.size * value.dtype.itemsize


def _name(value: Value) -> str:
    return value.name or value.node.reported
