"""Derivatives of the special functions, as rules that their primitives take by name.

Formulas are those of the DLMF. They agree with `jax.grad`, except where that gives NaN
for a finite derivative or is not right: `spence` at 1 and outside, `erfcinv` and
`ndtri` at the ends, `i0` at 0, `xlogy` and `xlog1py` where both factors are 0, the
incomplete gamma functions at 0 and inf, and where terms cancel in `i1`, `i1e`, `j1` and
`erfcx`.
"""

import math
from collections.abc import Callable
from typing import Any

from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Cotangents, Vjp, vjp_by_slope
from graphc.ir.namespace import FUNCTIONS, F

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _vjp_of_last(derivative: Callable[..., Value]) -> Vjp:
    """The rule of a function that has a derivative in its last argument alone."""
    return lambda g, *inputs: (None,) * (len(inputs) - 1) + (g * derivative(*inputs),)


def _polynomial(x: Value, coefficients: list[float]) -> Value:
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return F.add(total, 0.0)


def _erf(x: Value) -> Value:
    return TWO_OVER_ROOT_PI * F.exp(-x * x)


def _erfcx(x: Value) -> Value:
    """2 x erfcx(x) - 2 / sqrt(pi); where that cancels, its expansion (DLMF 7.12.1)."""
    far = x > (50 if x.dtype.itemsize == 8 else 10)
    near = 2.0 * x * F.special.erfcx(x) - TWO_OVER_ROOT_PI
    t = 1 / F.square(F.where(far, x, 1.0))
    terms = _polynomial(t, [1.0, -1.5, 3.75, -13.125, 59.0625])
    return F.where(far, -0.5 * TWO_OVER_ROOT_PI * t * terms, near)


def _spence(x: Value) -> Value:
    """log(x) / (1 - x), by a series around 1."""
    near = F.absolute(x - 1) < 0.2
    inside = F.where(near, x, 1.0)
    w = (inside - 1) / (inside + 1)
    series = _polynomial(w * w, [1 / (2 * k + 1) for k in range(10)])
    outside = F.where(near, 2.0, x)
    return F.where(near, -2 / (inside + 1) * series, F.log(outside) / (1 - outside))


def _order_one(x: Value, sign: int, zero: Value, one: Value) -> Value:
    """zero - one / x, for the Bessel functions of order 0 and 1; a series near 0.

    This is I_1'(x) for the sign 1 and J_1'(x) for -1 (DLMF 10.25.2, 10.2.2).
    """
    near = F.absolute(x) < 1
    terms, term = [0.5], 0.5  # the terms of I_1(x) / x, times 2 k + 1
    for k in range(1, 10):
        term *= sign / (4 * k * (k + 1))
        terms.append((2 * k + 1) * term)
    series = _polynomial(F.square(F.where(near, x, 0.0)), terms)
    return F.where(near, series, zero - one / F.where(near, 1.0, x))


def _i1(x: Value) -> Value:
    return _order_one(x, 1, F.special.i0(x), F.special.i1(x))


def _i1e(x: Value) -> Value:
    scale = F.exp(-F.absolute(x))
    near = F.absolute(x) < 1
    inner = F.where(near, x, 0.0)
    series = F.where(near, scale, 1.0) * _order_one(inner, 1, inner, inner)
    outer = F.where(near, 1.0, x)
    far = F.special.i0e(outer) - F.special.i1e(outer) / outer
    return F.where(near, series, far) - F.sign(x) * F.special.i1e(x)


def _j1(x: Value) -> Value:
    return _order_one(x, -1, F.special.j0(x), F.special.j1(x))


def _k1e(x: Value) -> Value:
    return F.special.k1e(x) * (1 - 1 / x) - F.special.k0e(x)


def _betaln(g: Value, a: Value, b: Value) -> Cotangents:
    both = F.special.digamma(a + b)
    return g * (F.special.digamma(a) - both), g * (F.special.digamma(b) - both)


def _beta(g: Value, a: Value, b: Value) -> Cotangents:
    return _betaln(g * F.special.beta(a, b), a, b)


def _betainc(a: Value, b: Value, x: Value) -> Value:
    powers = F.special.xlogy(a - 1, x) + F.special.xlog1py(b - 1, -x)
    return F.exp(powers - F.special.betaln(a, b))


def _gamma_density(a: Value, x: Value) -> Value:
    far = F.logical_or(F.equal(a, math.inf), F.equal(x, math.inf))
    finite = F.logical_not(far)
    a, x = F.where(finite, a, 1.0), F.where(finite, x, 1.0)
    density = F.exp(F.special.xlogy(a - 1, x) - x - F.special.gammaln(a))
    return F.where(finite, density, 0.0)


def _owens_t(g: Value, h: Value, a: Value) -> Cotangents:
    """The derivatives by D. Owen (1980), A table of normal integrals, 2.3 and 2.4."""
    bell, product = F.exp(-0.5 * h * h), F.where(a == 0, 0.0, h * a)
    of_h = F.special.erf(product * math.sqrt(0.5)) * bell
    of_a = bell * F.exp(-0.5 * F.square(product)) / (2 * math.pi * (1 + a * a))
    return g * (of_h * (-0.5 / math.sqrt(2 * math.pi))), g * of_a


def _xlog(log: str, singular: float, shift: float) -> Vjp:
    """The rule of x log(y + shift), whose logarithm is -inf at y = `singular`."""

    def rule(g: Value, x: Value, y: Value) -> Cotangents:
        safe = F.where(F.logical_and(x == 0, y == singular), singular + 1.0, y)
        return g * FUNCTIONS[log](y), g * (x / (safe + shift))

    return rule


def _recurrence(
    name: str, scale: float, above: float, middle: Callable[..., object] | None = None
) -> Vjp:
    """The rule of a Bessel function B of order v: DLMF 10.6.1, 10.29.1.

    The derivative is scale (B(v - 1, x) + above B(v + 1, x)) + middle(x) B(v, x).
    """

    def slope(v: Value, x: Value) -> Value:
        function = getattr(F.special, name)
        around = scale * (function(v - 1, x) + above * function(v + 1, x))
        return around + middle(x) * function(v, x) if middle else around

    return _vjp_of_last(slope)


def of_integer_order(name: str, n: int, next_one: Value, x: Value) -> Value:
    """The derivative of `jn`, `yn` or `kn`, given the function of the next order."""
    previous = getattr(F.special, name)(n - 1, x)
    if name == "kn":
        return -0.5 * (previous + next_one)
    return 0.5 * (previous - next_one)


VJP: dict[str, Vjp] = {
    "erf": vjp_by_slope(_erf),
    "erfc": vjp_by_slope(lambda x: -_erf(x)),
    "erfcx": vjp_by_slope(_erfcx),
    "erfinv": vjp_by_slope(
        lambda x: F.exp(F.square(F.special.erfinv(x))) / TWO_OVER_ROOT_PI
    ),
    "erfcinv": vjp_by_slope(
        lambda x: -F.exp(F.square(F.special.erfcinv(x))) / TWO_OVER_ROOT_PI
    ),
    "ndtr": vjp_by_slope(lambda x: F.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)),
    "ndtri": vjp_by_slope(
        lambda x: math.sqrt(2 * math.pi) * F.exp(0.5 * F.square(F.special.ndtri(x)))
    ),
    "expit": vjp_by_slope(lambda x: F.special.expit(x) * F.special.expit(-x)),
    "logit": lambda g, x: (g / (x * (1 - x)),),
    "gammaln": vjp_by_slope(lambda x: F.special.digamma(x)),
    "gamma": vjp_by_slope(lambda x: F.special.gamma(x) * F.special.digamma(x)),
    "gammasgn": lambda g, x: (None,),
    "digamma": vjp_by_slope(lambda x: F.special.polygamma(1, x)),
    "betaln": _betaln,
    "beta": _beta,
    "betainc": _vjp_of_last(_betainc),
    "gammainc": _vjp_of_last(_gamma_density),
    "gammaincc": _vjp_of_last(lambda a, x: -_gamma_density(a, x)),
    "betaincinv": _vjp_of_last(
        lambda a, b, y: 1 / _betainc(a, b, F.special.betaincinv(a, b, y))
    ),
    "gammaincinv": _vjp_of_last(
        lambda a, y: 1 / _gamma_density(a, F.special.gammaincinv(a, y))
    ),
    "gammainccinv": _vjp_of_last(
        lambda a, y: -1 / _gamma_density(a, F.special.gammainccinv(a, y))
    ),
    "owens_t": _owens_t,
    "hyp2f1": _vjp_of_last(  # DLMF 15.5.1
        lambda a, b, c, x: a * b / c * F.special.hyp2f1(a + 1, b + 1, c + 1, x)
    ),
    "zeta": _vjp_of_last(lambda x, q: -x * F.special.zeta(x + 1, q)),
    "spence": vjp_by_slope(_spence),
    "xlogy": _xlog("log", 0.0, 0.0),
    "xlog1py": _xlog("log1p", -1.0, 1.0),
    "i0": vjp_by_slope(lambda x: F.special.i1(x)),
    "i0e": vjp_by_slope(lambda x: F.special.i1e(x) - F.sign(x) * F.special.i0e(x)),
    "i1": vjp_by_slope(_i1),
    "i1e": vjp_by_slope(_i1e),
    "j0": vjp_by_slope(lambda x: -F.special.j1(x)),
    "j1": vjp_by_slope(_j1),
    "y0": vjp_by_slope(lambda x: -F.special.y1(x)),
    "y1": vjp_by_slope(lambda x: F.special.y0(x) - F.special.y1(x) / x),
    "k0": vjp_by_slope(lambda x: -F.special.k1(x)),
    "k1": vjp_by_slope(lambda x: -F.special.k0(x) - F.special.k1(x) / x),
    "k0e": vjp_by_slope(lambda x: F.special.k0e(x) - F.special.k1e(x)),
    "k1e": vjp_by_slope(_k1e),
    "jv": _recurrence("jv", 0.5, -1.0),
    "yv": _recurrence("yv", 0.5, -1.0),
    "iv": _recurrence("iv", 0.5, 1.0),
    "ive": _recurrence("ive", 0.5, 1.0, lambda x: -F.sign(x)),
    "kv": _recurrence("kv", -0.5, 1.0),
    "kve": _recurrence("kve", -0.5, 1.0, lambda x: 1.0),
}
_OF_ORDER = "there is no formula for the derivative in the order"
_OF_SHAPE = "there is no formula for the derivative in a parameter"
NOT_FOR: dict[str, dict[str, str]] = {
    "betainc": {"x": _OF_SHAPE, "y": _OF_SHAPE},
    "gammainc": {"x": _OF_SHAPE},
    "gammaincc": {"x": _OF_SHAPE},
    "betaincinv": {"x": _OF_SHAPE, "y": _OF_SHAPE},
    "gammaincinv": {"x": _OF_SHAPE},
    "hyp2f1": {"w": _OF_SHAPE, "x": _OF_SHAPE, "y": _OF_SHAPE},
    "gammainccinv": {"x": _OF_SHAPE},
    "zeta": {"x": "the derivative is known only in q"},
    **{name: {"x": _OF_ORDER} for name in ("jv", "yv", "iv", "ive", "kv", "kve")},
}
REFUSED = {"riemann_zeta": "there is no formula for the derivative of Riemann's zeta"}
