"""Convolution with kernels that have padding.

Zeros behind a kernel would be multiplied with elements of other points, which may be
NaN. So a loop visits only what is true: the true positions of the kernel, or the
points of the result where these are fewer. Points outside the array add nothing, even
where the kernel is NaN.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np

from graphc.ir.graph.build import Shape
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.sizes.dims import Size
from graphc.ir.types import JaxArray, NDArray, TensorType
from graphc.ops.nn.conv import CONV, conv_numpy
from graphc.ops.nn.windows import Pads, padding_text


@op()
def _conv_within(
    x: Array,
    kernel: Array,
    *numbers: Array,
    axes: Shape,
    stride: Shape,
    padding: Pads,
    low: Shape,
    high: Shape,
    spread: Shape,
    dilation: Shape,
    groups: Size,
) -> TensorType:
    """The convolution with only the true positions of a kernel along `axes`.

    `numbers` holds three runs, each with a number per axis of `axes`: how many true
    positions the kernel has, where the array starts, and how many points it has. Axes
    are counted from the first spatial one.
    """
    window_params = {"stride": stride, "padding": padding, "low": low, "high": high}
    more = {"spread": spread, "dilation": dilation, "groups": groups}
    result: Any = CONV.infer(x, kernel, **window_params, **more)
    return cast(TensorType, result)


def conv_within_numpy(
    x: Any,
    kernel: NDArray,
    numbers: Sequence[NDArray],
    axes: Sequence[int],
    options: JaxArray,
) -> NDArray:
    """Printed into NumPy programs: what is there alone, and no more than fits."""
    stride, padding, spread, dilation, groups = options
    shape, pads, points = list(kernel.shape), list(padding), []
    inside = [slice(None)] * x.ndim
    for axis, (n, (low, high)) in enumerate(zip(x.shape[2:], padding, strict=True)):
        size = max((n - 1) * spread[axis] + 1, 0) + low + high
        if axis in axes:
            axis_numbers = numbers[axes.index(axis) :: len(axes)]
            count, start, length = map(int, axis_numbers)
            first, end = start - low, start - low + -(-length // spread[axis])
            inside[axis + 2] = slice(max(first, 0), max(end, 0))
            pads[axis] = start - min(first, 0), size - start - length
            shape[axis + 2] = max(count, 1)
        free = size - (kernel.shape[axis + 2] - 1) * dilation[axis] - 1
        points.append(slice(max(0, free // stride[axis] + 1)))
    part = kernel[tuple(map(slice, shape))]
    sums = conv_numpy(x[tuple(inside)], part, stride, pads, spread, dilation, groups)
    return sums[(..., *points)]


def one_position(
    jax: ModuleType, part: JaxArray, weights: JaxArray, moves: JaxArray
) -> JaxArray:
    """Printed into JAX programs: the product with a part of the kernel."""
    stride, dilation, groups = moves
    if groups > 1 or max(weights.shape[2:]) > 1:
        pads = [(0, 0)] * len(stride)
        options = {"rhs_dilation": dilation, "feature_group_count": groups}
        return jax.lax.conv_general_dilated(part, weights, stride, pads, **options)
    part = part[(..., *(slice(None, None, step) for step in stride))]
    weights = weights.reshape(weights.shape[:2])
    return jax.numpy.einsum("bi...,oi->bo...", part, weights)


def along(place: JaxArray, axis: int, rank: int) -> Any:
    """Printed into JAX programs: a vector along a spatial axis."""
    return place.reshape(-1, *(1,) * (rank - axis - 3))


def by_positions(
    jax: ModuleType,
    x: JaxArray,
    kernel: JaxArray,
    numbers: Sequence[Sequence[JaxArray]],
    axes: Sequence[int],
    shape: tuple[int, ...],
    moves: Any,
) -> JaxArray:
    """Printed into JAX programs: a sum over the positions of the kernel."""
    jnp, lax = jax.numpy, jax.lax
    stride, dilation, _ = moves
    sizes, one = list(x.shape), list(kernel.shape)
    for axis in axes:
        sizes[axis + 2] = (shape[axis + 2] - 1) * stride[axis] + 1
        one[axis + 2] = 1
    half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    wide = jnp.float32 if half else x.dtype

    def step(i: JaxArray, total: object) -> JaxArray:
        starts, first = [jnp.int32(0)] * x.ndim, [jnp.int32(0)] * x.ndim
        inside = True
        for axis, count, start, length in zip(axes, *numbers, strict=True):
            first[axis + 2] = i % count
            starts[axis + 2] = i % count * dilation[axis]
            i = i // count
            place = jnp.arange(shape[axis + 2]) * stride[axis] + starts[axis + 2]
            present = (place >= start) & (place < start + length)
            inside &= along(present, axis, x.ndim)
        part = lax.dynamic_slice(x, starts, sizes)
        weights = lax.dynamic_slice(kernel, first, one)
        product = one_position(jax, part, weights, moves).astype(wide)
        return total + jnp.where(inside, product, 0)

    number = jnp.prod(jnp.asarray(numbers[0]), dtype=jnp.int32)
    sums = lax.fori_loop(jnp.int32(0), number, step, jnp.zeros(shape, wide))
    return sums.astype(x.dtype)


def by_points(
    jax: ModuleType,
    x: JaxArray,
    kernel: JaxArray,
    numbers: Sequence[Sequence[JaxArray]],
    axes: Sequence[int],
    shape: tuple[int, ...],
    moves: Any,
) -> JaxArray:
    """Printed into JAX programs: the points of the result, one after the other."""
    jnp, lax = jax.numpy, jax.lax
    stride, dilation, _ = moves
    sizes, several, number, window = list(x.shape), list(shape), 1, True
    for axis, count in zip(axes, numbers[0], strict=True):
        sizes[axis + 2] = (kernel.shape[axis + 2] - 1) * dilation[axis] + 1
        several[axis + 2], number = 1, number * shape[axis + 2]
        present_points = jnp.arange(sizes[axis + 2]) < (count - 1) * dilation[axis] + 1
        window &= along(present_points, axis, x.ndim)

    def step(i: JaxArray, written: object) -> JaxArray:
        starts, points = [jnp.int32(0)] * x.ndim, [jnp.int32(0)] * x.ndim
        inside = True
        for axis, _, start, length in zip(axes, *numbers, strict=True):
            points[axis + 2] = i % shape[axis + 2]
            starts[axis + 2] = points[axis + 2] * stride[axis]
            i = i // shape[axis + 2]
            place = jnp.arange(kernel.shape[axis + 2]) * dilation[axis]
            place = place + starts[axis + 2]
            present = (place >= start) & (place < start + length)
            inside &= along(present, axis, x.ndim)
        part = jnp.where(window, lax.dynamic_slice(x, starts, sizes), 0)
        weights = jnp.where(inside, kernel, 0)
        point = one_position(jax, part, weights, moves).reshape(several)
        return lax.dynamic_update_slice(written, point, points)

    ends = jnp.int32(0), jnp.int32(number)
    return lax.fori_loop(*ends, step, jnp.zeros(shape, x.dtype))


def conv_within_jax(
    jax: ModuleType,
    x: JaxArray,
    kernel: JaxArray,
    numbers: Sequence[JaxArray],
    axes: Sequence[int],
    options: Sequence[JaxArray],
) -> JaxArray:
    """Printed into JAX programs: by positions or by points, whichever are fewer."""
    stride, padding, spread, dilation, groups = options
    edges = [(a, b, n - 1) for (a, b), n in zip(padding, spread, strict=True)]
    x = jax.lax.pad(x, x.dtype.type(0), [(0, 0, 0)] * 2 + edges)
    shape = [len(x), len(kernel)]
    for n, k, step, d in zip(
        x.shape[2:], kernel.shape[2:], stride, dilation, strict=True
    ):
        shape.append(max(0, (n - (k - 1) * d - 1) // step + 1))
    if 0 in (*shape, *kernel.shape):
        return jax.numpy.zeros(shape, x.dtype)
    many = [kernel.shape[axis + 2] for axis in axes]
    points = [shape[axis + 2] for axis in axes]
    way = by_points if np.prod(points) < np.prod(many) else by_positions
    each = [numbers[i : i + len(axes)] for i in range(0, len(numbers), len(axes))]
    return way(jax, x, kernel, each, axes, tuple(shape), (stride, dilation, groups))


def _print(p: Printing, helper: Callable[..., object], before: list[str]) -> str:
    params = p.node.params
    x, kernel, *numbers = p.inputs
    tail = [p.code(params["stride"]), padding_text(p)]
    tail += [p.code(params[name]) for name in ("spread", "dilation", "groups")]
    arguments = [x, kernel, f"[{', '.join(numbers)}]", p.code(params["axes"])]
    return p.call(helper, *before, *arguments, f"({', '.join(tail)})")


CONV_WITHIN = _conv_within
_conv_within.rounding = CONV.rounding
_conv_within.emit(
    numpy=lambda p: _print(p, conv_within_numpy, []),
    jax=lambda p: _print(p, conv_within_jax, ["jax"]),
)
_conv_within.no_gradient("gradients are taken before sizes are padded")
_conv_within.no_batch("examples are batched before sizes are padded")
_conv_within.no_padding("it is the result of a mask rule")
