"""Promotion (NEP 50) and broadcasting, shared by op families."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, strong
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.graph.op import require_at_most, require_equal
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    equal,
    is_one,
    may_be_one,
    stretch,
    symbols_in,
)
from graphc.ir.types import BFLOAT16, FLOAT64, DType, is_inexact, product, same_shape

Ufunc = Any  # np.ufunc; its stubs know neither resolve_dtypes nor ml_dtypes
LoopKey = DType | type
HowReduced = Literal["sum", "any"]
MOST_ELEMENTS = 2**59 - 1  # of 16 bytes at most, so that int64 holds their size
WEAK_KEYS: dict[str, type] = {"i": int, "u": int, "f": float, "c": complex}


@lru_cache(maxsize=4096)
def loop_dtypes(ufunc: Ufunc, keys: tuple[LoopKey, ...]) -> tuple[DType, ...] | None:
    """The dtypes of NumPy's loop for these inputs, outputs last; None if there is none.

    Beside bfloat16, Python ints and floats become bfloat16, as they become float16
    beside float16. NumPy does not know this rule.
    """
    if BFLOAT16 in keys:
        numbers = int, float  # to which the dtypes int64 and float64 are equal
        keys = tuple(BFLOAT16 if any(k is n for n in numbers) else k for k in keys)
    try:
        dtypes = ufunc.resolve_dtypes((*keys, *[None] * ufunc.nout))
    except TypeError:
        return None
    return tuple(dtypes)


def broadcast(*shapes: tuple[Size, ...]) -> tuple[Size, ...]:
    """The common shape of inputs, inside a type rule: this may raise or add guards."""
    shapes = tuple([s for s in shapes if s])  # scalars stretch to any shape
    if all([s is shapes[0] for s in shapes]):
        return shapes[0] if shapes else ()
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    common = tuple(_common_size(axis) for axis in zip(*padded, strict=True))
    if not any(same_shape(common, s) for s in padded):
        require_countable(common)
    return common


def require_countable(shape: tuple[Size, ...]) -> None:
    """Inside a type rule: a shape decided by values must not be absurdly large.

    XLA ends the process if the number of bytes does not fit into an int64.
    """
    symbolic = [n for n in shape if isinstance(n, Dim)]
    if len(symbolic) > 1 and any(map(origins, symbolic)):
        problem = "the array is too large"
        require_at_most(product(shape), MOST_ELEMENTS, problem, memory=True)


def require_room(shape: tuple[Size, ...], dtype: DType) -> None:
    """Inside a type rule: an array made of a few numbers must fit into memory.

    Sizes that follow from those of arrays are not checked, since those arrays exist.
    """
    if _is_of_numbers(shape):
        require_at_most(product(shape), *_room(dtype), memory=True)
    require_countable(shape)


def with_room(x: Value, shape: tuple[Size, ...], dtype: DType, op: str) -> Value:
    """Return `x`, provided that an array of it and few numbers fits into memory."""
    if not _is_of_numbers(shape):
        return x
    checked_value: Value = F._at_most(product(shape), *_room(dtype), x, op)
    return checked_value


def with_sizes(x: Value, sizes: tuple[Size, ...], op: str) -> Value:
    """Return `x`, provided that none of `sizes` is negative."""
    for n in sizes:
        x = F._at_most(0, n, "a size must not be negative", x, op)
    return x


def _is_of_numbers(shape: tuple[Size, ...]) -> bool:
    free = [s for n in shape for s in symbols_in(n)]
    free = [s for s in free if s.lower is None and s.upper is None]
    return bool(free) or all(isinstance(n, int) for n in shape)


def _room(dtype: DType) -> tuple[int, str]:
    """The largest number of elements of an array, and the message for a larger one."""
    limit = f"graphc.config.max_bytes = {config.max_bytes}"
    most = config.max_bytes // dtype.itemsize
    return most, f"the {dtype} array is too large for {limit}"


def _common_size(sizes: tuple[Size, ...]) -> Size:
    common: Size = 1
    for n in sizes:
        if n is common or is_one(n):
            continue
        if is_one(common):
            common = n
        elif may_be_one(common) or may_be_one(n):
            common = stretch(common, n)  # sizes other than 1 are compared once known
        else:
            hint = "sizes must be equal, or one of them 1: see expand_dims"
            common = require_equal(
                common, n, "shapes do not broadcast", hint, kind="broadcast"
            )
    return common


def require_stretchable(n: Size, to: Size, reason: str) -> None:
    """Inside a type rule: an axis of size `n` must have size `to` or stretch to it."""
    if not is_one(n) and not may_be_one(n):
        require_equal(n, to, reason, kind="broadcast")


def stretched_axes(shape: tuple[Size, ...], to: tuple[Size, ...]) -> tuple[int, ...]:
    """The axes of shape `to` along which an array of `shape` is stretched."""
    extra = len(to) - len(shape)
    ones = (
        extra + i
        for i, (n, m) in enumerate(zip(shape, to[extra:], strict=True))
        if is_one(n) and not is_one(m)
    )
    return (*range(extra), *ones)


def may_stretch(shape: tuple[Size, ...], to: tuple[Size, ...]) -> bool:
    """Whether an axis of `shape` that may be 1 may have to stretch to that of `to`."""
    extra = len(to) - len(shape)
    pairs = zip(shape, to[extra:], strict=True)
    return any(may_be_one(n) and equal(n, m) is not True for n, m in pairs)


def summed_to(g: Value, shape: tuple[Size, ...]) -> Value:
    """Undo broadcasting: sum `g` over the axes along which `shape` was stretched."""
    return reduced_to("sum", g, shape)


def any_to(mask: Value, shape: tuple[Size, ...]) -> Value:
    """For each element of `shape`, whether `mask` holds where it was stretched to."""
    return reduced_to("any", mask, shape)


def reduced_to(how: HowReduced, g: Value, shape: tuple[Size, ...]) -> Value:
    """Reduce `g` over the axes along which `shape` was stretched to that of `g`."""
    reduction = F.sum if how == "sum" else F.any
    axes = stretched_axes(shape, g.type.shape)
    extra = g.type.rank - len(shape)
    if axes[:extra]:
        g = reduction(g, axis=axes[:extra])
    unit_axes = tuple(a - extra for a in axes[extra:])
    if unit_axes:
        g = reduction(g, axis=unit_axes, keepdims=True)
    if may_stretch(shape, g.type.shape):
        g = F._unstretched(g, shape=shape, how=how)
    return g


def weak_key(value: Value) -> LoopKey:
    """The key of a value for promotion: its dtype, or int, float or complex if weak."""
    dtype = value.type.dtype
    return WEAK_KEYS.get(dtype.kind, dtype) if value.type.weak else dtype


def as_inexact(x: ArrayLike) -> Value:
    """The argument as strong floats or complex numbers; integers become float64."""
    value = as_strong_value(x)
    return value if is_inexact(value.dtype) else cast(value, FLOAT64)


def promoted(*args: ArrayLike) -> list[Value]:
    """The arguments as strong values of their common dtype (NEP 50)."""
    values = [as_value(a) for a in args]
    dtype = common_dtype(values)
    return [cast(v, dtype) for v in values]


def promoted_as_arrays(*args: ArrayLike) -> list[Value]:
    """The arguments as values of the common dtype that they would have as arrays.

    Python numbers count as arrays of their own dtype and are rounded only once.
    """
    values = [as_value(a) for a in args]
    dtype = common_dtype([strong(v) for v in values]) if values else None
    return [cast(v, dtype) for v in values if dtype is not None]


def _promoted_dtype(dtypes: Sequence[DType]) -> DType:
    """Promote dtypes as NumPy does, and bfloat16 also where NumPy refuses to.

    NumPy itself joins bfloat16 neither with float16 nor with int16 or wider integers,
    but it adds them: the result is the dtype of the sum.
    """
    others = [dtype for dtype in dtypes if dtype != BFLOAT16]
    if len(others) == len(dtypes) or not others:
        return np.result_type(*dtypes)
    loop = loop_dtypes(np.add, (BFLOAT16, np.result_type(*others)))
    assert loop is not None
    return loop[-1]


def common_dtype(values: list[Value]) -> DType:
    """The dtype that NumPy promotes these values to; weak ones adapt."""
    keys = {weak_key(v) for v in values}
    if all(isinstance(k, type) for k in keys):
        return strong(max(values, key=lambda v: "uifc".index(v.dtype.kind))).dtype
    strong_keys = [k for k in keys if not isinstance(k, type)]
    dtype = _promoted_dtype(strong_keys)
    for key in keys:
        if isinstance(key, type):
            loop = loop_dtypes(np.add, (dtype, key))
            dtype = loop[-1] if loop is not None else dtype
    return dtype
