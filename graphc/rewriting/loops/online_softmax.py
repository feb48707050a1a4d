"""Sums of exponentials whose shift is available only after the loop: online softmax.

Written stably, `logsumexp` is `log(sum(exp(x - m))) + m` of the largest element m: of
slices that come one after another, it is known only after the last. So the running
maximum is subtracted instead, and the sum is rescaled when that grows; after the loop
it is rescaled to the shift of the program. Means with weights `softmax(x)` are such
sums too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from graphc.ir.build import as_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.rewriting.loops.affine_reads import parents
from graphc.rewriting.loops.folds import Carry
from graphc.rewriting.loops.rescaled import (
    Factor,
    Scaled,
    Stepwise,
    Sums,
    difference,
    row_of,
    row_shape,
    summed,
    walked,
    with_fixed,
)
from graphc.rewriting.loops.stream_reductions import Resolve, SliceValues, Task, counted


@dataclass(frozen=True, kw_only=True)
class Shifted(Scaled):
    """`exp(x - shift)`, times factors; `subtracted` is the node of the difference."""

    subtracted: Node


class Shifts(Sums[Shifted]):
    """The shifted exponentials of sliced values."""

    LINEAR = MappingProxyType({OP.multiply: 2, OP.true_divide: 1})

    def __init__(self, known: Stepwise, length: Size) -> None:
        super().__init__(known, length)
        self._differences: dict[Value, Shifted] = {}

    def _pairs(self) -> Iterable[tuple[Value, Shifted]]:
        return [*self._differences.items(), *self._found.items()]

    def visit(self, node: Node) -> None:
        """Record a node that is not computed slice by slice."""
        op, out = node.primitive, node.outputs[0]
        if op is OP.subtract:
            found = self._difference(node)
            if found is not None:
                self._differences[out] = found
        elif op is OP.exp and node.inputs[0] in self._differences:
            self._found[out] = self._differences[node.inputs[0]]
        else:
            onward = self._onward(node)
            if onward is not None:
                self._found[out] = onward

    def _difference(self, node: Node) -> Shifted | None:
        """A sliced value, less one that depends on all slices."""
        found = difference(self._known, node, 0)
        if found is None:
            return None
        return Shifted(x=found[0], view=found[1], subtracted=node)

    def _task(self, node: Node, known: Shifted) -> Task:
        return _RescaledSum(node, known, self._length).task()


class _RescaledSum:
    """A sum of shifted exponentials, accumulated slice by slice."""

    def __init__(self, node: Node, shifted: Shifted, length: Size) -> None:
        self._node = node
        self._shifted = shifted
        self._length = length

    def task(self) -> Task:
        """The reduction: it carries the running maximum and the rescaled sum."""
        shifted = self._shifted
        x, view = shifted.x
        of_sum = self._node.inputs[0]
        places = [shifted.x, *(f.other for f in shifted.path if f.other is not None)]
        least = as_value(np.asarray(-np.inf).astype(x.dtype))
        start = [
            F.full(row_shape(x, view.axis), least),
            F.zeros(row_shape(of_sum, shifted.view.axis), of_sum.dtype),
        ]
        placed = not view.covers(self._length)
        return Task(places, start, self._step, self._end, placed)

    def _step(self, carry: Carry, rows: SliceValues, number: Value) -> Carry:
        shifted, (top, total) = self._shifted, carry
        x = rows[shifted.x]
        new = F.maximum(top, x)
        scale = F.where(_is_least(top), 0, F.exp(_safe(top) - _safe(new)))
        total = total * self._scaled(scale)
        total = total + self._scaled(F.exp(x - _safe(new)), rows)
        held = shifted.view.holds(number, self._length)
        return counted([new, total], carry, held)

    def _end(self, carry: Carry, known: Resolve) -> Value:
        node, view = self._node, self._shifted.view
        top, total = carry
        subtracted = self._shifted.subtracted
        seen = parents(subtracted, self._shifted.x[1])
        assert seen is not None
        shift = row_of(known(subtracted.inputs[1]), seen[1])
        scale = F.exp(F.where(_is_least(top), top, _safe(top)) - shift)
        scaled = total * walked(self._shifted.path, scale, with_fixed(known))
        return summed(node, view, F.broadcast_to(scaled, total.type.shape))

    def _scaled(self, value: Value, rows: SliceValues | None = None) -> Value:
        """A slice times the factors that are sliced too."""

        def beside(factor: Factor) -> Value | None:
            return None if rows is None or not factor.other else rows[factor.other]

        return walked(self._shifted.path, value, beside)


def _is_least(top: Value) -> Value:
    """Where no element has been counted yet."""
    found: Value = F.equal(top, -np.inf)
    return found


def _safe(top: Value) -> Value:
    """The largest elements, or 0 where they are infinite."""
    found: Value = F.where(F.isfinite(top), top, 0)
    return found
