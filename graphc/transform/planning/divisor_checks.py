"""Checks that sizes used as divisors are not 0, where nothing else would notice.

The host raises where it divides by a length that is 0, and padded programs have guards
against that (see `guards_of`). A device goes on computing: with numbers that are read
from data or from arguments, and in branches within loops, where it must not raise
unless the branch is taken. There a check is attached to the quotient.
"""

from collections.abc import Iterable, Mapping, Sequence

from graphc.analysis.binding_time import is_known_on_host
from graphc.control.scan import SCAN
from graphc.control.switch import SWITCH
from graphc.errors import standing_at
from graphc.ir.graph.bodies import Body, BodyCall, with_inner_nodes
from graphc.ir.graph.build import SIZE_OP, as_value, cast, size_value, strong
from graphc.ir.graph.nodes import Graph, Node, Value, divisors_of, origins
from graphc.ir.graph.replay import change_nodes
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, Symbol, substitute, symbols_in
from graphc.ir.sizes.divisors import with_nonzero_divisors
from graphc.ops.effects.assertions import asserted
from graphc.transform.padding.guards import guard_of_divisor
from graphc.transform.planning.checked_bodies import with_checked_bodies


def with_checked_divisors(graph: Graph) -> Graph:
    """Check the divisors in sizes of a graph that a device may compute.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], gt.sum(x) * (9 // x[x > 2].shape[0]))
    >>> try:
    ...     f(np.ones(3, "float32"))
    ... except graphc.CallError as error:
    ...     print(str(error).splitlines()[0])
    a size is divided by zero
    """
    if not any(_divides(node) for node in with_inner_nodes(graph.nodes)):
        return graph
    outputs = _outputs_with_checks(graph.outputs, {}, looped=None)
    guards = (g for n in graph.nodes for g in n.guards if isinstance(g.left, int))
    guarded = {g.right for g in guards if g.left == 1}
    for node in filter(_divides, ancestors(outputs)):
        sizes = _unchecked_divisors(node)
        by = [n for n in sizes if guard_of_divisor(n).right not in guarded]
        with standing_at(node.place.plain):
            outputs[0] = _with_divisor_checks(outputs[0], by)
    return graph.with_outputs(outputs)


def _divides(node: Node) -> bool:
    return bool(node.params) and bool(divisors_of(node))


def _unchecked_divisors(node: Node) -> list[Size]:
    """The divisors outside of bodies that the host does not compute."""
    sizes = list(filter(_depends_on_numbers, divisors_of(node)))
    if node.primitive is SIZE_OP:
        return sizes
    return [n for n in sizes if not all(map(is_known_on_host, origins(n)))]


def _depends_on_numbers(size: Size) -> bool:
    """Whether a size depends on numbers that are not lengths of axes."""
    return any(symbol.origin is not None for symbol in symbols_in(size))


def _number(size: Size) -> Value:
    """A size as a number, which is computed even where a divisor is 0."""
    return as_value(size_value(with_nonzero_divisors(size)))


def _with_divisor_checks(value: Value, sizes: Iterable[Size]) -> Value:
    """Make a value raise if one of these divisors is 0."""
    result = strong(value)
    for size in sizes:
        is_nonzero = F.not_equal(_number(size), 0)
        result = asserted(result, is_nonzero, "a size is divided by zero", "zero")
    return cast(result, value.dtype, value.type.weak)


def _outputs_with_checks(
    outputs: Sequence[Value], sizes: Mapping[Symbol, Size], looped: bool | None
) -> list[Value]:
    """Add checks of divisors in the bodies that values depend on.

    `looped`: whether the values are within a loop, directly or in a branch; None
    outside of bodies.
    """

    def checked(node: Node, place: object) -> Sequence[Value]:
        if node.primitive in (SCAN, SWITCH):
            in_loop = node.primitive is SCAN or bool(looped)
            with standing_at(node.place.plain):
                return with_checked_bodies(
                    node, lambda call: _body_with_checks(call, sizes, in_loop)
                )
        if looped is None or not _divides(node):
            return node.outputs
        number = node.primitive is SIZE_OP
        checks = [
            by
            for by in divisors_of(node)
            if (looped and number) or _depends_on_numbers(substitute(by, sizes))
        ]
        if not checks:
            return node.outputs
        with standing_at(node.place.plain):
            outputs = [_number(node.params["size"])] if number else node.outputs
            return [_with_divisor_checks(v, checks) for v in outputs]

    return change_nodes(outputs, checked)[0]


def _body_with_checks(
    call: BodyCall, outer: Mapping[Symbol, Size], looped: bool
) -> Body:
    sizes = {s: substitute(n, outer) for s, n in call.sizes.items()}
    outputs = _outputs_with_checks(call.body.outputs, sizes, looped)
    return call.body.with_closed_outputs(outputs)
