"""Linear algebra: eigenvalues of Hermitian matrices and of pairs; the Schur form."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.namespace import F, public
from graphc.ir.types import DType, NDArray, TensorType, complex_dtype
from graphc.ops.common.batching import batch_last_axes
from graphc.ops.common.broadcasting import broadcast
from graphc.ops.linalg import gradients as rules
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import (
    _eigh,
    _eigvalsh,
    as_matrices,
    require_square,
)


class EighResult(NamedTuple):
    """The `eigenvalues`, smallest first, and the `eigenvectors` as columns."""

    eigenvalues: Value
    eigenvectors: Value


def _is_lower(part: str, op_name: str) -> bool:
    if not isinstance(part, str) or part.upper() not in ("L", "U"):
        raise graph_error(f"UPLO must be 'L' or 'U', not {part!r}", op=op_name)
    return part.upper() == "L"


def _second_argument(
    b: ArrayLike | str | None, UPLO: str
) -> tuple[ArrayLike | None, str]:
    """Sort out the second argument: a matrix as in SciPy, or a triangle as in NumPy."""
    return (None, b) if isinstance(b, str) else (b, UPLO)


@public(name="linalg.eigh")
def eigh(
    a: ArrayLike, /, b: ArrayLike | str | None = None, UPLO: str = "L"
) -> EighResult:
    """Eigenvalues, smallest first, and eigenvectors of Hermitian matrices.

    For `a` alone, the vectors v are orthonormal. With a positive definite `b`, a v = w
    b v, and v^H b v is the unit matrix; batches broadcast. Only the triangles that
    `UPLO` names are read. The signs of the vectors are those of the backend's LAPACK.
    If `b` is not positive definite, all results are NaN.

    The method is Cholesky reduction: Golub and Van Loan (2013), Matrix Computations,
    8.7.2.
    """
    b, UPLO = _second_argument(b, UPLO)
    lower = _is_lower(UPLO, "linalg.eigh")
    if b is None:
        (x,) = as_matrices("linalg.eigh", a)
        return EighResult(*_eigh(x, lower=lower))
    reduced, factor = _standard_form(a, b, lower, "linalg.eigh")
    values, vectors = _eigh(reduced, lower=True)
    turned = F.linalg.solve_triangular(factor, vectors, trans=2, lower=True)
    return EighResult(values, turned)


@public(name="linalg.eigvalsh")
def eigvalsh(
    a: ArrayLike, /, b: ArrayLike | str | None = None, UPLO: str = "L"
) -> Value:
    """The eigenvalues of Hermitian matrices, or of pairs, smallest first; see `eigh`.

    For a matrix with NaN they are undefined: NumPy's LAPACK may give numbers.
    """
    b, UPLO = _second_argument(b, UPLO)
    lower = _is_lower(UPLO, "linalg.eigvalsh")
    if b is None:
        (x,) = as_matrices("linalg.eigvalsh", a)
        return _eigvalsh(x, lower=lower)
    return _eigvalsh(_standard_form(a, b, lower, "linalg.eigvalsh")[0], lower=True)


def _standard_form(
    a: ArrayLike, b: ArrayLike, lower: bool, op_name: str
) -> tuple[Value, Value]:
    """L^-1 a L^-H and L, where b = L L^H; both are whole matrices of one batch."""
    x, metric = as_matrices(op_name, a, b)
    batch = broadcast(x.type.shape[:-2], metric.type.shape[:-2])
    x = F.broadcast_to(x, (*batch, *x.type.shape[-2:]))
    metric = F.broadcast_to(metric, (*batch, *metric.type.shape[-2:]))
    factor = F.linalg.cholesky(metric, upper=not lower)
    factor = factor if lower else rules.adjoint(factor)
    beside = F.tril(x, -1) if lower else F.triu(x, 1)
    diagonal = F.triu(F.tril(F.real(x)))
    whole = beside + rules.adjoint(beside) + F.astype(diagonal, x.dtype)
    half = F.linalg.solve_triangular(factor, whole, lower=True)
    full = F.linalg.solve_triangular(factor, rules.adjoint(half), lower=True)
    return full, factor


class SchurResult(NamedTuple):
    """The (quasi-)triangular `T` and the unitary `Z`."""

    T: Value
    Z: Value


@op()
def _schur(x: Array, *, dtype: DType) -> tuple[TensorType, ...]:
    """The Schur form x = Z T Z^H of real or complex matrices."""
    require_square(x)
    return x.type.like(dtype=dtype), x.type.like(dtype=dtype)


def schur_numpy(
    function: Callable[..., NDArray], x: NDArray, dtype: str
) -> tuple[NDArray, NDArray]:
    """Printed into NumPy programs: `function` of each finite matrix, else NaN."""
    x = x.astype(dtype)
    t, z = np.empty_like(x), np.empty_like(x)
    for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
        if np.isfinite(x[i]).all():
            t[i], z[i] = function(x[i])
        else:
            t[i], z[i] = np.nan, np.nan
    return t, z


def _print_schur(p: Printing) -> str:
    x, dtype = p.inputs[0], p.code(p.node.outputs[0].dtype)
    if p.xp == "np":
        return p.call(schur_numpy, "scipy.linalg.schur", x, dtype)
    return f"jax.scipy.linalg.schur({x}.astype({dtype}))"


_schur.emit(_print_schur)
_schur.imports.update(numpy="scipy.linalg", jax="jax.scipy.linalg")
batch_last_axes(_schur)
padding.pad_by_unit(_schur)
_schur.no_gradient("the factors are not unique: take linalg.eig, linalg.eigh or expm")


@public(name="linalg.schur")
def schur(a: ArrayLike, /, output: str = "real") -> SchurResult:
    """The Schur form a = Z T Z^H: Z is unitary, T upper triangular.

    For real matrices, T has 2 x 2 blocks on its diagonal for pairs of complex
    eigenvalues, unless `output` is "complex": then both T and Z are complex, and T is
    triangular. The eigenvalues come in the order of the backend's LAPACK. Matrices that
    are not finite give NaN. JAX supports this on CPUs only.

    Raises GraphError for another `output`, or if the matrices in `a` are not square.
    """
    if output not in ("real", "complex"):
        problem = f"output must be 'real' or 'complex', not {output!r}"
        raise graph_error(problem, op="linalg.schur")
    (x,) = as_matrices("linalg.schur", a)
    dtype = complex_dtype(x.dtype) if output == "complex" else x.dtype
    return SchurResult(*_schur(x, dtype=dtype))
