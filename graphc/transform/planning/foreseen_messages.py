"""The messages between devices that rules foresee for a plan, segment by segment."""

from collections.abc import Sequence
from dataclasses import replace

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import named_axes, substitute
from graphc.transform.planning.plan import Plan, PlanStep, PythonLoop, Segment
from graphc.transform.sharding.messages import Follower
from graphc.transform.sharding.sent import Gathering, Messages
from graphc.transform.sharding.shards import Sharded


def foreseen_messages(plan: Plan) -> dict[int, Messages]:
    """The messages of each segment, by its index; nothing where there is no mesh."""
    if plan.layout is None:
        return {}
    follower = Follower(plan.layout)
    messages: dict[int, Messages] = {}
    for step in plan.steps:
        messages |= _messages_of_step(plan, step, follower)
    return messages


def refuse_gathers(plan: Plan) -> None:
    """Raise GraphError for an op that gathers along an axis whose shards refuse that.

    An op without a rule is refused as well, since it may gather.
    """
    policies = {} if plan.padded is None else plan.padded.policies
    shards = [p for p in policies.values() if isinstance(p, Sharded)]
    refused = frozenset([p.axis for p in shards if not p.gathers])
    for messages in foreseen_messages(plan).values() if refused else ():
        for one in (*messages.gathers, *messages.unforeseen):
            if one.axes & refused:
                alike = messages.gathers if one in messages.gathers else [one]
                sizes = [other.bytes for other in alike if other.node is one.node]
                all_of_node = replace(one, bytes=sum(sizes))
                axis, surely = min(one.axes & refused), one in messages.gathers
                raise _refused_gather(all_of_node, axis, surely)


def _refused_gather(one: Gathering, axis: str, surely: bool) -> GraphError:
    problem = "needs all elements" if surely else "may need all elements"
    return graph_error(
        f"{problem} along {axis!r} on each device: this gathers {one.bytes} bytes",
        op=one.node.op_called,
        got=", ".join(str(v.type) for v in one.node.inputs),
        expected=f"nothing to be gathered, because of Shard({axis!r}, gather='refuse')",
        hint="work along another axis, or leave gather='refuse' out",
        where=one.node.place,
    )


def foreseen_bytes(
    plan: Plan, index: int, inputs: Sequence[Value], shapes: Sequence[Sequence[int]]
) -> dict[str, int] | None:
    """The bytes of messages of a segment, by kind, where its inputs have these shapes.

    None where some op has no rule that predicts its messages.
    """
    messages = foreseen_messages(plan).get(index)
    if messages is None or messages.unforeseen:
        return None
    sizes = {
        symbol: n
        for value, shape in zip(inputs, shapes, strict=False)
        for symbol, n in named_axes(value.type.shape, shape)
    }
    known = {kind: substitute(size, sizes) for kind, size in messages.bytes.items()}
    numbers = {kind: size for kind, size in known.items() if isinstance(size, int)}
    return numbers if len(numbers) == len(known) else None


def _messages_of_step(
    plan: Plan, step: PlanStep, follower: Follower
) -> dict[int, Messages]:
    if isinstance(step, PythonLoop):
        node = step.node
        inputs = [*map(plan.resolve, node.inputs)]
        messages = follower.undecided_messages(node, inputs, node.outputs)
        return {segment.index: messages for segment in step.body.segments}
    if not isinstance(step, Segment):
        return {}
    inputs = [*map(plan.resolve, step.inputs)]
    outputs = [*map(plan.resolve, step.outputs)]
    if step.rows is not None:  # called piece by piece, which no rule predicts
        messages = follower.undecided_messages(step.nodes[-1], inputs, outputs)
    else:
        places = {value: plan.place(value) for value in outputs}
        messages = follower.messages(step.nodes, inputs, places)
    return {step.index: messages}
