"""The common parts of random draws: keys, default dtypes, shapes and printing."""

from collections.abc import Callable, Sequence

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_value,
    cast,
    check_shape,
    shape_text,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import (
    Array,
    Primitive,
    Printing,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import (
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    DType,
    TensorType,
    dtype_of,
    is_float,
    is_integer,
    same_size,
)
from graphc.ops.common.broadcasting import require_room
from graphc.ops.random import batching, gradients

MAKE_KEY = "make one with gt.random.key(seed)"


def as_key(key: ArrayLike, name: str) -> Value:
    """Check a key: the two words (uint32) that `gt.random.key` and `split` make."""
    key_dtype = str(getattr(key, "dtype", ""))
    if key_dtype.startswith("key<"):
        raise graph_error(
            "needs the words of the key, uint32[2]",
            op=name,
            got=f"a JAX key array {key_dtype}",
            hint="pass jax.random.key_data(key)",
        )
    value = as_value(key)
    if value.dtype == UINT32 and value.type.rank == 1:
        return value
    batch = value.dtype == UINT32 and value.type.rank > 1
    hint = "take one of the keys, as keys[i]" if batch else MAKE_KEY
    got = str(value.type)
    raise graph_error("needs one key, uint32[2]", op=name, got=got, hint=hint)


def require_key(key: Value) -> None:
    """Require `key` to be one key; to be called inside a type rule."""
    if key.dtype != UINT32 or key.type.rank != 1:
        raise type_error("needs one key, uint32[2]", hint=MAKE_KEY)
    require_equal(key.type.shape[0], 2, "a key has two words")


def is_wide(values: Sequence[Value], dtype: DTypeLike | None = None) -> bool:
    """Whether JAX would need its 64-bit mode for these arguments."""
    dtypes = [v.dtype for v in values if not v.type.weak]
    dtypes += [config.float] if dtype is None else [config.float, dtype_of(dtype)]
    return any(d.itemsize >> (d.kind == "c") == 8 for d in dtypes)


def float_dtype(name: str, dtype: DTypeLike | None, values: Sequence[Value]) -> DType:
    """The dtype of a real draw: `dtype`, or the default float.

    The default is float64 where an argument has 64 bits. Raises GraphError where
    `dtype` is no float.
    """
    if dtype is None:
        return FLOAT64 if is_wide(values) else config.float
    result = dtype_of(dtype)
    if not is_float(result):
        raise graph_error("draws floats", op=name, got=f"dtype {result.name}")
    return result


def int_dtype(name: str, dtype: DTypeLike | None, values: Sequence[Value]) -> DType:
    """The dtype of an integer draw: `dtype`, or one as wide as the default float.

    The default is int64 where an argument has 64 bits. Raises GraphError where `dtype`
    is no integer.
    """
    if dtype is None:
        return INT64 if is_wide(values) else INT32
    result = dtype_of(dtype)
    if not is_integer(result):
        raise graph_error("draws integers", op=name, got=f"dtype {result.name}")
    return result


def real(name: str, x: ArrayLike) -> Value:
    """Convert a parameter, which must be real, to a value."""
    value = as_value(x)
    if value.dtype.kind == "c":
        raise graph_error("parameters must be real", op=name, got=str(value.type))
    return value


def floating(name: str, x: ArrayLike, dtype: DTypeLike | None = None) -> Value:
    """Convert a parameter to a strong float for a draw of `dtype`.

    Python numbers and integers become the default float, or float64 where JAX would
    need its 64-bit mode.
    """
    value = real(name, x)
    if is_float(value.dtype) and not value.type.weak:
        return value
    return cast(value, FLOAT64 if is_wide([value], dtype) else config.float)


def drawn_shape(name: str, shape: ShapeLike | None, *parts: Shape) -> Shape:
    """The shape asked for, or the one that the parameters broadcast to."""
    if shape is not None:
        return check_shape(as_shape(shape), name)
    common: list[Size] = [1] * max(map(len, parts), default=0)
    for part in parts:
        for i, n in enumerate(part, -len(part)):
            if same_size(n, 1) or same_size(n, common[i]):
                continue
            if not same_size(common[i], 1) and dims.equal(common[i], n) is False:
                got = ", ".join(map(shape_text, parts))
                raise graph_error("parameters do not broadcast", op=name, got=got)
            common[i] = n
    return tuple(common)


def drawn_type(dtype: DType, shape: Shape) -> TensorType:
    """The type of a draw, which must fit into memory; for use inside a type rule."""
    require_room(shape, dtype)
    return TensorType(dtype, shape)


def require_shape(shape: Shape, *parts: Shape) -> None:
    """Require the shapes of parameters to broadcast to `shape`, inside a type rule."""
    for n in shape:
        require_at_most(0, n, "a size must not be negative")
    reason = "parameters must broadcast to the shape"
    for part in parts:
        if len(part) > len(shape):
            raise type_error(
                f"the parameters do not broadcast to the shape {shape_text(shape)}"
            )
        for n, target in zip(part, shape[len(shape) - len(part) :], strict=True):
            if not same_size(n, 1):
                require_equal(n, target, reason, kind="broadcast")


def call_text(p: Printing, function: str, *more: Param) -> str:
    """Return the text of a call of `function` with the inputs, then `more`."""
    return f"{function}({', '.join([*p.inputs, *map(p.code, more)])})"


def emit_draw(
    primitive: Primitive,
    helper: Callable[..., object],
    params: Sequence[str] = (),
    printed: Callable[[Printing, str], str] | None = None,
) -> None:
    """Print a draw as a call of `helper`, or of the function of `jax.random`.

    `printed` prints the call of a function; by default, the function is called with the
    inputs, then with these params.
    """

    def call(p: Printing, function: str) -> str:
        return call_text(p, function, *(p.node.params[name] for name in params))

    text = printed or call
    name = primitive.name.removeprefix("random_")
    primitive.emit(
        numpy=lambda p: text(p, p.helper(helper)),
        jax=lambda p: text(p, f"jax.random.{name}"),
    )


_SAMPLERS: dict[str, Primitive] = {}


def draw(
    name: str, key: ArrayLike, shape: ShapeLike | None, dtype: DType, *params: Value
) -> Value:
    """Draw from the distribution that `sampler` declared as `name`.

    The parameters broadcast to the shape, which by default follows from them.
    """
    op_name = f"random.{name}"
    sizes = drawn_shape(op_name, shape, *(v.type.shape for v in params))
    return _SAMPLERS[name](as_key(key, op_name), *params, shape=sizes, dtype=dtype)


def sampler(name: str, helper: Callable[..., object], *, dtype: bool = True) -> None:
    """Declare the primitive of a distribution.

    JAX programs call the function of the same name in `jax.random`, and NumPy programs
    call `helper`: with the key, the parameters, the shape and, if `dtype` is true, the
    dtype. The primitive never runs on the host in place of the device, where numbers
    may differ.
    """

    def infer(key: Array, *params: Array, shape: Shape, dtype: DType) -> TensorType:
        require_key(key)
        require_shape(shape, *(p.type.shape for p in params))
        return drawn_type(dtype, shape)

    primitive = Primitive(f"random_{name}", infer, on_host=False)
    emit_draw(primitive, helper, ["shape", "dtype"] if dtype else ["shape"])
    if name in gradients.REFUSED:
        primitive.no_gradient(gradients.REFUSED[name])
    if name in gradients.SLOPES:
        gradients.pathwise(primitive, gradients.SLOPES[name])
    batching.declare_mapped(primitive)
    _SAMPLERS[name] = primitive
