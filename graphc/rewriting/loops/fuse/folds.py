"""Folds: reductions along an axis whose parts a loop computes one after another.

A tile is reduced first, and a slice along its other axes; the result is joined with a
carry. Sums are associated in another order, and sums of halves accumulate in float32.
"""

from collections.abc import Callable, Container, Mapping

import numpy as np

from graphc.errors import standing_at
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.types import DType, dtype_of, is_float, is_inexact
from graphc.ops.common.monoids import MONOIDS, Element, Monoid, least, most, scalar
from graphc.rewriting.loops.find.access import part_shape, reapply, without_axis
from graphc.rewriting.loops.find.affine_reads import ALL, Stream, View
from graphc.rewriting.loops.find.contractions import contracted_axes, product_of_parts
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carry,
    PartsRead,
    StreamReduction,
)

Fold = Callable[[Node, PartPlace, Stream], StreamReduction | None]
FOLDS: RuleTable[Fold] = RuleTable("folds that are not monoids")
LATEST = np.iinfo("int32").max
_WITH_START = {  # of tiles that may be empty
    **dict.fromkeys((OP.max, OP.max_from), OP.max_from),
    **dict.fromkeys((OP.min, OP.min_from), OP.min_from),
}


def fold_of(node: Node, view: View, stream: Stream) -> StreamReduction | None:
    """Return the fold of a node that reduces the streamed axis of its first operand.

    None if the node is no such reduction.
    """
    if not reduces_axis(node, 0, (view.axis,)) or contracted_axes(node):
        return None
    rule, place = FOLDS.find(node.primitive), (node.inputs[0], view)
    with standing_at(node.place.plain):
        if rule is not None:
            reduction = rule(node, place, stream)
        else:
            reduction = _monoid_fold(node, place, stream)
        if reduction is None:
            return None
        return reduction.by_iterations(view, stream.length)


def reduces_axis(node: Node, i: int, axes: Container[int]) -> bool:
    """Whether a node reduces one of these axes of its i-th operand."""
    pairs = contracted_axes(node)
    if pairs:
        return any(pair[i] in axes for pair in pairs)
    if i or not (node.primitive in FOLDS or node.primitive in MONOIDS):
        return False
    params = node.params
    if "axis" in params:
        return params["axis"] in axes
    return "axes" not in params or any(a in axes for a in params["axes"])


def fold_of_product(
    node: Node, i: int, views: tuple[View, View], stream: Stream
) -> StreamReduction:
    """Return the reduction of a product that sums along its i-th pair of axes."""
    x, y = zip(node.inputs, views, strict=True)
    type = node.outputs[0].type

    def step(carry: Carry, parts: PartsRead, number: Value) -> Carry:
        term = product_of_parts(node, i, [parts[x], parts[y]], stream.tiled)
        return [F.add(carry[0], term)]

    def start(known: Resolve) -> Carry:
        return [F.zeros(type.shape, type.dtype)]

    reduction = StreamReduction([x, y], start, step, _first_carry)
    return reduction.by_iterations(views[0], stream.length)


def _first_carry(carry: Carry, known: Resolve) -> Value:
    return carry[0]


def _fill_reduced(node: Node, place: PartPlace, stream: Stream, number: Value) -> Value:
    """Fill the shape of the reduced parts with a number."""
    shape = node.outputs[0].type.shape
    if node.params["keepdims"]:
        shape = part_shape(shape, place[1].axis, stream.one)
    return F.full(shape, number)


def _with_kept_axis(
    node: Node, place: PartPlace, stream: Stream, reduced: Value
) -> Value:
    """Return the result, with the reduced axis inserted where the node keeps it."""
    if stream.tiled or not node.params["keepdims"]:
        return reduced
    return F.expand_dims(reduced, place[1].axis)


def _accumulator_dtype(dtype: DType) -> DType:
    """Return the dtype that accumulates sums of parts: half precision is too coarse."""
    return dtype_of("float32") if is_float(dtype) and dtype.itemsize < 4 else dtype


def _monoid_fold(
    node: Node, place: PartPlace, stream: Stream
) -> StreamReduction | None:
    """Join each part with the carry; `max_from` starts from a number of its own."""
    monoid, dtype = MONOIDS.rules[node.primitive], node.outputs[0].dtype
    if monoid.ordered and dtype.kind == "c":
        return None
    accumulator = _accumulator_dtype(dtype) if monoid.widened else dtype
    neutral = scalar(monoid.neutral(dtype), accumulator)
    starts = node.inputs[1:]
    join = getattr(F, monoid.join)

    def start(known: Resolve) -> Carry:
        number = known(starts[0]) if starts else neutral
        return [_fill_reduced(node, place, stream, number)]

    def step(carry: Carry, parts: PartsRead, number: Value) -> Carry:
        slice_ = cast(parts[place], accumulator) if monoid.widened else parts[place]
        if stream.tiled:
            return [join(carry[0], _reduce_tile(node, slice_, neutral))]
        return [join(carry[0], _reduce_slice(node, place[1].axis, slice_, monoid))]

    def end(carry: Carry, known: Resolve) -> Value:
        return _with_kept_axis(node, place, stream, cast(carry[0], dtype))

    return StreamReduction([place, *((x, ALL) for x in starts)], start, step, end)


def _reduce_tile(node: Node, tile: Value, neutral: Value) -> Value:
    """Reduce a tile, which may be empty."""
    with_start = _WITH_START.get(node.primitive)
    params = {k: node.params[k] for k in ("axes", "keepdims")}
    more = (neutral,) if with_start else ()
    return (with_start or node.primitive)(tile, *more, **params)


def _reduce_slice(node: Node, axis: int, row: Value, monoid: Monoid) -> Value:
    """Reduce a slice along its own axes."""
    axes = without_axis(node.params["axes"], axis)
    if not axes:
        return monoid.of_one(row)
    params = {"axes": axes, "keepdims": node.params["keepdims"]}
    return node.primitive(row, *node.inputs[1:], **params)


def _total_fold(node: Node, place: PartPlace, stream: Stream) -> StreamReduction:
    """Fold a sum over all elements of a function of each element."""
    dtype = node.outputs[0].dtype
    wide = _accumulator_dtype(dtype)

    def step(carry: Carry, parts: PartsRead, number: Value) -> Carry:
        slice_ = parts[place]
        slice_ = cast(slice_, wide) if slice_.dtype == dtype else slice_
        return [F.add(carry[0], node.primitive(slice_))]

    def end(carry: Carry, known: Resolve) -> Value:
        return cast(carry[0], dtype)

    return StreamReduction([place], lambda _: [F.zeros((), wide)], step, end)


def _peak_fold(node: Node, place: PartPlace, stream: Stream) -> StreamReduction:
    """Fold the largest of numbers that are not negative, starting from 0."""
    type = node.outputs[0].type

    def step(carry: Carry, parts: PartsRead, number: Value) -> Carry:
        part = parts[place]
        return [F.maximum(carry[0], reapply(node, [part]) if stream.tiled else part)]

    def start(known: Resolve) -> Carry:
        return [F.zeros(type.shape, type.dtype)]

    return StreamReduction([place], start, step, _first_carry)


def _position_fold(
    extreme: Primitive, greater: str, neutral: Callable[[DType], Element]
) -> Fold:
    """Make the fold that finds the first largest or smallest element, or NaN."""

    def rule(node: Node, place: PartPlace, stream: Stream) -> StreamReduction | None:
        dtype, axis = node.inputs[0].dtype, place[1].axis
        if dtype.kind == "c":
            return None
        number = scalar(neutral(dtype), dtype)
        last_first = stream.backwards is (place[1].step > 0)
        better = getattr(F, greater + "_equal" * last_first)
        along = {"axes": (axis,), "keepdims": node.params["keepdims"]}

        def of_part(part: Value, first: Value) -> tuple[Value, Value]:
            """Return the extreme of a part, and its position."""
            if not stream.tiled:
                return part, first
            top = extreme(part, number, **along)
            return top, F.add(first, _first_position(part, axis, top, along))

        def step(carry: Carry, parts: PartsRead, first: Value) -> Carry:
            (best, at), (top, position) = carry, of_part(parts[place], first)
            is_better = better(top, best)
            if is_inexact(dtype):
                is_nan = F.isnan(top)
                if not last_first:
                    is_nan = F.logical_and(is_nan, F.logical_not(F.isnan(best)))
                is_better = F.logical_or(is_better, is_nan)
            best = F.where(is_better, top, best)
            return [best, F.where(is_better, cast(position, at.dtype), at)]

        def start(known: Resolve) -> Carry:
            firsts = number, scalar(0, node.outputs[0].dtype)
            return [_fill_reduced(node, place, stream, first) for first in firsts]

        def end(carry: Carry, known: Resolve) -> Value:
            return _with_kept_axis(node, place, stream, carry[1])

        return StreamReduction([place], start, step, end, placed=True)

    return rule


def _first_position(
    tile: Value, axis: int, top: Value, along: Mapping[str, object]
) -> Value:
    """Return the first position in a tile of its extreme, or of a NaN."""
    whole = top if along["keepdims"] else F.expand_dims(top, axis)
    is_extreme = F.equal(tile, whole)
    if is_inexact(tile.dtype):
        is_extreme = F.logical_or(is_extreme, F.isnan(tile))
    others = tuple(a for a in range(tile.type.rank) if a != axis)
    places = F.expand_dims(F.arange(tile.shape[axis], dtype="int32"), others)
    latest = as_value(np.asarray(LATEST, "int32"))
    return OP.min_from(F.where(is_extreme, places, latest), latest, **along)


FOLDS.of(OP.sum_of_squares, OP.count_nonzero)(_total_fold)
FOLDS.of(OP.peak)(_peak_fold)
FOLDS.of(OP.argmax)(_position_fold(OP.max_from, "greater", least))
FOLDS.of(OP.argmin)(_position_fold(OP.min_from, "less", most))
POSITIONS = (OP.argmax, OP.argmin)
