"""Functions that make arrays from sizes and numbers."""


import numpy as np

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    check_shape,
    default_dtype,
    integer_like,
    literal_of,
    no_device,
    number_constant,
    size_value,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_at_most, type_error
from graphc.ir.namespace import F, enroll, enroll_method, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import (
    BOOL,
    INT64,
    DType,
    TensorType,
    dtype_of,
    is_integer,
    same_size,
)
from graphc.ops.common.batching import Batched
from graphc.ops.common.broadcasting import (
    common_dtype,
    require_room,
    with_room,
    with_sizes,
)
from graphc.ops.common.known_integers import KnownSizes
from graphc.ops.common.padding import PaddedValue, Padding, constant_fill


@op()
def _full(value: Array, *, shape: Shape) -> TensorType:
    """An array of this shape, with `value` everywhere."""
    if value.type.rank:
        raise type_error("needs a scalar to fill with")
    for n in shape:
        require_at_most(0, n, "a size must not be negative")
    require_room(shape, value.dtype)
    return value.type.like(shape)


_full.rounding = "none"
_full.literals = "always"
_full.emit(lambda p: f"{p.xp}.full({p.code(p.node.params['shape'])}, {p.inputs[0]}, "
           f"{p.code(p.node.outputs[0].dtype)})")


_full.sizes = lambda value, *, shape: np.full(shape, value, object)
_full.vjp(lambda g, value, *, shape: (F.sum(g),))
_full.linear = True


@_full.batch
def _(n: Size, batched: Batched, value: Value, *, shape: Shape) -> Value:
    column = F.expand_dims(value, tuple(range(1, 1 + len(shape))))
    return F.broadcast_to(column, (n, *shape))


@_full.padding
def _(pad: Padding, value: PaddedValue, *, shape: Shape) -> PaddedValue:
    fill = constant_fill(value.value, len(shape))
    return pad.result(_full(value.value, shape=shape), fill)


def _dtype_or(dtype: DTypeLike | None, default: DType) -> DType:
    return default if dtype is None else dtype_of(dtype)


@public()
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """An array of this shape with `fill_value` everywhere (broadcast to it)."""
    no_device(device, "full")
    value = as_value(fill_value)
    value = cast(value, dtype_of(dtype)) if dtype is not None else strong(value)
    sizes = check_shape(as_shape(shape), "full")
    if value.type.rank:
        return F.broadcast_to(value, sizes)
    return _full(value, shape=sizes)


@public()
def zeros(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: None = None
) -> Value:
    """Zeros; the default float where no dtype is given."""
    no_device(device, "zeros")
    return full(shape, 0, _dtype_or(dtype, config.float))


@public()
def ones(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: None = None
) -> Value:
    """Ones; the default float where no dtype is given."""
    no_device(device, "ones")
    return full(shape, 1, _dtype_or(dtype, config.float))


enroll(zeros, "empty")


@public()
def full_like(
    x: ArrayLike,
    /,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """`fill_value` everywhere; dtype and shape are those of `x` where not given."""
    no_device(device, "full_like")
    like = as_strong_value(x)
    sizes = like.type.shape if shape is None else shape
    return full(sizes, fill_value, _dtype_or(dtype, like.dtype))


@public()
def zeros_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """Zeros; dtype and shape are those of `x` where not given."""
    no_device(device, "zeros_like")
    return full_like(x, 0, dtype, shape)


@public()
def ones_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """Ones; dtype and shape are those of `x` where not given."""
    no_device(device, "ones_like")
    return full_like(x, 1, dtype, shape)


@op()
def _iota(*, start: Size, step: Size, length: Size, dtype: DType) -> TensorType:
    """`length` integers from `start` by `step`."""
    require_room((length,), dtype)
    return TensorType(dtype, (length,))


def _print_iota(p: Printing) -> str:
    params = p.node.params
    start, step, length = params["start"], params["step"], params["length"]
    dtype = p.code(params["dtype"])
    if same_size(start, 0) and is_one(step):
        return f"{p.xp}.arange({p.code(length)}, dtype={dtype})"
    stop = p.code(start + length * step)
    step_text = "" if is_one(step) else f", {p.code(step)}"
    return f"{p.xp}.arange({p.code(start)}, {stop}{step_text}, dtype={dtype})"


_iota.rounding = "stored"
def _sizes_of_range(
    *, start: Size, step: Size, length: int, dtype: DType
) -> KnownSizes:
    return np.array([start + i * step for i in range(length)], dtype=object)


_iota.emit(_print_iota)
_iota.sizes, _iota.wraps = _sizes_of_range, True


@_iota.padding
def _(pad: Padding, *, start: Size, step: Size, length: Size, dtype: DType) -> Value:
    params = pad.node.params
    if isinstance(params["start"], int) and isinstance(params["step"], int):
        return _iota(start=start, step=step, length=length, dtype=dtype)
    first, by = pad.length(params["start"]), pad.length(params["step"])
    places = _iota(start=0, step=1, length=length, dtype=dtype)
    return cast(first + by * places, dtype)


@public()
def arange(
    start: ArrayLike,
    /,
    stop: ArrayLike | None = None,
    step: ArrayLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """Numbers from `start` up to, but without, `stop`, by `step`, as `numpy.arange`.

    Integers may be symbolic: the length is then computed once they are known.
    With floats, the length is ceil((stop - start) / step), a value like any other.
    """
    no_device(device, "arange")
    start, stop = (0, start) if stop is None else (start, stop)
    values = [as_value(v) for v in (start, stop, step)]
    for v in values:
        if v.type.rank:
            raise graph_error("bounds must be scalars", op="arange", got=str(v.type))
    if all(is_integer(v.dtype) for v in values):
        common = INT64 if all(v.type.weak for v in values) else None
        to = _dtype_or(dtype, common or common_dtype(values))
        first, last, by = map(as_size, values)
        return _integer_range(first, last, by, to)
    return _float_range(values, dtype)


def _integer_range(start: Size, stop: Size, step: Size, dtype: DType) -> Value:
    if isinstance(step, int) and step == 0:
        raise graph_error("the step is 0", op="arange")
    if isinstance(step, int) and step < 0:
        length = dims.ceil_div(start - stop, -step)
    else:
        length = dims.ceil_div(stop - start, step)
    to_int = dtype if is_integer(dtype) else INT64
    length = dims.maximum(0, length)
    if isinstance(start, int) and start > np.iinfo("int64").max:  # too large for a size
        places = _iota(start=0, step=step, length=length, dtype=to_int)
        return cast(F.add(number_constant(start, to_int), places), dtype)
    return cast(_iota(start=start, step=step, length=length, dtype=to_int), dtype)


def _float_range(values: list[Value], dtype: DTypeLike | None) -> Value:
    start, stop, step = values
    to = _dtype_or(dtype, as_strong_value(common_weak(values)).dtype)
    steps = F.ceil((stop - start) / step)
    literal = [literal_of(v) for v in values]
    if all(x is not None for x in literal):
        a, b, s = (float(x) for x in literal)  # type: ignore[arg-type]
        length: Size = max(0, int(np.ceil((b - a) / s)))
    else:
        length = dims.maximum(0, as_size(cast(strong(steps), INT64)))
    index = _iota(start=0, step=1, length=length, dtype=INT64)
    return cast(start, to) + cast(index, to) * cast(step, to)


def common_weak(values: list[Value]) -> Value:
    """The sum of `values`, for its dtype."""
    total = values[0]
    for v in values[1:]:
        total = total + v
    return total


@public()
def eye(
    N: SizeLike,
    M: SizeLike | None = None,
    /,
    k: SizeLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """Ones on diagonal `k` of an N x M matrix, zeros elsewhere."""
    no_device(device, "eye")
    rows = as_size(N)
    columns = rows if M is None else as_size(M)
    check_shape((rows, columns), "eye")
    k = integer_like(k, "the diagonal")
    result_dtype = _dtype_or(dtype, config.float)
    i = with_room(F.arange(size_value(rows)), (rows, columns), result_dtype, "eye")
    j = F.arange(size_value(columns))
    matrix = cast(F.equal(F.expand_dims(i, 1) + k, j), result_dtype)
    return with_sizes(matrix, (rows, columns), "eye")


enroll(eye, "identity")


@public()
def tri(
    N: SizeLike,
    M: SizeLike | None = None,
    k: SizeLike = 0,
    dtype: DTypeLike | None = None,
) -> Value:
    """Ones at and below diagonal `k` of an N x M matrix, zeros above."""
    rows = as_size(N)
    columns = rows if M is None else as_size(M)
    k = integer_like(k, "the diagonal")
    result_dtype = _dtype_or(dtype, config.float)
    i = with_room(F.arange(size_value(rows)), (rows, columns), result_dtype, "tri")
    below = F.expand_dims(i, 1) + k >= F.arange(size_value(columns))
    return cast(below, result_dtype)


def _triangle(x: ArrayLike, k: SizeLike, upper: bool, op_name: str) -> Value:
    value = as_strong_value(x)
    if value.type.rank < 2:
        raise graph_error("needs a matrix", op=op_name, got=str(value.type))
    rows, columns = value.shape[-2:]
    keep = tri(rows, columns, k - 1 if upper else k, BOOL)
    zero = zeros_like(value)
    return F.where(keep, zero, value) if upper else F.where(keep, value, zero)


def _declare_triangle(name: str, upper: bool, doc: str) -> None:
    @public(name=name, doc=doc)
    def function(x: ArrayLike, /, k: SizeLike = 0) -> Value:
        return _triangle(x, k, upper, name)


_declare_triangle("tril", False, "The lower triangle, zeros above diagonal `k`.")
_declare_triangle("triu", True, "The upper triangle, zeros below diagonal `k`.")


@public()
def asarray(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
    copy: bool | None = None,
) -> Value:
    """Convert numbers, arrays or nested lists of values to one value.

    `copy` has no effect: values never change.
    """
    no_device(device, "asarray")
    value = as_value(x)
    if dtype is None and isinstance(x, (list, tuple)) and _plain_numbers(x):
        dtype = default_dtype(value.dtype)
    return strong(value) if dtype is None else cast(value, dtype_of(dtype))


def _plain_numbers(x: ArrayLike) -> bool:
    """Whether nested lists hold only Python numbers, which have no dtype yet."""
    if isinstance(x, (list, tuple)):
        return all(map(_plain_numbers, x))
    return type(x) in (int, float, complex)


def _copy(x: Value) -> Value:
    """Return the value itself, as values never change."""
    return x


enroll_method(_copy, "copy")
enroll(asarray, "array")
enroll(asarray, "constant")
