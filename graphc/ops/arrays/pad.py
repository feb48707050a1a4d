"""Padding around arrays, in all modes of `numpy.pad`."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import (
    Shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    literal_of,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.graph.op import Array, Printing, op, require_at_most, type_error
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size, equal, less_equal, maximum, minimum
from graphc.ir.types import BOOL, ConcreteArray, TensorType, is_integer, same_size
from graphc.ops.common.axes import at_axis, with_size
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.broadcasting import require_room
from graphc.ops.common.known_integers import KnownSizes, is_symbolic
from graphc.ops.common.padded_reads import as_int32, iota, is_known, moved, read_at
from graphc.ops.common.padding import PaddedValue, Padding

WidthPair = tuple[Any, Any]


def _padded_type(x: Value, low: Shape, high: Shape) -> TensorType:
    """Within a type rule: the type of `x` with this many elements around it."""
    sizes = zip(x.type.shape, low, high, strict=True)
    shape = tuple(n + a + b for n, a, b in sizes)
    require_room(shape, x.dtype)
    return x.type.like(shape)


def _may_crop(widths: Shape) -> bool:
    """Whether some width may be negative."""
    return not all(less_equal(0, n) for n in widths)


def _print_widths(p: Printing) -> str:
    low, high = p.node.params["low"], p.node.params["high"]
    return p.code(tuple(zip(low, high, strict=True)))


@op()
def _pad(x: Array, fill: Array, *, low: Shape, high: Shape) -> TensorType:
    """The array with `low[i]` and `high[i]` elements `fill` before and after axis i.

    Negative widths cut elements off, also those that other widths have added.
    """
    if fill.type.rank or fill.dtype != x.dtype:
        raise type_error("needs a scalar of the same dtype to fill with")
    for axis, (n, a, b) in enumerate(zip(x.type.shape, low, high, strict=True)):
        if _may_crop((a, b)):
            reason = f"negative widths crop more than axis {axis} has"
            require_at_most(0, n + a + b, reason)
    return _padded_type(x, low, high)


def _print_pad(p: Printing) -> str:
    widths, (x, fill) = _print_widths(p), p.inputs
    if _may_crop(p.node.params["low"] + p.node.params["high"]):
        return p.call(pad_or_crop, p.xp, x, widths, fill)
    return f"{p.xp}.pad({x}, {widths}, constant_values={fill})"


def _sizes_around(
    x: KnownSizes, fill: KnownSizes, *, low: Shape, high: Shape
) -> KnownSizes:
    if is_symbolic((*low, *high)):
        return None
    widths: Any = list(zip(low, high, strict=True))
    return np.pad(x, widths, constant_values=fill[()])


def pad_or_crop(
    xp: ModuleType, x: ConcreteArray, widths: ConcreteArray, fill: ConcreteArray
) -> ConcreteArray:
    """Printed into programs: pad with `pad`, then cut where a width is negative."""
    around = [(max(a, 0), max(b, 0)) for a, b in widths]
    x = xp.pad(x, around, constant_values=fill)
    ends = zip(x.shape, widths, strict=True)
    return x[tuple([slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in ends])]


_pad.rounding = "none"
_pad.literals = "beside"
_pad.emit(_print_pad)
_pad.sizes = _sizes_around
_pad.linear = True


def _padding_mask(x: Value, low: Shape, high: Shape) -> Value:
    """A mask of the elements that padding has added around an array."""
    inside = F.zeros(x.type.shape, BOOL)
    return _pad(inside, as_value(np.True_), low=low, high=high)


@_pad.vjp
def _(
    g: Value, x: Value, fill: Value, *, low: Shape, high: Shape
) -> tuple[Value | None, ...]:
    middle = g
    if _may_crop(low + high):
        low_, high_ = (tuple(-n for n in widths) for widths in (low, high))
        middle = _pad(g, cast(as_value(0), g.dtype), low=low_, high=high_)
    else:
        for axis, (n, start) in enumerate(zip(x.type.shape, low, strict=True)):
            middle = F._part(middle, axis, start, start + n)
    middle = F.specify_shape(middle, x.type.shape)
    if literal_of(fill) is not None:
        return middle, None
    return middle, F.sum(F.where(_padding_mask(x, low, high), g, F.zeros_like(g)))


@_pad.batch
def _(
    n: Size, batched: Batched, x: Value, fill: Value, *, low: Shape, high: Shape
) -> Value:
    if not batched[1]:
        return _pad(x, fill, low=(0, *low), high=(0, *high))
    many = with_batch(n, batched[0], x)
    low, high = (0, *low), (0, *high)
    column = F.expand_dims(fill, tuple(range(1, many.type.rank)))
    padded = _pad(many, cast(as_value(0), x.dtype), low=low, high=high)
    return F.where(_padding_mask(many, low, high), column, padded)


@_pad.padding
def _(
    pad: Padding, x: PaddedValue, fill: PaddedValue, *, low: Shape, high: Shape
) -> PaddedValue:
    literal, last = literal_of(fill.value), list(high)
    value = x.value
    if literal is not None:
        value = pad.filled(x, x.axes, literal)
    elif x.axes:
        value = F.where(pad.inside(x, sorted(x.axes)), value, fill.value)
    first = list(low)
    for axis, n in enumerate(x.type.shape):
        size, a = pad.stored(pad.out[axis]), pad.node.params["low"][axis]
        whole = value.type.shape[axis] + low[axis] + high[axis]
        if same_size(a, 0) and equal(value.type.shape[axis], size) is True:
            first[axis] = last[axis] = 0  # elements added behind fall into the padding
        elif not is_known(pad, a) or equal(whole, size) is not True:
            start = as_int32(pad, a)
            value = moved(pad, value, axis, n, start, size, fill.value)
            first[axis] = last[axis] = 0
    padded_array = _pad(value, fill.value, low=tuple(first), high=tuple(last))
    if literal is None:
        return pad.result(padded_array, {})
    ends = enumerate(pad.node.params["high"])  # elements cut off stay in padding
    return pad.result(padded_array, {a: literal for a, n in ends if less_equal(0, n)})


Around = Literal["edge", "wrap", "reflect", "symmetric"]


@op()
def _pad_from(
    x: Array, *, low: Shape, high: Shape, mode: Around, odd: bool
) -> TensorType:
    """The array with its own elements around it, as this mode of `numpy.pad` does."""
    for n, a, b in zip(x.type.shape, low, high, strict=True):
        for width in (a, b):
            require_at_most(0, width, "a pad width must not be negative")
        reason = f"no element to pad with in mode {mode!r}"
        require_at_most(minimum(1, a + b), n, reason)
    return _padded_type(x, low, high)


def _print_pad_from(p: Printing) -> str:
    mode = p.code(p.node.params["mode"])
    odd = ', reflect_type="odd"' if p.node.params["odd"] else ""
    return f"{p.xp}.pad({p.inputs[0]}, {_print_widths(p)}, {mode}{odd})"


_pad_from.rounding = "none"
_pad_from.emit(_print_pad_from)


@_pad_from.vjp
def _(
    g: Value, x: Value, *, low: Shape, high: Shape, mode: str, odd: bool
) -> tuple[Value]:
    # Axis by axis: the padded array is a linear map of every line along an axis.
    for axis, (n, a, b) in enumerate(zip(x.type.shape, low, high, strict=True)):
        if not (same_size(a, 0) and same_size(b, 0)):
            g = _fold_padding_in(g, axis, n, (a, b), mode, odd)
    return (g,)


def _fold_padding_in(
    g: Value, axis: int, n: Size, width: tuple[Size, Size], mode: str, odd: bool
) -> Value:
    """The cotangent of the elements of an axis, from one that includes the padding."""
    numbers = F.arange(size_value(n))
    low, high = (width[0],), (width[1],)
    source = _pad_from(numbers, low=low, high=high, mode=mode, odd=False)
    zeros = F.zeros(with_size(g.type.shape, axis, n), g.dtype)
    if not odd:
        return _add_at(zeros, g, source, axis)
    # An odd reflection of an element r is 2 e - r, with e the edge between them. Two
    # reflections move it by twice the difference of both edges.
    behind = (1,) * (g.type.rank - axis - 1)
    place = F.arange(size_value(width[0] + n + width[1])) - size_value(width[0])
    period = F.maximum(n - 1 if mode == "reflect" else n, 1)
    turns, offset = place // (2 * period), place % (2 * period)
    turned = offset > period if mode == "reflect" else offset >= period
    first, last, sign = -2 * turns, 2 * turns + 2 * turned, 1 - 2 * turned
    weights = [F.reshape(w, (-1, *behind)) for w in (sign, first, last)]
    signed_g, begin, end = (g * cast(w, g.dtype) for w in weights)
    numbers = F.reshape(numbers, (n, *behind))
    begin, end = (F.sum(w, axis=axis, keepdims=True) for w in (begin, end))
    edges = F.where(F.equal(numbers, 0), begin, F.zeros_like(begin))
    edges = edges + F.where(F.equal(numbers, n - 1), end, F.zeros_like(end))
    return _add_at(zeros, signed_g, source, axis) + edges


def _add_at(x: Value, v: Value, places: Value, axis: int) -> Value:
    return F._scatter(x, v, places, axes=(axis,), how="add", inside=(True,))


@_pad_from.batch
def _(n: Size, batched: Batched, x: Value, **params: Any) -> Value:
    widths = {name: (0, *params[name]) for name in ("low", "high")}
    return _pad_from(x, **(params | widths))


@_pad_from.padding
def _(
    pad: Padding, x: PaddedValue, *, low: Shape, high: Shape, mode: str, odd: bool
) -> Value | None:
    if odd:
        return None
    value, widths = x.value, pad.node.params
    for axis, n in enumerate(x.type.shape):
        a, b = widths["low"][axis], widths["high"][axis]
        if not (same_size(a, 0) and same_size(b, 0)):
            at = iota(pad.stored(pad.out[axis])) - as_int32(pad, a)
            value = read_at(value, axis, _source_index(at, as_int32(pad, n), mode))
    return value


def _source_index(at: Value, n: Value, mode: str) -> Value:
    """The index of one of `n` elements for a position that may be outside of them."""
    last = F.maximum(n - 1, 0)
    if mode == "edge":
        return F.clip(at, 0, last)
    if mode == "wrap":
        return at % F.maximum(n, 1)
    period = F.maximum(2 * last if mode == "reflect" else 2 * n, 1)
    turned = period - (mode == "symmetric")
    place = at % period
    return F.minimum(place, turned - place)


STATISTICS = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}
OPTIONS = {
    "constant": {"constant_values"},
    "edge": set(),
    "empty": set(),
    "linear_ramp": {"end_values"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
} | {mode: {"stat_length"} for mode in STATISTICS}


@public()
def pad(x: ArrayLike, pad_width: Any, mode: str = "constant", **options: Any) -> Value:
    """The array with elements around it, as `numpy.pad`; widths may be symbolic.

    All modes are supported except functions, with `constant_values`, `end_values`,
    `stat_length` and `reflect_type`. "empty", which promises nothing, gives zeros. In
    modes "constant" and "empty", negative widths crop after padding, as in
    `jax.lax.pad`.
    """
    value = as_strong_value(x)
    _check_options(mode, options)
    pairs = _widths(pad_width, value.type.rank)
    if not pairs:
        return value
    low, high = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    if mode in ("constant", "empty"):
        constants = options.get("constant_values", 0)
        return _with_constants(value, low, high, constants)
    _refuse_negative(mode, (*low, *high))
    if mode == "linear_ramp":
        return _with_ramps(value, pairs, options.get("end_values", 0))
    if mode in STATISTICS:
        return _with_statistics(value, pairs, mode, options.get("stat_length"))
    odd = options.get("reflect_type", "even") == "odd"
    if odd and value.dtype == BOOL:
        raise graph_error("bools have no odd reflection", op="pad")
    return _pad_from(value, low=low, high=high, mode=mode, odd=odd)


def _check_options(mode: str, options: Params) -> None:
    if callable(mode):
        hint = "name a mode, or build the parts and use gt.concatenate"
        problem = "a function cannot be a mode: it writes into its argument"
        raise graph_error(problem, op="pad", hint=hint)
    if mode not in OPTIONS:
        expected = ", ".join(OPTIONS)
        raise graph_error(f"unknown mode {mode!r}", op="pad", expected=expected)
    other = sorted(set(options) - OPTIONS[mode])
    if other:
        raise graph_error(f"mode {mode!r} does not take {other[0]!r}", op="pad")
    if options.get("reflect_type", "even") not in ("even", "odd"):
        raise graph_error("reflect_type must be 'even' or 'odd'", op="pad")


def _widths(widths: Value, rank: int) -> list[tuple[Size, Size]]:
    """The widths before and after each axis, from any form that NumPy accepts."""
    if isinstance(widths, dict):
        axis_widths: list[Any] = [(0, 0)] * rank
        for axis, width in widths.items():
            axis_widths[normal_axis(axis, rank, "pad")] = _pairs(width, 1, "a width")[0]
        pairs = axis_widths
    else:
        pairs = _pairs(widths, rank, "a width")
    return [(as_size(a, "a pad width"), as_size(b, "a pad width")) for a, b in pairs]


def _refuse_negative(mode: str, widths: Shape) -> None:
    for n in widths:
        if less_equal(n, -1):
            hint = "only mode 'constant' crops; slice first, x[1:-1]"
            problem = f"negative pad width {n} in mode {mode!r}"
            raise graph_error(problem, op="pad", hint=hint)


def _as_lists(x: ArrayLike) -> object:
    """Nested lists of numbers or values; a symbolic vector as a list of its items."""
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, Value) and x.type.rank:
        return [_as_lists(item) for item in x]
    return [_as_lists(item) for item in x] if isinstance(x, (list, tuple)) else x


def _pairs(widths: ArrayLike, rank: int, what: str) -> list[WidthPair]:
    """One pair per axis, from NumPy's forms: a number, a pair, or a pair per axis."""
    items = _as_lists(widths)
    if not isinstance(items, list):
        return [(items, items)] * rank
    if not any(isinstance(item, list) for item in items):
        items = [items]
    rows = [row if isinstance(row, list) else [row] for row in items]
    if len(rows) not in (1, rank) or any(len(row) not in (1, 2) for row in rows):
        expected = f"{what}, a pair, or a pair for each of {rank} axes"
        raise graph_error("cannot be broadcast", op="pad", expected=expected)
    pairs = [(row[0], row[-1]) for row in rows]
    return pairs * rank if len(rows) == 1 else pairs


def _with_constants(value: Value, low: Shape, high: Shape, constants: Value) -> Value:
    pairs = _pairs(constants, value.type.rank, "a constant")
    fills = [tuple(cast(as_value(c), value.dtype) for c in pair) for pair in pairs]
    for fill in (fill for pair in fills for fill in pair):
        if fill.type.rank:
            got = str(fill.type)
            raise graph_error("a constant must be a number", op="pad", got=got)
    first = fills[0][0]
    if all(fill is first for pair in fills for fill in pair):
        return _pad(value, first, low=low, high=high)
    nothing, zero = (0,) * value.type.rank, cast(as_value(0), value.dtype)
    (low, cut_low), (high, cut_high) = map(_split_by_sign, (low, high))
    for axis, (before, after) in enumerate(fills):
        value = _pad(value, before, low=_widths_along(low, axis), high=nothing)
        value = _pad(value, after, low=nothing, high=_widths_along(high, axis))
    return _pad(value, zero, low=cut_low, high=cut_high)


def _split_by_sign(widths: Shape) -> tuple[Shape, Shape]:
    """The widths that add elements and those that cut them off, with 0 elsewhere."""
    return tuple(maximum(0, n) for n in widths), tuple(minimum(0, n) for n in widths)


def _widths_along(widths: Shape, axis: int) -> Shape:
    return tuple(n if i == axis else 0 for i, n in enumerate(widths))


Sides = Callable[[Value, int], tuple[Value | None, Value | None]]


def _pad_by_axis(value: Value, sides: Sides) -> Value:
    """Add the parts from `sides` before and after each axis in turn, corners last."""
    for axis in range(value.type.rank):
        before, after = sides(value, axis)
        parts = [p for p in (before, value, after) if p is not None]
        value = F.concatenate(parts, axis=axis)
    return value


def _with_ramps(
    value: Value, pairs: list[tuple[Size, Size]], end_values: ArrayLike
) -> Value:
    ends = _pairs(end_values, value.type.rank, "an end value")

    def sides(x: Value, axis: int) -> tuple[Value | None, Value | None]:
        (low, high), (first, last) = pairs[axis], ends[axis]
        needed = minimum(1, low + high)
        problem = "an empty axis has no edge"
        x = F._at_most(needed, x.type.shape[axis], problem, x, "pad")
        head, tail = x[at_axis(axis, slice(0, 1))], x[at_axis(axis, slice(-1, None))]
        return _ramp(head, axis, first, low), _ramp(tail, axis, last, high, True)

    return _pad_by_axis(value, sides)


def _ramp(
    edge: Value, axis: int, end: ArrayLike, width: Size, backwards: bool = False
) -> Value | None:
    """`width` elements from `end` towards the edge, or from the edge to `end`."""
    if same_size(width, 0):
        return None
    start = cast(as_value(end), edge.dtype)
    one = F.squeeze(F.specify_shape(edge, with_size(edge.type.shape, axis, 1)), axis)
    ramp = F.linspace(
        start, one, size_value(width), endpoint=False, axis=axis, dtype=edge.dtype
    )
    return F.flip(ramp, axis) if backwards else ramp


def _with_statistics(
    value: Value, pairs: list[tuple[Size, Size]], mode: str, stat_length: Any
) -> Value:
    lengths = _pairs(stat_length, value.type.rank, "a length")
    least = 0 if mode in ("mean", "median") else 1  # of no elements, both are NaN

    def sides(x: Value, axis: int) -> tuple[Value | None, Value | None]:
        n, low, high = x.type.shape[axis], *pairs[axis]
        problem = f"an empty axis has no {mode}"
        x = F._at_most(minimum(1, low + high), n, problem, x, "pad")
        for count in lengths[axis]:
            if count is not None:
                problem = "stat_length must be at least 1"
                x = F._at_most(least, as_size(count), problem, x, "pad")
        counts = [n if c is None else minimum(as_size(c), n) for c in lengths[axis]]
        head = x[at_axis(axis, slice(None, size_value(counts[0])))]
        tail = x[at_axis(axis, slice(size_value(n - counts[1]), None))]
        return _repeat_part(head, axis, mode, low), _repeat_part(tail, axis, mode, high)

    return _pad_by_axis(value, sides)


def _repeat_part(part: Value, axis: int, mode: str, width: Size) -> Value | None:
    """A statistic of part of the array, repeated `width` times."""
    if same_size(width, 0):
        return None
    statistic = getattr(F, STATISTICS[mode])(part, axis=axis, keepdims=True)
    if is_integer(part.dtype):
        statistic = F.rint(statistic) if statistic.dtype != part.dtype else statistic
    shape = with_size(part.type.shape, axis, width)
    return F.broadcast_to(cast(statistic, part.dtype), shape)
