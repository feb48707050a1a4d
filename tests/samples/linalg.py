"""Linear algebra; decompositions are compared by what does not depend on signs."""

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from tests import newest_numpy as newest
from tests.samples.spec import a, call, sample

# Integers are computed in float64, and float16 is refused: see the family's tests.
INEXACT = ["float32", "float64", "complex64"]
NUMBERS = ["int64", *INEXACT]
WIDE_TALL = ((3, 5), (2, 4, 2), (0, 3), (3, 0), (1, 1), (0, 2, 3), (2, 0, 0))
ANY = tuple(call(a(*shape)) for shape in WIDE_TALL)
SHAPES = ((3, 3), (2, 1, 2, 2), (0, 0), (1, 1), (0, 2, 2), (2, 0, 0))
SQUARES = tuple(call(a(*shape, values="square")) for shape in SHAPES)
DEFINITE = tuple(call(a(*shape, values="definite")) for shape in SHAPES)
NOT_SQUARE = (call(a(2, 3)), call(a(3)))
SIDES = tuple(
    call(a(*left, values="square"), a(*right))
    for left, right in (
        ((3, 3), (3,)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((0, 0), (0, 2)),
        ((1, 1), (1,)),
        ((3, 3), (3, 0)),
        ((0, 2, 2), (2, 1)),
        ((2, 0, 0), (0, 3)),
    )
)
PAIRS = (
    call(a(3, 3), a(3, 3, values="definite")),
    call(a(2, 1, 2, 2), a(4, 2, 2, values="definite"), UPLO="U"),
    call(a(0, 0), a(0, 0)),
    call(a(1, 1), a(1, 1, values="ones")),
)
NO_SIDES = (call(a(3, 3), a(2)), call(a(2, 3), a(2)), call(a(3), a(3)))
ROUNDED = {"ulps": 2**12}
VECTOR_ORDERS = (0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf)
MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


def decomposed(name, invariants, *calls, **options):
    """A sample of a decomposition, compared by invariants of its results."""

    def side(g):
        return lambda x, **how: invariants(g, getattr(g.linalg, name)(x, **how))

    named = {
        "ours": side(gt),
        "numpy": side(np),
        "dtypes": INEXACT,
        **ROUNDED,
        **options,
    }
    return sample(f"linalg.{name}", *calls, **named)


def adjoint(g, x):
    return g.conj(g.swapaxes(x, -1, -2))


def of_qr(g, found):
    q, r = found
    return [q @ r, g.abs(r)]


def of_svd(g, found):
    u, s, vh = found
    k = s.shape[-1]
    return [(u[..., :k] * s[..., None, :]) @ vh[..., :k, :], s, adjoint(g, u) @ u]


def of_eigh(g, found):
    values, vectors = found
    return [values, (vectors * values[..., None, :]) @ adjoint(g, vectors)]


def of_pairs(x, b, UPLO="L"):
    """SciPy's solution batch by batch, since SciPy does not broadcast batches."""
    batch = np.broadcast_shapes(x.shape[:-2], b.shape[:-2])
    x, b = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, b))
    w, v = np.zeros(x.shape[:-1], x.real.dtype), np.zeros_like(x)
    for i in np.ndindex(batch if x.size else (0,)):
        w[i], v[i] = scipy.linalg.eigh(x[i], b[i], lower=UPLO == "L")
    return w, v


def schur(x, output="real"):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or output == "quasi":
        raise ValueError
    kind = "c" if output == "complex" or x.dtype.kind == "c" else "f"
    to = np.result_type(x.dtype, "complex64") if kind == "c" else x.dtype
    t, z = np.zeros(x.shape, to), np.zeros(x.shape, to)
    for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
        t[i], z[i] = scipy.linalg.schur(x[i], output)
    return t, z


def of_schur(g, found):
    """The matrix, the unit matrix, and zeros below the blocks on the diagonal."""
    t, z = found
    return [z @ t @ adjoint(g, z), z @ adjoint(g, z), g.tril(t, -2)]


def sylvester(x, b, q):
    batch = np.broadcast_shapes(x.shape[:-2], b.shape[:-2], q.shape[:-2])
    x, b, q = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, b, q))
    out = np.zeros(q.shape, q.dtype)
    for i in np.ndindex(batch if q.size else (0,)):
        out[i] = scipy.linalg.solve_sylvester(x[i], b[i], q[i])
    return out


def of_eig(g, found):
    """Sums, as the order is arbitrary; eigenvectors are left out for their phases."""
    single = found[0].dtype in ("float32", "complex64")
    values = found[0].astype("complex64" if single else "complex128")
    return [g.sum(values, axis=-1), g.sum(values * values, axis=-1)]


def of_eigvals(g, found):
    return of_eig(g, (found,))


def scipys(name, *calls, numpy=None, **options):
    """A sample of a function of `scipy.linalg` that NumPy lacks."""
    reference = numpy or getattr(scipy.linalg, name)
    given = {"dtypes": INEXACT, **ROUNDED, **options}
    return sample(f"linalg.{name}", *calls, numpy=reference, **given)


def root(x):
    found = scipy.linalg.sqrtm(x) if x.size else x
    single = x.dtype in ("float32", "complex64")
    return found.astype("complex64" if single else "complex128")


def lu(x, **how):
    """SciPy's, except that it permutes the wrong number of rows of empty matrices."""
    if not x.size and not how:
        m, n = x.shape[-2:]
        rows, left = (np.eye(m, k, dtype=x.dtype) for k in (m, min(m, n)))
        parts = rows.real, left, np.zeros((min(m, n), n), x.dtype)
        return [np.broadcast_to(p, (*x.shape[:-2], *p.shape)) for p in parts]
    found = scipy.linalg.lu(x, **how)
    kinds = "int32" if how.get("p_indices") else found[0].real.dtype
    return found if how.get("permute_l") else (found[0].astype(kinds), *found[1:])


def lu_factor(x):
    """SciPy's, with empty batches, which SciPy refuses."""
    if not x.size:
        return x, np.zeros((*x.shape[:-2], min(x.shape[-2:])), "int32")
    packed, pivots = scipy.linalg.lu_factor(x)
    return packed, pivots.astype("int32")


def toeplitz(*given):
    """SciPy's, with empty batches, which SciPy refuses."""
    if given[0].shape[:-1] == (0,):
        return np.zeros((0, given[0].shape[-1], given[-1].shape[-1]), given[0].dtype)
    return scipy.linalg.toeplitz(*given)


def by_lu(x, b, trans=0):
    return gt.linalg.lu_solve(gt.linalg.lu_factor(x), b, trans)


def by_cholesky(x, b, lower=False):
    return gt.linalg.cho_solve(gt.linalg.cho_factor(x, lower), b)


def tridiagonal(lower, diagonal, upper, b):
    """The solution computed from whole matrices."""
    n = diagonal.shape[-1]
    one = np.eye(n, dtype=b.dtype)
    matrix = diagonal[..., None] * one
    if n > 1:
        below = lower[..., None] * np.eye(n, k=-1, dtype=b.dtype)
        matrix = matrix + below + upper[..., None] * np.eye(n, k=1, dtype=b.dtype)
    return np.linalg.solve(matrix, b)


def triangular(x, b, lower=False):
    return np.linalg.solve(np.tril(x) if lower else np.triu(x), b)


def plain_solve(x, b, **_):
    return np.linalg.solve(x, b)


def condition(x, p=None):
    dtype = np.result_type(x, "float32").type(0).real.dtype
    return newest.numpy.linalg.cond(x, p).astype(dtype)


def rank(x, **how):
    return np.asarray(newest.numpy.linalg.matrix_rank(x, **how))


def least(x, b):
    found, residuals, rank, s = np.linalg.lstsq(x, b)
    return found, residuals, np.int64(rank), s


def orders(orders, shape, **how):
    return tuple(call(a(*shape), ord=o, **how) for o in orders)


SAMPLES = [
    sample("linalg.cholesky", *DEFINITE, *NOT_SQUARE, dtypes=INEXACT, **ROUNDED),
    sample(
        "linalg.cholesky", call(a(3, 3, values="definite"), upper=True), dtypes=INEXACT
    ),
    decomposed("qr", of_qr, *ANY, call(a(3))),
    decomposed("qr", of_qr, call(a(4, 2), mode="complete"), call(a(2, 3), mode="x")),
    decomposed("qr", lambda g, r: g.abs(r), call(a(4, 2), mode="r")),
    decomposed("qr", lambda g, found: found, call(a(4, 2), mode="raw")),
    decomposed("svd", of_svd, *ANY, call(a(3))),
    decomposed("svd", of_svd, call(a(2, 3, 5), full_matrices=False)),
    decomposed("svd", lambda g, s: s, call(a(2, 3, 5), compute_uv=False)),
    decomposed("svd", of_svd, call(a(3, 3, values="definite"), hermitian=True)),
    sample("linalg.svdvals", *ANY, call(a(3)), dtypes=NUMBERS, **ROUNDED),
    decomposed("eigh", of_eigh, *DEFINITE, *NOT_SQUARE),
    decomposed("eigh", of_eigh, call(a(3, 3), UPLO="U"), call(a(3, 3), UPLO="X")),
    sample(
        "linalg.eigh",
        *PAIRS,
        ours=lambda x, b, UPLO="L": of_eigh(gt, gt.linalg.eigh(x, b, UPLO)),
        numpy=lambda x, b, UPLO="L": of_eigh(np, of_pairs(x, b, UPLO)),
        dtypes=INEXACT,
        **ROUNDED,
    ),
    sample(
        "linalg.eigvalsh",
        *PAIRS,
        numpy=lambda x, b, UPLO="L": of_pairs(x, b, UPLO)[0],
        dtypes=INEXACT,
        **ROUNDED,
    ),
    sample(
        "linalg.schur",
        *SQUARES,
        *(call(a(*s, values="square"), output="complex") for s in SHAPES),
        *NOT_SQUARE,
        call(a(3, 3), output="quasi"),
        ours=lambda x, output="real": of_schur(gt, gt.linalg.schur(x, output)),
        numpy=lambda x, output="real": of_schur(np, schur(x, output)),
        dtypes=INEXACT,
        **ROUNDED,
    ),
    scipys(
        "solve_sylvester",
        call(*(a(3, 3, values="square"),) * 2, a(3, 3)),
        call(a(2, 2, values="definite"), a(3, 3, values="definite"), a(2, 3)),
        call(a(2, 1, 2, 2, values="definite"), a(3, 3, values="definite"), a(4, 2, 3)),
        call(a(0, 0), a(2, 2), a(0, 2)),
        call(a(2, 2), a(2, 3), a(2, 2)),
        numpy=sylvester,
    ),
    sample("linalg.eigvalsh", *DEFINITE, call(a(3, 3), "U"), dtypes=NUMBERS, **ROUNDED),
    decomposed("eig", of_eig, *SQUARES, *NOT_SQUARE),
    decomposed("eigvals", of_eigvals, *SQUARES, *NOT_SQUARE),
    scipys(
        "lu",
        *ANY,
        *(call(a(4, 3), **{k: True}) for k in ("permute_l", "p_indices")),
        numpy=lu,
    ),
    scipys("lu_factor", *ANY, call(a(3, 3)), numpy=lu_factor),
    scipys("lu_solve", *SIDES, ours=by_lu, numpy=plain_solve),
    scipys(
        "cho_factor",
        *DEFINITE,
        call(a(3, 3, values="definite"), lower=True),
        ours=lambda x, lower=False: gt.linalg.cho_factor(x, lower)[0],
        numpy=lambda x, lower=False: np.linalg.cholesky(x, upper=not lower),
        dtypes=INEXACT,
    ),
    scipys(
        "cho_solve",
        call(a(3, 3, values="definite"), a(3, 2)),
        call(a(3, 3, values="definite"), a(3), lower=True),
        call(a(2, 3, 3, values="definite"), a(3)),
        call(a(1, 1, values="definite"), a(4, 1, 2)),
        call(a(0, 2, 2, values="definite"), a(2, 1)),
        call(a(0, 0), a(0, 2)),
        ours=by_cholesky,
        numpy=plain_solve,
        dtypes=INEXACT,
    ),
    sample("linalg.solve", *SIDES, *NO_SIDES, dtypes=NUMBERS, **ROUNDED),
    scipys(
        "solve_tridiagonal",
        *(
            call(a(*d), a(*d, values="positive"), a(*d), a(*right))
            for d, right in (
                ((4,), (4,)),
                ((3,), (3, 2)),
                ((2, 1, 3), (4, 3, 2)),
                ((1,), (1,)),
                ((0,), (0, 2)),
                ((0, 2), (2, 1)),
            )
        ),
        call(a(3), a(3), a(3), a(2)),
        numpy=tridiagonal,
    ),
    scipys("solve_triangular", *SIDES, *NO_SIDES[:2], numpy=triangular),
    scipys(
        "solve_triangular",
        call(a(3, 3, values="square"), a(3), lower=True),
        numpy=triangular,
    ),
    sample(
        "linalg.lstsq",
        call(a(5, 3), a(5)),
        call(a(3, 5), a(3, 2)),
        call(a(0, 2), a(0)),
        call(a(2, 0), a(2)),
        call(a(1, 1), a(1)),
        call(a(3, 3, values="square"), a(3, 0)),
        call(a(4, 2), a(4, 3)),
        *NO_SIDES[1:],
        numpy=least,
        dtypes=INEXACT,
        **ROUNDED,
    ),
    sample("linalg.inv", *SQUARES, *NOT_SQUARE, dtypes=INEXACT, **ROUNDED),
    sample(
        "linalg.pinv",
        *ANY,
        call(a(3, 5), 0.3),
        call(a(3, 5), rtol=None),
        dtypes=INEXACT,
        **ROUNDED,
    ),
    sample(
        "linalg.pinv",
        call(a(3, 3, values="definite"), hermitian=True),
        dtypes=INEXACT,
        **ROUNDED,
    ),
    sample("linalg.det", *SQUARES, *NOT_SQUARE, dtypes=NUMBERS, **ROUNDED),
    sample("linalg.slogdet", *SQUARES, *NOT_SQUARE, dtypes=NUMBERS, **ROUNDED),
    sample(
        "linalg.matrix_power",
        *(call(a(2, 3, 3, values="square"), n) for n in (0, 1, 2, 3, 6)),
        *(call(a(*shape), 2) for shape in SHAPES[2:]),
        dtypes=NUMBERS,
        ulps=2**8,
    ),
    sample(
        "linalg.matrix_power",
        call([a(1, 3), a(2, 3)], 2),
        ours=lambda parts, n: gt.linalg.matrix_power(gt.concatenate(parts), n),
        numpy=lambda parts, n: np.linalg.matrix_power(np.concatenate(parts), n),
        dtypes=NUMBERS,
        ulps=2**8,
    ),
    sample(
        "linalg.matrix_power",
        call(a(2, 3, 3, values="square"), -2),
        call(a(2, 3), 2),
        dtypes=NUMBERS,
        **ROUNDED,
    ),
    sample(
        "linalg.matrix_rank",
        *ANY,
        call(a(3, 5), tol=2.0),
        call(a(3, 5), rtol=0.5),
        call(a(3)),
        call(a()),
        numpy=rank,
        dtypes=INEXACT,
    ),
    sample(
        "linalg.matrix_rank",
        call(a(3, 3, values="ones")),
        call(a(3, 3, values="ones"), hermitian=True),
        numpy=rank,
        dtypes=INEXACT,
    ),
    sample(
        "linalg.norm",
        *ANY,
        call(a(4)),
        call(a(0)),
        call(a()),
        call(a(2, 3, 4)),
        call(a(2, 3), keepdims=True),
        dtypes=NUMBERS,
        ulps=64,
    ),
    sample(
        "linalg.norm",
        *orders(VECTOR_ORDERS, (2, 3), axis=-1),
        *orders(VECTOR_ORDERS, (0, 3), axis=-1),
        *orders(VECTOR_ORDERS, (2, 0), axis=-1),
        *orders((1, "fro"), (4,)),
        call(a(3), ord="nuc"),
        dtypes=NUMBERS,
        ulps=256,
    ),
    sample(
        "linalg.norm",
        *orders(MATRIX_ORDERS, (2, 3, 4), axis=(2, 0)),
        *orders((3, "x"), (2, 3)),
        dtypes=NUMBERS,
        **ROUNDED,
    ),
    sample(
        "linalg.vector_norm",
        *orders((0, 2, 3), (2, 3)),
        *orders(VECTOR_ORDERS, (0, 3)),
        *orders(VECTOR_ORDERS, ()),
        *orders((1, np.inf), (2, 3, 4), axis=(0, 2), keepdims=True),
        dtypes=NUMBERS,
        ulps=256,
    ),
    sample(
        "linalg.matrix_norm",
        *orders(MATRIX_ORDERS, (2, 3, 4)),
        *orders(MATRIX_ORDERS, (0, 2, 3)),
        *orders(MATRIX_ORDERS, (0, 3)),
        *orders(MATRIX_ORDERS, (3, 0)),
        call(a(2, 3), keepdims=True),
        call(a(3)),
        dtypes=NUMBERS,
        **ROUNDED,
    ),
    sample(
        "linalg.cond",
        *SQUARES[:2],
        *SQUARES[3:],
        call(a(0, 2)),
        *(call(a(3, 3, values="square"), p) for p in MATRIX_ORDERS),
        dtypes=INEXACT,
        numpy=condition,
        **ROUNDED,
    ),
    scipys("expm", *SQUARES),
    scipys("sqrtm", *DEFINITE, numpy=root, dtypes=INEXACT),
    scipys(
        "block_diag",
        call(a(2, 3), a(1, 2)),
        call(a(3)),
        call(a(), a(2, 2), a(0, 2)),
        call(a(), a(2, 2), a(3, 1)),
        call(a(2, 0), a(1, 1)),
        call(),
        dtypes=NUMBERS,
    ),
    scipys(
        "toeplitz",
        call(a(3)),
        call(a(3), a(4)),
        call(a(1), a(3)),
        call(a(0)),
        call(a()),
        call(a(0), a(3)),
        call(a(3), a(0)),
        call(a(2, 3), a(2, 4)),
        call(a(0, 3), a(0, 2)),
        numpy=toeplitz,
        dtypes=NUMBERS,
    ),
    sample("linalg.matrix_transpose", *ANY, call(a(3))),
    sample("linalg.diagonal", *ANY, call(a(3, 5), offset=-1), call(a(3))),
    sample(
        "linalg.tensorinv",
        call(a(2, 3, 3, 2)),
        call(a(4, 2, 2), 1),
        call(a(3, 3), 0),
        call(a(0, 2, 0)),
        call(a(1, 1), 1),
        dtypes=INEXACT,
        ulps=2**16,
    ),
    sample(
        "linalg.tensorsolve",
        call(a(2, 3, 6), a(2, 3)),
        call(a(2, 6, 3), a(2, 3), axes=(1,)),
        call(a(0, 3, 0), a(0, 3)),
        call(a(1, 1), a(1)),
        dtypes=INEXACT,
        ulps=2**16,
    ),
]
