"""Rules of primitives that work element by element."""

from collections.abc import Callable

from graphc.importers.jax.reader import Equation, elementwise
from graphc.importers.jax.rules import PRIMITIVES
from graphc.importers.jax.unsupported import Unsupported
from graphc.ir.build import cast, number_constant
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import BOOL, is_inexact, is_integer

# Functions of the graph that do as the primitive does, in the dtypes of its inputs.
_ALIKE: dict[str, Callable[..., Value]] = {
    "abs": F.absolute,
    "acos": F.arccos,
    "acosh": F.arccosh,
    "add": F.add,
    "add_any": F.add,
    "and": F.bitwise_and,
    "asin": F.arcsin,
    "asinh": F.arcsinh,
    "atan": F.arctan,
    "atan2": F.arctan2,
    "atanh": F.arctanh,
    "bessel_i0e": F.special.i0e,
    "bessel_i1e": F.special.i1e,
    "cbrt": F.cbrt,
    "ceil": F.ceil,
    "complex": F._from_parts,
    "conj": F.conjugate,
    "cos": F.cos,
    "cosh": F.cosh,
    "digamma": F.special.digamma,
    "eq": F.equal,
    "erf": F.special.erf,
    "erf_inv": F.special.erfinv,
    "erfc": F.special.erfc,
    "exp": F.exp,
    "exp2": F.exp2,
    "expm1": F.expm1,
    "floor": F.floor,
    "ge": F.greater_equal,
    "gt": F.greater,
    "igamma": F.special.gammainc,
    "igammac": F.special.gammaincc,
    "imag": F.imag,
    "is_finite": F.isfinite,
    "le": F.less_equal,
    "lgamma": F.special.gammaln,
    "log": F.log,
    "log1p": F.log1p,
    "log2": F.log2,
    "logistic": F.special.expit,
    "lt": F.less,
    "max": F.maximum,
    "min": F.minimum,
    "mul": F.multiply,
    "ne": F.not_equal,
    "neg": F.negative,
    "nextafter": F.nextafter,
    "not": F.invert,
    "or": F.bitwise_or,
    "real": F.real,
    "regularized_incomplete_beta": F.special.betainc,
    "sign": F.sign,
    "sin": F.sin,
    "sinh": F.sinh,
    "sqrt": F.sqrt,
    "square": F.square,
    "sub": F.subtract,
    "tan": F.tan,
    "tanh": F.tanh,
    "xor": F.bitwise_xor,
    "zeta": F.special.zeta,
}
for _name, _function in _ALIKE.items():
    PRIMITIVES.define(_name)(elementwise(_function))

PRIMITIVES.refuse(
    "there is no op for it here",
    *("clz", "igamma_grad_a", "polygamma", "polynomial", "random_gamma_grad"),
    *("reduce_precision", "eq_to", "le_to", "lt_to"),
)


@PRIMITIVES.define("div")
def _div(_: Equation, x: Value, y: Value) -> Value:
    """Division; that of integers rounds towards zero."""
    if is_inexact(x.dtype):
        return F.true_divide(x, y)
    return F.floor_divide(x - F.fmod(x, y), y)


@PRIMITIVES.define("rem")
def _rem(_: Equation, x: Value, y: Value) -> Value:
    """The rest of that division, with the sign of `x`."""
    return F.fmod(x, y)


@PRIMITIVES.define("pow")
def _pow(_: Equation, x: Value, y: Value) -> Value:
    """A power of floats; an integer exponent is converted, as XLA does."""
    return F.power(x, cast(y, x.dtype))


@PRIMITIVES.define("integer_pow")
def _integer_pow(eqn: Equation, x: Value) -> Value:
    """A constant power by repeated squaring, in the order in which JAX multiplies."""
    power = eqn.params["y"]
    if power == 0:
        return F.ones_like(x)
    found: Value | None = None
    square, rest = x, abs(power)
    while rest:
        if rest & 1:
            found = square if found is None else F.multiply(found, square)
        rest >>= 1
        square = F.multiply(square, square) if rest else square
    assert found is not None
    return F.true_divide(F.ones_like(found), found) if power < 0 else found


@PRIMITIVES.define("rsqrt")
def _rsqrt(_: Equation, x: Value) -> Value:
    """One over the square root."""
    return F.true_divide(number_constant(1, x.dtype), F.sqrt(x))


@PRIMITIVES.define("one_minus_square")
def _one_minus_square(_: Equation, x: Value) -> Value:
    """1 - x*x, as (1 - x)(1 + x): exact where x is close to 1."""
    one = number_constant(1, x.dtype)
    return F.multiply(F.subtract(one, x), F.add(one, x))


@PRIMITIVES.define("round")
def _round(eqn: Equation, x: Value) -> Value:
    """The nearest integer: of two, the even one, or the one away from zero."""
    if eqn.params["rounding_method"] == 1:
        return F.rint(x)
    whole = F.trunc(x)
    away = F.absolute(x - whole) >= number_constant(0.5, x.dtype)
    return F.where(away, whole + F.sign(x), whole)


@PRIMITIVES.define("clamp")
def _clamp(_: Equation, low: Value, x: Value, high: Value) -> Value:
    """Not below `low`, and then not above `high`."""
    return F.minimum(F.maximum(x, low), high)


@PRIMITIVES.define("select_n")
def _select_n(_: Equation, which: Value, *cases: Value) -> Value:
    """Per element the case of that number, a bool being 0 or 1."""
    found = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = which if which.dtype == BOOL else F.equal(which, _like(i, which))
        found = F.where(chosen, case, found)
    return found


def _like(number: int, x: Value) -> Value:
    return number_constant(number, x.dtype)


@PRIMITIVES.define("convert_element_type")
def _convert(eqn: Equation, x: Value) -> Value:
    """The elements as another dtype; complex numbers lose their imaginary part."""
    dtype = eqn.result.dtype
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = F.not_equal(x, _like(0, x)) if dtype == BOOL else F.real(x)
    return cast(x, dtype)


@PRIMITIVES.define("shift_left", "shift_right_arithmetic", "shift_right_logical")
def _shift(eqn: Equation, x: Value, by: Value) -> Value:
    """Bits moved; those of signed integers to the right only with their sign."""
    name = eqn.eqn.primitive.name
    if name == "shift_left":
        return F.left_shift(x, by)
    signed = x.dtype.kind == "i"
    if signed != (name == "shift_right_arithmetic"):
        raise Unsupported(f"{name}: of {x.dtype} there is no op here")
    return F.right_shift(x, by)


@PRIMITIVES.define("population_count")
def _population_count(_: Equation, x: Value) -> Value:
    """How many bits are set."""
    if not is_integer(x.dtype) or x.dtype.kind == "i":
        raise Unsupported(f"population_count: of {x.dtype} there is no op here")
    return cast(F.bitwise_count(x), x.dtype)


@PRIMITIVES.define("stop_gradient")
def _stop_gradient(_: Equation, x: Value) -> Value:
    """The value itself."""
    return F.stop_gradient(x)


@PRIMITIVES.define("copy", "copy_p", "name")
def _same(_: Equation, x: Value) -> Value:
    """The value itself."""
    return x
