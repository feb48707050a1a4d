"""Functions of NumPy that write, that give views by their arguments, or call others."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.numpy.arrays import (
    OWN,
    TracedArray,
    Wrapped,
    as_array,
    called,
    computed,
    content_of,
    note_sharing,
    results_of,
    wrapped,
)
from graphc.importers.numpy.in_place import put
from graphc.importers.numpy.memory import require
from graphc.ir.graph.build import as_size, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim, Size, is_one, less_equal
from graphc.transform.derivatives.vectorize import vmap


def _squeeze(array: object, axis: Wrapped = None) -> object:
    """A view without the axes of size 1, which are known before the call."""
    view = _array(array)
    if axis is None:
        sizes = as_value(view.content).type.shape
        _require_known(sizes, "squeeze")
        axis = tuple(i for i, n in enumerate(sizes) if is_one(n))
    return view.viewed("squeeze", lambda content: content.squeeze(axis))


def _require_known(sizes: Sequence[Size], op: str) -> None:
    """Raise GraphError where whether a size is 1 depends on data, as the rank then."""
    for size in sizes:
        if isinstance(size, Dim) and size.compared("at least", 2) is None:
            problem = "whether an axis has one element depends on data"
            hint = "say axis=" if op == "squeeze" else "put x.reshape(...) before it"
            raise graph_error(problem, op=op, got=f"a size of {size}", hint=hint)


def _covariance(
    x: Wrapped, y: Wrapped = None, *args: Wrapped, **options: Wrapped
) -> object:
    _require_rows(x, y, "cov")
    return _in_float64(F.cov, x, y, *args, **options)


def _correlation(
    x: Wrapped, y: Wrapped = None, *args: Wrapped, **options: Wrapped
) -> object:
    _require_rows(x, y, "corrcoef")
    return _in_float64(F.corrcoef, x, y, *args, **options)


def _require_rows(x: Wrapped, y: Wrapped, op: str) -> None:
    """Raise GraphError where that there is one variable depends on data."""
    if y is None:
        _require_known(as_value(content_of(x)).type.shape[:-1], op)


def _in_float64(
    function: Callable[..., Value], *args: Wrapped, **options: Wrapped
) -> object:
    """The results of a function that computes in float64 at least, as NumPy's does."""
    if options.get("dtype") is None:
        arrays = [_array(x).dtype for x in args[:2] if x is not None]
        options["dtype"] = np.result_type(np.float64, *arrays)
    return as_array(wrapped(function(*content_of(args), **content_of(options))))


def _roll_axis(array: object, axis: int, start: int = 0) -> object:
    """A view in which an axis stands before another one."""
    view = _array(array)
    rank = view.content.ndim
    first, last = axis % rank, start if start >= 0 else start + rank
    return called(np.moveaxis, (view, first, last - (first < last)), {})


def _from_dlpack(array: object, **options: object) -> object:
    problem = "an array that is traced is in no memory of others"
    raise graph_error(problem, op="numpy.from_dlpack", hint="use the array itself")


def _histogram_of_several(
    sample: Wrapped,
    bins: Wrapped = 10,
    range: Wrapped = None,
    density: bool | None = None,
    weights: Wrapped = None,
) -> tuple[object, list[Wrapped]]:
    """`np.histogramdd`: how many points are in each box, and the edges of boxes."""
    points = _array(np.asarray(sample))
    in_rows = isinstance(sample, (list, tuple)) or points.ndim < 2
    columns = list(np.atleast_2d(points) if in_rows else points.T)
    each = bins if _is_listed(bins) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else range
    if len({len(columns), len(each), len(limits)}) > 1:
        problem = "takes as many bins and ranges as columns"
        raise graph_error(problem, op="numpy.histogramdd", got=str(len(columns)))
    by_axis = [
        np.asarray(b) if _is_listed(b) else np.histogram_bin_edges(x, b, r)
        for x, b, r in zip(columns, each, limits, strict=True)
    ]
    places: Wrapped = 0
    for column, edges in zip(columns, by_axis, strict=True):
        after = np.searchsorted(edges, column, side="right")
        places = places * (edges.shape[0] + 1) + after - (column == edges[-1])
    shape = [edges.shape[0] + 1 for edges in by_axis]
    counts = _array(np.zeros(math.prod(shape)))
    np.add.at(counts, places, 1.0 if weights is None else np.asarray(weights, float))
    inner = counts.reshape(shape)[(slice(1, -1),) * len(shape)].copy()
    return _as_density(inner, by_axis) if density else inner, by_axis


def _is_listed(bins: Wrapped) -> bool:
    """Whether bins are several, or edges, and not a number of bins."""
    return isinstance(bins, (list, tuple)) or np.ndim(bins) > 0


def _as_density(counts: Wrapped, by_axis: Sequence[Wrapped]) -> object:
    """Counts divided by the sizes of boxes and by the sum of all."""
    total = counts.sum()
    for axis, edges in enumerate(by_axis):
        shape = [-1 if i == axis else 1 for i in range(len(by_axis))]
        counts = counts / np.diff(edges).reshape(shape)
    return counts / total


def _histogram_of_two(
    x: object, y: object, bins: Wrapped = 10, *args: Wrapped, **options: Wrapped
) -> tuple[object, ...]:
    """`np.histogram2d`."""
    pair = bins if _is_listed(bins) and len(bins) <= 2 else [bins, bins]
    counts, edges = _histogram_of_several([x, y], pair, *args, **options)
    return counts, *edges


def _pack_bits(array: object, axis: int | None = None, bitorder: str = "big") -> object:
    """`np.packbits`: eight elements each, as bits of a byte."""
    rows = np.moveaxis(_along_one(array, axis) != 0, axis or 0, -1)
    count = (rows.shape[-1] + 7) // 8
    bits = _array(np.zeros((*rows.shape[:-1], count * 8), "uint8"))
    bits[..., : rows.shape[-1]] = rows
    parts = bits.reshape((*rows.shape[:-1], count, 8)) << _shifts(bitorder)
    return np.moveaxis(np.sum(parts, axis=-1, dtype="uint8"), -1, axis or 0)


def _unpack_bits(
    array: object,
    axis: int | None = None,
    count: None = None,
    bitorder: str = "big",
) -> object:
    """`np.unpackbits`: the eight bits of each byte."""
    if count is not None:
        hint = "leave count out, and take a part of the result"
        raise graph_error("takes no count", op="numpy.unpackbits", hint=hint)
    rows = np.moveaxis(_along_one(array, axis), axis or 0, -1)
    bits = (rows[..., None] >> _shifts(bitorder)) & np.uint8(1)
    bits = bits.reshape((*rows.shape[:-1], rows.shape[-1] * 8))
    return np.moveaxis(bits, -1, axis or 0)


def _along_one(array: Wrapped, axis: int | None) -> Wrapped:
    """The array, as a vector where no axis is said."""
    return np.ravel(array) if axis is None else np.asarray(array)


def _shifts(bitorder: str) -> Wrapped:
    shifts = np.arange(8, dtype="uint8")
    return shifts[::-1] if bitorder == "big" else shifts


def _trim_zeros(array: object, trim: str = "fb", axis: int | None = None) -> object:
    """The part of a vector between its first and its last number that is not 0."""
    view = _array(array)
    if view.content.ndim != 1:
        hint = "write x[first:last], by np.nonzero"
        raise graph_error("trims vectors", op="numpy.trim_zeros", hint=hint)
    count = as_value(view.content).shape[0]
    places = F.flatnonzero(view.content)
    first = F.min(places, initial=count) if "f" in trim.lower() else 0
    last = F.max(places, initial=-1) + 1 if "b" in trim.lower() else count
    return view[first:last]


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
    return as_array(wrapped(F.moveaxis(results, last, there)))


def _with_vectors(content: Value, axis: int) -> Value:
    """The array, which has a vector along an axis: NumPy asks for one."""
    sizes = [n for i, n in enumerate(content.shape) if i != axis]
    if all(isinstance(n, int) and n for n in sizes):
        return content
    fit = F.all(F.asarray(sizes) > 0)
    message = "numpy.apply_along_axis: there is no vector along this axis"
    return F.assert_(fit, message, content, ValueError)


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


def _reshape(array: Any, *shape: object, order: str = "C", **options: Any) -> Any:
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
    """Views, which are not written: elements are in memory once."""
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
    numbers, chosen = _flat_numbers(new), _chosen(array, mask)
    turns = (F.cumsum(chosen) - 1) % numbers.size
    _replace_chosen(array, chosen, numbers[turns])


def _put_masked(array: TracedArray, mask: object, new: object) -> None:
    """`np.putmask`: where a mask is true, the numbers at its places, repeated."""
    numbers, chosen = _flat_numbers(new), _chosen(array, mask)
    places = F.arange(chosen.shape[0]) % numbers.size
    _replace_chosen(array, chosen, numbers[places])


def _chosen(array: TracedArray, mask: object) -> Value:
    """A mask as a vector, which has as many elements as the array."""
    chosen = F.reshape(as_value(content_of(mask)), (-1,)) != 0
    count = F.reshape(as_value(array.content), (-1,)).type.shape
    return F.specify_shape(chosen, count)


def _flat_numbers(numbers: object) -> Value:
    return F.reshape(F.asarray(content_of(numbers)), (-1,))


def _replace_chosen(array: TracedArray, chosen: Value, numbers: Value) -> None:
    old = as_value(array.content)
    flat = F.where(chosen, cast(numbers, old.dtype), F.reshape(old, (-1,)))
    array.memory.write(..., F.reshape(flat, old.shape))


def _eigenvalues(function: Callable[..., object]) -> Callable[..., object]:
    """`eig` or `eigvals`, of complex matrices: NumPy then gives complex numbers."""

    def of_matrix(a: object) -> object:
        if as_value(content_of(a)).dtype.kind == "c":
            return results_of(function, (a,), {})
        name = function.__name__
        of_symmetric = {"eig": "eigh", "eigvals": "eigvalsh"}[name]
        problem = "NumPy gives real numbers if all eigenvalues are, which data decide"
        hint = f"write np.linalg.{name}(a.astype(complex)) for complex ones, or "
        hint += f"np.linalg.{of_symmetric}(a) of a symmetric matrix"
        raise graph_error(problem, op=f"numpy.linalg.{name}", hint=hint)

    return of_matrix


def _digitize(x: object, bins: object, right: bool = False) -> object:
    edges = as_value(content_of(bins))
    up, down = edges[1:] >= edges[:-1], edges[1:] <= edges[:-1]
    message = "digitize: bins are neither ascending nor descending"
    require(F.logical_or(F.all(up), F.all(down)), message)
    return results_of(np.digitize, (x, bins, right), {})


def _histogram(function: Callable[..., object]) -> Callable[..., object]:
    """`histogram` or `histogram_bin_edges`, of edges that ascend, or of finite data."""

    def by_bins(
        a: object,
        bins: object = 10,
        range: object = None,
        *args: object,
        **options: object,
    ) -> object:
        name = function.__name__
        if _is_listed(bins):
            edges = F.asarray(content_of(bins))
            rise = F.logical_not(F.any(edges[:-1] > edges[1:]))
            require(rise, f"{name}: the edges of bins do not ascend")
        elif range is None and not isinstance(bins, str):
            finite = F.all(F.isfinite(F.asarray(content_of(a))))
            require(finite, f"{name}: the range of the data is not finite")
        return results_of(function, (a, bins, range, *args), options)

    return by_bins


def _quantile(function: Callable[..., object], most: int) -> Callable[..., object]:
    """A function of quantiles, which are shares up to `most` of the elements."""

    def of_shares(a: object, q: object, *args: object, **options: object) -> object:
        shares = F.asarray(content_of(q))
        within = F.all(F.logical_and(shares >= 0, shares <= most))
        require(within, f"{function.__name__}: a share is not in 0..{most}")
        return results_of(function, (a, q, *args), options)

    return of_shares


def _unravel_index(indices: object, shape: object, order: str = "C") -> object:
    places, sizes = F.asarray(content_of(indices)), content_of(shape)
    count = F.prod(F.asarray(sizes, "int64"))
    within = F.all(F.logical_and(places >= 0, places < count))
    message = "unravel_index: an index is out of bounds for the shape"
    require(within, message, "index")
    return results_of(np.unravel_index, (indices, shape, order), {})


def _count_each(x: object, weights: object = None, minlength: object = 0) -> object:
    """`np.bincount`: of nothing, NumPy counts, whatever the weights are."""
    count = as_size(as_value(content_of(x)).size)
    if weights is not None and less_equal(count, 0):
        weights = None
    elif weights is not None and not less_equal(1, count):
        message = "bincount: of nothing, NumPy gives integers in place of sums"
        require(as_value(count) > 0, message)
    return results_of(np.bincount, (x, weights, minlength), {})


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
    "from_dlpack": _from_dlpack,
    "histogram2d": _histogram_of_two,
    "histogramdd": _histogram_of_several,
    "packbits": _pack_bits,
    "unpackbits": _unpack_bits,
    "iscomplexobj": lambda array: content_of(array).dtype.kind == "c",
    "isrealobj": lambda array: content_of(array).dtype.kind != "c",
    "corrcoef": _correlation,
    "cov": _covariance,
    "rollaxis": _roll_axis,
    "squeeze": _squeeze,
    "trim_zeros": _trim_zeros,
    "diag_indices": _diag_indices,
    "diag_indices_from": _diag_indices_from,
    "broadcast_arrays": _broadcast_arrays,
    "diag": _diag,
    "real_if_close": _real_if_close,
    "apply_along_axis": _along_axis,
    "copyto": _copy_to,
    "einsum": _einsum,
    "fill_diagonal": _fill_diagonal,
    "bincount": _count_each,
    "digitize": _digitize,
    "eig": _eigenvalues(np.linalg.eig),
    "eigvals": _eigenvalues(np.linalg.eigvals),
    "histogram": _histogram(np.histogram),
    "histogram_bin_edges": _histogram(np.histogram_bin_edges),
    "nan_to_num": _nan_to_num,
    "nanpercentile": _quantile(np.nanpercentile, 100),
    "nanquantile": _quantile(np.nanquantile, 1),
    "percentile": _quantile(np.percentile, 100),
    "quantile": _quantile(np.quantile, 1),
    "unravel_index": _unravel_index,
    "put_along_axis": _put_along_axis,
    "place": _place,
    "put": put,
    "putmask": _put_masked,
    "ravel": _ravel,
    "reshape": _reshape,
}

NAMES = frozenset(OWN)
