"""Sharing: parts of a graph that are alike are one function, which each of them calls.

JAX traces and lowers every node of a program in Python, but a jitted function within it
only once. XLA compiles the calls as if the nodes stood in their place. So layers that
are too few for a loop, or stand side by side, cost a line each.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from graphc.analysis.cost import worth_sharing
from graphc.control.call import CALL, call
from graphc.errors import standing_at
from graphc.ir.graph.bodies import Body, close_body
from graphc.ir.graph.build import body_input
from graphc.ir.graph.nodes import Graph, Node, Value, origins
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.replay import Replaced, rebuild_with
from graphc.ir.graph.walk import users_by_value
from graphc.ir.sizes.dims import Size
from graphc.rewriting.engine.rule import Rule, Rules, whole_graph
from graphc.rewriting.match.lockstep import Counterparts, outputs_of_row
from graphc.rewriting.sharing.parts import (
    AlikeParts,
    find_alike_parts,
    has_marks,
    order_parts,
)


def sharing(least_saved: int | None = None) -> Rule:
    """Make the rule that replaces alike parts of a graph by calls of one function.

    It applies where at least `least_saved` nodes need not be lowered; by default where
    lowering them would take longer than lowering the calls.
    """

    def pays(count: int, size: int) -> bool:
        if least_saved is None:
            return worth_sharing(count, size)
        return (count - 1) * size >= least_saved

    @whole_graph(over=(), exact=True, name="shared_blocks", last=True)
    def rule(graph: Graph) -> Replaced | None:
        """Parts that are alike become calls of one function, which is lowered once."""
        return _share_parts(graph, pays)

    return rule


def _share_parts(graph: Graph, pays: Callable[[int, int], bool]) -> Replaced | None:
    nodes = graph.nodes
    small = not pays(2, len(nodes)) and not has_marks(nodes)
    if small or any(n.primitive is CALL for n in nodes):  # the graph is shared already
        return None
    alike = [parts for parts in find_alike_parts(nodes, pays) if _take_alike(parts)]
    users = users_by_value(nodes) if alike else {}
    functions = {id(parts): _Function(parts, users, graph.outputs) for parts in alike}
    alike = [parts for parts in alike if functions[id(parts)].is_closed]
    items = order_parts(nodes, alike) if alike else None
    if items is None:
        return None
    replacements: dict[Value, Value] = {}
    pairs = []
    for item in items:
        if isinstance(item, tuple):
            parts, i = item
            values = functions[id(parts)].call_for(i, replacements)
            replacements |= values
            pairs.append(next(iter(values.items())))
        else:
            rebuild_with(item, replacements, item.place)
    outputs = [replacements.get(v, v) for v in graph.outputs]
    return graph.with_outputs(outputs), pairs


class _Function:
    """The function that takes the place of parts that are alike."""

    def __init__(
        self,
        parts: AlikeParts,
        users: Mapping[Value, Sequence[Node]],
        outputs: Sequence[Value],
    ) -> None:
        inside = {node: i for row in parts.rows for i, node in enumerate(row)}
        used = set(outputs)
        for node, part in inside.items():
            for value in node.outputs:
                if any(inside.get(n) != part for n in users.get(value, ())):
                    used.add(value)
        self._input_rows = _outside_rows(parts)
        self._output_rows = [
            row
            for nodes_of_row in parts.rows
            for row in outputs_of_row(nodes_of_row)
            if any(v in used for v in row)
        ]
        self._name = _name_of(parts)
        self._body, self._captures, self._sizes = self._make_body(parts)

    @property
    def is_closed(self) -> bool:
        """Whether the function takes no size that the program computes."""
        return not any(origins(size) for size in self._sizes)

    def _make_body(self, parts: AlikeParts) -> tuple[Body, list[Value], list[Size]]:
        inputs = [_input_like(row[0]) for row in self._input_rows]
        known = dict(zip(self._input_rows, inputs, strict=True))
        for nodes, takes in zip(parts.rows, parts.takes, strict=True):
            values = tuple([known.get(row, row[0]) for row in takes])
            with standing_at(nodes[0].place):
                fresh = rebuild(nodes[0], values, nodes[0].params)
            known.update(zip(outputs_of_row(nodes), fresh.outputs, strict=True))
        return close_body([known[row] for row in self._output_rows], inputs, "call")

    def call_for(self, i: int, replacements: dict[Value, Value]) -> dict[Value, Value]:
        """Call the function for part `i`; map its values used elsewhere to results."""
        inputs = [*(row[i] for row in self._input_rows), *self._captures]
        values = [replacements.get(v, v) for v in inputs]
        with standing_at(self._output_rows[-1][i].node.place):
            results = call(self._name, self._body, values, self._sizes)
        return {row[i]: v for row, v in zip(self._output_rows, results, strict=True)}


def _computed_rows(parts: AlikeParts) -> set[Counterparts]:
    """Return the counterparts that parts compute."""
    return {row for nodes in parts.rows for row in outputs_of_row(nodes)}


def _take_alike(parts: AlikeParts) -> bool:
    """Whether all parts compute what one of them does, and none takes it as given."""
    inside, computed_rows = {row[0] for row in parts.rows}, _computed_rows(parts)
    taken_rows = (row for takes in parts.takes for row in takes)
    return all(row in computed_rows or row[0].node not in inside for row in taken_rows)


def _outside_rows(parts: AlikeParts) -> list[Counterparts]:
    """Return the counterparts taken from outside, unless they are one value for all."""
    taken_rows = dict.fromkeys(row for t in parts.takes for row in t)
    inside = _computed_rows(parts)
    same = {row for row in taken_rows if all(v is row[0] for v in row)}
    return [row for row in taken_rows if row not in inside and row not in same]


def _name_of(parts: AlikeParts) -> str:
    """Return the innermost function that all lines of a part stand in, or most do."""
    paths = [row[0].place.functions for row in parts.rows]
    common = [names[0] for names in zip(*paths, strict=False) if len({*names}) == 1]
    if common:
        return common[-1]
    named = Counter(path[-1] for path in paths if path)
    return named.most_common(1)[0][0] if named else "block"


def _input_like(value: Value) -> Value:
    return body_input(value.name or value.node.primitive.name, value.type)


SHARING = Rules((sharing(),))
