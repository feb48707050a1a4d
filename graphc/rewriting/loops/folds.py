"""Reductions along an axis whose slices a loop computes one after another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import standing_at
from graphc.ir.build import as_value, cast, size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.types import INT32, DType, dtype_of, is_float, is_inexact
from graphc.ops.common.monoids import MONOIDS, Monoid, least, most
from graphc.rewriting.loops.access import row_of_picked

Carry = list[Value]


@dataclass(frozen=True)
class Running:
    """The carries by which a loop computes a reduction.

    `start` is the init; `step` gives the carries after a slice, whose position it gets;
    `end` projects the final carries to the result.
    """

    start: Carry
    step: Callable[[Carry, Value, Value], Carry]
    end: Callable[[Carry], Value]
    placed: bool = False  # whether `step` asks for the position


Fold = Callable[[Node, int, bool], Running | None]
FOLDS: RuleTable[Fold] = RuleTable("folds that are no monoids")


def running(node: Node, axis: int, backwards: bool) -> Running | None:
    """The fold of a node that reduces the sliced axis of its first input.

    `backwards`: the last slice comes first. None if the node is no such reduction.
    """
    rule, monoid = FOLDS.find(node.primitive), MONOIDS.find(node.primitive)
    if rule is None and monoid is None:
        return None
    params = node.params
    if "axis" in params or "axes" in params:
        along = (params["axis"],) if "axis" in params else params["axes"]
    else:
        along = (axis,)  # of all elements
    if axis not in along:
        return None
    with standing_at(node.place.plain):
        if rule is not None:
            return rule(node, axis, backwards)
        assert monoid is not None
        return _joined(node, axis, monoid)


def picking(node: Node, axis: int, at: Size, last: bool) -> Running:
    """The fold that keeps the slice at one position; `last`: that slice comes last."""

    def step(carry: Carry, row: Value, place: Value) -> Carry:
        found = row_of_picked(node, axis, row)
        return [found if last else F.where(F.equal(place, number), found, carry[0])]

    type = node.outputs[0].type
    with standing_at(node.place.plain):
        number = cast(as_value(size_value(at)), INT32)
        start = F.zeros(type.shape, type.dtype)
    return Running([start], step, lambda carry: carry[0], placed=not last)


def _row_axes(node: Node, axis: int) -> tuple[int, ...]:
    """The axes of a slice that the node reduces too."""
    return tuple(a - (a > axis) for a in node.params["axes"] if a != axis)


def _of_row(node: Node, axis: int, row: Value, monoid: Monoid) -> Value:
    """A slice, reduced along its own axes."""
    axes = _row_axes(node, axis)
    if not axes:
        return monoid.of_one(row)
    more = node.inputs[1:]
    params = {"axes": axes, "keepdims": node.params["keepdims"]}
    found: Value = node.primitive(row, *more, **params)
    return found


def _filled(node: Node, axis: int, number: Any, dtype: DType) -> Value:
    """A number in the shape of the result, without the sliced axis."""
    shape = node.outputs[0].type.shape
    kept = shape[:axis] + shape[axis + 1 :] if node.params["keepdims"] else shape
    fill = number
    if not isinstance(number, Value):
        fill = as_value(np.asarray(number).astype(dtype))
    found: Value = F.full(kept, fill)
    return found


def _whole(node: Node, axis: int, found: Value) -> Value:
    """The result, with the reduced axis where the node keeps it."""
    value: Value = F.expand_dims(found, axis) if node.params["keepdims"] else found
    return value


def _wide(dtype: DType) -> DType:
    """The dtype that accumulates sums of slices: half precision is too coarse."""
    return dtype_of("float32") if is_float(dtype) and dtype.itemsize < 4 else dtype


def _joined(node: Node, axis: int, monoid: Monoid) -> Running | None:
    """Combine each slice with the carry; `max_from` starts from a number of its own."""
    dtype = node.outputs[0].dtype
    if monoid.ordered and dtype.kind == "c":
        return None
    held = _wide(dtype) if monoid.widened else dtype
    number = node.inputs[1] if len(node.inputs) > 1 else monoid.neutral(dtype)
    join = getattr(F, monoid.join)

    def step(carry: Carry, row: Value, place: Value) -> Carry:
        own = cast(row, held) if monoid.widened else row
        return [join(carry[0], _of_row(node, axis, own, monoid))]

    def end(carry: Carry) -> Value:
        return _whole(node, axis, cast(carry[0], dtype))

    return Running([_filled(node, axis, number, held)], step, end)


def _of_all(node: Node, axis: int, backwards: bool) -> Running:
    """A sum over all elements, of a function of each."""
    dtype = node.outputs[0].dtype
    wide = _wide(dtype)

    def step(carry: Carry, row: Value, place: Value) -> Carry:
        own = cast(row, wide) if row.dtype == dtype else row
        return [F.add(carry[0], node.primitive(own))]

    return Running([F.zeros((), wide)], step, lambda carry: cast(carry[0], dtype))


def _peak(node: Node, axis: int, backwards: bool) -> Running:
    """The largest of numbers that are not negative."""

    def step(carry: Carry, row: Value, place: Value) -> Carry:
        return [F.maximum(carry[0], row)]

    type = node.outputs[0].type
    return Running([F.zeros(type.shape, type.dtype)], step, lambda carry: carry[0])


def _position(greater: str, neutral: Callable[[DType], Any]) -> Any:
    """The fold that finds the first largest or smallest element, or the first NaN."""

    def rule(node: Node, axis: int, backwards: bool) -> Running | None:
        dtype = node.inputs[0].dtype
        if dtype.kind == "c":
            return None
        better = getattr(F, greater + "_equal" * backwards)

        def step(carry: Carry, row: Value, place: Value) -> Carry:
            best, at = carry
            won = better(row, best)
            if is_inexact(dtype):
                first = F.isnan(row)
                if not backwards:
                    first = F.logical_and(first, F.logical_not(F.isnan(best)))
                won = F.logical_or(won, first)
            return [F.where(won, row, best), F.where(won, cast(place, at.dtype), at)]

        def end(carry: Carry) -> Value:
            return _whole(node, axis, carry[1])

        best = _filled(node, axis, neutral(dtype), dtype)
        at = _filled(node, axis, 0, node.outputs[0].dtype)
        return Running([best, at], step, end, placed=True)

    return rule


FOLDS.of(OP.sum_of_squares, OP.count_nonzero)(_of_all)
FOLDS.of(OP.peak)(_peak)
FOLDS.of(OP.argmax)(_position("greater", least))
FOLDS.of(OP.argmin)(_position("less", most))
