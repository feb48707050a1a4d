"""Discrete Fourier transforms, as `numpy.fft`.

float32 and complex64 are transformed in single precision, and so are float16 and
bfloat16; integers and bools in double. Sizes may be symbolic. A transform of no points
raises, at the call if the size is not known before.
"""

from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, AxesLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_size,
    as_strong_value,
    as_value,
    cast,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_at_most, type_error
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import AxesParam
from graphc.ir.sizes.dims import Dim, Size, equal, minimum
from graphc.ir.types import (
    FLOAT16,
    FLOAT32,
    NDArray,
    TensorType,
    dtype_of,
    is_float,
    is_inexact,
    same_size,
)
from graphc.ops.common.axes import at_axis
from graphc.ops.common.batching import batch_with_axes
from graphc.ops.common.broadcasting import as_inexact, require_room
from graphc.ops.common.conjugates import conjugate
from graphc.ops.common.spread import in_row_order

Norm = Literal["backward", "ortho", "forward"] | None
Kind = Literal["fft", "ifft", "rfft", "irfft"]
_DUALS: dict[Norm, Norm] = {
    None: "forward",
    "backward": "forward",
    "ortho": "ortho",
    "forward": None,
}
_WORK = {4: ("float32", "complex64"), 8: ("float64", "complex128")}  # by float size


@op()
def _fft(
    x: Array, *, kind: Kind, sizes: Shape, axes: AxesParam, norm: Norm
) -> TensorType:
    """The transform of `kind` over `axes`, of `sizes` points each.

    The input is cut or filled up with zeros to these sizes. "rfft" returns only half of
    its last axis, and "irfft" takes only half of it.
    """
    precision = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    if not is_inexact(x.dtype) or precision not in _WORK:
        raise type_error("needs float32, float64 or complex numbers")
    if kind == "rfft" and x.dtype.kind == "c":
        raise type_error("needs real numbers", hint="take gt.real(x), or use fft")
    shape = list(x.type.shape)
    for n, axis in zip(sizes, axes, strict=True):
        require_at_most(1, n, "a Fourier transform needs at least one point")
        shape[axis] = n
    require_room(tuple(shape), x.dtype)
    if kind == "rfft":
        shape[axes[-1]] = sizes[-1] // 2 + 1
    return x.type.like(shape, dtype_of(_WORK[precision][kind != "irfft"]))


def _print_on_jax(p: Printing) -> str:
    """Print as for NumPy, but on a mesh transform arrays that are stored row by row."""
    shape, axes = p.node.inputs[0].type.shape, p.node.params["axes"]
    if not p.on_mesh or len(shape) == 1:
        return _print_fft(p)
    last = tuple(range(len(shape) - len(axes), len(shape)))
    moved = [n for a, n in enumerate(shape) if a not in axes]
    moved += [shape[a] for a in axes]
    transform = _text(p, "x", tuple(moved), last)
    return p.call(in_row_order, "jnp", f"lambda x: {transform}", p.inputs[0], axes)


def _print_fft(p: Printing) -> str:
    shape, axes = p.node.inputs[0].type.shape, p.node.params["axes"]
    return _text(p, p.inputs[0], shape, axes)


def with_one_point(x: NDArray, axis: int) -> NDArray:
    """Printed into NumPy programs: `x`, or one zero along `axis` where that is empty.

    NumPy reads memory behind an empty axis in `irfft(x, n)`.
    """
    if x.shape[axis]:
        return x
    return np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)


def _text(p: Printing, x: str, shape: Shape, axes: tuple[int, ...]) -> str:
    """The text of the transform of expression `x`, of this shape, along these axes."""
    params = p.node.params
    sizes, kind = params["sizes"], params["kind"]
    at_axis_sizes = all(map(same_size, sizes, _default_sizes(shape, axes, kind)))
    if p.xp == "np" and kind == "irfft" and not at_axis_sizes:
        x = p.call(with_one_point, x, axes[-1])
    texts = [x]
    if len(axes) == 1:
        texts += [] if at_axis_sizes else [f"n={p.code(sizes[0])}"]
        texts += [] if axes[0] == len(shape) - 1 else [f"axis={axes[0]}"]
    else:
        kind += "n"
        texts += [] if at_axis_sizes else [f"s={p.code(sizes)}"]
        every = at_axis_sizes and axes == tuple(range(len(shape)))
        texts += [] if every else [f"axes={axes}"]
    texts += [f'norm="{params["norm"]}"'] if params["norm"] else []
    return f"{p.xp}.fft.{kind}({', '.join(texts)})"


FFT = _fft
_fft.emit(numpy=_print_fft, jax=_print_on_jax)
batch_with_axes(_fft, "axes")


@_fft.vjp
def _(
    g: Value, x: Value, *, kind: str, sizes: Shape, axes: tuple[int, ...], norm: Norm
) -> tuple[Value]:
    # A Fourier matrix is symmetric. A real transform leaves out half of its elements,
    # which repeat the other half: that counts twice one way, and once the other way.
    how: dict[str, Any] = {"sizes": sizes, "axes": axes}
    if kind == "rfft":
        once = conjugate(g) * _repeat_weights(g, sizes[-1], axes[-1], 0.5)
        cotangent = _fft(once, kind="irfft", norm=_DUALS[norm], **how)
    elif kind == "irfft":
        half = conjugate(_fft(g, kind="rfft", norm=_DUALS[norm], **how))
        cotangent = half * _repeat_weights(half, sizes[-1], axes[-1], 2)
    else:
        cotangent = _fft(g, kind=kind, norm=norm, **how)
    for axis in axes:
        cotangent = _resized(cotangent, axis, x.type.shape[axis])
    return (cotangent,)


def _repeat_weights(half: Value, n: Size, axis: int, weight: float) -> Value:
    """`weight` for elements of half a spectrum that the other half repeats, else 1.

    Repeated are all but the first element and, if the number `n` of points is even, the
    last one.
    """
    place = F.arange(size_value(half.type.shape[axis]))
    alone = F.logical_or(F.equal(place, 0), F.equal(2 * place, size_value(n)))
    weights = cast(F.where(alone, 1.0, weight), half.dtype)
    return F.expand_dims(weights, tuple(range(1, half.type.rank - axis)))


def _resized(x: Value, axis: int, size: Size) -> Value:
    """Cut an axis to a size, or fill it up with zeros."""
    length = x.type.shape[axis]
    if equal(length, size) is True:
        return x
    common_length = minimum(length, size)
    if common_length is not length:
        x = x[at_axis(axis, slice(0, size_value(common_length)))]
    if common_length is size:
        return x
    widths: list[Any] = [(0, 0)] * x.type.rank
    widths[axis] = (0, size_value(size - common_length))
    return F.pad(x, widths)


def _default_sizes(shape: Shape, axes: tuple[int, ...], kind: str) -> list[Size]:
    """The numbers of points if none are given."""
    sizes = [shape[a] for a in axes]
    if kind == "irfft" and sizes:
        sizes[-1] = 2 * (sizes[-1] - 1)
    return sizes


def _as_complex_or_float(x: ArrayLike) -> Value:
    """Cast the array to the precision in which it is transformed."""
    value = as_inexact(x)
    half = is_float(value.dtype) and value.dtype.itemsize == 2
    return cast(value, FLOAT32) if half else value


def _checked_norm(norm: Norm, op_name: str) -> Norm:
    """Check the name of a normalisation; "backward" becomes None, its synonym."""
    if norm is not None and norm not in _DUALS:
        expected = '"backward", "ortho" or "forward"'
        raise graph_error(
            "no such norm", op=op_name, got=f"norm={norm!r}", expected=expected
        )
    return None if norm == "backward" else norm


def checked_points(n: SizeLike, op_name: str) -> Size:
    """The number of points of a transform along one axis, which must be at least 1."""
    size = as_size(n, "a number of points")
    if isinstance(size, int) and size < 1:
        raise graph_error(f"{size} points", op=op_name, expected="at least one")
    return size


def _transform_one(
    kind: str, name: str, x: ArrayLike, n: SizeLike | None, axis: int, norm: Norm
) -> Value:
    """Transform along one axis; `irfft` of float16 is float16 again, as in NumPy."""
    value = _as_complex_or_float(x)
    op_name = f"fft.{name}"
    axes = (normal_axis(axis, value.type.rank, op_name),)
    axis_sizes = _default_sizes(value.type.shape, axes, kind)
    sizes = tuple(axis_sizes) if n is None else (checked_points(n, op_name),)
    spectrum = _fft(
        value, kind=kind, sizes=sizes, axes=axes, norm=_checked_norm(norm, op_name)
    )
    half = kind == "irfft" and as_value(x).dtype == FLOAT16
    return cast(spectrum, FLOAT16) if half else spectrum


def _transform_several(
    kind: str,
    name: str,
    x: ArrayLike,
    s: ShapeLike | None,
    axes: AxesLike | None,
    norm: Norm,
) -> Value:
    """Transform along several axes; an axis named twice is transformed twice."""
    value, op_name = _as_complex_or_float(x), f"fft.{name}"
    s = None if s is None else _shape(s, op_name)
    rank, scale = value.type.rank, _checked_norm(norm, op_name)
    chosen = _chosen_axes(s, axes, rank, op_name)
    if not chosen:
        return _of_no_axes(kind, x, op_name)
    sizes = _sizes(s, value, chosen, kind, op_name)
    if len(chosen) == 1:
        return _transform_one(kind, name, x, size_value(sizes[0]), chosen[0], norm)
    if len(set(chosen)) == len(chosen):
        return _fft(value, kind=kind, sizes=sizes, axes=chosen, norm=scale)
    return _transform_each(value, kind, sizes, chosen, scale)


def _transform_each(
    value: Value, kind: str, sizes: Shape, axes: tuple[int, ...], norm: Norm
) -> Value:
    """Transform axis by axis in NumPy's order, the last axis by the real transform."""
    plain = kind.replace("r", "")
    steps = [(n, axis, plain) for n, axis in zip(sizes[:-1], axes[:-1], strict=True)]
    steps.append((sizes[-1], axes[-1], kind))
    for n, axis, step in steps if kind == "irfft" else reversed(steps):
        value = _fft(value, kind=step, sizes=(n,), axes=(axis,), norm=norm)
    return value


def _chosen_axes(
    s: Shape | None, axes: AxesLike | None, rank: int, op_name: str
) -> tuple[int, ...]:
    if axes is None:
        count = rank if s is None else len(s)
        axes = range(-count, 0) if s is not None else range(rank)
    elif isinstance(axes, (int, np.integer)):
        axes = (axes,)
    return tuple(normal_axis(a, rank, op_name) for a in axes)


def _of_no_axes(kind: str, x: ArrayLike, op_name: str) -> Value:
    if "r" in kind:
        raise graph_error("needs at least one axis", op=op_name)
    return as_strong_value(x)


def _sizes(
    s: Shape | None, value: Value, axes: tuple[int, ...], kind: str, op_name: str
) -> Shape:
    """The number of points per axis; -1 stands for the size of the axis as it is."""
    axis_sizes = _default_sizes(value.type.shape, axes, kind)
    if s is None:
        return tuple(axis_sizes)
    if len(s) != len(axes):
        problem = f"{len(s)} sizes for {len(axes)} axes"
        raise graph_error(problem, op=op_name, got=str(value.type))
    return tuple(
        value.type.shape[axis] if _is_minus_one(n) else checked_points(n, op_name)
        for n, axis in zip(s, axes, strict=True)
    )


def _shape(s: ShapeLike, op_name: str) -> Shape:
    if isinstance(s, (int, np.integer, Dim)):
        problem = "s must be a list of sizes, one per axis"
        raise graph_error(problem, op=op_name, got=repr(s))
    return as_shape(s)


def _is_minus_one(n: Size) -> bool:
    return isinstance(n, int) and n == -1


def _declare_along_axis(kind: Kind, doc: str) -> None:
    """Declare a transform along one axis."""

    @public(name=f"fft.{kind}", doc=doc)
    def function(
        x: ArrayLike, /, n: SizeLike | None = None, axis: int = -1, norm: Norm = None
    ) -> Value:
        return _transform_one(kind, kind, x, n, axis, norm)


_declare_along_axis(
    "fft",
    "The Fourier transform along `axis`, of `n` points (all by default): complex.",
)
_declare_along_axis("ifft", "The inverse of `fft`: complex.")
_declare_along_axis(
    "rfft",
    "The first n//2 + 1 elements of the transform of `n` real numbers: complex.",
)
_declare_along_axis(
    "irfft",
    "The inverse of `rfft`: `n` real numbers, 2*(m - 1) of m by default.",
)


@public(name="fft.hfft")
def hfft(
    x: ArrayLike, /, n: SizeLike | None = None, axis: int = -1, norm: Norm = None
) -> Value:
    """The real transform of a Hermitian signal, of which half is given."""
    dual = _DUALS[_checked_norm(norm, "fft.hfft")]
    return _transform_one("irfft", "hfft", conjugate(as_strong_value(x)), n, axis, dual)


@public(name="fft.ihfft")
def ihfft(
    x: ArrayLike, /, n: SizeLike | None = None, axis: int = -1, norm: Norm = None
) -> Value:
    """The inverse of `hfft`: half of a Hermitian signal, from real numbers."""
    dual = _DUALS[_checked_norm(norm, "fft.ihfft")]
    return conjugate(_transform_one("rfft", "ihfft", x, n, axis, dual))


def _declare_over_axes(kind: Kind, doc: str) -> None:
    """Declare a transform over axes, and its variant over the last two by default."""
    over_all, over_two = f"{kind}n", f"{kind}2"

    @public(name=f"fft.{over_all}", doc=doc)
    def function(
        x: ArrayLike,
        /,
        s: ShapeLike | None = None,
        axes: AxesLike | None = None,
        norm: Norm = None,
    ) -> Value:
        return _transform_several(kind, over_all, x, s, axes, norm)

    @public(name=f"fft.{over_two}", doc=f"`{over_all}` over the last two axes.")
    def function_of_two(
        x: ArrayLike,
        s: ShapeLike | None = None,
        axes: AxesLike = (-2, -1),
        norm: Norm = None,
    ) -> Value:
        return _transform_several(kind, over_two, x, s, axes, norm)


_declare_over_axes(
    "fft",
    "The transform over `axes` (all by default), of `s` points each: complex.\n\n"
    "In `s`, -1 stands for the size of the axis. No axes leave the array as it is.",
)
_declare_over_axes("ifft", "The inverse of `fftn`: complex.")
_declare_over_axes(
    "rfft", "`fftn` of real numbers, with half of the last of `axes`: complex."
)
_declare_over_axes(
    "irfft",
    "The inverse of `rfftn`: real; 2*(m - 1) points along the last axis by default.",
)
