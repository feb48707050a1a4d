"""Linear algebra: norms of vectors and matrices, condition numbers.

The gradient of the norm of zeros is 0, which is one of its subgradients (in JAX: NaN).
"""

import math
from typing import Any

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import cast, normal_axes, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_at_most, views_of_inputs
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import AxisParam
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType, real_dtype
from graphc.ops.common.axes import AxisArgument, other_axes
from graphc.ops.common.batching import batch_last_axes, batch_with_axes
from graphc.ops.common.broadcasting import as_inexact
from graphc.ops.common.conjugates import conjugate
from graphc.ops.common.spread import extreme_along
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import as_matrices, need_matrix


def _checked_order(order: object, op_name: str) -> Any:
    """The order of a norm: a number, a name or None."""
    if isinstance(order, Value):
        problem = "the order of a norm must be known when the graph is built"
        raise graph_error(problem, op=op_name, got=str(order.type))
    return "fro" if order == "f" else order


@public(name="linalg.norm")
def norm(
    x: ArrayLike,
    ord: float | str | None = None,
    axis: AxisArgument = None,
    keepdims: bool = False,
) -> Value:
    """A norm of vectors (one axis) or matrices (two axes), as `numpy.linalg.norm`.

    Without `ord` it is the root of the sum of squares, over all axes if `axis` is None
    too. The orders of vectors are inf, -inf, 0 (the number of nonzero elements) and any
    number p; those of matrices are "fro", "nuc", inf, -inf, 1, -1, 2 and -2.
    """
    value, order = as_inexact(x), _checked_order(ord, "linalg.norm")
    rank = value.type.rank
    plain = (rank == 1 and order == 2) or (rank == 2 and order == "fro")
    if axis is None and (order is None or plain):
        root = _root(_sum_of_squares(value))
        return F.expand_dims(root, tuple(range(rank))) if keepdims else root
    chosen_axes = tuple(range(rank)) if axis is None else axis
    axes = chosen_axes if isinstance(chosen_axes, (tuple, list)) else (chosen_axes,)
    chosen = [normal_axis(a, rank, "linalg.norm") for a in axes]
    if len(chosen) == 1:
        return _vector_norm(value, chosen[0], order, keepdims)
    if len(chosen) == 2 and chosen[0] != chosen[1]:
        return _matrix_norm(value, chosen[0], chosen[1], order, keepdims)
    got = f"{value.type} with axis={axis}, ord={ord!r}"
    expected = "one axis for vectors, two different ones for matrices"
    raise graph_error("wrong axes", op="linalg.norm", got=got, expected=expected)


@public(name="linalg.vector_norm")
def vector_norm(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    keepdims: bool = False,
    ord: float | str = 2,
) -> Value:
    """The norm over `axis` (all axes by default), as of one long vector."""
    value, order = as_inexact(x), _checked_order(ord, "linalg.vector_norm")
    axes = normal_axes(axis, value.type.rank, "linalg.vector_norm")
    last = axes[0] if len(axes) == 1 else value.type.rank - len(axes)
    if len(axes) != 1:
        moved = F.transpose(value, (*other_axes(value.type.rank, axes), *axes))
        value = _with_last_axes_joined(moved, last)
    result = _vector_norm(value, last, order, keepdims=False)
    return F.expand_dims(result, axes) if keepdims else result


def _with_last_axes_joined(x: Value, count: int) -> Value:
    """Join all axes after the first `count` into one; no axes become one of size 1."""
    size: Size = 1
    for n in x.type.shape[count:]:
        size = size * n
    return F.reshape(x, (*x.type.shape[:count], size))


@public(name="linalg.matrix_norm")
def matrix_norm(
    x: ArrayLike, /, keepdims: bool = False, ord: float | str = "fro"
) -> Value:
    """The norm of the matrices in the last two axes; see `norm`."""
    value = as_inexact(need_matrix(x, "linalg.matrix_norm"))
    rank, order = value.type.rank, _checked_order(ord, "linalg.matrix_norm")
    return _matrix_norm(value, rank - 2, rank - 1, order, keepdims)


@op()
def _sum_of_squares(x: Array) -> TensorType:
    """The sum of the squared magnitudes of all elements."""
    return TensorType(real_dtype(x.dtype), ())


def _print_sum_of_squares(p: Printing) -> str:
    x, form = p.inputs[0], "np.vdot({x}, {x})" if p.xp == "np" else "jnp.sum({x} * {x})"
    if p.node.inputs[0].dtype.kind != "c":
        return form.format(x=x)
    parts = [form.format(x=f"{x}.{part}") for part in ("real", "imag")]
    return f"({' + '.join(parts)})"  # x * conj(x) of infinity would be NaN


_sum_of_squares.emit(_print_sum_of_squares)
_sum_of_squares.batch(
    lambda n, batched, x: F.sum(_squares(x), axis=tuple(range(1, x.type.rank)))
)


padding.pad_by_zeros(_sum_of_squares)


@_sum_of_squares.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    return (cast(2 * g, x.dtype) * conjugate(x),)


@op()
def _root(x: Array) -> TensorType:
    """The square root of a sum of squares, whose slope at 0 counts as 0."""
    return x.type.like()


_root.emit("{xp}.sqrt({x})")
_root.elementwise = True


@_root.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    root = _root(x)
    zero = F.equal(root, 0)
    slope = F.where(zero, 0, 0.5 / F.where(zero, 1, root))
    return (g * cast(slope, x.dtype),)


enroll(_root, "_root")


@op()
def _peak(x: Array, *, axis: AxisParam) -> TensorType:
    """The largest of numbers that are not negative; 0 if there are none."""
    return x.type.like(n for i, n in enumerate(x.type.shape) if i != axis)


def _print_peak(p: Printing) -> str:
    axis = p.node.params["axis"]
    return extreme_along(p, "max", [axis], f"axis={axis}", "0")


_peak.rounding = "none"
_peak.picks = True
_peak.emit(_print_peak)
batch_with_axes(_peak, "axis")
_peak.padding(lambda pad, x, *, axis: _peak(pad.filled(x, (axis,), 0), axis=axis))


@_peak.vjp
def _(g: Value, x: Value, *, axis: int) -> tuple[Value]:
    ties = F.equal(x, F.expand_dims(_peak(x, axis=axis), axis))
    count = F.sum(cast(ties, x.dtype), axis=axis, keepdims=True)
    share = F.expand_dims(g, axis) / F.maximum(count, 1)
    return (F.where(ties, share, F.zeros_like(x)),)


def _squares(x: Value) -> Value:
    """The squared magnitudes."""
    if x.dtype.kind != "c":
        return x * x
    real, imaginary = F.real(x), F.imag(x)
    return real * real + imaginary * imaginary


def _magnitude(x: Value) -> Value:
    """The absolute value; infinity for infinity beside NaN, where JAX gives NaN."""
    if x.dtype.kind != "c":
        return F.absolute(x)
    endless = F.logical_or(F.isinf(F.real(x)), F.isinf(F.imag(x)))
    return F.where(endless, math.inf, F.absolute(x))


def _euclidean(x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The root of the sum of squares."""
    return _root(F.sum(_squares(x), axis=axes, keepdims=keepdims))


def _vector_norm(
    x: Value, axis: int, order: float | str | None, keepdims: bool
) -> Value:
    how: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if isinstance(order, str):
        problem = f"vectors have no norm of order {order!r}"
        raise graph_error(problem, op="linalg.norm", got=str(x.type))
    if order is None or order == 2:
        return _euclidean(x, (axis,), keepdims)
    if order == math.inf:
        peak = _peak(_magnitude(x), axis=axis)
        return F.expand_dims(peak, axis) if keepdims else peak
    if order == -math.inf:
        return F.min(_magnitude(x), **how)
    if order == 0:
        return F.sum(cast(F.not_equal(x, 0), real_dtype(x.dtype)), **how)
    if order == 1:
        return F.sum(_magnitude(x), **how)
    total = F.sum(_magnitude(x) ** float(order), **how)
    if order < 1:
        return total ** (1 / float(order))
    zero = F.equal(total, 0)  # where the slope of the root is not finite
    return F.where(zero, 0, F.where(zero, 1, total) ** (1 / float(order)))


def _matrix_norm(
    x: Value, row: int, column: int, order: float | str | None, keepdims: bool
) -> Value:
    both = tuple(sorted((row, column)))
    if order is None or order == "fro":
        return _euclidean(x, both, keepdims)
    if order == "nuc" or order in (2, -2):
        result = _singular_value_norm(F.moveaxis(x, (row, column), (-2, -1)), order)
    elif order in (1, -1, math.inf, -math.inf):
        summed, over = (row, column) if abs(order) == 1 else (column, row)
        sums = F.sum(_magnitude(x), axis=summed)
        over -= over > summed
        result = _peak(sums, axis=over) if order > 0 else F.min(sums, over)
    else:
        problem = f"matrices have no norm of order {order!r}"
        raise graph_error(problem, op="linalg.norm", got=str(x.type))
    return F.expand_dims(result, both) if keepdims else result


def _singular_value_norm(x: Value, order: float | str) -> Value:
    s = F.linalg.svdvals(x)
    if order == "nuc":
        return F.sum(s, axis=-1)
    return _peak(s, axis=s.type.rank - 1) if order == 2 else F.min(s, axis=-1)


# Condition numbers


@op()
def _nonempty_matrix(x: Array) -> TensorType:
    """The same matrices, which must have rows and columns."""
    for n in x.type.shape[-2:]:
        require_at_most(1, n, "the condition of an empty matrix is not defined")
    return x.type.like()


_nonempty_matrix.emit("{x}")
_nonempty_matrix.views = views_of_inputs
_nonempty_matrix.linear = True
_nonempty_matrix.vjp(lambda g, x: (g,))
batch_last_axes(_nonempty_matrix)
_nonempty_matrix.padding(lambda pad, x: pad.result(x.value, x.fill))


@public(name="linalg.cond")
def cond(x: ArrayLike, p: float | str | None = None) -> Value:
    """The condition number in the norm `p`.

    By default it is the ratio of the largest to the smallest singular value, for -2 the
    reverse, and else norm(x, p) * norm(inv(x), p). It is infinite for a singular
    matrix. Raises if a matrix is empty, at the call if the sizes are not known before.
    """
    (value,) = as_matrices("linalg.cond", x)
    value = _nonempty_matrix(value)
    order = _checked_order(2 if p is None else p, "linalg.cond")
    if order in (2, -2):
        s = F.linalg.svdvals(value)
        first, last = s[..., 0], s[..., -1]
        condition = first / last if order == 2 else last / first
    else:
        is_singular = F.equal(F.linalg.slogdet(value)[0], 0)
        eye = F.eye(value.shape[-1], dtype=value.dtype)
        # Programs that check data refuse the inverse of a singular matrix.
        invertible = F.where(F.expand_dims(is_singular, (-2, -1)), eye, value)
        inverse = F.linalg.inv(invertible)
        condition = matrix_norm(value, ord=order) * matrix_norm(inverse, ord=order)
        condition = F.where(is_singular, math.inf, condition)
    has_nan = F.any(F.isnan(value), axis=(-2, -1))
    return F.where(F.isnan(condition) & ~has_nan, math.inf, condition)
