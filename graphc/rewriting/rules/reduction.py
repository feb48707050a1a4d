"""Reductions pushed towards inputs, through ops that they commute with.

Summed values may be multiplied or added up in another order, so results differ by
rounding. Where one factor holds an infinity, and the other a zero or both signs or no
element, a NaN may come or go. Half precision is left alone, since there a part of a sum
may overflow where the whole does not.
"""

import numpy as np

from graphc.ir.graph.build import cast, literal_of, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import (
    INT32,
    INT64,
    DType,
    is_float,
    is_inexact,
    product,
    same_shape,
)
from graphc.ops.common.axes import with_rank
from graphc.rewriting.engine.rule import Rule, Rules, rewrite
from graphc.rewriting.match.pattern import Apply, Pattern, once, p, v
from graphc.rewriting.match.sizes import (
    Axes,
    Reduction,
    at_most,
    count_elements,
    drop_axes,
    has_limit,
    is_wide,
    origins_of,
    reduce_operand,
    repeated,
    split_axes,
    varies,
    with_tests,
)

REDUCED = {"axes": v.axes, "keepdims": v.keepdims}


def _may_count(dtype: DType) -> bool:
    """Whether a sum of equal terms may become a product.

    It may not be for complex numbers, as the product makes NaN of an infinity.
    """
    return is_wide(dtype) and dtype.kind != "c"


def _reduction_op(primitive: Primitive) -> Reduction:
    return lambda x, axes: primitive(x, axes=axes, keepdims=False)


_sum, _max, _min = map(_reduction_op, (OP.sum, OP.max, OP.min))


def _is_finite(x: Value) -> bool:
    """Whether `x` is a constant without infinities, NaN and zeros."""
    array = literal_of(x)
    return array is not None and bool(np.all(np.isfinite(array) & (array != 0)))


@rewrite(p.sum(v.s(once(p.multiply(v.x, v.y))), **REDUCED), exact=False, finite=True)
def sum_of_multiply(
    s: Value, x: Value, y: Value, axes: Axes, keepdims: bool
) -> Value | None:
    """A factor is summed first along axes where the other does not vary.

    An infinite factor makes no NaN any more where the signs of the other differ.
    """
    rank = max(x.type.rank, y.type.rank)
    only_x, only_y, both = split_axes(x, y, rank, axes)
    whole = split_axes(x, y, rank, tuple(range(rank)))
    larger = bool(whole.x and whole.y and (only_x or only_y))  # than either factor
    scaled = bool(only_x) and _is_finite(y)
    if not is_wide(x.dtype) or has_limit(s) or not (larger or scaled):
        return None
    sums = reduce_operand(_sum, x, rank, only_x) * reduce_operand(_sum, y, rank, only_y)
    return drop_axes(reduce_operand(_sum, sums, rank, both), axes, keepdims)


@rewrite(p.sum(once(p.true_divide(v.x, v.y)), **REDUCED), exact=False)
def sum_of_true_divide(x: Value, y: Value, axes: Axes, keepdims: bool) -> Value | None:
    """Quotients by a divisor that does not vary are summed before the division."""
    rank = max(x.type.rank, y.type.rank)
    only_x, only_y, both = split_axes(x, y, rank, axes)
    if not is_wide(x.dtype) or only_y or not only_x or not _is_finite(y):
        return None
    quotient = reduce_operand(_sum, x, rank, only_x) / y
    return drop_axes(reduce_operand(_sum, quotient, rank, both), axes, keepdims)


def _sum_of_terms(op: str) -> Rule:
    @rewrite(
        p.sum(v.s(once(getattr(p, op)(v.x, v.y))), **REDUCED),
        exact=False,
        name=f"sum_of_{op}",
    )
    def rule(s: Value, x: Value, y: Value, axes: Axes, keepdims: bool) -> Value | None:
        """A term that does not vary along an axis is multiplied by its length."""
        rank, shape, dtype = s.type.rank, s.type.shape, s.dtype
        only_x, only_y, both = split_axes(x, y, rank, axes)
        if not _may_count(dtype) or has_limit(s) or not (only_x or only_y):
            return None
        of_x = repeated(reduce_operand(_sum, x, rank, only_x), shape, only_y)
        of_y = repeated(reduce_operand(_sum, y, rank, only_y), shape, only_x)
        terms = s.node.primitive(of_x, of_y)
        return drop_axes(reduce_operand(_sum, terms, rank, both), axes, keepdims)

    return rule


def _sum_of_squared_difference(pattern: Pattern, name: str) -> Rule:
    @rewrite(p.sum(v.s(once(pattern)), **REDUCED), exact=False, finite=True, name=name)
    def rule(
        s: Value, d: Value, x: Value, y: Value, axes: Axes, keepdims: bool
    ) -> Value | None:
        """The sum of (x - y)**2 over all pairs, by sums over each.

        The mean of x is subtracted from both first, so that hardly anything is left to
        cancel. An infinity makes NaN of a sum that was infinite.
        """
        rank, shape, dtype = d.type.rank, d.type.shape, d.dtype
        if has_limit(d) or not same_shape(s.type.shape, shape):
            return None
        only_x, only_y, both = split_axes(x, y, rank, axes)
        if not (only_x and only_y and is_wide(dtype) and is_float(dtype)):
            return None
        size = count_elements(_full_shape(x, rank), only_x, dtype)
        mean = reduce_operand(_sum, x, rank, only_x) / F.maximum(size, 1)
        x, y, others = x - mean, y - mean, count_elements(shape, only_y, dtype)
        squares = reduce_operand(_sum, F.square(x), rank, only_x) * others
        squares = squares + reduce_operand(_sum, F.square(y), rank, only_y) * size
        mixed = reduce_operand(_sum, x, rank, only_x)
        mixed = mixed * reduce_operand(_sum, y, rank, only_y)
        squares = squares - 2 * mixed
        return drop_axes(reduce_operand(_sum, squares, rank, both), axes, keepdims)

    return rule


def _full_shape(x: Value, rank: int) -> tuple[Size, ...]:
    """Return the shape of `x` broadcast to `rank` axes, new ones of size 1 in front."""
    return (1,) * (rank - x.type.rank) + x.type.shape


_DIFFERENCE = v.d(p.subtract(v.x, v.y))


@rewrite(p.sum(once(p.negative(v.x)), **REDUCED), exact=False)
def sum_of_negative(x: Value, axes: Axes, keepdims: bool) -> Value | None:
    """The sum of -x is minus that of x."""
    return -OP.sum(x, axes=axes, keepdims=keepdims) if is_wide(x.dtype) else None


@rewrite(p.sum(v.s(p.broadcast_to(v.x)), **REDUCED), exact=False, checks=True)
def sum_of_broadcast(s: Value, x: Value, axes: Axes, keepdims: bool) -> Value | None:
    """Equal elements are counted, not added up."""
    rank = s.type.rank
    stretched = tuple(
        a for a in axes if not varies(x, rank, a) and not is_one(s.type.shape[a])
    )
    if not _may_count(x.dtype) or not stretched:
        return None
    if has_limit(s) and not origins_of(s.type.shape):
        return None
    other_axes = tuple(a for a in axes if a not in stretched)
    total = reduce_operand(_sum, with_rank(x, rank), rank, other_axes)
    total = repeated(total, s.type.shape, stretched)
    result_shape = tuple(1 if a in axes else n for a, n in enumerate(s.type.shape))
    return drop_axes(
        with_tests(F.broadcast_to(total, result_shape), [s.node]), axes, keepdims
    )


def _expanded_rule(op: str) -> Rule:
    @rewrite(
        v.y(getattr(p, op)(p.expand_dims(v.x, axes=v.new), **REDUCED)),
        exact=False,
        name=f"{op}_of_expanded",
    )
    def rule(x: Value, y: Value, new: Axes, axes: Axes, keepdims: bool) -> Value:
        """Axes of size 1 are inserted after a reduction, or not at all."""
        rank, primitive = x.type.rank + len(new), y.node.primitive
        old = [a for a in range(rank) if a not in new]  # where the axes of x are
        within = tuple(i for i, a in enumerate(old) if a in axes)
        result = primitive(x, axes=within, keepdims=False) if within else x
        if keepdims:
            return F.expand_dims(result, tuple(sorted({*new, *axes})))
        remaining = (a for a in range(rank) if a not in axes)
        inserted = tuple(i for i, a in enumerate(remaining) if a in new)
        return F.expand_dims(result, inserted)

    return rule


@rewrite(p.sum(once(p.transpose(v.x, axes=v.order)), **REDUCED), exact=False)
def sum_of_transposed(x: Value, order: Axes, axes: Axes, keepdims: bool) -> Value:
    """The remaining axes are transposed after the sum."""
    summed = tuple(sorted(order[a] for a in axes))
    total = OP.sum(x, axes=summed, keepdims=keepdims)
    if keepdims:
        return F.transpose(total, order)
    remaining = [a for a in order if a not in summed]
    return F.transpose(total, tuple(sorted(remaining).index(a) for a in remaining))


@rewrite(
    p.sum(once(p.sum(v.x, axes=v.first, keepdims=False)), axes=v.axes, keepdims=False),
    exact=False,
)
def sum_of_sum(x: Value, first: Axes, axes: Axes) -> Value:
    """Sums over some axes and then over others are one."""
    remaining = [a for a in range(x.type.rank) if a not in first]
    every = tuple(sorted({*first, *(remaining[a] for a in axes)}))
    return OP.sum(x, axes=every, keepdims=False)


@rewrite(p.sum(once(p.matmul(v.a, v.b)), **REDUCED), exact=False, finite=True)
def sum_of_matmul(a: Value, b: Value, axes: Axes, keepdims: bool) -> Value | None:
    """A factor is summed along its rows, columns or batch before it is multiplied."""
    if a.type.rank < 2 or b.type.rank < 2 or not is_wide(a.dtype):
        return None
    rank = max(a.type.rank, b.type.rank)
    row, column = rank - 2, rank - 1
    of_a = [x for x in axes if x < row and varies(a, rank, x) > varies(b, rank, x)]
    of_b = [x for x in axes if x < row and varies(b, rank, x) > varies(a, rank, x)]
    of_a += [row] if row in axes else []
    of_b += [column] if column in axes else []
    if not of_a and not of_b:
        return None
    both = tuple(x for x in axes if x not in of_a and x not in of_b)
    if rank == 2 and not keepdims:
        of_rows = OP.sum(a, axes=(0,), keepdims=False) if of_a else a
        return F.matmul(of_rows, OP.sum(b, axes=(1,), keepdims=False) if of_b else b)
    a = reduce_operand(_sum, a, rank, tuple(of_a))
    b = reduce_operand(_sum, b, rank, tuple(of_b))
    return drop_axes(reduce_operand(_sum, F.matmul(a, b), rank, both), axes, keepdims)


@rewrite(
    p.sum(once(p.cumsum(v.x, axis=v.axis, reverse=v.reverse)), **REDUCED), exact=False
)
def sum_of_cumsum(
    x: Value, axis: int, reverse: bool, axes: Axes, keepdims: bool
) -> Value | None:
    """Each element counts as often as running sums contain it."""
    if axis not in axes or not _may_count(x.dtype):
        return None
    n = x.type.shape[axis]
    start, step = (1, 1) if reverse else (n, -1)
    # Floats count in floats. Integers for any length have 64 bits, and a program that
    # has no others would enter JAX's mode for them in each call.
    integer = INT32 if at_most(n, np.iinfo(INT32).max) else INT64
    dtype = x.dtype if is_float(x.dtype) else integer
    times = cast(OP.iota(start=start, step=step, length=n, dtype=dtype), x.dtype)
    if x.type.rank == 1 and not keepdims and is_inexact(x.dtype):
        return F.matmul(x, times)
    times = F.expand_dims(times, tuple(range(1, x.type.rank - axis)))
    return OP.sum(x * times, axes=axes, keepdims=keepdims)


def _infinities_clash(
    x: Value, y: Value, rank: int, only_x: Axes, only_y: Axes
) -> Value:
    """Return whether x + y is NaN for some pair, though neither is NaN."""

    def holds(z: Value, infinity: float, axes: Axes) -> Value:
        def any_is_infinity(w: Value, axis: Axes) -> Value:
            return F.any(w == infinity, axis=axis)

        return reduce_operand(any_is_infinity, z, rank, axes)

    inf = float("inf")
    up = F.logical_and(holds(x, inf, only_x), holds(y, -inf, only_y))
    down = F.logical_and(holds(x, -inf, only_x), holds(y, inf, only_y))
    return F.logical_or(up, down)


def _are_pairs(x: Value, y: Value, s: Value, axes: Axes) -> bool:
    """Whether each of two terms varies alone along some axes, neither along others."""
    only_x, only_y, both = split_axes(x, y, s.type.rank, axes)
    alone = (
        bool(only_x and only_y)
        and not has_limit(s)
        and not any(varies(x, s.type.rank, a) for a in both)
    )
    return alone and is_float(s.dtype) and is_wide(s.dtype)


def _extreme_of_sum(name: str, op: str) -> Rule:
    @rewrite(
        getattr(p, name)(v.s(once(getattr(p, op)(v.x, v.y))), **REDUCED),
        exact=False,
        name=f"{name}_of_{op}",
    )
    def rule(s: Value, x: Value, y: Value, axes: Axes, keepdims: bool) -> Value | None:
        """The largest sum of pairs is that of the largest; inf - inf stays NaN."""
        if not _are_pairs(x, y, s, axes):
            return None
        rank, pair = s.type.rank, s.node.primitive
        only_x, only_y, _ = split_axes(x, y, rank, axes)
        top_x, low_x = (reduce_operand(r, x, rank, only_x) for r in (_max, _min))
        top_y, low_y = (reduce_operand(r, y, rank, only_y) for r in (_max, _min))
        if op == "subtract":
            top_y, low_y = low_y, top_y
        best = pair(top_x, top_y) if name == "max" else pair(low_x, low_y)
        mixed = [F.isnan(pair(top_x, low_y)), F.isnan(pair(low_x, top_y))]
        clash = F.logical_or(*mixed)
        return drop_axes(F.where(clash, float("nan"), best), axes, keepdims)

    return rule


def _logsumexp_patterns() -> tuple[Apply, ...]:
    """Return the ways to write log-sum-exp with a maximum: axes squeezed, or kept."""
    terms = once(p.exp(once(p.subtract(v.s, v.peak))))
    unsqueezed_sum = p.sum(terms, axes=v.axes, keepdims=True)
    squeezed = p.squeeze(v.peak, axes=v.axes)
    return (
        p.add(p.log(p.sum(terms, axes=v.axes, keepdims=False)), squeezed),
        p.add(p.log(p.squeeze(unsqueezed_sum, axes=v.axes)), squeezed),
        p.add(p.log(unsqueezed_sum), v.peak),
    )


_WRITTEN = _logsumexp_patterns() * 2  # by the largest of elements and -inf; of elements


def _maximum_in(peak: Value) -> Value | None:
    """Return the maximum m in `where(isfinite(m), m, 0)`, even in `stop_gradient`."""
    node = peak.node
    if node.primitive is OP.stop_gradient:
        node = node.inputs[0].node
    if node.primitive is not OP.where:
        return None
    finite, m, zero = node.inputs
    known = finite.node.primitive is OP.isfinite and finite.node.inputs[0] is m
    return m if known and literal_of(zero) == 0 else None


def _logsumexp(x: Value, axes: Axes) -> Value:
    return F.nn.logsumexp(x, axis=axes)


def _logsumexp_of_sum(number: int) -> Rule:
    keepdims = number % 3 == 2
    largest = OP.max_from if number < 3 else OP.max

    @rewrite(_WRITTEN[number], exact=False, name=f"logsumexp_of_sum_{number}")
    def rule(s: Value, peak: Value, axes: Axes) -> Value | None:
        """log-sum-exp of all pairs of sums is the sum of two; inf - inf stays NaN."""
        m = _maximum_in(peak)
        if m is None or m.node.primitive is not largest or m.node.inputs[0] is not s:
            return None
        if s.node.primitive is not OP.add or m.node.params["axes"] != axes:
            return None
        starts = [literal_of(start) for start in m.node.inputs[1:]]
        x, y = s.node.inputs
        least = all(a is not None and a == -float("inf") for a in starts)
        if not least or not _are_pairs(x, y, s, axes):
            return None
        rank = s.type.rank
        only_x, only_y, _ = split_axes(x, y, rank, axes)
        result = reduce_operand(_logsumexp, x, rank, only_x)
        result = result + reduce_operand(_logsumexp, y, rank, only_y)
        clash = _infinities_clash(x, y, rank, only_x, only_y)
        result = F.where(clash, float("nan"), result)
        pairs = product([s.type.shape[a] for a in axes])
        if not at_most(1, pairs):  # where one is empty, the other may hold NaN
            result = F.where(F.greater(size_value(pairs), 0), result, -float("inf"))
        return drop_axes(result, axes, keepdims)

    return rule


INCREASING = (
    *("exp", "exp2", "expm1", "tanh", "arctan", "sinh", "arcsinh", "cbrt", "expit"),
    *("floor", "ceil", "trunc", "rint", "ndtr", "erf"),
)


def _extreme_of_monotone(reduction: Primitive, op: str) -> Rule:
    name = reduction.name

    @rewrite(
        getattr(p, name)(v.y(once(getattr(p, op)(v.x))), **REDUCED),
        exact=False,
        name=f"{name}_of_{op}",
    )
    def rule(x: Value, y: Value, axes: Axes, keepdims: bool) -> Value | None:
        """An increasing function is applied to the extreme element alone."""
        if not is_inexact(x.dtype) or x.dtype.kind == "c":
            return None
        return y.node.primitive(reduction(x, axes=axes, keepdims=keepdims))

    return rule


REDUCTION = Rules(
    (
        sum_of_multiply,
        sum_of_true_divide,
        _sum_of_terms("add"),
        _sum_of_terms("subtract"),
        _sum_of_squared_difference(p.square(_DIFFERENCE), "sum_of_square"),
        _sum_of_squared_difference(p.power(_DIFFERENCE, 2), "sum_of_power"),
        sum_of_negative,
        sum_of_broadcast,
        *map(_expanded_rule, ("sum", "prod", "max", "min", "any", "all")),
        sum_of_transposed,
        sum_of_sum,
        sum_of_matmul,
        sum_of_cumsum,
        *(_extreme_of_sum(m, op) for m in ("max", "min") for op in ("add", "subtract")),
        *map(_logsumexp_of_sum, range(len(_WRITTEN))),
        *(_extreme_of_monotone(m, op) for m in (OP.max, OP.min) for op in INCREASING),
    )
)
