"""Ops that move elements about without computing: reshape, transpose, broadcast."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.errors import ErrorKind, graph_error
from graphc.ir.graph.accepted_types import ArrayLike, AxesLike, ShapeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_strong_value,
    as_value,
    check_shape,
    literal_of,
    normal_axes,
    normal_axis,
    shape_text,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    require_equal,
    type_error,
    views_of_inputs,
)
from graphc.ir.namespace import F, enroll, enroll_method, public
from graphc.ir.params.kinds import AxesParam, NewAxesParam
from graphc.ir.sizes.dims import Dim, Size, equal, is_one
from graphc.ir.types import TensorType, cancelled, product, same_size
from graphc.ops.arrays.free_sizes import with_free_sizes
from graphc.ops.common.axes import inverse_order, other_axes
from graphc.ops.common.batching import Batched, batch_with_axes
from graphc.ops.common.broadcasting import require_room, require_stretchable, summed_to
from graphc.ops.common.padded_reads import at_flat_places, flat_places, iota, read_at
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt, constant_fill

NEGATIVE = "a size must not be negative; -1 is worked out in a constant or a vector"


def require_shape(shape: Shape, reason: str = "a size must not be negative") -> Shape:
    """Return `shape`, requiring each of its sizes to be >= 0 (inside a type rule)."""
    for n in shape:
        if isinstance(n, Dim):
            require_at_most(0, n, reason)
    return shape


@op()
def _reshape(x: Array, *, shape: Shape) -> TensorType:
    """The same elements in row-major order under a new shape."""
    reason = f"cannot reshape {shape_text(x.type.shape)} into {shape_text(shape)}"
    total = x.type.size
    for i, n in enumerate(shape):
        row_size = product(others := shape[:i] + shape[i + 1 :])
        if isinstance(n, Dim) and isinstance(row_size, Dim) and n is total // row_size:
            whole, parts = cancelled(total, require_shape(others, NEGATIVE))
            require_equal(whole % parts, 0, reason, kind="divisibility")
            return x.type.like(shape)
    require_shape(shape, NEGATIVE)
    require_equal(product(shape), total, reason, kind=_kind_of_misfit(shape, total))
    return x.type.like(shape)


def _kind_of_misfit(shape: Shape, total: Size) -> ErrorKind:
    """The kind of error to raise where the numbers of elements differ.

    A size that replaces a -1 is a quotient, so the error is one of divisibility.
    """
    for i, n in enumerate(shape):
        row_size = product(shape[:i] + shape[i + 1 :])
        if isinstance(n, Dim) and not same_size(row_size, 0) and n is total // row_size:
            return "divisibility"
    return "shape"


def _print_jax(p: Printing) -> str:
    """Print a reshape; of a scalar literal, print `broadcast_to` instead.

    `jnp.reshape` would call the method `reshape` of a NumPy number, whose result is no
    JAX array.
    """
    number = literal_of(p.node.inputs[0])
    of_number = number is not None and not number.ndim
    function = "broadcast_to" if of_number else "reshape"
    return f"jnp.{function}({p.inputs[0]}, {p.code(p.node.params['shape'])})"


_reshape.rounding = "none"
_reshape.emit(numpy="np.reshape({x}, {shape})", jax=_print_jax)
_reshape.views = views_of_inputs
_reshape.sizes = lambda x, *, shape: np.reshape(x, shape)
_reshape.linear = True
_reshape.vjp(lambda g, x, *, shape: (F.reshape(g, x.type.shape),))
_reshape.batch(lambda n, batched, x, *, shape: _reshape(x, shape=(n, *shape)))


@_reshape.padding
def _(pad: Padding, x: PaddedValue, *, shape: Shape) -> Rebuilt:
    """Reshape the stored array where padding stays behind the elements.

    Otherwise each element of the result is gathered from its place in the padded input.
    """
    before, after = x.type.shape, pad.out
    same = 0
    while same < min(len(before), len(after)) and before[same] is after[same]:
        same += 1
    end = 0
    while end < min(len(before), len(after)) - same and same_size(
        before[-1 - end], after[-1 - end]
    ):
        end += 1
    inner = range(same + 1, len(before) - end)
    if not x.ragged(inner) and all(
        isinstance(n, int) for n in after[same + 1 : len(after) - end]
    ):
        fill = {a: n for a, n in x.fill.items() if a <= same}
        fill |= {a + len(after) - len(before): n for a, n in x.fill.items() if a > same}
        return pad.result(_reshape_middle(x.value, shape, same, end), fill)
    moved = _axis_places(before, after)
    if moved is not None:
        fill = {moved[a]: n for a, n in x.fill.items() if a in moved}
        return pad.result(_reshape(x.value, shape=shape), fill)
    return _gather_elements(pad, x, shape, same, end)


def _reshape_middle(x: Value, shape: Shape, same: int, end: int) -> Value:
    """Reshape the axes between the first `same` and the last `end` ones.

    If these hold more elements at their capacities than the result, they are cut; if
    they hold fewer, elements that do not matter are appended.
    """
    before, stop = x.type.shape, len(shape) - end
    count = product(before[same : len(before) - end])
    target_count = product(shape[same:stop])
    if equal(count, target_count) is True:
        return _reshape(x, shape=shape)
    flat = _reshape(x, shape=(*before[:same], count, *before[len(before) - end :]))
    return _reshape(read_at(flat, same, iota(target_count)), shape=shape)


def _axis_places(before: Shape, after: Shape) -> dict[int, int] | None:
    """Return the new position of each symbolic axis, or None if there is no such map.

    Static axes may be regrouped only between the same two symbolic ones.
    """
    here = [i for i, n in enumerate(before) if isinstance(n, Dim)]
    there = [i for i, n in enumerate(after) if isinstance(n, Dim)]
    moved = list(zip(here, there, strict=False))
    if len(here) != len(there) or not all(
        same_size(before[i], after[j]) for i, j in moved
    ):
        return None
    ends = [(-1, -1), *moved, (len(before), len(after))]
    for (i, j), (k, m) in pairwise(ends):
        if math.prod(before[i + 1 : k]) != math.prod(after[j + 1 : m]):
            return None
    return dict(moved)


def _gather_elements(
    pad: Padding, x: PaddedValue, shape: Shape, same: int, end: int
) -> Value:
    """Gather each element of the result from its place in the padded `x`.

    The first `same` axes and the last `end` ones stay as they are.
    """
    before = x.type.shape[same : x.type.rank - end]
    if not before:
        return F.broadcast_to(_reshape_to_ones(x.value, shape, same, end), shape)
    place = flat_places(pad, pad.out[same : len(shape) - end])
    return at_flat_places(pad, x.value, before, place, same)


def _reshape_to_ones(x: Value, shape: Shape, same: int, end: int) -> Value:
    """Insert axes of size 1 between the first `same` and the last `end` axes."""
    return expand_dims(x, tuple(range(same, len(shape) - end)))


@public()
def reshape(x: ArrayLike, /, shape: ShapeLike, *, copy: bool | None = None) -> Value:
    """Return the same elements, in row-major order, with a new `shape`.

    One size may be -1: it is worked out from the others. Sizes may be integers, integer
    scalars, or one integer vector of static length. The -1 may also turn up at the
    call, in a vector or another computed value; a scalar argument of the function must
    be 0 or more. `copy` has no effect here, since values never change.

    Raises GraphError when the number of elements does not fit, at the call if the sizes
    are not known before.
    """
    value = as_value(x)
    sizes = as_shape(shape)
    free = [i for i, n in enumerate(sizes) if isinstance(n, int) and n == -1]
    if len(free) > 1:
        raise graph_error("only one size may be -1", op="reshape", got=str(shape))
    if free:
        row_size = product(tuple(n for i, n in enumerate(sizes) if i != free[0]))
        size = _inferred_size(value, row_size, sizes)
        sizes = (*sizes[: free[0]], size, *sizes[free[0] + 1 :])
    else:
        value, sizes = with_free_sizes(value, sizes)
    check_shape(sizes, "reshape")
    if len(sizes) == value.type.rank and all(map(same_size, sizes, value.type.shape)):
        return value
    return _reshape(value, shape=sizes)


def _inferred_size(value: Value, row_size: Size, sizes: Shape) -> Size:
    """Return the size that -1 stands for.

    Raises GraphError if the other sizes cannot divide the number of elements.
    """
    total = value.type.size
    divides = not isinstance(row_size, int) or (
        row_size != 0 and not (isinstance(total, int) and total % row_size)
    )
    if not divides:
        raise graph_error(
            f"-1 cannot stand for {total} elements in rows of {row_size}",
            op="reshape",
            got=f"{value.type} into {shape_text(sizes)}",
            hint=f"the other sizes must multiply to a divisor of {total}",
        )
    return total // row_size


def _method_reshape(x: Value, *shape: Any) -> Value:
    """`x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    return reshape(x, shape[0] if len(shape) == 1 else shape)


enroll_method(_method_reshape, "reshape")


@public(method=True)
def ravel(x: ArrayLike) -> Value:
    """All elements in one axis, in row-major order."""
    return reshape(x, -1) if as_value(x).type.rank != 1 else as_value(x)


enroll(ravel, "flatten", method=True)


@op()
def _transpose(x: Array, *, axes: AxesParam) -> TensorType:
    """`x` with its axes in the order `axes`."""
    return x.type.like(tuple(x.type.shape[a] for a in axes))


_transpose.rounding = "none"
_transpose.emit("{xp}.transpose({x}, {axes})")
_transpose.sizes = lambda x, *, axes: np.transpose(x, axes)
_transpose.views = views_of_inputs
_transpose.linear = _transpose.layout = True


@_transpose.vjp
def _(g: Value, x: Value, *, axes: tuple[int, ...]) -> tuple[Value]:
    return (transpose(g, inverse_order(axes)),)


@_transpose.batch
def _(n: Size, batched: Batched, x: Value, *, axes: tuple[int, ...]) -> Value:
    return transpose(x, (0, *(a + 1 for a in axes)))


@_transpose.padding
def _(pad: Padding, x: PaddedValue, *, axes: tuple[int, ...]) -> PaddedValue:
    fill = {axes.index(a): n for a, n in x.fill.items()}
    return pad.result(transpose(x.value, axes), fill)


@public()
def transpose(x: ArrayLike, axes: Any = None) -> Value:
    """Return `x` with its axes in the order `axes`, reversed by default."""
    value = as_strong_value(x)
    rank = value.type.rank
    if axes is None:
        order = tuple(reversed(range(rank)))
    else:
        listed = (axes,) if isinstance(axes, int) else axes
        order = tuple(normal_axis(a, rank, "transpose") for a in listed)
    if sorted(order) != list(range(rank)):
        raise graph_error(
            "axes must name every axis once", op="transpose", got=f"{axes!r}"
        )
    if order == tuple(range(rank)):
        return value
    return _transpose(value, axes=order)


def _method_transpose(x: Value, *axes: int | Sequence[int]) -> Value:
    """`x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    if not axes or axes[0] is None:
        return transpose(x)
    return transpose(x, axes[0] if isinstance(axes[0], (tuple, list)) else axes)


enroll_method(_method_transpose, "transpose")


@public(name="permute_dims")
def permute_dims(x: ArrayLike, /, axes: AxesLike) -> Value:
    """The Array API's name for `transpose`."""
    return transpose(x, axes)


@public(method=True)
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Value:
    """Exchange the axes `axis1` and `axis2`."""
    value = as_value(x)
    order = list(range(value.type.rank))
    a = normal_axis(axis1, len(order), "swapaxes")
    b = normal_axis(axis2, len(order), "swapaxes")
    order[a], order[b] = order[b], order[a]
    return transpose(value, order)


@public()
def moveaxis(x: ArrayLike, source: AxesLike, destination: AxesLike, /) -> Value:
    """Move the axes `source` to `destination`, and keep the others in order."""
    value = as_value(x)
    rank = value.type.rank
    sources = source if isinstance(source, (tuple, list)) else [source]
    targets = destination if isinstance(destination, (tuple, list)) else [destination]
    if len(sources) != len(targets):
        raise graph_error("needs as many sources as destinations", op="moveaxis")
    moved = [normal_axis(a, rank, "moveaxis") for a in sources]
    order = [*other_axes(rank, moved)]
    pairs = zip([normal_axis(t, rank, "moveaxis") for t in targets], moved, strict=True)
    for target, axis in sorted(pairs):
        order.insert(target, axis)
    return transpose(value, order)


@op()
def _expand_dims(x: Array, *, axes: NewAxesParam) -> TensorType:
    """Insert axes of size 1 at the positions `axes` of the result."""
    shape = list(x.type.shape)
    for axis in axes:
        shape.insert(axis, 1)
    return x.type.like(shape)


_expand_dims.rounding = "none"
_expand_dims.emit("{xp}.expand_dims({x}, {axes})")
_expand_dims.views = views_of_inputs
_expand_dims.sizes = lambda x, *, axes: np.expand_dims(x, axes)
_expand_dims.linear = True
_expand_dims.vjp(lambda g, x, *, axes: (F.squeeze(g, axes),))
batch_with_axes(_expand_dims, "axes")


@_expand_dims.padding
def _(pad: Padding, x: PaddedValue, *, axes: tuple[int, ...]) -> PaddedValue:
    old = other_axes(x.type.rank + len(axes), axes)
    fill = {old[a]: n for a, n in x.fill.items()}
    return pad.result(_expand_dims(x.value, axes=axes), fill)


@public()
def expand_dims(x: ArrayLike, /, axis: AxesLike) -> Value:
    """Insert an axis of size 1 at each position `axis` of the result."""
    value = as_strong_value(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normal_axes(axis, value.type.rank + count, "expand_dims")
    return _expand_dims(value, axes=axes) if axes else value


@op()
def _squeeze(x: Array, *, axes: AxesParam) -> TensorType:
    """Remove `axes`, each of which must have size 1."""
    for axis in axes:
        require_equal(x.type.shape[axis], 1, f"cannot squeeze axis {axis}")
    return x.type.like(n for i, n in enumerate(x.type.shape) if i not in axes)


_squeeze.rounding = "none"
_squeeze.emit("{xp}.squeeze({x}, axis={axes})")
_squeeze.views = views_of_inputs
_squeeze.sizes = lambda x, *, axes: np.squeeze(x, axes)
_squeeze.linear = True
batch_with_axes(_squeeze, "axes")


@_squeeze.padding
def _(pad: Padding, x: PaddedValue, *, axes: tuple[int, ...]) -> PaddedValue | None:
    if x.ragged(axes):
        return None
    old = other_axes(x.type.rank, axes)
    fill = {old.index(a): n for a, n in x.fill.items()}
    return pad.result(_squeeze(x.value, axes=axes), fill)


@_squeeze.vjp
def _(g: Value, x: Value, *, axes: tuple[int, ...]) -> tuple[Value]:
    return (F._sized(expand_dims(g, axes), x.type.shape),)


@public(method=True)
def squeeze(x: ArrayLike, /, axis: AxesLike | None = None) -> Value:
    """Remove axes of size 1: those in `axis`, or all whose size is statically 1."""
    value = as_strong_value(x)
    if axis is None:
        axis = tuple(i for i, n in enumerate(value.type.shape) if is_one(n))
    axes = normal_axes(axis, value.type.rank, "squeeze")
    return _squeeze(value, axes=axes) if axes else value


@op()
def _broadcast_to(x: Array, *, shape: Shape) -> TensorType:
    """Stretch `x` to `shape`, along axes of static size 1 and those that may be 1."""
    if len(shape) < x.type.rank:
        raise type_error(f"cannot broadcast to {shape_text(shape)}: it has fewer axes")
    require_shape(shape)
    tail = shape[len(shape) - x.type.rank :]
    for n, target in zip(x.type.shape, tail, strict=True):
        require_stretchable(n, target, f"cannot broadcast to {shape_text(shape)}")
    require_room(shape, x.dtype)
    return x.type.like(shape)


_broadcast_to.rounding = "none"
_broadcast_to.emit("{xp}.broadcast_to({x}, {shape})")
_broadcast_to.sizes = lambda x, *, shape: np.broadcast_to(x, shape)
_broadcast_to.views = views_of_inputs
_broadcast_to.stretches = True
_broadcast_to.linear = True
_broadcast_to.vjp(lambda g, x, *, shape: (summed_to(g, x.type.shape),))


@_broadcast_to.batch
def _(n: Size, batched: Batched, x: Value, *, shape: Shape) -> Value:
    missing = len(shape) + 1 - x.type.rank
    return broadcast_to(expand_dims(x, tuple(range(1, 1 + missing))), (n, *shape))


@_broadcast_to.padding
def _(pad: Padding, x: PaddedValue, *, shape: Shape) -> PaddedValue:
    shift = len(shape) - x.type.rank
    fill = constant_fill(x.value, len(shape))
    fill |= {a + shift: n for a, n in x.fill.items()}
    return pad.result(broadcast_to(x.value, shape), fill)


@public()
def broadcast_to(x: ArrayLike, /, shape: ShapeLike) -> Value:
    """Stretch `x` to `shape`, as `numpy.broadcast_to` does."""
    value = as_strong_value(x)
    target = check_shape(as_shape(shape), "broadcast_to")
    if len(target) == value.type.rank and all(map(same_size, target, value.type.shape)):
        return value
    return _broadcast_to(value, shape=target)


@public()
def flip(x: ArrayLike, /, axis: AxesLike | None = None) -> Value:
    """The elements in reverse order along `axis` (all axes by default)."""
    value = as_strong_value(x)
    axes = normal_axes(axis, value.type.rank, "flip")
    steps = [slice(None, None, -1 if a in axes else 1) for a in range(value.type.rank)]
    return value[tuple(steps)] if axes else value
