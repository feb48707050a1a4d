"""Linear algebra: decompositions, solvers and functions of matrices, all batched.

The last two axes are matrices, the others a batch. float32, float64, complex64 and
complex128 keep their dtype; integers and bools become float64, as in NumPy; float16 and
bfloat16 are refused, as in NumPy.

For a matrix that NumPy refuses at run time (it is singular, or not positive definite,
or an iteration does not converge), both backends give NaN or infinity instead, in that
matrix of the batch alone. A function compiled with `check=True` raises: finite matrices
must give finite results.
"""

from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import (
    Array,
    Cotangents,
    Emit,
    Primitive,
    Printing,
    op,
    require_equal,
)
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import (
    NDArray,
    TensorType,
    complex_dtype,
    is_float,
    is_inexact,
    real_dtype,
)
from graphc.ops.common.batching import batch_last_axes
from graphc.ops.common.broadcasting import as_inexact
from graphc.ops.common.conditions import BOUNDS, BoundsRule
from graphc.ops.linalg import gradients as rules
from graphc.ops.linalg import padded_svd, padding

Checks = list[tuple[Value, str]]


def as_matrices(
    op_name: str, *args: ArrayLike, ranks: tuple[int, ...] = (2,)
) -> list[Value]:
    """Convert the arguments to one dtype that NumPy's linear algebra takes.

    `ranks` are the least ranks of the arguments; the last one holds for all further
    ones. Raises GraphError if an argument has fewer axes.
    """
    values = [_as_single_or_double(a, op_name) for a in args]
    for i, v in enumerate(values):
        least = ranks[min(i, len(ranks) - 1)]
        if v.type.rank < least:
            what = "a matrix" if least == 2 else "at least a vector"
            raise graph_error(f"needs {what}", op=op_name, got=str(v.type))
    dtype = np.result_type(*(v.dtype for v in values))
    return [cast(v, dtype) for v in values]


def need_matrix(x: ArrayLike, op_name: str) -> Value:
    """The argument as a value of at least two axes, in its own dtype."""
    value = as_strong_value(x)
    if value.type.rank < 2:
        raise graph_error("needs a matrix", op=op_name, got=str(value.type))
    return value


def _as_single_or_double(x: ArrayLike, op_name: str) -> Value:
    value = as_inexact(x)
    if is_float(value.dtype) and value.dtype.itemsize == 2:
        hint = 'convert first: x.astype("float32")'
        problem = f"has no {value.dtype.name} form"
        raise graph_error(problem, op=op_name, got=str(value.type), hint=hint)
    return value


def require_square(x: Value) -> Size:
    """Inside a type rule: the size of square matrices."""
    rows, columns = x.type.shape[-2:]
    return require_equal(rows, columns, "needs square matrices", kind="matrix")


def require_finite(primitive: Primitive, problem: str) -> None:
    """Under `check=True`, require that finite inputs give finite results."""

    def conditions(node: Node) -> Checks:
        fine = F.all(F.isfinite(node.outputs[0]))
        for x in node.inputs:
            if is_inexact(x.dtype):
                unknown = F.logical_not(F.all(F.isfinite(x)))
                fine = F.logical_or(fine, unknown)
        return [(fine, f"{primitive.name}: {problem}")]

    BOUNDS.define(primitive, BoundsRule(conditions, "matrix"))


def require_convergence(primitive: Primitive, output: int = 0) -> None:
    """Under `check=True`, require convergence; NaN has none, as in NumPy."""

    def conditions(node: Node) -> Checks:
        fine = F.all(F.isfinite(node.outputs[output]))
        return [(fine, f"{primitive.name}: the iteration does not converge")]

    BOUNDS.define(primitive, BoundsRule(conditions, "matrix"))


def nan_unless_solved(function: Any, x: NDArray, triangular: bool = False) -> object:
    """Printed into NumPy programs: `function` of each matrix, NaN where it fails."""
    try:
        return function(x)
    except np.linalg.LinAlgError:
        pass
    pattern = function(np.eye(*x.shape[-2:], dtype=x.dtype))
    several = isinstance(pattern, tuple)
    blank = [np.full_like(p, np.nan) for p in (pattern if several else (pattern,))]
    if triangular:
        blank = [np.tril(part) for part in blank]
    solved = []
    for matrix in x.reshape(-1, *x.shape[-2:]):
        try:
            result = function(matrix)
            solved.append(result if several else (result,))
        except np.linalg.LinAlgError:
            solved.append(blank)
    shapes = [(*x.shape[:-2], *part.shape) for part in blank]
    parts = [np.stack(p).reshape(s) for p, s in zip(zip(*solved), shapes)]  # noqa: B905
    return parts if several else parts[0]


def nan_if_unsolved(call: Emit) -> Emit:
    """Print a call as `nan_unless_solved(np.linalg.eigh, x)`."""
    return lambda p: f"{p.helper(nan_unless_solved)}({call(p)}, {p.inputs[0]})"


@op()
def _cholesky(x: Array) -> TensorType:
    """The lower triangular L with x = L L^H; only the lower triangle is read."""
    require_square(x)
    return x.type.like()


_cholesky.rounding = "stored"
_cholesky.emit(
    numpy=lambda p: p.call(
        nan_unless_solved, "np.linalg.cholesky", p.inputs[0], "triangular=True"
    ),
    jax="jnp.linalg.cholesky({x}, symmetrize_input=False)",
)
require_finite(_cholesky, "the matrix is not positive definite")
_cholesky.vjp(lambda g, x: (rules.of_cholesky(_cholesky(x), g),))
batch_last_axes(_cholesky)
padding.pad_by_unit(_cholesky)


@public(name="linalg.cholesky")
def cholesky(a: ArrayLike, /, upper: bool = False) -> Value:
    """The triangular L with a = L L^H, or U with a = U^H U; other elements are zero.

    Only that triangle of `a` is read. If the matrix is not positive definite, the
    triangle is NaN, and a function compiled with `check=True` raises.
    """
    (x,) = as_matrices("linalg.cholesky", a)
    return rules.adjoint(_cholesky(rules.adjoint(x))) if upper else _cholesky(x)


class QRResult(NamedTuple):
    """An orthonormal `Q` and an upper triangular `R`."""

    Q: Value
    R: Value


QRMode = Literal["reduced", "complete", "r", "raw"]


@op()
def _qr(x: Array, *, mode: QRMode) -> TensorType | tuple[TensorType, ...]:
    """The QR decomposition, in the modes of `numpy.linalg.qr`."""
    *batch, m, n = x.type.shape
    k = dims.minimum(m, n)
    inner = m if mode == "complete" else k
    if mode == "r":
        return x.type.like((*batch, k, n))
    if mode == "raw":
        return x.type.like((*batch, n, m)), x.type.like((*batch, k))
    return x.type.like((*batch, m, inner)), x.type.like((*batch, inner, n))


_qr.emit(
    lambda p: f"{p.xp}.linalg.qr({p.inputs[0]})"
    if p.node.params["mode"] == "reduced"
    else f'{p.xp}.linalg.qr({p.inputs[0]}, mode="{p.node.params["mode"]}")'
)
batch_last_axes(_qr)
_qr.padding(partial(padding.qr, _qr))


@_qr.vjp
def _(g: Any, x: Value, *, mode: str) -> tuple[Value]:
    gq, gr = (None, g) if mode == "r" else g
    q, r = _qr(x, mode="reduced")
    if mode == "complete":
        if gq is not None and dims.less_equal(*x.type.shape[-2:]) is not True:
            _refuse_grad(x, "linalg.qr", "in mode complete", 'mode="reduced"')
        gr = None if gr is None else gr[..., : q.shape[-1], :]
    if mode == "raw":
        _refuse_grad(x, "linalg.qr", "in mode raw", 'mode="reduced"')
    return (rules.of_qr(q, r, gq, gr),)


def _refuse_grad(x: Value, op_name: str, of: str, instead: str) -> NoReturn:
    problem = f"there is no gradient through {op_name} {of}"
    raise graph_error(problem, op="grad", got=str(x.type), hint=f"take {instead}")


@public(name="linalg.qr")
def qr(a: ArrayLike, /, mode: str = "reduced") -> Any:
    """An orthonormal Q and an upper triangular R with a = Q R.

    Q has min(m, n) columns, or m in mode "complete". Mode "r" returns R alone; mode
    "raw" returns the reflectors of LAPACK, transposed, and their factors.
    """
    if mode not in get_args(QRMode):
        expected = ", ".join(get_args(QRMode))
        raise graph_error(f"unknown mode {mode!r}", op="linalg.qr", expected=expected)
    (x,) = as_matrices("linalg.qr", a)
    factors = _qr(x, mode=mode)
    return factors if mode in ("r", "raw") else QRResult(*factors)


class SVDResult(NamedTuple):
    """The singular vectors `U` and `Vh`, and the singular values `S`, largest first."""

    U: Value
    S: Value
    Vh: Value


@op()
def _svd(x: Array, *, full_matrices: bool) -> tuple[TensorType, ...]:
    """The singular value decomposition x = U diag(S) Vh."""
    *batch, m, n = x.type.shape
    k = dims.minimum(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    values = x.type.like((*batch, k), real_dtype(x.dtype))
    return x.type.like((*batch, m, rows)), values, x.type.like((*batch, columns, n))


@op()
def _svdvals(x: Array) -> TensorType:
    """The singular values, largest first."""
    *batch, m, n = x.type.shape
    return x.type.like((*batch, dims.minimum(m, n)), real_dtype(x.dtype))


def _print_numpy_svd(p: Printing) -> str:
    if p.node.params["full_matrices"]:
        return "np.linalg.svd"
    return "lambda a: np.linalg.svd(a, full_matrices=False)"


_svd.emit(
    numpy=nan_if_unsolved(_print_numpy_svd),
    jax="jnp.linalg.svd({x}, full_matrices={full_matrices})",
)
_svdvals.emit(
    numpy=nan_if_unsolved(lambda p: "np.linalg.svdvals"), jax="jnp.linalg.svdvals({x})"
)
require_convergence(_svd, output=1)
require_convergence(_svdvals)
batch_last_axes(_svd)
batch_last_axes(_svdvals)
_svd.padding(partial(padded_svd.svd, _svd))
padded_svd.declare(nan_unless_solved)
padding.pad_by_zeros(_svdvals)


@_svd.vjp
def _(g: Cotangents, x: Value, *, full_matrices: bool) -> tuple[Value]:
    gu, gs, gvh = g
    full_matrices = full_matrices and not (gu is None and gvh is None)
    u, s, vh = _svd(x, full_matrices=full_matrices)
    m, n = x.type.shape[-2:]
    if full_matrices:
        tall, wide = dims.less_equal(m, n), dims.less_equal(n, m)
        if (gu is not None and tall is not True) or (
            gvh is not None and wide is not True
        ):
            problem = "of vectors beyond the singular values"
            _refuse_grad(x, "linalg.svd", problem, "full_matrices=False")
        k = s.shape[-1]
        u, vh = u[..., :k], vh[..., :k, :]
    return (rules.of_svd((u, s, vh), gu, gs, gvh),)


@_svdvals.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    u, s, vh = _svd(x, full_matrices=False)
    return (rules.of_svd((u, s, vh), None, g, None),)


@public(name="linalg.svd")
def svd(
    a: ArrayLike,
    /,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Any:
    """The singular value decomposition a = U diag(S) Vh, largest values first.

    Without `compute_uv`, the result is S alone; without `full_matrices`, U has only its
    first min(m, n) columns, and Vh such rows. `hermitian` states that `a` is Hermitian,
    which is faster. The signs of the vectors are those of the backend's LAPACK.
    """
    (x,) = as_matrices("linalg.svd", a)
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    if not compute_uv:
        return _svdvals(x)
    return SVDResult(*_svd(x, full_matrices=full_matrices))


def _hermitian_svd(x: Value, compute_uv: bool) -> object:
    """Decompose by eigenvalues, and move the sign of a negative one into Vh."""
    if not compute_uv:
        return F.flip(F.sort(F.absolute(_eigvalsh(x, lower=True)), axis=-1), -1)
    values, vectors = _eigh(x, lower=True)
    order = F.flip(F.argsort(F.absolute(values), axis=-1), -1)
    values = F.take_along_axis(values, order, axis=-1)
    vectors = F.take_along_axis(vectors, F.expand_dims(order, -2), axis=-1)
    signs = cast(F.copysign(F.ones_like(values), values), x.dtype)
    flipped = vectors * F.expand_dims(signs, -2)
    return SVDResult(vectors, F.absolute(values), rules.adjoint(flipped))


@public(name="linalg.svdvals")
def svdvals(x: ArrayLike, /) -> Value:
    """The singular values, largest first."""
    return _svdvals(*as_matrices("linalg.svdvals", x))


class EigResult(NamedTuple):
    """The `eigenvalues`, in no particular order, and the `eigenvectors` as columns."""

    eigenvalues: Value
    eigenvectors: Value


@op()
def _eigh(x: Array, *, lower: bool) -> tuple[TensorType, ...]:
    """The eigenvalues and eigenvectors of Hermitian matrices; one triangle is read."""
    require_square(x)
    return x.type.like(x.type.shape[:-1], real_dtype(x.dtype)), x.type.like()


@op()
def _eigvalsh(x: Array, *, lower: bool) -> TensorType:
    """The eigenvalues of Hermitian matrices; one triangle is read."""
    require_square(x)
    return x.type.like(x.type.shape[:-1], real_dtype(x.dtype))


def _emit_hermitian(primitive: Primitive) -> None:
    name = f"linalg.{primitive.name}"

    def in_numpy(p: Printing) -> str:
        if p.node.params["lower"]:
            return f"np.{name}"
        return f'lambda a: np.{name}(a, UPLO="U")'

    def in_jax(p: Printing) -> str:
        part = "L" if p.node.params["lower"] else "U"
        return f'jnp.{name}({p.inputs[0]}, UPLO="{part}", symmetrize_input=False)'

    primitive.emit(numpy=nan_if_unsolved(in_numpy), jax=in_jax)
    require_convergence(primitive)


_emit_hermitian(_eigh)
_emit_hermitian(_eigvalsh)
batch_last_axes(_eigh)
batch_last_axes(_eigvalsh)
padding.pad_by_largest(_eigh)
padding.pad_by_largest(_eigvalsh)


@_eigh.vjp
def _(g: Cotangents, x: Value, *, lower: bool) -> tuple[Value]:
    values, vectors = _eigh(x, lower=lower)
    full = rules.of_eigh(values, vectors, *g)
    return (rules.of_triangle(full, lower),)


@_eigvalsh.vjp
def _(g: Value, x: Value, *, lower: bool) -> tuple[Value]:
    values, vectors = _eigh(x, lower=lower)
    full = rules.of_eigh(values, vectors, g, None)
    return (rules.of_triangle(full, lower),)


@op()
def _eig(x: Array) -> tuple[TensorType, ...]:
    """The eigenvalues and eigenvectors, always complex."""
    require_square(x)
    dtype = complex_dtype(x.dtype)
    return x.type.like(x.type.shape[:-1], dtype), x.type.like(dtype=dtype)


@op()
def _eigvals(x: Array) -> TensorType:
    """The eigenvalues, always complex."""
    require_square(x)
    return x.type.like(x.type.shape[:-1], complex_dtype(x.dtype))


def complex_eig(x: NDArray, dtype: str) -> tuple[NDArray, NDArray]:
    """Printed into NumPy programs: `eig`, complex even if all eigenvalues are real."""
    values, vectors = np.linalg.eig(x)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def _print_numpy_eig(p: Printing) -> str:
    dtype = p.code(p.node.outputs[0].dtype)
    return f"lambda a: {p.helper(complex_eig)}(a, {dtype})"


def _print_numpy_eigvals(p: Printing) -> str:
    dtype = p.code(p.node.outputs[0].dtype)
    return f"lambda a: np.linalg.eigvals(a).astype({dtype}, copy=False)"


_eig.emit(numpy=nan_if_unsolved(_print_numpy_eig), jax="jnp.linalg.eig({x})")
_eigvals.emit(
    numpy=nan_if_unsolved(_print_numpy_eigvals), jax="jnp.linalg.eigvals({x})"
)
require_convergence(_eig)
require_convergence(_eigvals)
batch_last_axes(_eig)
batch_last_axes(_eigvals)
padding.pad_by_unit(_eig)
padding.pad_by_unit(_eigvals)


@_eig.vjp
def _(g: Cotangents, x: Value) -> tuple[Value]:
    values, vectors = _eig(x)
    return (rules.of_eig(values, vectors, *g),)


@_eigvals.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    values, vectors = _eig(x)
    return (rules.of_eig(values, vectors, g, None),)


@public(name="linalg.eig")
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrices; always complex.

    JAX supports this on CPUs, and since some version on GPUs too.
    """
    return EigResult(*_eig(*as_matrices("linalg.eig", a)))


@public(name="linalg.eigvals")
def eigvals(a: ArrayLike) -> Value:
    """The eigenvalues of any square matrices; always complex.

    JAX supports this on CPUs, and since some version on GPUs too.
    """
    return _eigvals(*as_matrices("linalg.eigvals", a))
