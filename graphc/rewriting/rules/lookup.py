"""Tables of rows: count the look-ups of each row before adding up.

Counting how often each row is looked up reads the table only once. A row that is not
looked up contributes nothing, whatever it holds. And a table of zeros that numbers are
written to, such as the gradient of a look-up, need not be made for sums of its rows.
"""

from collections.abc import Sequence

import numpy as np

from graphc.analysis.cost import current_costs
from graphc.ir.graph.build import cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import INT32, INT64, DType, is_float, is_integer, same_size
from graphc.ops.indexing.counting_indices import is_counting
from graphc.rewriting.engine.rule import Rule, Rules, rewrite
from graphc.rewriting.match.pattern import once, p, v
from graphc.rewriting.match.sizes import (
    Axes,
    asks_late,
    at_most,
    has_limit,
    is_wide,
    with_guards,
)
from graphc.rewriting.rules.contraction import is_count

_ROWS = p.gather(v.table, v.i, axes=(0,), inside=v.inside)


def _are_few(elements: Size, dtype: DType) -> bool:
    """Whether so few elements are looked up that this takes no longer than counting.

    An unknown size is taken for a large one.
    """
    return at_most(elements, (current_costs().counted - 1) // dtype.itemsize)


def _pays(table: Value, i: Value) -> bool:
    """Whether there are many look-ups in a table of long rows."""
    if i.type.rank != 1 or table.type.rank != 2 or not is_wide(table.dtype):
        return False
    rows, width = table.type.shape
    costs = current_costs()
    are_many = at_most(rows * costs.lookups, i.type.shape[0])
    are_many = are_many and at_most(costs.looked_up, width)
    few = _are_few(i.type.shape[0] * width, table.dtype)
    return are_many and is_float(table.dtype) and not few


def _valid_rows(table: Value, i: Value, inside: object) -> Value:
    """Return the rows that are looked up, none of them out of bounds."""
    rows = F.arange(size_value(table.type.shape[0]), dtype=_count_dtype(i))
    return OP.gather(rows, i, axes=(0,), inside=inside)


def _count_dtype(i: Value) -> DType:
    """Return an integer dtype that holds the number of look-ups; short is faster."""
    return INT32 if at_most(i.type.size, np.iinfo(INT32).max) else INT64


def _sum_of_used(table: Value, weights: Value, used: Value) -> Value:
    used_rows = F.where(F.expand_dims(used, 1), table, 0)
    return F.matmul(weights, used_rows)


@rewrite(p.sum(once(_ROWS), axes=(0,), keepdims=False), exact=False)
def sum_of_rows(table: Value, i: Value, inside: object) -> Value | None:
    """The sum of many rows of a table, by how often each is looked up."""
    if not _pays(table, i):
        return None
    ones, places = F.ones(i.shape, _count_dtype(i)), _valid_rows(table, i, inside)
    times = OP.bincount(places, ones, length=table.type.shape[0])
    return _sum_of_used(table, cast(times, table.dtype), times > 0)


@rewrite(
    p.sum(once(p.multiply(v.w, once(_ROWS))), axes=(0,), keepdims=False),
    exact=False,
    finite=True,
)
def sum_of_weighted_rows(
    w: Value, table: Value, i: Value, inside: object
) -> Value | None:
    """The weighted sum of many rows of a table, by the total weight of each.

    A row whose weights add up to zero counts for nothing, also where it is infinite.
    """
    if not _pays(table, i) or w.type.rank != 2 or not is_one(w.type.shape[1]):
        return None
    shares = F.broadcast_to(F.squeeze(w, 1), i.type.shape)
    places = _valid_rows(table, i, inside)
    total = OP.bincount(places, shares, length=table.type.shape[0])
    return _sum_of_used(table, total, F.not_equal(total, 0))


@rewrite(p.sum(once(_ROWS), axes=v.axes, keepdims=v.keepdims), exact=False)
def sum_within_rows(
    table: Value, i: Value, inside: object, axes: Axes, keepdims: bool
) -> Value | None:
    """Rows of a table are summed before they are looked up, if that is less to sum."""
    within = tuple(a - i.type.rank + 1 for a in axes if a >= i.type.rank)
    looked_up = i.type.size
    if not within or not is_wide(table.dtype):
        return None
    if not at_most(table.type.shape[0], looked_up):
        return None
    sums = OP.gather(
        OP.sum(table, axes=within, keepdims=True), i, axes=(0,), inside=inside
    )
    outer_axes = tuple(a for a in axes if a < i.type.rank)
    sums = OP.sum(sums, axes=outer_axes, keepdims=True) if outer_axes else sums
    return sums if keepdims else F.squeeze(sums, axes)


@rewrite(p.matmul(once(_ROWS), v.w), exact=False)
def rows_by(table: Value, i: Value, inside: object, w: Value) -> Value | None:
    """Rows of a small table are multiplied before they are looked up."""
    if i.type.rank != 1 or table.type.rank != 2 or w.type.rank > 2:
        return None
    rows = table.type.shape[0]
    columns = w.type.shape[1] if w.type.rank == 2 else 1
    if not at_most(rows * 2, i.type.shape[0]) or not is_wide(table.dtype):
        return None
    if not at_most(columns, table.type.shape[1]):
        return None
    return OP.gather(F.matmul(table, w), i, axes=(0,), inside=inside)


def _sum_of_written(count: int) -> Rule:
    places, where = [getattr(v, f"i{k}") for k in range(count)], tuple(range(count))
    table = v.table(p.scatter(p.full(0), v.w, *places, axes=where, how="add"))

    @rewrite(
        p.sum(table, axes=v.axes, keepdims=v.keepdims),
        exact=False,
        name=f"sum_of_written_{count}",
    )
    def rule(table: Value, w: Value, axes: Axes, keepdims: bool) -> Value | None:
        """Numbers that are written to zeros are added up without making the zeros."""
        shape, node = table.type.shape, table.node
        if has_limit(table) or not all(node.params["inside"]) or asks_late(node):
            return None
        if not is_wide(table.dtype):
            return None
        points = _index_shape(node.inputs[2:])
        if not table.type.rank == len(points) == count:
            return None
        for a, (i, n) in enumerate(zip(node.inputs[2:], shape, strict=True)):
            once_each = is_counting(i, a - count + i.type.rank, n)
            if a not in axes and not (once_each and same_size(points[a], n)):
                return None
        total = OP.sum(F.broadcast_to(w, points), axes=axes, keepdims=keepdims)
        for n in (shape[a] for a in axes if not at_most(1, shape[a])):
            # Nothing can be written to what has no element.
            total = F.where(F.greater(size_value(n), 0), total, 0)
        return with_guards(total, node)

    return rule


def _index_shape(indices: Sequence[Value]) -> tuple[Size, ...]:
    """The shape that index arrays broadcast to."""
    rank = max(i.type.rank for i in indices)
    shapes = [(1,) * (rank - i.type.rank) + i.type.shape for i in indices]
    sizes = ([n for n in along if not is_one(n)] for along in zip(*shapes, strict=True))
    return tuple(lengths[0] if lengths else 1 for lengths in sizes)


def _one_hot(numbers: object, name: str) -> tuple[Rule, Rule]:
    hot = p.convert(p.equal(p.expand_dims(v.ids, axes=(1,)), numbers))

    def counted(ids: Value, n: Value) -> bool:
        plain = ids.type.rank == 1 and is_integer(ids.dtype) and n.type.rank == 1
        many = plain and at_most(current_costs().looked_up, n.type.shape[0])
        return many and is_count(n, n.type.shape[0])

    @rewrite(
        p.matmul(p.transpose(hot, axes=(1, 0)), v.x),
        exact=False,
        finite=True,
        name=f"one_hot_transposed_by{name}",
    )
    def adds(ids: Value, n: Value, x: Value) -> Value | None:
        """Rows that a one-hot matrix adds up are added up by their numbers."""
        if not counted(ids, n) or x.type.rank > 2 or not is_wide(x.dtype):
            return None
        if _are_few(x.type.size * n.type.shape[0], x.dtype):
            return None
        return F.segment_sum(x, ids, size_value(n.type.shape[0]))

    @rewrite(
        v.y(p.matmul(hot, v.x)), exact=False, finite=True, name=f"one_hot_by{name}"
    )
    def takes(y: Value, ids: Value, n: Value, x: Value) -> Value | None:
        """Rows that a one-hot matrix selects are looked up; ids out of range give 0."""
        if not counted(ids, n) or x.type.rank > 2:
            return None
        valid = F.logical_and(ids >= 0, ids < size_value(n.type.shape[0]))
        rows = OP.gather(x, F.where(valid, ids, 0), axes=(0,), inside=(True,))
        shown = F.expand_dims(valid, 1) if x.type.rank == 2 else valid
        return with_guards(F.where(shown, rows, 0), y.node)

    return adds, takes


LOOKUP = Rules(
    (
        sum_of_rows,
        sum_of_weighted_rows,
        sum_within_rows,
        rows_by,
        *map(_sum_of_written, (2, 3, 4)),
        *_one_hot(v.n, ""),
        *_one_hot(p.expand_dims(v.n, axes=(0,)), "_row"),
    )
)
