"""Reductions that pass over NaN."""

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import as_strong_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import FLOAT32, DType, dtype_of, is_inexact
from graphc.ops.common.axes import AxisArgument
from graphc.ops.reductions.mean_var import as_named_dtype, lost_freedom, spread_dtype


def _fill_nan(x: ArrayLike, fill: float) -> tuple[Value, Value | None]:
    """Replace NaN in `x` by `fill`; also return its mask, None for exact dtypes."""
    value = as_strong_value(x)
    if not is_inexact(value.dtype):
        return value, None
    missing = F.isnan(value)
    return F.where(missing, fill, value), missing


def _sum_like(name: str, reduction: str, fill: float) -> None:
    doc = f"`{reduction}` with NaN taken as {fill:g}, as `numpy.{name}`."

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike,
        axis: AxisArgument = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Value:
        value, _ = _fill_nan(x, fill)
        reduce = getattr(F, reduction)
        return reduce(value, axis, dtype, keepdims, initial=initial, where=where)


_sum_like("nansum", "sum", 0.0)
_sum_like("nanprod", "prod", 1.0)


def _extreme(name: str, reduction: str, fill: float) -> None:
    doc = f"`{reduction}` that passes over NaN; NaN where nothing else is."

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike,
        axis: AxisArgument = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Value:
        value, missing = _fill_nan(x, fill)
        reduce = getattr(F, reduction)
        result = reduce(value, axis, keepdims, initial=initial, where=where)
        if missing is None or initial is not None:
            return result
        return F.where(F.all(missing, axis, keepdims), np.nan, result)


_extreme("nanmax", "max", -np.inf)
_extreme("nanmin", "min", np.inf)


def _position(name: str, reduction: str, fill: float) -> None:
    doc = f"`{reduction}` that passes over NaN; -1, as in JAX, where all are NaN."

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike, axis: int | None = None, *, keepdims: bool = False
    ) -> Value:
        value, missing = _fill_nan(x, fill)
        position = getattr(F, reduction)(value, axis, keepdims=keepdims)
        if missing is None:
            return position
        return F.where(F.all(missing, axis, keepdims), -1, position)


_position("nanargmax", "argmax", -np.inf)
_position("nanargmin", "argmin", np.inf)


def _counted_mask(x: Value, where: ArrayLike) -> Value:
    """A mask of the elements that count: not NaN, and under `where`."""
    present = F.logical_not(F.isnan(x))
    return present if where is True else F.logical_and(present, where)


def _in_work_dtype(
    value: Value, dtype: DTypeLike | None, name: str
) -> tuple[Value, DType]:
    """Cast to the dtype of a mean's steps; also return the dtype of the result.

    Raises GraphError where that dtype has no NaN.
    """
    to = value.dtype if dtype is None else dtype_of(dtype)
    if not is_inexact(to):
        got = f"{value.type}, in {to}"
        hint = "leave dtype out, and convert the result"
        raise graph_error("a dtype of integers has no NaN", op=name, got=got, hint=hint)
    return cast(value, FLOAT32 if to.itemsize == 2 else to), to


@public()
def nanmean(
    x: ArrayLike,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Value:
    """The mean of elements that are not NaN (and under `where`); NaN if none is."""
    value = as_strong_value(x)
    if not is_inexact(value.dtype):
        return F.mean(value, axis, dtype, keepdims, where=where)
    value, to = _in_work_dtype(value, dtype, "nanmean")
    mask = _counted_mask(value, where)
    return cast(F.mean(value, axis, keepdims=keepdims, where=mask), to)


@public()
def nanvar(
    x: ArrayLike,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Value:
    """The variance of elements that are not NaN, with the arguments of `var`.

    It is NaN where no degree of freedom is left.
    """
    lost = lost_freedom(ddof, correction, "nanvar")
    value = as_strong_value(x)
    if not is_inexact(value.dtype):
        return F.var(value, axis, dtype, lost, keepdims, where=where, mean=mean)
    variance = _variance(value, axis, dtype, lost, keepdims, where, mean, "nanvar")
    return as_named_dtype(variance, dtype)


def _variance(
    value: Value,
    axis: AxisArgument,
    dtype: DTypeLike | None,
    lost: ArrayLike,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike | None,
    name: str,
) -> Value:
    """The variance, which is real whatever dtype it is computed in."""
    spread_dtype(value, dtype, name)
    wide, to = _in_work_dtype(value, dtype, name)
    mask = _counted_mask(wide, where)
    variance = F.var(wide, axis, None, lost, keepdims, where=mask, mean=mean)
    count = F.sum(mask, axis, keepdims=keepdims)
    variance = F.where(count <= lost, np.nan, variance)
    return cast(variance, to) if to.kind != "c" else variance


@public()
def nanstd(
    x: ArrayLike,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Value:
    """The standard deviation of elements that are not NaN; arguments as in `var`."""
    lost = lost_freedom(ddof, correction, "nanstd")
    value = as_strong_value(x)
    if not is_inexact(value.dtype):
        return F.std(value, axis, dtype, lost, keepdims, where=where, mean=mean)
    variance = _variance(value, axis, dtype, lost, keepdims, where, mean, "nanstd")
    return as_named_dtype(F._root(variance), dtype)


def _running(name: str, total: str, fill: float) -> None:
    @public(name=f"nan{name}", doc=f"Running {total} with NaN taken as {fill:g}.")
    def function(
        x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None
    ) -> Value:
        return getattr(F, name)(_fill_nan(x, fill)[0], axis, dtype)


_running("cumsum", "sums", 0.0)
_running("cumprod", "products", 1.0)
