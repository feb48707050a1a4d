"""Ufuncs for traced arrays, as `np.add(x, y, out=z)` or `np.add.at(x, i, y)`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.traced.arrays import (
    INTO_OUTSIDE,
    OWN_ARRAY,
    Args,
    TracedArray,
    Wrapped,
    as_traced,
    content_of,
    holds_arrays,
    write_to_out,
)
from graphc.importers.numpy.traced.memory import Content, is_symbolic
from graphc.importers.numpy.traced.reductions import METHODS, loop_dtypes
from graphc.importers.numpy.traced.sharing import CastingRule, as_arrays, wrap_integers
from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.dispatch import apply_ufunc, check_options
from graphc.ir.namespace import F

OF_UFUNCS = {  # ufuncs whose update has another name
    "maximum": "max",
    "minimum": "min",
    "logical_or": "max",
    "logical_and": "min",
}
UPDATES = frozenset(["add", "multiply", "max", "min"])
OF_ARRAYS = "reduce", "accumulate", "reduceat", "outer"


class EqualToPlain:
    """A function that replaces NumPy's own in user code and compares equal to it."""

    def __init__(self, plain: Callable[..., object]) -> None:
        self._plain: Any = plain

    def __eq__(self, other: object) -> bool:
        return self is other or self._plain is other

    def __hash__(self) -> int:
        return hash(self._plain)

    def __repr__(self) -> str:
        return repr(self._plain)


class UfuncOfUser(EqualToPlain):
    """A ufunc as the user sees it, which accepts lists that hold traced arrays.

    NumPy's protocol asks arrays, but never looks into lists. `as_users` turns results
    into objects for the user.
    """

    def __init__(self, plain: np.ufunc, as_users: Callable[[object], object]) -> None:
        super().__init__(plain)
        self._as_users = as_users

    # Only `isinstance` reads this property, and nothing sets it.
    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return np.ufunc

    def __call__(self, *args: object, **options: object) -> object:
        """Compute the results of the ufunc."""
        return self._called(self._plain, *args, **options)

    def __getattr__(self, name: str) -> object:
        if name == "at":
            return self._update
        member = getattr(self._plain, name)
        return partial(self._called, member) if name in OF_ARRAYS else member

    def _called(self, function: Wrapped, *args: object, **options: object) -> object:
        if not holds_arrays([*args, *options.values()]):
            return self._as_users(function(*args, **options))
        return function(*map(_as_array, args), **options)

    def _update(self, array: object, index: object, *operands: object) -> object:
        """`at` of the ufunc; a tuple as `index` has an index for each axis."""
        update: Callable[..., object] = self._plain.at
        if type(index) is not tuple:
            return self._called(update, array, index, *operands)
        if not holds_arrays([array, *index, *operands]):
            return update(array, index, *operands)
        each_axis = tuple(map(_as_array, index))
        return update(array, each_axis, *map(_as_array, operands))


def _as_array(argument: object) -> object:
    """Convert a list that holds traced arrays to an array; return all else as it is."""
    listed = isinstance(argument, (list, tuple)) and holds_arrays(argument)
    return np.asarray(argument) if listed else argument


def _of_ufunc(
    self: TracedArray, ufunc: Any, method: str, *inputs: Any, **options: Any
) -> Any:
    """`__array_ufunc__`: compute a ufunc, or a method of it, and write to `out=`."""
    if method == "at":
        return _update(ufunc, *inputs)
    check_options(ufunc.__name__, options)
    out, casting = options.pop("out", None), options.pop("casting", "same_kind")
    where = options.pop("where", True) if method == "__call__" else True
    args = tuple(map(as_arrays, content_of(inputs)))
    options = content_of(options)
    if is_symbolic([*args, *options.values()]):
        result = as_traced(_symbolic(ufunc, method, args, options, casting))
    else:
        result = as_traced(getattr(ufunc, method)(*args, **options))
    if where is not True:
        result = _selected(ufunc, where, result, out)
    if out is None:
        return result
    stretched = method == "__call__" and ufunc.signature is None
    return write_to_out(out, result, casting, stretched)


def _symbolic(
    ufunc: np.ufunc,
    method: str,
    args: Args,
    options: dict[str, Wrapped],
    casting: CastingRule,
) -> object:
    """Compute the results where an argument is symbolic."""
    if method in METHODS:
        return METHODS[method](ufunc, *args, **options)
    dtype = options.pop("dtype", None)
    if dtype is None and casting not in ("no", "equiv"):  # NumPy's loops cast safely
        return apply_ufunc(ufunc, method, args, options)
    return _in_dtype(ufunc, method, args, options, dtype, casting)


def _in_dtype(
    ufunc: np.ufunc,
    method: str,
    args: Args,
    options: dict[str, Wrapped],
    dtype: DTypeLike | None,
    casting: CastingRule,
) -> object:
    """Compute the results for arguments cast to the ufunc's loop for `dtype=`."""
    operands = [as_value(argument) for argument in args]
    to = None if dtype is None else np.dtype(dtype)
    dtypes = loop_dtypes(ufunc, operands, to, casting=casting)
    pairs = zip(operands, dtypes, strict=False)
    return apply_ufunc(ufunc, method, tuple(cast(x, d) for x, d in pairs), options)


def _selected(
    ufunc: np.ufunc, where: object, result: object, out: Args | None
) -> object:
    """Take `result` where the mask `where` is true, and `out` elsewhere."""
    if out is None or isinstance(result, tuple):
        problem = "the elements that `where` leaves out would have unknown values"
        hint = "give out=, an array that has them"
        raise graph_error(problem, op=f"numpy.{ufunc.__name__}", hint=hint)
    mask, new, old = content_of(where), content_of(result), content_of(out[0])
    return as_traced(F.where(mask, as_value(new), as_value(old)))


def _update(ufunc: np.ufunc, array: TracedArray, index: Any, *operands: Any) -> None:
    """`ufunc.at`: an update that counts repeated positions each time."""
    name = OF_UFUNCS.get(ufunc.__name__, ufunc.__name__)
    if type(array) is not TracedArray:
        raise graph_error(INTO_OUTSIDE, op=f"{name}.at", hint=OWN_ARRAY)
    index, content = content_of(index), array.content
    operands = tuple(wrap_integers([content, *content_of(operands)])[1:])
    if not is_symbolic([content, index, *operands]):
        new = content.copy()
        ufunc.at(new, index, *operands)
        array.memory.replace(new)
        return
    _require_same_dtype(name, content, operands)
    if name == "subtract":
        name, operands = "add", tuple(-as_value(operand) for operand in operands)
    to_bools = name == ufunc.__name__ or content.dtype.kind == "b"
    if name not in UPDATES or (not to_bools and ufunc.__name__.startswith("logical")):
        hint = f"y[index] = np.{ufunc.__name__}(y[index], ...) if none is repeated"
        problem = "there is no such update for positions that may be repeated"
        raise graph_error(problem, op=f"numpy.{ufunc.__name__}.at", hint=hint)
    new = getattr(as_value(content).at[index], name)(*operands)
    array.memory.replace(new)


def _require_same_dtype(name: str, content: Content, operands: Args) -> None:
    """Raise GraphError where NumPy casts each intermediate sum to a narrower dtype."""
    for operand in map(as_value, operands):
        number = operand.dtype.type(0)
        of_python = number.item() if operand.type.weak else number
        if np.result_type(content.dtype, of_python) != content.dtype:
            got = f"{operand.dtype} into {content.dtype}"
            problem = "NumPy casts the result of each update on the way"
            hint = "cast the array or the numbers first, with astype"
            raise graph_error(problem, op=f"{name}.at", got=got, hint=hint)


setattr(TracedArray, "__array_ufunc__", _of_ufunc)  # noqa: B010
