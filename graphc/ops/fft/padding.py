"""The mask rule of Fourier transforms: frequencies are those of the true size.

A transform of more points has other frequencies, so padding with zeros does not help.
Bluestein's algorithm ("A linear filtering approach to the computation of discrete
Fourier transform", 1970) writes the transform of n points as a convolution with a
chirp, of which only the numbers depend on n: three transforms of twice the capacity.
They take about six times as long as one of n points, and are as exact up to rounding.
"""

import numpy as np

from graphc.ir.graph.build import Shape, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, maximum, minimum
from graphc.ir.types import FLOAT64, INT64
from graphc.ops.common.axes import along_axis
from graphc.ops.common.padded_reads import as_int32, iota, is_known, read_at
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.fft.transforms import FFT

COSTS = "it takes about six times as long as a transform of the true size"


@FFT.padding
def _(
    pad: Padding,
    x: PaddedValue,
    *,
    kind: str,
    sizes: Shape,
    axes: tuple[int, ...],
    norm: str | None,
) -> Value:
    value = pad.filled(x, axes, 0)
    if all(is_known(pad, n) for n in pad.node.params["sizes"]):
        return FFT(value, kind=kind, sizes=sizes, axes=axes, norm=norm)
    pad.costs(COSTS)
    plain = kind.replace("r", "")
    true = zip(pad.node.params["sizes"], axes, strict=True)
    steps = [(n, axis, plain) for n, axis in true]
    steps[-1] = (*steps[-1][:2], kind)
    for n, axis, step in steps if kind == "irfft" else reversed(steps):
        value = _transform_axis(pad, value, x.type.shape[axis], n, axis, step, norm)
    return value


def _transform_axis(
    pad: Padding,
    x: Value,
    length: Size,
    n: Size,
    axis: int,
    kind: str,
    norm: str | None,
) -> Value:
    """The transform of `n` points along an axis: of `length` elements, then zeros."""
    if is_known(pad, n):
        return FFT(x, kind=kind, sizes=(n,), axes=(axis,), norm=norm)
    dtype = np.result_type(x.dtype, np.complex64)
    count = n // 2 + 1 if kind == "irfft" else n
    signal = cast(_resize(pad, x, length, count, axis), dtype)
    if kind == "irfft":
        signal = _mirror(pad, signal, n, axis)
    spectrum = _bluestein(pad, signal, n, axis, inverse=kind.startswith("i"))
    scaled = norm == "ortho" or (norm == "forward") == (not kind.startswith("i"))
    if scaled:
        points = cast(F.maximum(pad.length(n), 1), np.finfo(dtype).dtype)
        spectrum = spectrum / (F.sqrt(points) if norm == "ortho" else points)
    if kind == "rfft":
        return _resize(pad, spectrum, n, n // 2 + 1, axis)
    return F.real(spectrum) if kind == "irfft" else spectrum


def _resize(pad: Padding, x: Value, length: Size, size: Size, axis: int) -> Value:
    """Bring an axis to the capacity of `size`, with zeros after `length` elements."""
    stored = pad.stored(size)
    if equal(x.type.shape[axis], stored) is not True:
        x = read_at(x, axis, iota(stored))
    if length is size:
        return x
    inside = iota(stored) < as_int32(pad, minimum(length, size))
    return F.where(along_axis(inside, axis, x.type.rank), x, 0)


def _mirror(pad: Padding, half: Value, n: Size, axis: int) -> Value:
    """Complete the spectrum of `n` real numbers, of which half is given."""
    at = iota(pad.stored(n))
    mask = at < as_int32(pad, n // 2 + 1)
    whole = read_at(half, axis, F.where(mask, at, as_int32(pad, n) - at))
    mask = along_axis(mask, axis, whole.type.rank)
    return F.where(mask, whole, F.conjugate(whole))


def _bluestein(pad: Padding, x: Value, n: Size, axis: int, *, inverse: bool) -> Value:
    """The sum over j < n of x[j] * exp(-2 pi i j k / n), or exp(+...) if `inverse`."""
    points = F.maximum(cast(pad.length(n), INT64), 1)
    stored = pad.stored(n)
    at = cast(iota(stored), INT64)
    room = maximum(1, 2 * stored)  # the capacity may be 0
    twice = cast(iota(room), INT64)
    around = F.minimum(twice, as_value(F.size_value(room)) - twice)
    sign = -1.0 if inverse else 1.0

    def chirp(j: Value) -> Value:
        angle = cast(j * j % (2 * points), FLOAT64) * (sign * np.pi)
        turned = angle / points
        numbers = cast(F.cos(turned) + 1j * F.sin(turned), x.dtype)
        return along_axis(numbers, axis, x.type.rank)

    def transform(y: Value, kind: str) -> Value:
        return FFT(y, kind=kind, sizes=(room,), axes=(axis,), norm=None)

    back = F.conjugate(chirp(at))
    signal = F.where(along_axis(at < points, axis, x.type.rank), x, 0) * back
    product = transform(signal, "fft") * transform(chirp(around), "fft")
    return F._part(transform(product, "ifft"), axis, 0, stored) * back
