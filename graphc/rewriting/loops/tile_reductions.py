"""Reductions over a tiled axis: each tile is reduced, and combined with a carry.

Sums are associated in another order, and sums of halves accumulate in single precision.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.ir.build import as_value, cast
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.types import DType, dtype_of, is_float, is_inexact
from graphc.ops.common.monoids import MONOIDS, Monoid, least, most
from graphc.rewriting.loops.access import same_op
from graphc.rewriting.loops.affine_reads import View
from graphc.rewriting.loops.folds import Carry
from graphc.rewriting.loops.stream_reductions import (
    PartsRead,
    Resolve,
    StreamReduction,
    contracted,
)
from graphc.rewriting.sizes import is_wide

OperandAxes = list[int | None]
Joins = Callable[[Value, Value], Value]
LATEST = np.iinfo("int32").max


class Tiling(NamedTuple):
    """The axes of the inputs of a node that a loop cuts in tiles, None for others.

    `length` is that of each; `backwards`: the last tile comes first.
    """

    axes: OperandAxes
    length: Size
    backwards: bool = False


def of_tiles(node: Node, tiling: Tiling) -> StreamReduction | None:
    """The reduction of a node along tiled axes of its inputs.

    None if it reduces none of them.
    """
    monoid = MONOIDS.find(node.primitive)
    if contracted(node):
        return _product(node, tiling)
    if node.primitive in _OF_ALL:
        return _of_all(node, tiling)
    if node.primitive in _POSITIONS:
        return _position(node, tiling)
    if monoid is None or tiling.axes[0] not in node.params["axes"]:
        return None
    if node.inputs[0].dtype.kind == "c" and not monoid.widened:
        return None
    return _reduction(node, tiling, monoid)


def _joined(
    node: Node,
    tiling: Tiling,
    first: Value,
    reduced: Callable[[Sequence[Value]], Value],
    join: Joins,
) -> StreamReduction:
    """Each tile is `reduced`, and the result joined with the carry, first `first`."""
    whole, out = View.whole(tiling.length), node.outputs[0]
    pairs = list(zip(node.inputs, tiling.axes, strict=True))
    places = [(x, whole.along(a)) for x, a in pairs if a is not None]
    needs = [x for x, a in pairs if a is None]

    def start(known: Resolve) -> Carry:
        return [F.full(out.type.shape, known(first))]

    def step(carry: Carry, tiles: PartsRead, number: Value) -> Carry:
        return [join(carry[0], reduced([tiles[place] for place in places]))]

    def end(carry: Carry, known: Resolve) -> Value:
        return cast(carry[0], out.dtype)

    return StreamReduction(places, start, step, end, needs=needs)


def _reduction(node: Node, tiling: Tiling, monoid: Monoid) -> StreamReduction:
    dtype = node.outputs[0].dtype
    from_number = _STARTED.get(node.primitive)
    wide = _wide(dtype) if monoid.widened else dtype
    number = as_value(np.asarray(monoid.neutral(dtype)).astype(wide))
    first = node.inputs[1] if len(node.inputs) > 1 else number
    params = {k: node.params[k] for k in ("axes", "keepdims")}

    def reduced(tiles: Sequence[Value]) -> Value:
        """Reduce a tile, which may be empty."""
        x = tiles[0]
        if from_number is not None:
            made: Value = from_number(x, number, **params)
            return made
        return node.primitive(cast(x, wide) if wide is not dtype else x, **params)

    rest: OperandAxes = [None] * (len(node.inputs) - 1)
    only = tiling._replace(axes=[tiling.axes[0], *rest])
    return _joined(node, only, first, reduced, getattr(F, monoid.join))


def _of_all(node: Node, tiling: Tiling) -> StreamReduction | None:
    """A sum over all elements, of a function of each."""
    dtype = node.outputs[0].dtype
    if tiling.axes[0] is None or _wide(dtype) is not dtype:
        return None

    def reduced(tiles: Sequence[Value]) -> Value:
        return node.primitive(tiles[0])

    return _joined(node, tiling, _zero(dtype), reduced, F.add)


def _product(node: Node, tiling: Tiling) -> StreamReduction | None:
    """A product that contracts an axis of both factors."""
    dtype = node.outputs[0].dtype
    if not is_wide(dtype):
        return None
    for pair in contracted(node):
        pairs = zip(tiling.axes, pair, strict=True)
        if any(a == b for a, b in pairs if a is not None):
            both = tiling._replace(axes=list(pair))
            return _joined(node, both, _zero(dtype), lambda b: same_op(node, b), F.add)
    return None


def _position(node: Node, tiling: Tiling) -> StreamReduction | None:
    """The position of the first largest or smallest element, or of the first NaN."""
    (x,), out, axis = node.inputs, node.outputs[0], tiling.axes[0]
    if axis is None or axis != node.params["axis"] or x.dtype.kind == "c":
        return None
    extreme, better, neutral = _POSITIONS[node.primitive]
    read = x, View.whole(tiling.length).along(axis)
    number = as_value(np.asarray(neutral(x.dtype)).astype(x.dtype))
    along = {"axes": (axis,), "keepdims": node.params["keepdims"]}
    better += "_equal" * tiling.backwards

    def start(known: Resolve) -> Carry:
        shape = out.type.shape
        return [F.full(shape, number), F.zeros(shape, out.dtype)]

    def step(carry: Carry, tiles: PartsRead, first: Value) -> Carry:
        tile, (best, at) = tiles[read], carry
        top = extreme(tile, number, **along)
        found = _first_of(tile, axis, top, along)
        won = getattr(F, better)(top, best)
        if is_inexact(x.dtype):
            sooner = F.isnan(top)
            if not tiling.backwards:
                sooner = F.logical_and(sooner, F.logical_not(F.isnan(best)))
            won = F.logical_or(won, sooner)
        place = cast(F.add(first, found), at.dtype)
        return [F.where(won, top, best), F.where(won, place, at)]

    return StreamReduction([read], start, step, lambda carry, _: carry[1], placed=True)


def _first_of(tile: Value, axis: int, top: Value, along: dict[str, Any]) -> Value:
    """The first position in a tile of its extreme, or of a NaN."""
    whole = top if along["keepdims"] else F.expand_dims(top, axis)
    held = F.equal(tile, whole)
    if is_inexact(tile.dtype):
        held = F.logical_or(held, F.isnan(tile))
    others = tuple(a for a in range(tile.type.rank) if a != axis)
    places = F.expand_dims(F.arange(tile.shape[axis], dtype="int32"), others)
    late = as_value(np.asarray(LATEST, "int32"))
    found: Value = OP.min_from(F.where(held, places, late), late, **along)
    return found


def _zero(dtype: DType) -> Value:
    return as_value(np.zeros((), dtype))


def reduces(node: Node, i: int, axes: Container[int]) -> bool:
    """Whether a node reduces one of these axes of an input."""
    pairs = contracted(node)
    if pairs:
        return any(pair[i] in axes for pair in pairs)
    if i or node.primitive in _OF_ALL:
        return not i
    if node.primitive in _POSITIONS:
        return node.params["axis"] in axes
    return node.primitive in MONOIDS and any(a in axes for a in node.params["axes"])


def _wide(dtype: DType) -> DType:
    """The dtype that accumulates sums of tiles."""
    return dtype_of("float32") if is_float(dtype) and dtype.itemsize < 4 else dtype


_OF_ALL = (OP.sum_of_squares, OP.count_nonzero)
_STARTED = {  # of tiles that may be empty
    **dict.fromkeys((OP.max, OP.max_from), OP.max_from),
    **dict.fromkeys((OP.min, OP.min_from), OP.min_from),
}
_POSITIONS: dict[Primitive, tuple[Primitive, str, Callable[[DType], Any]]] = {
    OP.argmax: (OP.max_from, "greater", least),
    OP.argmin: (OP.min_from, "less", most),
}
POSITIONS = tuple(_POSITIONS)
