"""Arguments that calls give away, as declared to `function`."""

from collections.abc import Container, Iterable, Mapping

from graphc.errors import graph_error, shortened
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.integers import integer_or_none
from graphc.runtime.shards import conflicting_options


def donated_inputs(
    graph: Graph,
    donate: object,
    defaults: Container[int],
    options: Mapping[str, object],
) -> frozenset[int]:
    """Return the positions of the inputs that are given away.

    `donate` names them by variable, name or position. Raises GraphError for an item
    that is no input, for an input with a default, and for `options` by which nothing is
    compiled that could take the memory.
    """
    if isinstance(donate, (str, Value)) or not isinstance(donate, Iterable):
        raise _refusal("`donate` takes the inputs in a list", donate, "donate=[w]")
    positions = frozenset([_position_of(graph, item) for item in donate])
    for position in positions:
        if position in defaults:
            name = graph.input_names[position]
            problem = f"input {name!r} has a default, which cannot be donated"
            raise _refusal(problem, name, "leave the default out")
    for name in conflicting_options(options) if positions else ():
        if name != "device":
            problem = (
                "`donate` is for compiled programs of JAX, which may take the memory"
            )
            raise _refusal(problem, f"{name}={options[name]!r}", f"leave {name} out")
    return positions


def _position_of(graph: Graph, item: object) -> int:
    names = list(graph.input_names)
    position = integer_or_none(item)
    if position is not None and 0 <= position < len(names):
        return position
    if isinstance(item, str) and names.count(item) == 1:
        return names.index(item)
    for i, value in enumerate(graph.inputs):
        if value is item:
            return i
    inputs = ", ".join(map(repr, names))
    problem = "`donate` names something that is not an input"
    raise _refusal(problem, item, f"one of {inputs}")


def _refusal(problem: str, got: object, hint: str) -> Exception:
    text = got if isinstance(got, str) else repr(got)
    return graph_error(problem, op="function", got=shortened(text), hint=hint)
