"""Means, variances and standard deviations."""

from math import prod
from typing import Any

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, normal_axes
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import FLOAT32, FLOAT64, DType, dtype_of, is_float, is_inexact
from graphc.ops.common.axes import AxisArgument
from graphc.ops.reductions.reduce import where_mask


def _element_count(
    x: Value, axis: AxisArgument, keepdims: bool, where: ArrayLike, name: str
) -> int | Value:
    """The number of elements reduced: a size, or a count per result with a mask."""
    mask = where_mask(where, x, name)
    if mask is None:
        return prod([x.shape[a] for a in normal_axes(axis, x.type.rank, name)])
    return F.sum(mask, axis, keepdims=keepdims)


def _work_dtype(dtype: DType) -> DType:
    """The dtype of a mean's steps: float32 for 2-byte floats, float64 for integers."""
    if dtype.kind in "biu":
        return FLOAT64
    return FLOAT32 if dtype.itemsize == 2 else dtype


def _ratio(total: Value, count: int | Value) -> Value:
    """Divide `total` by `count` in the dtype of `total`."""
    if isinstance(count, Value) and not count.type.weak:
        count = cast(count, total.dtype)
    return total / count


@public(method=True)
def mean(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Value:
    """The arithmetic mean over `axis`; integers are averaged in float64.

    float16 and bfloat16 are added up in float32, as NumPy does for float16. Only
    elements where the bool array `where` holds count.
    """
    value = as_strong_value(x)
    to = dtype_of(dtype) if dtype is not None else value.dtype
    work = _work_dtype(to)
    wide = cast(cast(value, to), work)
    total = F.sum(wide, axis, keepdims=keepdims, where=where)
    result = _ratio(total, _element_count(value, axis, keepdims, where, "mean"))
    return cast(result, work if to.kind in "biu" and dtype is None else to)


def lost_freedom(ddof: ArrayLike, correction: ArrayLike | None, name: str) -> Any:
    """The number to subtract from the count: `ddof`, or else `correction`.

    Raises GraphError where both are given.
    """
    if correction is None:
        return ddof
    if not isinstance(ddof, (int, float)) or ddof != 0:
        raise graph_error("give ddof or correction, not both", op=name)
    return correction


def spread_dtype(value: Value, dtype: DTypeLike | None, name: str) -> DType:
    """The dtype of a variance's steps. Raises GraphError if parts would be lost."""
    if dtype is None:
        return value.dtype
    to = dtype_of(dtype)
    is_complex = value.dtype.kind == "c"
    if not is_inexact(to) or (is_complex and to.kind != "c"):
        got = f"{value.type}, in {to}"
        expected = "complex numbers" if is_complex else "floats"
        problem = "a variance in this dtype would lose a part of the numbers"
        hint = "leave dtype out, and convert the result"
        raise graph_error(problem, op=name, got=got, expected=expected, hint=hint)
    return to


def as_named_dtype(result: Value, dtype: DTypeLike | None) -> Value:
    """Cast a result to the dtype that the user names, even a complex one, as NumPy."""
    return result if dtype is None else cast(result, dtype_of(dtype))


@public(method=True)
def var(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Value:
    """The variance over `axis`, by the two-pass formula, as `numpy.var`.

    The sum of squares is divided by the count less `ddof`, which the Array API calls
    `correction`. `mean`, where given, is the mean with its axes kept. Only elements
    where the bool array `where` holds count. float16 is computed in float32.
    """
    lost = lost_freedom(ddof, correction, "var")
    result = _variance(x, axis, dtype, lost, keepdims, where, mean, "var")
    return as_named_dtype(result, dtype)


def _variance(
    x: ArrayLike,
    axis: AxisArgument,
    dtype: DTypeLike | None,
    lost: Any,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike | None,
    name: str,
) -> Value:
    """The variance, which is real whatever dtype it is computed in."""
    value = as_strong_value(x)
    to = spread_dtype(value, dtype, name)
    value = cast(value, _work_dtype(to))
    if mean is None:
        mean = F.mean(value, axis, keepdims=True, where=where)
    centred = value - cast(as_value(mean), value.dtype)
    squares = F.square(centred)
    if value.dtype.kind == "c":
        squares = F.square(F.real(centred)) + F.square(F.imag(centred))
    total = F.sum(squares, axis, keepdims=keepdims, where=where)
    count = _element_count(value, axis, keepdims, where, "var")
    result = _ratio(total, F.maximum(count - lost, 0))
    return cast(result, to if is_float(to) else result.dtype)


@public(method=True)
def std(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Value:
    """The standard deviation over `axis`, as `numpy.std`, with the arguments of `var`.

    Its gradient is 0 where all elements are equal; that of JAX is NaN there.
    """
    lost = lost_freedom(ddof, correction, "std")
    variance = _variance(x, axis, dtype, lost, keepdims, where, mean, "std")
    return as_named_dtype(F._root(variance), dtype)
