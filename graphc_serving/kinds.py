"""Checks that each part of what a file says is of its kind."""

from collections.abc import Container
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

DTYPES = {
    *("bool", "bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
}
FLOATS = "float16", "float32", "float64"  # of NumPy
DType = np.dtype[Any]
NDArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]
T = TypeVar("T")


class Shaped(Protocol):
    """An array of NumPy or JAX, or the type of one."""

    @property
    def shape(self) -> Shape:
        """The sizes."""
        ...

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        ...


class Kind(NamedTuple):
    """The dtype and the rank of an array."""

    dtype: str
    rank: int


def of(kind: type[T], value: object) -> T:
    """Return the value; raise TypeError unless its type is exactly this one."""
    if type(value) is not kind:
        raise TypeError(f"{shortened(repr(value), 40)} is not of type {kind.__name__}")
    return value


def list_of(value: object) -> list[object]:
    """Return the value; raise TypeError unless it is a list."""
    return of(list, value)


def shape_of(sizes: object) -> Shape:
    """Return a list of sizes as a shape; raise TypeError or ValueError for others."""
    shape = tuple([of(int, n) for n in list_of(sizes)])
    if any(not 0 <= n < 2**63 for n in shape):
        raise ValueError(f"{shape} is not a shape")
    return shape


def dtype_of(name: object) -> str:
    """Return the name of a dtype; raise TypeError or ValueError for others."""
    dtype = of(str, name)
    if dtype not in DTYPES:
        raise ValueError(f"there is no dtype {shortened(dtype, 20)}")
    return dtype


def one_of(words: Container[str], value: object) -> str:
    """Return one of these words; raise TypeError or ValueError for others."""
    word = of(str, value)
    if word not in words:
        raise ValueError(f"{shortened(word, 20)!r} is unknown")
    return word


def is_integer(dtype: str) -> bool:
    """Whether a dtype is one of integers, which bools are not."""
    return dtype.startswith(("int", "uint"))


def bytes_of(array: NDArray) -> NDArray:
    """The bytes of an array, as a vector."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def shortened(text: str, longest: int = 100) -> str:
    """Return the text, cut where it is longer than a message should repeat."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
