"""Sums per group: bins of a histogram, and segments of rows."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, SizeLike
from graphc.ir.graph.build import (
    as_size,
    as_strong_value,
    as_value,
    cast,
    literal_of,
    size_value,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_equal, type_error
from graphc.ir.namespace import F, enroll, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import (
    BOOL,
    FLOAT64,
    INT64,
    DType,
    NDArray,
    TensorType,
    is_inexact,
    is_integer,
)
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.broadcasting import common_dtype, with_sizes
from graphc.ops.common.monoids import Element, least, most
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.common.spread import nan_kept


@public()
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Value:
    """The number of the bin of each element, as `numpy.digitize`.

    The edges must ascend or descend, which is checked where they are constant.
    """
    value, edges = as_strong_value(x), as_strong_value(bins)
    if "c" in (value.dtype.kind, edges.dtype.kind) or edges.type.rank != 1:
        got = f"{value.type}, {edges.type}"
        raise graph_error("needs real numbers and a vector of edges", got=got)
    side = "left" if right else "right"
    known = literal_of(edges)
    if known is not None:
        down = _is_descending(known)
        if not down:
            return F.searchsorted(edges, value, side=side)
        position = F.searchsorted(F.flip(edges), value, side=side)
        return edges.shape[0] - position
    count = edges.shape[0]
    ends = F.concatenate([edges[:1], edges[-1:]])  # nothing where there are no edges
    rises = F.logical_or(ends[:1] <= ends[-1:], F.isnan(ends[-1:]))  # NaN is largest
    falls = F.any(F.logical_not(rises))
    position = F.searchsorted(F.where(falls, F.flip(edges), edges), value, side=side)
    return F.where(falls, count - position, position)


def _is_descending(edges: NDArray) -> bool:
    """Whether constant edges descend, NaN being largest; raises if they do neither."""
    for descends, ordered in ((False, edges), (True, edges[::-1])):
        if np.array_equal(ordered, np.sort(ordered), equal_nan=True):
            return descends
    raise graph_error("the edges must ascend or descend", op="digitize")


@public()
def histogram_bin_edges(
    x: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Value:
    """The edges that `histogram` uses, which do not depend on the weights."""
    return _edges(F.ravel(as_strong_value(x)), bins, range)


@public()
def histogram(
    x: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Value, Value]:
    """Counts (or sums of weights) per bin, and the edges, as `numpy.histogram`.

    `bins` is a number, which may be symbolic, or a vector of ascending edges. The last
    bin includes its right edge. With `density`, counts are divided by the widths and
    the total.
    """
    value = F.ravel(as_strong_value(x))
    edges = _edges(value, bins, range)
    n = edges.shape[0] - 1
    number = F.searchsorted(edges, value, side="right") - 1
    number = F.where(F.equal(value, edges[-1]), n - 1, number)
    inside = F.logical_and(value >= edges[0], value <= edges[-1])
    share = as_value(np.int64(1)) if weights is None else _weight_vector(value, weights)
    counted = F.where(inside, share, 0)
    target = F.where(inside, number, 0)
    counts = F.zeros((n,), counted.dtype).at[target].add(counted)
    if density:
        counts = counts / F.diff(edges) / F.sum(counts)
    return counts, edges


def _weight_vector(value: Value, weights: ArrayLike) -> Value:
    share = F.ravel(as_strong_value(weights))
    return F.specify_shape(share, value.type.shape)


def _edges(value: Value, bins: ArrayLike, limits: Sequence[ArrayLike] | None) -> Value:
    if isinstance(bins, str):
        hint = "give their number, or the edges from numpy.histogram_bin_edges"
        problem = "the number of bins cannot be chosen from the data"
        raise graph_error(problem, hint=hint)
    edges = as_value(bins)
    if edges.type.rank == 1:
        known = literal_of(edges)
        if known is not None and (known[:-1] > known[1:]).any():
            raise graph_error("the edges must ascend", op="histogram")
        return strong(edges)
    if edges.type.rank or not is_integer(edges.dtype):
        got = str(edges.type)
        raise graph_error("bins must be a number or a vector", op="histogram", got=got)
    count = as_size(bins, "a number of bins")
    low, high, dtype = _data_range(value) if limits is None else _limits(value, limits)
    low = F._at_most(1, count, "it needs at least one bin", low, "histogram")
    same = F.equal(low, high)  # then half is added to either side
    low, high = F.where(same, low - 0.5, low), F.where(same, high + 0.5, high)
    return cast(F.linspace(low, high, size_value(count + 1)), dtype)


def _float_dtype(dtype: DType) -> DType:
    return dtype if is_inexact(dtype) else FLOAT64


def _limits(value: Value, limits: Sequence[ArrayLike]) -> tuple[Value, Value, DType]:
    """The outermost edges as given, and the dtype of all edges."""
    ends = [as_value(v) for v in limits]
    known = [literal_of(v) for v in ends]
    if known[0] is not None and known[1] is not None and not known[0] <= known[1]:
        raise graph_error("the range must ascend", op="histogram", got=str(limits))
    dtype = _float_dtype(common_dtype([*ends, value]))
    # Python numbers are not rounded before the edges are worked out.
    weak = all(v.type.weak for v in ends)
    work = FLOAT64 if weak else _float_dtype(common_dtype(ends))
    low, high = (cast(v, work) for v in ends)
    return low, high, dtype


def _data_range(value: Value) -> tuple[Value, Value, DType]:
    """The smallest and largest element (0 and 1 if there are none), and their dtype."""
    dtype = _float_dtype(value.dtype)
    low = F.min(value, initial=most(value.dtype))
    high = F.max(value, initial=least(value.dtype))
    nothing = low > high
    low, high = cast(low, dtype), cast(high, dtype)
    return F.where(nothing, 0, low), F.where(nothing, 1, high), dtype


SegmentReduction = Literal["add", "multiply", "min", "max"]


@op()
def _segment(
    x: Array, ids: Array, start: Array, *, how: SegmentReduction, count: Size
) -> TensorType:
    """Rows of `x` combined per segment number, from `start` in each segment."""
    if ids.type.rank != 1 or ids.dtype != INT64 or start.dtype != x.dtype:
        raise type_error("needs an integer vector of segment numbers")
    require_equal(x.type.shape[0], ids.type.shape[0], "one segment number per row")
    return x.type.like((count, *x.type.shape[1:]))


def segment_numpy(
    x: NDArray, ids: NDArray, start: NDArray, count: int, how: str
) -> NDArray:
    """Printed into NumPy programs: rows reduced by segment, dropped if out of range."""
    out = np.full((count, *x.shape[1:]), start, x.dtype)
    inside = (ids >= 0) & (ids < count)
    names = {"max": "maximum", "min": "minimum"}
    getattr(np, names.get(how, how)).at(out, ids[inside], x[inside])
    return out


def _print_segment(p: Printing) -> str:
    x, ids, start = p.inputs
    count, how = p.code(p.node.params["count"]), p.node.params["how"]
    if p.xp == "np":
        return p.call(segment_numpy, x, ids, start, count, repr(how))
    shape = f"({count}, *{x}.shape[1:])"
    empty = f"jnp.full({shape}, {start}, {x}.dtype)"
    inside = f"jnp.where({ids} < 0, {count}, {ids})"
    text = f'{empty}.at[{inside}].{how}({x}, mode="drop")'
    if how not in ("max", "min"):
        return text
    has_nan = f'jnp.zeros({shape}, bool).at[{inside}].max(jnp.isnan({x}), mode="drop")'
    return nan_kept(p, text, has_nan)


_segment.rounding = "stored"
_segment.emit(_print_segment)


@_segment.padding
def _(
    pad: Padding,
    x: PaddedValue,
    ids: PaddedValue,
    start: PaddedValue,
    *,
    how: str,
    count: Size,
) -> Value:
    """Give rows of padding the number -1, so that they are in no segment."""
    numbers = pad.filled(ids, (0,), -1)
    result: Value = _segment(x.value, numbers, start.value, how=how, count=count)
    return result


_segment.picks = True
_segment.no_gradient_for["start"] = "the value that a segment starts from is a constant"


@_segment.vjp
def _(
    g: Value, x: Value, ids: Value, start: Value, *, how: str, count: Size
) -> tuple[Value, None, None]:
    # Rows that are in no segment read a row of zeros, put after the last one.
    n = size_value(count)
    place = F.where(F.logical_and(ids >= 0, ids < n), ids, n)

    def read(rows: Value) -> Value:
        widths = [(0, 1), *[(0, 0)] * (rows.type.rank - 1)]
        return F._gather(F.pad(rows, widths), place, axes=(0,), inside=(True,))

    if how == "add":
        return read(g), None, None
    if how == "multiply":
        return read(g * start) * product_of_others(x, place), None, None
    extremes = _segment(x, ids, start, how=how, count=count)
    hits = F.equal(x, read(extremes))
    zero, one = (cast(as_value(k), x.dtype) for k in (0, 1))
    ties = _segment(cast(hits, x.dtype), ids, zero, how="add", count=count)
    ties = ties + cast(F.equal(extremes, start), x.dtype)
    share = read(g / F.maximum(ties, one))
    return F.where(hits, share, F.zeros_like(x)), None, None


def product_of_others(x: Value, ids: Value) -> Value:
    """For each row, the product of the others of its segment; zeros may occur.

    With rows in the order of segments, it is the product of those before each row times
    the product of those after it.
    """
    order = F.argsort(ids)
    rows, sorted_ids = F.take(x, order, axis=0), F.take(ids, order)
    before = _product_before(rows, sorted_ids)
    behind = _product_before(F.flip(rows, 0), F.flip(sorted_ids))
    return F.take(before * F.flip(behind, 0), F.argsort(order), axis=0)


def _product_before(rows: Value, ids: Value) -> Value:
    """The product of the rows before each one in its segment; `ids` are sorted."""
    first = F.not_equal(ids[1:], ids[:-1])
    first = F.concatenate([F.full((F.minimum(ids.shape[0], 1),), True), first])
    first = F.specify_shape(first, ids.type.shape)
    first = F.expand_dims(first, tuple(range(1, rows.type.rank)))
    first = F.broadcast_to(first, rows.type.shape)
    last = F.concatenate([rows[:1], rows[:-1]])
    last = F.specify_shape(last, rows.type.shape)
    factor = F.where(first, F.zeros_like(rows), last)
    return F._recurrence(factor, cast(first, rows.dtype), axis=0, reverse=False)


enroll(product_of_others, "_product_of_others")


@_segment.batch
def _(
    n: Size,
    batched: Batched,
    x: Value,
    ids: Value,
    start: Value,
    *,
    how: str,
    count: Size,
) -> Value:
    if not batched[1]:
        result = _segment(F.swapaxes(x, 0, 1), ids, start, how=how, count=count)
        return F.swapaxes(result, 0, 1)
    many = with_batch(n, batched[0], x)
    size, examples = size_value(count), F.arange(size_value(n))
    valid = F.logical_and(ids >= 0, ids < size)
    numbers = F.where(valid, ids + F.expand_dims(examples, 1) * size, -1)
    tail = many.type.shape[2:]
    rows = F.reshape(many, (many.type.shape[0] * many.type.shape[1], *tail))
    result = _segment(rows, F.ravel(numbers), start, how=how, count=n * count)
    return F.reshape(result, (n, count, *tail))


_OF_BOOLS: dict[SegmentReduction, SegmentReduction] = {"add": "max", "multiply": "min"}


def _segment_function(
    name: str, how: SegmentReduction, start: Callable[[Value], Element]
) -> None:
    doc = (
        f"Rows of `x` with the same segment number, combined ({how}).\n\n"
        "Numbers outside 0..num_segments - 1 are dropped. The size may be symbolic;\n"
        "by default it is the largest number plus one, a host read where it is data."
    )

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike, segment_ids: ArrayLike, num_segments: SizeLike | None = None
    ) -> Value:
        value = as_strong_value(x)
        ids = as_strong_value(segment_ids)
        if not is_integer(ids.dtype) or not value.type.rank:
            got = f"{value.type}, {ids.type}"
            problem = "needs rows and integer segment numbers"
            raise graph_error(problem, op=name, got=got)
        ids = cast(ids, INT64)
        if num_segments is None:
            count = as_size(F.max(ids, initial=-1) + 1)
        else:
            count = as_size(num_segments)
            value = with_sizes(value, (count,), name)
        first = cast(as_value(start(value)), value.dtype)
        by = _OF_BOOLS.get(how, how) if value.dtype == BOOL else how
        return _segment(value, ids, first, how=by, count=count)


_segment_function("segment_sum", "add", lambda v: 0)
_segment_function("segment_prod", "multiply", lambda v: 1)
_segment_function("segment_max", "max", lambda value: least(value.dtype))
_segment_function("segment_min", "min", lambda value: most(value.dtype))
