"""Neural networks: convolution and pooling, each by its definition.

The references loop over the points of the window. For each point, they take all the
elements that it meets, so they need only slices, sums and a product over channels.
"""

from functools import reduce

import numpy as np

import graphc.tensor as gt
from tests.samples.nn import exact
from tests.samples.spec import ALL, FLOATS, NUMBERS, a, call, sample


def each(size, count):
    return tuple(size) if isinstance(size, (tuple, list)) else (size,) * count


def named_pair(n, extent, stride, name):
    """The padding for as many windows as strides fit into the axis.

    Its larger half comes after the axis for "SAME", before it otherwise.
    """
    total = max((-(-n // stride) - 1) * stride + extent - n, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if name == "SAME" else (large, small)


def pairs(padding, count):
    padding = 0 if padding == "VALID" else padding
    return [each(pair, 2) for pair in each(padding, count)]


def checked(sizes):
    if min(sizes) < 1:
        raise ValueError("not positive")
    return sizes


def met(x, window, stride=1, padding="VALID", dilation=1, fill=0, mode="constant"):
    """For each point of the window, the elements of `x` that it meets."""
    count = len(window)
    checked(window)
    stride, dilation = checked(each(stride, count)), checked(each(dilation, count))
    extents = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    sizes = x.shape[x.ndim - count :]
    if padding in ("SAME", "SAME_LOWER"):
        axes = zip(sizes, extents, stride, strict=True)
        padding = [named_pair(*axis, padding) for axis in axes]
    padding = pairs(padding, count)
    options = {"constant_values": fill} if mode == "constant" else {}
    width = [(max(low, 0), max(high, 0)) for low, high in padding]
    x = np.pad(x, [(0, 0)] * (x.ndim - count) + width, mode, **options)
    for axis, (low, high) in enumerate(padding, x.ndim - count):
        kept = np.arange(x.shape[axis])[max(-low, 0) :]
        x = x.take(kept[: max(len(kept) + min(high, 0), 0)], axis)
    axes = zip(x.shape[x.ndim - count :], extents, stride, strict=True)
    fits = [max((n - extent) // s + 1, 0) for n, extent, s in axes]
    for point in np.ndindex(*window):
        steps = zip(point, dilation, fits, stride, strict=True)
        at = [slice(p * d, p * d + f * s, s) for p, d, f, s in steps]
        yield point, x[(..., *at)]


# Convolution


def wide(function):
    """A reference that is computed in 64 bits and returns the arrays' common dtype."""

    def reference(*args, **options):
        dtype = np.result_type(*args)
        if dtype.kind == "b":
            raise TypeError("bools")
        work = {"f": "float64", "c": "complex128"}.get(dtype.kind, "int64")
        return function(*(x.astype(work) for x in args), **options).astype(dtype)

    return reference


def fitting(x, kernel, groups, channels):
    if x.ndim != kernel.ndim or x.ndim < 3 or groups < 1:
        raise ValueError("ranks")
    if x.shape[1] != channels or kernel.shape[0] % groups:
        raise ValueError("channels")


def with_bias(x, bias):
    if bias is None:
        return x
    if bias.shape != x.shape[1:2]:
        raise ValueError("bias")
    return x + bias.reshape(-1, *[1] * (x.ndim - 2))


def conv(x, kernel, bias=None, groups=1, padding_mode="constant", **options):
    out, share, *window = kernel.shape
    fitting(x, kernel, groups, share * groups)
    made = 0
    for point, part in met(x, window, mode=padding_mode, **options):
        split = part.reshape(len(x), groups, share, *part.shape[2:])
        weights = kernel[(..., *point)].reshape(groups, out // groups, share)
        made = made + np.einsum("bgc...,goc->bgo...", split, weights)
    return with_bias(made.reshape(len(x), out, *made.shape[3:]), bias)


def cut(n, extent, stride, padding):
    """The start of the transposed result in all that is touched, and its length."""
    if isinstance(padding, str) and padding != "VALID":
        total = extent + stride - 2
        before = -(-total // 2) if padding == "SAME" else total // 2
        return extent - 1 - min(extent - 1, before), n * stride
    low, high = (0, 0) if padding == "VALID" else padding
    return low, max((n - 1) * stride + extent - low - high, 0)


def conv_transpose(
    x,
    kernel,
    bias=None,
    stride=1,
    padding="VALID",
    output_padding=0,
    dilation=1,
    groups=1,
):
    channels, share, *window = kernel.shape
    fitting(x, kernel, groups, channels)
    count, sizes = len(window), x.shape[2:]
    stride, dilation = each(stride, count), each(dilation, count)
    extents = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    apart = padding if isinstance(padding, str) else pairs(padding, count)
    apart = (padding,) * count if isinstance(padding, str) else apart
    cuts = [cut(*axis) for axis in zip(sizes, extents, stride, apart, strict=True)]
    extra = each(output_padding, count)
    most = [low + length + e + 99 for (low, length), e in zip(cuts, extra, strict=True)]
    full = np.zeros((len(x), groups, share, *most), x.dtype)
    split = x.reshape(len(x), groups, channels // groups, *sizes)
    for point in np.ndindex(*window):
        weights = kernel[(..., *point)].reshape(groups, channels // groups, share)
        steps = zip(point, dilation, sizes, stride, strict=True)
        at = [slice(p * d, p * d + n * s, s) for p, d, n, s in steps]
        full[(..., *at)] += np.einsum("bgc...,gco->bgo...", split, weights)
    lengths = zip(cuts, extra, strict=True)
    kept = [slice(low, low + length + e) for (low, length), e in lengths]
    made = full.reshape(len(x), groups * share, *most)[(..., *kept)]
    return with_bias(made, bias)


def biased(name):
    """The function of `gt.nn` with the bias as the third argument."""
    function = getattr(gt.nn, name)
    return lambda x, kernel, bias=None, **options: function(
        x, kernel, bias=bias, **options
    )


LINE, SMALL = a(2, 3, 7), a(4, 3, 3)
ONE_AXIS = (
    call(LINE, SMALL, stride=2, padding="SAME"),
    call(LINE, SMALL),
    call(LINE, SMALL, a(4), stride=3),
    call(LINE, SMALL, padding="SAME_LOWER", stride=2),
    call(LINE, SMALL, padding=((3, 1),), dilation=2),
    call(LINE, SMALL, padding=((-1, 2),)),
    call(LINE, SMALL, padding=((-2, -5),)),
    call(LINE, SMALL, padding=((-2, 5),), stride=2),
    call(LINE, SMALL, padding=2, dilation=9),
    call(a(2, 6, 5), a(4, 3, 2), groups=2),
    call(a(1, 3, 1), SMALL, padding=1),
    call(a(0, 3, 7), SMALL),
    call(a(2, 3, 0), SMALL, padding="SAME"),
    call(a(2, 3, 2), SMALL),
    call(LINE, SMALL, padding="SAME", padding_mode="reflect"),
    call(LINE, SMALL, padding=((0, 2),), padding_mode="wrap"),
    call(a(1, 1, 5), a(1, 1, 3)),
    call(a(1, 1, 2), a(1, 1, 3)),
)
REFUSED = (
    call(LINE, a(4, 2, 3)),
    call(LINE, SMALL, a(3)),
    call(LINE, SMALL, a(1)),
    call(LINE, SMALL, groups=3),
    call(LINE, SMALL, groups=0),
    call(LINE, a(4, 3)),
    call(LINE, SMALL, stride=0),
    call(LINE, SMALL, dilation=0),
    call(a(2, 7), a(4, 7)),
)
GRID, SQUARE = a(2, 2, 5, 6), a(4, 2, 3, 2)
TWO_AXES = (
    call(GRID, SQUARE, stride=(2, 1), padding="SAME"),
    call(GRID, SQUARE, a(4), padding=((1, 0), (0, 2)), dilation=(1, 3)),
    call(GRID, a(6, 1, 2, 2), groups=2, padding=(1, 0)),
)
TRANSPOSED = (
    call(a(2, 4, 5), SMALL, stride=2, padding=1),
    call(a(2, 4, 5), SMALL, a(3)),
    call(a(2, 4, 5), SMALL, stride=3, output_padding=2, padding=((1, 2),)),
    call(a(2, 4, 5), SMALL, dilation=2, padding=((0, 4),)),
    call(a(2, 4, 5), SMALL, stride=2, padding="SAME"),
    call(a(2, 4, 5), SMALL, stride=4, padding="SAME", output_padding=1),
    call(a(2, 4, 5), SMALL, stride=2, padding="SAME_LOWER"),
    call(a(2, 4, 5), SMALL, groups=2, stride=2),
    call(a(2, 4, 2, 3), SQUARE, stride=(2, 1), padding=((1, 0), (1, 1))),
    call(a(2, 4, 1), SMALL, stride=2),
    call(a(0, 4, 5), SMALL),
    call(a(2, 4, 5), SMALL, groups=3),
    call(a(2, 4, 5), SMALL, groups=0),
    call(a(2, 3, 5), SMALL),
    call(a(2, 4, 5), SMALL, a(4)),
)


def convolutions():
    options = {"ours": biased("conv"), "numpy": wide(conv), "ulps": 32}
    yield sample("nn.conv", ONE_AXIS[0], **options)
    yield sample("nn.conv", *ONE_AXIS[1:], *REFUSED, **options, dtypes=FLOATS)
    cubes = (call(a(1, 2, 3, 4, 3), a(2, 2, 2, 3, 2), stride=(1, 2, 1)),)
    for name, calls in {"1d": ONE_AXIS[:1], "2d": TWO_AXES, "3d": cubes}.items():
        options = {"ours": biased(f"conv{name}"), "numpy": wide(conv), "ulps": 32}
        yield sample(f"nn.conv{name}", *calls, **options, dtypes=["int32", *FLOATS])
    options = {"ours": biased("conv_transpose"), "numpy": wide(conv_transpose)}
    yield sample("nn.conv_transpose", TRANSPOSED[0], **options, ulps=32)
    options |= {"dtypes": FLOATS, "ulps": 32}
    yield sample("nn.conv_transpose", *TRANSPOSED[1:], **options)


# Pooling


def last_axes(x, window):
    """The window as a size per axis: all axes but two, or as many as it has sizes."""
    count = len(window) if isinstance(window, tuple) else x.ndim - 2
    if not 1 <= count <= x.ndim:
        raise ValueError("axes")
    return each(window, count)


def parts(x, window, stride=None, padding="VALID", dilation=1, fill=0):
    sizes = last_axes(x, window)
    steps = sizes if stride is None else stride
    return [part for _, part in met(x, sizes, steps, padding, dilation, fill)]


def limit(dtype, sign):
    if dtype.kind == "f":
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def extreme(ufunc, sign):
    """The reference of `max_pool` and `min_pool`; bools become int64."""

    def reference(x, *given, **options):
        if x.dtype.kind == "c":
            raise TypeError("complex numbers")
        x = x.astype("int64") if x.dtype == bool else x
        fill = limit(x.dtype, sign)
        return reduce(ufunc, parts(x, *given, fill=fill, **options))

    return reference


def total(x, *given, **options):
    return sum(parts(x, *given, **options))


def sums(x, *given, **options):
    if x.dtype.kind in "fc":
        return exact(total)(x, *given, **options)
    x = x.astype("int64") if x.dtype == bool else x
    return total(x, *given, **options).astype(x.dtype)


def average(x, *given, count_include_pad=True, **options):
    counted = np.ones_like(x) if not count_include_pad else None
    made = total(x, *given, **options)
    if counted is not None:
        return made / total(counted, *given, **options)
    return made / len(parts(x, *given, **options))


def lp(x, p, *given, **options):
    if not 0 < p < np.inf:
        raise ValueError("p")
    return total(np.abs(x) ** p, *given, **options) ** (1 / p)


PLANE = a(2, 1, 5, 6)
POOLS = (
    call(a(1, 1, 24, values="special"), 2),
    call(PLANE, (3, 2), 2, "SAME"),
    call(PLANE, 2),
    call(PLANE, 3, (2, 1), padding="SAME_LOWER"),
    call(PLANE, (3,), padding=((1, 0),)),
    call(PLANE, 2, padding=1, dilation=2),
    call(PLANE, (2, 2), padding=((-1, 2), (0, -2))),
    call(PLANE, (9, 1)),
    call(a(5), (2,)),
    call(a(1, 1, 1), 1),
    call(a(0, 2, 4), 2),
    call(a(2, 2, 0), 2, padding="SAME"),
    call(a(2, 3), 2),
    call(a(), 1),
    call(PLANE, 0),
    call(PLANE, 2, 0),
    call(PLANE, (2,) * 5),
)
UNCOUNTED = (
    call(PLANE, (3, 2), 2, "SAME", count_include_pad=False),
    call(a(2, 1, 5), 2, padding=1, count_include_pad=False),
)
POWERS = (
    call(PLANE, 3, (3, 2), 2, "SAME"),
    call(PLANE, 2, 2, 1),
    call(PLANE, 0.5, (2,), padding=1),
    call(a(1, 1, 12, values="special"), 1, 2),
    call(a(1, 1, 300), 4, 300),
    call(PLANE, 0, 2),
    call(PLANE, -1.0, 2),
    call(PLANE, np.inf, 2),
)


def pools():
    extremes = {"max_pool": (np.maximum, -1), "min_pool": (np.minimum, 1)}
    found = {name: extreme(*given) for name, given in extremes.items()}
    found |= {"sum_pool": sums, "avg_pool": exact(average)}
    for name, reference in found.items():
        few, more = POOLS[:2], POOLS[2:]
        yield sample(f"nn.{name}", *few, numpy=reference, dtypes=ALL)
        dtypes = ["int8", *FLOATS]
        yield sample(f"nn.{name}", *more, numpy=reference, dtypes=dtypes)
        if name != "avg_pool":  # it is infinite where its sum is
            large = call(a(1, 1, 16, values="large"), 3, 1)
            yield sample(f"nn.{name}", large, numpy=reference, dtypes=FLOATS)
    options = {"numpy": exact(average), "dtypes": NUMBERS}
    yield sample("nn.avg_pool", *UNCOUNTED, call(a(1, 1, 300), 300), **options)
    options = {"numpy": exact(lp), "dtypes": [*FLOATS, "int8"], "ulps": 32}
    yield sample("nn.lp_pool", *POWERS, **options)


SAMPLES = [*convolutions(), *pools()]
