"""The elementwise ops that are NumPy's ufuncs, one row each, and their derivatives.

If the mathematics has no derivative, the choice is JAX's: at ties of `maximum` each
side gets half, and `absolute` has 1 at 0. Unlike in JAX, the derivatives of `hypot` at
0 are 0, and those of `logaddexp` are 1/2 if both sides are the same infinity.
"""

import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import (
    PRIMITIVES,
    Array,
    Cotangents,
    Emit,
    Printing,
    Rounding,
    TypeRule,
    Vjp,
    type_error,
    vjp_by_slope,
)
from graphc.ir.namespace import FUNCTIONS, F, enroll
from graphc.ir.sizes.dims import Size, maximum
from graphc.ir.sizes.truths import (
    at_most,
    both,
    either,
    is_truth,
    one_of,
    truth,
)
from graphc.ir.types import JaxArray, TensorType, is_integer
from graphc.ops.common.conditions import BOUNDS, BoundsRule, reporting
from graphc.ops.common.known_integers import (
    KnownSizes,
    by_item,
    by_numpy,
    maxima,
    minima,
)
from graphc.ops.elementwise.declare import elementwise, elementwise_rule
from graphc.ops.elementwise.of_complex import OF_COMPLEX
from graphc.ops.elementwise.powers import print_in_jax, print_in_numpy


def _power_size(x: Size, exponent: Size) -> Size | None:
    if isinstance(exponent, int) and 0 <= exponent <= MOST_POWER:
        return math.prod([x] * exponent)
    return None


def _shifted_size(x: Size, bits: Size, left: bool) -> Size | None:
    if not isinstance(bits, int) or not 0 <= bits < 63:
        return None
    return x * 2**bits if left else x // 2**bits


def _bitwise(
    function: Callable[[int, int], int], of_truths: Callable[[Size, Size], Size]
) -> Callable[..., KnownSizes]:
    """The rule for sizes of a bitwise op: both are numbers, or both are truths."""

    def rule(x: Size, y: Size) -> Size | None:
        if isinstance(x, int) and isinstance(y, int):
            return function(x, y)
        return of_truths(x, y) if is_truth(x) and is_truth(y) else None

    return by_item(rule, 2)


def _power_rule(x: Array, y: Array) -> TensorType:
    exponent = literal_of(y)
    if exponent is not None and is_integer(x.dtype) and (exponent < 0).any():
        hint = 'a negative power is not an integer: use x.astype("float64")'
        raise type_error("integers to negative integer powers", hint=hint)
    result_type = elementwise_rule(np.power)(x, y)
    assert isinstance(result_type, TensorType)
    return result_type


def floor_divide_jax(jnp: ModuleType, x: JaxArray, y: JaxArray) -> JaxArray:
    """Printed into JAX programs: `x // y` of integers, 0 where `y` is 0."""
    return jnp.where(y == 0, 0, x // y)


def _print_floor_divide(p: Printing) -> str:
    divisor = literal_of(p.node.inputs[1])
    safe = divisor is not None and divisor.all()
    if safe or not is_integer(p.node.outputs[0].dtype):
        return "{} // {}".format(*p.inputs)
    return p.call(floor_divide_jax, "jnp", *p.inputs)


def _print_reciprocal(p: Printing) -> str:
    (x,) = p.inputs
    if is_integer(p.node.outputs[0].dtype):
        return f"jax.lax.div(jnp.ones_like({x}), {x})"
    return f"jnp.reciprocal({x})"


def gcd_jax(jax: ModuleType, x: JaxArray, y: JaxArray) -> JaxArray:
    """Printed into JAX programs: the gcd; the loop ends for the least integer too."""
    jnp = jax.numpy

    def step(pair: tuple[JaxArray, JaxArray]) -> tuple[JaxArray, JaxArray]:
        a, b = pair
        remainder = jax.lax.rem(a, jnp.where(b == 0, jnp.ones_like(b), b))
        return jnp.where(b == 0, a, b), jnp.where(b == 0, b, remainder)

    pair = tuple(jnp.broadcast_arrays(x, y))
    return jnp.abs(jax.lax.while_loop(lambda p: jnp.any(p[1] != 0), step, pair)[0])


def lcm_jax(
    jax: ModuleType, gcd: Callable[..., JaxArray], x: JaxArray, y: JaxArray
) -> JaxArray:
    """Printed into JAX programs."""
    jnp = jax.numpy
    x, y = jnp.broadcast_arrays(x, y)
    shared = gcd(jax, x, y)
    safe = jnp.where(shared == 0, jnp.ones_like(shared), shared)
    return jnp.abs(jax.lax.div(x, safe)) * jnp.abs(y)


def _print_gcd(p: Printing) -> str:
    return p.call(gcd_jax, "jax", *p.inputs)


def _print_lcm(p: Printing) -> str:
    gcd = p.helper(gcd_jax)
    return p.call(lcm_jax, "jax", gcd, *p.inputs)


MOST_POWER = 8  # the largest power of a size that is written as a product


def _vjp_by_divisor(divisor: Callable[[Value], Value]) -> Vjp:
    """The vjp of a function of one number whose derivative is one over `divisor`."""
    return lambda g, x: (g / divisor(x),)


def _vjp_zero(g: Value, *inputs: Value) -> Cotangents:
    """The vjp of a function that is constant almost everywhere."""
    return (None,) * len(inputs)


def _only_where(keep: Value, g: Value) -> Value:
    return F.where(keep, g, F.zeros_like(g))


def _one_minus_square(x: Value) -> Value:
    """1 - x**2 without cancellation near 1."""
    return (1 - x) * (1 + x)


def _vjp_absolute(g: Value, x: Value) -> Cotangents:
    if x.dtype.kind != "c":
        return (F.where(x >= 0, g, -g),)
    size = F.absolute(x)
    return (g * F.conjugate(x) / F.where(size == 0, 1, size),)


def _vjp_sign(g: Value, x: Value) -> Cotangents:
    if x.dtype.kind != "c":
        return (None,)
    turned = F.conjugate(F.sign(x))  # only what turns the number changes its sign
    along = F.real(g / F.where(x == 0, 1, turned)) * turned
    return (_only_where(x != 0, (g - along) / F.where(x == 0, 1, F.absolute(x))),)


def _vjp_arccosh(g: Value, x: Value) -> Cotangents:
    return (g / (F.sqrt(x - 1) * F.sqrt(x + 1)),)  # on the branch of complex numbers


def _vjp_power(g: Value, x: Value, y: Value) -> Cotangents:
    exponent = literal_of(y)
    if exponent is not None and exponent.ndim == 0:
        if exponent == 0:
            return None, None
        less = x if exponent == 2 else x ** (exponent - 1)[()]
        return g * (exponent[()] * less), None
    lost = F.logical_and(y == 0, F.square(x) == 0)  # there x**-1 may overflow
    slope = y * F.where(lost, 1, x) ** (y - 1)
    base = F.where(x == 0, 1, x)
    return g * slope, g * (x**y * F.log(base))


def _vjp_true_divide(g: Value, x: Value, y: Value) -> Cotangents:
    return g / y, -g * (x / y) / y


def _vjp_remainder(g: Value, x: Value, y: Value) -> Cotangents:
    quotient = F.floor_divide(x, y)  # right even if x / y rounds to an integer
    return g, -g * F.where(F.isfinite(x), quotient, F.floor(x / y))


def _vjp_fmod(g: Value, x: Value, y: Value) -> Cotangents:
    return g, -g * F.trunc(x / y)


def _vjp_larger(larger: Callable[[Value, Value], Value]) -> Vjp:
    def rule(g: Value, x: Value, y: Value) -> Cotangents:
        tied = _only_where(x == y, 0.5 * g)
        return F.where(larger(x, y), g, tied), F.where(larger(y, x), g, tied)

    return rule


def _vjp_larger_number(larger: Callable[[Value, Value], Value]) -> Vjp:
    def rule(g: Value, x: Value, y: Value) -> Cotangents:
        first = F.logical_or(larger(x, y), F.isnan(y))
        return _only_where(first, g), _only_where(F.logical_not(first), g)

    return rule


def _vjp_arctan2(g: Value, x: Value, y: Value) -> Cotangents:
    scale = g / (x * x + y * y)
    return scale * y, -scale * x


def _vjp_hypot(g: Value, x: Value, y: Value) -> Cotangents:
    size = F.hypot(x, y)
    scale = g / F.where(size == 0, 1, size)
    return scale * x, scale * y


def _vjp_logaddexp(name: str, power: str) -> Vjp:
    def rule(g: Value, x: Value, y: Value) -> Cotangents:
        total = FUNCTIONS[name](x, y)

        def share(part: Value) -> Value:
            all_of_it = F.where(part == total, 0, part - total)  # infinite ones too
            return F.where(x == y, 0.5, FUNCTIONS[power](all_of_it))

        return g * share(x), g * share(y)

    return rule


def _vjp_copysign(g: Value, x: Value, y: Value) -> Cotangents:
    return F.where(F.signbit(x) == F.signbit(y), g, -g), None


def _vjp_heaviside(g: Value, x: Value, y: Value) -> Cotangents:
    return None, _only_where(x == 0, g)


# Rules look functions up late: `F` has them only once all rows are enrolled.
_VJP: dict[str, Vjp] = {
    "add": lambda g, x, y: (g, g),
    "subtract": lambda g, x, y: (g, -g),
    "multiply": lambda g, x, y: (g * y, g * x),
    "true_divide": _vjp_true_divide,
    "floor_divide": _vjp_zero,
    "remainder": _vjp_remainder,
    "power": _vjp_power,
    "minimum": _vjp_larger(operator.lt),
    "maximum": _vjp_larger(operator.gt),
    "negative": lambda g, x: (-g,),
    "positive": lambda g, x: (g,),
    "absolute": _vjp_absolute,
    "sign": _vjp_sign,
    "square": vjp_by_slope(lambda x: 2 * x),
    "sqrt": _vjp_by_divisor(lambda x: 2 * F.sqrt(x)),
    "cbrt": _vjp_by_divisor(lambda x: 3 * F.square(F.cbrt(x))),
    "reciprocal": vjp_by_slope(lambda x: -F.square(F.reciprocal(x))),
    "exp": vjp_by_slope(lambda x: F.exp(x)),
    "exp2": vjp_by_slope(lambda x: math.log(2) * F.exp2(x)),
    "expm1": vjp_by_slope(lambda x: F.expm1(x) + 1),
    "log": _vjp_by_divisor(lambda x: x),
    "log2": _vjp_by_divisor(lambda x: math.log(2) * x),
    "log10": _vjp_by_divisor(lambda x: math.log(10) * x),
    "log1p": _vjp_by_divisor(lambda x: 1 + x),
    "sin": vjp_by_slope(lambda x: F.cos(x)),
    "cos": vjp_by_slope(lambda x: -F.sin(x)),
    "tan": vjp_by_slope(lambda x: 1 + F.square(F.tan(x))),
    "arcsin": _vjp_by_divisor(lambda x: F.sqrt(_one_minus_square(x))),
    "arccos": _vjp_by_divisor(lambda x: -F.sqrt(_one_minus_square(x))),
    "arctan": _vjp_by_divisor(lambda x: 1 + F.square(x)),
    "sinh": vjp_by_slope(lambda x: F.cosh(x)),
    "cosh": vjp_by_slope(lambda x: F.sinh(x)),
    "tanh": vjp_by_slope(lambda x: _one_minus_square(F.tanh(x))),
    "arcsinh": _vjp_by_divisor(lambda x: F.sqrt(1 + F.square(x))),
    "arccosh": _vjp_arccosh,
    "arctanh": _vjp_by_divisor(_one_minus_square),
    "deg2rad": lambda g, x: (F.deg2rad(g),),
    "rad2deg": lambda g, x: (F.rad2deg(g),),
    "floor": _vjp_zero,
    "ceil": _vjp_zero,
    "trunc": _vjp_zero,
    "rint": _vjp_zero,
    "conjugate": lambda g, x: (F.conjugate(g),),
    "arctan2": _vjp_arctan2,
    "hypot": _vjp_hypot,
    "fmin": _vjp_larger_number(operator.lt),
    "fmax": _vjp_larger_number(operator.gt),
    "fmod": _vjp_fmod,
    "logaddexp": _vjp_logaddexp("logaddexp", "exp"),
    "logaddexp2": _vjp_logaddexp("logaddexp2", "exp2"),
    "copysign": _vjp_copysign,
    "nextafter": lambda g, x, y: (g, None),
    "heaviside": _vjp_heaviside,
}
_LINEAR = {"add", "subtract", "negative", "positive", "conjugate", "deg2rad", "rad2deg"}
_WRAPS = {
    *("add", "subtract", "multiply", "negative", "floor_divide", "power", "square"),
    *("absolute", "invert", "left_shift"),
}
_PICKS = frozenset({  # their derivatives jump
    *("minimum", "maximum", "fmin", "fmax", "absolute", "sign", "copysign"),
    *("remainder", "fmod", "heaviside"),
})  # fmt: skip
_JUMPS = frozenset(["floor", "ceil", "trunc", "rint", "sign", "heaviside"]) | {
    *("floor_divide", "remainder", "fmod")
}
_EXACT = frozenset({
    *("negative", "positive", "absolute", "conjugate", "copysign", "sign", "fmax"),
    *("fmin", "maximum", "minimum", "rint", "floor", "ceil", "trunc"),
})  # fmt: skip
_ROUNDED_ONCE = frozenset(("add", "subtract", "multiply", "true_divide"))


def _rounding(name: str) -> Rounding:
    if name in _EXACT:
        return "none"
    return "once" if name in _ROUNDED_ONCE else "many"


def _numerics(name: str) -> dict[str, Any]:
    """The derivative and rounding traits of an op, as the tables above declare them."""
    rule = _VJP.get(name)
    return {
        "vjp": rule,
        "no_gradient": "" if rule else "its results are bools or integers",
        "linear": name in _LINEAR,
        "picks": name in _PICKS,
        "jumps": name in _JUMPS,
        "wraps": name in _WRAPS,
        "rounding": _rounding(name),
    }


_RULES: dict[str, TypeRule] = {"power": _power_rule}
_IN_JAX: dict[str, Emit] = {
    "floor_divide": _print_floor_divide,
    "power": print_in_jax,
    "reciprocal": _print_reciprocal,
    "gcd": _print_gcd,
    "lcm": _print_lcm,
    **OF_COMPLEX,
}
_ARITHMETIC: dict[str, tuple[str, Callable[..., Any] | None]] = {
    "add": ("{x} + {y}", operator.add),
    "subtract": ("{x} - {y}", operator.sub),
    "multiply": ("{x} * {y}", operator.mul),
    "true_divide": ("{x} / {y}", None),
    "floor_divide": ("{x} // {y}", operator.floordiv),
    "remainder": ("{x} % {y}", operator.mod),
    "power": ("{x} ** {y}", by_item(_power_size, 2)),
    "minimum": ("{xp}.minimum({x}, {y})", minima),
    "maximum": ("{xp}.maximum({x}, {y})", maxima),
    "negative": ("-{x}", operator.neg),
    "positive": ("+{x}", lambda x: x),
}
for _name, (_text, _sizes) in _ARITHMETIC.items():
    elementwise(
        _name,
        _text,
        getattr(np, _name),
        rule=_RULES.get(_name),
        jax=_IN_JAX.get(_name),
        sizes=_sizes,
        **_numerics(_name),
    )

PRIMITIVES["power"].emit(numpy=print_in_numpy)

_BITWISE: dict[str, tuple[str, Callable[..., KnownSizes]]] = {
    "bitwise_and": ("{x} & {y}", _bitwise(operator.and_, both)),
    "bitwise_or": ("{x} | {y}", _bitwise(operator.or_, either)),
    "bitwise_xor": ("{x} ^ {y}", _bitwise(operator.xor, one_of)),
    "left_shift": ("{x} << {y}", by_item(lambda x, n: _shifted_size(x, n, True), 2)),
    "right_shift": ("{x} >> {y}", by_item(lambda x, n: _shifted_size(x, n, False), 2)),
    "invert": ("~{x}", lambda x: -1 - x),
}
for _name, (_text, _sizes) in _BITWISE.items():
    elementwise(
        _name,
        _text,
        getattr(np, _name),
        sizes=_sizes,
        **_numerics(_name),
    )

_SAME_NAME = (
    "absolute", "sign", "square", "sqrt", "cbrt", "reciprocal", "exp", "exp2", "expm1",
    "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg",
    "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit",
    "logical_not", "conjugate", "logical_and", "logical_or", "logical_xor", "arctan2",
    "hypot", "fmin", "fmax", "fmod", "logaddexp", "logaddexp2", "copysign", "nextafter",
    "heaviside", "gcd", "lcm"
)
_KNOWN: dict[str, Callable[..., KnownSizes]] = {
    "absolute": by_item(lambda x: maximum(x, -x), 1),
    "sign": by_item(lambda x: at_most(1, x) - at_most(x, -1), 1),
    "square": lambda x: x * x,
    "logical_not": by_item(lambda x: 1 - truth(x), 1),
    "logical_and": by_item(both, 2),
    "logical_or": by_item(either, 2),
    "logical_xor": by_item(one_of, 2),
    "conjugate": lambda x: x,
    "gcd": by_numpy(np.gcd),
    "lcm": by_numpy(np.lcm),
}
_METHODS = {"conjugate"}
for _name in _SAME_NAME:
    _ufunc = getattr(np, _name)
    _call = "{x}" if _ufunc.nin == 1 else "{x}, {y}"
    elementwise(
        _name,
        f"{{xp}}.{_name}({_call})",
        _ufunc,
        jax=_IN_JAX.get(_name),
        sizes=_KNOWN.get(_name),
        method=_name in _METHODS,
        **_numerics(_name),
    )
for _name in ("gcd", "lcm"):  # their loops need arrays
    PRIMITIVES[_name].literals = "never"


def _power_checks(node: Node) -> list[tuple[Value, str]]:
    exponent = node.inputs[1]
    if exponent.dtype.kind != "i" or literal_of(exponent) is not None:
        return []
    report = reporting(exponent < 0, exponent)
    return [(report, "power: a negative power of an integer is not an integer: {}")]


BOUNDS.define(PRIMITIVES["power"], BoundsRule(_power_checks, "range"))

_ALIASES = {
    "abs": "absolute",
    "degrees": "rad2deg",
    "divide": "true_divide",
    "mod": "remainder",
    "conj": "conjugate",
    "pow": "power",
    "radians": "deg2rad",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_not": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}
for _alias, _name in _ALIASES.items():
    enroll(FUNCTIONS[_name], _alias, method=_name in _METHODS)


