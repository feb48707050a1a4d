"""Linear algebra, convolutions and Fourier transforms."""

from typing import TYPE_CHECKING

import graphc.tensor as gt
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.pytensor.registry import NotConverted, as_stated, rule

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

la = gt.linalg


rule("Cholesky")(lambda op, node, a: la.cholesky(a, upper=not op.lower))


def _complete(a: Value, lower: bool, hermitian: bool) -> Value:
    """Complete a symmetric or Hermitian matrix of which one triangle is given."""
    triangle, strict = (
        (gt.tril(a), gt.tril(a, -1)) if lower else (gt.triu(a), gt.triu(a, 1))
    )
    other = gt.matrix_transpose(strict)
    return triangle + (gt.conj(other) if hermitian else other)


@rule("Solve")
def _(op: "Op", node: "Apply", a: Value, b: Value) -> Value:
    if op.assume_a in ("sym", "her", "pos"):
        a = _complete(a, op.lower, hermitian=op.assume_a != "sym")
    if op.assume_a == "pos":
        return la.cho_solve((la.cholesky(a), True), b)
    if op.assume_a == "tridiagonal":
        a = gt.triu(gt.tril(a, 1), -1)
    return la.solve(a, b)


@rule("SolveTriangular")
def _(op: "Op", node: "Apply", a: Value, b: Value) -> Value:
    unit = op.unit_diagonal
    return la.solve_triangular(a, b, lower=op.lower, unit_diagonal=unit)


rule("CholeskySolve")(lambda op, node, c, b: la.cho_solve((c, op.lower), b))
rule("MatrixInverse")(lambda op, node, a: la.inv(a))
rule("MatrixPinv")(lambda op, node, a: la.pinv(a, hermitian=op.hermitian))
rule("Det")(lambda op, node, a: la.det(a))
rule("SLogDet")(lambda op, node, a: la.slogdet(a))


@rule("Eigh")
def _(op: "Op", node: "Apply", a: Value, *b: Value) -> list[Value]:
    if not b:
        return list(la.eigh(a, UPLO=_triangle(op)))
    factor, matrix = _with_one_matrix(op, a, b[0])
    values, vectors = la.eigh(matrix)
    upper = gt.conj(gt.matrix_transpose(factor))
    return [values, la.solve_triangular(upper, vectors, lower=False)]


def _triangle(op: "Op") -> str:
    return op.UPLO if hasattr(op, "UPLO") else "L" if op.lower else "U"


def _with_one_matrix(op: "Op", a: Value, b: Value) -> tuple[Value, Value]:
    """The factor L of `b`, and the matrix whose eigenvalues are those of `a` by `b`."""
    lower = _triangle(op) == "L"
    factor = la.cholesky(_complete(b, lower, hermitian=True))
    half = la.solve_triangular(factor, _complete(a, lower, hermitian=True), lower=True)
    half = gt.conj(gt.matrix_transpose(half))
    return factor, la.solve_triangular(factor, half, lower=True)


@rule("Eigvalsh")
def _(op: "Op", node: "Apply", a: Value, *b: ArrayLike) -> Value:
    if not b or b[0] is None:
        return la.eigvalsh(a, UPLO=_triangle(op))
    return la.eigvalsh(_with_one_matrix(op, a, as_value(b[0]))[1])


@rule("SVD")
def _(op: "Op", node: "Apply", a: Value) -> list[Value]:
    factors = la.svd(a, op.full_matrices, op.compute_uv)
    return list(factors) if op.compute_uv else factors


@rule("QR")
def _(op: "Op", node: "Apply", a: Value) -> list[Value]:
    modes = {"economic": "reduced", "full": "complete", "r": "r"}
    if op.pivoting or op.mode not in modes:
        raise NotConverted("a QR decomposition with pivots or in raw form")
    factors = la.qr(a, mode=modes[op.mode])
    return factors if op.mode == "r" else list(factors)


rule("LU")(lambda op, node, a: la.lu(a, op.permute_l, op.p_indices))
rule("LUFactor")(lambda op, node, a: la.lu_factor(a))


@rule("PivotToPermutations")
def _(op: "Op", node: "Apply", pivots: Value) -> Value:
    """The order of the rows after exchanges by pivots, one after the other."""

    def exchange(i: Value, order: Value) -> Value:
        j = pivots[i]
        return order.at[i].set(order[j]).at[j].set(order[i])

    n = pivots.shape[0]
    order = gt.fori_loop(0, n, exchange, gt.arange(n, dtype="int64"))
    return order if op.inverse else gt.argsort(order)


rule("Eig")(lambda op, node, a: la.eig(a))


@rule("Schur")
def _(op: "Op", node: "Apply", a: Value) -> list[Value]:
    if op.sort is not None:
        raise NotConverted("eigenvalues are sorted")
    return list(la.schur(a, op.output))


rule("Expm")(lambda op, node, a: la.expm(a))
rule("SolveSylvester")(lambda op, node, a, b, c: la.solve_sylvester(a, b, c))
rule("TensorInv")(lambda op, node, a: la.tensorinv(a, op.ind))
rule("TensorSolve")(lambda op, node, a, b: la.tensorsolve(a, b, op.axes))
rule("BlockDiagonal")(lambda op, node, *matrices: la.block_diag(*matrices))
rule("KroneckerProduct")(lambda op, node, a, b: gt.kron(a, b))


def _require_elements(x: Value) -> Value:
    """Require that `x` has elements, as PyTensor's own Op does in convolutions."""
    for size in x.shape:
        x = F._at_most(1, size, "an array is empty", x, "convolve")
    return x


@rule("Convolve1d", "Convolve2d")
def _(op: "Op", node: "Apply", x: Value, kernel: Value, full: Value) -> Value:
    """Convolve at all positions where the two overlap, or where one is in the other."""
    dtype = node.outputs[0].type.dtype
    a, b = (_require_elements(as_stated(v, dtype)) for v in (x, kernel))
    ahead = [(n - 1, n - 1) for n in b.shape]
    convolved = gt.nn.conv(a[None, None], gt.flip(b)[None, None], padding=ahead)[0, 0]
    inside = 1 - gt.astype(full, "int64")
    for axis, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)):
        cut = inside * (gt.minimum(n, m) - 1)
        convolved = convolved[(*[slice(None)] * axis, slice(cut, n + m - 1 - cut))]
    return convolved


@rule("RFFTOp")
def _(op: "Op", node: "Apply", a: Value, s: Value) -> Value:
    axes = tuple(range(1, a.ndim))
    spectrum = gt.fft.rfftn(a, [s[i] for i in range(a.ndim - 1)], axes)
    return gt.stack([gt.real(spectrum), gt.imag(spectrum)], axis=-1)


@rule("IRFFTOp")
def _(op: "Op", node: "Apply", a: Value, s: Value) -> Value:
    z = a[..., 0] + 1j * a[..., 1]
    sizes = [s[i] for i in range(z.ndim - 1)]
    signal = gt.fft.irfftn(z, sizes, tuple(range(1, z.ndim)))
    return signal * gt.prod(s)
