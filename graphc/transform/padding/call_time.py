"""Estimates of the time of a call at some sizes, to tell whether longer axes matter."""

from collections.abc import Iterable, Mapping
from math import prod

from graphc.analysis.cost import DeviceCosts
from graphc.control.scan import SCAN
from graphc.errors import GraphError
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute
from graphc.rewriting.loops.find.work import HEAVY, REDUCTIONS, TYPICAL

_NumberOf = Mapping[Symbol, int]
_IN_ONE_PASS = (OP.cumsum, OP.cumprod, OP.slice_update, OP.segment, OP.bincount)


def call_seconds(graph: Graph, sizes: _NumberOf, costs: DeviceCosts) -> float:
    """Estimate the seconds that the ops of a graph take at these sizes.

    Sizes that are not given are taken as typical. Loops count for the work of their
    steps alone: as many steps run as at true sizes, so a longer axis adds none.
    """
    return _seconds_of_nodes(graph.nodes, _Numbers(sizes), costs)


class _Numbers:
    """The numbers of sizes and of elements of values, each worked out once.

    Symbols that are not given have typical sizes.
    """

    def __init__(self, sizes: _NumberOf) -> None:
        self._sizes = sizes
        self._numbers: dict[Dim, int] = {}
        self._elements: dict[Value, int] = {}

    def number_of(self, size: Size) -> int:
        """The number of a size."""
        if not isinstance(size, Dim):
            return size
        number = self._numbers.get(size)
        if number is None:
            number = self._numbers[size] = self._work_out(size)
        return number

    def elements(self, value: Value) -> int:
        """The number of elements of a value."""
        number = self._elements.get(value)
        if number is None:
            number = self._elements[value] = self.number_of(value.type.size)
        return number

    def _work_out(self, size: Dim) -> int:
        known = {s: self._sizes.get(s, TYPICAL) for s in size.symbols}
        try:
            number = substitute(size, known)
        except GraphError:  # a size is divided by 0 at these
            return TYPICAL
        # Lengths that are tried may not fit together, but no size is negative.
        return max(number, 0) if isinstance(number, int) else TYPICAL


def _seconds_of_nodes(
    nodes: Iterable[Node], numbers: _Numbers, costs: DeviceCosts
) -> float:
    return sum(_seconds_of_node(node, numbers, costs) for node in nodes)


def _seconds_of_node(node: Node, numbers: _Numbers, costs: DeviceCosts) -> float:
    """Estimate the seconds of a node; products and sorts take more than their writes.

    A sort or a decomposition of n elements takes time that grows with n ** 1.5: 512
    rows and columns were decomposed in 0.2 s, 4096 elements sorted in 0.2 ms, on a CPU.
    """
    primitive = node.primitive
    if primitive.may_have_bodies:
        length = node.params["length"] if primitive is SCAN else 1
        steps = TYPICAL if length is None else numbers.number_of(length)
        calls = [*primitive.body_calls(node)]
        inner = [
            {s: numbers.number_of(n) for s, n in call.sizes.items()} for call in calls
        ]
        bodies = zip(calls, map(_Numbers, inner), strict=True)
        work = sum(
            _seconds_of_nodes(call.body.nodes, known, costs) for call, known in bodies
        )
        return steps * work
    written = [numbers.elements(v) * v.dtype.itemsize for v in node.outputs]
    seconds = sum(written) / costs.bandwidth
    elements = [*map(numbers.elements, (*node.inputs, *node.outputs))]
    if primitive in HEAVY:
        # Of the m * k, k * n and m * n elements, each of m, k and n stands there twice.
        multiplications = prod(elements, start=1.0) ** 0.5
        return seconds + 2 * multiplications / costs.products
    if primitive.elementwise or primitive.passes_on or primitive in REDUCTIONS:
        return seconds
    if primitive.rounding == "none" or not node.inputs or primitive in _IN_ONE_PASS:
        return seconds
    return seconds + max(elements, default=0) ** 1.5 / (costs.bandwidth / 4)
