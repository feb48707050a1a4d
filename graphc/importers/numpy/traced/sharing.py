"""Tables of NumPy's functions and methods by how they treat memory and dtypes.

Functions in no table give new arrays, or numbers where no axes are left.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.traced.memory import Content, always_copies, is_symbolic
from graphc.ir.graph.build import as_value, cast, strong
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.types import FLOAT64, INT64, DType, is_integer
from graphc.ops.common.broadcasting import common_dtype

READ_ONLY = "NumPy gives a view here that cannot be written"
REARRANGING = frozenset(  # functions and methods that give views
    [
        "transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze",
        "expand_dims", "flip", "fliplr", "flipud", "rot90", "atleast_1d",
        "atleast_2d", "atleast_3d", "diagonal", "broadcast_to", "split",
        "array_split", "hsplit", "vsplit", "dsplit", "matrix_transpose",
        "permute_dims", "unstack", "sliding_window_view",
    ]
)
RESHAPING = frozenset(["reshape", "ravel"])
KEEPING = {  # functions that may give the array itself
    *("array", "astype", "asarray", "asanyarray", "ascontiguousarray"),
    *("asfortranarray", "copy"),
}
CastingRule = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
WRITING = frozenset(  # functions that write into their first array
    ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]
)
PARTS = frozenset(["real", "imag"])
OF_NO_AXES = frozenset(  # functions that give arrays where most give numbers
    [
        "apply_along_axis", "array", "asanyarray", "asarray", "astype", "block",
        "broadcast_to", "copy", "cov", "empty_like", "expand_dims", "full",
        "full_like", "i0", "ones_like", "pad", "piecewise", "real_if_close", "resize",
        "roll", "select", "tensordot", "tile", "unique", "unique_all",
        "unique_inverse", "where", "zeros_like",
    ]
)
FIXED = dict.fromkeys(["diagonal", "broadcast_to", "sliding_window_view"], READ_ONLY)
FIXED |= dict.fromkeys(PARTS, "parts of complex numbers cannot be written here")


# Functions that turn Python numbers into arrays, which are int64 or float64 then.
MAKING_ARRAYS = frozenset(
    [
        "dot", "einsum", "inner", "intersect1d", "isin", "kron", "searchsorted",
        "setxor1d", "tensordot",
    ]
)  # fmt: skip
CHOOSING = frozenset(["choose", "piecewise", "select"])  # among arrays and numbers
# Functions that promote so many first arguments to at least the given dtype.
WIDENING = {
    "geomspace": (2, "float64"), "interp": (3, "float64"),
    "polyfit": (1, "int64"), "vander": (1, "int64"),
}  # fmt: skip
IN_FLOATS = frozenset(["var", "std", "nanvar", "nanstd", "nanmean"])
NO_BOOLS = frozenset(["cumprod", "nancumprod"])


def cast_arguments(
    name: str, args: tuple[Content, ...], options: dict[str, Content]
) -> tuple[tuple[Content, ...], dict[str, Content]]:
    """Return the arguments with contents cast as a function of NumPy takes them.

    Raises GraphError for dtypes to which NumPy rounds between the steps of a
    computation.
    """
    if name == "where" or name in CHOOSING:
        return _cast_choices(name, args, options)
    if name not in KEEPING:
        args = tuple(map(as_arrays, args))
    if name == "clip":
        return _cast_limits(args, options)
    if name in MAKING_ARRAYS:
        most = len(args) if name == "einsum" else 2  # later ones are options
        return (*map(_strong, args[:most]), *args[most:]), options
    if name in WIDENING or (name == "i0" and as_value(args[0]).dtype.kind in "biu"):
        count, least = WIDENING.get(name, (1, "float64"))
        return (*(_widened(x, least) for x in args[:count]), *args[count:]), options
    if name == "arange" and options.get("dtype") is None and len(args) < 4:
        dtypes = [_strong(argument).dtype for argument in args]
        if not {INT64, FLOAT64}.issuperset(dtypes):
            one = [INT64] * (len(args) < 3)  # the step
            return args, options | {"dtype": np.result_type(*one, *dtypes)}
    if name in IN_FLOATS or name in NO_BOOLS:
        dtype = options.get("dtype", args[2] if len(args) > 2 else None)
        kind = "f" if dtype is None else np.dtype(dtype).kind
        if kind == "b" or (kind != "f" and name in IN_FLOATS):
            hint = "cast the array first, with astype, or cast the result"
            problem = "NumPy rounds to this dtype on the way"
            raise graph_error(problem, op=f"numpy.{name}", got=str(dtype), hint=hint)
    return args, options


def _widened(argument: object, least: str) -> Value:
    value = as_value(argument)
    return cast(value, np.promote_types(value.dtype, least))


def _strong(argument: object) -> Content:
    """Convert a Python number to the array that NumPy makes of it."""
    if isinstance(argument, Value):
        return strong(argument)
    return np.asarray(argument) if _is_python_number(argument) else argument


def as_arrays(argument: Content) -> Content:
    """Return an argument; in a list with traced arrays, Python numbers become strong.

    They then have dtypes of their own, as in the array that NumPy makes of the list.
    """
    if not (isinstance(argument, (list, tuple)) and is_symbolic(argument)):
        return argument
    items = [as_arrays(item) for item in argument]
    if any(isinstance(item, Value) and not item.type.weak for item in items):
        strong_ones = map(_strong, items)
        items = [x[()] if isinstance(x, np.ndarray) else x for x in strong_ones]
    return items if isinstance(argument, list) else tuple(items)


def _is_python_number(argument: object) -> bool:
    return type(argument) in (bool, int, float, complex)


def wrap_integers(choices: Sequence[Content]) -> list[Content]:
    """Wrap Python integers among `choices` around in the common dtype.

    NumPy casts them in this way where it chooses among arrays, and in `ufunc.at`.
    """
    if not any(map(_is_python_integer, choices)):
        return list(choices)
    dtype = common_dtype(list(map(as_value, choices)))
    if not is_integer(dtype):
        return list(choices)
    return [_wrapped_around(x, dtype) for x in choices]


def _wrapped_around(choice: Content, dtype: DType) -> Content:
    if not _is_python_integer(choice):
        return choice
    strong_one = _strong(choice)
    if isinstance(strong_one, Value):
        return cast(strong_one, dtype)
    return strong_one.astype(dtype)


def _is_python_integer(argument: Content) -> bool:
    if isinstance(argument, Value):
        return argument.type.weak and is_integer(argument.dtype)
    return type(argument) is int


def _cast_choices(
    name: str, args: tuple[Content, ...], options: dict[str, Content]
) -> tuple[tuple[Content, ...], dict[str, Content]]:
    """The arguments of a function that chooses among arrays and numbers, as cast."""
    if name == "where":
        condition, *choices = map(as_arrays, args)
        return (
            condition, *(wrap_integers(choices) if _where_wraps() else choices)
        ), options
    if name == "piecewise" or len(args) < 2 or not isinstance(args[1], (list, tuple)):
        return args, options
    first, listed, *others = args
    if name == "choose":
        return (first, wrap_integers(listed), *others), options
    default = others[0] if others else options.get("default", 0)
    *choices, default = wrap_integers([*listed, default])
    return (first, choices, default), {}


@cache
def _where_wraps() -> bool:
    """Whether `np.where` wraps integers that do not fit: NumPy 2.5 raises for them."""
    try:
        np.where([True], np.zeros(1, "int8"), 300)
    except OverflowError:
        return False
    return True


def _cast_limits(
    args: tuple[Content, ...], options: dict[str, Content]
) -> tuple[tuple[Content, ...], dict[str, Content]]:
    """The arguments of `np.clip`: Python integers outside the dtype limit nothing."""
    array = _strong(args[0])
    dtype = as_value(array).dtype
    if not is_integer(dtype):
        return (array, *args[1:]), options
    limits, traced = np.iinfo(dtype), np.iinfo("int64")

    def bound(side: str, limit: Content) -> Content:
        if not _is_python_integer(limit):
            return limit
        of_python = type(limit) is int
        if side.endswith("min"):
            least = int(limits.min)
            if of_python:
                return max(limit, least)
            return F.maximum(limit, least) if least > traced.min else limit
        most = int(limits.max)
        if of_python:
            return min(limit, most)
        return F.minimum(limit, most) if most < traced.max else limit

    bounds = map(bound, ("min", "max"), args[1:3])
    named = {key: bound(key, limit) for key, limit in options.items()}
    return (array, *bounds, *args[3:]), named


@lru_cache(maxsize=512)
def place_of_out(function: Callable[..., object]) -> int:
    """The position of the parameter `out` of a function; -1 where it has none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return 2 if function.__name__ == "dot" else -1
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    names = [p.name for p in parameters if p.kind in kinds]
    return names.index("out") if "out" in names else -1


def rule_of_out(name: str) -> CastingRule:
    """The casting rule for results written to `out=`; `dot` does not cast them."""
    return "no" if name == "dot" else "same_kind"


def split_out(
    function: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> tuple[object, tuple[object, ...]]:
    """Return `out` and the arguments before it; move later ones into `options`."""
    place = place_of_out(function)
    if not 0 <= place < len(args):
        return options.pop("out", None), args
    if len(args) > place + 1:
        names = list(inspect.signature(function).parameters)[place + 1 :]
        options.update(zip(names, args[place + 1 :], strict=False))
    return args[place], args[:place]


def may_return_itself(
    name: str, dtype: DType, args: tuple[Any, ...], options: Mapping[str, Any]
) -> bool:
    """Whether a function may return its argument itself, if the layout allows it."""
    copies = always_copies(options.get("copy", name in ("array", "astype", "copy")))
    other = args[1] if len(args) > 1 else options.get("dtype")
    is_same = other is None or np.dtype(other) == dtype
    return is_same and not copies and not options.get("ndmin")


def may_return_arguments(
    name: str, args: Sequence[object], options: Mapping[str, object]
) -> bool:
    """Whether a function may return one of these arguments, or a view of it."""
    if name == "meshgrid":
        return options.get("copy") is False
    if name in ("diff", "matrix_power"):
        count = args[1] if len(args) > 1 else options.get("n", 1)
        return count == (name == "matrix_power")
    return name in ("ix_", "histogram", "histogram_bin_edges")
