"""Linear algebra: the matrix formulas of the gradients.

They are those of the literature, for the inner product Re tr(G^H dX): M. Giles (2008),
An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation; other sources are named at each function. Cotangents here
are not conjugated (see `autodiff`), so the formulas conjugate them on the way in and on
the way out.

As in JAX, a derivative of eigenvectors or singular vectors is not finite where two
eigenvalues or singular values are equal; that of the values alone is.
"""

from typing import Any

from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ops.common.conjugates import conjugate


def adjoint(x: Value) -> Value:
    """The conjugate transposed matrices."""
    return conjugate(x.mT)


def unit(x: Value, axis: int = -1) -> Value:
    """The unit matrix of the size and dtype of `x`."""
    return F.eye(F.size_value(x.type.shape[axis]), dtype=x.dtype)


def by_columns(x: Value, weights: Value) -> Value:
    """`x @ diag(weights)`."""
    return x * F.expand_dims(cast(weights, x.dtype), -2)


def by_rows(weights: Value, x: Value) -> Value:
    """`diag(weights) @ x`."""
    return F.expand_dims(cast(weights, x.dtype), -1) * x


def _sum(terms: list[Value]) -> Value:
    return sum(terms[1:], terms[0])


def _half(x: Value, lower: bool) -> Value:
    """A triangle with half the diagonal."""
    triangle = F.tril(x) if lower else F.triu(x)
    return triangle * (1 - unit(x) / 2)


def of_triangle(full: Value, lower: bool) -> Value:
    """The cotangent of a matrix of which one triangle is read and mirrored."""
    g = conjugate(full)
    return conjugate(_half(g + adjoint(g), lower))


def of_cholesky(factor: Value, g: Value) -> Value:
    """The cotangent of a matrix, from that of its Cholesky factor.

    I. Murray (2016), Differentiation of the Cholesky decomposition, eq. 10.
    """
    solve = F.linalg.solve_triangular
    inner = _half(F.matmul(adjoint(factor), conjugate(g)), lower=True)
    left = solve(factor, inner + adjoint(inner), trans=2, lower=True)
    full = solve(factor, adjoint(left), trans=2, lower=True)
    return conjugate(_half(full, lower=True))


def of_qr(q: Value, r: Value, gq: Value | None, gr: Value | None) -> Value:
    """The cotangent of a matrix of full rank, from those of Q and R.

    J. Townsend (2018), Differentiating the QR decomposition. Only the first columns of
    wide matrices, which JAX refuses, are decomposed; R holds the product of Q^H and the
    others.
    """
    gq, gr = (None if g is None else conjugate(g) for g in (gq, gr))
    k, n = r.type.shape[-2:]
    wide = dims.less_equal(n, k) is not True
    size = F.size_value(k)
    square, tail, of_tail = r, r, None
    if wide:
        square, tail = r[..., :size], r[..., size:]
    if wide and gr is not None:
        of_tail = F.matmul(q, gr[..., size:])
        more = F.matmul(F.matmul(q, tail), adjoint(gr[..., size:]))
        gq, gr = more if gq is None else gq + more, gr[..., :size]
    terms = [] if gr is None else [F.matmul(gr, adjoint(square))]
    terms += [] if gq is None else [-F.matmul(adjoint(q), gq)]
    inner = _half(_sum(terms), lower=False)
    of_x = F.matmul(q, inner + adjoint(inner))
    of_x = of_x if gq is None else of_x + gq
    of_x = adjoint(F.linalg.solve_triangular(square, adjoint(of_x)))
    if wide:
        columns = F.matmul(q, F.zeros_like(tail)) if of_tail is None else of_tail
        of_x = F.concatenate([of_x, columns], axis=-1)
    return conjugate(of_x)


def _gaps(values: Value) -> Value:
    """1 over the differences of values, and 0 on the diagonal."""
    ones = unit(values)
    column, row = F.expand_dims(values, -1), F.expand_dims(values, -2)
    return 1 / (row - column + ones) - ones


def of_svd(
    factors: tuple[Value, Value, Value],
    gu: Value | None,
    gs: Value | None,
    gvh: Value | None,
) -> Value:
    """The cotangent of a matrix, from those of its thin factors U, s and V^H.

    The formula is that of `jax.lax.linalg.svd`; Giles, sec. 3.7.
    """
    u, s, vh = factors
    m, n = u.type.shape[-2], vh.type.shape[-1]
    core, outer = [], []
    if gs is not None:
        core.append(by_rows(gs, unit(u)))
    ones = unit(s)
    row, column = F.expand_dims(s, -2), F.expand_dims(s, -1)
    gaps = 1 / ((row + column) * (row - column) + ones) - ones
    if gu is not None:
        g = conjugate(gu)
        turned = F.matmul(adjoint(u), g)
        core.append(by_columns(_skew_part(gaps, turned), s))
        core += _phases(turned, s)
        outer += _term_if_larger(
            m, n, F.matmul(by_columns(g - F.matmul(u, turned), 1 / s), vh)
        )
    if gvh is not None:
        g = adjoint(conjugate(gvh))
        turned = F.matmul(vh, g)
        core.append(by_rows(s, _skew_part(gaps, turned)))
        beyond = by_columns(g - F.matmul(adjoint(vh), turned), 1 / s)
        outer += _term_if_larger(n, m, F.matmul(u, adjoint(beyond)))
    return conjugate(_sum([F.matmul(F.matmul(u, _sum(core)), vh), *outer]))


def _skew_part(gaps: Value, x: Value) -> Value:
    return cast(gaps, x.dtype) * (x - adjoint(x))


def _phases(turned: Value, s: Value) -> list[Value]:
    """A diagonal term for the phases by which complex U turns and V does not."""
    if turned.dtype.kind != "c":
        return []
    inverse = F.where(F.equal(s, 0), 0, 1 / F.where(F.equal(s, 0), 1, s))
    skew = (turned - adjoint(turned)) / 2
    return [by_rows(inverse, skew * unit(turned))]


def _term_if_larger(many: Size, few: Size, term: Value) -> list[Value]:
    """A term that counts only if the size `many` is larger than `few`."""
    if dims.less_equal(many, few) is True:
        return []
    if dims.less_equal(many, few) is False:
        return [term]
    more = F.greater(F.size_value(many), F.size_value(few))
    return [F.where(more, term, F.zeros_like(term))]


def of_eigh(w: Value, v: Value, gw: Value | None, gv: Value | None) -> Value:
    """The cotangent of the whole Hermitian matrix; Giles, sec. 3.1."""
    core = [] if gw is None else [by_rows(gw, unit(v))]
    if gv is not None:
        turned = F.matmul(adjoint(v), conjugate(gv))
        core.append(cast(_gaps(w), v.dtype) * turned)
    return conjugate(F.matmul(F.matmul(v, _sum(core)), adjoint(v)))


def of_eig(w: Value, v: Value, gw: Value | None, gv: Value | None) -> Value:
    """The cotangent of a matrix, from those of its eigenvalues and eigenvectors.

    An eigenvector has LAPACK's scale: norm 1, and a real largest element. Giles, sec.
    3.1; for the scale see `jax.lax.linalg.eig`.
    """
    core = [] if gw is None else [by_rows(conjugate(gw), unit(v))]
    if gv is not None:
        g = conjugate(gv)
        along = F.sum(F.conjugate(v) * g, axis=-2, keepdims=True)
        widths = [*[(0, 0)] * (v.type.rank - 2), (0, 1), (0, 0)]
        sizes = F.pad(F.absolute(v), widths, constant_values=-1)  # for no rows too
        place = F.expand_dims(F.arange(F.size_value(v.type.shape[-2])), 1)
        largest = F.equal(place, F.argmax(sizes, axis=-2, keepdims=True))
        largest = cast(largest, v.dtype)
        real = cast(F.real(F.sum(largest * v, axis=-2, keepdims=True)), v.dtype)
        g = g - cast(F.real(along), v.dtype) * v
        g = g - 1j * cast(F.imag(along), v.dtype) / real * largest
        core.append(F.conjugate(_gaps(w)) * F.matmul(adjoint(v), g))
    inner = F.matmul(_sum(core), adjoint(v))
    return F.conjugate(F.linalg.solve(adjoint(v), inner))


def of_lu(packed: Value, order: Value, g: Value) -> Value:
    """The cotangent of a matrix of any shape, from that of its packed LU factors.

    F. de Hoog, R. Anderssen and M. Lukas (2011), Differentiation of matrix functionals
    using triangular factorization; shapes that are not square as in JAX.
    """
    m, n = packed.type.shape[-2:]
    solve = F.linalg.solve_triangular
    lower = _resized(F.tril(packed, -1), -1, m) + unit(packed, -2)
    upper = _resized(F.triu(packed), -2, n)
    if dims.less_equal(n, m) is not True:  # missing rows of U are a unit matrix's
        beyond = F.arange(F.size_value(n)) >= F.size_value(m)
        upper = upper + by_rows(cast(beyond, packed.dtype), unit(packed))
    inner = F.tril(F.matmul(lower.mT, g), -1)
    inner = inner + F.triu(F.matmul(g, upper.mT))
    of_x = solve(lower, inner, trans=1, lower=True, unit_diagonal=True)
    of_x = solve(upper, of_x.mT).mT
    back = F.expand_dims(F.argsort(order, axis=-1), -1)
    return F.take_along_axis(of_x, back, axis=-2)


def _resized(x: Value, axis: int, size: Size) -> Value:
    """Cut one of the last two axes to a size, or fill it up with zeros."""
    length = x.type.shape[axis]
    if dims.equal(length, size) is True:
        return x
    common_size = F.size_value(dims.minimum(length, size))
    x = x[..., :common_size] if axis == -1 else x[..., :common_size, :]
    widths: list[Any] = [(0, 0)] * x.type.rank
    widths[axis] = (0, F.size_value(size) - common_size)
    return F.pad(x, widths)


def of_lu_solve(
    packed: Value, sides: tuple[Value, Value], g: Value, of_b: Value, trans: int
) -> Value:
    """The cotangent of the LU factors, from `b`, `x` and the cotangent of `b`.

    `trans` is 0 or 1. For P a = L U, U x = y with L y = P b; transposed, P x = w with
    L^T w = y and U^T y = b. In this form, no rows need to be exchanged.
    """
    b, x = sides
    solve = F.linalg.solve_triangular
    unit_lower: dict[str, Any] = {"lower": True, "unit_diagonal": True}
    if trans:
        y = solve(packed, b, trans=1)
        w = solve(packed, y, trans=1, **unit_lower)
        of_y = F.matmul(F.triu(packed), of_b)
        of_upper, of_lower = F.matmul(y, of_b.mT), F.matmul(w, of_y.mT)
    else:
        of_y = solve(packed, g, trans=1)
        y = F.matmul(F.triu(packed), x)
        w = solve(packed, of_y, trans=1, **unit_lower)
        of_upper, of_lower = F.matmul(of_y, x.mT), F.matmul(w, y.mT)
    return -F.triu(of_upper) - F.tril(of_lower, -1)


def of_spectrum(factors: tuple[Value, Value, Value], nonzero: Value, g: Value) -> Value:
    """The cotangent of x, where `g` is that of the pseudo-inverse of x^H.

    Singular values that are not `nonzero` count as 0. The pseudo-inverse is a
    generalised matrix function U f(S) V^H (V. Noferini, 2017, A formula for the Frechet
    derivative of a generalized matrix function) with f(s) = 1/s, and f = 0 for values
    that count as 0. The cotangent is finite even where values are equal.
    """
    u, s, vh = factors
    f = F.where(nonzero, 1 / F.where(nonzero, s, 1), 0)
    slope = f * f  # f(s) / s
    row, column = F.expand_dims(s, -2), F.expand_dims(s, -1)
    f_row, f_column = F.expand_dims(f, -2), F.expand_dims(f, -1)
    k_row, k_column = F.expand_dims(nonzero, -2), F.expand_dims(nonzero, -1)
    differ, some = F.not_equal(k_row, k_column), F.logical_or(k_row, k_column)
    even = F.where(differ, (f_row - f_column) / F.where(differ, row - column, 1), 0)
    even = even - F.where(F.logical_and(k_row, k_column), f_row * f_column, 0)
    odd = F.where(some, (f_row + f_column) / F.where(some, row + column, 1), 0)
    g = conjugate(g)
    left, right = F.matmul(adjoint(u), g), F.matmul(g, adjoint(vh))
    inner = F.matmul(left, adjoint(vh))
    even, odd = cast(even, g.dtype) / 2, cast(odd, g.dtype) / 2
    core = even * (inner + adjoint(inner)) + odd * (inner - adjoint(inner))
    of_x = F.matmul(F.matmul(u, core), vh)
    of_x = of_x + F.matmul(by_columns(right - F.matmul(u, inner), slope), vh)
    beyond = by_rows(slope, left - F.matmul(inner, vh))
    return conjugate(of_x + F.matmul(u, beyond))
