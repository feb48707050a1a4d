"""Rules of sorting, Fourier transforms and linear algebra."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax

from graphc.importers.jax.read.reader import Equation, rule_calling
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast, number_constant
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ops.indexing.counting_indices import is_counting

LINALG = F.linalg


@PRIMITIVES.define("sort")
def _sort(eqn: Equation, *arrays: Value) -> list[Value]:
    """Sort arrays by the first `num_keys` of them, the first key foremost."""
    axis, count = eqn.params["dimension"], eqn.params["num_keys"]
    keys = [key for array in arrays[:count] for key in _real_keys(array)]
    if len(arrays) == len(keys) == 1:
        return [F.sort(arrays[0], axis)]
    order = F.lexsort(keys[::-1], axis) if keys[1:] else F.argsort(keys[0], axis)
    return [_reordered(v, order, axis) for v in arrays]


def _reordered(x: Value, order: Value, axis: int) -> Value:
    """`x` in this order along an axis; the order itself if `x` counts along it."""
    source = x.node.inputs[0] if x.node.primitive is OP.broadcast_to else x
    if is_counting(source, axis - x.type.rank + source.type.rank, x.type.shape[axis]):
        return cast(order, x.dtype)
    return F.take_along_axis(x, order, axis)


def _real_keys(x: Value) -> list[Value]:
    """The keys that order numbers: for complex ones, real before imaginary parts."""
    return [F.real(x), F.imag(x)] if x.dtype.kind == "c" else [x]


@PRIMITIVES.define("top_k", sizes=("k",))
def _top_k(eqn: Equation, x: Value) -> list[Value]:
    """The `k` largest elements and their positions."""
    count = F.size_value(eqn.size("k"))
    values, places = F.top_k(x, count, eqn.params["axis"])
    return [values, cast(places, eqn.results[1].dtype)]


@PRIMITIVES.define("approx_top_k", sizes=("k",))
def _approx_top_k(eqn: Equation, x: Value) -> list[Value]:
    """The `k` largest or smallest elements, found exactly, as JAX does on CPUs."""
    eqn.require("reduction_input_size_override", -1)
    eqn.require("aggregate_to_topk", True)
    if jax.default_backend() == "tpu":
        raise Unsupported("approx_top_k: there is no op for it here")
    count, axis = F.size_value(eqn.size("k")), eqn.params["reduction_dimension"]
    sign = number_constant(1 if eqn.params["is_max_k"] else -1, x.dtype)
    values, places = F.top_k(sign * x, count, axis)
    return [sign * values, cast(places, eqn.results[1].dtype)]


_KINDS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}


@PRIMITIVES.define("fft", sizes=("fft_lengths",))
def _fft(eqn: Equation, x: Value) -> Value:
    """A Fourier transform over the last axes."""
    kind = getattr(eqn.params["fft_type"], "name", str(eqn.params["fft_type"]))
    lengths = eqn.shape("fft_lengths")
    axes = tuple(range(-len(lengths), 0))
    transform = getattr(F.fft, _KINDS[kind])
    return transform(x, s=tuple(map(F.size_value, lengths)), axes=axes)


PRIMITIVES.define("cholesky")(rule_calling(LINALG.cholesky))


@PRIMITIVES.define("triangular_solve")
def _triangular_solve(eqn: Equation, a: Value, b: Value) -> Value:
    """Solve a triangular system with `a` on the left or the right."""
    params = eqn.params
    lower, unit = params["lower"], params["unit_diagonal"]
    turned, left = params["transpose_a"], params["left_side"]
    a = F.conjugate(a) if params["conjugate_a"] else a
    if left:
        return LINALG.solve_triangular(a, b, int(turned), lower, unit)
    transposed = LINALG.solve_triangular(a, b.mT, int(not turned), lower, unit)
    return transposed.mT


@PRIMITIVES.define("eigh")
def _eigh(eqn: Equation, x: Value) -> Sequence[Value]:
    """Eigenvectors and eigenvalues of Hermitian matrices, reading one triangle."""
    eqn.require("subset_by_index")
    w, v = LINALG.eigh(x, "L" if eqn.params["lower"] else "U")
    return v, w


@PRIMITIVES.define("svd")
def _svd(eqn: Equation, x: Value) -> Sequence[Value]:
    """The singular values, and the singular vectors if they are wanted."""
    eqn.require("subset_by_index")
    if not eqn.params["compute_uv"]:
        return [LINALG.svdvals(x)]
    u, s, vh = LINALG.svd(x, full_matrices=eqn.params["full_matrices"])
    return s, u, vh


@PRIMITIVES.define("lu")
def _lu(_: Equation, x: Value) -> Sequence[Value]:
    """L and U in one matrix, the row exchanges in order, and their permutation."""
    factors: Sequence[Value] = OPS["lu_factor"](x)
    return factors


@PRIMITIVES.define("lu_pivots_to_permutation", sizes=("permutation_size",))
def _lu_pivots_to_permutation(eqn: Equation, pivots: Value) -> Value:
    """The order of the rows after exchanging each with the row its pivot names."""
    if pivots.type.rank != 1:
        raise Unsupported("lu_pivots_to_permutation: there is no op for many matrices")
    size = F.size_value(eqn.size("permutation_size"))
    rows = F.arange(size, dtype=eqn.result.dtype)

    def exchanged(i: Value, rows: Value) -> Value:
        other = pivots[i]
        return rows.at[i].set(rows[other]).at[other].set(rows[i])

    permutation: Value = F.fori_loop(
        0, F.size_value(pivots.type.shape[0]), exchanged, rows
    )
    return permutation


@PRIMITIVES.define("qr")
def _qr(eqn: Equation, x: Value) -> Sequence[Value]:
    """An orthonormal and an upper triangular factor."""
    eqn.require("pivoting", False)
    mode = "complete" if eqn.params["full_matrices"] else "reduced"
    factors: Sequence[Value] = LINALG.qr(x, mode)
    return factors


@PRIMITIVES.define("tridiagonal_solve")
def _tridiagonal_solve(eqn: Equation, *inputs: Value) -> Value:
    """The solution of a tridiagonal system."""
    eqn.require("perturb_singular", False)
    solution: Value = OPS["solve_tridiagonal"](*inputs)
    return solution


@PRIMITIVES.define("geqrf")
def _geqrf(_: Equation, x: Value) -> Sequence[Value]:
    """The upper triangular factor with the reflectors below it, and their factors."""
    rows, factors = LINALG.qr(x, "raw")
    return rows.mT, factors


@dataclass(frozen=True)
class Reflections:
    """The product Q of reflections 1 - t v v^H, in their order.

    The columns of `vectors` are the v, and `factors` holds the t. With D = diag(t) and
    S the strict upper triangle of V^H V, Q is 1 - V (1 + D S)^-1 D V^H.
    """

    vectors: Value
    factors: Value

    @classmethod
    def packed(cls, a: Value, factors: Value) -> "Reflections":
        """Unpack reflections whose vectors are stored below a matrix's diagonal."""
        m, k = a.shape[-2], factors.shape[-1]
        below = F.tril(a[..., :k], -1)
        return cls(below + F.eye(m, k, dtype=a.dtype), factors)

    def times(self, c: Value, inverse: bool = False) -> Value:
        """Q c or, if `inverse`, Q^-1 c, which is Q^H c."""
        v, t = self.vectors, F.expand_dims(self.factors, -1)
        adjoint = F.conjugate(v.mT)
        scaled = t * F.triu(F.matmul(adjoint, v), 1)
        parts = F.matmul(adjoint, c)
        solve = partial(LINALG.solve_triangular, scaled, unit_diagonal=True)
        if inverse:
            return c - F.matmul(v, F.conjugate(t) * solve(parts, trans=2))
        return c - F.matmul(v, solve(t * parts))


@PRIMITIVES.define("householder_product")
def _householder_product(_: Equation, a: Value, factors: Value) -> Value:
    """The first columns of a product of reflections, as many as `a` has."""
    m, n = a.shape[-2:]
    one = F.broadcast_to(F.eye(m, n, dtype=a.dtype), a.type.shape)
    return Reflections.packed(a, factors).times(one)


@PRIMITIVES.define("ormqr")
def _ormqr(eqn: Equation, a: Value, factors: Value, c: Value) -> Value:
    """A matrix times a product of reflections, or times its inverse."""
    inverse = eqn.params["transpose"]
    reflections = Reflections.packed(a, factors)
    if eqn.params["left"]:
        return reflections.times(c, inverse)
    turned = reflections.times(F.conjugate(c.mT), not inverse)  # (c Q)^H = Q^H c^H
    return F.conjugate(turned.mT)


@PRIMITIVES.define("symmetric_product")
def _symmetric_product(eqn: Equation, a: Value, c: Value) -> Value:
    """alpha a a^T + beta c."""
    alpha, beta = (number_constant(eqn.params[k], a.dtype) for k in ("alpha", "beta"))
    return alpha * F.matmul(a, a.mT) + beta * c


@PRIMITIVES.define("eig")
def _eig(eqn: Equation, x: Value) -> Sequence[Value]:
    """Eigenvalues, and right eigenvectors if they are wanted."""
    eqn.require("compute_left_eigenvectors", False)
    if eqn.params["compute_right_eigenvectors"]:
        w, v = LINALG.eig(x)
        return w, v
    return [LINALG.eigvals(x)]


@PRIMITIVES.define("schur")
def _schur(eqn: Equation, x: Value) -> Sequence[Value]:
    """The triangular factor, and the unitary one if it is wanted."""
    eqn.require("sort_eig_vals", False)
    eqn.require("select_callable")
    kind = "complex" if x.dtype.kind == "c" else "real"
    factors: Sequence[Value] = LINALG.schur(x, kind)
    return factors if eqn.params["compute_schur_vectors"] else factors[:1]


PRIMITIVES.refuse(
    "there is no op for it here",
    *("geqp3", "hessenberg", "tridiagonal", "cholesky_update"),
)
