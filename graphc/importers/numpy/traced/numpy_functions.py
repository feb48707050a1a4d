"""Functions of NumPy that write, give views by their arguments, or call others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.traced import by_data
from graphc.importers.numpy.traced.arrays import (
    OWN,
    Callee,
    TracedArray,
    Wrapped,
    as_array,
    as_traced,
    call_on_arrays,
    compute_contents,
    content_of,
    note_sharing,
    results_of,
)
from graphc.importers.numpy.traced.in_place import put
from graphc.importers.numpy.traced.memory import cast_python_integers, require_fit
from graphc.importers.numpy.traced.sharing import CastingRule
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim, Size, is_one
from graphc.ir.types import is_integer, same_size
from graphc.transform.derivatives.vectorize import vmap

_STEPS = "start", "stop", "step"


def _squeeze(array: object, axis: Wrapped = None) -> object:
    """A view without the axes of size 1; which ones must be known before the call."""
    view = _array(array)
    if axis is None:
        sizes = as_value(view.content).type.shape
        _require_known(sizes, "squeeze")
        axis = tuple(i for i, n in enumerate(sizes) if is_one(n))
    return view.viewed("squeeze", lambda content: content.squeeze(axis))


def _require_known(sizes: Sequence[Size], op: str) -> None:
    """Raise GraphError if data decide whether a size is 1, and so the result's rank."""
    for size in sizes:
        if isinstance(size, Dim) and size.compare_with("at least", 2) is None:
            problem = "whether an axis has one element depends on data"
            hint = "say axis=" if op == "squeeze" else "put x.reshape(...) before it"
            raise graph_error(problem, op=op, got=f"a size of {size}", hint=hint)


def _covariance(
    x: Wrapped,
    y: Wrapped = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Wrapped = None,
    aweights: Wrapped = None,
    **options: Wrapped,
) -> object:
    _require_rows(x, y, "cov")
    by_data.require_weights(fweights, aweights)
    args = rowvar, bias, ddof, fweights, aweights
    return as_array(_in_float64(F.cov, x, y, *args, **options))


def _correlation(
    x: Wrapped, y: Wrapped = None, *args: Wrapped, **options: Wrapped
) -> object:
    _require_rows(x, y, "corrcoef")
    return _in_float64(F.corrcoef, x, y, *args, **options)


def _require_rows(x: Wrapped, y: Wrapped, op: str) -> None:
    """Raise GraphError if data decide whether there is only one variable."""
    if y is None:
        _require_known(as_value(content_of(x)).type.shape[:-1], op)


def _in_float64(
    function: Callable[..., Value], *args: Wrapped, **options: Wrapped
) -> object:
    """Call a function that computes in float64 at least, as NumPy's does."""
    if options.get("dtype") is None:
        arrays = [_array(x).dtype for x in args[:2] if x is not None]
        options["dtype"] = np.result_type(np.float64, *arrays)
    return as_traced(function(*content_of(args), **content_of(options)))


def _roll_axis(array: object, axis: int, start: int = 0) -> object:
    """`np.rollaxis`: a view in which an axis is moved before another one."""
    view = _array(array)
    rank = view.content.ndim
    if not (-rank <= axis < rank and -rank <= start <= rank):
        got = f"axis {axis}, start {start}"
        raise graph_error("there is no such axis", op="numpy.rollaxis", got=got)
    first, last = axis % rank, start if start >= 0 else start + rank
    return call_on_arrays(np.moveaxis, (view, first, last - (first < last)), {})


def _from_dlpack(array: object, **options: object) -> object:
    problem = "a traced array is not in memory that others could share"
    raise graph_error(problem, op="numpy.from_dlpack", hint="use the array itself")


def _pack_bits(array: object, axis: int | None = None, bitorder: str = "big") -> object:
    """`np.packbits`: pack each eight elements into the bits of a byte."""
    rows = np.moveaxis(_flattened(array, axis) != 0, axis or 0, -1)
    count = (rows.shape[-1] + 7) // 8
    bits = _array(np.zeros((*rows.shape[:-1], count * 8), "uint8"))
    bits[..., : rows.shape[-1]] = rows
    parts = bits.reshape((*rows.shape[:-1], count, 8)) << _shifts(bitorder)
    return np.moveaxis(np.sum(parts, axis=-1, dtype="uint8"), -1, axis or 0)


def _unpack_bits(
    array: object,
    axis: int | None = None,
    count: Wrapped = None,
    bitorder: str = "big",
) -> object:
    """`np.unpackbits`: the bits of each byte, all of them or the first `count`."""
    rows = np.moveaxis(_flattened(array, axis), axis or 0, -1)
    bits = (rows[..., None] >> _shifts(bitorder)) & np.uint8(1)
    bits = bits.reshape((*rows.shape[:-1], rows.shape[-1] * 8))
    if count is not None:
        more = max(count - bits.shape[-1], 0)  # zeros, beyond the last byte
        bits = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, more)])[..., :count]
    return np.moveaxis(bits, -1, axis or 0)


def _flattened(array: Wrapped, axis: int | None) -> Wrapped:
    """The array, flattened where no axis is given."""
    return np.ravel(array) if axis is None else np.asarray(array)


def _shifts(bitorder: str) -> Wrapped:
    if bitorder not in ("big", "little"):
        problem = "'bitorder' must be either 'big' or 'little'"
        raise graph_error(problem, op="numpy.packbits", got=repr(bitorder))
    shifts = np.arange(8, dtype="uint8")
    return shifts[::-1] if bitorder == "big" else shifts


def _trim_zeros(array: Wrapped, trim: str = "fb", axis: Wrapped = None) -> object:
    """A view of each axis from its first to its last element that is not 0."""
    view = _array(array)
    rank = view.content.ndim
    axes = range(rank) if axis is None else np.atleast_1d(axis).tolist()
    if any(not -rank <= i < rank for i in axes):
        raise graph_error("no such axis", op="numpy.trim_zeros", got=str(axis))
    part = [slice(None)] * rank
    for i in {i % rank for i in axes}:
        others = tuple(j for j in range(rank) if j != i)
        part[i] = _between_zeros(F.any(as_value(view.content) != 0, others), trim)
    return view[(*part, ...)]  # a view even without axes


def _between_zeros(is_there: Value, trim: str) -> slice:
    count, places = is_there.shape[0], F.flatnonzero(is_there)
    first = F.min(places, initial=count) if "f" in trim.lower() else 0
    last = F.max(places, initial=-1) + 1 if "b" in trim.lower() else count
    return slice(first, last)


def _sort_complex(array: object) -> object:
    """`np.sort_complex`: integers of 8 or 16 bits become complex64, not complex128."""
    numbers = _array(array)
    if numbers.dtype.kind != "c":
        few = numbers.dtype.kind in "iu" and numbers.dtype.itemsize < 4
        numbers = numbers.astype("complex64" if few else "complex128")
    return np.sort(numbers, axis=-1)


def _array_equiv(x: object, y: object) -> object:
    """`np.array_equiv`: whether arrays are equal once they are broadcast."""
    one, other = _array(x), _array(y)
    pairs = zip(one.shape[::-1], other.shape[::-1], strict=False)
    if any(m != n and m != 1 and n != 1 for m, n in pairs):
        return np.bool_(False)
    return np.all(one == other)


def _poly(roots: object) -> object:
    """`np.poly` for a vector of real roots: coefficients, highest power first."""
    values: Wrapped = np.atleast_1d(_array(roots))
    if values.ndim != 1 or values.dtype.kind == "c":
        problem = "NumPy gives real numbers if roots form pairs, which depends on data"
        got, hint = str(as_value(values.content).type), "give a vector of real roots"
        raise graph_error(problem, op="numpy.poly", got=got, hint=hint)
    if values.shape[0] == 0:
        return 1.0
    zeros = as_value(values.astype(np.mintypecode(values.dtype.char)).content)

    def step(total: Value, zero: Value) -> tuple[Value, None]:
        return total - zero * F.pad(total[:-1], (1, 0)), None

    start = F.pad(F.ones(1, zeros.dtype), (0, zeros.shape[0]))
    return as_traced(F.scan(step, start, zeros)[0])


def _copy_to(
    array: TracedArray, new: Any, casting: str = "same_kind", where: Any = True
) -> None:
    if casting == "unsafe":
        new = np.asarray(new).astype(array.dtype)
    new = as_traced(cast_python_integers(content_of(new), array.dtype))
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
    """`np.apply_along_axis`: apply a function to each vector along an axis."""
    content = as_value(content_of(array))
    if not -content.ndim <= axis < content.ndim:
        raise graph_error("there is no such axis", op="apply_along_axis", got=str(axis))

    def one(vector: Value) -> Value:
        result = content_of(function(as_traced(vector), *args, **named))
        return (
            F.asarray(result) if isinstance(result, (list, tuple)) else as_value(result)
        )

    others = content.ndim - 1
    content = _with_vectors(content, axis % content.ndim)
    each: Callable[[Value], Value] = one
    for _ in range(others):
        each = vmap(each)
    results = each(F.moveaxis(content, axis, -1))
    own_axes = range(results.ndim - others)
    last, there = (
        [others + i for i in own_axes],
        [axis % content.ndim + i for i in own_axes],
    )
    return as_array(as_traced(F.moveaxis(results, last, there)))


def _with_vectors(content: Value, axis: int) -> Value:
    """Make calls raise ValueError where there is no vector along an axis."""
    sizes = [n for i, n in enumerate(content.shape) if i != axis]
    if all(isinstance(n, int) and n for n in sizes):
        return content
    fit = F.all(F.asarray(sizes) > 0)
    message = "numpy.apply_along_axis: there is no vector along this axis"
    return F.assert_(fit, message, content, ValueError)


def _einsum(subscripts: object, *operands: object, **options: object) -> object:
    """`np.einsum`; for a single array that keeps all its axes, a view."""
    args = (subscripts, *operands)
    _require_casts(operands if isinstance(subscripts, str) else args[::2], options)
    alone = operands[0] if len(operands) == 1 and not options else None
    if isinstance(alone, TracedArray) and _keeps_all_axes(subscripts):
        return alone.viewed(
            "", lambda x: compute_contents(np.einsum, (subscripts, x), {})
        )
    results = results_of(np.einsum, args, options)
    if len(operands) == 1 and isinstance(subscripts, TracedArray):
        note_sharing(results, (subscripts,), True)
    return results


def _require_casts(operands: Sequence[object], options: dict[str, Any]) -> None:
    """Raise GraphError for operands that NumPy would not cast to the result dtype."""
    casting, dtype = options.pop("casting", "safe"), options.get("dtype")
    dtypes = [_array(x).dtype for x in operands if not isinstance(x, (list, tuple))]
    for one in dtypes if dtype is not None else ():
        if not np.can_cast(one, np.dtype(dtype), casting):
            got = f"{one} into {np.dtype(dtype)}, by the rule {casting!r}"
            hint = 'say casting="unsafe", or cast the operands first, with astype'
            problem = "an operand cannot be cast"
            raise graph_error(problem, op="numpy.einsum", got=got, hint=hint)


def _joining_function(function: Callee) -> Callee:
    """A function that joins arrays once they are cast to the dtype asked for."""

    def joined(
        arrays: Sequence[object],
        *args: object,
        dtype: object = None,
        casting: CastingRule = "same_kind",
        **options: object,
    ) -> object:
        if dtype is not None:
            arrays = [_array(x).astype(dtype, casting=casting) for x in arrays]
        return results_of(function, (arrays, *args), options)

    return joined


def _keeps_all_axes(subscripts: object) -> bool:
    axes, arrow, results = str(subscripts).replace(" ", "").partition("->")
    return set(axes) == set(results) if arrow else len(set(axes)) == len(axes)


def _reshape(array: Any, *shape: object, order: str = "C", **options: Any) -> Any:
    shape = shape or (options.pop("shape", options.pop("newshape", None)),)
    return _array(array).reshape(*shape, order=order)


def _ravel(array: object, order: str = "C") -> object:
    return _array(array).ravel(order)


def _array(argument: object) -> TracedArray:
    return (
        argument if isinstance(argument, TracedArray) else as_traced(as_value(argument))
    )


def _diag(array: object, k: int = 0) -> object:
    """`np.diag`: a read-only view of a diagonal, or a matrix that has one."""
    if isinstance(array, TracedArray) and array.content.ndim == 2:
        return np.diagonal(array, k)
    return results_of(np.diag, (array, k), {})


def _real_if_close(array: object, tol: float = 100) -> object:
    if isinstance(array, TracedArray) and array.content.dtype.kind != "c":
        return as_array(array)
    if not isinstance(content_of(array), Value):
        return as_array(results_of(np.real_if_close, (array, tol), {}))
    problem = "NumPy gives real numbers if all are nearly real, which depends on data"
    hint = "write x.real for real numbers, or x for complex ones"
    raise graph_error(problem, op="numpy.real_if_close", hint=hint)


def _broadcast_arrays(*arrays: object, subok: bool = False) -> object:
    """`np.broadcast_arrays`: read-only views, since each element is in memory once."""
    shape = compute_contents(np.broadcast_arrays, content_of(arrays), {})[0].shape
    return tuple(np.broadcast_to(_array(array), shape) for array in arrays)


def _meshgrid(*arrays: object, **options: object) -> object:
    """The grids in a tuple, as NumPy 2 gives them."""
    grids: Wrapped = results_of(np.meshgrid, arrays, options)
    return tuple(grids)


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
    """`np.place`: write `new` in turn, repeated, wherever `mask` is true."""
    numbers, chosen = _numbers_for(array, new, "place"), _mask_as_vector(array, mask)
    if same_size(numbers.type.shape[0], 0):
        problem = "there are no numbers to put where the mask is true"
        raise graph_error(problem, op="numpy.place", got=str(numbers.type))
    turns = (F.cumsum(chosen) - 1) % numbers.size
    _replace_chosen(array, chosen, numbers[turns])


def _put_masked(array: TracedArray, mask: object, new: object) -> None:
    """`np.putmask`: where `mask` is true, write `new`, repeated, by position."""
    numbers, chosen = _numbers_for(array, new, "putmask"), _mask_as_vector(array, mask)
    if same_size(numbers.type.shape[0], 0):
        return
    places = F.arange(chosen.shape[0]) % numbers.size
    _replace_chosen(array, chosen, numbers[places])


def _mask_as_vector(array: TracedArray, mask: object) -> Value:
    """A mask as a vector, with as many elements as the array."""
    chosen = F.reshape(as_value(content_of(mask)), (-1,)) != 0
    count = F.reshape(as_value(array.content), (-1,)).type.shape
    return F.specify_shape(chosen, count)


def _numbers_for(array: TracedArray, new: object, name: str) -> Value:
    """Return `new` as a vector. Raises GraphError for an array of a wider dtype."""
    numbers = F.asarray(cast_python_integers(content_of(new), array.dtype))
    listed = numbers.ndim and not isinstance(new, (list, tuple))
    if listed and not np.can_cast(numbers.dtype, array.dtype):
        got = f"{numbers.dtype} into {array.dtype}"
        hint = "cast the numbers first, with astype"
        raise graph_error("cannot be cast", op=f"numpy.{name}", got=got, hint=hint)
    return F.reshape(numbers, (-1,))


def _replace_chosen(array: TracedArray, chosen: Value, numbers: Value) -> None:
    old = as_value(array.content)
    flat = F.where(chosen, cast(numbers, old.dtype), F.reshape(old, (-1,)))
    array.memory.write(..., F.reshape(flat, old.shape))


def _nan_to_num(
    array: object, copy: bool = True, *args: object, **options: object
) -> object:
    numbers = content_of((array, True, *args))
    result = as_traced(compute_contents(np.nan_to_num, numbers, content_of(options)))
    if copy or not isinstance(array, TracedArray):
        return result
    array.memory.write(..., content_of(result))
    return array if array.content.ndim else array[()]


def _arange(*args: object, **options: object) -> object:
    """`np.arange`: its first two numbers must fit the dtype; later ones may wrap."""
    named = {name: options.pop(name) for name in _STEPS if name in options}
    if named:
        first = ("stop",) if len(args) == 1 and "stop" not in named else _STEPS
        steps = {"start": 0, "step": 1, **dict(zip(first, args, strict=False)), **named}
        args = (*(steps[name] for name in _STEPS if name in steps), *args[3:])
    result: Wrapped = results_of(np.arange, args, options)
    exact: Value = F.arange(*content_of(args[:3]))
    if is_integer(result.dtype) and is_integer(exact.dtype):
        require_fit(exact[:2], result.dtype)
    return result


def _diag_indices(n: object, ndim: int = 2) -> object:
    """`np.diag_indices`: the same array of indices for each axis."""
    return (np.arange(content_of(n)),) * ndim


def _diag_indices_from(array: TracedArray) -> object:
    results_of(np.diag_indices_from, (array,), {})  # raises unless sizes are equal
    return _diag_indices(array.shape[0], array.content.ndim)


# Functions of NumPy that write, or that call functions of the user.
SAME_RESULTS = frozenset(["diag_indices", "diag_indices_from"])
OWN |= {
    "arange": _arange,
    "from_dlpack": _from_dlpack,
    "packbits": _pack_bits,
    "unpackbits": _unpack_bits,
    "iscomplexobj": lambda x: np.asarray(x).dtype.kind == "c",
    "isrealobj": lambda x: np.asarray(x).dtype.kind != "c",
    "corrcoef": _correlation,
    "cov": _covariance,
    "rollaxis": _roll_axis,
    "squeeze": _squeeze,
    "trim_zeros": _trim_zeros,
    "diag_indices": _diag_indices,
    "diag_indices_from": _diag_indices_from,
    "broadcast_arrays": _broadcast_arrays,
    "meshgrid": _meshgrid,
    "diag": _diag,
    "real_if_close": _real_if_close,
    "apply_along_axis": _along_axis,
    "array_equiv": _array_equiv,
    "poly": _poly,
    "sort_complex": _sort_complex,
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

_JOINS: tuple[Callee, ...] = np.concatenate, np.stack, np.hstack, np.vstack
OWN |= {f.__name__: _joining_function(f) for f in _JOINS}
NAMES = frozenset(OWN)
