"""Linear algebra: both backends against NumPy and SciPy.

Decompositions are compared by quantities that do not depend on signs and phases.
"""

import warnings

import numpy as np
import pytest
import scipy.linalg as sl

import graphc
import graphc.tensor as gt
from tests import newest_numpy as newest
from tests.ops.comparing import BACKENDS, agree
from tests.ops.refusing import refused

DTYPES = ("float32", "complex128")  # samples cover the other dtypes
ROUNDING = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-3, "complex64": 2e-3}
L, N = gt.linalg, newest.numpy.linalg
# XLA takes longest for these; the samples already compile float32 for JAX.
COMPILED = {"float32": ("numpy",), "complex128": BACKENDS}
TALL, WIDE, SQUARE = (2, 3, 4, 2), (3, 5), (4, 4)


def array(*shape, dtype="float64", seed=0):
    rng = np.random.default_rng([seed, *shape])
    parts = rng.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1] if dtype[0] == "c" else parts[0]).astype(dtype)


def regular(*shape, dtype="float64"):
    """Random matrices that are far from singular."""
    x = array(*shape, dtype=dtype) / 2
    return (x + 3 * np.eye(shape[-1])).astype(dtype)


def definite(*shape, dtype="float64"):
    """Hermitian matrices with positive eigenvalues."""
    x = array(*shape, dtype=dtype)
    product = x @ adjoint(np, x) + np.eye(shape[-1])
    return product.astype(dtype)


def adjoint(g, x):
    return g.conj(g.swapaxes(x, -1, -2))


def same(function):
    """The same expression for graphc and for NumPy."""
    return (lambda *x: function(gt, *x)), (lambda *x: function(newest.numpy, *x))


def close(cases, *arrays, symbolic=True, static=True, backends=BACKENDS):
    """Check as `agree` does, with the rounding of decompositions."""
    kinds = (False,) * static + (True,) * symbolic
    agree(cases, *arrays, rounding=ROUNDING, symbolic=kinds, backends=backends)


def scaled(g, columns, values):
    return columns * values[..., None, :]


# Decompositions


def by_qr(g, x, mode):
    q, r = g.linalg.qr(x, mode=mode)
    return [q @ r, adjoint(g, q) @ q, g.abs(r), g.tril(r, -1)]


def by_svd(g, x, full, hermitian=False):
    u, s, vh = g.linalg.svd(x, full_matrices=full, hermitian=hermitian)
    k = s.shape[-1]
    made = scaled(g, u[..., :k], s) @ vh[..., :k, :]
    values = g.linalg.svd(x, compute_uv=False, hermitian=hermitian)
    return [made, s, adjoint(g, u) @ u, vh @ adjoint(g, vh), values]


def by_eigh(g, x, part):
    w, v = g.linalg.eigh(x, UPLO=part)
    values = g.linalg.eigvalsh(x, UPLO=part)
    return [w, scaled(g, v, w) @ adjoint(g, v), adjoint(g, v) @ v, values]


def by_eig(g, x):
    """Residuals, and sums over the eigenvalues, whose order is arbitrary."""
    to = "complex64" if x.dtype in ("float32", "complex64") else "complex128"
    w, v = (part.astype(to) for part in g.linalg.eig(x))
    values = g.linalg.eigvals(x).astype(to)
    sums = [g.sum(w, axis=-1), g.sum(values * values, axis=-1)]
    return [1 + g.abs(x.astype(to) @ v - scaled(g, v, w)), *sums]


DECOMPOSED = {
    "qr": same(lambda g, x: by_qr(g, x, "reduced")),
    "qr complete": same(lambda g, x: by_qr(g, x, "complete")),
    "qr r": same(lambda g, x: g.abs(g.linalg.qr(x, mode="r"))),
    "qr raw": same(lambda g, x: g.linalg.qr(x, mode="raw")),
    "svd": same(lambda g, x: by_svd(g, x, True)),
    "svd reduced": same(lambda g, x: by_svd(g, x, False)),
    "svdvals": same(lambda g, x: g.linalg.svdvals(x)),
    "pinv": same(lambda g, x: [g.linalg.pinv(x), g.linalg.pinv(x, 0.3)]),
    "pinv rtol": same(lambda g, x: g.linalg.pinv(x, rtol=None)),
    "matrix_rank": same(lambda g, x: g.asarray(g.linalg.matrix_rank(x))),
    "matrix_rank tol": same(lambda g, x: g.asarray(g.linalg.matrix_rank(x, 1.0))),
    "matrix_rank rtol": same(lambda g, x: g.asarray(g.linalg.matrix_rank(x, rtol=0.4))),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_matrices_are_decomposed(dtype):
    for shape in (TALL, WIDE):
        close(DECOMPOSED, array(*shape, dtype=dtype), backends=COMPILED[dtype])


@pytest.mark.parametrize(
    "shape", [(1, 1), (0, 3), (3, 0), (0, 0), (0, 2, 2), (2, 0, 0)]
)
def test_matrices_of_one_and_of_nothing_are_decomposed(shape):
    close(DECOMPOSED, array(*shape), static=False)


def lu(g, x):
    return [
        *g.linalg.lu(x),
        *g.linalg.lu(x, permute_l=True),
        *g.linalg.lu(x, p_indices=True),
        *g.linalg.lu_factor(x),
    ]


def scipy_lu(x):
    real = x.real.dtype
    p, lower, upper = sl.lu(x)
    indices, *_ = sl.lu(x, p_indices=True)
    packed, pivots = sl.lu_factor(x)
    rows = indices.astype("int32"), lower, upper
    factors = packed, pivots.astype("int32")
    return [p.astype(real), lower, upper, *sl.lu(x, permute_l=True), *rows, *factors]


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_is_that_of_scipy(dtype):
    for shape in (TALL, WIDE, SQUARE, (1, 1)):
        cases = {"lu": (lambda x: lu(gt, x), scipy_lu)}
        close(cases, array(*shape, dtype=dtype), backends=COMPILED[dtype])


HERMITIAN = {
    "cholesky": same(lambda g, x: g.linalg.cholesky(x)),
    "cholesky upper": same(lambda g, x: g.linalg.cholesky(x, upper=True)),
    "cholesky of half": same(lambda g, x: g.linalg.cholesky(g.tril(x))),
    "cholesky of upper half": same(
        lambda g, x: g.linalg.cholesky(g.triu(x), upper=True)
    ),
    "eigh": same(lambda g, x: by_eigh(g, x, "L")),
    "eigh of half": same(lambda g, x: by_eigh(g, g.tril(x), "L")),
    "eigh of upper half": same(lambda g, x: by_eigh(g, g.triu(x), "U")),
    "svd": same(lambda g, x: by_svd(g, x, True, hermitian=True)),
    "pinv": same(lambda g, x: g.linalg.pinv(x, hermitian=True)),
    "rank": same(lambda g, x: g.asarray(g.linalg.matrix_rank(x, hermitian=True))),
}
ORDERS = (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")
POWERS = (0, 1, 2, 3, 5, 10, -1, -2)
OF_SQUARES = {
    "eig": same(by_eig),
    "det": same(lambda g, x: [g.linalg.det(x), *g.linalg.slogdet(x)]),
    "inv": same(lambda g, x: g.linalg.inv(x)),
    "power": same(lambda g, x: [g.linalg.matrix_power(x / 4, n) for n in POWERS]),
    "expm": (lambda x: L.expm(x), lambda x: sl.expm(x)),
    "sqrtm": (lambda x: L.sqrtm(x), lambda x: roots(x)),
}
CONDITION = {
    "cond": (
        lambda x: [L.cond(x, p) for p in ORDERS],
        lambda x: [N.cond(x, p).astype(x.real.dtype) for p in ORDERS],
    ),
}


def roots(x):
    single = x.dtype in ("float32", "complex64")
    made = sl.sqrtm(x) if x.size else x
    return made.astype("complex64" if single else "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_square_matrices(dtype):
    on = COMPILED[dtype]
    close(HERMITIAN, definite(2, 1, 3, 3, dtype=dtype), backends=on)
    close(OF_SQUARES | CONDITION, regular(2, 1, 3, 3, dtype=dtype), backends=on)


@pytest.mark.parametrize("shape", [(1, 1), (0, 0), (0, 2, 2), (2, 0, 0)])
def test_functions_of_square_matrices_of_one_and_of_nothing(shape):
    close(HERMITIAN, definite(*shape), static=False)
    close(OF_SQUARES, regular(*shape), static=False)


def test_negative_eigenvalues_have_positive_singular_values():
    x = definite(3, 3) - 4 * np.eye(3)
    assert (N.eigvalsh(x) < 0).any()
    close({"svd": HERMITIAN["svd"], "pinv": HERMITIAN["pinv"]}, x)


# Equations


def transposed(x, trans):
    return [x, np.swapaxes(x, -1, -2), np.swapaxes(x, -1, -2).conj()][trans]


def triangle(x, lower, unit):
    part = np.tril(x) if lower else np.triu(x)
    ones = np.eye(x.shape[-1], dtype=x.dtype)
    return np.where(ones.astype(bool), ones, part) if unit else part


def triangular_cases():
    for lower in (False, True):
        for trans in (0, 1, 2):
            for unit in (False, True):
                how = {"trans": trans, "lower": lower, "unit_diagonal": unit}
                yield str(how), how


SOLVED = {
    "solve": same(lambda g, a, b, v: [g.linalg.solve(a, b), g.linalg.solve(a, v)]),
    "lu_solve": (
        lambda a, b, v: [
            L.lu_solve(L.lu_factor(a), y, t) for t in (0, "T", 2) for y in (b, v)
        ],
        lambda a, b, v: [
            N.solve(transposed(a, t), y) for t in (0, 1, 2) for y in (b, v)
        ],
    ),
    "cho_solve": (
        lambda a, b, v: [
            L.cho_solve(L.cho_factor(a @ adjoint(gt, a), lower=low), y)
            for low in (False, True)
            for y in (b, v)
        ],
        lambda a, b, v: [N.solve(a @ adjoint(np, a), y) for y in (b, v, b, v)],
    ),
}
for _name, _how in triangular_cases():
    SOLVED[_name] = (
        lambda a, b, v, how=_how: [L.solve_triangular(a, y, **how) for y in (b, v)],
        lambda a, b, v, how=_how: [
            N.solve(
                transposed(
                    triangle(a, how["lower"], how["unit_diagonal"]), how["trans"]
                ),
                y,
            )
            for y in (b, v)
        ],
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_equations_are_solved(dtype):
    n = 3
    for batch in ((), (2, 3)):
        a, b = regular(*batch, n, n, dtype=dtype), array(*batch, n, 2, dtype=dtype)
        close(SOLVED, a, b, array(n, dtype=dtype), backends=COMPILED[dtype])


@pytest.mark.parametrize("n", [0, 1])
def test_equations_without_unknowns_and_with_one(n):
    for batch in ((), (0,), (2,)):
        a, b = regular(*batch, n, n), array(*batch, n, 2)
        on = BACKENDS if batch == (2,) else ("numpy",)
        close(SOLVED, a, b, array(n), static=False, backends=on)


LEAST_SQUARES = {
    "lstsq": (lambda a, b: L.lstsq(a, b), lambda a, b: least_squares(a, b, None))
}


def by_columns(x):
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)


def strided(x):
    wide = np.full((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), np.nan, x.dtype)
    wide[..., ::2, ::-3] = x
    return wide[..., ::2, ::-3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [by_columns, strided])
def test_arrays_in_any_layout_are_read_and_left_as_they_are(layout, dtype):
    a, b = layout(regular(2, 3, 3, dtype=dtype)), layout(array(2, 3, 2, dtype=dtype))
    p, wide = layout(definite(2, 3, 3, dtype=dtype)), layout(array(4, 2, dtype=dtype))
    given = (a, b, p, wide)
    assert not any(x.flags.c_contiguous for x in given)
    before = [x.copy() for x in given]
    where = {"static": False, "backends": ("numpy",)}
    close(SOLVED, a, b, b[0, ::-1, 0], **where)
    close(OF_SQUARES, a, **where)
    close(HERMITIAN, p, **where)
    close(DECOMPOSED | {"lu": (lambda x: lu(gt, x), scipy_lu)}, wide, **where)
    close(LEAST_SQUARES, wide, np.asfortranarray(array(4, 3, dtype=dtype)), **where)
    for x, was in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, was)


def test_batches_broadcast():
    cases = {
        "solve": same(lambda g, a, b: g.linalg.solve(a, b)),
        "triangular": (L.solve_triangular, lambda a, b: N.solve(np.triu(a), b)),
        "lu": (lambda a, b: L.lu_solve(L.lu_factor(a), b), N.solve),
        "cholesky": (
            lambda a, b: L.cho_solve((a, True), b),
            lambda a, b: N.solve(np.tril(a) @ np.swapaxes(np.tril(a), -1, -2), b),
        ),
    }
    close(cases, regular(4, 1, 3, 3), array(5, 3, 2))


def test_tensor_equations():
    def text(g, a, b, c, d):
        solved = [g.linalg.tensorsolve(c, b), g.linalg.tensorsolve(d, b, axes=(1,))]
        return [g.linalg.tensorinv(a), *solved]

    shapes = (2, 3, 3, 2), (2, 3), (2, 3, 6), (2, 6, 3)
    close({"tensors": same(text)}, *(array(*s) for s in shapes))
    cases = {"one axis": same(lambda g, a: g.linalg.tensorinv(a, ind=1))}
    close(cases, array(6, 2, 3))


def least_squares(a, b, rcond):
    x, residuals, rank, s = N.lstsq(a, b, rcond=rcond)
    return [x, residuals, np.int64(rank), s]


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(dtype):
    both = {
        f"{name} {rcond}": (
            lambda a, b, v, rcond=rcond, i=i: L.lstsq(a, (b, v)[i], rcond),
            lambda a, b, v, rcond=rcond, i=i: least_squares(a, (b, v)[i], rcond),
        )
        for rcond in (None, 0.3)
        for i, name in enumerate(("matrix", "vector"))
    }
    for m, n in ((5, 3), (3, 5), (3, 3)):
        arrays = [array(*s, dtype=dtype) for s in ((m, n), (m, 2), (m,))]
        close(both, *arrays, backends=COMPILED[dtype])


@pytest.mark.parametrize("sizes", [(1, 1), (0, 2), (2, 0), (0, 0)])
def test_least_squares_of_one_and_of_nothing(sizes):
    m, n = sizes
    cases = {
        "matrix": (
            lambda a, b: L.lstsq(a, b),
            lambda a, b: least_squares(a, b, None),
        ),
        "no columns": (
            lambda a, b: L.lstsq(a, b[:, :0]),
            lambda a, b: least_squares(a, b[:, :0], None),
        ),
    }
    close(cases, array(m, n), array(m, 2))


def test_dependent_columns_have_no_residuals():
    a = array(5, 3)
    a[:, 2] = a[:, 0] - a[:, 1]
    cases = {
        "lstsq": (
            lambda a, b, r: L.lstsq(a, b, r),
            lambda a, b, r: least_squares(a, b, float(r)),
        )
    }
    close(cases, a, array(5, 2), np.float64(1e-6))
    f = graphc.function([x := gt.matrix("x"), y := gt.vector("y")], L.lstsq(x, y)[0])
    assert not f.plan.glue  # nothing is read if the residuals are unused


# Dtypes


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_integers_are_computed_in_float64(dtype):
    x = (np.eye(3) * 3 + np.tri(3)).astype(dtype)
    cases = {
        name: same(lambda g, x, name=name: getattr(g.linalg, name)(x))
        for name in ("inv", "det", "slogdet", "pinv", "svdvals", "eigvalsh", "cond")
    }
    cases["solve"] = same(lambda g, x: g.linalg.solve(x, x[0]))
    cases["cube"] = same(lambda g, x: g.linalg.matrix_power(x, 3))
    cases["none"] = same(lambda g, x: g.linalg.matrix_power(x, 0))
    cases["inverse"] = same(lambda g, x: g.linalg.matrix_power(x, -2))
    cases["norm"] = same(lambda g, x: [g.linalg.norm(x), g.linalg.norm(x, 1)])
    cases["diagonal"] = same(lambda g, x: g.linalg.diagonal(x))
    cases["transpose"] = same(lambda g, x: g.linalg.matrix_transpose(x))
    close(cases, x)


def test_dtypes_promote_as_in_numpy():
    cases = {
        "solve": same(lambda g, f, i, c: [g.linalg.solve(f, i), g.linalg.solve(f, c)]),
        "inner": same(lambda g, f, i, c: g.linalg.solve(f, f[0])),
    }
    i = np.arange(6, dtype="int8").reshape(3, 2)
    close(cases, regular(3, 3, dtype="float32"), i, array(3, 2, dtype="complex64"))


# Systems without a result


NAN = np.nan
BAD = np.array(
    [
        [[2.0, 1], [1, 2]],
        [[1, 2], [2, 4]],
        [[0, 0], [0, 0]],
        [[1, 2], [2, 1]],
        [[NAN, 0], [0, 1]],
        [[1, 1], [NAN, 1]],
    ]
)
SOLVERS = {
    "cholesky": lambda x, v: L.cholesky(x),
    "upper cholesky": lambda x, v: L.cholesky(x, upper=True),
    "inv": lambda x, v: L.inv(x),
    "solve": L.solve,
    "solve_triangular": L.solve_triangular,
    "lu_solve": lambda x, v: L.lu_solve(L.lu_factor(x), v),
    "cho_solve": lambda x, v: L.cho_solve(L.cho_factor(x), v),
    "eigvalsh": lambda x, v: L.eigvalsh(x[:4]),
    "eigvals": lambda x, v: L.eigvals(x),
    "svdvals": lambda x, v: L.svdvals(x),
    "svd": lambda x, v: L.svd(x, full_matrices=False).S,
    "pinv": lambda x, v: L.pinv(x),
    "cond": lambda x, v: L.cond(x, 1),
    "det": lambda x, v: L.det(x),
    "logabsdet": lambda x, v: L.slogdet(x).logabsdet,
    "lstsq": lambda x, v: L.lstsq(x[5], v).x,
}


def inputs():
    return gt.tensor("x", "float64", ("b", 2, 2)), gt.tensor("v", "float64", (2,))


@pytest.fixture(scope="module")
def without_results():
    """The results of both backends for singular matrices and the like."""
    x, v = inputs()
    outputs = {name: solver(x, v) for name, solver in SOLVERS.items()}
    functions = [graphc.function([x, v], outputs, backend=b) for b in BACKENDS]
    return [f(BAD, np.array([1.0, 2])) for f in functions]


@pytest.mark.parametrize("name", SOLVERS)
def test_matrices_without_a_result_give_nan_or_infinity_alike(name, without_results):
    ours, theirs = (np.asarray(results[name]) for results in without_results)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_only_the_matrix_without_a_result_is_lost(without_results):
    found = without_results[BACKENDS.index("numpy")]
    np.testing.assert_array_equal(found["cholesky"][0], N.cholesky(BAD[0]))
    assert np.isnan(np.tril(found["cholesky"][1]) + np.triu(np.ones((2, 2)), 1))[
        np.tril_indices(2)
    ].all()
    assert found["cholesky"][1][0, 1] == 0
    np.testing.assert_array_equal(found["inv"][0], N.inv(BAD[0]))
    for name in ("inv", "solve"):
        assert not np.isfinite(found[name][1:3]).any(axis=(0, 1)).all()
    np.testing.assert_array_equal(found["solve"][3], N.solve(BAD[3], [1.0, 2]))
    assert found["cond"][1] == np.inf and np.isnan(found["cond"][4])


RAISING = {
    "cholesky": (SOLVERS["cholesky"], "not positive definite", (1, 2, 3)),
    "inv": (SOLVERS["inv"], "singular", (1, 2)),
    "solve": (SOLVERS["solve"], "singular", (1, 2)),
    "solve_triangular": (SOLVERS["solve_triangular"], "singular", (2,)),
    "eigh": (lambda x, v: L.eigh(x)[1], "does not converge", (4, 5)),
    "eig": (lambda x, v: L.eig(x)[0], "does not converge", (4, 5)),
    "svd": (lambda x, v: L.svd(x)[0], "does not converge", (4, 5)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RAISING)
def test_a_checked_function_raises_instead(name, backend):
    solver, message, bad = RAISING[name]
    x, v = inputs()
    f = graphc.function([x, v], [solver(x, v), v], backend=backend, check=True)
    for i in range(len(BAD)):
        if i not in bad:
            f(BAD[i : i + 1], np.ones(2))
            continue
        with refused(f"{name}: .*{message}", graphc.CallError):
            f(BAD[i : i + 1], np.ones(2))


# Norms


VECTOR_ORDERS = (None, 0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf)
MATRIX_ORDERS = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


def norm_cases(shape):
    """Every order with every axis that NumPy takes for this shape.

    Axes are kept and dropped by turns.
    """
    axes = [None, 0, -1, (0,), (0, 1), (-1, 0), (-1, -2)]
    for i, o in enumerate((*VECTOR_ORDERS, "fro", "nuc")):
        for j, axis in enumerate(axes):
            how = {"ord": o, "axis": axis, "keepdims": (i + j) % 2 == 1}
            yield f"norm {how}", "norm", how
            if o is not None:
                yield f"vector {how}", "vector_norm", how
    for o in MATRIX_ORDERS[1:]:
        yield f"matrix {o}", "matrix_norm", {"ord": o, "keepdims": o == 1}


DTYPES_OF_NORMS = {  # each with vectors, matrices, none and one element
    (4,): ("float64", "complex64"),
    (3, 4): ("float64", "complex64", "int16"),
    (2, 3, 4): ("complex64", "int16"),
    (0,): ("float64", "int16"),
    (0, 3): ("float64", "complex64"),
    (1, 1): ("int16",),
    (): ("float64", "complex64"),
}


@pytest.mark.parametrize("shape", DTYPES_OF_NORMS)
def test_norms_are_those_of_numpy(shape):
    for dtype in DTYPES_OF_NORMS[shape]:
        x = array(*shape, dtype=dtype) if dtype != "int16" else np.ones(shape, dtype)
        cases = {}
        for name, function, how in norm_cases(shape):
            pair = same(
                lambda g, x, f=function, how=how: getattr(g.linalg, f)(x, **how)
            )
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    pair[1](x)
                except (ValueError, np.exceptions.AxisError, IndexError):
                    with pytest.raises(graphc.GraphError):
                        pair[0](gt.asarray(x))
                    continue
            cases[name] = pair
        both = dtype == "float64" and shape in ((3, 4), (0, 3))
        backends = BACKENDS if both else ("numpy",)
        close(cases, x, backends=backends)


def test_norms_of_half_precision_and_of_vectors_in_jax():
    cases = {
        str(o): same(lambda g, x, o=o: g.linalg.norm(x, ord=o, axis=-1))
        for o in VECTOR_ORDERS
    }
    for dtype in ("float16", "complex64"):
        x = np.arange(1, 7).reshape(2, 3).astype(dtype)
        agree(cases, x, rounding=ROUNDING | {"float16": 1e-2})


# Special matrices


def test_block_diagonals():
    cases = {
        "two": (
            lambda a, b, v: L.block_diag(a, b),
            lambda a, b, v: sl.block_diag(a, b),
        ),
        "one": (lambda a, b, v: L.block_diag(a), lambda a, b, v: sl.block_diag(a)),
        "rows": (
            lambda a, b, v: L.block_diag(a, v, v[0], b[:0]),
            lambda a, b, v: sl.block_diag(a, v, v[0], b[:0]),
        ),
        "none": (lambda a, b, v: L.block_diag(), lambda a, b, v: np.zeros((1, 0))),
    }
    close(cases, array(2, 3), array(4, 1), array(3, dtype="float32"))


def test_batches_of_block_diagonals():
    a, b = array(5, 1, 2, 3), array(4, 1, 2)
    expected = np.zeros((5, 4, 3, 5))
    expected[..., :2, :3], expected[..., 2:, 3:] = a, b
    close({"blocks": (L.block_diag, lambda a, b: expected)}, a, b)


def test_toeplitz_matrices():
    cases = {
        "column": (lambda c, r, z: L.toeplitz(c), lambda c, r, z: sl.toeplitz(c)),
        "both": (lambda c, r, z: L.toeplitz(c, r), lambda c, r, z: sl.toeplitz(c, r)),
        "complex": (lambda c, r, z: L.toeplitz(z), lambda c, r, z: sl.toeplitz(z)),
        "mixed": (lambda c, r, z: L.toeplitz(c, z), lambda c, r, z: sl.toeplitz(c, z)),
        "scalar": (lambda c, r, z: L.toeplitz(c[0]), lambda c, r, z: sl.toeplitz(c[0])),
        "row": (
            lambda c, r, z: [L.toeplitz(c[:1], r), L.toeplitz(c, r[:1])],
            lambda c, r, z: [sl.toeplitz(c[:1], r), sl.toeplitz(c, r[:1])],
        ),
    }
    close(cases, array(4), array(3), array(3, dtype="complex64"))


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0), (0, 3)])
def test_toeplitz_matrices_of_nothing(sizes):
    shape = np.zeros(sizes)
    cases = {"empty": (L.toeplitz, lambda c, r: shape)}
    close(cases, array(sizes[0]), array(sizes[1]))


def test_batches_of_toeplitz_matrices():
    c, r = array(5, 1, 3), array(2, 4)
    expected = [[sl.toeplitz(x[0], y) for y in r] for x in c]
    close({"batch": (L.toeplitz, lambda c, r: np.array(expected))}, c, r)


def test_results_have_names():
    x = gt.tensor("x", "float32", (3, 3))
    assert L.svd(x)._fields == ("U", "S", "Vh")
    assert L.qr(x).R.type.shape == (3, 3)
    assert L.eigh(x).eigenvalues.type.shape == (3,)
    assert L.eig(x).eigenvectors.dtype == "complex64"
    assert L.slogdet(x).sign.type.rank == 0
    assert L.lstsq(x, x).rank.dtype == "int64"


def test_sizes_of_factors_are_worked_out():
    x = gt.tensor("x", "float32", ("m", "n"))
    assert str(L.qr(x).Q.type) == "float32[m, min(m, n)]"
    assert str(L.svd(x, full_matrices=False).Vh.type) == "float32[min(m, n), n]"
    assert str(L.lu(x)[0].type) == "float32[m, m]"
    assert str(L.block_diag(x, x).type) == "float32[2*m, 2*n]"


M = gt.tensor("m", "float32", (3, 3))
V = gt.tensor("v", "float32", (4,))
T = gt.tensor("t", "float32", (2, 3, 4))
H = gt.tensor("h", "float16", (3, 3))
S = gt.tensor("s", "float32", ())
K = gt.iscalar("k")
NOT_SQUARE = "needs square matrices: 3 and 4 differ"
WRONG = {
    f"cholesky: {NOT_SQUARE}": lambda: L.cholesky(T),
    f"det: {NOT_SQUARE}": lambda: L.det(T),
    f"inv: {NOT_SQUARE}": lambda: L.inv(T),
    f"eigh: {NOT_SQUARE}": lambda: L.eigh(T),
    f"expm: {NOT_SQUARE}": lambda: L.expm(T),
    f"sqrtm: {NOT_SQUARE}": lambda: L.sqrtm(T),
    f"linalg.matrix_power: {NOT_SQUARE}": lambda: L.matrix_power(T, 2),
    f"solve: {NOT_SQUARE}": lambda: L.solve(T, V),
    "linalg.svd: needs a matrix": lambda: L.svd(V),
    "linalg.eig: needs a matrix": lambda: L.eig(V),
    "linalg.matrix_power: needs a matrix": lambda: L.matrix_power(V, 2),
    "linalg.matrix_transpose: needs a matrix": lambda: L.matrix_transpose(V),
    "linalg.diagonal: needs a matrix": lambda: L.diagonal(V),
    "linalg.trace: needs at least 2 axes": lambda: L.trace(V),
    "linalg.cholesky: has no float16 form": lambda: L.cholesky(H),
    "hint: convert first": lambda: L.qr(H),
    "solve: one right-hand side per row: 3 and 4": lambda: L.solve(M, V),
    "linalg.solve: needs at least a vector": lambda: L.solve(M, S),
    "solve_triangular: one right-hand side": lambda: L.solve_triangular(M, V),
    "unknown trans 5": lambda: L.solve_triangular(M, M, trans=5),
    "unknown trans True": lambda: L.solve_triangular(M, M, trans=True),
    "lu_solve: one right-hand side per row": lambda: L.lu_solve(L.lu_factor(M), V),
    "linalg.lu_solve: unknown trans 7": lambda: L.lu_solve(L.lu_factor(M), M, trans=7),
    "row exchanges must be integers": lambda: L.lu_solve((M, M[0]), M),
    "needs the pair that lu_factor": lambda: L.lu_solve(M, M),
    "needs the pair that cho_factor": lambda: L.cho_solve(M, M),
    "unknown mode 'full'": lambda: L.qr(M, mode="full"),
    "UPLO must be 'L' or 'U'": lambda: L.eigh(M, UPLO="X"),
    "must be an integer known when the graph is built": lambda: L.matrix_power(M, K),
    "got: 1.5": lambda: L.matrix_power(M, 1.5),
    "linalg.norm: wrong axes": lambda: L.norm(T, axis=(0, 1, 2)),
    "ord='fro'": lambda: L.norm(T, ord="fro"),
    "vectors have no norm of order 'nuc'": lambda: L.norm(V, ord="nuc"),
    "matrices have no norm of order 3": lambda: L.norm(M, ord=3),
    "the order of a norm must be known": lambda: L.norm(M, ord=K),
    "linalg.norm: axis 5 is out of range": lambda: L.norm(M, axis=5),
    "matrices have no norm of order 'huge'": lambda: L.cond(M, p="huge"),
    "the condition of an empty matrix": lambda: L.cond(gt.zeros((0, 0))),
    "give rcond or rtol, not both": lambda: L.pinv(M, rcond=1e-3, rtol=None),
    "give tol or rtol, not both": lambda: L.matrix_rank(M, tol=1, rtol=1),
    "linalg.lstsq: needs one matrix": lambda: L.lstsq(T, V),
    "lstsq: one right-hand side per row": lambda: L.lstsq(M, V),
    "needs a vector or a matrix on the right": lambda: L.lstsq(M[:2], T),
    "rcond must be a scalar": lambda: L.lstsq(M, M, rcond=V),
    "linalg.tensorinv: no such number of axes": lambda: L.tensorinv(M, ind=0),
    "block_diag: shapes do not broadcast": lambda: L.block_diag(T, gt.zeros((3, 1, 1))),
    "linalg.vector_norm: an axis is named twice": lambda: L.vector_norm(M, axis=(0, 0)),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with refused(message):
        WRONG[message]()


def test_symbolic_matrices_that_are_not_square_are_refused_at_the_call():
    x = gt.tensor("x", "float64", ("m", "n"))
    powers = [L.matrix_power(x, n) for n in (0, 2)]
    for value in (L.det(x), L.cholesky(x), *powers, L.expm(x)):
        f = graphc.function([x], value, backend="numpy")
        with refused("needs square matrices: needs m == n", graphc.CallError):
            f(np.ones((2, 3)))
