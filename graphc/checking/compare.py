"""Whether two arrays are the same: bit for bit, or up to rounding."""

from collections.abc import Iterable

import ml_dtypes
import numpy as np

from graphc.ir.types import BFLOAT16, DType, NDArray, is_inexact

ROUNDINGS = 1e3  # units in the last place that the order of operations may cost


def are_identical(x: NDArray, y: NDArray) -> bool:
    """Whether arrays are equal, signs of zeros included; all NaNs count as equal."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind == "c":
        return are_identical(x.real, y.real) and are_identical(x.imag, y.imag)
    if not is_inexact(x.dtype):
        return bool((x == y).all())
    nan = np.isnan(x)
    alike = (x == y) & (np.signbit(x) == np.signbit(y))
    return bool((alike | (nan & np.isnan(y))).all())


def are_close(x: NDArray, y: NDArray, unit: float, *, finite: bool = False) -> bool:
    """Whether arrays are equal up to rounding, infinities and NaN in the same places.

    `unit` is the unit in the last place; with `finite`, elements are compared only
    where `x` is finite.
    """
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not is_inexact(x.dtype):
        return bool((x == y).all())
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    a, b = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
        near = np.abs(a - b) <= ROUNDINGS * unit * scale
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    agreeing = np.where(np.isfinite(a), near, finite | same)
    return bool(agreeing.all())


def coarsest_unit(dtypes: Iterable[DType]) -> float:
    """The largest unit in the last place, for numbers near 1, of these dtypes."""
    return max((_eps(d) for d in dtypes if is_inexact(d)), default=0.0)


def _eps(dtype: DType) -> float:
    if dtype == BFLOAT16:
        return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return float(np.finfo(dtype).eps)
