"""NumPy's functions on values: `np.sin(x)` is `gt.sin(x)`, or names an alternative."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.params.concrete import elementwise_error, hint_at_namesakes
from graphc.ir.tracebacks import keyword_hint
from graphc.ir.types import DType, TensorType

RENAMED = {"a_min": "min", "a_max": "max"}  # keywords of np.clip
SPACES = {
    "numpy": "",
    "numpy.linalg": "linalg.",
    "numpy.fft": "fft.",
    "numpy.lib.stride_tricks": "",
}
OTHERWISE = {  # functions of NumPy with another name here
    "around": "round",
    "identity": "eye",
    **dict.fromkeys(
        ("array", "asanyarray", "ascontiguousarray", "asfortranarray", "copy"),
        "asarray",
    ),
}
LAYOUT = frozenset(  # options about memory layout, or the way to the result
    ["copy", "kind", "like", "order", "overwrite_input", "subok"]
)
_ON_ONE: Mapping[str, Callable[..., object]] = {  # by which NumPy checks an option
    "sort": partial(np.sort, np.zeros(1)),
    "argsort": partial(np.argsort, np.zeros(1)),
    "partition": partial(np.partition, np.zeros(1), 0),
    "argpartition": partial(np.argpartition, np.zeros(1), 0),
    "isin": partial(np.isin, 0, 0),
    "order": partial(np.array, 0),
    "casting": partial(np.can_cast, "int8", "int8"),
}
METHODS = {  # of ufuncs, by the function that does the same
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
    ("maximum", "accumulate"): "cummax",
    ("minimum", "accumulate"): "cummin",
}
_OF_PYTHON = " (vectorized)"  # the end of the name of a ufunc of np.frompyfunc


def apply_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[object, ...], options: dict[str, object]
) -> object:
    """Answer `__array_ufunc__`, which NumPy's arrays also ask for their operators."""
    name = _name_of_ufunc(ufunc)
    if "out" in options:
        hint = "write a = a + x, which gives a new value"
        problem = "cannot write a symbolic value into an array"
        raise graph_error(problem, op=_name_in_library(name), hint=hint)
    if method == "outer" and name in FUNCTIONS:
        return _outer(FUNCTIONS[name], *inputs, **options)
    if method != "__call__":
        return _apply_ufunc_method(name, method, inputs, options)
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown_function_error(name)
    if getattr(np, ufunc.__name__, None) is not ufunc:
        inputs = _in_dtypes_of_loop(ufunc, inputs)
    return _as_arrays(_call_bound(function, name, inputs, options))


def _in_dtypes_of_loop(
    ufunc: np.ufunc, inputs: tuple[object, ...]
) -> tuple[object, ...]:
    """Cast inputs as SciPy does, whose loops compute with 32 bits or more."""
    kinds = [*map(_kind_of_input, inputs), *[None] * ufunc.nout]
    try:
        dtypes = ufunc.resolve_dtypes(tuple(kinds))
    except TypeError as error:
        op = _name_in_library(f"special.{ufunc.__name__}")
        raise graph_error(str(error), op=op) from None
    return tuple(
        FUNCTIONS["asarray"](x, dtype) if _type_of(x) else x
        for x, dtype in zip(inputs, dtypes, strict=False)
    )


def _kind_of_input(x: object) -> type | DType:
    """The dtype of an input, or the class of a number, which adapts to the others."""
    of_value = _type_of(x)
    if of_value is not None:
        dtype = of_value.dtype
        return type(dtype.type(0).item()) if of_value.weak else dtype
    return type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype


def _type_of(x: object) -> TensorType | None:
    """The type of a value; None for other inputs."""
    type_of_value = getattr(x, "type", None)
    return type_of_value if isinstance(type_of_value, TensorType) else None


def _name_of_ufunc(ufunc: np.ufunc) -> str:
    """The name that a ufunc of NumPy or SciPy has in graphc."""
    name, of_scipy = ufunc.__name__, _is_of_scipy(ufunc)
    if getattr(np, name, None) is ufunc or (of_scipy and name in FUNCTIONS):
        return name
    return f"special.{name}" if of_scipy else f"{type(ufunc).__module__}.{name}"


def _as_arrays(results: Any) -> object:
    """Make results strong, as NumPy's functions return no Python numbers."""
    if isinstance(results, tuple):
        return tuple(map(_as_arrays, results))
    return FUNCTIONS["asarray"](results) if results.type.weak else results


def _apply_ufunc_method(
    name: str, method: str, inputs: tuple[object, ...], options: dict[str, object]
) -> object:
    """Apply a method of a ufunc, along the first axis where none is given."""
    function_name = METHODS.get((name, method))
    if function_name is None:
        raise _unknown_function_error(f"{name}.{method}")
    return _call_bound(
        FUNCTIONS[function_name], function_name, inputs, {"axis": 0} | options
    )


def _outer(
    function: Callable[..., object], a: object, b: object, **options: object
) -> object:
    """Apply a function to each pair of elements of two arrays."""
    left, right = FUNCTIONS["asarray"](a), FUNCTIONS["asarray"](b)
    new = tuple(range(left.ndim, left.ndim + right.ndim))
    wide = FUNCTIONS["expand_dims"](left, new) if new else left
    return function(wide, right, **options)


def apply_function(
    function: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> object:
    """Answer `__array_function__`."""
    name = name_of(function)
    our_function = FUNCTIONS.get(name)
    if our_function is None:
        raise _unknown_function_error(name)
    args, options = pass_by_position(function, args, options)
    args, options = _pass_by_name(function, args, options)
    if name == "pad" and any(n < 0 for n in _integers(args[1:])):
        hint = "slice it, as y[1:-1]"
        raise graph_error("widths must not be negative", op="numpy.pad", hint=hint)
    return _call_bound(our_function, name, args, options)


def _integers(widths: object) -> Iterator[int]:
    """Yield the known integers in nested widths."""
    if isinstance(widths, (list, tuple, np.ndarray)):
        for width in widths:
            yield from _integers(width)
    elif isinstance(widths, (int, np.integer)):
        yield int(widths)


def pass_by_position(
    function: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Pass by position the arguments that a function of NumPy requires.

    Their names differ here: `np.sum(a=x)` is `gt.sum(x)`.
    """
    missing = _required_names(function)[len(args) :]
    if not missing or missing[0] not in options:
        return args, options
    options = dict(options)
    for name in missing:
        if name not in options:
            break
        args = (*args, options.pop(name))
    return args, options


@lru_cache(maxsize=1024)
def _required_names(function: Callable[..., object]) -> tuple[str, ...]:
    """The names of required arguments that may be passed by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return ()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return tuple(p.name for p in parameters if p.default is p.empty and p.kind is kind)


def name_of(function: Callable[..., object]) -> str:
    """The name in graphc of a function of NumPy or of a library that extends it."""
    name, module = function.__name__, function.__module__
    elsewhere = "special." if _is_of_scipy(function) else f"{module}."
    name = SPACES.get(module, elsewhere) + name
    return OTHERWISE.get(name, name)


def _is_of_scipy(function: Callable[..., object]) -> bool:
    """Whether a function is from `scipy.special`, and not another of the same name."""
    special = sys.modules.get("scipy.special")
    return getattr(special, function.__name__, None) is function


def _pass_by_name(
    function: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Pass optional arguments by keyword, as NumPy has some that are missing here."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # written in C
        return args, options
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return args, options
    needed = [p for p in parameters if p.default is p.empty]
    optional = zip(parameters[len(needed) :], args[len(needed) :], strict=False)
    options = {p.name: a for p, a in optional} | options
    return args[: len(needed)], {RENAMED.get(k, k): v for k, v in options.items()}


def _call_bound(
    function: Callable[..., object],
    name: str,
    args: tuple[object, ...],
    options: Mapping[str, object],
) -> object:
    check_options(name, options)
    signature = inspect.signature(function)
    args, options = _fit_to_signature(signature, args, options)
    _require_bound(signature, name, args, options)
    return function(*args, **options)


def check_options(name: str, options: Mapping[str, object]) -> None:
    """Raise GraphError for options that NumPy refuses and that affect no result."""
    for key in options.keys() & {"kind", "order", "casting"}:
        numpy_function = _ON_ONE.get(name) or _ON_ONE.get(key)
        try:
            if numpy_function is not None:
                numpy_function(**{key: options[key]})
        except (TypeError, ValueError) as error:
            raise graph_error(str(error), op=f"numpy.{name}") from None


def apply_method(
    method: Callable[..., object],
    name: str,
    args: Sequence[object],
    options: Mapping[str, object],
) -> object:
    """Call a method. Raises GraphError for arguments that it does not have."""
    try:
        signature = inspect.signature(method)
    except ValueError:  # written in C
        return method(*args, **options)
    _require_bound(signature, name, args, options)
    return method(*args, **options)


def _require_bound(
    signature: inspect.Signature,
    name: str,
    args: Sequence[object],
    options: Mapping[str, object],
) -> None:
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        hint = keyword_hint(str(error), signature).removeprefix("; ")
        problem, op = str(error), f"numpy.{name}"
        raise graph_error(problem, op=op, hint=hint) from None


def _fit_to_signature(
    signature: inspect.Signature,
    args: tuple[object, ...],
    options: Mapping[str, object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Pass positional-only arguments by position, and drop options about layout."""
    parameters = signature.parameters
    known_options = {
        k: v
        for k, v in options.items()
        if k in parameters or k not in LAYOUT or v == "F"
    }
    for parameter in list(parameters.values())[len(args) :]:
        if (
            parameter.kind is not parameter.POSITIONAL_ONLY
            or parameter.name not in known_options
        ):
            break
        args = (*args, known_options.pop(parameter.name))
    return args, known_options


def _unknown_function_error(name: str) -> GraphError:
    """The error for a function of NumPy, or of a library that extends it."""
    if name.endswith(_OF_PYTHON):
        return elementwise_error("numpy.frompyfunc")
    last = name.split(".")[-1]
    op, hint = _name_in_library(name), hint_at_namesakes(last)
    return graph_error("takes no symbolic values", op=op, hint=hint)


def _name_in_library(name: str) -> str:
    """The name of a function in its own library."""
    own_name = name.removeprefix("numpy.")
    if own_name.startswith("special."):
        return f"scipy.{own_name}"
    return f"numpy.{own_name}" if hasattr(np, own_name.split(".")[0]) else own_name
