"""Convolution (`gt.nn.conv`), transposed convolution, for 1 to 3 spatial axes.

Layout as in `jax.lax.conv` and PyTorch: arrays are (batch, channels, *spatial), kernels
(output channels, input channels / groups, *spatial). As there, "convolution" does not
flip the kernel. NumPy programs gather the windows and multiply matrices, half precision
in float32.
"""

from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir import dims
from graphc.ir.build import as_size, strong
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F, enroll, public
from graphc.ir.op import Array, Printing, op, require_at_most, require_equal, type_error
from graphc.ir.types import BOOL, TensorType
from graphc.ops.broadcasting import promoted
from graphc.ops.windows import (
    Sizes,
    extent,
    output_sizes,
    padding_text,
    pads,
    sizes,
    window_pads,
)


@op()
def _conv(
    x: Array,
    kernel: Array,
    *,
    stride: Sizes,
    padding: str,
    low: Sizes,
    high: Sizes,
    spread: Sizes,
    dilation: Sizes,
    groups: Size,
) -> TensorType:
    """The kernel moved over `x`, between whose points `spread` - 1 zeros are put."""
    rank = x.type.rank
    if kernel.type.rank != rank or rank < 3:
        raise type_error(
            "needs (batch, channels, *spatial) and (out, in / groups, *spatial)"
        )
    if x.dtype != kernel.dtype or x.dtype == BOOL:
        raise type_error("needs numbers of one dtype")
    require_at_most(1, groups, "the groups must be positive")
    batch, channels, *spatial = x.type.shape
    out, share, *window = kernel.type.shape
    require_equal(channels, share * groups, "the channels must fit the kernel")
    require_equal(out % groups, 0, "the groups must divide the output channels")
    wide = [
        n if f == 1 else dims.maximum(0, (n - 1) * f + 1)
        for n, f in zip(spatial, spread, strict=True)
    ]
    fits = output_sizes(wide, tuple(window), stride, dilation, padding, low, high)
    return x.type.like((batch, out, *fits))


def spaced_numpy(x: Any, spread: Any) -> Any:
    """Printed into NumPy programs: zeros between the points of the spatial axes."""
    shape = [max((n - 1) * f + 1, 0) for n, f in zip(x.shape[2:], spread, strict=True)]
    spaced = np.zeros((*x.shape[:2], *shape), x.dtype)
    every: Any = (..., *(slice(None, None, f) for f in spread))
    spaced[every] = x
    return spaced


def padded_numpy(x: Any, window: Any, stride: Any, padding: Any) -> Any:
    """Printed into NumPy programs: zeros around the spatial axes; below 0, less."""
    shape = x.shape[2:]
    if isinstance(padding, str):
        axes = zip(shape, window, stride, strict=True)
        padding = [window_pads(n, w, s, padding) for n, w, s in axes]
    if not any(a or b for a, b in padding):
        return x
    added = [(max(a, 0), max(b, 0)) for a, b in padding]
    x = np.pad(x, ((0, 0), (0, 0), *added))
    pairs = zip(x.shape[2:], padding, strict=True)
    kept = [slice(max(-a, 0), max(n - max(-b, 0), 0)) for n, (a, b) in pairs]
    return x[(..., *kept)]


def conv_numpy(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    spread: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    """Printed into NumPy programs: windows as rows, one matrix product per group."""
    dtype = x.dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        x, kernel = x.astype("float32"), kernel.astype("float32")
    out, share, *points = kernel.shape
    rank = len(points)
    window = [(k - 1) * d + 1 for k, d in zip(points, dilation, strict=True)]
    if any(f > 1 for f in spread):
        x = spaced_numpy(x, spread)
    x = padded_numpy(x, window, stride, padding)
    short = [max(w - n, 0) for n, w in zip(x.shape[2:], window, strict=True)]
    x = np.pad(x, ((0, 0), (0, 0), *((0, n) for n in short))) if any(short) else x
    axes = tuple(range(2, rank + 2))
    view = np.lib.stride_tricks.sliding_window_view(x, window, axes)
    steps = [slice(None, None, s) for s in (*stride, *dilation)]
    view = view[(slice(None), slice(None), *steps)]
    fits = [0 if n else m for n, m in zip(short, view.shape[2 : rank + 2], strict=True)]
    inside: Any = (..., *map(slice, fits), *[slice(None)] * rank)
    view = view[inside]
    view = view.reshape(len(x), groups, share, *fits, *points)
    order = (1, 0, *range(3, rank + 3), 2, *range(rank + 3, 2 * rank + 3))
    row = share * int(np.prod(points))
    rows = view.transpose(order).reshape(groups, len(x) * int(np.prod(fits)), row)
    columns = kernel.reshape(groups, out // groups, row).transpose(0, 2, 1)
    result = np.matmul(rows, columns).reshape(groups, len(x), *fits, out // groups)
    result = np.moveaxis(np.moveaxis(result, 0, 1), -1, 2)
    return result.reshape(len(x), out, *fits).astype(dtype, copy=False)


def _print_numpy(p: Printing) -> str:
    params = p.node.params
    rest = [p.code(params[k]) for k in ("spread", "dilation", "groups")]
    given = [*p.inputs, p.code(params["stride"]), padding_text(p), *rest]
    return f"{p.helper(conv_numpy)}({', '.join(given)})"


def _print_jax(p: Printing) -> str:
    params = p.node.params
    given = [*p.inputs, p.code(params["stride"]), padding_text(p)]
    names = {"spread": "lhs_dilation", "dilation": "rhs_dilation"}
    for key, name in names.items():
        if any(f != 1 for f in params[key]):
            given.append(f"{name}={p.code(params[key])}")
    if params["groups"] != 1:
        given.append(f"feature_group_count={p.code(params['groups'])}")
    return f"jax.lax.conv_general_dilated({', '.join(given)})"


_conv.emit(numpy=_print_numpy, jax=_print_jax)


def _operands(x: Any, kernel: Any, name: str, axes: int) -> tuple[Value, Value, int]:
    """Both arrays in one dtype, and the number of spatial axes."""
    value, weights = promoted(x, kernel)
    count = value.type.rank - 2
    if weights.type.rank != count + 2 or count < 1 or axes not in (0, count):
        spatial = f"{axes} spatial axes" if axes else "spatial axes"
        raise graph_error(
            f"needs (batch, channels, ...) and (out, in / groups, ...) with {spatial}",
            op=f"nn.{name}",
            got=f"{value.type}, {weights.type}",
        )
    return value, weights, count


def _with_bias(result: Value, bias: Any, name: str) -> Value:
    if bias is None:
        return result
    vector, channels = strong(F.asarray(bias)), result.type.shape[1]
    shape = vector.type.shape
    if len(shape) != 1 or dims.equal(shape[0], channels) is False:
        problem = f"the bias must be a vector over the {channels} output channels"
        raise graph_error(problem, op=f"nn.{name}", got=str(vector.type))
    return result + F.expand_dims(vector, tuple(range(1, result.type.rank - 1)))


def _convolve(
    name: str,
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    bias: Any,
    padding_mode: str,
) -> Value:
    value, weights, count = _operands(x, kernel, name, axes)
    op_name = f"nn.{name}"
    step = sizes(stride, count, "stride", op_name)
    apart = sizes(dilation, count, "dilation", op_name)
    named, low, high = pads(padding, count, op_name)
    if padding_mode != "constant":
        if named:
            low, high = _named_pads(named, value, weights, step, apart)
        width = [(0, 0), (0, 0), *zip(low, high, strict=True)]
        value = F.pad(value, width, mode=padding_mode)
        named, low, high = "", (0,) * count, (0,) * count
    result = _conv(
        value,
        weights,
        stride=step,
        padding=named,
        low=low,
        high=high,
        spread=(1,) * count,
        dilation=apart,
        groups=as_size(groups, "the number of groups"),
    )
    return _with_bias(result, bias, name)


def _named_pads(
    named: str, value: Value, weights: Value, stride: Sizes, dilation: Sizes
) -> tuple[Sizes, Sizes]:
    """The points that a named padding means, as sizes."""
    low, high = [], []
    spatial = zip(value.type.shape[2:], weights.type.shape[2:], strict=True)
    for (n, k), step, apart in zip(spatial, stride, dilation, strict=True):
        need = (dims.ceil_div(n, step) - 1) * step + extent(k, apart) - n
        total = dims.maximum(0, need)
        small, large = total // 2, total - total // 2
        low.append(small if named == "SAME" else large)
        high.append(large if named == "SAME" else small)
    return tuple(low), tuple(high)


@public(name="nn.conv")
def conv(
    x: Any,
    kernel: Any,
    stride: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: Any = 1,
    bias: Any = None,
    padding_mode: str = "constant",
) -> Value:
    """The kernel moved over the spatial axes of `x`: 1, 2, 3 or more of them.

    `x` is (batch, channels, *spatial), `kernel` (out, channels / groups, *spatial).
    Stride and dilation are sizes, or one per spatial axis; `padding` is "SAME" (as
    many points as strides in the axis), "SAME_LOWER", "VALID" (none), a size, or per
    axis a size or a pair. What is padded is `padding_mode`, as in `gt.pad`. Sizes may
    be symbolic. `bias` is a vector over the output channels.
    Raises GraphError where channels, groups and kernel do not fit.
    """
    given = (stride, padding, dilation, groups, bias, padding_mode)
    return _convolve("conv", 0, x, kernel, *given)


def _of_axes(axes: int) -> None:
    name = f"conv{axes}d"

    def function(
        x: Any,
        kernel: Any,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: Any = 1,
        bias: Any = None,
        padding_mode: str = "constant",
    ) -> Value:
        given = (stride, padding, dilation, groups, bias, padding_mode)
        return _convolve(name, axes, x, kernel, *given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`conv` with {axes} spatial {'axis' if axes == 1 else 'axes'}."
    enroll(function, f"nn.{name}")


for _axes in (1, 2, 3):
    _of_axes(_axes)


def _transposed_pads(
    padding: Any, window: Sizes, stride: Sizes, name: str
) -> tuple[Sizes, Sizes]:
    """Around the spread input: what is left of the window beyond the padding."""
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


@public(name="nn.conv_transpose")
def conv_transpose(
    x: Any,
    kernel: Any,
    stride: Any = 1,
    padding: Any = "VALID",
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    bias: Any = None,
) -> Value:
    """The transpose of `conv` as a linear map: from its result's shape to its input's.

    `kernel` is that of the `conv`: (channels of x, out / groups, *spatial); stride,
    padding, dilation and groups are its own too, as in PyTorch. An axis of n points
    becomes (n - 1) stride + window - padding + output_padding long; with "SAME", as
    in `jax.lax.conv_transpose`, n stride + output_padding.
    """
    name = "conv_transpose"
    value, weights, count = _operands(x, kernel, name, 0)
    op_name = f"nn.{name}"
    step = sizes(stride, count, "stride", op_name)
    apart = sizes(dilation, count, "dilation", op_name)
    extra = sizes(output_padding, count, "output padding", op_name)
    parts = as_size(groups, "the number of groups")
    channels, share, *points = weights.type.shape
    if dims.equal(parts, 0) or dims.equal(channels % parts, 0) is False:
        problem = f"{channels} channels cannot be split into {parts} groups"
        raise graph_error(problem, op=op_name, got=str(weights.type))
    pairs = zip(points, apart, strict=True)
    window = tuple(extent(k, d) for k, d in pairs)
    low, high = _transposed_pads(padding, window, step, op_name)
    split = F.reshape(weights, (parts, channels // parts, share, *points))
    swapped = F.reshape(F.swapaxes(split, 1, 2), (parts * share, -1, *points))
    result = _conv(
        value,
        F.flip(swapped, tuple(range(2, count + 2))),
        stride=(1,) * count,
        padding="",
        low=low,
        high=tuple(b + e for b, e in zip(high, extra, strict=True)),
        spread=step,
        dilation=apart,
        groups=parts,
    )
    return _with_bias(result, bias, name)
