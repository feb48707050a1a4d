"""Linear algebra: powers and functions of matrices, special matrices."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_equal, views_of_inputs
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import JaxArray, NDArray, TensorType, complex_dtype
from graphc.ops.common.batching import align_batches, batch_last_axes
from graphc.ops.common.broadcasting import broadcast, promoted, summed_to
from graphc.ops.common.conjugates import conjugate
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import as_matrices, need_matrix, require_square


@public(name="linalg.matrix_transpose")
def matrix_transpose(x: ArrayLike, /) -> Value:
    """Swap the last two axes."""
    return need_matrix(x, "linalg.matrix_transpose").mT


@public(name="linalg.diagonal")
def diagonal(x: ArrayLike, /, offset: int = 0) -> Value:
    """A diagonal of the matrices in the last two axes."""
    return F.diagonal(need_matrix(x, "linalg.diagonal"), offset, -2, -1)


# Powers and functions


@public(name="linalg.matrix_power")
def matrix_power(a: ArrayLike, n: int, /) -> Value:
    """Square matrices multiplied by themselves, or by their inverses for negative `n`.

    Integers stay integers unless `n` is negative. `n` must be an integer, not a
    symbolic one.
    """
    problem = "the exponent must be an integer known when the graph is built"
    n = as_integer(n, problem, "linalg.matrix_power")
    matrix = need_matrix(a, "linalg.matrix_power")
    if n == 0:
        *batch, rows, columns = matrix.shape
        # No element is read, so the sizes are compared on the unit matrix.
        unit = _squares(F.eye(rows, columns, dtype=matrix.dtype))
        return F.broadcast_to(unit, (*batch, *unit.shape))
    base = _squares(matrix)
    return _power(F.linalg.inv(base) if n < 0 else base, abs(n))


def _power(base: Value, n: int) -> Value:
    """Multiply by repeated squaring, but three factors in order, as NumPy does."""
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
    n = require_square(x)
    return x.type.like((*x.type.shape[:-2], n, n))


_square_matrix.emit("{x}")
_square_matrix.views = views_of_inputs
_square_matrix.linear = True
_square_matrix.vjp(lambda g, x: (F.specify_shape(g, x.type.shape),))
batch_last_axes(_square_matrix)
_square_matrix.padding(lambda pad, x: pad.result(_square_matrix(x.value), x.fill))


def _squares(x: Value) -> Value:
    rows, columns = x.type.shape[-2:]
    return x if rows is columns else _square_matrix(x)


@op()
def _expm(x: Array) -> TensorType:
    """The matrix exponential."""
    require_square(x)
    return x.type.like()


_expm.emit(numpy="scipy.linalg.expm({x})", jax="jax.scipy.linalg.expm({x})")
_expm.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")
batch_last_axes(_expm)
padding.pad_by_zeros(_expm)


@_expm.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    return (_expm_slope(x.mT, g),)


@op()
def _expm_slope(x: Array, direction: Array) -> TensorType:
    """The derivative of the matrix exponential in a direction."""
    require_square(x)
    return x.type.like()


def expm_slope_numpy(
    slope: Callable[..., NDArray], x: NDArray, direction: NDArray
) -> NDArray:
    """Printed into NumPy programs: the derivative of each matrix exponential."""
    out = np.empty_like(x)
    for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
        out[i] = slope(x[i], direction[i], compute_expm=False)
    return out


def expm_slope_jax(
    jvp: Callable[..., tuple[JaxArray, JaxArray]],
    function: Callable[..., JaxArray],
    x: JaxArray,
    direction: JaxArray,
) -> JaxArray:
    """Printed into JAX programs."""
    return jvp(function, (x,), (direction,))[1]


_expm_slope.emit(
    numpy=lambda p: p.call(expm_slope_numpy, "scipy.linalg.expm_frechet", *p.inputs),
    jax=lambda p: p.call(expm_slope_jax, "jax.jvp", "jax.scipy.linalg.expm", *p.inputs),
)
_expm_slope.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")
batch_last_axes(_expm_slope)
padding.pad_by_zeros(_expm_slope)


@_expm_slope.vjp
def _(g: Value, x: Value, direction: Value) -> tuple[Value, Value]:
    # The slope is the upper right block of expm([[x, direction], [0, x]]) (N. Higham,
    # 2008, Functions of Matrices, eq. 3.16).
    zero, a = F.zeros_like(x), x.mT
    both = F.block([[a, zero], [direction.mT, a]])
    slope = _expm_slope(both, F.block([[zero, g], [zero, zero]]))
    n = x.shape[-1]
    return slope[..., :n, :n] + slope[..., n:, n:], _expm_slope(a, g)


@public(name="linalg.expm")
def expm(A: ArrayLike) -> Value:
    """The matrix exponential, by Pade approximation, scaling and squaring.

    JAX squares at most 16 times, so it gives NaN for matrices whose 1-norm is above
    350,000 (257,000 in single precision), for which NumPy programs still have a result.
    """
    return _expm(*as_matrices("linalg.expm", A))


@op()
def _sqrtm(x: Array) -> TensorType:
    """The principal square root, always complex."""
    require_square(x)
    return x.type.like(dtype=complex_dtype(x.dtype))


def sqrtm_numpy(root: Callable[..., NDArray], x: NDArray, dtype: str) -> NDArray:
    """Printed into NumPy programs: the square root of each matrix."""
    out = np.empty(x.shape, dtype)
    for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
        out[i] = root(x[i])
    return out


def sqrtm_jax(
    jnp: ModuleType, root: Callable[..., JaxArray], x: JaxArray, dtype: str
) -> JaxArray:
    """Printed into JAX programs: the square root of each matrix."""
    if not x.size:
        return jnp.zeros(x.shape, dtype)
    return jnp.vectorize(root, signature="(n,n)->(n,n)")(x)


def _print_sqrtm(p: Printing) -> str:
    x, dtype = p.inputs[0], p.code(p.node.outputs[0].dtype)
    if p.xp == "np":
        return p.call(sqrtm_numpy, "scipy.linalg.sqrtm", x, dtype)
    return p.call(sqrtm_jax, "jnp", "jax.scipy.linalg.sqrtm", x, dtype)


_sqrtm.emit(_print_sqrtm)
_sqrtm.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")
batch_last_axes(_sqrtm)
padding.pad_by_unit(_sqrtm)


@_sqrtm.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    root = _sqrtm(x).mT
    return (_sylvester(root, root, g),)


@op()
def _sylvester(a: Array, b: Array, c: Array) -> TensorType:
    """The x with a @ x + x @ b == c."""
    require_equal(require_square(a), c.type.shape[-2], "a and c need as many rows")
    require_equal(require_square(b), c.type.shape[-1], "b and c need as many columns")
    return c.type.like()


def sylvester_numpy(
    solver: Callable[..., NDArray], a: NDArray, b: NDArray, c: NDArray
) -> NDArray:
    """Printed into NumPy programs: `solver` for each triple of matrices."""
    out = np.empty_like(c)
    for i in np.ndindex(c.shape[:-2] if c.size else (0,)):
        out[i] = solver(a[i], b[i], c[i])
    return out


def sylvester_jax(
    solver: Callable[..., JaxArray], a: JaxArray, b: JaxArray, c: JaxArray
) -> JaxArray:
    """Printed into JAX programs: `solver`, unless there are no elements."""
    return solver(a, b, c) if c.size else c


_sylvester.emit(
    numpy=lambda p: p.call(sylvester_numpy, "scipy.linalg.solve_sylvester", *p.inputs),
    jax=lambda p: p.call(sylvester_jax, "jax.scipy.linalg.solve_sylvester", *p.inputs),
)
_sylvester.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")
batch_last_axes(_sylvester)
_sylvester.padding(partial(padding.sylvester, _sylvester))


@_sylvester.vjp
def _(g: Value, a: Value, b: Value, c: Value) -> tuple[Value, Value, Value]:
    x = _sylvester(a, b, c).mT
    of_c = _sylvester(a.mT, b.mT, g)
    return -F.matmul(of_c, x), -F.matmul(x, of_c), of_c


@public(name="linalg.solve_sylvester")
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike, /) -> Value:
    """The x with a @ x + x @ b == q, as `scipy.linalg.solve_sylvester`.

    The result is not finite, or very large, if an eigenvalue of `a` is one of `-b`.
    Batches broadcast. JAX supports this on CPUs only.

    The method uses Schur forms: Bartels and Stewart (1972), Comm. ACM 15, algorithm
    432.
    """
    parts = as_matrices("linalg.solve_sylvester", a, b, q)
    batch = broadcast(*(v.type.shape[:-2] for v in parts))
    wide = (F.broadcast_to(v, (*batch, *v.type.shape[-2:])) for v in parts)
    return _sylvester(*wide)


@public(name="linalg.sqrtm")
def sqrtm(A: ArrayLike) -> Value:
    """The principal square root of square matrices; always complex.

    JAX supports this on CPUs only. For singular matrices the result is unspecified:
    there may be no root, and the backends differ in how they show that.
    """
    return _sqrtm(*as_matrices("linalg.sqrtm", A))


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


def block_diag_numpy(*blocks: NDArray) -> NDArray:
    """Printed into NumPy programs: matrices with `blocks` along the diagonal."""
    batch = np.broadcast_shapes(*[b.shape[:-2] for b in blocks])
    rows, columns = np.sum([b.shape[-2:] for b in blocks], axis=0)
    out = np.zeros((*batch, rows, columns), blocks[0].dtype)
    row = column = 0
    for b in blocks:
        out[..., row : row + b.shape[-2], column : column + b.shape[-1]] = b
        row, column = row + b.shape[-2], column + b.shape[-1]
    return out


def block_diag_jax(jnp: ModuleType, *blocks: JaxArray) -> JaxArray:
    """Printed into JAX programs: matrices with `blocks` along the diagonal."""
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
    numpy=lambda p: p.call(block_diag_numpy, *p.inputs),
    jax=lambda p: p.call(block_diag_jax, "jnp", *p.inputs),
)
_block_diag.linear = True
_block_diag.padding(partial(padding.block_diag, _block_diag))
_block_diag.batch(
    lambda n, batched, *blocks: _block_diag(*align_batches(batched, blocks))
)


@_block_diag.vjp
def _(g: Value, *blocks: Value) -> tuple[Value, ...]:
    row: Any = 0
    column: Any = 0
    cotangents = []
    for b in blocks:
        rows, columns = b.shape[-2:]
        part = g[..., row : row + rows, column : column + columns]
        cotangents.append(summed_to(part, b.type.shape))
        row, column = row + rows, column + columns
    return tuple(cotangents)


@public(name="linalg.block_diag")
def block_diag(*arrs: ArrayLike) -> Value:
    """The matrices along a diagonal, with zeros elsewhere; leading axes broadcast.

    A vector or scalar stands for a matrix of one row.
    """
    values = promoted(*(arrs or (np.zeros((1, 0)),)))
    return _block_diag(*(F.atleast_2d(v) for v in values))


@op()
def _toeplitz(c: Array, r: Array) -> TensorType:
    """Matrices of constant diagonals, with first column `c` and first row `r`."""
    batch = broadcast(c.type.shape[:-1], r.type.shape[:-1])
    return c.type.like((*batch, c.type.shape[-1], r.type.shape[-1]))


def toeplitz_numpy(c: NDArray, r: NDArray) -> NDArray:
    """Printed into NumPy programs: matrices of first columns `c`, first rows `r`."""
    rows, columns = c.shape[-1], r.shape[-1]
    batch = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    if not rows or not columns:
        return np.zeros((*batch, rows, columns), c.dtype)
    parts = c[..., ::-1], r[..., 1:]
    line = np.concatenate(
        [np.broadcast_to(p, (*batch, p.shape[-1])) for p in parts], axis=-1
    )
    windows = np.lib.stride_tricks.sliding_window_view(line, columns, axis=-1)
    return windows[..., ::-1, :].copy()


def toeplitz_jax(jnp: ModuleType, c: JaxArray, r: JaxArray) -> JaxArray:
    """Printed into JAX programs: matrices of first columns `c`, first rows `r`."""
    rows, columns = c.shape[-1], r.shape[-1]
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    parts = c[..., ::-1], r[..., 1:]
    line = jnp.concatenate(
        [jnp.broadcast_to(p, (*batch, p.shape[-1])) for p in parts], axis=-1
    )
    return line[..., rows - 1 - jnp.arange(rows)[:, None] + jnp.arange(columns)]


_toeplitz.emit(
    numpy=lambda p: p.call(toeplitz_numpy, *p.inputs),
    jax=lambda p: p.call(toeplitz_jax, "jnp", *p.inputs),
)
_toeplitz.linear = True
_toeplitz.padding(lambda pad, c, r: _toeplitz(c.value, r.value))
_toeplitz.batch(lambda n, batched, *ends: _toeplitz(*align_batches(batched, ends)))


@_toeplitz.vjp
def _(g: Value, c: Value, r: Value) -> tuple[Value, Value]:
    rows, columns = g.shape[-2:]
    diagonal = rows - 1 - F.expand_dims(F.arange(rows), 1) + F.arange(columns)
    along = F.reshape(g, (*g.type.shape[:-2], g.type.shape[-2] * g.type.shape[-1]))
    size = F.size_value(c.type.shape[-1] + dims.maximum(r.type.shape[-1] - 1, 0))
    sums = F.zeros((*g.type.shape[:-2], size), g.dtype)
    sums = sums.at[..., F.ravel(diagonal)].add(along)
    first = F.size_value(dims.minimum(1, r.type.shape[-1]))  # r[0] is not used
    unused = F.zeros((*g.type.shape[:-2], first), g.dtype)
    of_r = F.concatenate([unused, sums[..., rows:]], axis=-1)
    of_c = F.flip(sums[..., :rows], -1)
    return summed_to(of_c, c.type.shape), summed_to(of_r, r.type.shape)


@public(name="linalg.toeplitz")
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Value:
    """Matrices of constant diagonals: first column `c`, row `r` (conj(c) by default).

    The first element of `r` is not used. Leading axes are a batch, and broadcast.
    """
    column = as_strong_value(c)
    first, second = promoted(column, conjugate(column) if r is None else r)
    first, second = (v if v.type.rank else F.reshape(v, (1,)) for v in (first, second))
    return _toeplitz(first, second)
