"""The singular value decomposition of matrices with padding after rows and columns.

Its vectors are those that LAPACK gives without padding, signs included. LAPACK makes a
matrix bidiagonal by reflections, then diagonal. A matrix of many more rows than
columns, or columns than rows, becomes triangular first, and the bidiagonal of one of
fewer rows than columns is below its diagonal. So a matrix is decomposed at a shape for
which LAPACK takes the same way. There it stands behind numbers on the diagonal that are
larger than its singular values: no reflection mixes them with it, and sorting the
values exchanges nothing. More than 25 values are asked for, since LAPACK solves the
blocks of a larger matrix one by one, and those of a smaller one together.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import numpy as np

from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Primitive, Printing, op
from graphc.ir.namespace import F
from graphc.ir.sizes import dims
from graphc.ir.types import JaxArray, NDArray, TensorType
from graphc.ops.common.padded_reads import as_int32, is_known
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.linalg.padding import (
    is_matrix_padded,
    is_square,
    numbers_above,
    zero_padded,
)

Unpadded = Literal["", "rows", "columns", "square"]


@op()
def _svd_within(
    x: Array, rows: Array, columns: Array, large: Array, *, full: bool, known: Unpadded
) -> tuple[TensorType, ...]:
    """The decomposition of the true rows and columns, with anything behind its parts.

    `large` is above all singular values. `known` says what is not padded: the "rows",
    the "columns", or neither; "square" matrices have as many of both.
    """
    *batch, m, n = x.type.shape
    k = dims.minimum(m, n)
    left, right = (m, n) if full else (k, k)
    values = x.type.like((*batch, k), large.dtype)
    return x.type.like((*batch, m, left)), values, x.type.like((*batch, right, n))


def svd_within_numpy(
    solved: Callable[..., tuple[NDArray, ...]],
    x: NDArray,
    rows: NDArray,
    columns: NDArray,
    full: bool,
) -> tuple[NDArray, ...]:
    """Printed into NumPy programs: the decomposition at true sizes, and zeros."""
    x_true = x[..., :rows, :columns]
    factors = solved(lambda a: np.linalg.svd(a, full_matrices=full), x_true)
    m, n = x.shape[-2:]
    k = min(m, n)
    left, right = (m, n) if full else (k, k)
    shapes = (m, left), (k,), (right, n)
    parts = []
    for part, shape in zip(factors, shapes, strict=True):
        batch = part.ndim - len(shape)
        widths = [(0, n - k) for n, k in zip(shape, part.shape[batch:], strict=True)]
        parts.append(np.pad(part, [(0, 0)] * batch + widths))
    return tuple(parts)


def ahead(count: int, side: int, exact: bool) -> int:
    """Printed into JAX programs: how many numbers stand before a matrix.

    Few values get a zero behind them: LAPACK puts the sign of one block that stands
    last into the other vectors.
    """
    return 0 if exact else side - count - ((count > 1) & (count <= 25))


def svd_behind(
    jnp: ModuleType,
    x: JaxArray,
    rows: JaxArray,
    columns: JaxArray,
    large: JaxArray,
    shape: tuple[int, ...],
    options: Any,
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: a decomposition at a shape, behind large numbers."""
    full, exact = options
    first = ahead(jnp.minimum(rows, columns), min(shape), exact)
    i, j = jnp.arange(shape[0])[:, None], jnp.arange(shape[1])
    moved = jnp.take(x, i[:, 0] - first, axis=-2, mode="clip")
    moved = jnp.take(moved, j - first, axis=-1, mode="clip")
    inside = (i >= first) & (j >= first) & (i < first + rows) & (j < first + columns)
    before = jnp.where((i == j) & (i < first), large[..., None, None], 0)
    placed = jnp.where(inside, moved, before.astype(x.dtype))
    u, s, vh = jnp.linalg.svd(placed, full_matrices=full)
    m, n = x.shape[-2:]
    k = min(m, n)

    def taken(part: JaxArray, axis: int, count: int) -> JaxArray:
        return jnp.take(part, jnp.arange(count) + first, axis=axis, mode="clip")

    u = taken(taken(u, -2, m), -1, m if full else k)
    vh = taken(taken(vh, -2, n if full else k), -1, n)
    return u, taken(s, -1, k), vh


def svd_by_triangle(
    jnp: ModuleType,
    x: JaxArray,
    columns: JaxArray,
    large: JaxArray,
    side: int,
    options: tuple[object, ...],
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: decompose the triangular factor, then apply Q.

    `options` also tell whether `x` is the adjoint of a matrix of fewer rows.
    """
    full, exact, wide = options
    m, n = x.shape[-2:]
    k = min(m, n)
    q, r = jnp.linalg.qr(x, mode="complete" if full else "reduced")
    r = r[..., :k, :k]
    r = jnp.conj(jnp.swapaxes(r, -1, -2)) if wide else r
    inner = svd_behind(jnp, r, columns, columns, large, (side, side), (False, exact))
    u, s, vh = inner
    if wide:
        u, vh = (jnp.conj(jnp.swapaxes(part, -1, -2)) for part in (vh, u))
    i = jnp.arange(k)
    u = q[..., :k] @ jnp.where((i < columns) & (i[:, None] < columns), u, 0)
    none = [(0, 0)] * (x.ndim - 2)
    if full:
        u = jnp.pad(u, [*none, (0, 0), (0, m - k)])
        u = jnp.where(jnp.arange(m) < columns, u, q)
    more = n - k if full else 0
    return u, s, jnp.pad(vh, [*none, (0, more), (0, n - k)])


def svd_ways(
    jax: ModuleType,
    x: JaxArray,
    rows: JaxArray,
    columns: JaxArray,
    large: JaxArray,
    full: bool,
    known: str,
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: decompose in the way LAPACK takes at true sizes."""
    jnp = jax.numpy
    k = min(x.shape[-2:])
    tall, wide = known == "columns", known == "rows"  # whose values are counted
    sides = [k if exact else max(k + 1, 27) for exact in (tall, wide)]
    if known == "square":
        shape = sides[0], sides[0]
        return svd_behind(jnp, x, rows, columns, large, shape, (full, False))
    more, less = (17, 9) if x.dtype.kind == "c" else (11, 6)
    longer = [max(side * more // less - 1, side + i) for i, side in enumerate(sides)]

    def transposed(x: JaxArray) -> tuple[JaxArray, JaxArray, JaxArray]:
        x = jnp.conj(jnp.swapaxes(x, -1, -2))
        options = full, wide, True
        u, s, vh = svd_by_triangle(jnp, x, rows, large, sides[1], options)
        vh, u = (jnp.conj(jnp.swapaxes(part, -1, -2)) for part in (u, vh))
        return u, s, vh

    def behind(
        x: JaxArray, shape: tuple[int, ...], exact: bool
    ) -> tuple[JaxArray, JaxArray, JaxArray]:
        return svd_behind(jnp, x, rows, columns, large, shape, (full, exact))

    options = full, tall, False
    ways = [
        lambda x: svd_by_triangle(jnp, x, columns, large, sides[0], options),
        lambda x: behind(x, (longer[0], sides[0]), tall),
        transposed,
        lambda x: behind(x, (sides[1], longer[1]), wide),
    ]
    fewer, most = jnp.minimum(rows, columns), jnp.maximum(rows, columns)
    way = jnp.where(rows >= columns, 0, 2)
    return jax.lax.switch(way + (most < fewer * more // less), ways, x)


def svd_within_jax(
    jax: ModuleType,
    x: JaxArray,
    rows: JaxArray,
    columns: JaxArray,
    large: JaxArray,
    full: bool,
    known: str,
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: unit matrices for zeros, NaN unless all are finite."""
    jnp = jax.numpy
    if not min(x.shape[-2:]):
        return jnp.linalg.svd(x, full_matrices=full)
    finite = jnp.isfinite(x).all((-2, -1), keepdims=True)
    several = jnp.minimum(rows, columns) > 1
    nothing = (x == 0).all((-2, -1), keepdims=True) & several
    x = jnp.where(finite, x, 0)
    u, s, vh = svd_ways(jax, x, rows, columns, large, full, known)
    s = jnp.where(finite[..., 0], s, jnp.nan)
    parts = []
    for part in (u, vh):
        part = jnp.where(nothing, jnp.eye(*part.shape[-2:], dtype=x.dtype), part)
        parts.append(jnp.where(finite, part, jnp.nan))
    return parts[0], s, parts[1]


def declare(solved: Callable[..., object]) -> None:
    """Give the primitive its printers; `solved` calls a function in NumPy programs."""

    def print_numpy(p: Printing) -> str:
        arguments = [p.helper(solved), *p.inputs[:3], p.code(p.node.params["full"])]
        return p.call(svd_within_numpy, *arguments)

    _svd_within.emit(numpy=print_numpy, jax=_print_jax)


def _print_jax(p: Printing) -> str:
    options = [p.code(p.node.params[name]) for name in ("full", "known")]
    return p.call(svd_within_jax, "jax", *p.inputs, *options)


_svd_within.no_gradient("gradients are taken before sizes are padded")
_svd_within.no_batch("examples are batched before sizes are padded")
_svd_within.no_padding("it is the result of a mask rule")


def svd(
    primitive: Primitive, pad: Padding, x: PaddedValue, *, full_matrices: bool
) -> Value:
    """The thin or full decomposition, with the vectors of the unpadded matrix."""
    value = zero_padded(pad, x)
    if not is_matrix_padded(x):
        return primitive(value, full_matrices=full_matrices)
    m, n = x.type.shape[-2:]
    known = "rows" if is_known(pad, m) else "columns" if is_known(pad, n) else ""
    known = "square" if is_square(pad, x) else known
    sizes = as_int32(pad, m), as_int32(pad, n)
    large = numbers_above(F.absolute(value))
    return _svd_within(value, *sizes, large, full=full_matrices, known=known)
