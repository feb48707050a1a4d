"""Convolution (`gt.nn.conv`) and transposed convolution, over spatial axes.

Layouts are those of `jax.lax.conv` and PyTorch: arrays are (batch, channels, *spatial),
kernels (output channels, input channels / groups, *spatial). As there, "convolution"
does not flip the kernel. NumPy programs gather the windows and multiply matrices, half
precision in float32.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, PadsLike, ShapeLike, SizeLike
from graphc.ir.graph.build import Shape, as_size, size_value, strong
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import BOOL, NDArray, TensorType
from graphc.ops.common.batching import Batched
from graphc.ops.common.broadcasting import promoted
from graphc.ops.nn.windows import (
    Pads,
    covered_points,
    named_pads,
    output_sizes,
    padding_text,
    pads,
    sizes,
    spaced_size,
    transposed_pads,
    window_pads,
)


@op()
def _conv(
    x: Array,
    kernel: Array,
    *,
    stride: Shape,
    padding: Pads,
    low: Shape,
    high: Shape,
    spread: Shape,
    dilation: Shape,
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
    reason = "the groups must divide the output channels"
    require_equal(out % groups, 0, reason, kind="divisibility")
    wide = _spaced_sizes(spatial, spread)
    fits = output_sizes(wide, tuple(window), stride, dilation, padding, low, high)
    return x.type.like((batch, out, *fits))


def _spaced_sizes(shape: Sequence[Size], spread: Shape) -> list[Size]:
    """The sizes of axes after zeros have been put between their points."""
    return [spaced_size(n, f) for n, f in zip(shape, spread, strict=True)]


def spaced_numpy(x: NDArray, spread: Sequence[int]) -> NDArray:
    """Printed into NumPy programs: `x` with zeros between its spatial points."""
    shape = [max((n - 1) * f + 1, 0) for n, f in zip(x.shape[2:], spread, strict=True)]
    spaced = np.zeros((*x.shape[:2], *shape), x.dtype)
    every: Any = (..., *(slice(None, None, f) for f in spread))
    spaced[every] = x
    return spaced


def padded_numpy(
    x: Any,
    window: Sequence[int],
    stride: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> NDArray:
    """Printed into NumPy programs: spatial axes with zeros added, or points cut."""
    shape = x.shape[2:]
    if isinstance(padding, str):
        axes = zip(shape, window, stride, strict=True)
        padding = [window_pads(n, w, s, padding) for n, w, s in axes]
    if not any(a or b for a, b in padding):
        return x
    added = [(max(a, 0), max(b, 0)) for a, b in padding]
    x = np.pad(x, ((0, 0), (0, 0), *added))
    pairs = zip(x.shape[2:], padding, strict=True)
    inside = [slice(max(-a, 0), max(n - max(-b, 0), 0)) for n, (a, b) in pairs]
    return x[(..., *inside)]


def correlated_numpy(x: NDArray, kernel: NDArray, low: int, high: int) -> NDArray:
    """Printed into NumPy programs: the correlation of two vectors, without windows.

    The vector is padded by `low` and `high` zeros.
    """
    if kernel.shape[2] > x.shape[2] + low + high or not x.shape[2]:
        return np.zeros((1, 1, max(low + high - kernel.shape[2] + 1, 0)), x.dtype)
    most = kernel.shape[2] - 1
    mode: Any = "full" if low or high else "valid"
    full = np.correlate(x[0, 0], kernel[0, 0].conj(), mode)
    if mode == "valid":
        return full[None, None]
    full = np.pad(full, (max(low - most, 0), max(high - most, 0)))
    return full[None, None, max(most - low, 0) : len(full) - max(most - high, 0)]


def conv_numpy(
    x: NDArray,
    kernel: NDArray,
    stride: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    spread: Sequence[int],
    dilation: Sequence[int],
    groups: int,
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
    if x.shape[:2] == kernel.shape[:2] == (1, 1) == (*stride, *dilation):
        if isinstance(padding, str):
            padding = [window_pads(x.shape[2], window[0], 1, padding)]
        low, high = padding[0]
        x = padded_numpy(x, window, stride, [(min(low, 0), min(high, 0))])
        products = correlated_numpy(x, kernel, max(low, 0), max(high, 0))
        return products.astype(dtype, copy=False)
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
    more = [p.code(params[k]) for k in ("spread", "dilation", "groups")]
    arguments = [*p.inputs, p.code(params["stride"]), padding_text(p), *more]
    return p.call(conv_numpy, *arguments)


def _print_jax(p: Printing) -> str:
    params = p.node.params
    arguments = [*p.inputs, p.code(params["stride"]), padding_text(p)]
    names = {"spread": "lhs_dilation", "dilation": "rhs_dilation"}
    for key, name in names.items():
        if not all(map(is_one, params[key])):
            arguments.append(f"{name}={p.code(params[key])}")
    if not is_one(params["groups"]):
        arguments.append(f"feature_group_count={p.code(params['groups'])}")
    return f"jax.lax.conv_general_dilated({', '.join(arguments)})"


_conv.rounding = "stored"
_conv.emit(numpy=_print_numpy, jax=_print_jax)
CONV = _conv


@_conv.vjp
def _(g: Value, x: Value, kernel: Value, **params: Any) -> tuple[Value, Value]:
    if params["padding"]:
        wide = tuple(map(covered_points, kernel.type.shape[2:], params["dilation"]))
        spatial, stride = x.type.shape[2:], params["stride"]
        params["low"], _ = named_pads(params["padding"], spatial, wide, stride)
    of_array = _array_cotangent(g, x, kernel, **params)
    return of_array, _kernel_cotangent(g, x, kernel, **params)


def _array_cotangent(
    g: Value,
    x: Value,
    kernel: Value,
    *,
    stride: Shape,
    low: Shape,
    spread: Shape,
    dilation: Shape,
    groups: Size,
    **unused: object,
) -> Value:
    """The cotangent of `x`: a transposed convolution, by the turned kernel."""
    windows = map(covered_points, kernel.type.shape[2:], dilation)
    written = zip(_spaced_sizes(g.type.shape[2:], stride), windows, strict=True)
    before, after = [], []
    for (m, w), n, a in zip(
        written, _spaced_sizes(x.type.shape[2:], spread), low, strict=True
    ):
        before.append(w - 1 - a)
        after.append(n - m + a)
    of_x = _conv(
        g,
        _transposed_kernel(kernel, groups),
        stride=spread,
        padding="",
        low=tuple(before),
        high=tuple(after),
        spread=stride,
        dilation=dilation,
        groups=groups,
    )
    return F.specify_shape(of_x, x.type.shape)


def _transposed_kernel(kernel: Value, groups: Size) -> Value:
    """The kernel of the transposed convolution: flipped, with its channels swapped."""
    out, share, *points = kernel.type.shape
    split = F.reshape(kernel, (groups, out // groups, share, *points))
    shape = (groups * share, out // groups, *points)
    swapped = F.reshape(F.swapaxes(split, 1, 2), shape)
    return F.flip(swapped, tuple(range(2, len(shape))))


def _kernel_cotangent(
    g: Value,
    x: Value,
    kernel: Value,
    *,
    stride: Shape,
    low: Shape,
    spread: Shape,
    dilation: Shape,
    groups: Size,
    **unused: object,
) -> Value:
    """The cotangent of the kernel: `x` convolved with `g`, examples as channels."""
    g = _with_a_point(g)
    batch, _, *spatial = x.type.shape
    _, share, *window = kernel.type.shape
    split = F.reshape(x, (batch, groups, share, *spatial))
    split = F.reshape(F.swapaxes(split, 0, 2), (share, groups * batch, *spatial))
    sizes = zip(window, dilation, low, strict=True)
    ends = zip(
        _spaced_sizes(g.type.shape[2:], stride),
        _spaced_sizes(spatial, spread),
        strict=True,
    )
    high = [
        m - n + covered_points(k, d) - 1 - a
        for (m, n), (k, d, a) in zip(ends, sizes, strict=True)
    ]
    of_kernel = _conv(
        split,
        F.swapaxes(g, 0, 1),
        stride=dilation,
        padding="",
        low=low,
        high=tuple(high),
        spread=spread,
        dilation=stride,
        groups=groups,
    )
    return F.specify_shape(F.swapaxes(of_kernel, 0, 1), kernel.type.shape)


def _with_a_point(g: Value) -> Value:
    """Give a cotangent zeros where an axis is empty, as a kernel needs a point."""
    empty = [dims.less_equal(1, n) is not True for n in g.type.shape[2:]]
    if not any(empty):
        return g
    missing = [size_value(dims.maximum(1 - n, 0)) for n in g.type.shape[2:]]
    return F.pad(g, [(0, 0), (0, 0), *((0, n) for n in missing)])


def _with_examples(some: Size, x: Value) -> Value:
    """Append examples of zeros to `x` if it has fewer than `some`."""
    missing = some - x.type.shape[0]
    if dims.equal(missing, 0) is True:
        return x
    widths = [(0, size_value(missing)), *[(0, 0)] * (x.type.rank - 1)]
    return F.pad(x, widths)


@_conv.batch
def _(
    n: Size, batched: Batched, x: Value, kernel: Value, *, groups: Size, **params: Param
) -> Value:
    if not batched[1]:
        batch, *tail = x.type.shape[1:]
        merged = F.reshape(x, (n * batch, *tail))
        result = _conv(merged, kernel, groups=groups, **params)
        return F.reshape(result, (n, batch, *result.type.shape[1:]))
    # The kernels of all examples are joined, as groups or as more outputs of each
    # group.
    _, out, *tail = kernel.type.shape
    share = out // groups
    if batched[0]:
        some = dims.maximum(n, 1)  # as there must be a group
        x, kernel = _with_examples(some, x), _with_examples(some, kernel)
        batch, channels = x.type.shape[1:3]
        shape = (batch, some * channels, *x.type.shape[3:])
        joined = F.reshape(F.swapaxes(x, 0, 1), shape)
        stacked = F.reshape(kernel, (some * out, *tail))
        result = _conv(joined, stacked, groups=some * groups, **params)
        split = F.reshape(result, (batch, some, out, *result.type.shape[2:]))
        return F._part(F.moveaxis(split, 1, 0), 0, 0, n)
    split = F.swapaxes(F.reshape(kernel, (n, groups, share, *tail)), 0, 1)
    joined = F.reshape(split, (groups * n * share, *tail))
    result = _conv(x, joined, groups=groups, **params)
    batch, _, *spatial = result.type.shape
    apart = F.reshape(result, (batch, groups, n, share, *spatial))
    return F.reshape(F.moveaxis(apart, 2, 0), (n, batch, out, *spatial))


def _operands(
    x: ArrayLike, kernel: ArrayLike, name: str, axes: int
) -> tuple[Value, Value, int]:
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


def _with_bias(result: Value, bias: ArrayLike | None, name: str) -> Value:
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
    x: ArrayLike,
    kernel: ArrayLike,
    stride: ShapeLike,
    padding: PadsLike,
    dilation: ShapeLike,
    groups: SizeLike,
    bias: ArrayLike | None,
    padding_mode: str,
) -> Value:
    value, weights, count = _operands(x, kernel, name, axes)
    op_name = f"nn.{name}"
    step = sizes(stride, count, "stride", op_name)
    apart = sizes(dilation, count, "dilation", op_name)
    named, low, high = pads(padding, count, op_name)
    if padding_mode != "constant":
        if named:
            window = tuple(map(covered_points, weights.type.shape[2:], apart))
            low, high = named_pads(named, value.type.shape[2:], window, step)
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


@public(name="nn.conv")
def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    stride: ShapeLike = 1,
    padding: PadsLike = "VALID",
    dilation: ShapeLike = 1,
    groups: SizeLike = 1,
    bias: ArrayLike | None = None,
    padding_mode: str = "constant",
) -> Value:
    """The kernel moved over the spatial axes of `x`: 1, 2, 3 or more of them.

    `x` is (batch, channels, *spatial), `kernel` (out, channels / groups, *spatial).
    Stride and dilation are sizes, or one per spatial axis; `padding` is "SAME" (as many
    points as strides in the axis), "SAME_LOWER", "VALID" (none), a size, or per axis a
    size or a pair. `padding_mode` is the `mode` of `gt.pad`. Sizes may be symbolic.
    `bias` is a vector over the output channels. Raises GraphError if channels, groups
    and kernel do not fit.
    """
    options = (stride, padding, dilation, groups, bias, padding_mode)
    return _convolve("conv", 0, x, kernel, *options)


def _declare_conv(axes: int) -> None:
    name = f"conv{axes}d"
    doc = f"`conv` with {axes} spatial {'axis' if axes == 1 else 'axes'}."

    @public(name=f"nn.{name}", doc=doc)
    def function(
        x: ArrayLike,
        kernel: ArrayLike,
        stride: ShapeLike = 1,
        padding: PadsLike = "VALID",
        dilation: ShapeLike = 1,
        groups: SizeLike = 1,
        bias: ArrayLike | None = None,
        padding_mode: str = "constant",
    ) -> Value:
        options = (stride, padding, dilation, groups, bias, padding_mode)
        return _convolve(name, axes, x, kernel, *options)


for _axes in (1, 2, 3):
    _declare_conv(_axes)


@public(name="nn.conv_transpose")
def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    stride: ShapeLike = 1,
    padding: PadsLike = "VALID",
    output_padding: ShapeLike = 0,
    dilation: ShapeLike = 1,
    groups: SizeLike = 1,
    bias: ArrayLike | None = None,
) -> Value:
    """The transpose of `conv` as a linear map: from its result's shape to its input's.

    `kernel` is the one of that `conv`: (channels of x, out / groups, *spatial); stride,
    padding, dilation and groups are those of the `conv` too, as in PyTorch. An axis of
    n points becomes (n - 1) stride + window - padding + output_padding long; with
    "SAME", it becomes n stride + output_padding, as in `jax.lax.conv_transpose`.
    """
    name = "conv_transpose"
    value, weights, count = _operands(x, kernel, name, 0)
    op_name = f"nn.{name}"
    step = sizes(stride, count, "stride", op_name)
    apart = sizes(dilation, count, "dilation", op_name)
    extra = sizes(output_padding, count, "output padding", op_name)
    parts = as_size(groups, "the number of groups")
    channels, _, *points = weights.type.shape
    if dims.equal(parts, 0) or dims.equal(channels % parts, 0) is False:
        problem = f"{channels} channels cannot be split into {parts} groups"
        raise graph_error(problem, op=op_name, got=str(weights.type))
    pairs = zip(points, apart, strict=True)
    window = tuple(covered_points(k, d) for k, d in pairs)
    low, high = transposed_pads(padding, window, step, op_name)
    result = _conv(
        value,
        _transposed_kernel(weights, parts),
        stride=(1,) * count,
        padding="",
        low=low,
        high=tuple(b + e for b, e in zip(high, extra, strict=True)),
        spread=step,
        dilation=apart,
        groups=parts,
    )
    return _with_bias(result, bias, name)
