"""Orders along an axis beyond sorting: by several keys, in part, the largest few."""

from collections.abc import Callable, Sequence

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, SizeLike
from graphc.ir.graph.build import as_size, as_strong_value, cast, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import (
    Array,
    Primitive,
    Printing,
    op,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import AxisParam
from graphc.ir.sizes.dims import Size, minimum
from graphc.ir.types import (
    INT32,
    INT64,
    DType,
    NDArray,
    TensorType,
    is_float,
    is_integer,
)
from graphc.ops.common.axes import on_axis, row_places, with_size
from graphc.ops.common.batching import Batched, batch_with_axes, with_batch
from graphc.ops.common.monoids import Element, least
from graphc.ops.common.padding import PaddedValue, Padding, last_number
from graphc.ops.sorting.orders import print_lexsort, print_order, print_sorted


@op()
def _lexsort(*keys: Array, axis: AxisParam) -> TensorType:
    """The order along `axis` by several keys, of which the last counts most."""
    shape = list(keys[0].type.shape)
    for key in keys[1:]:
        if key.type.rank != len(shape):
            raise type_error("keys must have the same shape")
        for i, n in enumerate(key.type.shape):
            shape[i] = require_equal(shape[i], n, f"sizes of axis {i}")
    return TensorType(INT64, tuple(shape))


_lexsort.emit(print_lexsort)
_lexsort.no_gradient("its results are integers")


@_lexsort.batch
def _(n: Size, batched: Batched, *keys: Value, axis: int) -> Value:
    return _lexsort(*map(with_batch, [n] * len(keys), batched, keys), axis=axis + 1)


@_lexsort.padding
def _(pad: Padding, *keys: PaddedValue, axis: int) -> Value:
    """Add a key that counts most, so that the padding comes last."""
    values = [k.value for k in keys]
    if keys[0].ragged((axis,)):
        rank = keys[0].type.rank
        inside = pad.mask(keys[0].type.shape[axis], axis, rank)
        behind = F.broadcast_to(F.logical_not(inside), keys[0].value.type.shape)
        values.append(cast(behind, values[-1].dtype))
    order: Value = _lexsort(*values, axis=axis)
    return order


@public()
def lexsort(keys: Value | Sequence[ArrayLike], axis: int = -1) -> Value:
    """The positions that sort along `axis` by several keys; the last counts most."""
    values = [as_strong_value(key) for key in keys]
    if not values:
        raise graph_error("needs at least one key", op="lexsort")
    rank = values[0].type.rank
    if not rank:
        raise graph_error("needs at least one axis", op="lexsort")
    return _lexsort(*values, axis=normal_axis(axis, rank, "lexsort"))


def _partition_rule(
    name: str, infer_dtype: Callable[[Value], DType], printed: Callable[[Printing], str]
) -> Primitive:
    """Make the primitive of a partition.

    Both backends sort, so that they agree: a full order is a partition too.
    """

    def infer(x: Array, *, kth: tuple[int, ...], axis: AxisParam) -> TensorType:
        n, some = x.type.shape[axis], minimum(x.type.size, 1)
        for k in kth:  # an array without elements has any order
            reason = f"kth {k} is out of bounds for axis {axis}"
            require_at_most((k + 1 if k >= 0 else -k) * some, n, reason, "index")
        return x.type.like(dtype=infer_dtype(x))

    return Primitive(name, infer).emit(printed)


_partition = _partition_rule("partition", lambda x: x.dtype, print_sorted)
_argpartition = _partition_rule("argpartition", lambda x: INT64, print_order)
_argpartition.no_gradient("its results are integers")
batch_with_axes(_partition, "axis")
batch_with_axes(_argpartition, "axis")


def _padded_partition(primitive: Primitive) -> None:
    """Declare the mask rule; there is none for positions from a padded end."""

    @primitive.padding
    def _(
        pad: Padding, x: PaddedValue, *, kth: tuple[int, ...], axis: int
    ) -> Value | None:
        if axis in x.axes and any(k < 0 for k in kth):
            return None
        filled = pad.filled(x, (axis,), last_number(x.value.dtype))
        result: Value = primitive(filled, kth=kth, axis=axis)
        return result


_padded_partition(_partition)
_padded_partition(_argpartition)


@_partition.vjp
def _(g: Value, x: Value, *, kth: tuple[int, ...], axis: int) -> tuple[Value]:
    return (F._put_back(g, x, F.argsort(x, axis), axis),)


def _apply_partition(
    primitive: Primitive, x: ArrayLike, kth: ArrayLike, axis: int | None
) -> Value:
    value, chosen = on_axis(x, axis, primitive.name)
    listed = kth.tolist() if isinstance(kth, np.ndarray) else kth
    places = listed if isinstance(listed, (tuple, list)) else (listed,)
    numbers = [_place_number(k, primitive.name) for k in places]
    known = tuple(k for k in numbers if k is not None)
    return primitive(value, kth=known, axis=chosen)


def _place_number(k: object, name: str) -> int | None:
    """A position as an integer; None if it is symbolic: all is sorted for any."""
    problem = "kth must be integers"
    if not isinstance(k, Value):
        return as_integer(k, problem, name)
    if not is_integer(k.dtype):
        raise graph_error(problem, op=name, got=str(k.type))
    return None


@public(method=True)
def partition(x: ArrayLike, kth: ArrayLike, axis: int | None = -1) -> Value:
    """`x` with smaller elements before position `kth` and larger ones after it.

    `numpy.partition` leaves the order on either side open; here all is sorted, so that
    `kth` may be symbolic.
    """
    return _apply_partition(_partition, x, kth, axis)


@public(method=True)
def argpartition(x: ArrayLike, kth: ArrayLike, axis: int | None = -1) -> Value:
    """The positions that `partition` takes the elements from."""
    return _apply_partition(_argpartition, x, kth, axis)


@op()
def _top_k(x: Array, *, k: Size, axis: AxisParam) -> tuple[TensorType, TensorType]:
    """The `k` largest elements along `axis`, in descending order, and their places."""
    if x.dtype.kind == "c":
        raise type_error("complex numbers have no order")
    require_at_most(0, k, "k must not be negative")
    require_at_most(k, x.type.shape[axis], f"axis {axis} has fewer elements")
    shape = with_size(x.type.shape, axis, k)
    return x.type.like(shape), TensorType(INT32, shape)


def top_k_numpy(x: NDArray, k: int, axis: int) -> tuple[NDArray, NDArray]:
    """Printed into NumPy programs: as in XLA, NaN is largest and -0 is below 0."""
    bits = x
    if x.dtype.kind not in "biu":
        bits = x.view(f"int{x.dtype.itemsize * 8}")
        bits = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    order = np.argsort(~bits, axis=axis, kind="stable")
    order = order[(slice(None),) * axis + (slice(k),)]
    return np.take_along_axis(x, order, axis), order.astype("int32")


def _print_top_k(p: Printing) -> str:
    k, axis = p.code(p.node.params["k"]), p.node.params["axis"]
    if p.xp == "np":
        return p.call(top_k_numpy, p.inputs[0], k, axis)
    return f"jax.lax.top_k({p.inputs[0]}, {k}, axis={axis})"


_top_k.emit(_print_top_k)
batch_with_axes(_top_k, "axis")


def _least_bits(dtype: DType) -> Element:
    """The last element in the order of `top_k`: for floats a NaN whose sign is set."""
    if not is_float(dtype):
        return least(dtype)
    return np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]


@_top_k.padding
def _(pad: Padding, x: PaddedValue, *, k: Size, axis: int) -> tuple[Value, Value]:
    filled = pad.filled(x, (axis,), _least_bits(x.value.dtype))
    values, places = _top_k(filled, k=k, axis=axis)
    return values, places


@_top_k.vjp
def _(
    g: tuple[Value | None, ...], x: Value, *, k: Size, axis: int
) -> tuple[Value | None]:
    if g[0] is None:
        return (None,)
    return (F._put_back(g[0], x, _top_k(x, k=k, axis=axis)[1], axis),)


@public()
def top_k(x: ArrayLike, k: SizeLike, axis: int = -1) -> tuple[Value, Value]:
    """The `k` largest elements along `axis`, in descending order, and where they are.

    Of equal elements the first comes first; NaN is largest. `k` may be symbolic.
    """
    value = as_strong_value(x)
    chosen = normal_axis(axis, value.type.rank, "top_k")
    values, positions = _top_k(value, k=as_size(k, "k"), axis=chosen)
    return values, cast(positions, INT64)


@public()
def put_along_axis(
    x: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None
) -> Value:
    """A copy with `values` written at a position per row along `axis`.

    `numpy.put_along_axis` as a function: `x` itself does not change.
    """
    value, index = as_strong_value(x), as_strong_value(indices)
    if axis is None:
        if index.type.rank != 1:
            expected, got = "a vector, as axis is None", str(index.type)
            problem = "the indices have the wrong number of axes"
            raise graph_error(problem, op="put_along_axis", got=got, expected=expected)
        flat = F.ravel(value).at[F.ravel(index)].set(F.ravel(values))
        return F.reshape(flat, value.shape)
    rank = value.type.rank
    if index.type.rank != rank:
        got = f"{value.type}, {index.type}"
        raise graph_error("needs as many axes in the indices as in the array", got=got)
    chosen = normal_axis(axis, rank, "put_along_axis")
    return value.at[tuple(row_places(index, chosen, value.shape))].set(values)
