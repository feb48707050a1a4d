"""Tensor types: a dtype and a tuple of sizes, each an int or a symbolic `Dim`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NewType, TypeAlias

import ml_dtypes
import numpy as np

from graphc.errors import graph_error, user_place
from graphc.ir.sizes.dims import Dim, Size, equal

if TYPE_CHECKING:
    import jax

    JaxArray: TypeAlias = jax.Array
    ConcreteArray: TypeAlias = "NDArray | JaxArray"
else:  # only names: programs import JAX if they need it
    JaxArray = NewType("JaxArray", object)
    ConcreteArray = NewType("ConcreteArray", object)

NDArray = np.ndarray[Any, Any]
DType = np.dtype[Any]
BOOL = np.dtype("bool")
INT32 = np.dtype("int32")
INT64 = np.dtype("int64")
UINT32 = np.dtype("uint32")
UINT64 = np.dtype("uint64")
FLOAT16 = np.dtype("float16")
FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
DTYPES: dict[str, DType] = {name: np.dtype(name) for name in _NAMES}
DTYPES["bfloat16"] = BFLOAT16
_NAME_OF = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: object) -> DType:
    """The dtype called `name` (a string, a NumPy or Python type, or a dtype)."""
    try:
        return _supported_dtype(name)
    except TypeError:
        raise graph_error(f"unknown dtype {name!r}", hint=_dtype_hint(name)) from None


@lru_cache(maxsize=256)
def _supported_dtype(name: Any) -> DType:
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    # NumPy would take None for float64, and ("n", 3) for three integers.
    if name is None or isinstance(name, tuple):
        raise TypeError
    dtype = np.dtype(name)
    if dtype.name not in DTYPES:
        shown = name.__name__ if isinstance(name, type) else name
        raise graph_error(f"dtype {shown} is not supported", hint=_known_dtypes_text())
    return DTYPES[dtype.name]


def _dtype_hint(name: object) -> str:
    """A hint for an object given as a dtype: most often, sizes."""
    if isinstance(name, tuple):
        return f"name it, if it is the shape: shape={name!r}"
    if isinstance(name, int):
        called = user_place().called
        if called in ("normal", "uniform"):
            return "a key and the shape come first, as (gt.random.key(0), (3,))"
        if called in ("mean", "sum", "prod", "var", "std", "all", "any"):
            return "several axes go in one tuple, as axis=(0, 1)"
        if called not in ("scalar", "astype", "asarray"):
            return "the sizes of a shape go in one tuple, as (3, 4)"
    return _known_dtypes_text()


def _known_dtypes_text() -> str:
    return "use one of " + ", ".join(DTYPES)


def name_of(dtype: DType) -> str:
    """The name of a dtype; NumPy's own attribute is slow."""
    return _NAME_OF.get(dtype) or dtype.name


def is_integer(dtype: DType) -> bool:
    """Whether `dtype` is a signed or unsigned integer (not bool)."""
    return dtype.kind in "iu"


def is_float(dtype: DType) -> bool:
    """Whether `dtype` is a real floating-point type."""
    return dtype.kind == "f" or dtype == BFLOAT16


def is_inexact(dtype: DType) -> bool:
    """Whether `dtype` is floating point or complex."""
    return is_float(dtype) or dtype.kind == "c"


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real parts, and of absolute values."""
    return dtype_of(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype of this precision."""
    return dtype if dtype.kind == "c" else dtype_of(f"complex{dtype.itemsize * 16}")


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dtype and a shape; rank is always static.

    `weak` marks a scalar that behaves as a Python number in promotion (NEP 50).
    """

    dtype: DType
    shape: tuple[Size, ...]
    weak: bool = False

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Size:
        """The number of bytes of all elements."""
        return self.size * self.dtype.itemsize

    def like(
        self, shape: Iterable[Size] | None = None, dtype: DType | None = None
    ) -> "TensorType":
        """The same type with another shape or dtype; the result is strong."""
        new_shape = self.shape if shape is None else tuple(shape)
        return TensorType(dtype or self.dtype, new_shape)

    def same(self, other: "TensorType") -> bool:
        """Whether the dtypes, weakness and sizes are identical, without any proof."""
        return (
            self.dtype == other.dtype
            and self.weak == other.weak
            and same_shape(self.shape, other.shape)
        )

    def may_equal(self, other: "TensorType") -> bool:
        """Whether the dtypes and ranks are the same, and no size surely differs."""
        if self.dtype != other.dtype or self.rank != other.rank:
            return False
        sizes = zip(self.shape, other.shape, strict=True)
        return all(equal(a, b) is not False for a, b in sizes)

    def __str__(self) -> str:
        weak = "weak " if self.weak else ""
        return f"{weak}{name_of(self.dtype)}[{', '.join(map(str, self.shape))}]"


def product(shape: Sequence[Size]) -> Size:
    """The number of elements of an array of this shape."""
    total: Size = math.prod([n for n in shape if isinstance(n, int)])
    for n in shape:
        total = total if isinstance(n, int) else total * n
    return total


def cancelled(total: Size, sizes: Sequence[Size]) -> tuple[Size, Size]:
    """Divide a total, and a product of sizes, by the sizes that divide the total."""
    remaining: Size = 1
    for n in sizes:
        zero = isinstance(n, int) and not n
        if not zero and same_size((total // n) * n, total):
            total = total // n
        else:
            remaining = remaining * n
    return total, remaining


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are structurally identical (no proof is tried)."""
    return len(a) == len(b) and all(map(same_size, a, b))


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are the same number or the same normal form."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        return a is b
    return a == b
