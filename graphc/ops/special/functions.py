"""Special functions (`gt.special`), with SciPy's names and order of arguments.

They take real numbers, broadcast, and compute in float32 or float64: integers become
floats as under NumPy's float ufuncs, float16 and bfloat16 are computed in float32 and
rounded once. NumPy programs call `scipy.special`, JAX programs `jax.scipy.special` or
functions defined here, and each is as accurate as its library: mostly to a few units in
the last place. On JAX, gamma functions are accurate relative to 1 (gammaln, digamma) or
to their logarithm (gamma, beta), the incomplete ones to about a thousand units, and
subnormal numbers are flushed to zero. Where a function is limited, its text says so.
"""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Emit, Primitive, Printing, TypeRule, type_error
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import Param
from graphc.ir.types import FLOAT32, FLOAT64, DType, TensorType, is_integer
from graphc.ops.common.broadcasting import broadcast, common_dtype, loop_dtypes
from graphc.ops.common.signatures import taking_arrays
from graphc.ops.special.gradients import NOT_FOR, REFUSED, VJP
from graphc.ops.special.series import (
    beta_sign,
    erfcx_series,
    incomplete_gamma,
    log_beta,
    riemann_zeta,
)

IMPORTS = {"numpy": "scipy.special", "jax": "jax.scipy.special"}
SpecialFunction = Callable[..., Value]


def result_type(*inputs: Value) -> TensorType:
    """The type rule of special functions: one dtype, float32 or float64."""
    dtype = inputs[0].dtype
    if dtype not in (FLOAT32, FLOAT64) or any(v.dtype != dtype for v in inputs):
        raise type_error("needs inputs of one dtype, float32 or float64")
    weak = all(v.type.weak for v in inputs)
    return TensorType(dtype, broadcast(*(v.type.shape for v in inputs)), weak)


def _unary(x: Array) -> TensorType:
    return result_type(x)


def _binary(x: Array, y: Array) -> TensorType:
    return result_type(x, y)


def _ternary(x: Array, y: Array, z: Array) -> TensorType:
    return result_type(x, y, z)


def _quaternary(w: Array, x: Array, y: Array, z: Array) -> TensorType:
    return result_type(w, x, y, z)


_RULES: tuple[TypeRule, ...] = (_unary, _binary, _ternary, _quaternary)
_CALLS = ("({x})", "({x}, {y})", "({x}, {y}, {z})", "({w}, {x}, {y}, {z})")


def declare(
    name: str,
    arity: int,
    doc: str,
    *,
    numpy: str | None = None,
    jax: str | Emit | None = None,
    refused: str = "",
) -> Primitive:
    """Declare a primitive that both libraries compute, by default under its name."""
    # Some of SciPy's functions take a Python number beside a float32 as a float64.
    literals: Literal["never", "beside"] = "beside" if arity == 1 else "never"
    primitive = Primitive(name, _RULES[arity - 1], literals=literals)
    primitive.__doc__ = doc
    primitive.imports = dict(IMPORTS)
    primitive.elementwise = True
    primitive.no_gradient_for = NOT_FOR.get(name, {})
    if name in VJP:
        primitive.vjp(VJP[name])
    if name in REFUSED:
        primitive.no_gradient(REFUSED[name])
    call = f"scipy.special.{name}{_CALLS[arity - 1]}"
    primitive.emit(numpy=numpy or call)
    if refused:
        return primitive.refuse("jax", refused)
    return primitive.emit(jax=jax or f"jax.{call}")


def special(
    name: str, arity: int, doc: str, *, jax: str | Emit | None = None, refused: str = ""
) -> SpecialFunction:
    """Declare a special function: its primitive and its public function."""
    primitive = declare(name, arity, doc, jax=jax, refused=refused)

    def unary(x: ArrayLike, /) -> Value:
        return on_floats(primitive, x)

    def binary(x: ArrayLike, y: ArrayLike, /) -> Value:
        return on_floats(primitive, x, y)

    def ternary(x: ArrayLike, y: ArrayLike, z: ArrayLike, /) -> Value:
        return on_floats(primitive, x, y, z)

    def quaternary(w: ArrayLike, x: ArrayLike, y: ArrayLike, z: ArrayLike, /) -> Value:
        return on_floats(primitive, w, x, y, z)

    function: Any = (unary, binary, ternary, quaternary)[arity - 1]
    joined: SpecialFunction = public(name=f"special.{name}", doc=doc)(function)
    return joined


def float_loop(values: list[Value], name: str) -> tuple[DType, bool]:
    """The float dtype that NumPy would compute in; whether all are Python numbers."""
    if any(v.dtype.kind == "c" for v in values):
        got = ", ".join(str(v.type) for v in values)
        raise graph_error("needs real numbers", op=f"special.{name}", got=got)
    if all(v.type.weak for v in values):
        return FLOAT64, True
    loop = loop_dtypes(np.exp, (common_dtype(values),))
    assert loop is not None
    return loop[-1], False


def on_floats(rule: Any, *args: ArrayLike, name: str = "", **params: Param) -> Value:
    """Apply `rule` to the arguments as floats; Python numbers alone give a weak one.

    Half precision is computed in float32 and rounded at the end.
    """
    values = [as_value(a) for a in args]
    dtype, weak = float_loop(values, name or rule.name)
    work = FLOAT32 if dtype.itemsize == 2 else dtype
    weak_inputs = weak and isinstance(rule, Primitive)
    result: Value = rule(*(cast(v, work, weak_inputs) for v in values), **params)
    return cast(result, dtype, weak)


def composed(function: SpecialFunction) -> SpecialFunction:
    """Declare a special function composed of others, on floats of one dtype."""
    name = function.__name__

    @wraps(function)
    def outer(*args: ArrayLike) -> Value:
        return on_floats(function, *args, name=name)

    taking_arrays(outer, function)
    return enroll(outer, f"special.{name}")


ROWS: dict[str, tuple[int, str]] = {
    "erf": (1, "The error function: 2/sqrt(pi) times the integral of exp(-t^2)."),
    "erfc": (1, "1 - erf(x), accurate where it is small."),
    "erfinv": (1, "The inverse of the error function."),
    "gammaln": (1, "log|gamma(x)|; at -inf, -inf on NumPy and inf on JAX."),
    "gamma": (1, "The gamma function; on JAX by its logarithm."),
    "gammasgn": (1, "The sign of the gamma function; NaN at its poles below 0."),
    "betainc": (3, "The regularised incomplete beta function I_x(a, b)."),
    "i0": (1, "The modified Bessel function of the first kind of order 0."),
    "i0e": (1, "exp(-|x|) i0(x)."),
    "i1": (1, "The modified Bessel function of the first kind of order 1."),
    "i1e": (1, "exp(-|x|) i1(x)."),
    "ndtr": (1, "The distribution function of the standard normal distribution."),
    "ndtri": (1, "The inverse of ndtr."),
    "expit": (1, "The logistic function 1 / (1 + exp(-x))."),
    "logit": (1, "log(x / (1 - x)), the inverse of expit."),
    "xlogy": (2, "x log(y), and 0 where x is 0 unless y is NaN."),
    "xlog1py": (2, "x log(1 + y), and 0 where x is 0 unless y is NaN."),
    "spence": (1, "The dilogarithm: the integral of log(t) / (1 - t) from 1 to x."),
}
for _name, _row in ROWS.items():
    special(_name, *_row)

digamma: SpecialFunction = special(
    "digamma",
    1,
    "The derivative of gammaln.",
    jax="jnp.where({x} == 0, -1 / {x}, jax.scipy.special.digamma({x}))",
)
enroll(digamma, "special.psi")
special(
    "erfcinv",
    1,
    "The inverse of erfc; on JAX by ndtri.",
    jax="-0.7071067811865476 * jax.scipy.special.ndtri(0.5 * {x})",
)


erfcx: SpecialFunction = special(
    "erfcx",
    1,
    "exp(x^2) erfc(x): erfc without its underflow.",
    jax=lambda p: p.call(erfcx_series, p.inputs[0], "jnp"),
)


def _print_betaln(p: Printing) -> str:
    return p.call(log_beta, *p.inputs, "jnp", "jax.scipy.special")


def _print_beta(p: Printing) -> str:
    sign = p.call(beta_sign, *p.inputs, "jnp", "jax.scipy.special")
    return f"{sign} * jnp.exp({_print_betaln(p)})"


special(
    "betaln",
    2,
    "log|beta(a, b)|; a and b are not negative integers or -inf.",
    jax=_print_betaln,
)
special(
    "beta",
    2,
    "The beta function; a and b are not negative integers or -inf. On JAX by betaln.",
    jax=_print_beta,
)


def _incomplete(name: str, doc: str, upper: bool) -> None:
    def printed(p: Printing) -> str:
        return p.call(incomplete_gamma, *p.inputs, upper, "jnp", "jax.scipy.special")

    special(name, 2, doc, jax=printed)


_incomplete(
    "gammainc", "The regularised lower incomplete gamma function P(a, x).", False
)
_incomplete(
    "gammaincc", "The regularised upper incomplete gamma function Q(a, x).", True
)


_zeta = declare(
    "zeta",
    2,
    "The Hurwitz zeta function, for x > 1 and q > 0.",
    jax="jnp.where(({x} > 1) & ({y} == jnp.inf), 0.0, "
    "jax.scipy.special.zeta({x}, {y}))",
)
_riemann_zeta = declare(
    "riemann_zeta",
    1,
    "Riemann's zeta function.",
    numpy="scipy.special.zeta({x})",
    jax=lambda p: p.call(riemann_zeta, p.inputs[0], "jnp", "jax.scipy.special"),
)


@composed
def loggamma(x: Value) -> Value:
    """The principal branch of log(gamma(x)): gammaln, and NaN for x < 0."""
    return F.where(x < 0, math.nan, F.special.gammaln(x))


@composed
def log_ndtr(x: Value) -> Value:
    """log(ndtr(x)), accurate in both tails."""
    low = x < -1
    scaled = x * math.sqrt(0.5)
    tail = F.log(0.5 * erfcx(F.where(low, -scaled, 1.0))) - 0.5 * x * x
    main = F.log1p(-0.5 * F.special.erfc(F.where(low, 0.0, scaled)))
    return F.where(low, tail, main)


@composed
def entr(x: Value) -> Value:
    """-x log(x); 0 at 0 and -inf below."""
    return F.where(x < 0, -math.inf, F.special.xlogy(-x, x))


def _relative_entropy(p: Value, q: Value) -> tuple[Value, Value]:
    """p log(p / q) where both are positive (or NaN), and a mask of these places."""
    positive = F.logical_and(p > 0, q > 0)
    inside = F.logical_or(positive, F.logical_or(F.isnan(p), F.isnan(q)))
    p, q = F.where(inside, p, 1.0), F.where(inside, q, 1.0)
    near = F.logical_and(p > 0.625 * q, p < 2 * q)  # there log(p / q) loses digits
    close = F.log1p(F.where(near, (p - q) / q, 0.0))
    far = 2.0 * F.log(F.sqrt(p) / F.sqrt(q))  # roots: the ratio cannot overflow
    return p * F.where(near, close, far), inside


@composed
def rel_entr(p: Value, q: Value) -> Value:
    """p log(p / q) for p, q > 0; 0 where p is 0 and q is not negative; else inf."""
    value, inside = _relative_entropy(p, q)
    zero = F.logical_and(F.equal(p, 0), q >= 0)
    return F.where(inside, value, F.where(zero, 0.0, math.inf))


@composed
def kl_div(p: Value, q: Value) -> Value:
    """p log(p / q) - p + q for p, q > 0; q where p is 0, q >= 0; else inf."""
    value, inside = _relative_entropy(p, q)
    zero = F.logical_and(F.equal(p, 0), q >= 0)
    return F.where(inside, value - p + q, F.where(zero, q - p, math.inf))


def _hurwitz(x: Value, q: Value) -> Value:
    inside = q > 0
    pole = F.logical_or(F.equal(x, 1), F.logical_and(F.equal(q, F.floor(q)), x > 1))
    outside = F.where(pole, math.inf, math.nan)
    return F.where(inside, _zeta(x, F.where(inside, q, 1.0)), outside)


@public(name="special.zeta")
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Value:
    """The Hurwitz zeta function; without `q`, Riemann's, also below 1.

    With `q`: for finite x > 1, q > 0; inf at x = 1 and q = 0, -1 ...; elsewhere NaN.
    """
    if q is None:
        return on_floats(_riemann_zeta, x)
    return on_floats(_hurwitz, x, q, name="zeta")


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of cot, as coefficients of powers of cot."""
    powers = [0, 1]
    for _ in range(n):
        slope = [-k * c for k, c in enumerate(powers)][1:]
        powers = [a + b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return powers


def _reflect(n: int, x: Value) -> Value:
    """polygamma(n, x) for x <= 0, by reflection from 1 - x."""
    turn = x - F.rint(x)
    size = math.pi * F.absolute(turn)
    far = size > math.pi / 4
    near_zero = F.tan(F.where(far, math.pi / 2 - size, 0.0))
    cot = F.where(far, near_zero, 1 / F.tan(F.where(far, 1.0, size)))
    cot = F.where(turn < 0, -cot, cot)
    *coefficients, poly = _cotangent_derivative(n)
    for c in reversed(coefficients):
        poly = poly * cot + float(c)
    return (-1) ** n * _positive_polygamma(n, 1 - x) - math.pi ** (n + 1) * poly


def _positive_polygamma(n: int, x: Value) -> Value:
    scale = (-1.0) ** (n + 1) * math.factorial(n)
    return scale * _zeta(F.asarray(n + 1.0, x.dtype), x)


def _polygamma_of_any_order(n: Value, x: Value) -> Value:
    """polygamma by the zeta function and a table of the factorials that floats hold."""
    places = F.clip(n, 0, 171)
    table = [float(math.factorial(k)) for k in range(171)] + [math.inf]
    with np.errstate(over="ignore"):
        factorials = as_value(np.array(table).astype(x.dtype))
    positive = x > 0
    order = F.astype(F.clip(n, 1, None), x.dtype)
    right = _zeta(order + 1.0, F.where(positive, x, 1.0)) * F.take(factorials, places)
    pole = F.logical_and(x <= 0, F.equal(x, F.floor(x)))
    right = F.where(positive, right, F.where(pole, math.inf, math.nan))
    higher = F.where(F.equal(n % 2, 0), -right, right)
    result = F.where(F.equal(n, 0), digamma(x), higher)
    return F.where(n < 0, math.nan, result)


@public(name="special.polygamma")
def polygamma(n: ArrayLike, x: ArrayLike) -> Value:
    """The n-th derivative of digamma.

    A Python integer n is from 0 to 100. Symbolic integers, or arrays of them, broadcast
    with `x`: the result is then NaN where x < 0 (except for n = 0) and where n < 0, and
    it has a derivative in `x` only. Raises GraphError for another n.
    """
    if isinstance(n, (Value, np.ndarray)) and is_integer(n.dtype):
        orders = as_strong_value(n)
        return on_floats(partial(_polygamma_of_any_order, orders), x, name="polygamma")
    order = integer_or_none(n)
    if order is None or not 0 <= order <= 100:
        problem = "the order must be an integer from 0 to 100, or an integer array"
        raise graph_error(problem, op="special.polygamma", got=f"{n!r}")
    if order == 0:
        return digamma(x)

    def rule(x: Value) -> Value:
        low = x <= 0
        right = _positive_polygamma(order, F.where(low, 1.0, x))
        return F.where(low, _reflect(order, F.where(low, x, -0.5)), right)

    return on_floats(rule, x, name="polygamma")


@public(name="special.multigammaln")
def multigammaln(a: ArrayLike, d: int) -> Value:
    """The logarithm of the multivariate gamma function of dimension `d`.

    It is NaN unless a > (d - 1) / 2. Raises GraphError unless `d` is a positive
    integer.
    """
    if not isinstance(d, (int, np.integer)) or d < 1:
        problem = "the dimension must be a positive integer"
        raise graph_error(problem, op="special.multigammaln", got=f"{d!r}")

    def rule(a: Value) -> Value:
        total: Any = 0.25 * d * (d - 1) * math.log(math.pi)
        for i in range(int(d)):
            total = total + F.special.gammaln(a - 0.5 * i)
        return F.where(a > 0.5 * (d - 1), total, math.nan)

    return on_floats(rule, a, name="multigammaln")


@public(name="special.logsumexp")
def logsumexp(
    x: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Any:
    """`nn.logsumexp`, with the arguments of `scipy.special.logsumexp`."""
    return F.nn.logsumexp(x, axis, b, keepdims, return_sign)


@public(name="special.softmax")
def softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Value:
    """`nn.softmax`, over all axes by default, as `scipy.special.softmax`."""
    return F.nn.softmax(x, axis)


@public(name="special.log_softmax")
def log_softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Value:
    """`nn.log_softmax`, over all axes by default, as `scipy.special.log_softmax`."""
    return F.nn.log_softmax(x, axis)


@public(name="special.sinc")
def sinc(x: ArrayLike) -> Value:
    """sin(pi x) / (pi x), and 1 at 0, as `numpy.sinc`."""
    return F.sinc(x)
