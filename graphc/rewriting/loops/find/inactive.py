"""Slices of the active and inactive iterations of a loop with early exit.

The ys of such a loop have a slice for each iteration of its capacity; the slices of
inactive iterations, which were not run, are 0. A reduction of all slices equals a
reduction of the active ones if the others hold its neutral element, as after
`where(arange(n) < steps, x, 0)`, the form of sums of selected elements. In the body
that mask always holds.
"""

from typing import Any

import numpy as np

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value, known_sizes, origins
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, maximum, symbol_dim
from graphc.ir.types import same_size
from graphc.ops.common.monoids import MONOIDS
from graphc.ops.indexing.counting_indices import is_counting, unconverted
from graphc.rewriting.loops.find.affine_reads import FARTHEST, View
from graphc.rewriting.loops.find.scan_view import Loop

# Applied to elements that are all equal, these give the same element.
SAME = (
    *(OP.expand_dims, OP.squeeze, OP.transpose, OP.broadcast_to, OP.reshape),
    *(OP.convert, OP.basic_index, OP.assert_, OP.max, OP.min, OP.any, OP.all),
)
ADDED_UP = (OP.sum_of_squares, OP.count_nonzero, OP.peak, OP.basic_index)


def _neutral_element(node: Node) -> object:
    """The neutral element of the reduction of a node, or None."""
    if node.primitive in MONOIDS:
        return MONOIDS.rules[node.primitive].neutral(node.inputs[0].dtype)
    return 0 if node.primitive in ADDED_UP else None


class InactiveSteps:
    """The elements that values hold in the slices of inactive iterations."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.masks: set[Value] = set()
        self._active_masks: set[Value] = set()  # true for each active iteration
        # The element, and the iteration of the value's first slice, as declared.
        self._fills: dict[Value, tuple[Any, Size]] = {}
        if loop.stops:
            zeros = ((v, np.zeros((), v.dtype)[()]) for v in loop.stacked)
            self._fills.update((v, (zero, 0)) for v, zero in zeros)

    def record_mask(self, node: Node) -> View | None:
        """Record a mask of the active iterations, and return its view.

        `arange(n - 1) < steps - 1` is the mask from the second iteration on. Returns
        None if the node computes no such mask.
        """
        if not self._loop.stops or node.primitive is not OP.less:
            return None
        index, count = node.inputs
        if count.type.rank or index.type.rank != 1:
            return None
        (size,), less = index.type.shape, self._steps_missing(count)
        if less is None or not is_counting(index, 0, size):
            return None
        mask = node.outputs[0]
        self.masks.add(mask)
        self._active_masks.add(mask)
        self._fills[mask] = np.False_, less
        return View(0, less, 1, size, less)

    def _steps_missing(self, value: Value) -> int | None:
        """Return the k for which a number is the trip count less k, clipped at 0.

        None if there is none.
        """
        sizes = known_sizes(unconverted(value))
        size: Any = 0 if sizes is None else sizes[()]
        for origin in origins(size):
            if not self._is_trip_count(origin):
                continue
            done = symbol_dim(origin.symbol)
            tried = range(FARTHEST + 1)
            return next((k for k in tried if size is maximum(0, done - k)), None)
        return None

    def _is_trip_count(self, value: Value) -> bool:
        """Whether a number is the trip count."""
        steps = self._loop.after_carries[0]
        while value is not steps:
            if value.node.primitive is OP.steps:
                (value,) = value.node.inputs
                continue
            sizes = known_sizes(unconverted(value))
            size: Any = 0 if sizes is None else sizes[()]
            sources = origins(size)
            if len(sources) != 1 or sources[0] is value:
                return False
            if size is not symbol_dim(sources[0].symbol):
                return False
            (value,) = sources
        return True

    def visit(self, node: Node, view: View) -> None:
        """Record which element a node, seen as `view`, holds in inactive slices."""
        if not self._loop.stops:
            return
        fill = self._fill_of_result(node, view.declared)
        if fill is not None:
            self._fills[node.outputs[0]] = fill, view.declared
        if node.primitive in SAME and node.inputs[0] in self._active_masks:
            self._active_masks.add(node.outputs[0])

    def _fill_of_result(self, node: Node, start: Size) -> np.generic | None:
        op, inputs = node.primitive, node.inputs
        fills = [self._fill_of(x, start) for x in inputs]
        if op is OP.where:
            return fills[2] if self._is_zero_fill(fills[0]) else None
        if op is OP.logical_and:
            return np.False_ if any(map(self._is_zero_fill, fills)) else None
        if op not in (*SAME, OP.sum) or fills[0] is None:
            return None
        if op is OP.sum and fills[0]:
            return None
        return fills[0].astype(node.outputs[0].dtype)

    @staticmethod
    def _is_zero_fill(fill: object) -> bool:
        return fill is not None and not fill

    def _fill_of(self, value: Value, start: Size) -> np.generic | None:
        """Return the element of all inactive slices from `start` on, or None."""
        if value in self._fills:
            fill, first = self._fills[value]
            return fill if same_size(first, start) else None
        literal = literal_of(value)
        return None if literal is None or literal.size != 1 else literal.flat[0]

    def are_neutral(self, node: Node) -> bool:
        """Whether inactive slices hold the neutral element of a node's reduction."""
        if not self._loop.stops:
            return True
        value, neutral = node.inputs[0], _neutral_element(node)
        if value not in self._fills or neutral is None:
            return False
        return bool(self._fills[value][0] == neutral)

    def are_zero(self, value: Value) -> bool:
        """Whether inactive slices are 0, as in the ys of a loop with early exit."""
        if not self._loop.stops:
            return True
        return value in self._fills and not self._fills[value][0]

    def passes_second(self, node: Node, start: Size) -> bool:
        """Whether a node gives its second input for active iterations from `start` on.

        The elements in inactive iterations are left to `visit`.
        """
        if node.primitive is not OP.where or node.inputs[0] not in self._active_masks:
            return False
        if not same_size(self._fills[node.inputs[0]][1], start):
            return False
        value, out = node.inputs[1].type, node.outputs[0].type
        if value.rank != out.rank:
            return False
        pairs = zip(value.shape, out.shape, strict=True)
        return all(equal(a, b) is True for a, b in pairs)
