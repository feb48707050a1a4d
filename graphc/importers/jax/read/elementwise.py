"""Rules of primitives that work element by element."""

from collections.abc import Callable

import numpy as np

from graphc.importers.jax.read.reader import Equation, known_size, rule_calling
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.structural import with_axes_appended
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import as_value, cast, literal_of, number_constant
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import BOOL, is_inexact, is_integer
from graphc.ops.arrays.integer_ranges import bound_of_positions
from graphc.ops.special import of_jax

# Functions of graphs that equal the primitive, in the dtypes of its inputs.
_ALIKE: dict[str, Callable[..., Value]] = {
    "abs": F.absolute,
    "acos": F.arccos,
    "acosh": F.arccosh,
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
    "digamma": of_jax.digamma,
    "erf": F.special.erf,
    "erf_inv": F.special.erfinv,
    "erfc": F.special.erfc,
    "exp": F.exp,
    "exp2": F.exp2,
    "expm1": F.expm1,
    "floor": F.floor,
    "igamma": of_jax.gammainc,
    "igammac": of_jax.gammaincc,
    "imag": F.imag,
    "is_finite": F.isfinite,
    "lgamma": F.special.gammaln,
    "log": F.log,
    "log1p": F.log1p,
    "log2": F.log2,
    "logistic": F.special.expit,
    "neg": F.negative,
    "nextafter": F.nextafter,
    "not": F.invert,
    "or": F.bitwise_or,
    "real": F.real,
    "regularized_incomplete_beta": F.special.betainc,
    "sin": F.sin,
    "sinh": F.sinh,
    "sqrt": F.sqrt,
    "square": F.square,
    "stop_gradient": F.stop_gradient,
    "sub": F.subtract,
    "tan": F.tan,
    "tanh": F.tanh,
    "xor": F.bitwise_xor,
    "zeta": of_jax.zeta,
}
for _name, _function in _ALIKE.items():
    PRIMITIVES.define(_name)(rule_calling(_function))

PRIMITIVES.refuse(
    "there is no op for it here",
    *("igamma_grad_a", "polynomial", "random_gamma_grad"),
)


# The bits in the exponent and in the mantissa of each dtype.
_BITS = {
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float32": (8, 23),
    "float64": (11, 52),
}


@PRIMITIVES.define("reduce_precision")
def _reduce_precision(eqn: Equation, x: Value) -> Value:
    """The input itself, unless its dtype is wider than the precision asked for.

    JAX uses this to mark values that a policy of `checkpoint` keeps.
    """
    exponent, mantissa = _BITS[x.dtype.name]
    params = eqn.params
    if params["exponent_bits"] < exponent or params["mantissa_bits"] < mantissa:
        raise Unsupported("reduce_precision: there is no op for it here")
    return x


def _extreme_rule(
    of_reals: Callable[..., Value], precedes: Callable[..., Value]
) -> Callable[..., Value]:
    """Return a rule for the larger or the smaller of two numbers.

    XLA compares complex numbers by their real parts, then by their imaginary parts, and
    takes the second number if a NaN leaves the order open.
    """

    def rule(_: Equation, x: Value, y: Value) -> Value:
        if x.dtype.kind != "c":
            return of_reals(x, y)
        real, other_real = F.real(x), F.real(y)
        by_imaginary = precedes(F.imag(x), F.imag(y))
        are_equal, by_real = F.equal(real, other_real), precedes(real, other_real)
        return F.where(F.where(are_equal, by_imaginary, by_real), x, y)

    return rule


PRIMITIVES.define("max")(_extreme_rule(F.maximum, F.greater))
PRIMITIVES.define("min")(_extreme_rule(F.minimum, F.less))


@PRIMITIVES.define("sign")
def _sign(_: Equation, x: Value) -> Value:
    """The sign; for complex numbers x over its modulus, NaN at infinity."""
    if x.dtype.kind != "c":
        return F.sign(x)
    modulus = F.absolute(x)
    direction = F._from_parts(F.real(x) / modulus, F.imag(x) / modulus)
    return F.where(F.equal(modulus, number_constant(0, modulus.dtype)), x, direction)


@PRIMITIVES.define("add", "add_any")
def _add(_: Equation, x: Value, y: Value) -> Value:
    """The sum; adding the integer 0 is left out."""
    if is_integer(x.dtype):
        x, y = (y, x) if _is_known_as(x, 0) else (x, y)
        return _stretched(x, y) if _is_known_as(y, 0) else F.add(x, y)
    return F.add(x, y)


@PRIMITIVES.define("mul")
def _mul(_: Equation, x: Value, y: Value) -> Value:
    """The product; multiplying by the integer 1 is left out."""
    if is_integer(x.dtype):
        x, y = (y, x) if _is_known_as(x, 1) else (x, y)
        return _stretched(x, y) if _is_known_as(y, 1) else F.multiply(x, y)
    for one, scale in ((x, y), (y, x)):
        scaled = _scaled(one, scale)
        if scaled is not None:
            return scaled
    return F.multiply(x, y)


def _scaled(x: Value, scale: Value) -> Value | None:
    """`x * scale` as XLA rounds it where `scale` is a number that it knows, of sizes.

    If `x` is a product with a constant, or a quotient by one, that is multiplied first.
    `floor` and `ceil` show the difference, as in the positions of percentiles. Returns
    None for other factors.
    """
    if x.node.primitive not in (OP.true_divide, OP.multiply):
        return None
    scaled, factor = x.node.inputs
    if literal_of(scaled) is not None or not _is_float_constant(factor):
        return None
    if literal_of(scale) is not None or not _is_of_sizes(scale):
        return None
    if x.node.primitive is OP.true_divide:
        factor = _reciprocal(factor)
    return F.multiply(scaled, F._barrier(F.multiply(factor, scale)))


def _is_of_sizes(x: Value, depth: int = 4) -> bool:
    """Whether `x` is a number that depends on sizes only, in a few steps."""
    if x.type.rank or not depth:
        return False
    if literal_of(x) is not None or known_size(x) is not None:
        return True
    inputs = x.node.inputs
    return bool(inputs) and all(_is_of_sizes(v, depth - 1) for v in inputs)


def _is_float_constant(x: Value) -> bool:
    """Whether `x` is a constant float."""
    return literal_of(x) is not None and not x.type.rank and x.dtype.kind == "f"


def _reciprocal(x: Value) -> Value:
    literal = literal_of(x)
    assert literal is not None
    return as_value(np.reciprocal(literal))


def _is_known_as(x: Value, number: int) -> bool:
    literal = literal_of(x)
    return literal is not None and bool((literal == number).all())


def _stretched(x: Value, y: Value) -> Value:
    return F.broadcast_to(x, y.type.shape) if y.type.rank > x.type.rank else x


def _comparison_rule(
    function: Callable[..., Value], proof: Callable[[Size, Size], bool | None]
) -> Callable[..., Value]:
    """Return a rule that answers at once for two sizes whose order is known."""

    def rule(_: Equation, x: Value, y: Value) -> Value:
        a, b = known_size(x), known_size(y)
        answer = None if a is None or b is None else proof(a, b)
        return function(x, y) if answer is None else as_value(answer)

    return rule


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


_equal = _comparison_rule(F.equal, equal)
_differ = _comparison_rule(F.not_equal, lambda a, b: _negated(equal(a, b)))


@PRIMITIVES.define("eq")
def _eq(eqn: Equation, x: Value, y: Value) -> Value:
    """Whether elements are equal; keys are equal if both of their words are."""
    return F.all(F.equal(x, y), axis=-1) if eqn.takes_keys else _equal(eqn, x, y)


@PRIMITIVES.define("ne")
def _ne(eqn: Equation, x: Value, y: Value) -> Value:
    """Whether elements differ."""
    return F.any(F.not_equal(x, y), axis=-1) if eqn.takes_keys else _differ(eqn, x, y)


PRIMITIVES.define("le")(_comparison_rule(F.less_equal, less_equal))
PRIMITIVES.define("ge")(
    _comparison_rule(F.greater_equal, lambda a, b: less_equal(b, a))
)
PRIMITIVES.define("gt")(
    _comparison_rule(F.greater, lambda a, b: _negated(less_equal(a, b)))
)
PRIMITIVES.define("lt")(
    _comparison_rule(F.less, lambda a, b: _negated(less_equal(b, a)))
)


@PRIMITIVES.define("lt_to")
def _lt_to(_: Equation, x: Value, y: Value) -> Value:
    """Whether x is less in the total order: -NaN, numbers with -0 before 0, NaN."""
    return _precedes(x, y)


@PRIMITIVES.define("le_to")
def _le_to(_: Equation, x: Value, y: Value) -> Value:
    """Whether x is less or equal in the total order."""
    return F.logical_not(_precedes(y, x))


@PRIMITIVES.define("eq_to")
def _eq_to(_: Equation, x: Value, y: Value) -> Value:
    """Whether x and y are equal in the total order."""
    return F.logical_not(F.logical_or(_precedes(x, y), _precedes(y, x)))


def _precedes(x: Value, y: Value) -> Value:
    if not is_inexact(x.dtype):
        return F.less(x, y)
    one, other = _nan_rank(x), _nan_rank(y)
    zeros = F.logical_and(F.equal(x, y), F.greater(F.signbit(x), F.signbit(y)))
    return F.logical_or(F.less(one, other), F.logical_or(F.less(x, y), zeros))


def _nan_rank(x: Value) -> Value:
    """-1 for a NaN with its sign bit set, 1 for another NaN, 0 for numbers."""
    sign = F.where(F.signbit(x), as_value(np.int8(-1)), as_value(np.int8(1)))
    return F.where(F.isnan(x), sign, as_value(np.int8(0)))


@PRIMITIVES.define("div")
def _div(_: Equation, x: Value, y: Value) -> Value:
    """The quotient; for integers it rounds towards zero, and dividing by 0 gives -1."""
    if is_inexact(x.dtype):
        if _is_float_constant(y) and _is_folded_late(x):
            return F.multiply(x, _reciprocal(y))
        return F.true_divide(x, y)
    quotient = F.floor_divide(x - F.fmod(x, y), y)
    if _is_not_zero(y):
        return quotient
    zero = number_constant(0, y.dtype)
    return F.where(F.equal(y, zero), F.invert(zero), quotient)


def _is_folded_late(x: Value) -> bool:
    """Whether `x` is a constant that XLA divides by multiplying with a reciprocal."""
    if x.node.primitive is OP.convert:
        return literal_of(x.node.inputs[0]) is not None
    return literal_of(x) is not None and x.type.rank > 0


@PRIMITIVES.define("rem")
def _rem(_: Equation, x: Value, y: Value) -> Value:
    """The remainder, with the sign of `x`; for integers divided by 0, `x` itself."""
    remainder = F.fmod(x, y)
    if is_inexact(x.dtype) or _is_not_zero(y):
        return remainder
    return F.where(F.equal(y, number_constant(0, y.dtype)), x, remainder)


def _is_not_zero(x: Value) -> bool:
    literal = literal_of(x)
    return literal is not None and bool((literal != 0).all())


@PRIMITIVES.define("pow")
def _pow(_: Equation, x: Value, y: Value) -> Value:
    """A power of floats; an integer exponent is converted, as in XLA."""
    return F.power(x, cast(y, x.dtype))


@PRIMITIVES.define("integer_pow")
def _integer_pow(eqn: Equation, x: Value) -> Value:
    """A constant power by repeated squaring, multiplied in the same order as in JAX."""
    power = eqn.params["y"]
    if power == 0:
        return F.ones_like(x)
    product: Value | None = None
    square, exponent = x, abs(power)
    while exponent:
        if exponent & 1:
            product = square if product is None else F.multiply(product, square)
        exponent >>= 1
        square = F.multiply(square, square) if exponent else square
    assert product is not None
    return F.true_divide(F.ones_like(product), product) if power < 0 else product


@PRIMITIVES.define("rsqrt")
def _rsqrt(_: Equation, x: Value) -> Value:
    """One over the square root; for complex numbers in polar form, as in XLA.

    XLA's square root of a negative number does not depend on the sign of an imaginary
    part of 0; this one does.
    """
    if x.dtype.kind != "c":
        return F.true_divide(number_constant(1, x.dtype), F.sqrt(x))
    modulus = F.absolute(x)
    size = F.true_divide(number_constant(1, modulus.dtype), F.sqrt(modulus))
    turn = number_constant(-0.5, modulus.dtype)
    angle = F.multiply(F.arctan2(F.imag(x), F.real(x)), turn)
    return F._from_parts(F.multiply(size, F.cos(angle)), F.multiply(size, F.sin(angle)))


@PRIMITIVES.define("one_minus_square")
def _one_minus_square(_: Equation, x: Value) -> Value:
    """1 - x*x, computed as (1 - x)(1 + x), which is exact for x close to 1."""
    one = number_constant(1, x.dtype)
    return F.multiply(F.subtract(one, x), F.add(one, x))


@PRIMITIVES.define("round")
def _round(eqn: Equation, x: Value) -> Value:
    """The nearest integer; ties go to the even one or away from zero."""
    if eqn.params["rounding_method"] == 1:
        return F.rint(x)
    whole = F.trunc(x)
    away = F.absolute(x - whole) >= number_constant(0.5, x.dtype)
    return F.where(away, whole + F.sign(x), whole)


@PRIMITIVES.define("clamp")
def _clamp(_: Equation, low: Value, x: Value, high: Value) -> Value:
    """`x`, raised to at least `low` and then lowered to at most `high`."""
    return F.minimum(F.maximum(x, low), high)


@PRIMITIVES.define("select_n")
def _select_n(_: Equation, which: Value, *cases: Value) -> Value:
    """Select for each element the case with the number `which`; a bool is 0 or 1."""
    literal = literal_of(which)
    if literal is not None and not literal.ndim:
        return cases[int(literal)]
    selected = cases[0]
    if len(cases) == 2 and _is_never_negative(which, selected):
        return selected
    which = with_axes_appended(which, selected.type.rank)  # that of words of keys
    for i, case in enumerate(cases[1:], 1):
        is_bool = which.dtype == BOOL
        chosen = which if is_bool else F.equal(which, number_constant(i, which.dtype))
        selected = F.where(chosen, case, selected)
    return selected


def _is_never_negative(negative: Value, x: Value) -> bool:
    """Whether `negative` is `x < 0` for positions: JAX asks this of every index."""
    node = negative.node
    if node.primitive is not OP.less or node.inputs[0] is not x:
        return False
    limit = literal_of(node.inputs[1])
    is_zero = limit is not None and not limit.any()
    return is_zero and bound_of_positions(x) is not None


@PRIMITIVES.define("convert_element_type")
def _convert(eqn: Equation, x: Value) -> Value:
    """Convert to another dtype; complex numbers lose their imaginary part."""
    dtype = eqn.result.dtype
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = F.not_equal(x, number_constant(0, x.dtype)) if dtype == BOOL else F.real(x)
    return cast(x, dtype)


@PRIMITIVES.define("shift_left", "shift_right_arithmetic", "shift_right_logical")
def _shift(eqn: Equation, x: Value, by: Value) -> Value:
    """Shift bits to the left, or to the right with or without the sign."""
    name = eqn.eqn.primitive.name
    if name == "shift_left":
        return F.left_shift(x, by)
    kind = "i" if name == "shift_right_arithmetic" else "u"
    shifted = F.right_shift(_with_signs_as(kind, x), _with_signs_as(kind, by))
    return cast(shifted, x.dtype)


def _with_signs_as(kind: str, x: Value) -> Value:
    """Reinterpret integers as signed or unsigned, with the same bits."""
    return cast(x, np.dtype(f"{kind}{x.dtype.itemsize}"))


@PRIMITIVES.define("population_count")
def _population_count(_: Equation, x: Value) -> Value:
    """The number of bits that are set."""
    return cast(F.bitwise_count(_with_signs_as("u", x)), x.dtype)


@PRIMITIVES.define("clz")
def _clz(_: Equation, x: Value) -> Value:
    """The number of leading zero bits."""
    bits, width = _with_signs_as("u", x), 8 * x.dtype.itemsize
    step = 1
    while step < width:  # sets all bits after the first that is set
        shifted = F.right_shift(bits, number_constant(step, bits.dtype))
        bits = F.bitwise_or(bits, shifted)
        step *= 2
    return cast(F.bitwise_count(F.invert(bits)), x.dtype)


@PRIMITIVES.define("polygamma")
def _polygamma(_: Equation, order: Value, x: Value) -> Value:
    """A derivative of the digamma function, whose order must be known."""
    orders = literal_of(order)
    if orders is None or len(set(orders.flat)) != 1 or orders.flat[0] % 1:
        problem = "there is no op unless the order is a known integer"
        raise Unsupported(f"polygamma: {problem}")
    derivative = F.special.polygamma(int(orders.flat[0]), x)
    return cast(_stretched(derivative, order), x.dtype)


@PRIMITIVES.define("copy", "copy_p", "name")
def _same(_: Equation, x: Value) -> Value:
    """The value itself."""
    return x
