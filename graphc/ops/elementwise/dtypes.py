"""Dtypes, their limits and how they combine: functions that return no arrays."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, HasDLPack, ShapeLike
from graphc.ir.graph.build import as_strong_value, as_value, default_dtype, no_device
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, enroll, public
from graphc.ir.types import (
    BFLOAT16,
    DTYPES,
    INT64,
    DType,
    dtype_of,
    is_float,
    is_integer,
)
from graphc.ops.common.broadcasting import common_dtype

ARRAYS = (Value, np.ndarray, np.generic)
KINDS: dict[str, Callable[[DType], bool]] = {
    "bool": lambda d: d.kind == "b",
    "signed integer": lambda d: d.kind == "i",
    "unsigned integer": lambda d: d.kind == "u",
    "integral": is_integer,
    "real floating": is_float,
    "complex floating": lambda d: d.kind == "c",
    "numeric": lambda d: d.kind != "b",
}


def _dtype(x: ArrayLike | DTypeLike) -> DType:
    """The dtype of an array, or the one that `x` itself denotes."""
    if isinstance(x, ARRAYS):
        return dtype_of(x.dtype)
    return dtype_of(x)


@public()
def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> DType:
    """The dtype of arithmetic with these arrays, dtypes and Python numbers."""
    if not arrays_and_dtypes:
        raise graph_error("needs at least one array or dtype", op="result_type")
    values = []
    for x in arrays_and_dtypes:
        is_value = isinstance(x, (*ARRAYS, bool, int, float, complex))
        values.append(as_value(x if is_value else np.zeros((), dtype_of(x))))
    return common_dtype(values)


@public()
def can_cast(
    from_: ArrayLike | DTypeLike, to: DTypeLike, /, casting: str = "safe"
) -> bool:
    """Whether a dtype, or the dtype of an array, can be cast to `to` by a rule."""
    return np.can_cast(_dtype(from_), _dtype(to), casting)  # type: ignore[arg-type]


@public()
def isdtype(
    dtype: DTypeLike, kind: str | DTypeLike | tuple[str | DTypeLike, ...]
) -> bool:
    """Whether a dtype is equal to `kind`, of that kind, or one of a tuple of both.

    The kinds are "bool", "signed integer", "unsigned integer", "integral", "real
    floating", "complex floating" and "numeric".
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in KINDS:
        return bool(KINDS[kind](dtype_of(dtype)))
    if isinstance(kind, str) and kind not in DTYPES:
        expected = ", ".join(KINDS)
        raise graph_error(f"unknown kind {kind!r}", op="isdtype", expected=expected)
    return dtype_of(dtype) == dtype_of(kind)


@public()
def finfo(type: ArrayLike | DTypeLike, /) -> Any:
    """The limits of a floating-point dtype, or of the dtype of an array."""
    dtype = _dtype(type)
    if not is_float(dtype) and dtype.kind != "c":
        raise graph_error(f"{dtype} is not floating point", op="finfo")
    if dtype == BFLOAT16:
        return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return np.finfo(dtype)


@public()
def iinfo(type: ArrayLike | DTypeLike, /) -> Any:
    """The limits of an integer dtype, or of the dtype of an array."""
    dtype = _dtype(type)
    if not is_integer(dtype):
        raise graph_error(f"{dtype} is not an integer dtype", op="iinfo")
    return np.iinfo(dtype)


@public()
def empty_like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """Zeros, as from `zeros_like`: there is no memory to leave uninitialised."""
    no_device(device, "empty_like")
    return F.zeros_like(x, dtype, shape)


@public()
def from_dlpack(
    x: HasDLPack, /, *, device: None = None, copy: bool | None = None
) -> Value:
    """An array of any library that supports DLPack, as a constant.

    It is copied whatever `copy` says.
    """
    no_device(device, "from_dlpack")
    return as_value(np.from_dlpack(x))


@public()
def matrix_transpose(x: ArrayLike, /) -> Value:
    """Swap the last two axes."""
    value = as_strong_value(x)
    if value.type.rank < 2:
        raise graph_error("needs a matrix", op="matrix_transpose", got=str(value.type))
    return F.swapaxes(value, -1, -2)


class NamespaceInfo:
    """The answers to the Array API's questions about its namespace."""

    def capabilities(self) -> dict[str, object]:
        """Boolean indexing and sizes from data are supported, and up to 64 axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> None:
        """None: the compiled function decides where arrays are."""
        return None

    def devices(self) -> list[None]:
        """Only None, since a graph names no device."""
        return [None]

    def default_dtypes(self, *, device: None = None) -> dict[str, DType]:
        """The dtypes that Python numbers become."""
        return {
            "real floating": config.float,
            "complex floating": default_dtype(dtype_of("complex128")),
            "integral": INT64,
            "indexing": INT64,
        }

    def dtypes(
        self, *, device: None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by name: all of them, or those of a kind."""
        return {n: d for n, d in DTYPES.items() if kind is None or isdtype(d, kind)}


enroll(NamespaceInfo, "__array_namespace_info__")
