"""Linear algebra: ranks, powers and functions of matrices, special matrices."""

from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir import dims
from graphc.ir.build import as_value, cast, strong
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F, public
from graphc.ir.op import Array, Printing, op
from graphc.ir.types import INT64, TensorType
from graphc.ops.broadcasting import broadcast, promoted
from graphc.ops.linalg import (
    _square,
    complex_dtype,
    matrices,
    need_matrix,
    real_dtype,
)


@public(name="linalg.matrix_transpose")
def matrix_transpose(x: Any) -> Value:
    """The last two axes exchanged."""
    return F.swapaxes(need_matrix(x, "linalg.matrix_transpose"), -1, -2)


@public(name="linalg.diagonal")
def diagonal(x: Any, offset: Any = 0) -> Value:
    """A diagonal of the matrices in the last two axes."""
    return F.diagonal(need_matrix(x, "linalg.diagonal"), offset, -2, -1)


# Powers and functions


@public(name="linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Value:
    """Square matrices multiplied by themselves; by their inverses for negative `n`.

    Integers stay integers unless `n` is negative. `n` must be an integer, not a
    symbolic one.
    """
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        got = str(n.type) if isinstance(n, Value) else repr(n)
        problem = "the exponent must be an integer known when the graph is built"
        raise graph_error(problem, op="linalg.matrix_power", got=got)
    base = _squares(need_matrix(a, "linalg.matrix_power"))
    if n == 0:
        unit = F.eye(base.shape[-1], dtype=base.dtype)
        return F.broadcast_to(unit, base.shape)
    return _power(F.linalg.inv(base) if n < 0 else base, abs(int(n)))


def _power(base: Value, n: int) -> Value:
    """By repeated squaring; three factors in order, as NumPy does."""
    if n == 3:
        return F.matmul(F.matmul(base, base), base)
    result = None
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = base if result is None else F.matmul(result, base)
        if not n:
            assert result is not None
            return result
        base = F.matmul(base, base)


@op()
def _square_matrix(x: Array) -> TensorType:
    """The same matrices, which must be square."""
    n = _square(x)
    return x.type.like((*x.type.shape[:-2], n, n))


_square_matrix.emit("{x}")


def _squares(x: Value) -> Value:
    rows, columns = x.type.shape[-2:]
    return x if rows is columns else _square_matrix(x)


@op()
def _expm(x: Array) -> TensorType:
    """The matrix exponential."""
    _square(x)
    return x.type.like()


_expm.emit(numpy="scipy.linalg.expm({x})", jax="jax.scipy.linalg.expm({x})")
_expm.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")


@public(name="linalg.expm")
def expm(A: Any) -> Value:
    """The matrix exponential, by Pade approximation, scaling and squaring.

    JAX squares at most 16 times: it gives NaN for matrices whose 1-norm is above
    350,000 (257,000 in single precision), where NumPy programs still have a result.
    """
    return _expm(*matrices("linalg.expm", A))


@op()
def _sqrtm(x: Array) -> TensorType:
    """The principal square root, complex."""
    _square(x)
    return x.type.like(dtype=complex_dtype(x.dtype))


def sqrtm_numpy(root: Any, x: Any, dtype: Any) -> Any:
    """Printed into NumPy programs."""
    out = np.empty(x.shape, dtype)
    for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
        out[i] = root(x[i])
    return out


def sqrtm_jax(jnp: Any, root: Any, x: Any, dtype: Any) -> Any:
    """Printed into JAX programs."""
    if not x.size:
        return jnp.zeros(x.shape, dtype)
    return jnp.vectorize(root, signature="(n,n)->(n,n)")(x)


def _print_sqrtm(p: Printing) -> str:
    x, dtype = p.inputs[0], p.code(p.node.outputs[0].dtype)
    if p.xp == "np":
        return f"{p.helper(sqrtm_numpy)}(scipy.linalg.sqrtm, {x}, {dtype})"
    return f"{p.helper(sqrtm_jax)}(jnp, jax.scipy.linalg.sqrtm, {x}, {dtype})"


_sqrtm.emit(_print_sqrtm)
_sqrtm.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")


@public(name="linalg.sqrtm")
def sqrtm(A: Any) -> Value:
    """The principal square root of square matrices; always complex.

    JAX has it on CPUs only. Of singular matrices the result is not said: there may be
    no root, and the backends differ in how they tell.
    """
    return _sqrtm(*matrices("linalg.sqrtm", A))


# Ranks, pseudo-inverses


def _epsilon(x: Value) -> Any:
    """The machine epsilon times the larger size of the matrices."""
    largest = F.size_value(dims.maximum(*x.type.shape[-2:]))
    real = real_dtype(x.dtype)
    return cast(as_value(largest), real) * float(np.finfo(real).eps)


def _per_matrix(limit: Any, real: Any) -> Value:
    """A number per matrix of a batch, to be compared with its singular values."""
    return F.expand_dims(cast(as_value(limit), real), -1)


def _largest(s: Value) -> Value:
    """The largest of singular values, which come in order; 0 of none."""
    return F.sum(s[..., :1], axis=-1, keepdims=True)


@public(name="linalg.matrix_rank")
def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Value:
    """How many singular values are above `tol`, or `rtol` times the largest.

    By default `rtol` is the machine epsilon times max(m, n). A vector or scalar has
    rank 1, or 0 where it is zero.
    """
    if tol is not None and rtol is not None:
        raise graph_error("give tol or rtol, not both", op="linalg.matrix_rank")
    (x,) = matrices("linalg.matrix_rank", A, ranks=(0,))
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
    a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _UNSET
) -> Value:
    """The Moore-Penrose pseudo-inverse.

    Singular values up to `rcond` (or `rtol`) times the largest count as zero: 1e-15
    by default as in NumPy; `rtol=None` is the machine epsilon times max(m, n).
    """
    if rcond is not None and rtol is not _UNSET:
        raise graph_error("give rcond or rtol, not both", op="linalg.pinv")
    (x,) = matrices("linalg.pinv", a)
    limit = rcond if rtol is _UNSET else rtol
    if limit is None:
        limit = 1e-15 if rtol is _UNSET else _epsilon(x)
    u, s, vh = F.linalg.svd(_conjugate(x), full_matrices=False, hermitian=hermitian)
    large = s > _per_matrix(limit, s.dtype) * _largest(s)
    inverse = F.where(large, 1 / F.where(large, s, 1), 0)
    scaled = F.expand_dims(inverse, -1) * F.swapaxes(u, -1, -2)
    return F.matmul(F.swapaxes(vh, -1, -2), scaled)


def _conjugate(x: Value) -> Value:
    return F.conjugate(x) if x.dtype.kind == "c" else x


# Special matrices


@op()
def _block_diag(*blocks: Array) -> TensorType:
    """The blocks along the diagonal, zeros elsewhere; leading axes broadcast."""
    rows: Size = 0
    columns: Size = 0
    for b in blocks:
        rows, columns = rows + b.type.shape[-2], columns + b.type.shape[-1]
    batch = broadcast(*(b.type.shape[:-2] for b in blocks))
    return blocks[0].type.like((*batch, rows, columns))


def block_diag_numpy(*blocks: Any) -> Any:
    """Printed into NumPy programs."""
    batch = np.broadcast_shapes(*[b.shape[:-2] for b in blocks])
    rows, columns = np.sum([b.shape[-2:] for b in blocks], axis=0)
    out = np.zeros((*batch, rows, columns), blocks[0].dtype)
    row = column = 0
    for b in blocks:
        out[..., row : row + b.shape[-2], column : column + b.shape[-1]] = b
        row, column = row + b.shape[-2], column + b.shape[-1]
    return out


def block_diag_jax(jnp: Any, *blocks: Any) -> Any:
    """Printed into JAX programs."""
    batch = jnp.broadcast_shapes(*[b.shape[:-2] for b in blocks])
    width, before, rows = sum(b.shape[-1] for b in blocks), 0, []
    for b in blocks:
        after = width - before - b.shape[-1]
        sides = [(0, 0)] * (b.ndim - 1) + [(before, after)]
        row = jnp.pad(b, sides)
        rows.append(jnp.broadcast_to(row, (*batch, *row.shape[-2:])))
        before += b.shape[-1]
    return jnp.concatenate(rows, axis=-2)


_block_diag.emit(
    numpy=lambda p: f"{p.helper(block_diag_numpy)}({', '.join(p.inputs)})",
    jax=lambda p: f"{p.helper(block_diag_jax)}(jnp, {', '.join(p.inputs)})",
)


@public(name="linalg.block_diag")
def block_diag(*arrs: Any) -> Value:
    """The matrices along a diagonal, zeros elsewhere; leading axes broadcast.

    A vector or scalar stands for a matrix of one row.
    """
    values = promoted(*(arrs or (np.zeros((1, 0)),)))
    return _block_diag(*(F.atleast_2d(v) for v in values))


@op()
def _toeplitz(c: Array, r: Array) -> TensorType:
    """Matrices with the first column `c` and the first row `r`, constant diagonals."""
    batch = broadcast(c.type.shape[:-1], r.type.shape[:-1])
    return c.type.like((*batch, c.type.shape[-1], r.type.shape[-1]))


def toeplitz_numpy(c: Any, r: Any) -> Any:
    """Printed into NumPy programs."""
    rows, columns = c.shape[-1], r.shape[-1]
    batch = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    if not rows or not columns:
        return np.zeros((*batch, rows, columns), c.dtype)
    parts = c[..., ::-1], r[..., 1:]
    line = np.concatenate(
        [np.broadcast_to(p, (*batch, p.shape[-1])) for p in parts], axis=-1
    )
    windows = np.lib.stride_tricks.sliding_window_view(line, columns, axis=-1)
    return np.ascontiguousarray(windows[..., ::-1, :])


def toeplitz_jax(jnp: Any, c: Any, r: Any) -> Any:
    """Printed into JAX programs."""
    rows, columns = c.shape[-1], r.shape[-1]
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    parts = c[..., ::-1], r[..., 1:]
    line = jnp.concatenate(
        [jnp.broadcast_to(p, (*batch, p.shape[-1])) for p in parts], axis=-1
    )
    return line[..., rows - 1 - jnp.arange(rows)[:, None] + jnp.arange(columns)]


_toeplitz.emit(
    numpy=lambda p: f"{p.helper(toeplitz_numpy)}({', '.join(p.inputs)})",
    jax=lambda p: f"{p.helper(toeplitz_jax)}(jnp, {', '.join(p.inputs)})",
)


@public(name="linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Value:
    """Constant diagonals, from the first column `c` and row `r` (conj(c) by default).

    The first element of `r` is not used. Leading axes are a batch, and broadcast.
    """
    column = strong(as_value(c))
    first, second = promoted(column, _conjugate(column) if r is None else r)
    first, second = (v if v.type.rank else F.reshape(v, (1,)) for v in (first, second))
    return _toeplitz(first, second)
