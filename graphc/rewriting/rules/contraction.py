"""Products of matrices: fewer multiplications for the same result.

Sums of products are computed in another order, so values differ by rounding. An
infinity or NaN that met a zero of an identity, a diagonal or a one-hot matrix no longer
makes a NaN. A factor in a chain that met an inner axis without elements, and so came to
nothing, may meet a NaN first. Half precision is left alone, as another order may
overflow.
"""

from collections.abc import Callable
from typing import NamedTuple

from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, is_one
from graphc.ir.types import same_shape, same_size
from graphc.rewriting.engine.rule import IsKept, Rules, rewrite
from graphc.rewriting.match.pattern import CountUses, once, p, v
from graphc.rewriting.match.sizes import (
    Axes,
    at_most,
    is_wide,
    split_axes,
    varies,
    with_guards,
)


def _rows(x: Value) -> Size:
    """Return the number of rows of a left factor; a vector counts as one row."""
    return x.type.shape[0] if x.type.rank == 2 else 1


def _columns(x: Value) -> Size:
    """Return the number of columns of a right factor; a vector counts as one column."""
    return x.type.shape[1] if x.type.rank == 2 else 1


def _compare_costs(a: Value, b: Value, c: Value) -> int:
    """Compare a @ (b @ c) to (a @ b) @ c: 1 is cheaper, -1 dearer, 0 unknown.

    Where not all sizes are known, a chain that ends in a vector is multiplied by it
    first.
    """
    if max(a.type.rank, c.type.rank) > 2 or b.type.rank != 2 or not is_wide(a.dtype):
        return 0
    sizes = (_rows(a), *b.type.shape, _columns(c))
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return int(is_one(sizes[-1])) - int(is_one(sizes[0]))
    n, k, m, o = known
    left, right = n * m * (k + o), k * o * (m + n)
    return int(right < left) - int(right > left)


@rewrite(p.matmul(once(p.matmul(v.a, v.b)), v.c), exact=False, finite=True)
def matmul_right_first(a: Value, b: Value, c: Value) -> Value | None:
    """(a @ b) @ c is a @ (b @ c), where that is cheaper."""
    return F.matmul(a, F.matmul(b, c)) if _compare_costs(a, b, c) > 0 else None


@rewrite(p.matmul(v.a, once(p.matmul(v.b, v.c))), exact=False, finite=True)
def matmul_left_first(a: Value, b: Value, c: Value) -> Value | None:
    """a @ (b @ c) is (a @ b) @ c, where that is cheaper."""
    return F.matmul(F.matmul(a, b), c) if _compare_costs(a, b, c) < 0 else None


def _is_plain(x: Value, y: Value) -> bool:
    """Whether `x @ y` is a product of a single matrix, and not of a batch of them."""
    return x.type.rank == 2 and y.type.rank <= 2 and is_wide(x.dtype)


def _is_row_wise(c: Value) -> bool:
    """Whether `c` does not vary along the columns of a matrix."""
    return c.type.rank == 0 or (c.type.rank == 2 and is_one(c.type.shape[1]))


def _is_no_longer(n: Size, before: Size) -> bool:
    """Whether rows of `n` elements take no more to scale than rows of `before`."""
    return not is_one(before) and (is_one(n) or at_most(n, before))


@rewrite(p.matmul(v.y(once(p.multiply(v.c, v.x))), v.w), exact=False, finite=True)
def scaled_rows_by(y: Value, c: Value, x: Value, w: Value) -> Value | None:
    """Rows are scaled after a product that makes them no longer: outer(c, x) @ w."""
    if not _is_plain(y, w) or not _is_row_wise(c) or not x.type.rank:
        return None
    if not _is_no_longer(_columns(w), y.type.shape[1]):
        return None
    vector = w.type.rank == 1 and c.type.rank == 2
    return (F.squeeze(c, 1) if vector else c) * F.matmul(x, w)


@rewrite(p.matmul(v.w, v.y(once(p.multiply(v.x, v.r)))), exact=False, finite=True)
def by_scaled_columns(y: Value, w: Value, x: Value, r: Value) -> Value | None:
    """Columns are scaled after a product that makes them no longer."""
    flat = r.type.rank < 2 or is_one(r.type.shape[0])
    if not _is_plain(y, w) or not flat or x.type.rank < 2:
        return None
    if not _is_no_longer(_rows(w), y.type.shape[0]):
        return None
    vector = w.type.rank == 1 and r.type.rank == 2
    return F.matmul(w, x) * (F.squeeze(r, 0) if vector else r)


def is_count(i: Value, n: Size) -> bool:
    """Whether `i` holds the numbers 0 .. n - 1."""
    params = i.node.params
    counts = i.node.primitive is OP.iota and (params["start"], params["step"])
    return counts == (0, 1) and equal(params["length"], n) is True


_DIAGONAL = p.scatter(
    v.full(p.full(0)), v.d, v.i, v.i, axes=(0, 1), how="set", inside=v.inside
)


def _is_diagonal(full: Value, d: Value, i: Value) -> bool:
    """Whether `d` is the whole diagonal of a square matrix."""
    sizes = full.type.shape
    fits = d.type.rank == 1 and all(same_size(n, d.type.shape[0]) for n in sizes)
    return fits and is_count(i, d.type.shape[0])


@rewrite(v.y(p.matmul(_DIAGONAL, v.x)), exact=False, finite=True)
def diagonal_by(y: Value, full: Value, d: Value, i: Value, x: Value) -> Value | None:
    """diag(d) @ x scales the rows of x."""
    if not _is_diagonal(full, d, i):
        return None
    scaled = (d if x.type.rank == 1 else F.expand_dims(d, 1)) * x
    return with_guards(scaled, y.node)


@rewrite(v.y(p.matmul(v.x, _DIAGONAL)), exact=False, finite=True)
def by_diagonal(y: Value, full: Value, d: Value, i: Value, x: Value) -> Value | None:
    """x @ diag(d) scales the columns of x."""
    return with_guards(x * d, y.node) if _is_diagonal(full, d, i) else None


_IDENTITY = p.convert(v.eye(p.equal(p.expand_dims(v.i, axes=(1,)), v.i)))


@rewrite(v.y(p.matmul(_IDENTITY, v.x)), exact=False, finite=True)
def identity_by(y: Value, eye: Value, i: Value, x: Value) -> Value | None:
    """eye(n) @ x is x."""
    return with_guards(x, y.node) if is_count(i, eye.type.shape[0]) else None


@rewrite(v.y(p.matmul(v.x, _IDENTITY)), exact=False, finite=True)
def by_identity(y: Value, eye: Value, i: Value, x: Value) -> Value | None:
    """x @ eye(n) is x."""
    return with_guards(x, y.node) if is_count(i, eye.type.shape[0]) else None


_BLOCKS = p.multiply(p.expand_dims(v.a, axes=(1, 3)), p.expand_dims(v.b, axes=(0, 2)))


@rewrite(
    v.y(p.matmul(v.k(once(p.reshape(once(_BLOCKS)))), v.w)), exact=False, finite=True
)
def kron_by(y: Value, k: Value, a: Value, b: Value, w: Value) -> Value | None:
    """kron(a, b) @ w multiplies w by one factor after the other."""
    if not _is_plain(k, w) or a.type.rank != 2 or b.type.rank != 2:
        return None
    (m, n), (r, s) = a.type.shape, b.type.shape
    if equal(k.type.shape[1], n * s) is not True:
        return None
    columns = w.type.shape[1:]
    blocks = F.matmul(a, F.reshape(with_guards(w, y.node), (n, s * _columns(w))))
    if not columns:
        return F.reshape(F.matmul(blocks, F.transpose(b)), (m * r,))
    # One product with b, however many blocks: XLA is slow with many small ones.
    (c,) = columns
    turned = F.transpose(F.reshape(blocks, (m, s, c)), (0, 2, 1))
    products = F.matmul(F.reshape(turned, (m * c, s)), F.transpose(b))
    return F.reshape(F.transpose(F.reshape(products, (m, c, r)), (0, 2, 1)), (m * r, c))


@rewrite(
    v.z(p.matmul(p.expand_dims(v.x, axes=v.row), p.expand_dims(v.y, axes=v.column))),
    exact=False,
    finite=True,
)
def row_by_column(
    z: Value, x: Value, y: Value, row: Axes, column: Axes
) -> Value | None:
    """A batch of products of a row and a column is a sum over one axis."""
    rank = x.type.rank
    if rank < 2 or y.type.rank != rank or (row, column) != ((rank - 1,), (rank,)):
        return None
    total = OP.sum(x * y, axes=(rank - 1,), keepdims=False)
    return F.expand_dims(with_guards(total, z.node), (rank - 1, rank))


_TAKEN_BOTH = {"axes": (0, 1), "inside": v.inside}


@rewrite(p.gather(v.y(once(p.matmul(v.a, v.b))), v.i, v.i, **_TAKEN_BOTH), exact=False)
def diagonal_of_matmul(y: Value, a: Value, b: Value, i: Value) -> Value | None:
    """Only the diagonal of a product is computed, as for its trace."""
    n = i.type.size
    if a.type.rank != 2 or b.type.rank != 2 or not is_count(i, n):
        return None
    if not at_most(n, a.type.shape[0]) or not at_most(n, b.type.shape[1]):
        return None
    rows = a if equal(n, a.type.shape[0]) else F._part(a, 0, 0, n)
    columns = b if equal(n, b.type.shape[1]) else F._part(b, 1, 0, n)
    diagonal = OP.sum(rows * F.transpose(columns), axes=(1,), keepdims=False)
    return with_guards(diagonal, y.node)


@rewrite(p.matmul(once(p.inv(v.a)), v.b), exact=False, finite=True)
def inverse_by(a: Value, b: Value) -> Value | None:
    """inv(a) @ b solves a system, which is cheaper and more accurate."""
    plain = a.type.rank == 2 and b.type.rank <= 2
    return F.linalg.solve(a, b) if plain else None


@rewrite(p.matmul(v.b, once(p.inv(v.a))), exact=False, finite=True)
def by_inverse(a: Value, b: Value) -> Value | None:
    """b @ inv(a) solves the transposed system."""
    if a.type.rank != 2 or b.type.rank > 2:
        return None
    return F.transpose(F.linalg.solve(F.transpose(a), F.transpose(b)))


@rewrite(
    p.sum(once(p.multiply(v.x, v.y)), axes=v.axes, keepdims=False),
    exact=False,
    finite=True,
)
def sum_of_outer(x: Value, y: Value, axes: Axes) -> Value | None:
    """A sum of outer products along a shared axis is a matrix product."""
    return None if axes == (0,) else _sum_of_outer(x, y, axes)


@rewrite(
    p.sum(once(p.multiply(v.x, v.y)), axes=(0,), keepdims=False),
    exact=False,
    finite=True,
    unfused=True,
)
def sum_of_outer_rows(x: Value, y: Value) -> Value | None:
    """A sum of outer products is a matrix product; XLA makes a loop that is as fast."""
    return _sum_of_outer(x, y, (0,))


def _sum_of_outer(x: Value, y: Value, axes: Axes) -> Value | None:
    rank = x.type.rank
    if len(axes) != 1 or rank != 3 or y.type.rank != 3 or not is_wide(x.dtype):
        return None
    if _is_one_number(x) or _is_one_number(y):  # no work, unless it becomes a matrix
        return None
    remaining_axes = tuple(a for a in range(rank) if a not in axes)
    only_x, only_y, _ = split_axes(x, y, rank, remaining_axes)
    both = split_axes(x, y, rank, axes).both
    if len(only_x) != 1 or len(only_y) != 1 or both != axes:
        return None
    if is_one(x.type.shape[axes[0]]):
        return None
    columns, rows = F.squeeze(x, only_y), F.squeeze(y, only_x)  # of a matrix each
    left = columns if only_x < axes else F.transpose(columns)
    right = F.transpose(rows) if only_y < axes else rows
    product_ = F.matmul(left, right)
    return product_ if only_x < only_y else F.transpose(product_)


def _is_one_number(x: Value) -> bool:
    """Whether all elements are copies of one, as in the gradient of a sum."""
    while x.node.primitive in (OP.broadcast_to, OP.expand_dims, OP.full):
        x = x.node.inputs[0]
    return all(map(is_one, x.type.shape))


class _Factors(NamedTuple):
    """The factors of an elementwise product, in numerator and divisor, and its sign."""

    above: list[Value]
    below: list[Value]
    negative: bool


def _factors_of(x: Value, whole: Callable[[Value], bool]) -> _Factors:
    """Return the factors of an elementwise product, quotients and signs included.

    A value that is `whole` counts as one factor.
    """
    above, below, negative, stack = list[Value](), list[Value](), False, [x]
    while stack:
        value = stack.pop()
        op, inputs = value.node.primitive, value.node.inputs
        if whole(value):
            above.append(value)
        elif op is OP.negative:
            negative = not negative
            stack.append(inputs[0])
        elif op is OP.true_divide:
            below.append(inputs[1])
            stack.append(inputs[0])
        elif op is OP.multiply:
            stack += reversed(inputs)
        else:
            above.append(value)
    return _Factors(above, below, negative)


def _is_fewer(n: Size, m: Size) -> bool:
    """Whether `n` is known, and less than `m` if that is known."""
    return isinstance(n, int) and (not isinstance(m, int) or n < m)


def _swapped(x: Value) -> Value:
    """Transpose a matrix, or each matrix of a batch."""
    rank = x.type.rank
    order = (*range(rank - 2), rank - 1, rank - 2)
    if x.node.primitive is OP.transpose and x.node.params["axes"] == order:
        return x.node.inputs[0]
    return F.transpose(x, order)


@rewrite(p.sum(v.s, axes=v.axes, keepdims=v.keepdims), exact=False, finite=True)
def sum_of_weighted_product(
    s: Value, axes: Axes, keepdims: bool, uses: CountUses, is_kept: IsKept
) -> Value | None:
    """sum(w * (a @ b.T), -1) is sum(a * (w @ b), -1), where w @ b is computed anyway.

    This is so in the gradient of a weighted mean, as of `softmax(q @ k.T) @ v`. If the
    summed value is an output too, the rule does not apply: its sum comes with it, and
    the other form took 1.08 times as long.
    """
    if axes != (s.type.rank - 1,) or s.type.rank < 2 or not is_wide(s.dtype):
        return None
    if is_kept(s):
        return None
    products = _factors_of(s, lambda x: _is_matmul(x, s)).above
    totals = (_sum_by_mean(s, x, uses) for x in products if _is_matmul(x, s))
    total = next((total for total in totals if total is not None), None)
    if total is None or keepdims:
        return total
    return F.squeeze(total, -1)


def _is_matmul(x: Value, s: Value) -> bool:
    """Whether `x` is a product of matrices, and as large as `s`."""
    return x.node.primitive is OP.matmul and same_shape(x.type.shape, s.type.shape)


def _sum_by_mean(s: Value, x: Value, uses: CountUses) -> Value | None:
    """Return the sum of `s` over its last axis, given a product `x` among its factors.

    None if no value in use is the mean that this takes.
    """
    (a, b), rank = x.node.inputs, s.type.rank
    if a.type.rank != rank or b.type.rank != rank:
        return None
    if not _is_fewer(a.type.shape[-1], s.type.shape[-1]):
        return None
    b = _swapped(b)

    def mean(w: Value) -> Value | None:
        if w is x or not same_shape(w.type.shape, s.type.shape):
            return None
        known: Value = F.matmul(w, b)
        return known if uses(known) else None

    parts = _factors_of(s, lambda w: w is x or mean(w) is not None)
    large = [w for w in (*parts.above, *parts.below) if varies(w, rank, rank - 1)]
    others = [(w, mean(w)) for w in parts.above if w is not x]
    weighted = [(w, known) for w, known in others if known is not None]
    if len(weighted) != 1 or set(large) != {x, weighted[0][0]} or len(large) != 2:
        return None
    total = F.sum(a * weighted[0][1], -1, keepdims=True)
    for factor in parts.above:
        total = total * factor if factor not in set(large) else total
    for factor in parts.below:
        total = total / factor
    return -total if parts.negative else total


CONTRACTION = Rules(
    (
        matmul_right_first,
        matmul_left_first,
        scaled_rows_by,
        by_scaled_columns,
        diagonal_by,
        by_diagonal,
        identity_by,
        by_identity,
        kron_by,
        row_by_column,
        diagonal_of_matmul,
        inverse_by,
        by_inverse,
        sum_of_outer,
        sum_of_outer_rows,
        sum_of_weighted_product,
    )
)
