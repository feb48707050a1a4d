"""The arguments that a program may take: one table for functions and saved models."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from graphc_serving.kinds import DType, NDArray, shortened

SMALL = 2**14  # bytes, which the host may as well copy once more
_ALIGNED = 64  # bytes, where XLA takes an array as it is
_FLOATS = "float", "bfloat"
_KINDS = {"b": 0, "i": 1, "u": 1, "c": 3}
_WIDER = "declare the input wider"
RefusalKind = Literal["argument", "range"]


class Refusal(Exception):
    """Raised for an argument that is not taken: the fault, its kind, and a hint."""

    def __init__(self, problem: str, kind: RefusalKind, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint
        self.kind: RefusalKind = kind


def admitted(argument: object, dtype: DType, casting: str) -> object:
    """Convert an argument to a form that a program takes, or that its checks refuse.

    Raises Refusal where a program could not see the fault.
    """
    if type(argument) is int:
        return _number(argument, dtype)
    if isinstance(argument, (type, np.generic)):
        return argument
    if isinstance(argument, np.ma.MaskedArray):
        hint = "pass x.filled(number), or the mask as an input of its own"
        raise Refusal("is a masked array: its mask would be lost", "argument", hint)
    if isinstance(argument, (list, tuple)):
        return _from_list(argument, dtype, casting)
    if hasattr(argument, "__array__") and not hasattr(argument, "aval"):
        return np.asarray(argument)
    return argument


def _number(number: int, dtype: DType) -> object:
    """Convert a Python integer to the dtype, since JAX would wrap it silently."""
    kind = kind_of(dtype)
    try:
        if kind == _KINDS["i"]:
            return dtype.type(number)
        return float(number) if kind > _KINDS["i"] else number
    except OverflowError:
        problem = f"is out of range: {shortened(str(number))} does not fit {dtype}"
        raise Refusal(problem, "range", _WIDER) from None


def _from_list(items: Sequence[object], dtype: DType, casting: str) -> object:
    """Convert a list to an array; Python numbers in it adapt to the dtype."""
    if casting == "exact":
        return items
    try:
        array = np.asarray(items)
    except (TypeError, ValueError):  # rows of different lengths
        return items
    if not _adapts(items, kind_of(array.dtype), kind_of(dtype)):
        return array
    try:
        return np.asarray(items, dtype)
    except OverflowError:
        problem = f"is out of range: an integer does not fit {dtype}"
        raise Refusal(problem, "range", _WIDER) from None


def _adapts(items: object, kind: int, widest: int) -> bool:
    """Whether all items are Python numbers of no wider kind than wanted."""
    if isinstance(items, (list, tuple)):
        return all(_adapts(item, kind, widest) for item in items)
    return type(items) in (bool, int, float, complex) and 0 <= kind <= widest


def kind_of(dtype: DType) -> int:
    """The kind of numbers in order: bool, integer, real, complex; -1 for others."""
    return 2 if dtype.name.startswith(_FLOATS) else _KINDS.get(dtype.kind, -1)


def copy(array: NDArray) -> NDArray:
    """Copy an array; align a large copy so that XLA does not copy it a second time.

    XLA reads an array of NumPy where it lies, and may do so after the call.
    """
    if array.nbytes < SMALL:
        return array.copy()
    room = np.empty(array.nbytes + _ALIGNED, np.uint8)
    start = -room.__array_interface__["data"][0] % _ALIGNED
    copied: NDArray = np.ndarray(array.shape, array.dtype, room, start)
    copied[...] = array
    return copied
