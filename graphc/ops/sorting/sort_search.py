"""Sorting, searching, and the ops whose size depends on what an array holds."""

from functools import partial
from typing import Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, SizeLike
from graphc.ir.graph.build import (
    as_size,
    as_strong_value,
    as_value,
    cast,
    integer_like,
    size_value,
)
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import BATCHING, Array, Printing, op, require_equal, type_error
from graphc.ir.namespace import F, enroll, enroll_method, public
from graphc.ir.params.kinds import AxisParam
from graphc.ir.sizes.dims import Size, less_equal, maximum, minimum
from graphc.ir.types import BOOL, FLOAT64, INT64, NDArray, TensorType, product
from graphc.ops.common.axes import on_axis, row_places
from graphc.ops.common.batching import Batched, batch_with_axes, with_batch
from graphc.ops.common.broadcasting import promoted
from graphc.ops.common.conditions import BOUNDS, BoundsRule, reporting
from graphc.ops.common.known_integers import by_numpy
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt, last_number
from graphc.ops.sorting.orders import print_order, print_search, print_sorted


@op()
def _sort(x: Array, *, axis: AxisParam) -> TensorType:
    """The elements in ascending order along `axis`; NaN comes last."""
    return x.type.like()


_sort.rounding = "stored"
_sort.emit(print_sorted)
_sort.sizes = by_numpy(np.sort)
batch_with_axes(_sort, "axis")


@_sort.padding
def _(pad: Padding, x: PaddedValue, *, axis: int) -> Value:
    ordered: Value = _sort(
        pad.filled(x, (axis,), last_number(x.value.dtype)), axis=axis
    )
    return ordered


@_sort.vjp
def _(g: Value, x: Value, *, axis: int) -> tuple[Value]:
    return (put_back(g, x, _argsort(x, axis=axis), axis),)


def put_back(g: Value, x: Value, places: Value, axis: int) -> Value:
    """Return zeros like `x` with `g` added at `places` along `axis`."""
    grid, rank = row_places(places, axis, g.shape), x.type.rank
    every = {"axes": tuple(range(rank)), "inside": (True,) * rank}
    return F._scatter(F.zeros_like(x), g, *grid, how="add", **every)


enroll(put_back, "_put_back")


@public()
def sort(
    x: ArrayLike,
    /,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
) -> Value:
    """The elements in ascending order along `axis` (None: flattened); NaN last.

    `descending` is the same order backwards. The sort is stable whatever `stable` is;
    only 0.0 and -0.0, which are equal, come in any order in NumPy programs.
    """
    value, chosen = on_axis(x, axis, "sort")
    ordered = _sort(value, axis=chosen)
    return F.flip(ordered, chosen) if descending else ordered


enroll_method(sort, "sort")


@op()
def _argsort(x: Array, *, axis: AxisParam) -> TensorType:
    """The positions that sort along `axis`; equal elements keep their order."""
    return TensorType(INT64, x.type.shape)


_argsort.emit(print_order)
_argsort.sizes = by_numpy(partial(np.argsort, kind="stable"))
_argsort.no_gradient("its results are integers")
batch_with_axes(_argsort, "axis")


@_argsort.padding
def _(pad: Padding, x: PaddedValue, *, axis: int) -> Value:
    # Stable: the padding stays after elements that are equal to it.
    order: Value = _argsort(
        pad.filled(x, (axis,), last_number(x.value.dtype)), axis=axis
    )
    return order


@public(method=True)
def argsort(
    x: ArrayLike,
    /,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
) -> Value:
    """The positions that sort along `axis`; equal elements keep their order.

    With `descending`, they start from the largest element, where `sort` puts NaN first.
    """
    value, chosen = on_axis(x, axis, "argsort")
    if not descending:
        return _argsort(value, axis=chosen)
    backwards = _argsort(F.flip(value, chosen), axis=chosen)
    return F.flip(value.shape[chosen] - 1 - backwards, chosen)


Side = Literal["left", "right"]


@op()
def _searchsorted(table: Array, x: Array, *, side: Side) -> TensorType:
    """The position at which each element of `x` would go into the sorted `table`."""
    if table.type.rank != 1 or table.dtype != x.dtype:
        raise type_error("needs a sorted vector and values of its dtype")
    return TensorType(INT64, x.type.shape)


_searchsorted.emit(print_search)
_searchsorted.no_gradient("its results are integers")


@_searchsorted.padding
def _(pad: Padding, table: PaddedValue, x: PaddedValue, *, side: str) -> Value:
    filled = pad.filled(table, (0,), last_number(table.value.dtype))
    places: Value = _searchsorted(filled, x.value, side=side)
    if not table.axes:
        return places
    most: Value = F.minimum(places, cast(pad.length(table.type.shape[0]), INT64))
    return most


@_searchsorted.batch
def _(n: Size, batched: Batched, table: Value, x: Value, *, side: str) -> Value:
    if not batched[0]:
        return _searchsorted(table, x, side=side)
    many = with_batch(n, batched[1], x)
    rows = F.reshape(many, (n, product(many.type.shape[1:])))
    count = size_value(rows.type.shape[1])
    # The rank among all elements, less how many of `x` itself come before.
    both = [rows, table] if side == "left" else [table, rows]
    ranks = _ranks(F.concatenate(both, axis=1))
    among_all = ranks[:, :count] if side == "left" else ranks[:, table.shape[1] :]
    return F.reshape(among_all - _ranks(rows), many.type.shape)


def _ranks(rows: Value) -> Value:
    """The rank of each element in its row."""
    return _argsort(_argsort(rows, axis=1), axis=1)


@public(method=True)
def searchsorted(
    table: ArrayLike,
    x: ArrayLike,
    /,
    side: str = "left",
    sorter: ArrayLike | None = None,
) -> Value:
    """The position at which each element of `x` would go into the sorted `table`.

    `table` is a vector. Where it is not sorted, `sorter` are the positions that sort it
    as a whole.
    """
    if side not in ("left", "right"):
        problem = f"side must be 'left' or 'right', not {side!r}"
        raise graph_error(problem, op="searchsorted")
    sorted_values, values = promoted(table, x)
    if sorter is not None:
        order = F.specify_shape(sorter, sorted_values.shape)
        sorted_values = F.take(sorted_values, order, axis=0)
    return _searchsorted(sorted_values, values, side=side)


@op()
def _nonzero(x: Array, *, count: Size) -> tuple[TensorType, ...]:
    """The positions of the `count` true elements, a vector per axis."""
    if not x.type.rank:
        raise type_error("needs at least one axis")
    return (TensorType(INT64, (count,)),) * x.type.rank


_nonzero.several = True
_nonzero.emit(numpy="np.nonzero({x})", jax="jnp.nonzero({x}, size={count})")
_nonzero.no_gradient("its results are integers")
_nonzero.no_batch(
    "the number of true elements differs between examples; keep them all and "
    "mask: gt.where(mask, x, 0)"
)


@op()
def _nonzero_within(x: Array, *, count: Size) -> tuple[TensorType, ...]:
    """The positions of the first `count` true elements, and zeros behind them."""
    return (TensorType(INT64, (count,)),) * x.type.rank


def nonzero_numpy(x: NDArray, count: int) -> tuple[NDArray, ...]:
    """Printed into NumPy programs: the first `count` positions of nonzero elements."""
    positions = np.zeros((x.ndim, count), "int64")
    places = np.nonzero(x)
    most = min(count, len(places[0]))
    for row, place in zip(positions, places):  # noqa: B905
        row[:most] = place[:most]
    return tuple(positions)


_nonzero_within.several = True
_nonzero_within.emit(
    numpy=lambda p: p.call(nonzero_numpy, *p.inputs, p.code(p.node.params["count"])),
    jax="jnp.nonzero({x}, size={count})",
)
_nonzero_within.no_gradient("its results are integers")
_nonzero_within.no_batch(BATCHING.reason(_nonzero))
_nonzero_within.no_padding("it is the result of a mask rule")


@_nonzero.padding
def _(pad: Padding, x: PaddedValue, *, count: Size) -> Rebuilt:
    mask = pad.filled(x, x.axes, False)
    if count is pad.exact(pad.out[0]):
        return _nonzero(mask, count=count)
    places = _nonzero_within(mask, count=count)
    columns = places if isinstance(places, tuple) else (places,)
    return tuple(pad.result(v, {0: 0}, i) for i, v in enumerate(columns))


def _positions(mask: Value) -> tuple[Value, ...]:
    positions = _nonzero(mask, count=as_size(F.count_nonzero(mask)))
    return positions if isinstance(positions, tuple) else (positions,)


@public(method=True)
def nonzero(x: ArrayLike, /) -> tuple[Value, ...]:
    """The positions of the nonzero elements, a vector per axis, in row-major order.

    Their number depends on the data: it is counted and read, and the rest is compiled
    for it.
    """
    value = as_strong_value(x)
    if not value.type.rank:
        raise graph_error("needs at least one axis", op="nonzero", got=str(value.type))
    return _positions(cast(value, BOOL))


@public()
def flatnonzero(x: ArrayLike) -> Value:
    """The positions of the nonzero elements of the flattened array."""
    return nonzero(F.ravel(x))[0]


@public()
def argwhere(x: ArrayLike) -> Value:
    """The positions of the nonzero elements, one row each."""
    return F.stack(nonzero(x), axis=1)


@public()
def compress(condition: ArrayLike, x: ArrayLike, axis: int | None = None) -> Value:
    """The elements along `axis` where `condition` holds, as `numpy.compress`.

    A shorter condition leaves out the rest of the axis.
    """
    value, chosen = on_axis(x, axis, "compress")
    rows = nonzero(cast(as_strong_value(condition), BOOL))
    if len(rows) != 1:
        raise graph_error("the condition must be a vector", op="compress")
    return F.take(value, rows[0], axis=chosen)


def _method_compress(x: Value, condition: ArrayLike, axis: int | None = None) -> Value:
    """`x.compress(condition, axis)`."""
    return compress(condition, x, axis)


enroll_method(_method_compress, "compress")


@public()
def extract(condition: ArrayLike, x: ArrayLike) -> Value:
    """The elements of the flattened array where `condition` holds."""
    return compress(F.ravel(condition), F.ravel(x), axis=0)


@op()
def _bincount(x: Array, weights: Array, *, length: Size) -> TensorType:
    """The sum of weights per number 0 .. length - 1."""
    require_equal(x.type.shape[0], weights.type.shape[0], "one weight per number")
    return TensorType(weights.dtype, (length,))


def bincount_numpy(x: NDArray, weights: NDArray, length: int) -> NDArray:
    """Printed into NumPy programs: the sum of `weights` for each number in `x`."""
    out = np.zeros(length, weights.dtype)
    np.add.at(out, x, weights)
    return out


def _print_bincount(p: Printing) -> str:
    return p.call(bincount_numpy, *p.inputs, p.code(p.node.params["length"]))


_bincount.emit(
    numpy=_print_bincount,
    jax="jnp.zeros({length}, {weights}.dtype).at[{x}].add({weights})",
)


def _bincount_checks(node: Node) -> list[tuple[Value, str]]:
    negative = reporting(node.inputs[0] < 0, node.inputs[0])
    return [(negative, "bincount: a number is negative: {}")]


BOUNDS.define(_bincount, BoundsRule(_bincount_checks))
_bincount.linear = True


@_bincount.padding
def _(pad: Padding, x: PaddedValue, weights: PaddedValue, *, length: Size) -> Value:
    """Count padding as a weight of 0 at the number 0, which needs an element there."""
    numbers, shares = pad.filled(x, (0,), 0), pad.filled(weights, (0,), 0)
    if less_equal(1, length) is True:
        counts: Value = _bincount(numbers, shares, length=length)
        return counts
    return F._part(_bincount(numbers, shares, length=length + 1), 0, 0, length)


@_bincount.vjp
def _(g: Value, x: Value, weights: Value, *, length: Size) -> tuple[None, Value]:
    return None, F.take(g, x)


@_bincount.batch
def _(n: Size, batched: Batched, x: Value, weights: Value, *, length: Size) -> Value:
    numbers, shares = with_batch(n, batched[0], x), with_batch(n, batched[1], weights)
    rows = F.expand_dims(F.arange(size_value(n)), 1)
    zeros, where = F.zeros((n, length), weights.dtype), {"axes": (0, 1)}
    inside = (True, False)
    return F._scatter(zeros, shares, rows, numbers, how="add", inside=inside, **where)


def _weight_vector(weights: Value) -> Value:
    if weights.type.rank == 1 and weights.dtype.kind != "c":
        return weights
    raise graph_error(
        "weights must be a vector of real numbers, one for each element",
        op="bincount",
        got=str(weights.type),
        hint="" if weights.type.rank else "give the least length as minlength=n",
    )


@public()
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: SizeLike = 0
) -> Value:
    """How often each of 0, 1, ... occurs, or the sum of its weights (as float64).

    The length is the largest number plus one: one host read where it is data, unless
    bounds of the numbers, as in `gt.clip(x, 0, 4)`, show that it is `minlength`. No
    number may be negative: the caller sees to it, or `check=True` checks it.
    """
    numbers = as_strong_value(x)
    if numbers.type.rank != 1 or numbers.dtype.kind not in "biu":
        got = str(numbers.type)
        raise graph_error("needs an integer vector", op="bincount", got=got)
    numbers = cast(numbers, INT64)
    if weights is None:
        share = F.ones_like(numbers)
    else:
        share = cast(_weight_vector(as_value(weights)), FLOAT64)
    least = integer_like(minlength, "the least length")
    reason = "the least length must not be negative"
    checked = F._at_most(0, as_size(least), reason, numbers, "bincount")
    length = _length_by_bounds(numbers, as_size(least))
    if length is None:
        floor = F.asarray(least, "int64") - 1
        largest = F.maximum(F.max(checked, initial=floor), floor)  # never below it
        length = as_size(largest + 1)
    return _bincount(checked, share, length=length)


def _length_by_bounds(numbers: Value, least: Size) -> Size | None:
    """The number of counts where no number is as large as `least`; else None.

    If that is 0, all numbers may still be 0: `x % k` for a k of 0.
    """
    most = F._upper_bound(numbers)
    if most is None or less_equal(most, maximum(least - 1, 0)) is not True:
        return None
    if less_equal(most, least - 1) is True:
        return least
    return maximum(least, minimum(1, numbers.type.shape[0]))
