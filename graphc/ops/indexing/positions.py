"""Positions in arrays of a shape: flat, per axis, on diagonals and in triangles."""

from collections.abc import Sequence
from typing import Any, Literal

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    check_shape,
    literal_of,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BOOL, INT64, NDArray, product
from graphc.ops.common.axes import along_axis
from graphc.ops.common.broadcasting import with_sizes
from graphc.ops.common.modes import moved_inside, require_mode

Layout = Literal["C", "F"]


def _integers(x: ArrayLike, name: str) -> Value:
    value = as_strong_value(x)
    if value.dtype.kind not in "biu":  # as indices, bools are 0 and 1 in NumPy
        raise graph_error("needs integers", op=name, got=str(value.type))
    return cast(value, INT64)


def _is_outside(value: Value, size: Size) -> bool:
    """Whether a constant is known to hold a position that is not in this axis."""
    known = literal_of(value)
    if known is None or not known.size:
        return False
    return bool(known.min() < 0) or dims.less_equal(size, int(known.max())) is True


def _outside(name: str, size: Size) -> GraphError:
    hint = f"positions are 0 or more, and less than {size}"
    return graph_error("a position is out of range", op=name, hint=hint)


def _axes_from_last(rank: int, order: str, name: str) -> Sequence[int]:
    """The axes of a shape, the one first along which neighbours are adjacent."""
    if order not in ("C", "F"):
        expected = "'C' or 'F'"
        raise graph_error("unknown order", op=name, got=repr(order), expected=expected)
    return range(rank) if order == "F" else range(rank - 1, -1, -1)


@public()
def unravel_index(
    indices: ArrayLike, shape: ShapeLike, order: Layout = "C"
) -> tuple[Value, ...]:
    """The position per axis of each flat position, as `numpy.unravel_index`.

    A constant out of range is refused. Other flat positions are not checked: if one is
    out of range, so is its position in the slowest axis, and reading by it is like any
    other reading out of range.
    """
    flat, sizes = _integers(indices, "unravel_index"), _shape(shape, "unravel_index")
    axes = _axes_from_last(len(sizes), order, "unravel_index")
    if _is_outside(flat, product(sizes)):
        raise _outside("unravel_index", product(sizes))
    coordinates: list[Any] = [None] * len(sizes)
    for axis in axes[:-1]:
        n = size_value(dims.maximum(sizes[axis], 1))
        coordinates[axis], flat = flat % n, flat // n
    if axes:
        coordinates[axes[-1]] = flat
    return tuple(coordinates)


def _shape(shape: ShapeLike, name: str) -> Shape:
    return check_shape(as_shape(shape), name)


@public()
def ravel_multi_index(
    multi_index: Sequence[ArrayLike] | Value | NDArray,
    dims: ShapeLike,
    mode: str | Sequence[str] = "raise",
    order: Layout = "C",
) -> Value:
    """The flat position for positions per axis, as `numpy.ravel_multi_index`.

    `mode` says, for all axes or for each, what happens to a position out of range:
    "wrap" and "clip" move it inside; "raise" refuses a constant when the graph is
    built, and makes the call raise for other positions, which have to be read for that.
    """
    name = "ravel_multi_index"
    sizes = _shape(dims, name)
    places = [_integers(place, name) for place in multi_index]
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    if len(places) != len(sizes) or len(modes) != len(sizes) or not sizes:
        got = f"{len(places)} positions, {len(modes)} modes, {len(sizes)} sizes"
        raise graph_error("needs positions and a mode per axis", op=name, got=got)
    flat, stride = as_value(0), as_value(1)
    for axis in _axes_from_last(len(sizes), order, name):
        inside = _place_inside(places[axis], sizes[axis], modes[axis], name)
        flat, stride = flat + inside * stride, stride * size_value(sizes[axis])
    return cast(flat, INT64)


def _place_inside(place: Value, n: Size, mode: str, name: str) -> Value:
    """Check positions on an axis of size `n`, or move them inside, as `mode` says."""
    size = size_value(n)
    require_mode(mode, name)
    if mode != "raise":
        return moved_inside(place, size, mode)
    if _is_outside(place, n):
        raise _outside(name, n)
    if literal_of(place) is not None and isinstance(n, int):
        return place
    fits = F.logical_and(place >= 0, place < size)
    return F._assert(place, F.all(fits), "a position is out of range", "index")


@public()
def diag_indices(n: SizeLike, ndim: int = 2) -> tuple[Value, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of size `n`."""
    (size,) = _shape(n, "diag_indices")
    count = as_integer(ndim, "ndim must be an integer", "diag_indices")
    return (F.arange(size_value(size)),) * count


@public()
def diag_indices_from(arr: ArrayLike) -> tuple[Value, ...]:
    """The positions of the main diagonal of an array whose axes all have one size."""
    value = as_value(arr)
    if value.type.rank < 2:
        got = str(value.type)
        raise graph_error("needs two axes or more", op="diag_indices_from", got=got)
    shape = value.type.shape
    (along, *_) = diag_indices(size_value(shape[0]))
    ends = dims.maximum(*shape), dims.minimum(*shape)
    reason = "the axes differ in size"
    along = F._at_most(*ends, reason, along, "diag_indices_from")
    return (along,) * len(shape)


@public()
def tril_indices(
    n: SizeLike, k: SizeLike = 0, m: SizeLike | None = None
) -> tuple[Value, Value]:
    """The positions at and below diagonal `k` of an n x m matrix, row by row.

    `n`, `k` and `m` may be symbolic: the number of positions is computed from them.
    """
    rows, columns, offset = _matrix_sizes(n, k, m, "tril_indices")
    ends = F.clip(F.arange(size_value(rows)) + size_value(offset + 1), 0, columns)
    count = _count_below(rows, columns, offset)
    first = with_sizes(F.zeros_like(ends), (rows, columns), "tril_indices")
    return _positions(first, ends, count)


@public()
def triu_indices(
    n: SizeLike, k: SizeLike = 0, m: SizeLike | None = None
) -> tuple[Value, Value]:
    """The positions at and above diagonal `k` of an n x m matrix, row by row.

    `n`, `k` and `m` may be symbolic: the number of positions is computed from them.
    """
    rows, columns, offset = _matrix_sizes(n, k, m, "triu_indices")
    first = F.clip(F.arange(size_value(rows)) + size_value(offset), 0, columns)
    count = rows * columns - _count_below(rows, columns, offset - 1)
    first = with_sizes(first, (rows, columns), "triu_indices")
    return _positions(first, F.full_like(first, size_value(columns)), count)


@public()
def tril_indices_from(arr: ArrayLike, k: SizeLike = 0) -> tuple[Value, Value]:
    """The positions at and below diagonal `k` of a matrix, row by row."""
    rows, columns = _matrix_shape(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


@public()
def triu_indices_from(arr: ArrayLike, k: SizeLike = 0) -> tuple[Value, Value]:
    """The positions at and above diagonal `k` of a matrix, row by row."""
    rows, columns = _matrix_shape(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def _matrix_shape(arr: ArrayLike, name: str) -> tuple[int | Value, ...]:
    value = as_value(arr)
    if value.type.rank != 2:
        raise graph_error("needs a matrix", op=name, got=str(value.type))
    return tuple(value.shape)


def _matrix_sizes(
    n: SizeLike, k: SizeLike, m: SizeLike | None, name: str
) -> tuple[Size, Size, Size]:
    """Rows, columns and diagonal as sizes."""
    rows, columns = _shape((n, n if m is None else m), name)
    return rows, columns, as_size(k, "the diagonal")


def _count_below(rows: Size, columns: Size, k: Size) -> Size:
    """The number of elements at or below diagonal `k`.

    Rows before `first` have none; from there to `full`, each row has one more than the
    row before; the others have all.
    """
    first = dims.minimum(rows, dims.maximum(0, -k))
    full = dims.minimum(rows, dims.maximum(first, columns - k))
    growing = (full - first) * (first + full + 2 * k + 1) // 2
    return growing + (rows - full) * columns


def _positions(first: Value, ends: Value, count: Size) -> tuple[Value, Value]:
    """The positions from `first` up to `ends` in each row, `count` in all."""
    through = F.cumsum(ends - first)
    place = F.arange(size_value(count))
    row = F.searchsorted(through, place, side="right")
    ahead = F._gather(ends - through, row, axes=(0,), inside=(True,))
    return row, place + ahead


@public(name="ix_")
def ix_(*args: ArrayLike) -> tuple[Value, ...]:
    """An open mesh from vectors of positions or from masks, as `numpy.ix_`."""
    mesh = []
    for axis, positions in enumerate(args):
        none = isinstance(positions, (list, tuple)) and not positions
        vector = F.zeros((0,), INT64) if none else as_strong_value(positions)
        if vector.type.rank != 1:
            raise graph_error("needs vectors", op="ix_", got=str(vector.type))
        if vector.dtype == BOOL:
            (vector,) = F.nonzero(vector)
        mesh.append(along_axis(vector, axis, len(args)))
    return tuple(mesh)
