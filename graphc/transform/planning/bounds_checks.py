"""Checks that no index leaves its axis, for `check=True` and `check="index"`.

With "index" nothing else is checked. In a function of NumPy, values that no
result needs are checked too, as NumPy does.

A body is compiled as a whole: it carries along whether its checks held, and the loop or
branch raises when it is done (see `checks`). Outside of bodies, the checks come after a
result, where they hide nothing from rules.
"""

from collections.abc import Container, Iterable, Sequence

import numpy as np

from graphc.control.scan import SCAN
from graphc.control.switch import SWITCH
from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.bodies import Body, BodyCall, with_inner_nodes
from graphc.ir.graph.build import INPUT, as_value, literal_of
from graphc.ir.graph.nodes import Graph, Guard, Node, Value
from graphc.ir.graph.replay import change_nodes
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, less_equal, symbol_dim
from graphc.ir.sizes.ranges import UNKNOWN, SizeRange
from graphc.ir.types import INT64, is_integer
from graphc.ops.arrays.integer_ranges import is_small_multiple
from graphc.ops.common.conditions import BoundsRule, Checking, checks_of, reporting
from graphc.ops.effects.assertions import ASSERT, asserted
from graphc.transform.padding.value_ranges import ValueRanges
from graphc.transform.planning.checked_bodies import with_checked_bodies


def with_bounds_checks(graph: Graph, check: Checking = True) -> Graph:
    """Add a check to a graph for each index that depends on data.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x, i = gt.vector("x"), gt.vector("i", "int64")
    >>> total, _ = gt.scan(lambda c, k: (c + x[k], None), 0.0, i)
    >>> f = graphc.function([x, i], total, backend="numpy", check=True)
    >>> float(f(np.ones(3, "float32"), np.array([0, 2])))
    2.0
    """
    outputs = _outputs_with_checks(graph.outputs, check, inside=False)
    ranges, wrapping = ValueRanges(_own_range), set[Value]()
    for node in ancestors(outputs):
        ranges.observe(node)
        bounding = node.inputs[1:] if node.primitive is OP.remainder else node.inputs
        wraps = any(map(_may_wrap, with_inner_nodes([node])))
        if wraps or not wrapping.isdisjoint(bounding):
            wrapping.update(node.outputs)
        rule = checks_of(node, check)
        if rule is not None:
            with standing_at(node.place.plain):
                proved = _with_proved_bounds(node, ranges, wrapping)
                outputs[0] = _with_index_checks(proved, outputs[0], rule)
    return graph.with_outputs(outputs)


def _own_range(symbol: Symbol) -> SizeRange:
    return SizeRange(symbol_dim(symbol), symbol_dim(symbol))


def _may_wrap(node: Node) -> bool:
    """Whether a node computes integers that may wrap around though sizes bound them."""
    if not is_integer(node.outputs[0].dtype):
        return False
    if node.outputs[0].dtype != INT64:  # 32 bits, or an unsigned 64, soon wrap
        return True
    if node.primitive is OP.multiply:
        return not is_small_multiple(node)
    literals = [x for x in map(literal_of, node.inputs) if x is not None]
    return any(is_integer(x.dtype) and np.any(abs(x) > 2**48) for x in literals)


def _with_proved_bounds(
    node: Node, ranges: ValueRanges, wrapping: Container[Value]
) -> Node:
    """Rebuild a node so that indices which are always in bounds need no check.

    Integers of few bits wrap around, so only 64-bit indices are considered, and none
    that are computed from `wrapping` ones.
    """
    if "inside" not in node.params:
        return node
    surely_inside, axes = node.params["inside"], node.params["axes"]
    x, indices = node.inputs[0].type, node.inputs[len(node.inputs) - len(axes) :]
    proved = []
    for known, index, axis in zip(surely_inside, indices, axes, strict=True):
        is_exact = index.dtype == INT64 and index not in wrapping
        between = ranges.safe_range_of(index) if is_exact else UNKNOWN
        proved.append(known or _lies_in(between, x.shape[axis]))
    params = {**node.params, "inside": tuple(proved)}
    checked: Value = node.primitive(*node.inputs, **params)
    return checked.node


def _lies_in(between: SizeRange, size: Size) -> bool:
    low, high = between
    if low is None or high is None:
        return False
    return less_equal(-size, low) is True and less_equal(high, size - 1) is True


def find_unread_nodes(graph: Graph, values: Iterable[Value]) -> list[Node]:
    """The nodes that only `values` need, not the results, and that may fail.

    Nodes of bodies are left out: a loop or a branch computes them.
    """
    nodes_of_results = set(ancestors(graph.outputs))
    inputs = {value.node for value in graph.inputs}
    foreign: set[Node] = set()
    nodes = []
    for node in ancestors(values):
        of_body = node.primitive is INPUT and node not in inputs
        if of_body or not foreign.isdisjoint(v.node for v in operands(node)):
            foreign.add(node)
        elif node not in nodes_of_results and _may_fail(node):
            nodes.append(node)
    return nodes


def _may_fail(node: Node) -> bool:
    checked = node.primitive is ASSERT or checks_of(node, True) is not None
    return checked or bool(node.guards)


def with_checks_of(graph: Graph, nodes: Iterable[Node], check: Checking) -> Graph:
    """Make the first result ask for the checks of nodes that no result needs."""
    if not graph.outputs:
        return graph
    first, *others = graph.outputs
    for node in nodes:
        with standing_at(node.place.plain):
            if node.primitive is ASSERT:
                first = ASSERT(first, node.inputs[1], **node.params)
            if (rule := checks_of(node, check)) is not None:
                first = _with_index_checks(node, first, rule)
            for guard in node.guards:
                first = first if guard.memory else _with_guard_check(node, first, guard)
    return graph.with_outputs((first, *others))


def _with_guard_check(node: Node, value: Value, guard: Guard) -> Value:
    """Attach to a value the check of a relation of sizes that a node needs."""
    left, right = as_value(guard.left), as_value(guard.right)
    fails = left != right if guard.relation == "==" else left > right
    shown = [as_value(n) for n in (guard.left, guard.right) if isinstance(n, Dim)]
    got = " and ".join(["{}"] * len(shown))
    message = f"{node.message_of(guard)}; got {got}"
    return asserted(value, reporting(fails, *shown), message, guard.kind)


def _outputs_with_checks(
    outputs: Sequence[Value], check: Checking, inside: bool
) -> list[Value]:
    def checked(node: Node, place: SourceLocation) -> Sequence[Value]:
        with standing_at(place.plain):
            return _node_with_checks(node, check, inside)

    return change_nodes(outputs, checked)[0]


def _node_with_checks(node: Node, check: Checking, inside: bool) -> Sequence[Value]:
    """The outputs of a node, with the checks that it needs in a body."""
    if node.primitive in (SCAN, SWITCH):
        return with_checked_bodies(node, lambda call: _body_with_checks(call, check))
    rule = checks_of(node, check)
    if not inside or rule is None:
        return node.outputs
    return [_with_index_checks(node, v, rule) for v in node.outputs]


def _with_index_checks(node: Node, value: Value, rule: BoundsRule) -> Value:
    """Attach to a value the check that the indices of a node are in bounds."""
    for condition, message in rule.conditions(node):
        value = asserted(value, condition, message, rule.kind)
    return value


def _body_with_checks(call: BodyCall, check: Checking) -> Body:
    """Add checks to a body."""
    outputs = _outputs_with_checks(call.body.outputs, check, inside=True)
    return call.body.with_closed_outputs(outputs)
