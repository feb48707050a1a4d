"""Linear algebra: ranks, pseudo-inverses, least squares.

Gradients assume a fixed rank: singular values that count as zero do so nearby too.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_size, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, require_equal, type_error, views_of_inputs
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT64, DType, JaxArray, NDArray, TensorType, real_dtype
from graphc.ops.common.batching import Batched, batch_last_axes, with_batch
from graphc.ops.common.conjugates import conjugate
from graphc.ops.linalg import gradients as rules
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import as_matrices, require_convergence


class LstsqResult(NamedTuple):
    """The solution `x`, sums of squared `residuals`, `rank` and singular values `s`."""

    x: Value
    residuals: Value
    rank: Value
    s: Value


@op()
def _lstsq(a: Array, b: Array, *rcond: Array) -> tuple[TensorType, ...]:
    """Least squares by singular values; residuals are given at any rank."""
    m, n = a.type.shape
    require_equal(m, b.type.shape[0], "one right-hand side per row")
    if b.type.rank > 2:
        raise type_error("needs a vector or a matrix on the right")
    real = real_dtype(a.dtype)
    columns: Size = b.type.shape[1] if b.type.rank == 2 else 1
    return (
        a.type.like((n, *b.type.shape[1:])),
        a.type.like((columns,), real),
        TensorType(INT64, ()),
        a.type.like((dims.minimum(m, n),), real),
    )


def lstsq_numpy(
    a: Any, b: Any, rcond: float | None = None
) -> tuple[NDArray, NDArray, np.int64, NDArray]:
    """Printed into NumPy programs: least squares; residuals are NaN below full rank."""
    m, n = a.shape
    columns = b.shape[1] if b.ndim == 2 else 1
    least = np.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    try:
        x, residuals, rank, s = np.linalg.lstsq(a, b, rcond=least)
    except np.linalg.LinAlgError:
        x, rank = np.full((n, *b.shape[1:]), np.nan, a.dtype), 0
        s = np.full(min(m, n), np.nan, np.finfo(a.dtype).dtype)
        residuals = s[:0]
    if residuals.size != columns:
        residuals = np.full(columns, np.nan, s.dtype)
    return x, residuals, np.int64(rank), s


def lstsq_jax(
    solver: Callable[..., JaxArray], a: JaxArray, b: JaxArray, *rcond: JaxArray
) -> tuple[JaxArray, JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: least squares, with the dtypes of NumPy's results."""
    x, residuals, rank, s = solver(a, b, *rcond)
    return x, residuals, rank.astype("int64"), s.real


_lstsq.emit(
    numpy=lambda p: p.call(lstsq_numpy, *p.inputs),
    jax=lambda p: p.call(lstsq_jax, "jnp.linalg.lstsq", *p.inputs),
)
_lstsq.range = lambda node: ("rank", 0, dims.minimum(*node.inputs[0].type.shape))
require_convergence(_lstsq, output=3)


_lstsq.padding(partial(padding.lstsq, _lstsq))


@_lstsq.vjp
def _(
    g: tuple[Value | None, ...], a: Value, b: Value, *rcond: Value
) -> tuple[Value | None, ...]:
    x, _, rank, _ = _lstsq(a, b, *rcond)
    of_x, of_residuals, _, of_s = g
    vector = b.type.rank == 1
    x, b = (F.expand_dims(v, 1) if vector else v for v in (x, b))
    factors = F.linalg.svd(a, full_matrices=False)
    of_a, of_b = F.zeros_like(a), F.zeros_like(b)
    if of_x is not None:
        of_x = F.expand_dims(of_x, 1) if vector else of_x
        nonzero = F.arange(F.size_value(factors[1].type.shape[0])) < rank
        outer = F.matmul(conjugate(b), rules.adjoint(of_x))
        of_a = of_a + rules.of_spectrum(factors, nonzero, outer)
        of_b = of_b + conjugate(_apply_inverse(factors, nonzero, conjugate(of_x)))
    if of_residuals is not None:
        residuals = conjugate(b - F.matmul(a, x))
        twice = rules.by_columns(residuals, 2 * of_residuals)
        of_a, of_b = of_a - F.matmul(twice, x.mT), of_b + twice
    if of_s is not None:
        of_a = of_a + rules.of_svd(factors, None, of_s, None)
    return of_a, F.squeeze(of_b, 1) if vector else of_b, *[None] * len(rcond)


def _apply_inverse(
    factors: tuple[Value, Value, Value], nonzero: Value, right: Value
) -> Value:
    """Multiply `right` by the pseudo-inverse, from factors of the adjoint matrix."""
    u, s, vh = factors
    inverse = F.where(nonzero, 1 / F.where(nonzero, s, 1), 0)
    return F.matmul(u, rules.by_rows(inverse, F.matmul(vh, right)))


@_lstsq.batch
def _(
    n: Size, batched: Batched, a: Value, b: Value, *rcond: Value
) -> tuple[Value, Value, Value, Value]:
    a, b = with_batch(n, batched[0], a), with_batch(n, batched[1], b)
    vector = b.type.rank == 2
    b = F.expand_dims(b, -1) if vector else b
    u, s, vh = F.linalg.svd(a, full_matrices=False)
    limit = _per_matrix(rcond[0], s.dtype) if rcond else _epsilon(a)
    nonzero = s > limit * _largest(s)
    x = _apply_inverse((rules.adjoint(vh), s, rules.adjoint(u)), nonzero, b)
    residuals = F.absolute(b - F.matmul(a, x))
    x = F.squeeze(x, -1) if vector else x
    rank = F.sum(cast(nonzero, INT64), axis=-1)
    return x, F.sum(residuals * residuals, axis=-2), rank, s


@public(name="linalg.lstsq")
def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None) -> LstsqResult:
    """The shortest x that minimises the sum of the squares of b - a @ x.

    Singular values up to `rcond` times the largest count as zero; the default is the
    machine epsilon of the dtype times max(m, n). (NumPy takes the epsilon of float64
    for float32 too.) As in NumPy, the residuals are empty if the rank is less than n,
    or m <= n: using them reads the rank on the host.
    """
    x, side = as_matrices("linalg.lstsq", a, b, ranks=(2, 1))
    if x.type.rank > 2:
        raise graph_error("needs one matrix", op="linalg.lstsq", got=str(x.type))
    limit = [] if rcond is None else [cast(as_value(rcond), real_dtype(x.dtype))]
    if limit and limit[0].type.rank:
        got = str(limit[0].type)
        raise graph_error("rcond must be a scalar", op="linalg.lstsq", got=got)
    solution, residuals, rank, s = _lstsq(x, side, *limit)
    return LstsqResult(solution, _full_rank_residuals(residuals, x, rank), rank, s)


def _full_rank_residuals(residuals: Value, a: Value, rank: Value) -> Value:
    """The residuals if the rank is full and rows outnumber columns, else none."""
    m, n = a.type.shape
    if dims.less_equal(m, n) is True:
        return residuals[:0]
    full = F.logical_and(F.equal(rank, a.shape[1]), F.less(a.shape[1], a.shape[0]))
    count = cast(F.where(full, residuals.shape[0], 0), INT64)
    return residuals[: F.size_value(as_size(count))]


# Ranks


def _epsilon(x: Value) -> Value:
    """The machine epsilon times the larger size of the matrices."""
    largest = F.size_value(dims.maximum(*x.type.shape[-2:]))
    real = real_dtype(x.dtype)
    return cast(as_value(largest), real) * float(np.finfo(real).eps)


def _per_matrix(limit: ArrayLike, real: DType) -> Value:
    """A number per matrix of a batch, shaped to compare with its singular values."""
    return F.expand_dims(cast(as_value(limit), real), -1)


def _largest(s: Value) -> Value:
    """The largest singular value, which comes first; 0 if there are none."""
    return F.sum(s[..., :1], axis=-1, keepdims=True)


@public(name="linalg.matrix_rank")
def matrix_rank(
    A: ArrayLike,
    /,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Value:
    """The number of singular values above `tol`, or above `rtol` times the largest.

    By default `rtol` is the machine epsilon times max(m, n). A vector or scalar has
    rank 1, or 0 if it is zero.
    """
    if tol is not None and rtol is not None:
        raise graph_error("give tol or rtol, not both", op="linalg.matrix_rank")
    (x,) = as_matrices("linalg.matrix_rank", A, ranks=(0,))
    if x.type.rank < 2:
        return cast(F.any(F.not_equal(x, 0)), INT64)
    s = F.linalg.svd(x, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        limit = _per_matrix(tol, s.dtype)
    else:
        relative = _epsilon(x) if rtol is None else _per_matrix(rtol, s.dtype)
        limit = _largest(s) * relative
    return F.count_nonzero(s > limit, axis=-1)


_UNSET: Any = object()


@public(name="linalg.pinv")
def pinv(
    a: ArrayLike,
    /,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike = _UNSET,
) -> Value:
    """The Moore-Penrose pseudo-inverse.

    Singular values up to `rcond` (or `rtol`) times the largest count as zero. The
    default is 1e-15, as in NumPy; `rtol=None` means the machine epsilon times max(m,
    n).
    """
    if rcond is not None and rtol is not _UNSET:
        raise graph_error("give rcond or rtol, not both", op="linalg.pinv")
    (x,) = as_matrices("linalg.pinv", a)
    limit = rcond if rtol is _UNSET else rtol
    if limit is None:
        limit = 1e-15 if rtol is _UNSET else _epsilon(x)
    limit = cast(as_value(limit), real_dtype(x.dtype))
    if limit.type.rank:
        batch = F.broadcast_arrays(limit, F.full(x.shape[:-2], False))[0].shape
        x = F.broadcast_to(x, (*batch, *x.shape[-2:]))
    u, s, vh = F.linalg.svd(conjugate(x), full_matrices=False, hermitian=hermitian)
    large = s > _per_matrix(limit, s.dtype) * _largest(s)
    inverse = F.where(large, 1 / F.where(large, s, 1), 0)
    scaled = F.expand_dims(inverse, -1) * u.mT
    inverse_matrix = F.matmul(vh.mT, scaled)
    return _pinv(inverse_matrix, x, u, s, vh, large, hermitian=hermitian)


@op()
def _pinv(
    inverse: Array,
    x: Array,
    u: Array,
    s: Array,
    vh: Array,
    large: Array,
    *,
    hermitian: bool,
) -> TensorType:
    """`inverse`, from factors of conj(x), with a gradient to `x` that bypasses them."""
    return inverse.type.like()


_pinv.emit("{inverse}")
_pinv.views = views_of_inputs
batch_last_axes(_pinv)
_pinv.padding(lambda pad, y, *factors, **how: pad.result(y.value, y.fill))


@_pinv.vjp
def _(
    g: Value,
    inverse: Value,
    x: Value,
    u: Value,
    s: Value,
    vh: Value,
    large: Value,
    *,
    hermitian: bool,
) -> tuple[Value | None, ...]:
    factors = conjugate(u), s, conjugate(vh)
    of_x = rules.of_spectrum(factors, large, rules.adjoint(g))
    of_x = rules.of_triangle(of_x, lower=True) if hermitian else of_x
    return None, of_x, None, None, None, None
