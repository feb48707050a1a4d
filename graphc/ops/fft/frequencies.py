"""Frequencies of a transform (`gt.fft`), and their order: zero first, or centred."""

from collections.abc import Sequence

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, AxesLike, DTypeLike, SizeLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    no_device,
    normal_axes,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import AxesParam
from graphc.ir.sizes.dims import Size
from graphc.ir.types import FLOAT64, DType, TensorType, dtype_of, is_float
from graphc.ops.common.batching import batch_with_axes
from graphc.ops.common.padded_reads import as_int32, iota, read_at
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.fft.transforms import checked_points


@op()
def _fftshift(x: Array, *, axes: AxesParam, back: bool) -> TensorType:
    """Exchange the halves of `axes`; `back` undoes it."""
    return x.type.like()


def _print_shift(p: Printing) -> str:
    name = "ifftshift" if p.node.params["back"] else "fftshift"
    return f"{p.xp}.fft.{name}({p.inputs[0]}, axes={p.node.params['axes']})"


_fftshift.emit(_print_shift)
_fftshift.linear = True
_fftshift.vjp(lambda g, x, *, axes, back: (_fftshift(g, axes=axes, back=not back),))
batch_with_axes(_fftshift, "axes")


@_fftshift.padding
def _(pad: Padding, x: PaddedValue, *, axes: tuple[int, ...], back: bool) -> Value:
    known = tuple(a for a in axes if a not in x.axes)
    value = _fftshift(x.value, axes=known, back=back) if known else x.value
    for axis in x.ragged(axes):
        n = F.maximum(as_int32(pad, x.type.shape[axis]), 1)
        by = n // 2 if back else n - n // 2
        at = iota(pad.stored(x.type.shape[axis])) + by
        value = read_at(value, axis, at % n)
    return value


def _shift(x: ArrayLike, axes: AxesLike | None, back: bool) -> Value:
    value = as_strong_value(x)
    name = "fft.ifftshift" if back else "fft.fftshift"
    if not value.type.rank:
        raise graph_error("needs at least one axis", op=name, got=str(value.type))
    chosen = normal_axes(axes, value.type.rank, name)
    return _fftshift(value, axes=chosen, back=back) if chosen else value


@public(name="fft.fftshift")
def fftshift(x: ArrayLike, /, axes: int | Sequence[int] | None = None) -> Value:
    """Move the zero frequency to the centre of `axes` (all by default)."""
    return _shift(x, axes, back=False)


@public(name="fft.ifftshift")
def ifftshift(x: ArrayLike, /, axes: int | Sequence[int] | None = None) -> Value:
    """The inverse of `fftshift`; the two differ if a size is odd."""
    return _shift(x, axes, back=True)


def _spacing(d: ArrayLike, op: str) -> Value:
    spacing = as_value(d)
    if spacing.type.rank:
        got = str(spacing.type)
        raise graph_error("the spacing must be a scalar", op=op, got=got)
    return spacing


def _frequencies(
    numbers: Value, n: Size, spacing: Value, dtype: DTypeLike | None
) -> Value:
    to = _float_dtype(spacing) if dtype is None else dtype_of(dtype)
    return cast(numbers, to) / (cast(as_value(size_value(n)), to) * cast(spacing, to))


def _float_dtype(spacing: Value) -> DType:
    if spacing.type.weak:
        return config.float
    return spacing.dtype if is_float(spacing.dtype) else FLOAT64


@public(name="fft.fftfreq")
def fftfreq(
    n: SizeLike,
    /,
    d: ArrayLike = 1.0,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """The frequencies of `fft` for `n` points at a distance of `d`.

    The dtype is that of `d`, or the default float if `d` is a Python number.
    """
    no_device(device, "fft.fftfreq")
    size = checked_points(n, "fft.fftfreq")
    half = size // 2
    numbers = F.arange(size_value(-half), size_value(size - half))
    spacing = _spacing(d, "fft.fftfreq")
    return _frequencies(ifftshift(numbers), size, spacing, dtype)


@public(name="fft.rfftfreq")
def rfftfreq(
    n: SizeLike,
    /,
    d: ArrayLike = 1.0,
    dtype: DTypeLike | None = None,
    *,
    device: None = None,
) -> Value:
    """The frequencies of `rfft` for `n` points at a distance of `d`."""
    no_device(device, "fft.rfftfreq")
    size = checked_points(n, "fft.rfftfreq")
    spacing = _spacing(d, "fft.rfftfreq")
    return _frequencies(F.arange(size_value(size // 2 + 1)), size, spacing, dtype)
