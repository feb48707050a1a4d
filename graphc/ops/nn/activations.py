"""Neural networks (`gt.nn`): activation functions, softmax and its kin.

Names, arguments and defaults are those of `jax.nn`, and so are the results at NaN and
infinity, except that squareplus does not overflow. Integers are taken as float64,
except by identity, relu and hard_tanh, which keep them.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    normal_axes,
    normal_axis,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import FUNCTIONS, F, enroll, public
from graphc.ir.types import BOOL, FLOAT32, FLOAT64, INT64, DType, is_integer
from graphc.ops.common.axes import AxisArgument
from graphc.ops.common.broadcasting import common_dtype, promoted
from graphc.ops.common.signatures import taking_arrays

UnaryFunction = Callable[..., Value]


def as_real(x: ArrayLike, name: str) -> Value:
    """The argument as floats. Raises GraphError if it is complex."""
    value = as_value(x)
    if value.dtype.kind == "c":
        raise graph_error("needs real numbers", op=f"nn.{name}", got=str(value.type))
    if value.dtype.kind in "biu":
        return cast(value, config.float if value.type.weak else FLOAT64)
    return strong(value)


def as_weak_real(x: ArrayLike, name: str) -> Value:
    """The argument as by `as_real`, but a Python number still adapts to others."""
    value = as_value(x)
    adapts = value.type.weak and value.dtype.kind != "c"
    return value if adapts else as_real(value, name)


def widened(x: ArrayLike, name: str) -> tuple[Value, DType]:
    """The argument as floats of 32 bits or more, and the dtype of the result."""
    value = as_real(x, name)
    half = value.dtype.itemsize == 2
    return cast(value, FLOAT32) if half else value, value.dtype


def activation(function: UnaryFunction) -> UnaryFunction:
    """Decorator: enroll a function in `gt.nn` and pass its first argument as floats."""
    name = function.__name__

    def outer(x: ArrayLike, *args: ArrayLike, **named: ArrayLike) -> Value:
        return function(as_real(x, name), *args, **named)

    # Messages name the function that the user called, as its code does.
    outer.__code__ = outer.__code__.replace(co_name=name)
    public_function = wraps(function)(outer)
    taking_arrays(public_function, function)
    return enroll(public_function, f"nn.{name}")


@public(name="nn.relu")
def relu(x: ArrayLike) -> Value:
    """max(x, 0), with gradient 0 at 0; integers stay integers, bools become int64."""
    value = as_strong_value(x)
    value = cast(value, INT64) if value.dtype == BOOL else value
    return F.where(value <= 0, 0, value)


@activation
def relu6(x: Value) -> Value:
    """min(max(x, 0), 6), with gradient 0 at 0 and 6."""
    return F.where(x <= 0, 0.0, F.where(x >= 6, 6.0, x))


@activation
def leaky_relu(x: Value, negative_slope: Value | float = 0.01) -> Value:
    """x for x >= 0, else negative_slope x."""
    return F.where(x >= 0, x, negative_slope * x)


@activation
def elu(x: Value, alpha: Value | float = 1.0) -> Value:
    """x for x > 0, else alpha (exp(x) - 1)."""
    return F.where(x > 0, x, alpha * F.expm1(F.where(x > 0, 0.0, x)))


@activation
def selu(x: Value) -> Value:
    """The self-normalising elu: 1.0507 elu(x, 1.6733), to float64 precision."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


@activation
def celu(x: Value, alpha: Value | float = 1.0) -> Value:
    """max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1)."""
    return F.maximum(x, 0.0) + alpha * F.expm1(F.minimum(x, 0.0) / alpha)


@activation
def gelu(x: Value, approximate: bool = True) -> Value:
    """x times the normal distribution function of x; by tanh if `approximate`."""
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return x * sigmoid(2.0 * inner)  # (1 + tanh(inner)) / 2, accurate where small
    return 0.5 * x * F.special.erfc(-x * math.sqrt(0.5))


@activation
def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)), accurate where the result is small."""
    return F.special.expit(x)


@activation
def silu(x: Value) -> Value:
    """x sigmoid(x), also called swish."""
    return x * sigmoid(x)


@activation
def softplus(x: Value) -> Value:
    """log(1 + exp(x)), without overflow."""
    return F.logaddexp(x, 0.0)


@activation
def log_sigmoid(x: Value) -> Value:
    """log(sigmoid(x)), accurate on both sides."""
    return -softplus(-x)


@activation
def mish(x: Value) -> Value:
    """x tanh(softplus(x))."""
    return x * F.tanh(softplus(x))


@activation
def soft_sign(x: Value) -> Value:
    """x / (1 + |x|)."""
    return x / (F.absolute(x) + 1.0)


@public(name="nn.hard_tanh")
def hard_tanh(x: ArrayLike) -> Value:
    """x limited to -1 .. 1, with gradient 1 at these; integers stay integers."""
    value = as_strong_value(x)
    if value.dtype == BOOL:
        return cast(value, INT64)
    if not is_integer(value.dtype):
        value = as_real(value, "hard_tanh")
    low = value if value.dtype.kind == "u" else F.where(value < -1, -1, value)
    return F.where(value > 1, 1, low)


@activation
def hard_sigmoid(x: Value) -> Value:
    """relu6(x + 3) / 6."""
    return relu6(x + 3.0) / 6.0


@activation
def hard_silu(x: Value) -> Value:
    """x hard_sigmoid(x), also called hard_swish."""
    return x * hard_sigmoid(x)


@activation
def squareplus(x: Value, b: Value | float = 4.0) -> Value:
    """(x + sqrt(x^2 + b)) / 2 for b >= 0, without overflow or cancellation."""
    b = as_weak_real(b, "squareplus")
    size = F.maximum(x, -x)  # whose slope at 0 is 0
    total = size + F.hypot(size, F.sqrt(b))
    tiny = float(np.finfo(total.dtype).tiny)  # at x = b = 0
    return F.maximum(x, 0.0) + b / 2.0 / F.maximum(total, tiny)


@activation
def sparse_plus(x: Value) -> Value:
    """0 up to -1, (x + 1)^2 / 4 up to 1, and x beyond."""
    middle = (x + 1.0) * (x + 1.0) / 4.0
    return F.where(x <= -1, 0.0, F.where(x >= 1, x, middle))


@activation
def sparse_sigmoid(x: Value) -> Value:
    """(x + 1) / 2 limited to 0 .. 1."""
    return 0.5 * F.clip(x + 1.0, 0.0, 2.0)


@activation
def log1mexp(x: Value) -> Value:
    """log(1 - exp(-x)) for x > 0."""
    low = x < 1.25  # where XLA's log1p would lose digits: it does from -0.41 to -0.3
    near = F.log(-F.expm1(-F.where(low, x, 1.0)))
    return F.where(low, near, F.log1p(-F.exp(-F.where(low, 1.0, x))))


@activation
def glu(x: Value, axis: int = -1) -> Value:
    """The first half along `axis` times the sigmoid of the second.

    The size of `axis` must be even.
    """
    at = normal_axis(axis, x.type.rank, "nn.glu")
    shape, n = list(x.shape), x.type.shape[at]
    if isinstance(n, int) and n % 2:
        problem = f"the size {n} of axis {axis} is not even"
        raise graph_error(problem, op="nn.glu", got=str(x.type))
    shape[at : at + 1] = [2, shape[at] // 2]
    halves = F.reshape(x, shape)
    first, second = (F.take(halves, i, axis=at) for i in (0, 1))
    return first * sigmoid(second)


_ALIASES = {"swish": "silu", "hard_swish": "hard_silu"}
for _alias, _name in _ALIASES.items():
    enroll(FUNCTIONS[f"nn.{_name}"], f"nn.{_alias}")


@activation
def tanh(x: Value) -> Value:
    """The hyperbolic tangent."""
    return F.tanh(x)


@public(name="nn.identity")
def identity(x: ArrayLike) -> Value:
    """The array itself."""
    return as_value(x)


def _peak(x: Value, axes: tuple[int, ...]) -> Value:
    """The largest element, with `axes` kept at size 1; -inf if there is none."""
    sizes = [x.type.shape[a] for a in axes]
    some = all(isinstance(n, int) and n > 0 for n in sizes)
    start = None if some else -math.inf
    return F.max(x, axis=axes, keepdims=True, initial=start)


def _mask_out(x: Value, where: ArrayLike | None) -> tuple[Value, Value | None]:
    """`x` with -inf where the mask is False, and the mask."""
    if where is None:
        return x, None
    mask = cast(as_strong_value(where), BOOL)
    return F.where(mask, x, -math.inf), mask


def _where_masked(result: Value, mask: Value | None, fill: float) -> Value:
    return result if mask is None else F.where(mask, result, fill)


@public(name="nn.softmax")
def softmax(
    x: ArrayLike, axis: AxisArgument = -1, where: ArrayLike | None = None
) -> Value:
    """exp(x) over its sum along `axis` (an integer, a tuple, or None for all).

    Where the mask `where` is False, the result is 0 and the element does not count.
    Half precision is computed in float32. The result is NaN where all of a row is -inf.
    """
    value, dtype = widened(x, "softmax")
    value, mask = _mask_out(value, where)
    axes = normal_axes(axis, value.type.rank, "nn.softmax")
    weights = F.exp(value - F.stop_gradient(_peak(value, axes)))
    result = weights / F.sum(weights, axis=axes, keepdims=True)
    return cast(_where_masked(result, mask, 0.0), dtype)


@public(name="nn.log_softmax")
def log_softmax(
    x: ArrayLike, axis: AxisArgument = -1, where: ArrayLike | None = None
) -> Value:
    """log(softmax(x)), accurate where softmax is small; -inf where a mask is False."""
    value, dtype = widened(x, "log_softmax")
    value, mask = _mask_out(value, where)
    axes = normal_axes(axis, value.type.rank, "nn.log_softmax")
    shifted = value - F.stop_gradient(_peak(value, axes))
    total = F.sum(F.exp(shifted), axis=axes, keepdims=True)
    return cast(_where_masked(shifted - F.log(total), mask, -math.inf), dtype)


@public(name="nn.logsumexp")
def logsumexp(
    x: ArrayLike,
    axis: AxisArgument = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b exp(x))) along `axis` (all by default), without overflow.

    `b` are weights, which broadcast against `x`. With `return_sign`, the result is the
    logarithm of the absolute value of the sum, and the sign; without it, a negative sum
    gives NaN. Elements where the mask `where` is False do not count. The result for no
    elements is -inf.
    """
    value, dtype = widened(x, "logsumexp")
    weights = None
    if b is not None:
        weights = as_weak_real(b, "logsumexp")
        dtype = common_dtype([cast(value, dtype), weights])
        value, weights = promoted(value, weights)
        value = F.where(F.equal(weights, 0), -math.inf, value)
    value, _ = _mask_out(value, where)
    axes = normal_axes(axis, value.type.rank, "nn.logsumexp")
    peak = _peak(value, axes)
    peak = F.stop_gradient(F.where(F.isfinite(peak), peak, 0.0))  # it cancels
    terms = F.exp(value - peak)
    total = F.sum(terms if weights is None else weights * terms, axes, keepdims=True)
    if not keepdims:
        peak, total = F.squeeze(peak, axes), F.squeeze(total, axes)
    if return_sign:
        result = F.log(F.absolute(total)) + peak
        return cast(result, dtype), cast(F.sign(total), dtype)
    return cast(F.log(total) + peak, dtype)


@public(name="nn.logmeanexp")
def logmeanexp(
    x: ArrayLike,
    axis: AxisArgument = None,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Value:
    """log(mean(exp(x))) along `axis` (all by default), without overflow.

    Elements where the mask `where` is False do not count.
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = as_value(x).shape
    mask = F.ones(shape, "bool") if where is None else F.broadcast_to(where, shape)
    count = F.sum(mask, axis=axis, keepdims=keepdims)
    return total - F.log(cast(count, total.dtype))
