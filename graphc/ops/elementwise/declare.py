"""Elementwise ops: how they are declared, and NumPy's promotion (NEP 50).

A primitive of this family takes inputs of exactly its loop's dtypes. The public
function of the same name converts to them, so that every cast stands in the graph and
both backends compute in the same precision. Inputs broadcast; two sizes that cannot be
proved equal become a guard, and only a size that is 1 when the graph is built
stretches.

Both backends give what NumPy gives, except for rounding (JAX's exp2, sinh and cosh lose
about as many units in the last place as x is large), branch cuts of complex functions
(JAX ignores the sign of a zero there), the reciprocal of the integer 0, and negative
integer powers of integers: where these are data, NumPy always raises, and JAX only with
`check=True`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import (
    CONSTANT,
    NUMBERS,
    SIZE_OP,
    as_size,
    as_strong_value,
    as_value,
    cast,
    no_device,
    number_constant,
    size_value,
    strong,
)
from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.graph.op import (
    Array,
    Emit,
    NamedRange,
    Primitive,
    Printing,
    TypeRule,
    Vjp,
    op,
    require_at_most,
    type_error,
)
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.exactness import MOST_PADDED, Range, has_room, lies_within, limits
from graphc.ir.sizes.dims import Size, bounds
from graphc.ir.sizes.polynomials import Symbol
from graphc.ir.sizes.truths import choose, truth
from graphc.ir.types import (
    BOOL,
    INT64,
    DType,
    TensorType,
    dtype_of,
    is_float,
    is_integer,
)
from graphc.ops.common.broadcasting import (
    WEAK_KEYS,
    Ufunc,
    broadcast,
    loop_dtypes,
    promoted,
    weak_key,
)
from graphc.ops.common.known_integers import KnownSizes, by_item
from graphc.ops.common.narrow_integers import converted_text
from graphc.ops.common.padding import ELEMENTS


def elementwise_rule(ufunc: Ufunc) -> Callable[..., TensorType]:
    """The type rule of a one-output ufunc."""

    of_own = OWN_LOOPS[ufunc]

    def unary(x: Array) -> TensorType:
        operand = x.type
        dtype = of_own[operand.dtype] or _exact_loop(ufunc, (operand.dtype,))
        return _output_type(operand, dtype, operand.shape, operand.weak)

    def binary(x: Array, y: Array) -> TensorType:
        first, second = x.type, y.type
        dtype = of_own[first.dtype] if first.dtype is second.dtype else None
        dtype = dtype or _exact_loop(ufunc, (first.dtype, second.dtype))
        if first is second:
            return _output_type(first, dtype, first.shape, first.weak)
        shape = broadcast(first.shape, second.shape)
        return _output_type(
            first if shape is first.shape else second,
            *(dtype, shape, first.weak and second.weak),
        )

    return unary if ufunc.nin == 1 else binary


class OwnLoops(dict[DType, DType | None]):
    """The dtype of the result for inputs that are all of one dtype.

    It is None if NumPy's loop for them has other dtypes. A look-up here takes a fifth
    of the time of one in the cache of `loop_dtypes`, which has a longer key.
    """

    def __init__(self, ufunc: Ufunc) -> None:
        super().__init__()
        self._ufunc = ufunc

    def __missing__(self, dtype: DType) -> DType | None:
        operands = (dtype,) * self._ufunc.nin
        loop = loop_dtypes(self._ufunc, operands)
        exact = loop is not None and loop[:-1] == operands
        result = self[dtype] = loop[-1] if loop is not None and exact else None
        return result


class _ByUfunc(dict[Ufunc, OwnLoops]):
    def __missing__(self, ufunc: Ufunc) -> OwnLoops:
        loops = self[ufunc] = OwnLoops(ufunc)
        return loops


OWN_LOOPS = _ByUfunc()


def _output_type(
    first: TensorType, dtype: DType, shape: tuple[Size, ...], weak: bool
) -> TensorType:
    """The type of the output: the object `first` itself if the two are equal."""
    weak = weak and dtype.kind in WEAK_KEYS
    if dtype is first.dtype and shape is first.shape and weak is first.weak:
        return first
    return TensorType(dtype, shape, weak)


def _exact_loop(ufunc: Ufunc, operands: tuple[DType, ...]) -> DType:
    loop = loop_dtypes(ufunc, operands)
    if loop is None or loop[: len(operands)] != operands:
        raise type_error("these dtypes have no common loop", hint="convert first")
    return loop[-1]


def apply(primitive: Primitive, ufunc: Ufunc, args: tuple[Any, ...]) -> Value:
    """Convert the arguments to the loop's dtypes and build the node.

    If all arguments are Python numbers or sizes, the result is a Python number too: a
    weak scalar.
    """
    common = _strong_dtype(args)
    if common is not None and OWN_LOOPS[ufunc][common] is not None:
        return primitive.bind(args, {}).outputs[0]  # as below, where nothing converts
    values = [a if type(a) in NUMBERS else as_value(a) for a in args]
    keys = tuple([weak_key(v) if isinstance(v, Value) else type(v) for v in values])
    if all([isinstance(key, type) for key in keys]):
        return _apply_weak(primitive, ufunc, [as_value(v) for v in values])
    loop = loop_dtypes(ufunc, keys)
    if loop is None:
        raise _loop_error(primitive, values)
    return primitive(
        *[
            cast(v, dtype) if isinstance(v, Value) else number_constant(v, dtype)
            for v, dtype in zip(values, loop, strict=False)
        ]
    )


def _strong_dtype(args: tuple[object, ...]) -> DType | None:
    """The dtype that all arguments share as strong values; None if there is none."""
    common = None
    for arg in args:
        if type(arg) is not Value or arg.type.weak:
            return None
        dtype = arg.type.dtype
        if common is not None and dtype is not common:
            return None
        common = dtype
    return common


def _apply_weak(primitive: Primitive, ufunc: Ufunc, values: list[Value]) -> Value:
    kinds = [INT64 if v.dtype.kind == "u" else v.dtype for v in values]
    loop = loop_dtypes(ufunc, tuple(kinds))
    if loop is None:
        raise _loop_error(primitive, values)
    values = [cast(v, dtype, True) for v, dtype in zip(values, loop, strict=False)]
    size = _weak_size(primitive, values) if is_integer(loop[-1]) else None
    return primitive(*values) if size is None else as_value(size_value(size))


def _loop_error(primitive: Primitive, values: Sequence[Value]) -> Exception:
    got = ", ".join(str(as_value(v).type) for v in values)
    return graph_error("no loop for these dtypes", op=primitive.name, got=got)


def _weak_size(primitive: Primitive, values: list[Value]) -> Size | None:
    """Do arithmetic on sizes by that of dims; None if that is impossible.

    Numbers that a loop carries are no sizes: they wrap around like integers of arrays.
    """
    if any(v.node.primitive not in (CONSTANT, SIZE_OP) for v in values):
        return None
    known = [known_sizes(v) for v in values]
    if primitive.sizes is None or any(k is None for k in known):
        return None
    with np.errstate(invalid="ignore"):  # of other code: sizes are Python's numbers
        size: Size | None = primitive.sizes(*(k[()] for k in known if k is not None))
    return size


def elementwise(
    name: str,
    template: str,
    ufunc: Ufunc,
    *,
    rule: TypeRule | None = None,
    jax: str | Emit | None = None,
    sizes: Callable[..., object] | None = None,
    method: bool = False,
    doc: str = "",
    vjp: Vjp | None = None,
    no_gradient: str = "",
    compares: Callable[[int, int], bool] | None = None,
    **traits: Any,
) -> Callable[..., Value]:
    """Declare an elementwise op: its primitive and its public function.

    `ufunc` has the loops, and is the function that the docstring names unless there is
    a `doc`. `vjp` is the rule of the gradient, or `no_gradient` the reason for having
    none; `compares` is the same comparison of Python's integers. `traits` are those of
    the primitive, such as `linear=`.
    """
    infer = rule or elementwise_rule(ufunc)
    traits |= {"sizes": sizes, "literals": "beside", "elementwise": True}
    primitive = Primitive(name, infer, **traits)
    ELEMENTS.define(primitive, ufunc)
    primitive.emit(numpy=template, jax=jax or template)
    if vjp is not None:
        primitive.vjp(vjp)
    if no_gradient:
        primitive.no_gradient(no_gradient)

    doc = doc or f"Elementwise {name}, as `numpy.{ufunc.__name__}`."
    if ufunc.nin == 1:

        @public(name=name, method=method, doc=doc)
        def function(x: ArrayLike, /) -> Value:  # pyright: ignore[reportRedeclaration]
            return apply(primitive, ufunc, (x,))
    else:

        @public(name=name, method=method, doc=doc)
        def function(x: ArrayLike, y: ArrayLike, /) -> Value:  # type: ignore[misc]
            if compares is not None:
                known = _compare_beyond(compares, x, y)
                if known is not None:
                    return known
                x, y = _strong_unless_fit(x, y), _strong_unless_fit(y, x)
            return apply(primitive, ufunc, (x, y))

    return function


def _strong_unless_fit(number: ArrayLike, other: ArrayLike) -> ArrayLike:
    """Make a weak integer strong unless it fits the integers it is compared with."""
    if not (isinstance(number, Value) and isinstance(other, Value)):
        return number
    both = is_integer(number.dtype) and is_integer(other.dtype)
    if not both or other.type.weak or number.node.primitive is CONSTANT:
        return number
    is_size = number.node.primitive is SIZE_OP
    return (
        number if is_size and _holds(other.dtype, as_size(number)) else strong(number)
    )


def _compare_beyond(
    compares: Callable[[int, int], bool], x: ArrayLike, y: ArrayLike
) -> Value | None:
    """Compare integers with a Python integer that is out of their dtype's range.

    All of them lie on the side of it where 0 is. The result is None in all other cases.
    """
    if type(x) is int and isinstance(y, Value):
        answer, array, number = compares(x, 0), y, x
    elif type(y) is int and isinstance(x, Value):
        answer, array, number = compares(0, y), x, y
    else:
        return None
    if not is_integer(array.dtype) or array.type.weak:
        return None
    if has_room(array.dtype, number):
        return None
    return F.broadcast_to(as_value(answer), array.type.shape)


@op()
def _convert(x: Array, *, dtype: DType, weak: bool) -> TensorType:
    """The elements as another dtype, as `numpy.ndarray.astype`.

    A Python integer must fit into an integer dtype, as in NumPy.
    """
    if is_integer(dtype) and not weak and x.type.weak and x.node.primitive is SIZE_OP:
        _require_fit(as_size(x), dtype)
    return TensorType(dtype, x.type.shape, weak)


def _require_fit(size: Size, dtype: DType) -> None:
    """Guard that a size fits a dtype.

    Sizes that a program computes are checked only for integers of few bits: no axis is
    long enough to overflow others, and reading a size would divide the program.
    """
    low, high = limits(dtype)
    if isinstance(size, int) or _holds(dtype, size):
        return
    if dtype.itemsize < 4 or all(s.origin is None for s in size.symbols):
        reason = f"{dtype} holds numbers from {low} to {high}"
        require_at_most(size, high, reason, "range")
        require_at_most(low, size, reason, "range")


def _holds(dtype: DType, size: Size) -> bool:
    """Whether an integer dtype has room for a size, with axes as long as they get."""
    return lies_within(size, _range, limits(dtype))


def _range(symbol: Symbol) -> Range:
    if symbol.origin is not None:
        return -(2**63), 2**63 - 1
    return symbol.lower or 0, MOST_PADDED


def _print_convert(p: Printing) -> str:
    dtype = p.code(p.node.params["dtype"])
    if p.node.inputs[0].type.weak:
        return f"{p.xp}.asarray({p.inputs[0]}, {dtype})"
    return f"{converted_text(p)}.astype({dtype})"


_convert.emit(_print_convert)
_convert.elementwise = _convert.linear = True
ELEMENTS.define(_convert, lambda x: x)
_convert.rounding = "once"


@_convert.vjp
def _(g: Value, x: Value, *, dtype: DType, weak: bool) -> tuple[Value]:
    if g.dtype.kind == "c" and x.dtype.kind != "c":
        g = F.real(g)
    return (cast(g, x.dtype),)


def _converted_sizes(x: KnownSizes, *, dtype: DType, weak: bool) -> KnownSizes:
    return by_item(truth, 1)(x) if dtype == BOOL else x


_convert.sizes, _convert.wraps = _converted_sizes, True
CONVERT = _convert


def _converted(x: Value, *, dtype: DType, weak: bool) -> Value:
    """Convert `x`; if `x` is an array that was made weak, return the array instead."""
    if x.type.weak and not weak and x.node.primitive is CONVERT:
        (array,) = x.node.inputs
        if array.dtype == dtype and not array.type.weak:
            return array
    return CONVERT(x, dtype=dtype, weak=weak)


enroll(_converted, "_convert")


@public(method=True)
def astype(
    x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: None = None
) -> Value:
    """The elements as `dtype`, as `numpy.ndarray.astype`; `copy` has no effect."""
    no_device(device, "astype")
    value, to = as_value(x), dtype_of(dtype)
    return cast(_wrap(value, to) if is_integer(to) else value, to)


def _wrap(x: Value, dtype: DType) -> Value:
    """Wrap a Python integer into the range of `dtype`, as a cast drops upper bits.

    Arrays stay as they are. Python floats keep all of their digits, which a float of
    the default dtype may not have.
    """
    if x.type.weak and is_float(x.dtype):
        return x
    if not x.type.weak or x.node.primitive is not SIZE_OP or dtype.itemsize == 8:
        return strong(x)
    size = as_size(x)
    if _holds(dtype, size):
        return x
    low, high = limits(dtype)
    return as_value(F.size_value((size - low) % (high - low + 1) + low))


@op()
def _where(condition: Array, x: Array, y: Array) -> TensorType:
    """`x` where `condition` is true, else `y`; all three broadcast."""
    if condition.dtype != BOOL or x.dtype != y.dtype:
        raise type_error("needs a bool condition and branches of one dtype")
    shape = broadcast(condition.type.shape, x.type.shape, y.type.shape)
    return TensorType(x.dtype, shape)


_where.rounding = "none"
_where.elementwise = _where.linear = _where.chooses = _where.picks = True
_where.sizes = by_item(choose, 3)


def _where_range(node: Node) -> NamedRange:
    """The range of a size that is one of two: the bounds of both hold it."""
    low, high = zip(*(bounds(as_size(x)) for x in node.inputs[1:]), strict=True)
    name = node.place.assigned or "where"
    least = None if None in low else min(low)
    return name, least, None if None in high else max(high)


_where.range = _where_range


@_where.vjp
def _(g: Value, condition: Value, x: Value, y: Value) -> tuple[Value | None, ...]:
    zero = cast(as_value(0), g.dtype)
    return None, F.where(condition, g, zero), F.where(condition, zero, g)


_where.literals = "beside"
_where.emit("{xp}.where({condition}, {x}, {y})")


@public()
def where(
    condition: ArrayLike, /, x: ArrayLike | None = None, y: ArrayLike | None = None
) -> Any:
    """`x` where `condition`, else `y`; with one argument, `nonzero(condition)`."""
    if x is None and y is None:
        return F.nonzero(condition)
    if x is None or y is None:
        raise graph_error("give both x and y or neither", op="where")
    test = cast(as_strong_value(condition), BOOL)
    return _where(test, *promoted(x, y))


@public(method=True)
def clip(
    x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None
) -> Value:
    """Limit the elements to `min`..`max`; None leaves that side open."""
    out = as_value(x)
    if min is not None:
        out = F.maximum(out, min)
    return out if max is None else F.minimum(out, max)


@public()
def sigmoid(x: ArrayLike) -> Value:
    """The logistic function 1 / (1 + exp(-x)), in its tanh form: never overflows."""
    half = F.multiply(0.5, x)
    return F.add(0.5, F.multiply(0.5, F.tanh(half)))


@public(name="divmod")
def divmod_(x: ArrayLike, y: ArrayLike) -> tuple[Value, Value]:
    """`(x // y, x % y)`."""
    return F.floor_divide(x, y), F.remainder(x, y)


@public(name="round", method=True)
def round_(x: ArrayLike, decimals: int = 0) -> Value:
    """Round to `decimals` places, halves to even, as `numpy.round`."""
    value = as_value(x)
    problem = "the number of decimals must be an integer"
    decimals = as_integer(decimals, problem, "round")
    if is_integer(value.dtype) and decimals >= 0:
        return value
    if decimals == 0:
        return F.rint(value)
    if value.dtype == BOOL:
        raise graph_error("bools have no decimals", op="round", got=str(value.type))
    if value.dtype.kind == "c":
        parts = (round_(part, decimals) for part in (F.real(value), F.imag(value)))
        return F._from_parts(*parts)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return F.rint(value * scale) / scale
    rounded = F.rint(value / scale) * scale
    return cast(rounded, value.dtype) if is_integer(value.dtype) else rounded
