"""Linear algebra: systems of equations whose matrices have three diagonals."""

from types import ModuleType

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, require_equal
from graphc.ir.namespace import F, public
from graphc.ir.types import NDArray, TensorType
from graphc.ops.common.batching import batch_last_axes
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.linalg.decompositions import as_matrices, require_finite
from graphc.ops.linalg.padding import is_last, zero_padded


@op()
def _solve_tridiagonal(
    lower: Array, diagonal: Array, upper: Array, b: Array
) -> TensorType:
    """The solution of systems whose matrices have three diagonals of n elements.

    The first of `lower` and the last of `upper` lie outside the matrix.
    """
    rows = b.type.shape[-2]
    for part in (lower, diagonal, upper):
        require_equal(rows, part.type.shape[-1], "one right-hand side per row")
    return b.type.like()


def solve_tridiagonal_numpy(
    linalg: ModuleType, lower: NDArray, diagonal: NDArray, upper: NDArray, b: NDArray
) -> NDArray:
    """Printed into NumPy programs: tridiagonal systems, NaN for singular ones."""
    (solve,) = linalg.get_lapack_funcs(("gtsv",), (diagonal, b))
    out = np.empty(b.shape, b.dtype)
    for i in np.ndindex(b.shape[:-2] if b.size else (0,)):
        if b.shape[-2] == 1:
            out[i] = b[i] / diagonal[i] if diagonal[i] else np.nan
            continue
        *_, out[i], info = solve(lower[i][1:], diagonal[i], upper[i][:-1], b[i])
        if info > 0:
            out[i] = np.nan
    return out


_solve_tridiagonal.emit(
    numpy=lambda p: p.call(solve_tridiagonal_numpy, "scipy.linalg", *p.inputs),
    jax="jax.lax.linalg.tridiagonal_solve({lower}, {diagonal}, {upper}, {b})",
)
_solve_tridiagonal.imports["numpy"] = "scipy.linalg"
require_finite(_solve_tridiagonal, "the matrix is singular")
batch_last_axes(_solve_tridiagonal)


def _moved_by_one(x: Value, by: int) -> Value:
    """Move the elements along the last axis by one place; a zero comes in."""
    zero = F.zeros_like(x[..., :1])
    if by > 0:
        return F.concatenate([zero, x[..., :-1]], -1)
    return F.concatenate([x[..., 1:], zero], -1)


@_solve_tridiagonal.vjp
def _(
    g: Value, lower: Value, diagonal: Value, upper: Value, b: Value
) -> tuple[Value, ...]:
    x = _solve_tridiagonal(lower, diagonal, upper, b)
    of_b = _solve_tridiagonal(
        _moved_by_one(upper, 1), diagonal, _moved_by_one(lower, -1), g
    )
    columns, slopes = x.mT, -of_b.mT
    beside = _moved_by_one(columns, 1), columns, _moved_by_one(columns, -1)
    of_diagonals = (F.sum(slopes * side, axis=-2) for side in beside)
    return (*of_diagonals, of_b)


@_solve_tridiagonal.padding
def _(
    pad: Padding,
    lower: PaddedValue,
    diagonal: PaddedValue,
    upper: PaddedValue,
    b: PaddedValue,
) -> Value:
    """Let the equations of the padding set its own unknowns to 0."""
    below, above, sides = (zero_padded(pad, x) for x in (lower, upper, b))
    middle = pad.filled(diagonal, sorted(diagonal.axes), 1)
    n = upper.type.shape[-1]  # its last element would reach into the padding
    above = F.where(is_last(pad, n, n), 0, above)
    solution: Value = _solve_tridiagonal(below, middle, above, sides)
    return solution


@public(name="linalg.solve_tridiagonal")
def solve_tridiagonal(
    lower: ArrayLike, diagonal: ArrayLike, upper: ArrayLike, b: ArrayLike
) -> Value:
    """The x with a @ x == b, for matrices `a` with three diagonals.

    Each diagonal has an element per row: `lower[i]` is a[i, i - 1] and `upper[i]` is
    a[i, i + 1]; the first of `lower` and the last of `upper` are not read. A `b` of
    rank 1 is one vector. Batches broadcast. If `a` is singular, the result is not
    finite, and a function compiled with `check=True` raises.
    """
    name = "linalg.solve_tridiagonal"
    *diagonals, side = as_matrices(name, lower, diagonal, upper, b, ranks=(1,))
    vector = side.type.rank == 1
    columns = F.expand_dims(side, 1) if vector else side
    parts = [F.expand_dims(part, -1) for part in diagonals]
    blank = [F.full(v.shape[:-2], False) for v in (*parts, columns)]
    batch = F.broadcast_arrays(*blank)[0].shape
    parts = [F.broadcast_to(v, (*batch, *v.shape[-2:]))[..., 0] for v in parts]
    columns = F.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    solution = _solve_tridiagonal(*parts, columns)
    return F.squeeze(solution, -1) if vector else solution
