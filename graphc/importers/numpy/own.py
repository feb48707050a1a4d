"""Functions of NumPy that write, that give views by their arguments, or call others."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.arrays import (
    OWN,
    TracedArray,
    as_array,
    computed,
    content_of,
    note_sharing,
    results_of,
    wrapped,
)
from graphc.importers.numpy.in_place import put
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.transform.derivatives.vectorize import vmap


def _copy_to(
    array: TracedArray, new: Any, casting: str = "same_kind", where: Any = True
) -> None:
    if casting == "unsafe":
        new = np.asarray(new).astype(array.dtype)
    array.updated(np.where(where, new, array))


def _fill_diagonal(array: TracedArray, new: object, wrap: bool = False) -> None:
    filled = F.fill_diagonal(as_value(array.content), content_of(new), wrap)
    array.memory.write(..., filled)


def _along_axis(
    function: Callable[..., object],
    axis: int,
    array: object,
    *args: object,
    **named: object,
) -> object:
    """The results of a function of vectors, for each along an axis."""
    content = as_value(content_of(array))
    if not -content.ndim <= axis < content.ndim:
        raise graph_error("there is no such axis", op="apply_along_axis", got=str(axis))

    def one(vector: Value) -> Value:
        result = content_of(function(wrapped(vector), *args, **named))
        return (
            F.asarray(result) if isinstance(result, (list, tuple)) else as_value(result)
        )

    others = content.ndim - 1
    each: Callable[[Value], Value] = one
    for _ in range(others):
        each = vmap(each)
    results = each(F.moveaxis(content, axis, -1))
    own_axes = range(results.ndim - others)
    last, there = (
        [others + i for i in own_axes],
        [axis % content.ndim + i for i in own_axes],
    )
    return as_array(wrapped(F.moveaxis(results, last, there)))


def _einsum(subscripts: object, *operands: object, **options: object) -> object:
    """Products; of one array whose axes all stay, a view."""
    args = (subscripts, *operands)
    alone = operands[0] if len(operands) == 1 and not options else None
    if isinstance(alone, TracedArray) and _keeps_axes(subscripts):
        return alone.viewed("", lambda x: computed(np.einsum, (subscripts, x), {}))
    results = results_of(np.einsum, args, options)
    if len(operands) == 1 and isinstance(subscripts, TracedArray):
        note_sharing(results, (subscripts,), True)
    return results


def _keeps_axes(subscripts: object) -> bool:
    axes, arrow, results = str(subscripts).replace(" ", "").partition("->")
    return set(axes) == set(results) if arrow else len(set(axes)) == len(axes)


def _reshape(array: object, *shape: object, order: str = "C", **options: object) -> Any:
    shape = shape or (options.pop("shape", options.pop("newshape", None)),)
    return _array(array).reshape(*shape, order=order)


def _ravel(array: object, order: str = "C") -> object:
    return _array(array).ravel(order)


def _array(argument: object) -> TracedArray:
    return (
        argument if isinstance(argument, TracedArray) else wrapped(as_value(argument))
    )


def _diag(array: object, k: int = 0) -> object:
    """A diagonal, which is a view that is not written, or a matrix that has one."""
    if isinstance(array, TracedArray) and array.content.ndim == 2:
        return np.diagonal(array, k)
    return results_of(np.diag, (array, k), {})


def _real_if_close(array: object, tol: float = 100) -> object:
    if isinstance(array, TracedArray) and array.content.dtype.kind != "c":
        return as_array(array)
    return as_array(results_of(np.real_if_close, (array, tol), {}))


def _broadcast_arrays(*arrays: object, **options: object) -> object:
    """Views, which are not written."""
    if options:
        raise graph_error("takes no options", op="broadcast_arrays", got=str(options))
    shape = computed(np.broadcast_arrays, content_of(arrays), {})[0].shape
    return tuple(np.broadcast_to(_array(array), shape) for array in arrays)


def _put_along_axis(
    array: TracedArray, indices: object, values: object, axis: int | None
) -> None:
    if axis is None:
        array.flat[indices] = values
        return
    old, new = as_value(array.content), cast(as_value(values), array.dtype)
    put = F.put_along_axis(old, as_value(indices), new, axis)
    array.memory.write(..., put)


def _place(array: TracedArray, mask: object, new: object) -> None:
    """`np.place`: numbers in turn where a mask is true, repeated."""
    old, numbers = as_value(array.content), _flat_numbers(new)
    chosen = F.reshape(as_value(content_of(mask)), (-1,)) != 0
    turns = (F.cumsum(chosen) - 1) % numbers.size
    _replace_chosen(array, old, chosen, numbers[turns])


def _put_masked(array: TracedArray, mask: object, new: object) -> None:
    """`np.putmask`: where a mask is true, the numbers at its places, repeated."""
    old, numbers = as_value(array.content), _flat_numbers(new)
    chosen = F.reshape(as_value(content_of(mask)), (-1,)) != 0
    _replace_chosen(array, old, chosen, numbers[F.arange(old.size) % numbers.size])


def _flat_numbers(numbers: object) -> Value:
    return F.reshape(F.asarray(content_of(numbers)), (-1,))


def _replace_chosen(
    array: TracedArray, old: Value, chosen: Value, numbers: Value
) -> None:
    flat = F.where(chosen, cast(numbers, old.dtype), F.reshape(old, (-1,)))
    array.memory.write(..., F.reshape(flat, old.shape))


def _nan_to_num(
    array: object, copy: bool = True, *args: object, **options: object
) -> object:
    numbers = content_of((array, True, *args))
    result = wrapped(computed(np.nan_to_num, numbers, content_of(options)))
    if copy or not isinstance(array, TracedArray):
        return result
    array.memory.write(..., content_of(result))
    return array if array.content.ndim else array[()]


def _diag_indices(n: object, ndim: int = 2) -> object:
    """The same indices for each axis, in one array."""
    return (np.arange(content_of(n)),) * ndim


def _diag_indices_from(array: TracedArray) -> object:
    results_of(np.diag_indices_from, (array,), {})  # whether all axes are equal
    return _diag_indices(array.shape[0], array.content.ndim)


# Functions of NumPy that write, or that call functions of the user.
SAME_RESULTS = frozenset(["diag_indices", "diag_indices_from"])
OWN |= {
    "diag_indices": _diag_indices,
    "diag_indices_from": _diag_indices_from,
    "broadcast_arrays": _broadcast_arrays,
    "diag": _diag,
    "real_if_close": _real_if_close,
    "apply_along_axis": _along_axis,
    "copyto": _copy_to,
    "einsum": _einsum,
    "fill_diagonal": _fill_diagonal,
    "nan_to_num": _nan_to_num,
    "put_along_axis": _put_along_axis,
    "place": _place,
    "put": put,
    "putmask": _put_masked,
    "ravel": _ravel,
    "reshape": _reshape,
}

NAMES = frozenset(OWN)
