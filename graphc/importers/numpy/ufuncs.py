"""Ufuncs of arrays of functions of NumPy: `np.add(x, y, out=z)`, `np.add.at(x, i)`."""

from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.arrays import (
    INTO_OUTSIDE,
    OWN_ARRAY,
    Args,
    TracedArray,
    content_of,
    wrapped,
    written_to,
)
from graphc.importers.numpy.memory import Content, is_symbolic
from graphc.ir.graph.build import as_value
from graphc.ir.graph.dispatch import apply_ufunc
from graphc.ir.namespace import F

OF_UFUNCS = {"maximum": "max", "minimum": "min"}  # updates of other names than `at`'s
UPDATES = frozenset(["add", "multiply", "max", "min"])


def _of_ufunc(
    self: TracedArray, ufunc: Any, method: str, *inputs: Any, **options: Any
) -> Any:
    """The results of a ufunc, or of a method of it, written where `out=` says so."""
    if method == "at":
        return _update(ufunc, *inputs)
    out, where = options.pop("out", None), options.pop("where", True)
    casting = options.pop("casting", "same_kind")
    args, options = content_of(inputs), content_of(options)
    if is_symbolic([args, *options.values()]):
        result = wrapped(apply_ufunc(ufunc, method, args, options))
    else:
        result = wrapped(getattr(ufunc, method)(*args, **options))
    if where is not True:
        result = _selected(ufunc, where, result, out)
    return result if out is None else written_to(out, result, casting)


def _selected(
    ufunc: np.ufunc, where: object, result: object, out: Args | None
) -> object:
    """A result of a ufunc where a mask says so, and what `out` holds elsewhere."""
    if out is None or isinstance(result, tuple):
        problem = "the elements that `where` leaves out would be of no known number"
        hint = "say out=, an array that has them"
        raise graph_error(problem, op=f"numpy.{ufunc.__name__}", hint=hint)
    mask, new, old = content_of(where), content_of(result), content_of(out[0])
    return wrapped(F.where(mask, as_value(new), as_value(old)))


def _update(ufunc: Any, array: TracedArray, index: Any, *operands: Any) -> None:
    """`ufunc.at`: repeated positions are all updated."""
    name = OF_UFUNCS.get(ufunc.__name__, ufunc.__name__)
    if type(array) is not TracedArray:
        raise graph_error(INTO_OUTSIDE, op=f"{name}.at", hint=OWN_ARRAY)
    index, operands = content_of(index), content_of(operands)
    content = array.content
    if not is_symbolic([content, index, *operands]):
        new = content.copy()
        ufunc.at(new, index, *operands)
        array.memory.replace(new)
        return
    _require_same_dtype(name, content, operands)
    if name == "subtract":
        name, operands = "add", tuple(-as_value(operand) for operand in operands)
    if name not in UPDATES:
        hint = f"one of {', '.join(sorted(UPDATES))}"
        raise graph_error("there is no such update", op=f"{name}.at", hint=hint)
    new = getattr(as_value(content).at[index], name)(*operands)
    array.memory.replace(new)


def _require_same_dtype(name: str, content: Content, operands: Args) -> None:
    """Raise GraphError where NumPy casts each sum, on the way, to a narrower dtype."""
    for operand in map(as_value, operands):
        number = operand.dtype.type(0)
        of_python = number.item() if operand.type.weak else number
        if np.result_type(content.dtype, of_python) != content.dtype:
            got = f"{operand.dtype} into {content.dtype}"
            problem = "NumPy casts the result of each update on the way"
            hint = "cast the array or the numbers first, by astype"
            raise graph_error(problem, op=f"{name}.at", got=got, hint=hint)


setattr(TracedArray, "__array_ufunc__", _of_ufunc)  # noqa: B010
