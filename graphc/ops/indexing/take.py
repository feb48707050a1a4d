"""`take` and the like: indexing along an axis, by name."""

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, AxesLike, ShapeLike
from graphc.ir.graph.build import (
    as_shape,
    as_strong_value,
    as_value,
    cast,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import INT32
from graphc.ops.common.axes import at_axis, on_axis, row_places
from graphc.ops.common.modes import moved_inside, require_mode


@public(method=True)
def take(
    x: ArrayLike, indices: ArrayLike, /, axis: int | None = None, mode: str = "raise"
) -> Value:
    """The elements at integer positions along `axis`, as `numpy.take`.

    Positions out of bounds wrap around with `mode="wrap"`; with "clip" they read the
    nearest elements, so that -1 reads the first one. "raise", the default, can only
    raise under `check=True`, or for constants.
    """
    require_mode(mode, "take")
    value, at = on_axis(x, axis, "take")
    none = isinstance(indices, (list, tuple)) and not indices
    if none:
        return F.getitem(value, at_axis(at, []))
    positions = as_value(indices)
    if positions.dtype.kind == "b":  # positions 0 and 1, not a mask
        positions = cast(positions, INT32)
    if mode != "raise":
        if positions.dtype.itemsize < INT32.itemsize:  # too narrow for sizes
            positions = cast(positions, INT32)
        size = size_value(value.type.shape[at])
        positions = moved_inside(positions, size, mode)
    return F.getitem(value, at_axis(at, positions))


@public()
def take_along_axis(
    x: ArrayLike, indices: ArrayLike, /, axis: int | None = -1
) -> Value:
    """One element per row along `axis`, as `numpy.take_along_axis`.

    If `axis` is None, elements are taken from the flattened array.
    """
    value, chosen = on_axis(x, axis, "take_along_axis")
    index = as_strong_value(indices)
    if value.type.rank != index.type.rank:
        raise graph_error(
            "needs as many axes in the indices as in the array",
            op="take_along_axis",
            got=f"{value.type}, {index.type}",
        )
    return F.getitem(value, tuple(row_places(index, chosen, value.shape)))


@public()
def sliding_window_view(
    x: ArrayLike, window_shape: ShapeLike, axis: AxesLike | None = None
) -> Value:
    """All windows of a size that slide over the axes, whose elements are on last axes.

    The result is that of `numpy.lib.stride_tricks.sliding_window_view`, with copies of
    the elements. Windows are over all axes unless `axis` says which, perhaps one of
    them twice.
    """
    value, sizes = as_strong_value(x), as_shape(window_shape)
    rank = value.type.rank
    axis_list = axis if isinstance(axis, (tuple, list)) else (axis,)
    chosen = range(rank) if axis is None else axis_list
    axes = [normal_axis(a, rank, "sliding_window_view") for a in chosen]
    if len(axes) != len(sizes):
        problem = f"needs a window size for each of {len(axes)} axes"
        got = f"{len(sizes)} sizes"
        raise graph_error(problem, op="sliding_window_view", got=got)
    reason = "a window is no larger than its axis, nor negative"
    for at, size in zip(axes, sizes, strict=True):
        most = value.type.shape[at]
        for low, high in ((0, size), (size, most)):
            value = F._at_most(low, high, reason, value, "sliding_window_view")
        starts = F.expand_dims(F.arange(size_value(most - size + 1)), 1)
        places = starts + F.arange(size_value(size))
        value = F.moveaxis(F.take(value, places, axis=at), at + 1, -1)
    return value
