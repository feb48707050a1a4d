"""Elementwise functions beyond the plain ufuncs: complex parts, choices, closeness."""

from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, size_value, strong
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, type_error, views_of_inputs
from graphc.ir.namespace import F, enroll, public
from graphc.ir.sizes import dims
from graphc.ir.types import (
    BOOL,
    DTYPES,
    INT32,
    DType,
    NDArray,
    TensorType,
    complex_dtype,
    dtype_of,
    is_float,
    is_inexact,
    is_integer,
    real_dtype,
)
from graphc.ops.common.broadcasting import (
    broadcast,
    common_dtype,
    loop_dtypes,
)
from graphc.ops.common.padding import ELEMENTS


@op()
def _real(x: Array) -> TensorType:
    """The real part of a complex array."""
    return TensorType(real_dtype(x.dtype), x.type.shape)


@op()
def _imag(x: Array) -> TensorType:
    """The imaginary part of a complex array."""
    return TensorType(real_dtype(x.dtype), x.type.shape)


_real.emit("{xp}.real({x})")
_imag.emit("{xp}.imag({x})")
_real.rounding = _imag.rounding = "none"
_real.views = _imag.views = views_of_inputs
_real.elementwise = _real.linear = True
_imag.elementwise = _imag.linear = True


@_real.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    return (from_parts(g, F.zeros_like(g)),)


@_imag.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    return (from_parts(F.zeros_like(g), -g),)


@public()
def real(x: ArrayLike) -> Value:
    """The real part; a real array is returned as it is."""
    value = as_strong_value(x)
    return _real(value) if value.dtype.kind == "c" else value


@public()
def imag(x: ArrayLike) -> Value:
    """The imaginary part; zeros for a real array."""
    value = as_strong_value(x)
    return _imag(value) if value.dtype.kind == "c" else F.zeros_like(value)


@public()
def angle(x: ArrayLike, deg: bool = False) -> Value:
    """The argument of complex numbers, in radians unless `deg`."""
    value = as_strong_value(x)
    part = imag(value) if value.dtype.kind == "c" else 0
    radians = F.arctan2(part, real(value))
    return F.rad2deg(radians) if deg else radians


@op()
def _from_parts(x: Array, y: Array) -> TensorType:
    """The complex numbers `x + iy`, even if a part is not finite."""
    if x.dtype != y.dtype or x.dtype.name not in ("float32", "float64"):
        raise type_error("needs two parts of one dtype, float32 or float64")
    return TensorType(complex_dtype(x.dtype), broadcast(x.type.shape, y.type.shape))


def complex_numpy(x: NDArray, y: NDArray) -> NDArray:
    """Printed into NumPy programs: numbers with real parts x, imaginary parts y."""
    dtype = np.result_type(x, np.complex64)
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real, out.imag = x, y
    return out


_from_parts.rounding = "none"
_from_parts.emit(
    numpy=lambda p: p.call(complex_numpy, *p.inputs),
    jax="jax.lax.complex({x}, {y})",
)
_from_parts.elementwise = _from_parts.linear = True


@_from_parts.vjp
def _(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return real(g), -imag(g)


def from_parts(x: Value, y: Value) -> Value:
    """The complex numbers `x + iy` of real arrays of one dtype."""
    return _from_parts(x, y)


enroll(from_parts, "_from_parts")


@op()
def _frexp(x: Array) -> tuple[TensorType, TensorType]:
    """The mantissa, in [0.5, 1), and the exponent of 2 (int32)."""
    if not is_float(x.dtype):
        raise type_error("needs real floating-point numbers")
    return x.type.like(), TensorType(INT32, x.type.shape)


_frexp.emit("{xp}.frexp({x})")
_frexp.elementwise = True


@_frexp.vjp
def _(g: tuple[Value | None, None], x: Value) -> tuple[Value | None]:
    return (None if g[0] is None else F.ldexp(g[0], -frexp(x)[1]),)


@public()
def frexp(x: ArrayLike) -> tuple[Value, Value]:
    """The mantissas and exponents such that `x = mantissa * 2**exponent`."""
    return _frexp(_floating(x, np.frexp))


def _floating(x: ArrayLike, ufunc: np.ufunc) -> Value:
    """`x` as a strong real float, in the dtype of the ufunc's loop for it."""
    value = as_strong_value(x)
    loop = loop_dtypes(ufunc, (value.dtype,))
    if loop is None:
        op = ufunc.__name__
        raise graph_error("needs real numbers", op=op, got=str(value.type))
    return cast(value, loop[0])


@op()
def _ldexp(x: Array, exponent: Array) -> TensorType:
    """`x * 2**exponent`."""
    if not is_float(x.dtype) or not is_integer(exponent.dtype):
        raise type_error("needs real floating-point numbers and integers")
    return x.type.like(broadcast(x.type.shape, exponent.type.shape))


_ldexp.emit("{xp}.ldexp({x}, {exponent})")
_ldexp.elementwise = True
ELEMENTS.define(_ldexp, np.ldexp)


@_ldexp.vjp
def _(g: Value, x: Value, exponent: Value) -> tuple[Value, None]:
    return F.ldexp(g, exponent), None


@public()
def ldexp(x: ArrayLike, exponent: ArrayLike) -> Value:
    """`x * 2**exponent` with integer exponents, as `numpy.ldexp`."""
    value, power = as_value(x), as_value(exponent)
    of_python = value.type.weak and value.dtype.kind == "i"
    beside_integer = power.dtype.kind in "iu" and not power.type.weak
    # A Python int takes the narrowest floats; beside a bool it is an int64.
    dtype = np.dtype("int8") if of_python and beside_integer else value.dtype
    value, power = strong(value), strong(power)
    loop = loop_dtypes(np.ldexp, (dtype, power.dtype))
    if loop is None:
        got = f"{value.type}, {power.type}"
        if value.dtype.kind == "c" or power.dtype.kind not in "iu":
            raise graph_error("needs real numbers and integers", op="ldexp", got=got)
        hint = 'cast the exponents: exponents.astype("int32")'
        raise graph_error("no loop for these dtypes", op="ldexp", got=got, hint=hint)
    return _ldexp(cast(value, loop[0]), cast(power, loop[1]))


@public()
def modf(x: ArrayLike) -> tuple[Value, Value]:
    """Fractional and integral parts, both with the sign of `x`."""
    value = _floating(x, np.modf)
    whole = F.trunc(value)
    # Each difference has the sign of `value` where it is zero.
    part = F.where(F.signbit(value), -(whole - value), value - whole)
    return F.where(F.isinf(value), F.copysign(0.0, value), part), whole


@public()
def fix(x: ArrayLike) -> Value:
    """`x` rounded towards zero."""
    return F.trunc(x)


@public()
def fabs(x: ArrayLike) -> Value:
    """The absolute value as floating point."""
    return F.absolute(_floating(x, np.fabs))


@public()
def float_power(x: ArrayLike, y: ArrayLike) -> Value:
    """`x ** y` in at least float64."""
    values = as_value(x), as_value(y)
    complex_ = any(v.dtype.kind == "c" for v in values)
    to = np.dtype("complex128" if complex_ else "float64")
    return F.power(*(cast(v, to) for v in values))


@public()
def spacing(x: ArrayLike) -> Value:
    """The distance to the next number away from zero, with the sign of `x`.

    For float16, as in NumPy, it is the distance to the next number upwards.
    """
    value = _floating(x, np.spacing)
    if value.dtype.itemsize == 2:
        far = F.nextafter(value, np.inf) - value
        return F.where(F.isinf(value), np.nan, far)
    size = F.absolute(value)
    far = F.nextafter(size, np.inf) - size
    return F.where(value < 0, -far, far)


@public()
def isposinf(x: ArrayLike) -> Value:
    """Whether each element is positive infinity."""
    return F.logical_and(F.isinf(x), F.logical_not(F.signbit(x)))


@public()
def isneginf(x: ArrayLike) -> Value:
    """Whether each element is negative infinity."""
    return F.logical_and(F.isinf(x), F.signbit(x))


@public()
def isreal(x: ArrayLike) -> Value:
    """Whether the imaginary part of each element is zero."""
    return F.equal(imag(x), 0)


@public()
def iscomplex(x: ArrayLike) -> Value:
    """Whether the imaginary part of each element is not zero."""
    return F.not_equal(imag(x), 0)


@public()
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Value:
    """Replace NaN by `nan`, infinities by the largest finite numbers or as given.

    `copy` has no effect here, since values never change.
    """
    value = as_strong_value(x)
    if value.dtype.kind == "c":
        a, b = (
            nan_to_num(part, copy, nan, posinf, neginf)
            for part in (real(value), imag(value))
        )
        return from_parts(a, b)
    if not is_float(value.dtype):
        return value
    largest = _largest(value.dtype)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    finite = F.where(isposinf(value), high, F.where(isneginf(value), low, value))
    return F.where(F.isnan(value), nan, finite)


def _largest(dtype: DType) -> float:
    if dtype.name == "bfloat16":
        return 3.3895313892515355e38
    return float(np.finfo(dtype).max)


@public()
def isclose(
    x: ArrayLike,
    y: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether `abs(x - y) <= atol + rtol * abs(y)`; infinities equal themselves."""
    a, b = as_value(x), as_value(y)
    if b.type.weak:  # it keeps 64 bits until it meets an array
        b = cast(b, np.result_type(b.dtype, np.float64), True)
    else:
        b = cast(b, common_dtype([b, as_value(1.0)]))
    near = F.absolute(a - b) <= atol + rtol * F.absolute(b)
    close = F.logical_or(F.logical_and(near, F.isfinite(b)), F.equal(a, b))
    if equal_nan:
        return F.logical_or(close, F.logical_and(F.isnan(a), F.isnan(b)))
    return close


@public()
def allclose(
    x: ArrayLike,
    y: ArrayLike,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether all elements are close, in the sense of `isclose`."""
    return F.all(isclose(x, y, rtol, atol, equal_nan))


@public()
def array_equal(x: ArrayLike, y: ArrayLike, equal_nan: bool = False) -> Value:
    """Whether shapes and all elements are equal; False if the shapes differ."""
    a, b = as_strong_value(x), as_strong_value(y)
    sizes = list(zip(a.type.shape, b.type.shape, strict=False))
    if a.ndim != b.ndim or any(dims.equal(m, n) is False for m, n in sizes):
        return as_value(np.asarray(False))
    # Sizes that may differ are cut to the smaller one and compared as numbers.
    common = tuple(slice(size_value(dims.minimum(m, n))) for m, n in sizes)
    same = F.equal(a[common], b[common])
    if equal_nan and is_inexact(a.dtype) and is_inexact(b.dtype):
        both = F.logical_and(F.isnan(a[common]), F.isnan(b[common]))
        same = F.logical_or(same, both)
    holds = F.all(same)
    for m, n in sizes:
        if dims.equal(m, n) is None:
            holds = F.logical_and(holds, F.equal(size_value(m), size_value(n)))
    return holds


@public()
def sinc(x: ArrayLike) -> Value:
    """`sin(pi x) / (pi x)`, and 1 at 0."""
    value = as_strong_value(x)
    value = cast(value, common_dtype([value, as_value(1.0)]))
    y = value * np.pi
    near = F.absolute(y) < 1  # a series has accurate derivatives there
    square = F.square(F.where(near, y, 0.0))
    series: Any = 1.0
    for k in range(9, 0, -1):
        series = 1 - square / (2 * k * (2 * k + 1)) * series
    far = F.where(near, 1.0, y)
    return F.where(near, series, F.sin(far) / far)


@op()
def _bitwise_count(x: Array) -> TensorType:
    """The number of bits set in the absolute value, as uint8."""
    if x.dtype.kind not in "iu":
        raise type_error("needs integers")
    return TensorType(DTYPES["uint8"], x.type.shape)


_bitwise_count.emit(
    numpy="np.bitwise_count({x})",
    jax='jnp.bitwise_count({x}).astype("uint8")',
)
_bitwise_count.elementwise = True
ELEMENTS.define(_bitwise_count, np.bitwise_count)
_bitwise_count.no_gradient("its results are integers")


@op()
def _bits_as(x: Array, *, dtype: DType) -> TensorType:
    """The same bits as elements of another dtype of the same width."""
    if BOOL in (x.dtype, dtype) or x.dtype.itemsize != dtype.itemsize:
        raise type_error(f"needs numbers as wide as {dtype.name}")
    if "c" in (x.dtype.kind, dtype.kind):
        raise type_error("needs real numbers")
    return TensorType(dtype, x.type.shape)


_bits_as.emit(
    numpy="np.asarray({x}).view({dtype})",
    jax="jax.lax.bitcast_convert_type({x}, {dtype})",
)
_bits_as.views = views_of_inputs
_bits_as.elementwise = True
_bits_as.no_gradient("bits are not numbers")


@public()
def bits_as(x: ArrayLike, dtype: DTypeLike) -> Value:
    """The same bits as numbers of another dtype of the same width, like `x.view`."""
    return _bits_as(as_strong_value(x), dtype=dtype_of(dtype))


@public()
def i0(x: ArrayLike) -> Value:
    """The modified Bessel function of the first kind of order 0."""
    return F.special.i0(x)


@public()
def bitwise_count(x: ArrayLike) -> Value:
    """The number of bits set in the absolute value, as uint8."""
    value = as_strong_value(x)
    return _bitwise_count(cast(value, DTYPES["int8"]) if value.dtype == BOOL else value)
