"""Indexing for reading: NumPy's basic and advanced forms.

Out of bounds: a constant index raises when the graph is built, or at the call if the
size is known only then. An index that is data reads the nearest element, on both
backends, unless the function is compiled with `check=True`, which raises. Updates
(`x.at`) out of bounds write nothing. A slice of constant length whose start is data is
moved inside, for reading and for writing.

A mask of rank 0 makes an axis of one element or of none, as in NumPy; if the mask is
data, that size is known only when the program runs. Bounds and steps of slices may be
symbolic and of any sign: they are static arguments of compiled segments, and a step of
0 raises.
"""

from collections.abc import Iterable
from types import ModuleType

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike, IndexLike
from graphc.ir.graph.build import (
    INPUT,
    as_size,
    as_strong_value,
    cast,
    literal_of,
    strong,
)
from graphc.ir.graph.nodes import Node, Value, origins
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    type_error,
    views_of_inputs,
)
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import AxesParam, AxisParam
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ir.types import (
    INT32,
    INT64,
    ConcreteArray,
    JaxArray,
    NDArray,
    TensorType,
    is_integer,
)
from graphc.ops.common.axes import with_size
from graphc.ops.common.batching import Batched, align_batches
from graphc.ops.common.broadcasting import broadcast
from graphc.ops.common.conditions import BOUNDS, BoundsRule, reporting
from graphc.ops.common.known_integers import KnownSizes, as_numbers, gathered_sizes
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.by_rows import print_by_rows
from graphc.ops.indexing.counting_indices import counters
from graphc.ops.indexing.parse import (
    FULL_ITEM,
    Index,
    extremes,
    first_of_points,
    is_adjacent,
    parse_index,
    require_within,
    widened,
)


@op()
def _dynamic_slice(
    x: Array, start: Array, *, axis: AxisParam, length: int
) -> TensorType:
    """`length` elements of `axis` from `start`, moved inside if they stick out.

    A negative start counts from the end first. If the slice is then within the axis, it
    is NumPy's; if not, NumPy's slice is shorter, and this one is not.
    """
    if start.type.rank or not is_integer(start.dtype):
        raise type_error("the start must be an integer scalar")
    reason = f"a slice of {length} elements does not fit axis {axis}"
    require_at_most(length, x.type.shape[axis], reason, "index")
    return x.type.like(with_size(x.type.shape, axis, length))


def dynamic_slice_numpy(
    x: NDArray, start: int | NDArray, length: int, axis: int
) -> NDArray:
    """Printed into NumPy programs: `length` elements along `axis`, within bounds."""
    n, start = x.shape[axis], int(start)
    start = min(max(start + n if start < 0 else start, 0), n - length)
    return x[(slice(None),) * axis + (slice(start, start + length),)]


_dynamic_slice.rounding = "none"
_dynamic_slice.emit(
    numpy=lambda p: p.call(
        dynamic_slice_numpy, *p.inputs, p.node.params["length"], p.node.params["axis"]
    ),
    jax="jax.lax.dynamic_slice_in_dim({x}, {start}, {length}, {axis})",
)
_dynamic_slice.views = views_of_inputs


_SHORTER = "but x[start:][:{}] has fewer at the end"


def is_from_arguments(start: Value) -> bool:
    """Whether a dynamic start is computed from integer arguments alone."""
    return all(v.node.primitive is INPUT for v in origins(as_size(start)))


def slice_fits(x: Value, start: Value, axis: int, length: int) -> Value:
    """Whether a dynamic slice lies within its axis; its start may be negative."""
    first, n = _widen(start), x.shape[axis]
    last = F.where(first < 0, -1, n)
    # Written so that no sum leaves int64, wherever the slice starts.
    return F.logical_and(first >= -n, first <= last - length)


def _widen(index: Value) -> Value:
    """The indices in a dtype that also holds the size of any axis."""
    return cast(index, INT64)


def _slice_checks(node: Node) -> list[tuple[Value, str]]:
    x, start = node.inputs
    axis, length = node.params["axis"], node.params["length"]
    if is_from_arguments(start):
        return []  # `sliced` asserts it always
    leaves = F.logical_not(slice_fits(x, start, axis, length))
    message = f"index: a slice of {length} leaves axis {axis} of {x.type}"
    report = reporting(leaves, start, x.shape[axis])
    shorter = _SHORTER.format(length)
    return [(report, f"{message}: start {{}}, size {{}}, {shorter}")]


BOUNDS.define(_dynamic_slice, BoundsRule(_slice_checks))


def _sizes_of_slice(
    x: KnownSizes, start: KnownSizes, *, axis: int, length: int
) -> KnownSizes:
    if as_numbers(start) is None:
        return None
    n, first = x.shape[axis], int(start[()])
    first = min(max(first + n if first < 0 else first, 0), n - length)
    return x[(slice(None),) * axis + (slice(first, first + length),)]


_dynamic_slice.sizes = _sizes_of_slice
_dynamic_slice.linear = True
DYNAMIC_SLICE = _dynamic_slice


def _slice_positions(x: Value, start: Value, axis: int, length: int) -> Value:
    """The positions that a dynamic slice reads, on an axis after those of `start`."""
    n = x.shape[axis]
    first = _widen(start)
    first = F.clip(F.where(first < 0, first + n, first), 0, n - length)
    return F.expand_dims(first, -1) + F.arange(length)


@_dynamic_slice.vjp
def _(
    g: Value, x: Value, start: Value, *, axis: int, length: int
) -> tuple[Value, None]:
    places = _slice_positions(x, start, axis, length)
    zeros = F.zeros_like(x)
    return F._scatter(zeros, g, places, axes=(axis,), how="add", inside=(True,)), None


@_dynamic_slice.batch
def _(
    n: Size, batched: Batched, x: Value, start: Value, *, axis: int, length: int
) -> Value:
    if not batched[1]:
        return _dynamic_slice(x, start, axis=axis + 1, length=length)
    places = _slice_positions(x, start, axis + batched[0], length)
    return _batched_gather([*batched], x, (places,), (axis,), (True,))


def gathered_shape(
    x: Value,
    indices: tuple[Value, ...],
    axes: tuple[int, ...],
    inside: tuple[bool, ...],
) -> tuple[Size, ...]:
    """The shape of `x[...]` with integer arrays at `axes`, by NumPy's rules.

    Literal indices that must be `inside` are guarded.
    """
    if any(not is_integer(i.dtype) for i in indices):
        raise type_error("indices must be integers or bools")
    if max(axes) >= x.type.rank:
        raise type_error(f"there is no axis {max(axes)} to index")
    for index, axis, within in zip(indices, axes, inside, strict=True):
        literal = literal_of(index)
        if within and literal is not None:
            for extreme in extremes(literal):
                require_within(extreme, x.type.shape[axis])
    points = broadcast(*(i.type.shape for i in indices))
    remaining_sizes = [n for a, n in enumerate(x.type.shape) if a not in axes]
    at = first_of_points(axes)
    return (*remaining_sizes[:at], *points, *remaining_sizes[at:])


@op()
def _gather(
    x: Array, *indices: Array, axes: AxesParam, inside: tuple[bool, ...]
) -> TensorType:
    """`x[..., i, ...]` with integer arrays at `axes` (advanced indexing).

    `inside` tells which arrays cannot leave their axis; the others are clamped.
    """
    return x.type.like(gathered_shape(x, indices, axes, inside))


_gather.sizes = gathered_sizes


def advanced_items(p: Printing, indices: tuple[str, ...]) -> str:
    """The index arrays at their axes, as the text between brackets."""
    axes = p.node.params["axes"]
    items = [":"] * (axes[-1] + 1)
    for axis, text in zip(axes, indices, strict=True):
        items[axis] = text
    return ", ".join(items)


def clamp(index: ConcreteArray, size: int) -> ConcreteArray:
    """Printed into programs: `index` moved into the bounds of an axis of this size."""
    if index.dtype.kind == "u":
        return index.clip(0, max(size - 1, 0))
    return index.clip(-size, size - 1)


def clamped(p: Printing, first: int, beyond: bool = False) -> tuple[str, ...]:
    """The index arrays, from input `first` on, kept within their axes or `beyond` by 1.

    JAX clamps by itself, but takes the low 32 bits of an index: for JAX, only index
    arrays that may need more bits are clamped.
    """
    x, params = p.inputs[0], p.node.params
    texts = []
    for i, axis, within in zip(
        range(first, len(p.inputs)), params["axes"], params["inside"], strict=True
    ):
        text, dtype = p.inputs[i], p.node.inputs[i].dtype
        if not within and (p.xp == "np" or not np.can_cast(dtype, INT32)):
            size = f"{x}.shape[{axis}]" + " + 1" * beyond
            text = p.call(clamp, text, size)
        texts.append(text)
    return tuple(texts)


def _print_gather_numpy(p: Printing) -> str:
    return f"{p.inputs[0]}[{advanced_items(p, clamped(p, 1))}]"


def axes_maybe_empty(node: Node) -> list[int]:
    """The indexed axes that may have no elements."""
    shape = node.inputs[0].type.shape
    return [axis for axis in node.params["axes"] if not less_equal(1, shape[axis])]


def not_empty(jnp: ModuleType, x: JaxArray, *axes: int) -> JaxArray:
    """Printed into JAX bodies: `x`, or zeros of size 1 along empty `axes`.

    So a body that reads from an empty array can be traced, though it is never run.
    """
    if all(x.shape[axis] for axis in axes):
        return x
    return jnp.zeros([n or i in axes for i, n in enumerate(x.shape)], x.dtype)


def _print_gather_jax(p: Printing) -> str:
    mode = "promise_in_bounds" if all(p.node.params["inside"]) else "clip"
    x, empty = p.inputs[0], axes_maybe_empty(p.node)
    if p.in_body and empty:
        x = p.call(not_empty, "jnp", x, *empty)
    return f'{x}.at[{advanced_items(p, clamped(p, 1))}].get(mode="{mode}")'


def _gather_views(node: Node) -> Iterable[tuple[Value, Value]]:
    """Integers give views as slices do; one for each axis gives a scalar."""
    x, *indices = node.inputs
    single = all(i.type.rank == 0 for i in indices)
    return views_of_inputs(node) if single and len(indices) < x.type.rank else ()


_gather.beside = counters
_gather.rounding = "none"
_gather.emit(
    numpy=_print_gather_numpy, jax=lambda p: print_by_rows(p, _print_gather_jax)
)
_gather.views = _gather_views


def is_within(index: Value, n: int | Value) -> Value:
    """For each index, whether it is within an axis of `n`."""
    least = 0 if index.dtype.kind == "u" else -n
    return F.logical_and(index >= least, index < n)


def stray_checks(node: Node) -> list[tuple[Value, str]]:
    """Conditions that no index array leaves its axis, each with a message."""
    x, params = node.inputs[0], node.params
    indices = node.inputs[len(node.inputs) - len(params["axes"]) :]
    checks = []
    for index, axis, within in zip(
        indices, params["axes"], params["inside"], strict=True
    ):
        if not within:
            n = x.shape[axis]
            condition = reporting(F.logical_not(is_within(index, n)), index, n)
            message = f"index: out of bounds for axis {axis} of {x.type}"
            checks.append((condition, message + ": index {}, size {}"))
    return checks


BOUNDS.define(_gather, BoundsRule(stray_checks))
_gather.linear = True
GATHER = enroll(_gather, "_gather")


@_gather.vjp
def _(
    g: Value,
    x: Value,
    *indices: Value,
    axes: tuple[int, ...],
    inside: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    # Write to where the gather read: at the nearest element for a stray index.
    read = [
        i if within else _clamp(i, x.shape[axis])
        for i, axis, within in zip(indices, axes, inside, strict=True)
    ]
    every = (True,) * len(axes)
    of_x = F._scatter(F.zeros_like(x), g, *read, axes=axes, how="add", inside=every)
    return of_x, *[None] * len(indices)


def _clamp(index: Value, n: int | Value) -> Value:
    """Clamp indices to an axis of `n`."""
    if index.dtype.kind == "u":
        return F.clip(index, 0, F.maximum(n, 1) - 1)
    return F.clip(index, -n, n - 1)


@_gather.batch
def _(
    n: Size,
    batched: Batched,
    x: Value,
    *indices: Value,
    axes: tuple[int, ...],
    inside: tuple[bool, ...],
) -> Value:
    return _batched_gather(batched, x, indices, axes, inside)


def _batched_gather(
    batched: Batched,
    x: Value,
    indices: tuple[Value, ...],
    axes: tuple[int, ...],
    inside: tuple[bool, ...],
) -> Value:
    points = max(i.type.rank - b for i, b in zip(indices, batched[1:], strict=True))
    at = first_of_points(axes)
    if not batched[0]:  # the new axis is the first of those of the indices
        lined = align_batches(batched[1:], indices)
        return F.moveaxis(_gather(x, *lined, axes=axes, inside=inside), at, 0)
    places, later = with_row_indices(x, batched[1:], indices, axes)
    if len(later) == len(axes):
        elements = _gather(x, *places, axes=later, inside=inside)
        return elements if is_adjacent(axes) else F.moveaxis(elements, points, 0)
    elements = _gather(x, *places, axes=later, inside=(True, *inside))
    here, there = (tuple(range(i, i + points)) for i in (1, 1 + at))
    return F.moveaxis(elements, here, there)


def with_row_indices(
    x: Value, batched: Batched, indices: tuple[Value, ...], axes: tuple[int, ...]
) -> tuple[list[Value], tuple[int, ...]]:
    """Index arrays for a batched `x`, and their axes.

    If index arrays are batched themselves, the number of the example is one more of
    them.
    """
    later = tuple(a + 1 for a in axes)
    if not any(batched):
        return list(indices), later
    lined = align_batches(batched, indices)
    rank = max(i.type.rank for i in lined)
    rows = F.expand_dims(F.arange(x.shape[0]), tuple(range(1, rank)))
    return [rows, *lined], (0, *later)


@public()
def getitem(x: ArrayLike, index: IndexLike) -> Value:
    """`x[index]`, with all of NumPy's basic and advanced forms."""
    value = as_strong_value(x)
    parsed = parse_index(value, index)
    for axis, start, length in parsed.dynamic:
        value = sliced(value, axis_before(parsed, axis), start, length)
    if not parsed.dynamic and all(i.type.rank == 0 for i in parsed.arrays):
        value, parsed = _take_integers(value, parsed)
    value = basic(value, parsed.items)
    if not parsed.arrays:
        return value
    taken: Value = _gather(
        value, *parsed.arrays, axes=parsed.axes, inside=parsed.inside
    )
    return taken if parsed.divider is None else F.squeeze(taken, -parsed.divider - 1)


def _take_integers(x: Value, parsed: Index) -> tuple[Value, Index]:
    """Take the items that are integers from data, and return the rest of the index.

    They are taken before slices: first a row, then a part of it, not a part of every
    row.
    """
    if not parsed.arrays or all(i == FULL_ITEM for i in parsed.items):
        return x, parsed
    axes = tuple(axis_before(parsed, axis) for axis in parsed.axes)
    taken = _gather(x, *parsed.arrays, axes=axes, inside=parsed.inside)
    items, out = [], 0
    for item in parsed.items:
        if item[0] == "i" or out not in parsed.axes:
            items.append(item)
        out += item[0] != "i"
    return taken, Index(tuple(items), (), (), (), ())


def axis_before(parsed: Index, out: int) -> int:
    """The axis of the operand that became axis `out` of the basic result."""
    axis = position = 0
    for kind, *_ in parsed.items:
        if kind != "i":
            if position == out:
                return axis
            position += 1
        axis += kind != "n"
    raise AssertionError(out)


def sliced(x: Value, axis: int, start: Value, length: int) -> Value:
    """`x[start:start + length]`, where the length is a constant.

    The slice compiles once for all starts. A start computed from inputs is checked at
    the call; one computed from data is moved inside the array. A slice of no elements
    may start anywhere.
    """
    taken = _dynamic_slice(x, widened(strong(start)), axis=axis, length=length)
    if not length or not is_from_arguments(start):
        return taken
    message = (
        f"the slice of {length} elements from {as_size(start)} leaves an axis of size "
        f"{x.type.shape[axis]}; its length is compiled as a constant, "
        f"{_SHORTER.format(length)}"
    )
    test = slice_fits(x, strong(start), axis, length)
    checked_slice: Value = F._assert(taken, test, message, "index")
    return checked_slice
