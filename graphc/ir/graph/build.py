"""Convert user input (numbers, arrays, lists, values) to values and sizes."""

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import SizeLike
from graphc.ir.graph.arithmetic import arithmetic
from graphc.ir.graph.nodes import Node, Value, known_sizes, origins
from graphc.ir.graph.op import Printing, op
from graphc.ir.integers import integer_error, integer_or_none
from graphc.ir.namespace import F, enroll, user_op
from graphc.ir.params.exactness import has_room
from graphc.ir.params.kinds import KINDS, MOST_AXES, Param, ParamKind, Text
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim
from graphc.ir.types import (
    DTYPES,
    ConcreteArray,
    DType,
    NDArray,
    TensorType,
    dtype_of,
    is_integer,
    name_of,
)

SIZE = np.dtype("int64")
Shape = tuple[Size, ...]


class Data:
    """A read-only array that can be a param: equal by dtype, shape and bytes."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: NDArray) -> None:
        self.array: NDArray = np.array(array, order="C")
        self.array.setflags(write=False)
        self._hash = hash((array.dtype, array.shape, self.array.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Data) or self._hash != other._hash:
            return False
        a, b = self.array, other.array
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and a.tobytes() == b.tobytes()

    def __repr__(self) -> str:
        return f"Data({self.array.tolist()!r})"


KINDS[Data] = ParamKind("an array", lambda x: type(x) is Data)


@op(interned=False)
def _input(*, name: Text, type: TensorType, of_body: bool) -> TensorType:
    """A variable: an argument of the compiled function, or an input of a body."""
    return type


@op(inline=True)
def _constant(*, data: Data, weak: bool) -> TensorType:
    """A literal array; `weak` marks a Python number."""
    return TensorType(data.array.dtype, data.array.shape, weak)


@op(inline=True)
def _size(*values: Value, size: Dim) -> TensorType:
    """A size as a number: a weak integer scalar. `values` are its origins."""
    return TensorType(SIZE, (), weak=True)


_input.rounding = _constant.rounding = _size.rounding = "stored"
_input.range = lambda node: (node.params["name"].content, None, None)


def _sizes_of_constant(*, data: Data, weak: bool) -> NDArray:
    truths = data.array.dtype.kind == "b"
    return (data.array.astype("int8") if truths else data.array).astype(object)


_constant.sizes = _sizes_of_constant
_size.sizes = lambda *values, size: size
_size.long_sizes = True


def print_literal(p: Printing) -> str:
    """A constant as an expression of exactly its dtype."""
    return p.code(p.node.params["data"])


def print_size(p: Printing) -> str:
    """A size as the Python integer expression that computes it."""
    return p.code(p.node.params["size"])


_constant.emit(print_literal)
_size.emit(print_size)
INPUT, CONSTANT, SIZE_OP = _input, _constant, _size
_size.demanding = False  # a size that is not on the host is computed by the node
_size.no_gradient("its result is an integer")


@_size.batch
def _(n: Size, batched: Sequence[bool], *values: Value, size: Dim) -> Value:
    """A number per example, as int64, computed from the origins of the size."""
    numbers: dict[Symbol, Any] = dict.fromkeys(size.symbols)
    for symbol in size.symbols:
        numbers[symbol] = size_value(symbol_dim(symbol))
    for origin, value in zip(origins(size), values, strict=True):
        numbers[origin.symbol] = cast(value, SIZE)
    number = arithmetic(size, numbers.__getitem__)
    return cast(as_strong_value(number), SIZE)


def variable(name: str, type: TensorType) -> Value:
    """A new input variable, distinct from any other, even one of the same name."""
    return _variable(name, type, of_body=False)


def body_input(name: str, type: TensorType) -> Value:
    """A variable for tracing the body of a loop or branch, or for an input of one."""
    return _variable(name, type, of_body=True)


def _variable(name: str, type: TensorType, of_body: bool) -> Value:
    declared: dict[str, Param] = {"name": Text(name), "type": type, "of_body": of_body}
    params = INPUT.kinds.checked(declared)
    return Node(INPUT, (), params, (type,)).outputs[0]


def set_lower_bound(value: Value, least: int | None) -> None:
    """Set a lower bound for a number given to a body, where it is used as a size."""
    if least is not None and value._symbol is None:
        name = value.node.params["name"].content
        value._symbol = Symbol(name, value, least)


def is_body_input(node: Node) -> bool:
    """Whether a node is the input of a body, as opposed to an argument of a program."""
    return node.primitive is INPUT and bool(node.params["of_body"])


def constant(array: Any, weak: bool = False) -> Value:
    """Return the value of a literal array, with the array's dtype."""
    return CONSTANT(data=Data(array), weak=weak)


def size_value(size: Size) -> "int | Value":
    """A size as users see it: an int where static, else a symbolic integer."""
    if isinstance(size, int):
        return size
    value: Value = SIZE_OP(*origins(size), size=size)
    return value


enroll(size_value, "size_value")


def literal_of(value: Value) -> NDArray | None:
    """The array of a constant, or None for any other value."""
    if value.node.primitive is CONSTANT:
        return value.node.params["data"].array
    return None


_WEAK = {float: "float64", complex: "complex128"}
NUMBERS = frozenset((int, *_WEAK))  # the types of Python numbers, without bool


def as_value(x: Any) -> Value:
    """Convert a number, array, size, or nested list of values to one value.

    An object that stands for a value returns it by its method `__graphc_value__`.
    """
    if isinstance(x, Value):
        return x
    if isinstance(x, bool):
        return constant(np.asarray(x))
    if type(x) in NUMBERS:
        return constant(_number(x), weak=True)
    if isinstance(x, Dim):
        return as_value(size_value(x))
    if isinstance(x, (list, tuple)) and _holds_values(x):
        return F.stack([as_value(item) for item in x])
    if hasattr(type(x), "__graphc_value__"):
        return x.__graphc_value__()  # pyright: ignore[reportAttributeAccessIssue]
    return constant(_literal_array(x))


def number_constant(x: int | float | complex, dtype: DType) -> Value:
    """Make a constant of `dtype` from a Python number; raises if it does not fit."""
    return constant(_cast_number(_number(x), dtype))


def _number(x: int | float | complex) -> NDArray:
    if not isinstance(x, int):
        return np.asarray(x, dtype=_WEAK[type(x)])
    dtype = _integer_dtype(x)
    if dtype is None:
        bits = x.bit_length()
        shown = f"the integer {x}" if bits < 128 else f"an integer of {bits} bits"
        hint = f"beside floats, write {float(x)!r}" if bits < 1024 else ""
        raise graph_error(f"{shown} fits neither int64 nor uint64", hint=hint)
    return np.asarray(x, dtype)


def _integer_dtype(x: int) -> "DType | None":
    """The dtype that NumPy 2 gives a Python integer; None where no dtype holds it."""
    if -(2**63) <= x < 2**63:
        return SIZE
    return np.dtype("uint64") if 0 <= x < 2**64 else None


def _holds_values(items: Sequence[ConcreteArray], axes: int = 1) -> bool:
    if axes > MOST_AXES:
        problem = f"lists are nested deeper than the {MOST_AXES} axes of arrays"
        raise graph_error(problem)
    return any(
        isinstance(i, (Value, Dim))
        or hasattr(type(i), "__graphc_value__")
        or (isinstance(i, (list, tuple)) and _holds_values(i, axes + 1))
        for i in items
    )


def _literal_array(x: Any) -> NDArray:
    if _is_masked(x):
        raise graph_error(
            "a masked array would lose its mask",
            got=f"{type(x).__name__} of shape {np.shape(x)}",
            hint="fill it with numpy.ma.filled(x, value), or give x.data and x.mask",
        )
    if isinstance(x, np.matrix):
        problem = "a numpy.matrix has rules of multiplication of its own"
        hint = "np.asarray(m) is an array, which multiplies by @"
        raise graph_error(problem, got=f"matrix of shape {x.shape}", hint=hint)
    try:
        array = np.asarray(x)
    except GraphError:  # raised for an item of `x`
        raise
    except TypeError as error:
        if not type(error).__name__.startswith("Tracer"):
            raise
        raise graph_error(
            "not an array: JAX is tracing it",
            got=_short_repr(x),
            hint="in functions of JAX use jax.numpy; for values, graphc.grad(cost, x)",
        ) from None
    except ValueError as error:
        hint = "make rows equally long" if "inhomogeneous" in str(error) else ""
        problem = "not an array" if hint else f"not an array: {error}"
        raise graph_error(problem, got=_short_repr(x), hint=hint) from None
    if name_of(array.dtype) not in DTYPES:
        raise _no_array_error(x, array)
    return array


def _no_array_error(x: object, array: NDArray) -> GraphError:
    """The error for input that NumPy reads as objects, text, times or records."""
    library = type(x).__module__.partition(".")[0]
    is_array = hasattr(x, "dtype") or (isinstance(x, (list, tuple)) and x)
    if is_array and library != "pytensor":
        return graph_error(
            f"arrays of dtype {array.dtype} are not supported",
            got=f"{type(x).__name__} of shape {array.shape}",
            hint=_NO_NUMBERS.get(array.dtype.kind, "give an array of numbers"),
        )
    hint = "give an array or a number"
    if callable(x):
        hint = "call it first: a function is not a value"
    elif library == "pytensor":
        hint = 'compile graphs of PyTensor by pytensor.function(..., mode="GRAPHC")'
    elif x is None:
        hint += '; "x is None" tells whether there is one'
    return graph_error("neither an array nor a number", got=_short_repr(x), hint=hint)


_NO_NUMBERS = {
    "O": "give numbers alone: these are objects of Python",
    "U": 'x.astype("float64") converts text that holds numbers',
    "S": 'x.astype("float64") converts text that holds numbers',
    "M": 'x.astype("int64") converts times to integers',
    "m": 'x.astype("int64") converts times to integers',
    "V": "give the fields one by one, as x['name']",
}


def _is_masked(x: object) -> bool:
    if type(x) is np.ndarray or isinstance(x, np.generic):
        return False
    if isinstance(x, (list, tuple)):
        return any(map(_is_masked, x))
    return bool(np.ma.is_masked(x))


def as_size(x: object, what: str = "a size") -> Size:
    """Convert an integer, integer scalar value or dim to a size; may be negative."""
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        if not -(2**63) <= x < 2**63:
            raise graph_error(f"{what} must fit int64", got=str(x))
        return int(x)
    if isinstance(x, Dim):
        return x
    if isinstance(x, np.ndarray):
        x = as_value(x)
    if isinstance(x, Value) and x.type.rank == 0 and is_integer(x.dtype):
        sizes = known_sizes(x)
        assert sizes is not None
        size: Any = sizes[()]
        return size
    kind = type(x).__name__
    got = str(x.type) if isinstance(x, Value) else f"{kind} {_short_repr(x)}"
    hint = 'convert it: int(n), or n.astype("int64") of a symbolic scalar'
    if isinstance(x, Value) and x.node.primitive is OP.true_divide:
        hint = "write a // b, which gives an integer"
    elif (isinstance(x, Value) and x.type.rank) or isinstance(x, (list, tuple)):
        hint = "give one integer: the size of an axis is x.shape[0]"
    if isinstance(x, str):
        hint = "write the size of an axis that has the name, as x.shape[0]"
    raise graph_error(f"{what} must be an integer scalar", got=got, hint=hint)


def integer_like(x: SizeLike, what: str) -> SizeLike:
    """Return `x` if it is an integer of the graph; otherwise it must be an int."""
    size = as_size(x, what)
    return size if isinstance(size, int) else x


def _short_repr(x: object) -> str:
    """The repr of an object, shortened for nested containers."""
    return reprlib.repr(x) if isinstance(x, (list, tuple, dict)) else repr(x)


def as_shape(x: object) -> Shape:
    """Convert one size, a sequence of sizes, or an integer vector value to a shape."""
    if isinstance(x, Value) and x.type.rank == 1:
        length = x.type.shape[0]
        if not isinstance(length, int):
            raise graph_error(
                "a shape vector must have a static length: rank is always static",
                got=str(x.type),
            )
        x = [x[i] for i in range(length)]
    if isinstance(x, np.ndarray) and x.ndim == 1:
        x = x.tolist()
    if not isinstance(x, (list, tuple)):
        x = (x,)
    return tuple(as_size(n) for n in x)


def no_device(device: object, op_name: str) -> None:
    """Raise GraphError unless the Array API's `device` is None, as for all values."""
    if device is not None:
        raise graph_error(
            "a graph names no device",
            op=op_name,
            got=f"device={device!r}",
            hint="leave it out: arrays are where the compiled function puts them",
        )


def check_shape(shape: Shape, op_name: str) -> Shape:
    """Return `shape`; raises GraphError for a size that is surely negative."""
    for n in shape:
        if isinstance(n, int) and n < 0:
            raise graph_error(
                f"negative size {n}",
                op=user_op(op_name),
                got=f"shape {shape_text(shape)}",
                hint="sizes are 0 or more; only reshape infers a size from -1",
            )
    return shape


def shape_text(shape: Sequence[Size]) -> str:
    """A shape as text: `(n, 3)`."""
    return tuple_text(map(str, shape))


def tuple_text(items: Iterable[str]) -> str:
    """A tuple of expressions: `(a, b)`, `(a,)` or `()`."""
    listed = list(items)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def normal_axis(axis: object, rank: int, op_name: str) -> int:
    """Normalise one axis to 0..rank-1; raises GraphError when it is out of range."""
    number = integer_or_none(axis)
    if number is None:
        problem = "an axis must be an integer"
        raise integer_error(axis, problem, user_op(op_name), f"axis {axis!r}")
    if not -rank <= number < rank:
        raise graph_error(
            f"axis {number} is out of range",
            op=user_op(op_name),
            got=f"a value of rank {rank}",
            expected=f"an axis from {-rank} to {rank - 1}" if rank else "no axis",
        )
    return number % rank


def normal_axes(axis: object, rank: int, op_name: str) -> tuple[int, ...]:
    """Normalise axes to sorted, distinct ones; None stands for all axes."""
    if axis is None:
        return tuple(range(rank))
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(normal_axis(a, rank, op_name) for a in listed))
    if len(set(axes)) < len(axes):
        got = f"axis {axis!r}"
        raise graph_error("an axis is named twice", op=user_op(op_name), got=got)
    return axes


def cast(x: Value, dtype: DType, weak: bool = False) -> Value:
    """Cast `x` to a dtype: folds constants, and returns `x` if nothing changes."""
    if x.dtype == dtype and x.type.weak == weak:
        return x
    array = literal_of(x)
    if array is not None and (array.ndim == 0 or x.type.weak):
        cast_array = _cast_number(array, dtype) if x.type.weak else array.astype(dtype)
        return constant(cast_array, weak)
    return F._convert(x, dtype=dtype, weak=weak)


def _cast_number(array: NDArray, dtype: DType) -> NDArray:
    if is_integer(dtype) and is_integer(array.dtype):
        number = int(array)
        if not has_room(dtype, number):
            wide = _integer_dtype(number)
            hint = f'widen the other operand first: x.astype("{wide}")'
            problem = f"the integer {number} does not fit {dtype.name}"
            raise graph_error(problem, hint=hint)
    return array.astype(dtype)


def strong(x: Value) -> Value:
    """Make `x` strong: a Python number becomes an array of its default dtype."""
    return cast(x, default_dtype(x.dtype)) if x.type.weak else x


def as_strong_value(x: object) -> Value:
    """Convert as `as_value` does, but give a Python number its default dtype."""
    return strong(as_value(x))


def default_dtype(dtype: DType) -> DType:
    """The dtype of a Python number of this kind where no dtype is given."""
    if dtype.kind == "f":
        return config.float
    if dtype.kind == "c" and config.float.itemsize < 8:
        return dtype_of("complex64")
    return dtype
