"""Sums of exponentials that are shifted by something known at the end only.

Written stably, `logsumexp` is `log(sum(exp(x - m))) + m` of the largest element m: of
rows that come one after another, that is known when the last has come. So the running
maximum is subtracted instead, and the sum is scaled when that grows; at the end it is
scaled to what the program subtracts. Means with weights `softmax(x)` are such sums too.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from graphc.ir.build import as_value, size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.op import rebuild
from graphc.ir.types import is_float, same_shape
from graphc.ops.subscript import FULL_ITEM
from graphc.rewriting.loops.rows import row, source
from graphc.rewriting.loops.running import Carry
from graphc.rewriting.loops.slices import items_of
from graphc.rewriting.loops.stepwise import Place, Uses
from graphc.rewriting.loops.tasks import Known, Rows, Task, counted
from graphc.rewriting.loops.views import View, parents
from graphc.rewriting.sizes import at_most, is_one


class Stepwise(Protocol):
    """What is known of the values that depend on a scan."""

    views: dict[Value, View]
    uses: Uses

    def depends(self, value: Value) -> bool:
        """Whether a value depends on the scan."""

    def is_row(self, value: Value, view: View | None) -> bool:
        """Whether a value is made row by row, and seen like this."""


class Factor(NamedTuple):
    """A node that has multiplied, divided or reshaped a shifted exponential.

    `at` says where that stands among the inputs, and `axis` along which axis of the
    result the rows come. The other input comes row by row too, or is known at the end.
    """

    node: Node
    at: int
    axis: int
    other: Place | None = None
    fixed: tuple[Value, View | None] | None = None


@dataclass(frozen=True)
class Shifted:
    """`exp(x - shift)`, and what has been made of it since, which is seen as `view`."""

    x: Place
    subtracted: Node
    view: View
    path: tuple[Factor, ...] = ()


class Shifts:
    """The shifted exponentials of what comes row by row."""

    def __init__(self, known: Stepwise, length: Size) -> None:
        self._known = known
        self._length = length
        self._differences: dict[Value, Shifted] = {}
        self._found: dict[Value, Shifted] = {}

    @property
    def nodes(self) -> set[Node]:
        """The nodes that have made them."""
        return {v.node for v in (*self._differences, *self._found)}

    def shown(self, inside: Container[Node]) -> list[Value]:
        """What comes row by row in those that something else needs."""
        both = [*self._differences.items(), *self._found.items()]
        uses = self._known.uses
        return [s.x[0] for v, s in both if not uses.are_among(v, inside)]

    def visit(self, node: Node) -> None:
        """Take note of a node that is not made row by row."""
        name, out = node.primitive.name, node.outputs[0]
        if name == "subtract":
            found = self._difference(node)
            if found is not None:
                self._differences[out] = found
        elif name == "exp" and node.inputs[0] in self._differences:
            self._found[out] = self._differences[node.inputs[0]]
        elif name in ("multiply", "true_divide") or _only_expands(node):
            onward = self._onward(node)
            if onward is not None:
                self._found[out] = onward

    def _difference(self, node: Node) -> Shifted | None:
        """What comes row by row, less what depends on all rows."""
        x, shift = node.inputs
        view, out = self._known.views.get(x), node.outputs[0]
        wide = is_float(x.dtype) and x.dtype.itemsize >= 4
        if view is None or not wide or not same_shape(x.type.shape, out.type.shape):
            return None
        found = parents(node, view)
        if not found or not self._is_fixed(shift, found[1]):
            return None
        return Shifted((x, view), node, view)

    def _is_fixed(self, value: Value, view: View | None) -> bool:
        return view is None or is_one(value.type.shape[view.axis])

    def _onward(self, node: Node) -> Shifted | None:
        """What a node makes of a shifted exponential; None where it is no factor."""
        several = node.primitive.name == "multiply"
        for at, value in enumerate(node.inputs[: 1 + several]):
            known = self._found.get(value)
            factor = None if known is None else self._factor(node, at, known.view)
            if known is not None and factor is not None:
                view = known.view.along(factor.axis)
                return replace(known, view=view, path=(*known.path, factor))
        return None

    def _factor(self, node: Node, at: int, view: View) -> Factor | None:
        axis = _axis_of(node, at, view.axis)
        if axis is None or _only_expands(node):
            return None if axis is None else Factor(node, at, axis)
        value, other = node.inputs[at], node.inputs[1 - at]
        if node.outputs[0].type.rank != value.type.rank:
            return None
        found = parents(node, view.along(axis))
        assert found is not None
        seen = found[1 - at]
        if self._is_fixed(other, seen):
            return Factor(node, at, axis, fixed=(other, seen))
        if seen is None or not self._known.is_row(other, seen):
            return None
        return Factor(node, at, axis, other=(other, seen))

    def task(self, node: Node) -> Task | None:
        """How a sum of them over the rows is made, step by step."""
        shifted = self._found.get(node.inputs[0]) if node.inputs else None
        if shifted is None or node.primitive.name != "sum":
            return None
        if shifted.view.axis not in node.params["axes"]:
            return None
        return _Sum(node, shifted, self._length).task()


def _only_expands(node: Node) -> bool:
    """Whether all that a node does is to put in axes of one element."""
    if node.primitive.name == "basic_index":
        return all(item[0] == "n" or item == FULL_ITEM for item in items_of(node))
    return node.primitive.name == "expand_dims"


def _axis_of(node: Node, at: int, axis: int) -> int | None:
    """The axis of a result that an axis of an input becomes."""
    for made in range(node.outputs[0].type.rank):
        found = source(node, made)
        if found is not None and found[at] == axis:
            return made
    return None


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
            F.full(_row_shape(x, view.axis), least),
            F.zeros(_row_shape(of_sum, shifted.view.axis), of_sum.dtype),
        ]
        placed = not view.covers(self._length)
        return Task(places, start, self._step, self._end, placed)

    def _step(self, carry: Carry, rows: Rows, number: Value) -> Carry:
        shifted, (top, total) = self._shifted, carry
        x = rows[shifted.x]
        new = F.maximum(top, x)
        scale = F.where(_is_least(top), 0, F.exp(_safe(top) - _safe(new)))
        total = total * self._walked(scale, lambda f: None)
        total = total + self._walked(
            F.exp(x - _safe(new)), lambda f: None if f.other is None else rows[f.other]
        )
        held = shifted.view.holds(number, self._length)
        return counted([new, total], carry, held)

    def _end(self, carry: Carry, known: Known) -> Value:
        node, view = self._node, self._shifted.view
        top, total = carry
        subtracted = self._shifted.subtracted
        seen = parents(subtracted, self._shifted.x[1])
        assert seen is not None
        shift = _row(known(subtracted.inputs[1]), seen[1])
        scale = F.exp(F.where(_is_least(top), top, _safe(top)) - shift)

        def of(factor: Factor) -> Value | None:
            if factor.fixed is None:
                return None
            value, seen = factor.fixed
            return _row(known(value), seen)

        found = F.broadcast_to(total * self._walked(scale, of), total.type.shape)
        axes = tuple(a - (a > view.axis) for a in node.params["axes"] if a != view.axis)
        keepdims = node.params["keepdims"]
        made = node.primitive(found, axes=axes, keepdims=keepdims) if axes else found
        whole: Value = F.expand_dims(made, view.axis) if keepdims else made
        if at_most(1, view.size):
            return whole
        some = F.greater(size_value(view.size), 0)
        found = F.where(some, whole, 0)  # where what is known at the end may be NaN
        return found

    def _walked(self, value: Value, other: Callable[[Factor], Value | None]) -> Value:
        """A row with those factors that are given."""
        for factor in self._shifted.path:
            node = factor.node
            if _only_expands(node):
                value = row(node, factor.axis, [value])
                continue
            beside = other(factor)
            if beside is not None:
                pair = (value, beside) if factor.at == 0 else (beside, value)
                value = rebuild(node, pair, node.params).outputs[0]
        return value


def _row_shape(value: Value, axis: int) -> tuple[Size, ...]:
    shape = value.type.shape
    return shape[:axis] + shape[axis + 1 :]


def _row(value: Value, view: View | None) -> Value:
    """What is the same for all rows, as a row."""
    found: Value = value if view is None else F.squeeze(value, view.axis)
    return found


def _is_least(top: Value) -> Value:
    """Where nothing has been counted yet."""
    found: Value = F.equal(top, -np.inf)
    return found


def _safe(top: Value) -> Value:
    """The largest elements, or 0 where they are infinite."""
    found: Value = F.where(F.isfinite(top), top, 0)
    return found
