"""Sums of exponentials that are shifted by something known at the end only.

Written stably, `logsumexp` is `log(sum(exp(x - m))) + m` of the largest element m: of
rows that come one after another, that is known when the last has come. So the running
maximum is subtracted instead, and the sum is scaled when that grows; at the end it is
scaled to what the program subtracts. Means with weights `softmax(x)` are such sums too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from graphc.ir.build import as_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
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
from graphc.rewriting.loops.stream_reductions import Known, Rows, Task, counted


@dataclass(frozen=True, kw_only=True)
class Shifted(Scaled):
    """`exp(x - shift)` of what `subtracted` makes, and what has been made of it."""

    subtracted: Node


class Shifts(Sums[Shifted]):
    """The shifted exponentials of what comes row by row."""

    LINEAR = MappingProxyType({"multiply": 2, "true_divide": 1})

    def __init__(self, known: Stepwise, length: Size) -> None:
        super().__init__(known, length)
        self._differences: dict[Value, Shifted] = {}

    def _pairs(self) -> Iterable[tuple[Value, Shifted]]:
        return [*self._differences.items(), *self._found.items()]

    def visit(self, node: Node) -> None:
        """Take note of a node that is not made row by row."""
        name, out = node.primitive.name, node.outputs[0]
        if name == "subtract":
            found = self._difference(node)
            if found is not None:
                self._differences[out] = found
        elif name == "exp" and node.inputs[0] in self._differences:
            self._found[out] = self._differences[node.inputs[0]]
        else:
            onward = self._onward(node)
            if onward is not None:
                self._found[out] = onward

    def _difference(self, node: Node) -> Shifted | None:
        """What comes row by row, less what depends on all rows."""
        found = difference(self._known, node, 0)
        if found is None:
            return None
        return Shifted(x=found[0], view=found[1], subtracted=node)

    def _task(self, node: Node, known: Shifted) -> Task:
        return _Sum(node, known, self._length).task()


class _Sum:
    """A sum of shifted exponentials, step by step."""

    def __init__(self, node: Node, shifted: Shifted, length: Size) -> None:
        self._node = node
        self._shifted = shifted
        self._length = length

    def task(self) -> Task:
        """What the loop does for it: it carries the largest, and the sum."""
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

    def _step(self, carry: Carry, rows: Rows, number: Value) -> Carry:
        shifted, (top, total) = self._shifted, carry
        x = rows[shifted.x]
        new = F.maximum(top, x)
        scale = F.where(_is_least(top), 0, F.exp(_safe(top) - _safe(new)))
        total = total * self._scaled(scale)
        total = total + self._scaled(F.exp(x - _safe(new)), rows)
        held = shifted.view.holds(number, self._length)
        return counted([new, total], carry, held)

    def _end(self, carry: Carry, known: Known) -> Value:
        node, view = self._node, self._shifted.view
        top, total = carry
        subtracted = self._shifted.subtracted
        seen = parents(subtracted, self._shifted.x[1])
        assert seen is not None
        shift = row_of(known(subtracted.inputs[1]), seen[1])
        scale = F.exp(F.where(_is_least(top), top, _safe(top)) - shift)
        scaled = total * walked(self._shifted.path, scale, with_fixed(known))
        return summed(node, view, F.broadcast_to(scaled, total.type.shape))

    def _scaled(self, value: Value, rows: Rows | None = None) -> Value:
        """A row with those factors that come row by row."""

        def beside(factor: Factor) -> Value | None:
            return None if rows is None or not factor.other else rows[factor.other]

        return walked(self._shifted.path, value, beside)


def _is_least(top: Value) -> Value:
    """Where nothing has been counted yet."""
    found: Value = F.equal(top, -np.inf)
    return found


def _safe(top: Value) -> Value:
    """The largest elements, or 0 where they are infinite."""
    found: Value = F.where(F.isfinite(top), top, 0)
    return found
