"""Ops that join arrays or take them apart."""

from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import cast

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    normal_axis,
    size_value,
    strong,
)
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import AxisParam, NewAxisParam
from graphc.ir.sizes.dims import Dim, Size, equal, less_equal, maximum, minimum
from graphc.ir.types import BOOL, JaxArray, TensorType, is_integer
from graphc.ops.common.axes import at_axis, on_axis, with_rank, with_size
from graphc.ops.common.batching import Batched, batch_with_axes, with_batch
from graphc.ops.common.broadcasting import promoted, require_room
from graphc.ops.common.conditions import BOUNDS, BoundsRule, reporting
from graphc.ops.common.known_integers import repeated_sizes
from graphc.ops.common.padded_reads import as_int32, is_known, read_at
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt


@op()
def _concatenate(*arrays: Array, axis: AxisParam) -> TensorType:
    """The arrays one after another along `axis`; other sizes must agree."""
    return arrays[0].type.like(_common_shape(arrays, axis))


def _common_shape(arrays: Sequence[Value], joined: int | None = None) -> list[Size]:
    """Inside a type rule: the shape of arrays that add up along the axis `joined`."""
    first = arrays[0].type
    if any(a.type.rank != first.rank or a.dtype != first.dtype for a in arrays):
        raise type_error("needs arrays of the same rank and dtype")
    shape = list(first.shape)
    for a in arrays[1:]:
        for i, n in enumerate(a.type.shape):
            if i == joined:
                shape[i] = shape[i] + n
            else:
                shape[i] = require_equal(shape[i], n, f"sizes of axis {i}")
    return shape


_concatenate.rounding = "none"


def joined(jax: ModuleType, arrays: Sequence[JaxArray], axis: int) -> JaxArray:
    """Printed into JAX programs: the arrays joined along an axis, without empty ones.

    XLA ends the process where an empty slice begins at an empty array.
    """
    filled = [a for a in arrays if a.shape[axis]]
    return jax.numpy.concatenate(filled or arrays[:1], axis=axis)


def _print_concatenate(p: Printing) -> str:
    axis, arrays = p.node.params["axis"], ", ".join(p.inputs)
    sizes = [v.type.shape[axis] for v in p.node.inputs]
    if p.xp == "np" or all(less_equal(1, n) is True for n in sizes):
        return f"{p.xp}.concatenate([{arrays}], axis={axis})"
    return p.call(joined, "jax", f"[{arrays}]", f"axis={axis}")


_concatenate.emit(_print_concatenate)
_concatenate.sizes = lambda *arrays, axis: np.concatenate(arrays, axis=axis)
_concatenate.linear = True


@_concatenate.vjp
def _(g: Value, *arrays: Value, axis: int) -> tuple[Value, ...]:
    cotangents: list[Value] = []
    start: Size = 0
    for a in arrays:
        stop = start + a.type.shape[axis]
        cotangents.append(F.specify_shape(F._part(g, axis, start, stop), a.type.shape))
        start = stop
    return tuple(cotangents)


@_concatenate.batch
def _(n: Size, batched: Batched, *arrays: Value, axis: int) -> Value:
    return _concatenate(
        *map(with_batch, [n] * len(arrays), batched, arrays), axis=axis + 1
    )


@_concatenate.padding
def _(pad: Padding, *arrays: PaddedValue, axis: int) -> Rebuilt:
    joined: Value = _concatenate(*(a.value for a in arrays), axis=axis)
    if not any(a.ragged((axis,)) for a in arrays[:-1]):
        last = arrays[-1].fill
        return pad.result(joined, {axis: last[axis]} if axis in last else {})
    # Skip padding in the middle: take each element from where it is stored.
    place = pad.positions(pad.out[axis])
    start: Size = 0
    shift = as_value(np.int32(0))
    for a in arrays[:-1]:
        start = start + a.type.shape[axis]
        behind = place >= as_int32(pad, start)
        n = as_int32(pad, a.type.shape[axis])
        room = F.astype(F.size_value(a.value.type.shape[axis]), "int32")
        shift = shift + F.where(behind, room - n, as_value(np.int32(0)))
    elements: Value = F._gather(joined, place + shift, axes=(axis,), inside=(False,))
    return elements


def _in_one_dtype(arrays: Sequence[ArrayLike], op_name: str) -> list[Value]:
    if not len(arrays):
        raise graph_error("needs at least one array", op=op_name)
    return promoted(*arrays)


@public()
def concatenate(arrays: Sequence[ArrayLike], /, axis: int | None = 0) -> Value:
    """The arrays one after another along an existing axis (None: flattened)."""
    values = _in_one_dtype(arrays, "concatenate")
    if axis is None:
        values, axis = [F.ravel(v) for v in values], 0
    if values[0].type.rank == 0:
        got = ", ".join(str(v.type) for v in values)
        hint = "use gt.stack for scalars"
        if isinstance(axis, Value | np.ndarray):
            hint = "give a list, as gt.concatenate([x, y])"
        raise graph_error("needs an axis", op="concatenate", got=got, hint=hint)
    chosen = normal_axis(axis, values[0].type.rank, "concatenate")
    return values[0] if len(values) == 1 else _concatenate(*values, axis=chosen)


enroll(concatenate, "concat")


@op()
def _stack(*arrays: Array, axis: NewAxisParam) -> TensorType:
    """The arrays along a new axis; their sizes must agree."""
    shape = _common_shape(arrays)
    shape.insert(axis, len(arrays))
    return arrays[0].type.like(shape)


def _print_stack(p: Printing) -> str:
    axis = p.node.params["axis"]
    where = f", axis={axis}" if axis else ""
    if p.node.inputs[0].type.rank or where:
        return f"{p.xp}.stack([{', '.join(p.inputs)}]{where})"
    dtype = p.code(p.node.inputs[0].dtype)
    return f"{p.xp}.array([{', '.join(p.inputs)}], {dtype})"


_stack.rounding = "none"
_stack.emit(_print_stack)
_stack.sizes = lambda *arrays, axis: np.stack(arrays, axis=axis)
_stack.linear = True


@_stack.vjp
def _(g: Value, *arrays: Value, axis: int) -> tuple[Value, ...]:
    parts = [g[at_axis(axis, i)] for i in range(len(arrays))]
    pairs = zip(parts, arrays, strict=True)
    return tuple(F.specify_shape(part, a.type.shape) for part, a in pairs)


@_stack.batch
def _(n: Size, batched: Batched, *arrays: Value, axis: int) -> Value:
    return _stack(*map(with_batch, [n] * len(arrays), batched, arrays), axis=axis + 1)


@_stack.padding
def _(pad: Padding, *arrays: PaddedValue, axis: int) -> Value:
    array: Value = _stack(*(a.value for a in arrays), axis=axis)
    return array


@public()
def stack(arrays: Sequence[ArrayLike], /, axis: int = 0) -> Value:
    """The arrays along a new axis."""
    values = _in_one_dtype(arrays, "stack")
    return _stack(*values, axis=normal_axis(axis, values[0].type.rank + 1, "stack"))


@public()
def split(x: ArrayLike, indices_or_sections: ShapeLike, axis: int = 0) -> list[Value]:
    """Pieces along `axis`: a number of equal ones, or cut before given positions.

    Positions may be integer scalars, or one integer vector of static length.
    """
    value = as_strong_value(x)
    chosen = normal_axis(axis, value.type.rank, "split")
    size = value.shape[chosen]
    cuts: list[Value | int]
    cut_at = indices_or_sections
    is_scalar = isinstance(cut_at, (Value, np.ndarray)) and not cut_at.ndim
    if is_scalar or isinstance(cut_at, (int, float, np.number, Dim)):
        cuts = _equal_cuts(value, chosen, as_size(cut_at, "a number of parts"))
    else:
        cuts = [c if isinstance(c, Value) else _position(c) for c in cut_at]
    bounds = [0, *cuts, size]
    return [value[at_axis(chosen, slice(a, b))] for a, b in pairwise(bounds)]


def _position(cut: SizeLike) -> int | Value:
    return size_value(as_size(cut, "a position"))


def _equal_cuts(value: Value, axis: int, sections: Size) -> list[Value | int]:
    size = value.type.shape[axis]
    if isinstance(sections, Dim):
        problem = "the number of parts must be known when the graph is built"
        raise graph_error(problem, op="split", got=str(sections))
    if sections < 1:
        raise graph_error(f"cannot split into {sections} parts", op="split")
    remainder = size % sections
    if isinstance(remainder, int) and remainder:
        raise graph_error(
            f"axis {axis} of size {size} cannot be split into {sections} equal parts",
            op="split",
            got=str(value.type),
        )
    if isinstance(remainder, Dim):
        hint = "give the positions, or use a static size"
        problem = f"cannot tell whether {size} divides into {sections} equal parts"
        raise graph_error(problem, op="split", got=str(value.type), hint=hint)
    step = value.shape[axis] // sections
    return [step * i for i in range(1, sections)]


@op()
def _tile(x: Array, *, reps: Shape) -> TensorType:
    """The whole array repeated `reps[i]` times along axis i."""
    for r in reps:
        require_at_most(0, r, "a number of repeats must not be negative")
    shape = tuple(n * r for n, r in zip(x.type.shape, reps, strict=True))
    require_room(shape, x.dtype)
    return x.type.like(shape)


_tile.rounding = "none"
_tile.emit("{xp}.tile({x}, {reps})")
_tile.sizes = lambda x, *, reps: np.tile(x, reps)
_tile.linear = True
_tile.batch(lambda n, batched, x, *, reps: _tile(x, reps=(1, *reps)))


@_tile.vjp
def _(g: Value, x: Value, *, reps: Shape) -> tuple[Value]:
    apart = [m for pair in zip(reps, x.type.shape, strict=True) for m in pair]
    copies = tuple(range(0, len(apart), 2))
    return (F.sum(F.reshape(g, apart), axis=copies),)


@_tile.padding
def _(pad: Padding, x: PaddedValue, *, reps: Shape) -> Value:
    alone = [
        axis in x.axes or not is_known(pad, n)
        for axis, n in enumerate(pad.node.params["reps"])
    ]
    pairs = zip(reps, alone, strict=True)
    tiles: Value = _tile(x.value, reps=tuple(1 if flag else n for n, flag in pairs))
    for axis, n in enumerate(x.type.shape):
        if alone[axis]:
            at = pad.positions(pad.out[axis]) % F.maximum(as_int32(pad, n), 1)
            tiles = read_at(tiles, axis, at)
    return tiles


@public()
def tile(x: ArrayLike, reps: ShapeLike, /) -> Value:
    """The whole array repeated along each axis, as `numpy.tile`."""
    value = as_strong_value(x)
    times = as_shape(reps)
    rank = max(len(times), value.type.rank)
    times = (1,) * (rank - len(times)) + times
    return _tile(with_rank(value, rank), reps=times)


@op()
def _repeat(x: Array, *, repeats: Size, axis: AxisParam) -> TensorType:
    """Each element repeated `repeats` times along `axis`."""
    require_at_most(0, repeats, "a number of repeats must not be negative")
    shape = with_size(x.type.shape, axis, x.type.shape[axis] * repeats)
    require_room(shape, x.dtype)
    return x.type.like(shape)


_repeat.rounding = "none"
_repeat.emit("{xp}.repeat({x}, {repeats}, axis={axis})")
_repeat.sizes = lambda x, *, repeats, axis: np.repeat(x, repeats, axis)
_repeat.linear = True
batch_with_axes(_repeat, "axis")


@_repeat.vjp
def _(g: Value, x: Value, *, repeats: Size, axis: int) -> tuple[Value]:
    apart = list(x.type.shape)
    apart.insert(axis + 1, repeats)
    return (F.sum(F.reshape(g, apart), axis=axis + 1),)


@_repeat.padding
def _(pad: Padding, x: PaddedValue, *, repeats: Size, axis: int) -> Value:
    true = pad.node.params["repeats"]
    if is_known(pad, true):
        elements: Value = _repeat(x.value, repeats=repeats, axis=axis)
        return elements
    at = pad.positions(pad.out[axis]) // F.maximum(as_int32(pad, true), 1)
    return read_at(x.value, axis, at)


@op()
def _repeat_counts(
    x: Array, counts: Array, *, total: Size, axis: AxisParam
) -> TensorType:
    """Element i along `axis` repeated counts[i] times, with `total` elements in all."""
    reason = "one count per element"
    require_equal(x.type.shape[axis], counts.type.shape[0], reason)
    require_at_most(0, total, "a number of repeats must not be negative")
    return x.type.like(with_size(x.type.shape, axis, total))


_repeat_counts.emit(
    numpy="np.repeat({x}, {counts}, axis={axis})",
    jax="jnp.repeat({x}, {counts}, axis={axis}, total_repeat_length={total})",
)


def _repeat_checks(node: Node) -> list[tuple[Value, str]]:
    negative = reporting(node.inputs[1] < 0, node.inputs[1])
    return [(negative, "repeat: a count is negative: {}")]


BOUNDS.define(_repeat_counts, BoundsRule(_repeat_checks, "shape"))
_repeat_counts.sizes = repeated_sizes
_repeat_counts.linear = True


@_repeat_counts.vjp
def _(
    g: Value, x: Value, counts: Value, *, total: Size, axis: int
) -> tuple[Value, None]:
    numbers = F.arange(x.shape[axis])
    source = _repeat_counts(numbers, counts, total=total, axis=0)
    zeros = F.zeros_like(x)
    return F._scatter(zeros, g, source, axes=(axis,), how="add", inside=(True,)), None


@_repeat_counts.batch
def _(
    n: Size, batched: Batched, x: Value, counts: Value, *, total: Size, axis: int
) -> Value:
    if batched[1]:
        raise graph_error(
            "the counts differ between examples, and so do the sizes",
            op="repeat",
            got=str(counts.type),
            hint="repeat the flattened examples, or use one count for all",
        )
    return _repeat_counts(x, counts, total=total, axis=axis + 1)


@_repeat_counts.padding
def _(
    pad: Padding, x: PaddedValue, counts: PaddedValue, *, total: Size, axis: int
) -> Value:
    """Read at each place the first element whose repeats reach beyond the place."""
    ends = F.cumsum(pad.filled(counts, (0,), 0))
    places = F.astype(pad.positions(pad.out[axis]), ends.dtype)
    return read_at(x.value, axis, F.searchsorted(ends, places, side="right"))


def _one_per_element(counts: Value, n: Size) -> Value:
    """A vector of `n` counts; at the call, a single count is repeated for all."""
    m = counts.type.shape[0]
    if isinstance(m, int) or equal(m, n):
        return counts
    reason = "one count per element, or one for all"
    several = minimum(1, maximum(m - 1, 1 - m))  # 0 if there is one count, else 1
    counts = F._at_most(m, maximum(1, n), reason, counts, "repeat")
    counts = F._at_most(n * several, m, reason, counts, "repeat")
    places = F.minimum(F.arange(size_value(n)), size_value(m - 1))
    return F._gather(counts, places, axes=(0,), inside=(False,))


@public(method=True)
def repeat(x: ArrayLike, repeats: ArrayLike, /, axis: int | None = None) -> Value:
    """Each element repeated, by one number for all or by a vector of counts.

    A vector with one element counts for all. With counts, the size of the result is
    their sum, which takes one host read where they are not known before the call.
    Counts must not be negative: this is up to the caller, or `check=True` checks it.
    """
    value, chosen = on_axis(x, axis, "repeat")
    number = as_value(repeats)
    if number.type.rank == 0:
        size = as_size(repeats, "a number of repeats")
        if isinstance(size, int) and size < 0:
            raise graph_error(f"negative number of repeats {size}", op="repeat")
        return _repeat(value, repeats=size, axis=chosen)
    counts = F.astype(number, "int64") if number.dtype == BOOL else strong(number)
    if counts.type.rank != 1 or not is_integer(counts.dtype):
        raise graph_error("counts must be an integer vector", op="repeat",
                          got=str(counts.type))
    if equal(counts.type.shape[0], 1):  # it counts for all
        return repeat(value, counts[0], chosen)
    counts = _one_per_element(counts, value.type.shape[chosen])
    total = as_size(F.sum(counts))
    return _repeat_counts(value, counts, total=total, axis=chosen)


@public()
def roll(
    x: ArrayLike, /, shift: ArrayLike, axis: int | tuple[int, ...] | None = None
) -> Value:
    """Elements shifted along `axis`, around its ends, as `numpy.roll`.

    Without an axis, the flattened array is shifted. The shifts may be traced integers,
    as they change no shape. Several axes take one shift, or one each, in a list or a
    vector; an axis that is named twice is shifted by the sum.
    """
    value, shifts = as_strong_value(x), _shift_list(shift)
    if axis is None:
        by = shifts[0] if len(shifts) == 1 else sum(cast("list[Value]", shifts))
        return F.reshape(_roll(F.ravel(value), by, 0), value.shape)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    if 1 not in (len(axes), len(shifts)) and len(axes) != len(shifts):
        got = f"{len(shifts)} shifts for {len(axes)} axes"
        raise graph_error("needs a shift per axis", op="roll", got=got)
    count = max(len(axes), len(shifts))
    axes = axes * count if len(axes) == 1 else axes
    shifts = shifts * count if len(shifts) == 1 else shifts
    for by, along in zip(shifts, axes, strict=True):
        value = _roll(value, by, normal_axis(along, value.type.rank, "roll"))
    return value


def _shift_list(shift: ArrayLike) -> "list[ArrayLike]":
    """The shifts one by one."""
    if isinstance(shift, (tuple, list)):
        return list(shift)
    value = as_value(shift)
    return list(value) if value.type.rank == 1 else [shift]


def _roll(value: Value, shift: ArrayLike, axis: int) -> Value:
    if as_value(shift).type.rank or not is_integer(as_value(shift).dtype):
        got = str(as_value(shift).type)
        raise graph_error("a shift must be an integer", op="roll", got=got)
    n = value.shape[axis]
    positions = (F.arange(n) - shift) % F.maximum(n, 1)
    return F.take(value, positions, axis=axis)
