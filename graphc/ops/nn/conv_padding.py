"""Mask rules of convolution: padded axes, channels and kernels."""

import math
from collections.abc import Iterator
from typing import Any

from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, is_one, maximum
from graphc.ir.types import INT32
from graphc.ops.common.axes import at_axis
from graphc.ops.common.padded_reads import as_int32, iota, is_known, read_at
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.nn.conv import CONV
from graphc.ops.nn.ragged_kernels import CONV_WITHIN
from graphc.ops.nn.windows import (
    aligned,
    covered_points,
    spaced_size,
    steps_are_known,
    true_low,
)

MOST_POINTS = 32  # the most points that are computed one by one


@CONV.padding
def _(pad: Padding, x: PaddedValue, kernel: PaddedValue, **params: Any) -> Value | None:
    groups = params["groups"]
    apart = not is_one(groups)
    if not is_known(pad, pad.node.params["groups"]) or (apart and kernel.ragged((0,))):
        return None
    if not steps_are_known(pad, "stride", "spread", "dilation"):
        return None
    spatial = range(2, x.type.rank)
    value = pad.filled(x, (1, *spatial), 0)
    weights = pad.filled(kernel, (1, *spatial), 0)
    if apart and kernel.ragged((1,)):
        value = _in_groups(pad, value, kernel, groups)
    window = tuple(map(covered_points, kernel.value.type.shape[2:], params["dilation"]))
    ragged = kernel.ragged(spatial)
    if ragged and _has_few_points(pad, kernel, ragged, params):
        return _convolve_points(pad, (x, kernel), (value, weights), ragged, params)
    true_window = tuple(
        map(covered_points, kernel.type.shape[2:], pad.node.params["dilation"])
    )
    call = aligned(pad, x, value, 0, window, params, true_window)
    if not ragged:
        return CONV(call[0], weights, **call[1])
    axes = [axis - 2 for axis in ragged]
    low = true_low(pad, x.type.shape[2:], true_window)
    spread = pad.node.params["spread"]
    numbers = [
        *(kernel.type.shape[axis + 2] for axis in axes),
        *(low[axis] for axis in axes),
        *(spaced_size(x.type.shape[axis + 2], spread[axis]) for axis in axes),
    ]
    counted = [as_int32(pad, n) for n in numbers]
    within_params = {"axes": tuple(axes), **call[1]}
    result: Value = CONV_WITHIN(call[0], weights, *counted, **within_params)
    return result


def _in_groups(pad: Padding, x: Value, kernel: PaddedValue, groups: Size) -> Value:
    """Put zeros behind the channels of each group, up to as many as the kernel has."""
    share, stored = as_int32(pad, kernel.type.shape[1]), kernel.value.type.shape[1]
    place, capacity = iota(groups * stored), cast(as_value(size_value(stored)), INT32)
    within = place % capacity
    rows = read_at(x, 1, place // capacity * share + within)
    mask = F.expand_dims(within < share, tuple(range(1, x.type.rank - 1)))
    group_rows: Value = F.where(mask, rows, 0)
    return group_rows


def _has_few_points(
    pad: Padding, kernel: PaddedValue, axes: list[int], params: Params
) -> bool:
    """Whether the result has few points along these axes, to be made one by one."""
    points = [n for n in (_stored_points(pad, a) for a in axes) if isinstance(n, int)]
    if params["padding"] or len(points) < len(axes) or math.prod(points) > MOST_POINTS:
        return False
    low, others = pad.node.params["low"], set(range(2, kernel.type.rank)) - set(axes)
    at_known_places = all(is_known(pad, low[axis - 2]) for axis in others)
    return at_known_places and all(is_one(params["spread"][a - 2]) for a in axes)


def _stored_points(pad: Padding, axis: int) -> Size:
    """The points of the result that are stored, some of which may be padding."""
    return pad.stored(pad.out[axis])


def _convolve_points(
    pad: Padding,
    operands: tuple[PaddedValue, PaddedValue],
    values: tuple[Value, Value],
    axes: list[int],
    params: Params,
) -> Value:
    """Make the result point by point, along axes in which the kernel has padding."""
    value, weights = values
    if not axes:
        return _convolve(value, weights, params)
    axis, at = axes[0], axes[0] - 2
    counts = iota(weights.type.shape[axis]) < as_int32(
        pad, operands[1].type.shape[axis]
    )
    alone = dict(params)
    for name, n in (("stride", 1), ("dilation", 1), ("low", 0), ("high", 0)):
        alone[name] = (*params[name][:at], n, *params[name][at + 1 :])
    results = []
    for part, inside in _covered_parts(pad, operands[0], values, axis, params):
        is_counted = counts if inside is None else counts & inside
        mask = F.expand_dims(is_counted, tuple(range(1, value.type.rank - axis)))
        part = F.where(mask, part, 0)
        results.append(
            _convolve_points(pad, operands, (part, weights), axes[1:], alone)
        )
    return results[0] if len(results) == 1 else F.concatenate(results, axis=axis)


def _covered_parts(
    pad: Padding,
    x: PaddedValue,
    values: tuple[Value, Value],
    axis: int,
    params: Params,
) -> Iterator[tuple[Value, Value | None]]:
    """Yield the elements below the kernel at each point, and which of them are there.

    If it is known how many zeros stand before the array, the elements are slices of the
    array with zeros around it, and all are there (None).
    """
    value, length = values[0], values[1].type.shape[axis]
    points = _stored_points(pad, axis)
    assert isinstance(points, int)
    low = pad.node.params["low"][axis - 2]
    step, stride = params["dilation"][axis - 2], params["stride"][axis - 2]
    if isinstance(low, int) and low >= 0:
        wide = covered_points(length, step)
        total = (points - 1) * stride + wide
        around: list[tuple[Size, Value | int]] = [(0, 0)] * value.type.rank
        missing = maximum(total - low - value.type.shape[axis], 0)
        around[axis] = low, size_value(missing)
        whole, every = F.pad(value, around), size_value(step)
        for i in range(points):
            first = i * stride
            bounds = slice(size_value(first), size_value(first + wide), every)
            yield whole[at_axis(axis, bounds)], None
        return
    start = iota(length) * cast(as_value(size_value(step)), INT32)
    start = start - as_int32(pad, low)
    for _ in range(points):
        inside = (start >= 0) & (start < as_int32(pad, x.type.shape[axis]))
        yield read_at(value, axis, start), inside
        start = start + cast(as_value(size_value(stride)), INT32)


def _convolve(value: Value, weights: Value, params: Params) -> Value:
    """The convolution, computed as a product if the kernel is as long as the array."""
    spatial = range(2, value.type.rank)
    shapes = value.type.shape[2:], weights.type.shape[2:]
    covers = all(equal(n, m) is True for n, m in zip(*shapes, strict=True))
    around = (*params["low"], *params["high"])
    if not (covers and is_one(params["groups"]) and all(equal(n, 0) for n in around)):
        return CONV(value, weights, **params)
    axes = [1, *spatial]
    product: Value = F.tensordot(value, weights, axes=(axes, axes))
    return F.expand_dims(product, tuple(spatial))
