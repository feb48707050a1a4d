"""Linear algebra: systems of equations, inverses, and factors to solve with."""

from collections.abc import Sequence
from functools import partial
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Primitive, Printing, op, require_equal
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, NDArray, TensorType, is_integer, real_dtype
from graphc.ops.common.axes import other_axes
from graphc.ops.common.batching import Batched, align_batches, batch_last_axes
from graphc.ops.common.broadcasting import broadcast, summed_to
from graphc.ops.common.conjugates import conjugate
from graphc.ops.linalg import gradients as rules
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import as_matrices, require_finite, require_square

SINGULAR = "the matrix is singular"


def _scipy(primitive: Primitive) -> None:
    primitive.imports["numpy"] = "scipy.linalg"


@op()
def _solve(a: Array, b: Array) -> TensorType:
    """The x with a @ x == b; `b` of rank 1 is one vector, else a batch of matrices."""
    n = require_square(a)
    vector = b.type.rank == 1
    rows = b.type.shape[-1] if vector else b.type.shape[-2]
    require_equal(n, rows, "one right-hand side per row")
    if vector:
        return a.type.like(a.type.shape[:-1])
    batch = broadcast(a.type.shape[:-2], b.type.shape[:-2])
    return a.type.like((*batch, *b.type.shape[-2:]))


def solve_numpy(linalg: ModuleType, a: NDArray, b: NDArray) -> NDArray:
    """Printed into NumPy programs: `solve`; a singular matrix divides by zero."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        pass
    sides = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], sides.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    sides = np.broadcast_to(sides, (*batch, *sides.shape[-2:]))
    factor, substitute = linalg.get_lapack_funcs(("getrf", "getrs"), (a, b))
    out = np.empty(sides.shape, a.dtype)
    for i in np.ndindex(batch):
        packed, pivots, _ = factor(a[i])
        out[i] = substitute(packed, pivots, sides[i])[0]
    return out[..., 0] if b.ndim == 1 else out


def inv_numpy(linalg: ModuleType, x: NDArray) -> NDArray:
    """Printed into NumPy programs: `inv`; a singular matrix divides by zero."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return solve_numpy(linalg, x, np.eye(x.shape[-1], dtype=x.dtype))


@op()
def _inv(x: Array) -> TensorType:
    """The inverse."""
    require_square(x)
    return x.type.like()


_solve.emit(
    numpy=lambda p: p.call(solve_numpy, "scipy.linalg", *p.inputs),
    jax="jnp.linalg.solve({a}, {b})",
)
_inv.emit(
    numpy=lambda p: p.call(inv_numpy, "scipy.linalg", p.inputs[0]),
    jax="jnp.linalg.inv({x})",
)
for _primitive in (_solve, _inv):
    _scipy(_primitive)
    require_finite(_primitive, SINGULAR)
batch_last_axes(_inv)
padding.pad_by_unit(_inv)
_solve.padding(partial(padding.solve, _solve))


@_inv.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    y = _inv(x).mT
    return (-F.matmul(F.matmul(y, g), y),)


@_solve.vjp
def _(g: Value, a: Value, b: Value) -> tuple[Value, Value]:
    x, vector = _solve(a, b), b.type.rank == 1
    g, x = (F.expand_dims(v, -1) if vector else v for v in (g, x))
    of_b = _solve(a.mT, g)
    of_a = summed_to(-F.matmul(of_b, x.mT), a.type.shape)
    of_b = F.squeeze(of_b, -1) if vector else of_b
    return of_a, summed_to(of_b, b.type.shape)


@_solve.batch
def _(n: Size, batched: Batched, a: Value, b: Value) -> Value:
    vector = b.type.rank - batched[1] == 1
    if not batched[1] and vector:
        return _solve(a, b)
    solution = _solve(
        *align_batches(batched, (a, F.expand_dims(b, -1) if vector else b))
    )
    return F.squeeze(solution, -1) if vector else solution


@public(name="linalg.solve")
def solve(a: ArrayLike, b: ArrayLike, /) -> Value:
    """The x with a @ x == b, for square matrices `a`.

    A `b` of rank 1 is one vector; any other is a batch of matrices, as in NumPy 2. If
    `a` is singular, the result is not finite, and a function compiled with `check=True`
    raises.
    """
    return _solve(*as_matrices("linalg.solve", a, b, ranks=(2, 1)))


@public(name="linalg.inv")
def inv(a: ArrayLike, /) -> Value:
    """The inverse of square matrices.

    If `a` is singular, the result is not finite, and a function compiled with
    `check=True` raises.
    """
    return _inv(*as_matrices("linalg.inv", a))


@public(name="linalg.tensorsolve")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Value:
    """The x with tensordot(a, x, x.ndim) == b; `axes` of `a` are moved to its end."""
    x, side = as_matrices("linalg.tensorsolve", a, b, ranks=(1,))
    if axes is not None:
        x = F.transpose(x, (*other_axes(x.type.rank, axes), *axes))
    columns = x.shape[side.type.rank :]
    # Sizes in full, as -1 cannot be worked out if there are no elements.
    rows = F.reshape(x, (side.size, prod(columns)))
    return F.reshape(solve(rows, F.ravel(side)), columns)


@public(name="linalg.tensorinv")
def tensorinv(a: ArrayLike, ind: int = 2) -> Value:
    """The inverse for tensordot, where the first `ind` axes are the rows."""
    (x,) = as_matrices("linalg.tensorinv", a, ranks=(1,))
    ind = as_integer(ind, "ind must be an integer", "linalg.tensorinv")
    if not 0 < ind < x.type.rank:
        got = f"ind={ind} for {x.type}"
        raise graph_error("no such number of axes", op="linalg.tensorinv", got=got)
    columns, rows = x.shape[ind:], x.shape[:ind]
    size = prod(columns)
    return F.reshape(inv(F.reshape(x, (size, -1))), (*columns, *rows))


def _in_one_batch(*values: Value) -> list[Value]:
    """Broadcast matrices to one batch."""
    batch = F.broadcast_arrays(*(_batch_shaped(v) for v in values))[0].shape
    return [F.broadcast_to(v, (*batch, *v.shape[-2:])) for v in values]


def _batch_shaped(x: Value) -> Value:
    """An array with the batch axes of `x` and no others."""
    return F.full(x.shape[:-2], False)


def _with_columns(a: Value, b: Value) -> tuple[Value, Value, bool]:
    """Both operands with one batch, `b` as matrices, and whether `b` was one vector."""
    vector = b.type.rank == 1
    columns = F.expand_dims(b, 1) if vector else b
    if a.type.rank == columns.type.rank == 2:
        return a, columns, vector
    return (*_in_one_batch(a, columns), vector)  # type: ignore[return-value]


@op()
def _solve_triangular(
    a: Array, b: Array, *, lower: bool, trans: int, unit_diagonal: bool
) -> TensorType:
    """The x with op(a) @ x == b for triangular `a`; the other triangle is not read."""
    require_equal(require_square(a), b.type.shape[-2], "one right-hand side per row")
    return b.type.like()


def solve_triangular_numpy(
    linalg: ModuleType,
    a: NDArray,
    b: NDArray,
    lower: bool,
    trans: int,
    unit_diagonal: bool,
) -> NDArray:
    """Printed into NumPy programs: a zero on the diagonal divides, as in JAX."""
    (substitute,) = linalg.get_blas_funcs(("trsm",), (a, b))
    flip = trans < 2  # rows in memory are the columns of the transposed matrix
    flags = {"lower": lower ^ flip, "trans_a": trans ^ flip, "diag": unit_diagonal}
    out = np.empty(b.shape, b.dtype)
    for i in np.ndindex(b.shape[:-2] if b.size else (0,)):
        out[i] = substitute(1, a[i].T if flip else a[i], b[i], **flags)
    return out


def _print_solve_triangular_numpy(p: Printing) -> str:
    lower, trans, unit = (
        int(p.node.params[k]) for k in ("lower", "trans", "unit_diagonal")
    )
    flags = lower, trans, unit
    return p.call(solve_triangular_numpy, "scipy.linalg", *p.inputs, *flags)


def _print_solve_triangular_jax(p: Printing) -> str:
    params = p.node.params
    named = {
        "left_side": True,
        "lower": params["lower"],
        "transpose_a": params["trans"] > 0,
        "conjugate_a": params["trans"] == 2,
        "unit_diagonal": params["unit_diagonal"],
    }
    flags = "".join(f", {name}=True" for name, is_set in named.items() if is_set)
    return f"jax.lax.linalg.triangular_solve({', '.join(p.inputs)}{flags})"


_solve_triangular.emit(
    numpy=_print_solve_triangular_numpy, jax=_print_solve_triangular_jax
)
_scipy(_solve_triangular)
require_finite(_solve_triangular, SINGULAR)
batch_last_axes(_solve_triangular)
_solve_triangular.padding(partial(padding.solve, _solve_triangular))


@_solve_triangular.vjp
def _(g: Value, a: Value, b: Value, **how: Any) -> tuple[Value, Value]:
    trans, lower, one = how["trans"], how["lower"], int(how["unit_diagonal"])
    x = _solve_triangular(a, b, **how)
    if trans == 2:  # the conjugate of the transposed system, for conjugates
        x, g = F.conjugate(x), F.conjugate(g)
    of_b = _solve_triangular(a, g, **how | {"trans": 0 if trans else 1})
    left, right = (x, of_b) if trans else (of_b, x)
    full = -F.matmul(left, right.mT)
    of_a = F.tril(full, -one) if lower else F.triu(full, one)
    return of_a, F.conjugate(of_b) if trans == 2 else of_b
_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _transposition(trans: int | str, op_name: str) -> int:
    if isinstance(trans, bool) or trans not in _TRANS:
        expected = "0 or 'N', 1 or 'T', 2 or 'C'"
        raise graph_error(f"unknown trans {trans!r}", op=op_name, expected=expected)
    return _TRANS[trans]


@public(name="linalg.solve_triangular")
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Value:
    """The x with a @ x == b for a triangular `a`, as `scipy.linalg.solve_triangular`.

    `trans` 1 or "T" solves with the transposed matrix, 2 or "C" with its conjugate.
    Only the upper (or `lower`) triangle is read; with `unit_diagonal`, the diagonal
    counts as ones. A zero on it is divided by: the result is not finite, and a function
    compiled with `check=True` raises. Batches broadcast; a `b` of rank 1 is one vector.
    """
    x, side = as_matrices("linalg.solve_triangular", a, b, ranks=(2, 1))
    how = _transposition(trans, "linalg.solve_triangular")
    how = 1 if how == 2 and x.dtype.kind != "c" else how
    x, columns, vector = _with_columns(x, side)
    solution = _solve_triangular(
        x, columns, lower=bool(lower), trans=how, unit_diagonal=bool(unit_diagonal)
    )
    return F.squeeze(solution, -1) if vector else solution


@op()
def _lu_factor(x: Array) -> tuple[TensorType, ...]:
    """L and U in one matrix, the row exchanges in order, and their permutation."""
    *batch, m, n = x.type.shape
    pivots = TensorType(INT32, (*batch, dims.minimum(m, n)))
    return x.type.like(), pivots, TensorType(INT32, (*batch, m))


def lu_factor_numpy(linalg: ModuleType, x: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Printed into NumPy programs: LU factors, packed, with pivots and row orders."""
    batch, m, k = x.shape[:-2], x.shape[-2], min(x.shape[-2:])
    packed = np.empty_like(x)
    pivots = np.empty((*batch, k), "int32")
    order = np.empty((*batch, m), "int32")
    (factor,) = linalg.get_lapack_funcs(("getrf",), (x,))
    for i in np.ndindex(batch):
        order[i] = np.arange(m)
        if k:
            packed[i], pivots[i], _ = factor(x[i])
        for here, there in enumerate(pivots[i]):
            order[(*i, [here, there])] = order[(*i, [there, here])]
    return packed, pivots, order


_lu_factor.emit(
    numpy=lambda p: p.call(lu_factor_numpy, "scipy.linalg", p.inputs[0]),
    jax="jax.lax.linalg.lu({x})",
)
_scipy(_lu_factor)
batch_last_axes(_lu_factor)
_lu_factor.padding(partial(padding.lu_factor, _lu_factor))


@_lu_factor.vjp
def _(g: tuple[Value | None, ...], x: Value) -> tuple[Value | None]:
    packed, _, order = _lu_factor(x)
    return (None if g[0] is None else rules.of_lu(packed, order, g[0]),)


@public(name="linalg.lu_factor")
def lu_factor(a: ArrayLike) -> tuple[Value, Value]:
    """The factors for `lu_solve`: L and U in one matrix, and the row exchanges."""
    packed, pivots, _ = _lu_factor(*as_matrices("linalg.lu_factor", a))
    return packed, pivots


@public(name="linalg.lu")
def lu(
    a: ArrayLike, permute_l: bool = False, p_indices: bool = False
) -> tuple[Value, ...]:
    """P, L and U with a = P L U, as `scipy.linalg.lu`; L is unit lower triangular.

    `permute_l` returns (P L, U); `p_indices` returns P as indices p with a = L[p] U.
    """
    (x,) = as_matrices("linalg.lu", a)
    packed, _, order = _lu_factor(x)
    m = x.shape[-2]
    k = F.size_value(dims.minimum(*x.type.shape[-2:]))
    lower = F.tril(packed[..., :, :k], -1) + F.eye(m, k, dtype=x.dtype)
    upper = F.triu(packed[..., :k, :])
    rows = cast(F.argsort(order, axis=-1), INT32)
    if permute_l:
        return F.take_along_axis(lower, F.expand_dims(rows, -1), axis=-2), upper
    if p_indices:
        return rows, lower, upper
    columns = F.arange(m, dtype="int32")
    exchanged = F.equal(F.expand_dims(rows, -1), columns)
    return cast(exchanged, real_dtype(x.dtype)), lower, upper


@op()
def _lu_solve(lu: Array, pivots: Array, b: Array, *, trans: int) -> TensorType:
    """The x with op(a) @ x == b, from the factors of a."""
    n = require_square(lu)
    require_equal(n, pivots.type.shape[-1], "one row exchange per row")
    require_equal(n, b.type.shape[-2], "one right-hand side per row")
    return b.type.like()


def lu_solve_numpy(
    linalg: ModuleType, packed: NDArray, pivots: NDArray, b: NDArray, trans: int
) -> NDArray:
    """Printed into NumPy programs: solutions of systems with known LU factors."""
    (substitute,) = linalg.get_lapack_funcs(("getrs",), (packed, b))
    out = np.empty(b.shape, b.dtype)
    for i in np.ndindex(b.shape[:-2] if b.size else (0,)):
        out[i] = substitute(packed[i], pivots[i], b[i], trans=trans)[0]
    return out


_lu_solve.emit(
    numpy=lambda p: p.call(
        lu_solve_numpy, "scipy.linalg", *p.inputs, p.node.params["trans"]
    ),
    jax="jax.scipy.linalg.lu_solve(({lu}, {pivots}), {b}, trans={trans})",
)
_scipy(_lu_solve)
_lu_solve.imports["jax"] = "jax.scipy.linalg"
batch_last_axes(_lu_solve)
_lu_solve.padding(partial(padding.lu_solve, _lu_solve))


@_lu_solve.vjp
def _(
    g: Value, lu: Value, pivots: Value, b: Value, *, trans: int
) -> tuple[Value, None, Value]:
    if trans == 2:  # the conjugate of the transposed system, for conjugates
        g, b = conjugate(g), conjugate(b)
    x = _lu_solve(lu, pivots, b, trans=1 if trans else 0)
    of_b = _lu_solve(lu, pivots, g, trans=0 if trans else 1)
    of_lu = rules.of_lu_solve(lu, (b, x), g, of_b, trans)
    return of_lu, None, conjugate(of_b) if trans == 2 else of_b


def _pair(pair: ArrayLike, op_name: str, maker: str) -> tuple[Any, Any]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        got = str(pair.type) if isinstance(pair, Value) else repr(pair)
        raise graph_error(f"needs the pair that {maker} gives", op=op_name, got=got)
    return pair[0], pair[1]


@public(name="linalg.lu_solve")
def lu_solve(
    lu_and_piv: Sequence[ArrayLike], b: ArrayLike, trans: int | str = 0
) -> Value:
    """The x with a @ x == b from `lu_factor(a)`; `trans` as in `solve_triangular`."""
    packed, pivots = _pair(lu_and_piv, "linalg.lu_solve", "lu_factor(a)")
    factors, side = as_matrices("linalg.lu_solve", packed, b, ranks=(2, 1))
    how = _transposition(trans, "linalg.lu_solve")
    factors, columns, vector = _with_columns(factors, side)
    pivots = as_strong_value(pivots)
    if not pivots.type.rank or not is_integer(pivots.dtype):
        problem = "row exchanges must be integers, a vector per matrix"
        raise graph_error(problem, op="linalg.lu_solve", got=str(pivots.type))
    pivots = cast(pivots, INT32)
    exchanges = F.broadcast_to(pivots, (*factors.shape[:-2], pivots.shape[-1]))
    solution = _lu_solve(factors, exchanges, columns, trans=how)
    return F.squeeze(solution, -1) if vector else solution


@public(name="linalg.cho_factor")
def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Value, bool]:
    """The factor for `cho_solve`, with zeros beside it, and whether it is lower."""
    return F.linalg.cholesky(a, upper=not lower), lower


@public(name="linalg.cho_solve")
def cho_solve(c_and_lower: Sequence[ArrayLike], b: ArrayLike) -> Value:
    """The x with a @ x == b from `cho_factor(a)`, or from (L, True) with a = L L^H."""
    factor, lower = _pair(c_and_lower, "linalg.cho_solve", "cho_factor(a)")
    x, side = as_matrices("linalg.cho_solve", factor, b, ranks=(2, 1))
    vector = side.type.rank == 1
    solution = F.expand_dims(side, 1) if vector else side
    for trans in (0, 2) if lower else (2, 0):
        solution = solve_triangular(x, solution, trans=trans, lower=lower)
    return F.squeeze(solution, -1) if vector else solution
