"""A user's index, sorted out: basic items, index arrays, and dynamic starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeGuard

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, IndexLike
from graphc.ir.graph.build import as_size, as_strong_value, as_value, cast, literal_of
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.graph.op import require_at_most
from graphc.ir.namespace import F
from graphc.ir.params.concrete import described_value
from graphc.ir.params.kinds import Letters
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import BOOL, INT32, NDArray, is_integer

SliceBound = Size | None
Bounds = tuple[SliceBound, ...]
Kinds = Annotated[str, Letters("[ins]*", "letters i, n and s")]  # see basic_index
UpdateKind = Literal[
    "set", "add", "multiply", "min", "max"
]  # an element takes a new one
BasicItem = tuple[
    str, SliceBound, SliceBound, SliceBound
]  # "s", "i" or "n"; start, stop, step
DIVIDER = object()  # an ellipsis of no axes between index arrays
FULL_ITEM: BasicItem = ("s", None, None, None)


def is_adjacent(axes: tuple[int, ...]) -> bool:
    """Whether index arrays at `axes` leave their axes in place; else these go first."""
    return axes == tuple(range(axes[0], axes[0] + len(axes)))


def first_of_points(axes: tuple[int, ...]) -> int:
    """The first axis that index arrays at `axes` have in the result."""
    return axes[0] if is_adjacent(axes) else 0


@dataclass(frozen=True)
class Index:
    """A user's index, sorted out: basic items, then arrays at axes of their result.

    `divider` is the number of axes behind a new axis that only keeps arrays apart.
    """

    items: tuple[BasicItem, ...]
    arrays: tuple[Value, ...]
    axes: tuple[int, ...]
    dynamic: tuple[tuple[int, Value, int], ...]  # axis, start, length
    inside: tuple[bool, ...]  # per array: whether it cannot leave its axis
    divider: int | None = None


def is_mask(item: object) -> TypeGuard[Value]:
    """Whether an item of an index is a bool array."""
    return isinstance(item, Value) and item.dtype == BOOL


_FIELDS = "pass a dict of arrays, and index that"


def _as_items(index: IndexLike) -> list[object]:
    """The index as a list, with arrays as values and the ellipsis unresolved."""
    items = list(index) if isinstance(index, tuple) else [index]
    return [as_item(item) for item in items]


def as_item(item: object) -> object:
    """An item of an index, with arrays as values; raises GraphError for other kinds."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_)):
        return int(item)
    if isinstance(item, Dim):
        return as_value(item)
    if isinstance(item, list) and not item:
        return as_value(np.zeros(0, dtype="int64"))
    if isinstance(item, str):
        raise graph_error(
            "an array has no fields", op="index", got=repr(item), hint=_FIELDS
        )
    value = as_strong_value(item) if not isinstance(item, Value) else item
    if value.dtype != BOOL and not is_integer(value.dtype):
        raise graph_error(
            "indices must be integers, slices, None, ... or bool arrays",
            op="index",
            got=str(value.type),
            hint='convert it: index.astype("int64"), or int(i) for a number',
        )
    return value


def _axes_consumed(item: object) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.type.rank if is_mask(item) else 1


def _write_out_ellipsis(x: Value, items: list[object]) -> list[object]:
    """The items with the ellipsis written out, one per axis and new axis."""
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise graph_error("an index can have only one ellipsis", op="index")
    missing = x.type.rank - sum(map(_axes_consumed, items))
    if missing < 0:
        raise graph_error(
            "too many indices", op="index", got=f"{len(items)} for {x.type}"
        )
    at = dots[0] if dots else len(items)
    divided = dots and not missing and _is_divided(items[:at], items[at + 1 :])
    between = [DIVIDER] if divided else [slice(None)] * missing
    return items[:at] + between + items[at + 1 :]


def _is_divided(before: Sequence[object], after: Sequence[object]) -> bool:
    """Whether an ellipsis of no axes stands between index arrays.

    NumPy then puts their axes first, as if a slice stood between them.
    """
    first, last = ([i for i in s if not _keeps_axis(i)] for s in (before, after))
    arrays = [i for i in (*first, *last) if _is_array(i) and i.type.rank]
    return bool(first and last and arrays)


def _keeps_axis(item: object) -> bool:
    return item is None or isinstance(item, slice)


def _host_size(item: object) -> Size | None:
    """A scalar index as a size, if it is known from shapes alone."""
    if isinstance(item, int):
        return item
    if isinstance(item, Value) and item.type.rank == 0 and item.dtype != BOOL:
        size = as_size(item)
        if not origins(size):
            return size
    return None


def parse_index(x: Value, index: IndexLike) -> Index:
    """Sort out an index for `x`; raises GraphError where NumPy would.

    Integers known from shapes are basic items, unless arrays stand beside them.
    """
    expanded = _write_out_ellipsis(x, _as_items(index))
    advanced = any(_is_array(item) for item in expanded)
    items: list[BasicItem] = []
    arrays: list[Value] = []
    axes: list[int] = []
    dynamic: list[tuple[int, Value, int]] = []
    inside: list[bool] = []
    axis = out = 0
    for item in expanded:
        n = x.type.shape[axis : axis + 1]
        if item is None or item is DIVIDER:
            items.append(("n", None, None, None))
            out += 1
        elif isinstance(item, slice):
            parsed_item = _slice_item(item)
            if len(parsed_item) == 2:
                dynamic.append((out, *parsed_item))
                parsed_item = FULL_ITEM
            items.append(parsed_item)
            axis, out = axis + 1, out + 1
        elif is_mask(item) and item.type.rank == 0:
            arrays.append(_whole_or_nothing(x, item, expanded))
            inside.append(True)
            axes.append(out)
            items.append(("n", None, None, None))
            out += 1
        elif is_mask(item):
            arrays += _mask_positions(x, item, axis)
            inside += [True] * item.type.rank
            axes += range(out, out + item.type.rank)
            items += [FULL_ITEM] * item.type.rank
            axis, out = axis + item.type.rank, out + item.type.rank
        elif not advanced and (size := _host_size(item)) is not None:
            _check_constant(size, n[0], x)
            items.append(("i", size, None, None))
            axis += 1
        else:
            value = as_strong_value(item)
            inside.append(_check_array(value, n[0], x))
            arrays.append(widened(value))
            axes.append(out)
            items.append(FULL_ITEM)
            axis, out = axis + 1, out + 1
    at = [i for i, item in enumerate(expanded) if item is DIVIDER]
    divider = sum(map(_keeps_axis, expanded[at[0] + 1 :])) if at else None
    return Index(
        tuple(items), tuple(arrays), tuple(axes), tuple(dynamic), tuple(inside), divider
    )


def _is_array(item: object) -> TypeGuard[Value]:
    return isinstance(item, Value) and (item.type.rank > 0 or item.dtype == BOOL)


def _within_int64(bound: object) -> object:
    """Clip a bound beyond all axes to int64: slices are cut to their axis anyway."""
    return max(min(bound, 2**63 - 1), -(2**63)) if type(bound) is int else bound


def _slice_item(item: slice) -> BasicItem | tuple[Value, int]:
    """A slice as a basic item, or as a dynamic start with a constant length."""
    start, stop = (
        None if b is None else as_size(_within_int64(b), "a slice bound")
        for b in (item.start, item.stop)
    )
    step = None if item.step is None else as_size(item.step, "a slice step")
    if isinstance(step, int) and step == 0:
        raise graph_error("a slice step cannot be 0", op="index")
    step = None if isinstance(step, int) and step == 1 else step
    if step is None and start is not None and stop is not None:
        length = _length(item, start, stop)
        if origins(start) and isinstance(length, int) and length >= 0:
            return as_value(item.start), length
    return ("s", start, stop, step)


def _length(item: slice, start: Size, stop: Size) -> Size:
    """The distance of two bounds, even of bounds that are not known before the call.

    The window `i : i + 2` has two elements wherever it starts. If `i + 2` wraps around
    in its dtype, so that no size follows from `i`, that does not matter: a window that
    starts so far out moves inside.
    """
    bounds = item.start, item.stop
    (first, before), (last, after) = map(without_offset, bounds)
    return after - before if first is last and first is not None else stop - start


def without_offset(bound: ArrayLike | None) -> tuple[Value | None, Size]:
    """A value, and the sum of the constants that were added to it to make `bound`."""
    value, distance = bound if isinstance(bound, Value) else None, 0
    while value is not None and value.node.primitive in (OP.add, OP.subtract):
        sign = 1 if value.node.primitive is OP.add else -1
        left, right = value.node.inputs
        constant = literal_of(right)
        if constant is None and sign == 1:
            left, constant = right, literal_of(left)
        if constant is None or constant.size != 1:
            break
        value, distance = left, distance + sign * int(constant.flat[0])
    return value, distance


def _whole_or_nothing(x: Value, mask: Value, items: Sequence[object]) -> Value:
    """The positions that a mask of rank 0 keeps along a new axis: one or none."""
    literal = literal_of(mask)
    if literal is not None:
        return as_value(np.zeros(int(literal), "int64"))
    if any(_is_array(item) and item.type.rank for item in items):
        raise graph_error(
            "a mask of rank 0 whose value is not known cannot stand beside index "
            "arrays: their shapes fit for only one of its values",
            op="index",
            got=f"{x.type} with mask {mask.type}",
            hint="choose the elements first, x[i][mask], or use gt.where",
        )
    (positions,) = F.nonzero(F.expand_dims(mask, 0))
    return positions


def _mask_positions(x: Value, mask: Value, axis: int) -> list[Value]:
    for i, n in enumerate(mask.type.shape):
        axis_size = x.type.shape[axis + i]
        if dims.equal(n, axis_size) is False:
            raise graph_error(
                f"axis {i} of the mask has size {n} where axis {axis + i} of the array "
                f"has {axis_size}",
                op="index",
                got=f"array {described_value(x)}; mask {described_value(mask)}",
                hint="a mask has the sizes of the axes that it stands for",
            )
    shape = x.type.shape[axis : axis + mask.type.rank]
    literal = literal_of(mask)
    pairs = zip(shape, mask.type.shape, strict=True)
    if literal is not None and all(dims.equal(n, m) is True for n, m in pairs):
        return [as_value(positions) for positions in np.nonzero(literal)]
    return list(F.nonzero(F._sized(mask, shape, "index")))


def _check_constant(index: Size, n: Size, x: Value) -> None:
    too_low = dims.less_equal(index, -n - 1)
    if dims.less_equal(n, index) is True or too_low is True:
        raise graph_error(
            f"index {index} is out of bounds for an axis of size {n}",
            op="index",
            got=str(x.type),
            hint=_allowed_text(n),
        )


def _allowed_text(n: Size) -> str:
    if isinstance(n, int) and n == 0:
        return "the axis has no element; a slice of it is allowed, and is empty"
    return f"indices go from {-n} to {n - 1}; a slice may go beyond, and is cut off"


def _check_array(value: Value, n: Size, x: Value) -> bool:
    """Whether the indices cannot leave the axis; raises if they are known to leave it.

    Literal indices cannot: the type rule guards the bounds that are not proved.
    """
    array = literal_of(value)
    if array is None:
        return _is_from_nonzero(value, n)
    for extreme in extremes(array):
        _check_constant(extreme, n, x)
    return True


def extremes(literal: NDArray) -> tuple[int, ...]:
    """The least and the largest of literal indices, if there are any."""
    return (int(literal.min()), int(literal.max())) if literal.size else ()


def widened(index: Value) -> Value:
    """Widen indices to a dtype that can count any axis, as JAX needs."""
    if index.dtype.itemsize >= INT32.itemsize:
        return index
    literal = literal_of(index)
    return cast(index, INT32) if literal is None else as_value(literal.astype(INT32))


def _is_from_nonzero(value: Value, n: Size) -> bool:
    """Whether the indices are positions in a mask as long as the axis."""
    if value.node.primitive is not OP.nonzero:
        return False
    (mask,) = value.node.inputs
    return dims.equal(mask.type.shape[value.index], n) is True


def slice_length(start: SliceBound, stop: SliceBound, step: Size, n: Size) -> Size:
    """The number of elements of `x[start:stop:step]` in an axis of `n`, as in Python.

    This is for type rules: it guards that a step whose sign is not known is not 0.
    """
    if start is None and stop is None and isinstance(step, int) and abs(step) == 1:
        return n  # which is not negative, though that may be tested and not proved
    bounds = slice(start, stop, step)
    if isinstance(n, int) and n >= 0 and _is_known(bounds):
        return len(range(*bounds.indices(n)))
    if dims.less_equal(1, step):
        first, last = forward_range(start, stop, n)
        if dims.equal(step, 1):
            return dims.maximum(0, last - first)
        if start is not None and dims.less_equal(0, start):
            first = start  # past the end, no element either way
        return dims.ceil_div(dims.maximum(0, last - first), step)
    first, last = _backward_range(start, stop, n)
    if not dims.less_equal(step, -1):
        either = dims.maximum(step, -step)
        require_at_most(1, either, "a slice step cannot be 0")
        begin, end = forward_range(start, stop, n)
        ahead = _at_least(step, 1)
        first += ahead * (begin - first)
        last += ahead * (end - last)
    return dims.maximum(0, dims.ceil_div(last - first, step))


def _is_known(bounds: slice) -> bool:
    """Whether a slice has numbers, and a step."""
    ends = bounds.start, bounds.stop
    is_known = all(b is None or isinstance(b, int) for b in ends)
    return is_known and isinstance(bounds.step, int) and bounds.step != 0


def slice_ends(
    start: SliceBound, stop: SliceBound, step: int, n: Size
) -> tuple[Size, Size]:
    """Where a slice with a known step begins and ends in an axis of `n`."""
    ends = forward_range if step > 0 else _backward_range
    return ends(start, stop, n)


def forward_range(start: SliceBound, stop: SliceBound, n: Size) -> tuple[Size, Size]:
    """Where a slice with a positive step begins and ends, within 0 and n."""
    first = 0 if start is None else dims.clip(start, n)
    return first, n if stop is None else dims.clip(stop, n)


def _backward_range(start: SliceBound, stop: SliceBound, n: Size) -> tuple[Size, Size]:
    """Where a slice with a negative step begins and ends, within -1 and n - 1."""
    first = n - 1 if start is None else clip_down(start, n)
    return first, -1 if stop is None else clip_down(stop, n)


def _at_least(a: Size, b: int) -> Size:
    """1 where `a` is at least `b`, else 0."""
    return dims.maximum(0, dims.minimum(1, a - b + 1))


def clip_down(bound: Size, n: Size) -> Size:
    """`slice(bound, None, -1).indices(n)[0]`."""
    if dims.less_equal(0, bound):
        return dims.minimum(bound, n - 1)
    if dims.less_equal(bound, -1):
        return dims.maximum(bound + n, -1)
    from_front = _at_least(bound, 0)  # else counted from the end, which is one more
    return dims.minimum(dims.clip(bound, n + 1) - 1 + from_front, n - 1)


def require_within(index: Size, n: Size) -> None:
    """Inside a type rule: a single static index must be within the axis."""
    reason = f"index {index} is out of bounds for an axis of size {n}"
    require_at_most(index + 1, n, reason, "index")
    if dims.less_equal(0, index) is not True:
        require_at_most(-index, n, reason, "index")
