"""Products that sum over axes.

All of them take NumPy's dtypes and keep them: bools are combined by `and` and `or`,
small integers wrap around. A Python number adapts to the array beside it, as in JAX
(NumPy's `dot` and `inner` make an array of it first). In NumPy programs bfloat16 is
multiplied in float32.
"""

from collections.abc import Callable, Sequence

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import as_strong_value, as_value, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Primitive, Printing, op, require_equal, type_error
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, enroll, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BFLOAT16, BOOL, TensorType, product
from graphc.ops.common.axes import inverse_order, other_axes, with_rank
from graphc.ops.common.batching import Batched, align_batches
from graphc.ops.common.broadcasting import (
    broadcast,
    may_stretch,
    promoted,
    promoted_as_arrays,
    stretched_axes,
    summed_to,
)
from graphc.ops.common.conjugates import conjugate
from graphc.ops.common.padding import PaddedValue, Padding

PairsLike = int | Sequence[int | Sequence[int]]
_AXES = "axes must be an integer, or a pair of lists"
PrintCall = Callable[[Printing, tuple[str, ...]], str]


def emit_product(primitive: Primitive, call: PrintCall) -> None:
    """Declare how a product prints; in NumPy, bfloat16 is multiplied in float32."""

    def in_numpy(p: Printing) -> str:
        if p.node.inputs[0].dtype != BFLOAT16:
            return call(p, p.inputs)
        wide = tuple(f'{x}.astype("float32")' for x in p.inputs)
        return f"{call(p, wide)}.astype({p.inputs[0]}.dtype)"

    primitive.emit(numpy=in_numpy, jax=lambda p: call(p, p.inputs))


def _plain_printer(name: str) -> PrintCall:
    """Return a printer of calls `np.name(x, y)` or `jnp.name(x, y)`."""
    return lambda p, inputs: f"{p.xp}.{name}({', '.join(inputs)})"


def _one_dtype(x: Value, y: Value) -> None:
    if x.dtype != y.dtype:
        raise type_error("needs arrays of one dtype")


@op()
def _matmul(x: Array, y: Array) -> TensorType:
    """The matrix product; leading axes broadcast, a vector is a row or column."""
    if not x.type.rank or not y.type.rank:
        raise type_error("needs at least one axis", hint="multiply scalars with *")
    _one_dtype(x, y)
    a, b = x.type.shape, y.type.shape
    inner = b[-2:][0]  # a vector has only one size
    hint = "the last axis on the left must match the last but one on the right"
    require_equal(a[-1], inner, "the inner sizes must agree", hint)
    batch = broadcast(a[:-2], b[:-2])
    return x.type.like((*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))


@op()
def _vecdot(x: Array, y: Array) -> TensorType:
    """The sum over the last axis of conj(x) * y; the axes before it broadcast."""
    if not x.type.rank or not y.type.rank:
        raise type_error("needs at least one axis")
    _one_dtype(x, y)
    a, b = x.type.shape, y.type.shape
    require_equal(a[-1], b[-1], "the vectors must have one length")
    return x.type.like(broadcast(a[:-1], b[:-1]))


AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]


@op()
def _tensordot(x: Array, y: Array, *, axes: AxisPairs) -> TensorType:
    """The sum of products over pairs of axes, with the other axes of x, then of y."""
    _one_dtype(x, y)
    a, b = x.type.shape, y.type.shape
    for i, j in zip(*axes, strict=True):
        require_equal(a[i], b[j], f"axis {i} of the first, axis {j} of the second")
    row_sizes = [n for i, n in enumerate(a) if i not in axes[0]]
    return x.type.like((*row_sizes, *(n for j, n in enumerate(b) if j not in axes[1])))


def _call_tensordot(p: Printing, inputs: tuple[str, ...]) -> str:
    return f"{p.xp}.tensordot({', '.join(inputs)}, axes={p.node.params['axes']})"


@op()
def _cross(x: Array, y: Array) -> TensorType:
    """The cross product of the 3-vectors in the last axes; the others broadcast."""
    _one_dtype(x, y)
    if x.dtype == BOOL:
        raise type_error("bools cannot be subtracted", hint="convert to int64 first")
    for v in (x, y):
        require_equal(v.type.shape[-1], 3, "a vector of a cross product has 3 elements")
    return x.type.like((*broadcast(x.type.shape[:-1], y.type.shape[:-1]), 3))


emit_product(_matmul, _plain_printer("matmul"))
emit_product(_vecdot, _plain_printer("vecdot"))
emit_product(_tensordot, _call_tensordot)
_cross.emit("{xp}.cross({x}, {y})")


# Padding: axes that are summed over hold zeros in both factors, since 0 * NaN is NaN.
_matmul.rounding = "stored"


@_matmul.padding
def _(pad: Padding, x: PaddedValue, y: PaddedValue) -> Value:
    of_y = max(y.type.rank - 2, 0)
    last = x.type.rank - 1
    return _matmul(pad.filled(x, (last,), 0), pad.filled(y, (of_y,), 0))


@_vecdot.padding
def _(pad: Padding, x: PaddedValue, y: PaddedValue) -> Value:
    return _vecdot(*(pad.filled(v, (v.type.rank - 1,), 0) for v in (x, y)))


@_tensordot.padding
def _(pad: Padding, x: PaddedValue, y: PaddedValue, *, axes: AxisPairs) -> Value:
    both = pad.filled(x, axes[0], 0), pad.filled(y, axes[1], 0)
    return _tensordot(*both, axes=axes)


@_cross.padding
def _(pad: Padding, x: PaddedValue, y: PaddedValue) -> Value:
    return _cross(x.value, y.value)


# Gradients: a product is linear in each factor, so its gradients are products too.


@_matmul.vjp
def _(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    row, column = x.type.rank == 1, y.type.rank == 1
    if row and column:
        return F.multiply(g, y), F.multiply(g, x)
    a = F.expand_dims(x, 0) if row else x
    b = (F.expand_dims(y, 1) if column else y).mT
    g = F.expand_dims(g, -2) if row else g
    g = F.expand_dims(g, -1) if column else g
    of_a = _summed_product(g, b, a)
    return F.squeeze(of_a, 0) if row else of_a, _right_cotangent(g, a, b, column)


def _right_cotangent(g: Value, a: Value, b: Value, column: bool) -> Value:
    """The cotangent of the right factor, whose transpose is `b`."""
    rows = tuple(range(g.type.rank - 1))
    if b.type.rank == 2 < g.type.rank == a.type.rank and not column:
        return _tensordot(a, g, axes=(rows, rows))
    of_b = _summed_product(g.mT, a, b)
    return F.squeeze(of_b, 0) if column else of_b.mT


def _summed_product(g: Value, y: Value, like: Value) -> Value:
    """Return `g @ y`, summed over the batch axes that `like` lacks."""
    batch = tuple(range(g.type.rank - 2))
    full = y.type.rank == g.type.rank
    shape, to = y.type.shape[:-2], g.type.shape[:-2]
    full = full and not stretched_axes(shape, to) and not may_stretch(shape, to)
    if batch and full and like.type.rank == 2:  # as one matrix product
        last = g.type.rank - 1
        return _tensordot(g, y, axes=((*batch, last), (*batch, last - 1)))
    return summed_to(_matmul(g, y), like.type.shape)


@_vecdot.vjp
def _(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    column = F.expand_dims(g, -1)
    of_x, of_y = conjugate(column * y), column * conjugate(x)
    return summed_to(of_x, x.type.shape), summed_to(of_y, y.type.shape)


@_cross.vjp
def _(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return (
        summed_to(_cross(y, g), x.type.shape),
        summed_to(_cross(g, x), y.type.shape),
    )


@_tensordot.vjp
def _(g: Value, x: Value, y: Value, *, axes: AxisPairs) -> tuple[Value, Value]:
    rest_x, rest_y = (
        other_axes(v.type.rank, a) for v, a in zip((x, y), axes, strict=True)
    )
    front, back = tuple(range(len(rest_x))), tuple(range(len(rest_x), g.type.rank))
    of_x = _tensordot(g, y, axes=(back, rest_y))  # then y's summed axes in order
    of_y = _tensordot(g, x, axes=(front, rest_x))
    order_x = (*rest_x, *(i for _, i in sorted(zip(axes[1], axes[0], strict=True))))
    order_y = (*rest_y, *(j for _, j in sorted(zip(*axes, strict=True))))
    return _put_back(of_x, order_x), _put_back(of_y, order_y)


def _put_back(x: Value, order: tuple[int, ...]) -> Value:
    """Move axis i of `x` to position `order[i]`."""
    return F.transpose(x, inverse_order(order))


# Batching


@_matmul.batch
def _(n: Size, batched: Batched, x: Value, y: Value) -> Value:
    row, column = (v.type.rank - b == 1 for v, b in zip((x, y), batched, strict=True))
    if not batched[1] and y.type.rank <= 2:
        return _matmul(x, y)
    if not batched[0] and column and x.type.rank <= 2:
        return _matmul(y, x.mT if x.type.rank == 2 else x)
    a = F.expand_dims(x, -2) if row else x
    b = F.expand_dims(y, -1) if column else y
    result = _matmul(*align_batches(batched, (a, b)))
    result = F.squeeze(result, -2) if row else result
    return F.squeeze(result, -1) if column else result


@_vecdot.batch
def _(n: Size, batched: Batched, x: Value, y: Value) -> Value:
    return _vecdot(*align_batches(batched, (x, y)))


@_cross.batch
def _(n: Size, batched: Batched, x: Value, y: Value) -> Value:
    return _cross(*align_batches(batched, (x, y)))


@_tensordot.batch
def _(n: Size, batched: Batched, x: Value, y: Value, *, axes: AxisPairs) -> Value:
    moved = tuple(
        tuple(a + b for a in side) for side, b in zip(axes, batched, strict=True)
    )
    if not batched[1]:
        return _tensordot(x, y, axes=moved)
    if not batched[0]:
        result = _tensordot(x, y, axes=moved)
        return F.moveaxis(result, x.type.rank - len(axes[0]), 0)
    rest_x, rest_y = (
        other_axes(v.type.rank, (0, *side))
        for v, side in zip((x, y), moved, strict=True)
    )
    outer_x = tuple(x.type.shape[i] for i in rest_x)
    outer_y = tuple(y.type.shape[i] for i in rest_y)
    summed = product([x.type.shape[i] for i in moved[0]])
    a = F.transpose(x, (0, *rest_x, *moved[0]))
    b = F.transpose(y, (0, *moved[1], *rest_y))
    a = F.reshape(a, (n, product(outer_x), summed))
    b = F.reshape(b, (n, summed, product(outer_y)))
    return F.reshape(_matmul(a, b), (n, *outer_x, *outer_y))


@public()
def matmul(x: ArrayLike, y: ArrayLike, /) -> Value:
    """The matrix product of NumPy's `@`."""
    return _matmul(*promoted(x, y))


enroll(matmul, "linalg.matmul")


def _need_rank(value: Value, rank: int, op_name: str) -> Value:
    if value.type.rank < rank:
        axes = "one axis" if rank == 1 else f"{rank} axes"
        raise graph_error(f"needs at least {axes}", op=op_name, got=str(value.type))
    return value


@public()
def matvec(x: ArrayLike, y: ArrayLike) -> Value:
    """The matrices of `x` times the vectors of `y`: shapes (..., m, n), (..., n)."""
    a, b = promoted(x, y)
    a, b = _need_rank(a, 2, "matvec"), _need_rank(b, 1, "matvec")
    return F.squeeze(_matmul(a, F.expand_dims(b, -1)), -1)


@public()
def vecmat(x: ArrayLike, y: ArrayLike) -> Value:
    """The conjugate vectors of `x` times the matrices of `y`: (..., n), (..., n, m)."""
    a, b = promoted(x, y)
    a, b = _need_rank(a, 1, "vecmat"), _need_rank(b, 2, "vecmat")
    row = F.expand_dims(conjugate(a), -2)
    return F.squeeze(_matmul(row, b), -2)


@public(method=True)
def dot(a: ArrayLike, b: ArrayLike) -> Value:
    """The sum over the last axis of `a` and the last but one of `b`, as `numpy.dot`.

    The result has the other axes of `a`, then those of `b`. A scalar multiplies.
    """
    return _over_last(2, *promoted(a, b))


def _over_last(from_end: int, x: Value, y: Value) -> Value:
    """Sum products over the last axis of `x` and axis `-from_end` of `y`."""
    if not x.type.rank or not y.type.rank:
        return F.multiply(x, y)
    if y.type.rank <= from_end:
        return _matmul(x, y)
    return _tensordot(x, y, axes=((x.type.rank - 1,), (y.type.rank - from_end,)))


@public()
def vdot(a: ArrayLike, b: ArrayLike) -> Value:
    """The sum of conj(a) * b over all elements in row-major order."""
    return _vecdot(*map(F.ravel, promoted(a, b)))


def _axis_last(value: Value, axis: int, op_name: str) -> Value:
    return F.moveaxis(value, normal_axis(axis, value.type.rank, op_name), -1)


@public()
def vecdot(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1) -> Value:
    """The sum of conj(x1) * x2 over `axis`; the other axes broadcast."""
    x, y = promoted(x1, x2)
    return _vecdot(_axis_last(x, axis, "vecdot"), _axis_last(y, axis, "vecdot"))


enroll(vecdot, "linalg.vecdot")


@public()
def inner(a: ArrayLike, b: ArrayLike) -> Value:
    """The sum of products over the last axes, which have one size; no conjugation."""
    return _over_last(1, *promoted(a, b))


@public()
def outer(a: ArrayLike, b: ArrayLike) -> Value:
    """All products of an element of `a` and one of `b`, both flattened."""
    x, y = map(F.ravel, promoted_as_arrays(a, b))
    return F.multiply(F.expand_dims(x, 1), y)


@public(name="linalg.outer")
def outer_of_vectors(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """All products of an element of one vector and one of another."""
    x, y = promoted(x1, x2)
    if x.type.rank != 1 or y.type.rank != 1:
        got = f"{x.type}, {y.type}"
        hint = "gt.outer flattens its arguments"
        raise graph_error("needs two vectors", op="linalg.outer", got=got, hint=hint)
    return outer(x, y)


@public()
def tensordot(a: ArrayLike, b: ArrayLike, /, axes: PairsLike = 2) -> Value:
    """The sum of products over pairs of axes, as `numpy.tensordot`.

    `axes` is a pair of axes or of sequences of axes, or a number n, which stands for
    the last n axes of `a` and the first n of `b`. The result has the other axes of `a`,
    then those of `b`.
    """
    x, y = promoted(a, b)
    return _tensordot(x, y, axes=_pairs_of_axes(axes, x, y))


enroll(tensordot, "linalg.tensordot")


def _pairs_of_axes(axes: object, x: Value, y: Value) -> AxisPairs:
    ranks = x.type.rank, y.type.rank
    if not isinstance(axes, Sequence):
        count = as_integer(axes, _AXES, "tensordot")
        if not 0 <= count <= min(ranks):
            got = f"axes={count} for {x.type}, {y.type}"
            expected = f"a number from 0 to {min(ranks)}, or a pair of lists"
            problem = "no such number of axes"
            raise graph_error(problem, op="tensordot", got=got, expected=expected)
        return tuple(range(ranks[0] - count, ranks[0])), tuple(range(count))
    sides = [s if isinstance(s, (tuple, list)) else (s,) for s in axes]
    got = f"axes={axes!r} for {x.type}, {y.type}"
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        raise graph_error("needs two lists of equal length", op="tensordot", got=got)
    first, second = (
        tuple(normal_axis(a, rank, "tensordot") for a in side)
        for side, rank in zip(sides, ranks, strict=True)
    )
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise graph_error("an axis is named twice", op="tensordot", got=got)
    return first, second


@public()
def kron(a: ArrayLike, b: ArrayLike) -> Value:
    """The Kronecker product: each element of `a` replaced by its product with `b`."""
    x, y = promoted(a, b)
    rank = max(x.type.rank, y.type.rank)
    x, y = (with_rank(v, rank) for v in (x, y))
    odd, even = tuple(range(1, 2 * rank, 2)), tuple(range(0, 2 * rank, 2))
    blocks = F.multiply(F.expand_dims(x, odd), F.expand_dims(y, even))
    shape = [m * n for m, n in zip(x.type.shape, y.type.shape, strict=True)]
    return F.reshape(blocks, tuple(shape))


@public()
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Value:
    """The cross product of vectors, as `numpy.cross`; the other axes broadcast.

    The vectors lie along `axisa` and `axisb` and have 3 elements, or 2, with 0 as the
    third; of two 2-vectors only the last element of the product is returned. The result
    lies along `axisc`; `axis` stands for all three.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted(a, b)
    x = _axis_last(_need_rank(x, 1, "cross"), axisa, "cross")
    y = _axis_last(_need_rank(y, 1, "cross"), axisb, "cross")
    if _is_flat(x) and _is_flat(y):
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    product = _cross(_append_zero(x), _append_zero(y))
    return F.moveaxis(product, -1, normal_axis(axisc, product.type.rank, "cross"))


def _is_flat(x: Value) -> bool:
    """Whether the last axis holds vectors in the plane."""
    n = x.type.shape[-1]
    return isinstance(n, int) and n == 2


def _append_zero(x: Value) -> Value:
    """Append a third element, 0, to vectors in the plane; leave others alone."""
    if not _is_flat(x):
        return x
    return F.concatenate([x, F.zeros_like(x[..., :1])], axis=-1)


@public(name="linalg.cross")
def cross_of_3_vectors(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1) -> Value:
    """The cross product of 3-vectors along `axis`; the other axes broadcast."""
    for v in (as_value(x1), as_value(x2)):
        _need_rank(v, 1, "linalg.cross")
        if _is_flat(_axis_last(v, axis, "linalg.cross")):
            problem = "a vector of a cross product has 3 elements"
            raise graph_error(problem, op="linalg.cross", got=str(v.type))
    return cross(x1, x2, axis=axis)


@public(method=True)
def trace(
    x: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
) -> Value:
    """The sum of a diagonal of the matrices in `axis1` and `axis2`, as `numpy.trace`.

    Bools and small integers are added up as int64 or uint64.
    """
    value = _need_rank(as_strong_value(x), 2, "trace")
    first, second = (normal_axis(a, value.type.rank, "trace") for a in (axis1, axis2))
    if first == second:
        got = f"axis1={axis1}, axis2={axis2} for {value.type}"
        raise graph_error("needs two different axes", op="trace", got=got)
    return F.sum(F.diagonal(value, offset, first, second), axis=-1, dtype=dtype)


@public(name="linalg.trace")
def trace_of_matrices(
    x: ArrayLike, /, offset: int = 0, dtype: DTypeLike | None = None
) -> Value:
    """The sum of a diagonal of the matrices in the last two axes."""
    value = _need_rank(as_strong_value(x), 2, "linalg.trace")
    return trace(value, offset, -2, -1, dtype)
