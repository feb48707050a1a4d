"""Weighted means, covariances and correlations, and integrals of samples."""

from math import prod
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, normal_axes
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, enroll, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import DType, dtype_of, is_inexact, same_shape
from graphc.ops.common.axes import AxisArgument, at_axis, other_axes
from graphc.ops.common.broadcasting import as_inexact, common_dtype


def weights_of(
    value: Value, weights: ArrayLike, axis: AxisArgument, name: str
) -> Value:
    """Make weights broadcast to `value`; they have its shape or that of `axis`."""
    share, rank = as_strong_value(weights), value.type.rank
    named_axes = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    normal_axes(named_axes, rank, name)
    axes = [int(a) % rank for a in named_axes]
    axes_shape = tuple(value.type.shape[a] for a in axes)
    if share.type.rank == rank and not _is_of_shape(share, value, axes_shape):
        return F.specify_shape(share, value.type.shape)
    if not axes or share.type.rank != len(axes):
        got = f"{value.type} with weights {share.type}"
        hint = "name the axes that the weights belong to"
        raise graph_error("the shapes differ", op=name, got=got, hint=hint)
    share = F.specify_shape(share, axes_shape)
    ordered = F.transpose(share, np.argsort(axes).tolist())
    return F.expand_dims(ordered, other_axes(rank, axes))


def _is_of_shape(share: Value, value: Value, shape: tuple[Size, ...]) -> bool:
    """Whether the weights are known to have `shape`, but not the shape of `value`."""
    same = same_shape(share.type.shape, value.type.shape)
    return not same and same_shape(share.type.shape, shape)


enroll(weights_of, "_weights_of")


@public()
def average(
    x: ArrayLike,
    axis: AxisArgument = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over `axis`; weights have the shape of `x`, or of the axes.

    With `returned`, the sum of the weights is returned too. Where that is 0, the mean
    is NaN or infinite.
    """
    value = as_strong_value(x)
    axes = normal_axes(axis, value.type.rank, "average")
    if weights is None:
        mean = F.mean(value, axis, keepdims=keepdims)
        count = F.full_like(mean, prod([value.shape[a] for a in axes]))
        return (mean, count) if returned else mean
    share = weights_of(value, weights, axis, "average")
    wide = [] if is_inexact(value.dtype) else [_float64_one()]
    floats = [value, share, *wide]
    dtype = common_dtype(floats)
    value, share = cast(value, dtype), cast(share, dtype)
    total = F.sum(F.broadcast_to(share, value.type.shape), axes, keepdims=keepdims)
    mean = F.sum(value * share, axes, keepdims=keepdims) / total
    return (mean, total) if returned else mean


def _float64_one() -> Value:
    return as_value(np.float64(1))


def _rows(x: ArrayLike, rowvar: bool, dtype: DType | None) -> Value:
    """Arrange variables in rows and observations in columns."""
    value = as_inexact(x) if dtype is None else cast(as_value(x), dtype)
    if value.type.rank > 2:
        raise graph_error("needs a vector or a matrix", op="cov", got=str(value.type))
    rows = F.atleast_2d(value)
    return rows.T if not rowvar and value.type.rank == 2 else rows


@public()
def cov(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Value:
    """The covariance matrix of variables (rows by default) over observations.

    `fweights` say how often an observation counts, `aweights` how much. float32
    stays float32, as in JAX: `numpy.cov` computes in float64 unless `dtype` is given.
    The result is a scalar, the variance, where there is known to be one variable only.
    """
    to = None if dtype is None else dtype_of(dtype)
    if to is not None and not is_inexact(to):
        hint = "leave dtype out, and convert the result"
        raise graph_error("needs a dtype of floats", op="cov", got=to.name, hint=hint)
    rows = _rows(x, rowvar, to)
    if y is not None:
        more = as_strong_value(y)
        rows = F.concatenate([rows, _rows(more, rowvar or more.ndim == 1, to)], axis=0)
    chosen = (0 if bias else 1) if ddof is None else ddof
    lost = int(chosen)
    if lost != chosen:
        raise graph_error(f"ddof {ddof} is not an integer", op="cov")
    weights = _observation_weights(rows, fweights, aweights)
    centred = rows - F.mean(rows, 1, keepdims=True)
    scaled, freedom = centred, F.maximum(rows.shape[1] - lost, 0)
    if weights is not None:
        total = F.sum(weights)
        mean = F.sum(rows * weights, 1, keepdims=True) / total
        centred = rows - mean
        scaled, freedom = centred * weights, _divisor(weights, total, aweights, lost)
    return F.squeeze(_products(centred, scaled) / freedom)


def _products(x: Value, y: Value) -> Value:
    """Sum the products of all pairs of variables over the observations."""
    return x @ F.conjugate(y).T


def _observation_weights(
    rows: Value, fweights: ArrayLike | None, aweights: ArrayLike | None
) -> Value | None:
    """The product of both kinds of weights, in the real dtype of the variables."""
    both = None
    for weights in (fweights, aweights):
        if weights is None:
            continue
        share = as_strong_value(weights)
        if share.type.rank != 1:
            raise graph_error("weights must be a vector", op="cov", got=str(share.type))
        share = cast(share, F.real(rows).dtype)
        share = F.specify_shape(share, rows.type.shape[1:])
        both = share if both is None else both * share
    return both


def _divisor(
    weights: Value, total: Value, aweights: ArrayLike | None, lost: int
) -> Value:
    """The divisor of the weighted sum of products."""
    if aweights is None or lost == 0:
        return F.maximum(total - lost, 0)
    share = F.sum(weights * cast(as_value(aweights), weights.dtype))
    return F.maximum(total - lost * share / total, 0)


@public()
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    *,
    dtype: DTypeLike | None = None,
) -> Value:
    """The correlation matrix of variables (rows by default), within -1 and 1."""
    matrix = cov(x, y, rowvar, dtype=dtype)
    if matrix.type.rank == 0:
        return matrix / matrix
    spread = F.sqrt(F.real(F.diagonal(matrix)))
    scaled = matrix / F.expand_dims(spread, 1) / spread
    if scaled.dtype.kind != "c":
        return F.clip(scaled, -1, 1)
    parts = [F.clip(part, -1, 1) for part in (F.real(scaled), F.imag(scaled))]
    return F._from_parts(*parts)


@public()
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Value:
    """The integral of samples by the trapezoidal rule, as `numpy.trapezoid`."""
    value = as_strong_value(y)
    (at,) = normal_axes(axis, value.type.rank, "trapezoid")
    pairs = value[at_axis(at, slice(1, None))] + value[at_axis(at, slice(None, -1))]
    return F.sum(_gaps(x, dx, at, value.type.rank) * pairs / 2.0, axis=at)


def _gaps(x: ArrayLike | None, dx: ArrayLike, axis: int, rank: int) -> ArrayLike:
    if x is None:
        return dx
    points = as_strong_value(x)
    if points.type.rank == 1:
        return F.expand_dims(F.diff(points), tuple(range(1, rank - axis)))
    return F.diff(points, axis=axis)
