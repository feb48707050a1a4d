"""Grids of positions, rows of powers, windows, and logarithmic spacing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    no_device,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, less_equal
from graphc.ir.types import BOOL, FLOAT64, INT64, dtype_of, is_inexact, is_integer
from graphc.ops.common.axes import along_axis
from graphc.ops.common.broadcasting import common_dtype, with_sizes


@public()
def meshgrid(
    *arrays: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Value]:
    """Coordinate arrays of a grid; "xy" swaps the first two axes, "ij" does not.

    With `sparse`, each array has its own axis only, and size 1 along the others. `copy`
    has no effect here, since values never change.
    """
    vectors = [F.ravel(as_strong_value(a)) for a in arrays]
    order = list(range(len(vectors)))
    if indexing not in ("xy", "ij"):
        problem = f"indexing must be 'xy' or 'ij', not {indexing!r}"
        raise graph_error(problem, op="meshgrid")
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = tuple(vectors[i].type.shape[0] for i in order)
    grids = []
    for i, vector in enumerate(vectors):
        thin = along_axis(vector, order.index(i), len(order))
        grids.append(thin if sparse else F.broadcast_to(thin, shape))
    return grids


@public()
def indices(
    dimensions: ShapeLike, dtype: DTypeLike = "int64", sparse: bool = False
) -> Any:
    """The index of every element along each axis: one grid per axis, stacked first.

    With `sparse`, the result is a tuple of grids, each with its own axis only.
    """
    shape = as_shape(dimensions)
    ranges = [
        with_sizes(F.arange(size_value(n), dtype=dtype), (n,), "indices") for n in shape
    ]
    grids = meshgrid(*ranges, sparse=sparse, indexing="ij")
    if sparse:
        return tuple(grids)
    return F.stack(grids) if grids else F.zeros((0,), dtype)


@public()
def fromfunction(
    function: Callable[..., object],
    shape: ShapeLike,
    *,
    dtype: DTypeLike | None = None,
    **kwargs: object,
) -> Any:
    """Call `function` on the index arrays of `shape`, as `numpy.fromfunction` does.

    The indices have the default float dtype unless a `dtype` is given.
    """
    to = config.float if dtype is None else dtype_of(dtype)
    grid = indices(shape, to)
    return function(*[grid[i] for i in range(len(as_shape(shape)))], **kwargs)


@public()
def vander(x: ArrayLike, N: SizeLike | None = None, increasing: bool = False) -> Value:
    """The powers of a vector as `N` columns, highest first unless `increasing`.

    Integers become int64; floating point keeps its precision, as in JAX, whereas
    `numpy.vander` makes it float64.
    """
    value = as_strong_value(x)
    if value.type.rank != 1:
        raise graph_error("needs a vector", op="vander", got=str(value.type))
    n = value.type.shape[0]
    columns = n if N is None else as_size(N, "the number of columns")
    if value.dtype == BOOL or is_integer(value.dtype):
        value = cast(value, np.promote_types(value.dtype, INT64))
    steps = F.broadcast_to(F.expand_dims(value, 1), (n, columns))
    first = F.arange(size_value(columns)) < 1
    powers = F.cumprod(F.where(first, 1, steps), axis=1, dtype=value.dtype)
    return powers if increasing else F.flip(powers, 1)


def _window(name: str, shape: Callable[[Value, Value], Value]) -> None:
    """Declare a window of points `shape(i, last)` at i = 1 - n, 3 - n, ... n - 1.

    `n` is the number of points and `last` is n - 1.
    """
    doc = f"The {name} window of `M` points, as `numpy.{name}`, in the default float."

    @public(name=name, doc=doc)
    def function(M: SizeLike) -> Value:
        return _filled_window(M, shape)


def _filled_window(n: SizeLike, shape: Callable[[Value, Any], Value]) -> Value:
    last = size_value(as_size(n, "the number of points") - 1)
    i = cast(2 * F.arange(last + 1) - last, config.float)
    if isinstance(last, int):
        return shape(i, last) if last > 0 else F.ones_like(i)
    return F.where(F.equal(last, 0), F.ones_like(i), shape(i, F.maximum(last, 1)))


_window("hamming", lambda i, last: 0.54 + 0.46 * F.cos(np.pi * i / last))
_window("hanning", lambda i, last: 0.5 + 0.5 * F.cos(np.pi * i / last))
_window(
    "blackman",
    lambda i, last: (
        0.42 + 0.5 * F.cos(np.pi * i / last) + 0.08 * F.cos(2.0 * np.pi * i / last)
    ),
)
_window("bartlett", lambda i, last: F.where(i <= 0, 1 + i / last, 1 - i / last))


@public()
def kaiser(M: SizeLike, beta: ArrayLike) -> Value:
    """The Kaiser window of `M` points, as `numpy.kaiser`, in the default float."""
    width = cast(as_value(beta), config.float)

    def shape(i: Value, last: Value) -> Value:
        inner = width * F.sqrt(1 - F.square(i / last))
        return F.special.i0(inner) / F.special.i0(width)

    return _filled_window(M, shape)


def _as_floats(values: Sequence[ArrayLike], to: DTypeLike | None = None) -> list[Value]:
    """The numbers as strong floating-point values of one dtype.

    If all are Python numbers, they take the dtype `to` that the result will have, if
    that is a floating one, and the default float otherwise.
    """
    numbers = [as_value(v) for v in values]
    weak = all(v.type.weak for v in numbers)
    dtype = common_dtype(numbers)
    if weak and to is not None and is_inexact(dtype_of(to)):
        dtype = common_dtype([*numbers, F.zeros((), to)])
    if not is_inexact(dtype):
        dtype = config.float if weak else FLOAT64
    return [cast(v, dtype) for v in numbers]


@public()
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    /,
    num: SizeLike = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: None = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, as `numpy.linspace`.

    If an end is an array, the points lie along a new axis at `axis`. `retstep` returns
    the step as well; an integer dtype rounds down. Python numbers give the default
    float.
    """
    no_device(device, "linspace")
    count = as_size(num, "a number of points")
    if isinstance(count, int) and count < 0:
        raise graph_error(f"negative size {count}", op="linspace")
    a, b = _as_floats([start, stop], dtype)
    rank = max(a.type.rank, b.type.rank)
    at = normal_axis(axis, rank + 1, "linspace")
    behind = tuple(range(1, rank + 1))
    index = F.expand_dims(_count_up(count), behind)
    gaps = dims.maximum(0, count - 1 if endpoint else count)
    step = (b - a) / size_value(dims.maximum(1, gaps))
    points = a + cast(index, a.dtype) * _step_or_alone(step, gaps, 0)
    if endpoint:
        last = F.logical_and(F.equal(index, size_value(count - 1)), index > 0)
        points = F.where(last, b, points)
    points = F.moveaxis(points, 0, at)
    if dtype is not None:
        to = dtype_of(dtype)
        points = cast(F.floor(points) if is_integer(to) else points, to)
    return (points, _step_or_alone(step, gaps, np.nan)) if retstep else points


def _step_or_alone(step: Value, gaps: Size, alone: float) -> Value:
    """Return `step`, or `alone` if a single point leaves no gaps to step over."""
    if less_equal(1, gaps) is True:
        return step
    return F.where(F.equal(size_value(gaps), 0), alone, step)


def _count_up(count: Size) -> Value:
    """The numbers 0, 1, ... count - 1; a call raises if `count` is negative."""
    reason, numbers = "the number of points must not be negative", size_value(count)
    return F._at_most(0, count, reason, F.arange(numbers), "linspace")


@public()
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SizeLike = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """`num` powers of `base` with evenly spaced exponents, as `numpy.logspace`."""
    base_value = as_value(base)
    if base_value.type.rank:
        base_value = F.expand_dims(base_value, axis)
    first, last = _as_floats([start, stop], dtype)
    powers = F.power(base_value, F.linspace(first, last, num, endpoint, axis=axis))
    return powers if dtype is None else powers.astype(dtype)


@public()
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SizeLike = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """`num` numbers in geometric progression between two of the same sign.

    Complex numbers lie on a spiral. The ends are exact. Floating point keeps its
    precision, as in JAX, whereas `numpy.geomspace` computes in float64.
    """
    a, b = F.broadcast_arrays(*_as_floats([start, stop], dtype))
    sign = F.sign(a)
    first, last = a / sign, b / sign  # so that a spiral starts at angle 0
    exponents = F.linspace(F.log10(first), F.log10(last), num, endpoint, axis=axis)
    at = normal_axis(axis, exponents.type.rank, "geomspace")
    points = F.expand_dims(sign, at) * F.power(10.0, exponents)
    count = points.shape[at]
    behind = tuple(range(1, points.type.rank - at))
    i = F.expand_dims(F.arange(count), behind)
    points = F.where(F.equal(i, 0), F.expand_dims(a, at), points)
    if endpoint:
        end = F.logical_and(F.equal(i, count - 1), i > 0)
        points = F.where(end, F.expand_dims(b, at), points)
    return points if dtype is None else points.astype(dtype)
