"""Sliding windows: what convolution and pooling have in common.

A window of `size` points, `dilation` apart, moves by `stride` over an axis that was
padded by `low` and `high` points. Where it does not fit once, the result is empty.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, PadsLike
from graphc.ir.graph.build import Shape, as_size, as_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.graph.op import Printing, require_at_most
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, is_one
from graphc.ops.common.monoids import Element
from graphc.ops.common.padded_reads import as_int32, is_known, moved
from graphc.ops.common.padding import PaddedValue, Padding

NAMED = ("SAME", "SAME_LOWER")
Pads = Literal["", "SAME", "SAME_LOWER"]  # a named padding, or "" where sizes are given


def sizes(x: ArrayLike, count: int, what: str, name: str) -> Shape:
    """Return one size per spatial axis; `x` is one size for all, or a sequence."""
    if isinstance(x, (tuple, list)) or (isinstance(x, (Value, np.ndarray)) and x.ndim):
        sizes_per_axis = tuple(as_size(n, f"the {what}") for n in x)
    else:
        sizes_per_axis = (as_size(x, f"the {what}"),) * count
    if len(sizes_per_axis) != count:
        problem = f"needs a {what} per spatial axis, {count} in all"
        raise graph_error(problem, op=name, got=f"{len(sizes_per_axis)}")
    return sizes_per_axis


def pads(padding: Any, count: int, name: str) -> tuple[str, Shape, Shape]:
    """Split a padding into its name, or "", and the points before and after each axis.

    It may be "SAME", "SAME_LOWER", "VALID", one size, or a size or a pair per axis.
    """
    zeros: Shape = (0,) * count
    if isinstance(padding, str):
        if padding in NAMED:
            return padding, zeros, zeros
        if padding == "VALID":
            return "", zeros, zeros
        expected = "'SAME', 'SAME_LOWER', 'VALID', sizes, or pairs of sizes"
        raise graph_error("unknown padding", op=name, got=padding, expected=expected)
    if not isinstance(padding, (tuple, list)):
        padding = (padding,) * count
    if len(padding) != count:
        problem = f"needs a padding per spatial axis, {count} in all"
        raise graph_error(problem, op=name, got=f"{padding!r}")
    pairs = [_pair(p, name) for p in padding]
    return "", tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def transposed_pads(
    padding: PadsLike, window: Shape, stride: Shape, name: str
) -> tuple[Shape, Shape]:
    """The points around the spread input of a transposed convolution.

    Where sizes are given, these are the window less one point and less the padding.
    """
    named, low, high = pads(padding, len(window), name)
    if not named:
        pairs = zip(window, low, high, strict=True)
        both = [(w - 1 - a, w - 1 - b) for w, a, b in pairs]
        return tuple(a for a, _ in both), tuple(b for _, b in both)
    before, after = [], []
    for w, s in zip(window, stride, strict=True):
        total = w + s - 2
        half = dims.ceil_div(total, 2) if named == "SAME" else total // 2
        first = dims.minimum(w - 1, half)
        before.append(first)
        after.append(total - first)
    return tuple(before), tuple(after)


def _pair(padding: PadsLike, name: str) -> tuple[Size, Size]:
    if not isinstance(padding, (tuple, list)):
        n = as_size(padding, "the padding")
        return n, n
    if len(padding) != 2:
        raise graph_error("needs pairs (low, high)", op=name, got=f"{padding!r}")
    return as_size(padding[0], "the padding"), as_size(padding[1], "the padding")


def covered_points(size: Size, dilation: Size) -> Size:
    """The number of points from the first to the last of a window, both included."""
    return (size - 1) * dilation + 1


def output_sizes(
    shape: Sequence[Size],
    window: Shape,
    stride: Shape,
    dilation: Shape,
    padding: str,
    low: Shape,
    high: Shape,
) -> list[Size]:
    """The number of windows that fit each axis; to be called inside a type rule."""
    for what, sizes in (("window", window), ("stride", stride), ("dilation", dilation)):
        for n in sizes:
            require_at_most(1, n, f"the {what} must be positive")
    if padding in NAMED:
        pairs = zip(shape, stride, strict=True)
        return [dims.ceil_div(n, step) for n, step in pairs]
    counts = []
    for i, n in enumerate(shape):
        padded = n + low[i] + high[i]
        require_at_most(0, padded, "the padding must not take more than there is")
        free = padded - covered_points(window[i], dilation[i])
        counts.append(dims.maximum(0, free // stride[i] + 1))
    return counts


def spaced_size(n: Size, spread: Size) -> Size:
    """The size of an axis with `spread` - 1 points put between neighbours."""
    return n if is_one(spread) else dims.maximum(0, (n - 1) * spread + 1)


def named_pads(
    named: str, shape: Sequence[Size], window: Shape, stride: Shape
) -> tuple[Shape, Shape]:
    """The points that a named padding adds before and after each axis."""
    low, high = [], []
    for n, w, step in zip(shape, window, stride, strict=True):
        total = dims.maximum(0, (dims.ceil_div(n, step) - 1) * step + w - n)
        small, large = total // 2, total - total // 2
        low.append(small if named == "SAME" else large)
        high.append(large if named == "SAME" else small)
    return tuple(low), tuple(high)


def padding_text(p: Printing, batch: int = 0) -> str:
    """The padding as the text of an argument; `batch` leading axes are not padded."""
    params = p.node.params
    if params["padding"]:
        return repr(params["padding"])
    pairs = zip(params["low"], params["high"], strict=True)
    return p.code(((0, 0),) * batch + tuple(pairs))


def window_pads(n: int, window: int, stride: int, padding: object) -> tuple[int, int]:
    """Printed into NumPy programs: the widths that a named padding means on an axis."""
    total = max((-(-n // stride) - 1) * stride + window - n, 0)
    low = total // 2 if padding == "SAME" else total - total // 2
    return low, total - low


# Mask rules: windows stand where they do at true sizes, with padding behind them.


def steps_are_known(pad: Padding, *names: str) -> bool:
    """Whether the sizes in the params `names` do not depend on padded ones."""
    return all(is_known(pad, n) for name in names for n in pad.node.params[name])


def true_low(pad: Padding, shape: Sequence[Size], window: Shape) -> Shape:
    """The points that the padding adds before each axis, at true sizes."""
    params = pad.node.params
    if not params["padding"]:
        low: Shape = params["low"]
        return low
    return named_pads(params["padding"], shape, window, params["stride"])[0]


def aligned(
    pad: Padding,
    x: PaddedValue,
    value: Value,
    fill: Element,
    window: Shape,
    params: Params,
    true_window: Shape = (),
) -> tuple[Value, Params]:
    """Return the array and params with which windows start where they do at true sizes.

    Windows that have padding themselves have the true extents `true_window`.

    A named padding adds other numbers of points before an axis at other sizes. Then the
    elements of the axis are moved to where the first window starts, with `fill` around
    and between them.
    """
    first = x.type.rank - len(window)
    spread = params.get("spread", (1,) * len(window))
    low, high = params["low"], params["high"]
    if params["padding"]:
        shape = value.type.shape[first:]
        low, high = named_pads(params["padding"], shape, window, params["stride"])
    before, after, apart, as_it_is = list(low), list(high), list(spread), True
    for i, a in enumerate(true_low(pad, x.type.shape[first:], true_window or window)):
        axis, step = first + i, params["stride"][i]
        count = pad.stored(pad.out[axis])
        size = (count - 1) * step + window[i]  # as many points as the windows need
        missing = size - spaced_size(value.type.shape[axis], spread[i]) - low[i]
        fits = dims.maximum(0, (size - missing + high[i] - window[i]) // step + 1)
        if not is_known(pad, a):
            n, start = x.type.shape[axis], as_int32(pad, a)
            value = moved(pad, value, axis, n, start, size, as_value(fill), spread[i])
            before[i], after[i], apart[i], as_it_is = 0, 0, 1, False
        elif not params["padding"] and dims.equal(fits, count) is not True:
            after[i], as_it_is = missing, False
    if as_it_is:
        return value, params
    around = {"padding": "", "low": tuple(before), "high": tuple(after)}
    spread_out = {"spread": tuple(apart)} if "spread" in params else {}
    return value, {**params, **around, **spread_out}
