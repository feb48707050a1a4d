"""Mask rules of convolution: axes, channels, and kernels with padding."""

import math
from typing import Any

from graphc.ir.build import as_value, cast, size_value
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import INT32
from graphc.ops.common.padded_reads import is_known, number, places, read
from graphc.ops.common.padding import NotPadded, PaddedValue, Padding
from graphc.ops.nn.conv import CONV
from graphc.ops.nn.windows import aligned, extent, is_one, steps_are_known

MOST_POINTS = 32  # of a result that is made point by point


@CONV.padding
def _(pad: Padding, x: PaddedValue, kernel: PaddedValue, **params: Any) -> Value | None:
    apart = not is_one(params["groups"])
    if not is_known(pad, pad.node.params["groups"]) or (
        apart and (1 in x.axes or kernel.ragged((0, 1)))
    ):
        return None
    if not steps_are_known(pad, "stride", "spread", "dilation"):
        return None
    spatial = range(2, x.type.rank)
    value = pad.filled(x, (1, *spatial), 0)
    weights = pad.filled(kernel, (1, *spatial), 0)
    window = tuple(map(extent, kernel.value.type.shape[2:], params["dilation"]))
    if kernel.ragged(spatial):
        return _by_points(pad, (x, kernel), (value, weights), params)
    found = aligned(pad, x, value, 0, window, params)
    return None if found is None else CONV(found[0], weights, **found[1])


def _by_points(
    pad: Padding,
    given: tuple[PaddedValue, PaddedValue],
    values: tuple[Value, Value],
    params: dict[str, Any],
) -> Value | None:
    """The result point by point, along axes in which the kernel has padding.

    Otherwise its zeros would meet elements that belong to other points and may be NaN.
    """
    axes = given[1].ragged(range(2, given[1].type.rank))
    counts = [pad.out[axis] for axis in axes]
    known = [n for n in counts if isinstance(n, int)]
    if params["padding"] or len(known) < len(counts) or math.prod(known) > MOST_POINTS:
        problem = "zeros behind a kernel meet elements of other points, maybe NaN"
        raise NotPadded(f"{problem}; a kernel of a fixed size has none")
    others = set(range(2, given[1].type.rank)) - set(axes)
    low = pad.node.params["low"]
    if not all(is_known(pad, low[axis - 2]) for axis in others):
        return None
    if not all(is_one(params["spread"][axis - 2]) for axis in axes):
        return None
    return _each_point(pad, given, values, axes, params)


def _each_point(
    pad: Padding,
    given: tuple[PaddedValue, PaddedValue],
    values: tuple[Value, Value],
    axes: list[int],
    params: dict[str, Any],
) -> Value:
    value, weights = values
    if not axes:
        return CONV(value, weights, **params)
    axis, at = axes[0], axes[0] - 2
    point = places(weights.type.shape[axis])
    counts = point < number(pad, given[1].type.shape[axis])
    step = as_value(size_value(params["dilation"][at]))
    start = point * cast(step, INT32) - number(pad, pad.node.params["low"][at])
    alone = dict(params)
    for name, n in (("stride", 1), ("dilation", 1), ("low", 0), ("high", 0)):
        alone[name] = (*params[name][:at], n, *params[name][at + 1 :])
    parts = []
    for _ in range(pad.out[axis]):  # type: ignore[arg-type]
        inside = (start >= 0) & (start < number(pad, given[0].type.shape[axis]))
        mask = F.expand_dims(counts & inside, tuple(range(1, value.type.rank - axis)))
        part = F.where(mask, read(value, axis, start), 0)
        parts.append(_each_point(pad, given, (part, weights), axes[1:], alone))
        start = start + cast(as_value(size_value(params["stride"][at])), INT32)
    return parts[0] if len(parts) == 1 else F.concatenate(parts, axis=axis)
