"""Linear algebra: mask rules of matrices with padding after rows and columns.

The padding becomes a block of its own on the diagonal, which changes nothing in the
block of the matrix: a unit matrix where it must be regular, zeros where it must add
nothing, and large numbers where results come in order. Elimination and reflection keep
blocks apart, even those of singular matrices. Padding along batch axes becomes such
matrices too, so that its old contents make nothing fail or take long.
"""

import numpy as np

from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt


def unit_padded(pad: Padding, x: PaddedValue) -> Value:
    """Square matrices with a unit matrix in the padding."""
    return _with_diagonal(pad, x, as_value(1)) if x.axes else x.value


def zero_padded(pad: Padding, x: PaddedValue) -> Value:
    """Matrices with zeros in all of the padding."""
    return pad.filled(x, sorted(x.axes), 0)


def pad_by_unit(primitive: Primitive) -> None:
    """Declare the mask rule of an op: a unit matrix in the padding.

    Eigenvalues without an order stay in front too: before LAPACK iterates, it sets rows
    apart that are zero beside the diagonal, from the last one on.
    """
    primitive.padding(lambda pad, x, **params: primitive(unit_padded(pad, x), **params))


def pad_by_zeros(primitive: Primitive) -> None:
    """Declare the mask rule of an op: zeros in the padding of all inputs."""

    @primitive.padding
    def _(pad: Padding, *inputs: PaddedValue, **params: Param) -> Rebuilt:
        return primitive(*(zero_padded(pad, x) for x in inputs), **params)


def _with_diagonal(pad: Padding, x: PaddedValue, number: Value) -> Value:
    rows, columns = (F.size_value(n) for n in x.value.type.shape[-2:])
    places = F.expand_dims(F.arange(rows, dtype="int32"), 1)
    diagonal = F.equal(places, F.arange(columns, dtype="int32"))
    beside = F.where(diagonal, cast(number, x.value.dtype), F.zeros_like(x.value))
    return F.where(pad.inside(x, sorted(x.axes)), x.value, beside)


def is_square(pad: Padding, x: PaddedValue) -> bool:
    """Whether matrices provably have as many rows as columns."""
    rows, columns = map(pad.exact, x.type.shape[-2:])
    return dims.equal(rows, columns) is True


def is_matrix_padded(x: PaddedValue) -> bool:
    """Whether rows or columns are padded, and not just batch axes."""
    return bool(x.ragged((x.type.rank - 2, x.type.rank - 1)))


def with_largest(pad: Padding, x: PaddedValue, sizes: Value) -> Value:
    """Square matrices with eigenvalues in the padding that are above all others.

    `sizes` are magnitudes whose sums by rows or columns bound the other eigenvalues.
    """
    return _with_diagonal(pad, x, F.expand_dims(numbers_above(sizes), (-2, -1)))


def numbers_above(sizes: Value) -> Value:
    """Numbers above the eigen- or singular values for elements of these magnitudes."""
    sums = [F.max(F.sum(sizes, axis=axis), axis=-1, initial=0) for axis in (-2, -1)]
    bound = 2 * (sums[0] + sums[1])
    return F.minimum(F.where(bound > 0, bound, 1), np.finfo(bound.dtype).max)


def hermitian(pad: Padding, x: PaddedValue, lower: bool) -> Value:
    """Hermitian matrices, read by one triangle, with the padding's eigenvalues last."""
    if not is_matrix_padded(x):
        return unit_padded(pad, x)
    sizes = F.absolute(zero_padded(pad, x))
    return with_largest(pad, x, F.tril(sizes) if lower else F.triu(sizes))


def pad_by_largest(primitive: Primitive) -> None:
    """Declare the mask rule of an op: the largest eigenvalues go into the padding."""

    @primitive.padding
    def _(pad: Padding, x: PaddedValue, *, lower: bool) -> Rebuilt:
        return primitive(hermitian(pad, x, lower), lower=lower)


def det(primitive: Primitive, pad: Padding, x: PaddedValue) -> Value:
    """The determinant; NaN is kept even if LAPACK takes a 0 of the padding as pivot."""
    determinant: Value = primitive(unit_padded(pad, x))
    lost = F.logical_and(_has_nan(pad, x), F.equal(determinant, 0))
    return F.where(lost, np.nan, determinant)


def slogdet(primitive: Primitive, pad: Padding, x: PaddedValue) -> tuple[Value, Value]:
    """The sign and log of the determinant, with NaN kept as in `det`."""
    sign, log = primitive(unit_padded(pad, x))
    lost = F.logical_and(_has_nan(pad, x), F.equal(log, -np.inf))
    return F.where(lost, np.nan, sign), F.where(lost, np.nan, log)


def _has_nan(pad: Padding, x: PaddedValue) -> Value:
    flags: Value = F.any(F.isnan(zero_padded(pad, x)), axis=(-2, -1))
    return flags


def qr(primitive: Primitive, pad: Padding, x: PaddedValue, *, mode: str) -> Rebuilt:
    """The decomposition with zeros in the padding, which reflections leave alone.

    The last row of a real matrix has no reflection of its own, but would get one from
    NaN above zeros of the padding. Only mode "raw" shows this, so its factor is set to
    0.
    """
    if mode != "raw" or x.type.rank - 2 not in x.axes:
        return primitive(zero_padded(pad, x), mode=mode)
    if x.type.dtype.kind == "c":
        return None
    rows, factors = primitive(zero_padded(pad, x), mode=mode)
    m, n = x.type.shape[-2:]
    return rows, F.where(is_last(pad, m, dims.minimum(m, n)), 0, factors)


def is_last(pad: Padding, n: Size, size: Size) -> Value:
    """Whether each position of an axis of `size` holds the last of `n` elements."""
    places = pad.positions(size)
    return F.equal(places + 1, cast(pad.length(n), places.dtype))


def lu_factor(primitive: Primitive, pad: Padding, x: PaddedValue) -> Rebuilt:
    """The factors; None if padded columns of zeros might make true rows move."""
    if is_square(pad, x):
        return primitive(unit_padded(pad, x))
    if x.type.rank - 1 in x.axes:
        return None
    return primitive(zero_padded(pad, x))


def solve(
    primitive: Primitive, pad: Padding, a: PaddedValue, b: PaddedValue, **params: Param
) -> Value:
    """The solution; equations of the padding set its own unknowns to 0."""
    rows = max(b.type.rank - 2, 0)
    solution: Value = primitive(
        unit_padded(pad, a), pad.filled(b, (rows,), 0), **params
    )
    return solution


def lu_solve(
    primitive: Primitive,
    pad: Padding,
    lu: PaddedValue,
    pivots: PaddedValue,
    b: PaddedValue,
    *,
    trans: int,
) -> Value:
    """The solution, as in `solve`; the rows of the padding stay where they are."""
    exchanges, sides = _row_exchanges(pad, pivots), zero_padded(pad, b)
    solution: Value = primitive(unit_padded(pad, lu), exchanges, sides, trans=trans)
    return solution


def sylvester(
    primitive: Primitive, pad: Padding, a: PaddedValue, b: PaddedValue, c: PaddedValue
) -> Value:
    """The solution; no eigenvalue in the padding adds up to 0 with another."""
    parts = [F.absolute(zero_padded(pad, x)) for x in (a, b)]
    bound = F.expand_dims(F.maximum(*map(numbers_above, parts)), (-2, -1))
    first, second = (
        _with_diagonal(pad, x, bound) if is_matrix_padded(x) else unit_padded(pad, x)
        for x in (a, b)
    )
    solution: Value = primitive(first, second, zero_padded(pad, c))
    return solution


def _row_exchanges(pad: Padding, pivots: PaddedValue) -> Value:
    """Row exchanges that leave the rows of the padding where they are."""
    if not pivots.axes:
        return pivots.value
    places = pad.positions(pivots.type.shape[-1])
    inside = pad.inside(pivots, sorted(pivots.axes))
    return F.where(inside, pivots.value, cast(places, pivots.value.dtype))


def lstsq(
    primitive: Primitive,
    pad: Padding,
    a: PaddedValue,
    b: PaddedValue,
    *rcond: PaddedValue,
) -> tuple[PaddedValue | Value, ...] | None:
    """The solution with zeros in the padding, which change neither it nor the rank."""
    x, y = zero_padded(pad, a), zero_padded(pad, b)
    if rcond:
        limit = rcond[0].value
    else:
        real = np.finfo(x.dtype).dtype
        largest = pad.length(dims.maximum(*a.type.shape))
        limit = cast(largest, real) * float(np.finfo(real).eps)
    solution, _, rank, s = primitive(x, y, limit)
    residuals_of_rows = F.absolute(y - F.matmul(x, solution))
    residuals = F.reshape(F.sum(residuals_of_rows * residuals_of_rows, axis=0), (-1,))
    return solution, residuals, rank, s


def block_diag(primitive: Primitive, pad: Padding, *blocks: PaddedValue) -> Value:
    """Make the matrix with padding between its blocks, then gather it without."""
    filled = [pad.filled(b, (b.type.rank - 2, b.type.rank - 1), 0) for b in blocks]
    matrix: Value = primitive(*filled)
    for axis in (-2, -1):
        at = matrix.type.rank + axis
        if any(b.type.rank + axis in b.axes for b in blocks[:-1]):
            places = _places(pad, [b.type.shape[axis] for b in blocks])
            matrix = F._gather(matrix, places, axes=(at,), inside=(False,))
    return matrix


def _places(pad: Padding, sizes: list[Size]) -> Value:
    """The positions of the elements of joined parts, each part having its padding."""
    start: Size = 0
    stored_start: Size = 0
    total: Size = sum(sizes[1:], sizes[0])
    places = pad.positions(total)
    positions = places
    for n in sizes:
        first = cast(pad.length(start), places.dtype)
        moved = cast(as_value(F.size_value(stored_start)), places.dtype) - first
        positions = F.where(places >= first, places + moved, positions)
        start, stored_start = start + n, stored_start + pad.stored(n)
    return positions
