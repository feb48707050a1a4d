"""Python's own functions of numbers, for numbers that are traced.

`float(n)`, `int(0.1 * n)`, `round(n / 3)` and `math.sqrt(n)` ask an object for a Python
number, which does not exist while a function is traced. In the user's code these names
therefore give symbolic numbers of Python's classes. Where Python raises an error, the
call of the compiled program raises it.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from operator import attrgetter

import numpy as np

from graphc.importers.numpy.traced.arrays import (
    NUMBER,
    TracedArray,
    as_traced,
    content_of,
)
from graphc.importers.numpy.traced.refusals import (
    is_number,
    number_class,
    number_if_settled,
)
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import FLOAT64, INT64, is_integer

DOMAIN, RANGE = "math domain error", "math range error"  # in Python's words
LARGEST = 2.0**63  # the first float beyond the integers of 64 bits
LARGEST_ROOT = math.isqrt(2**63 - 1)
HALF = 32  # half of the bits of an integer of 64 bits
MOST_CHOSEN = 4
MOST_CHOSEN_FROM = (2**63 - 1, 2**63 - 1, 2**31, 2**21 - 1, 2**15)  # 63 bits are enough


class NumberClass:
    """`int` or `float` as the user sees it: calling it converts traced numbers too."""

    def __init__(self, kind: type, convert: Callable[[Value], Value]) -> None:
        self.kind, self._convert = kind, convert
        self._plain: Callable[..., object] = kind
        self.dtype = np.dtype(kind)  # lets NumPy accept the class as a dtype

    def __call__(self, *args: object, **options: object) -> object:
        """Convert to a number of the class."""
        content = _traced_number(args[0]) if len(args) == 1 and not options else None
        if content is None:
            return self._plain(*args, **options)
        return as_traced(self._convert(content))

    def __instancecheck__(self, instance: object) -> bool:
        if type(instance) is not TracedArray:
            return isinstance(instance, self.kind)
        # For the user who asks, a number that is traced is an instance of a class of
        # numbers.
        is_one = instance.memory.fixed == NUMBER
        return is_one and issubclass(number_class(as_value(instance)), self.kind)

    def __subclasscheck__(self, other: type) -> bool:
        return issubclass(other, self.kind)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    def __getattr__(self, name: str) -> object:
        return getattr(self.kind, name)

    def __repr__(self) -> str:
        return repr(self.kind)


def _traced_number(argument: object) -> Value | None:
    """The value of a traced real number; None for anything else or a known number."""
    if type(argument) is not TracedArray or not is_number(argument.content):
        return None
    content = number_if_settled(argument.content)
    is_real = isinstance(content, Value) and content.dtype.kind in "biuf"
    return as_value(content) if is_real else None


def _as_float(number: Value) -> Value:
    return cast(number, FLOAT64, weak=True)


def as_int(number: Value) -> Value:
    """Truncate a number to an integer of 64 bits, as `int` does.

    The call raises ValueError or OverflowError where no such integer exists.
    """
    if is_integer(number.dtype) or number.dtype.kind == "b":
        fits = number.dtype.itemsize < INT64.itemsize or number.dtype == INT64
        if not fits:
            beyond = "int: an integer of more than 63 bits"
            number = F.assert_(number < 2**63, beyond, number, OverflowError)
        return cast(number, INT64, weak=True)
    number = _as_float(number)
    is_nan = "cannot convert float NaN to integer"
    number = _checked_number(number == number, is_nan, number, ValueError)
    beyond = "cannot convert float infinity, or beyond 64 bits, to integer"
    is_within = (number >= -LARGEST) & (number < LARGEST)
    number = _checked_number(is_within, beyond, number, OverflowError)
    return cast(F.trunc(number), INT64, weak=True)


def _checked_number(
    fits: Value, message: str, number: Value, error: type[Exception]
) -> Value:
    """A weak number for which the call raises `error` unless `fits` holds."""
    return cast(F.assert_(fits, message, number, error), number.dtype, weak=True)


def rounded(number: Value) -> Value:
    """Round to the nearest integer, ties to even, as `round` does without digits."""
    return _rounding_function(F.rint)(number)


class _FunctionOfUser:
    """A function of Python that, in user code, computes on traced numbers too.

    `computes` returns None where Python's own function is to be called.
    """

    def __init__(
        self, plain: Callable[..., object], computes: Callable[..., Value | None]
    ) -> None:
        self.__name__ = plain.__name__
        self._plain, self._computes = plain, computes

    def __call__(self, *args: object, **options: object) -> object:
        """Return the number, or the result of Python's own function."""
        known = None if options else _contents(args)
        number = None if known is None else self._computes(*known)
        return self._plain(*args, **options) if number is None else as_traced(number)


def _contents(numbers: Sequence[object]) -> list[object] | None:
    """The numbers of a call, traced ones as values; None unless one is traced."""
    traced = [_traced_number(number) for number in numbers]
    if all(value is None for value in traced):
        return None
    pairs = zip(numbers, traced, strict=True)
    known = [content_of(number) if value is None else value for number, value in pairs]
    are_numbers = all(isinstance(x, (Value, int, float, np.generic)) for x in known)
    return known if are_numbers else None


def _math_function(name: str, computes: Callable[..., Value]) -> _FunctionOfUser:
    """A function of `math` for calls in which at least one number is traced."""
    return _FunctionOfUser(
        getattr(math, name), lambda *numbers: computes(*map(as_value, numbers))
    )


def _rounding_function(rounds: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A function that rounds a float to an integer by `rounds`; integers stay."""

    def computes(number: Value) -> Value:
        is_float = number.dtype.kind == "f"
        return as_int(rounds(_as_float(number)) if is_float else number)

    return computes


def _checked_function(
    name: str, condition: Callable[[Value], Value] | None = None, of: str = ""
) -> Callable[[Value], Value]:
    """A function of one float, for which the call raises outside its domain or range.

    `condition` describes the domain. Without one, the domain is all floats, and the
    call raises where a finite number gives a result that is not finite.
    """
    compute = attrgetter(of or name)(F)

    def computes(number: Value) -> Value:
        number = _as_float(number)
        if condition is None:
            result: Value = compute(number)
            fits = F.isfinite(result) | ~F.isfinite(number)
            return _checked_number(fits, f"math.{name}: {RANGE}", result, OverflowError)
        fits = condition(number) | (number != number)
        message = f"math.{name}: {DOMAIN}"
        result = compute(_checked_number(fits, message, number, ValueError))
        return result

    return computes


def _total_function(of: str) -> Callable[..., Value]:
    """A function of floats that is defined for all of them."""
    compute = attrgetter(of)(F)

    def computes(*numbers: Value) -> Value:
        result: Value = compute(*map(_as_float, numbers))
        return result

    return computes


def _logarithm(number: Value, *base: Value) -> Value:
    natural = _checked_function("log", lambda x: x > 0)
    if not base:
        return natural(number)
    (other,) = map(natural, base)
    quotient = natural(number) / _checked_number(
        other != 0, "float division by zero", other, ZeroDivisionError
    )
    return quotient


def _power(x: Value, y: Value) -> Value:
    x, y = _as_float(x), _as_float(y)
    result = F.power(x, y)
    known = (x != x) | (y != y) | ((result == result) & ((x != 0) | (y >= 0)))
    result = _checked_number(known, f"math.pow: {DOMAIN}", result, ValueError)
    fits = F.isfinite(result) | ~(F.isfinite(x) & F.isfinite(y))
    return _checked_number(fits, f"math.pow: {RANGE}", result, OverflowError)


def _integer_root(number: Value) -> Value:
    """`math.isqrt`: the largest integer whose square is at most an integer."""
    if number.dtype.kind == "f":
        raise TypeError("'float' object cannot be interpreted as an integer")
    fits = number >= 0
    message = "isqrt() argument must be nonnegative"
    number = _checked_number(fits, message, cast(number, INT64, weak=True), ValueError)
    # A float root may be off by one, and the square of the next integer exceed 63 bits.
    root = F.minimum(cast(F.sqrt(_as_float(number)), INT64, weak=True), LARGEST_ROOT)
    root = root - cast(root * root > number, INT64, weak=True)
    larger = F.minimum(root + 1, LARGEST_ROOT)
    return F.where(larger * larger <= number, larger, root)


def bit_length(number: Value) -> Value:
    """The number of bits of an integer's absolute value, as `int.bit_length` counts."""
    beyond = "bit_length: an integer of more than 63 bits"
    number = as_int(number)
    number = abs(_checked_number(number > -(2**63), beyond, number, OverflowError))
    upper = number >> HALF  # a float cannot hold all digits of the number
    is_long = upper > 0
    exponent = F.frexp(_as_float(F.where(is_long, upper, number)))[1]
    bits = cast(exponent, INT64, weak=True)
    return F.where(is_long, bits + HALF, bits)


def _binomial(number: object, chosen: object) -> Value | None:
    """`math.comb` for a traced number; None where Python's own is to be called."""
    is_integer_value = isinstance(number, Value) and is_integer(number.dtype)
    if not is_integer_value or type(chosen) is not int:
        return None
    if not 0 <= chosen <= MOST_CHOSEN:
        return None
    number = as_int(as_value(number))
    is_negative = "n must be a non-negative integer"
    number = _checked_number(number >= 0, is_negative, number, ValueError)
    if not _is_of_axes(number):
        beyond = "math.comb: an integer of more than 63 bits"
        fits = number <= MOST_CHOSEN_FROM[chosen]
        number = _checked_number(fits, beyond, number, OverflowError)
    ways = as_value(1)
    for i in range(chosen):
        ways = ways * (number - i) // (i + 1)
    return ways


def _joining_function(name: str, of_none: int) -> Callable[..., Value]:
    """A function that joins any number of integers pairwise, as `math.gcd` does."""
    compute = attrgetter(name)(F)

    def computes(*numbers: Value) -> Value:
        if any(not is_integer(number.dtype) for number in numbers):
            raise TypeError("'float' object cannot be interpreted as an integer")
        result: Value = reduce(compute, map(as_int, numbers), as_value(of_none))
        return result

    return computes


def _remainder(x: Value, y: Value) -> Value:
    x, y = _as_float(x), _as_float(y)
    known = F.isfinite(x) & (y != 0) | (x != x) | (y != y)
    message = f"math.fmod: {DOMAIN}"
    result: Value = F.fmod(_checked_number(known, message, x, ValueError), y)
    return result


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "floor": _rounding_function(F.floor),
    "ceil": _rounding_function(F.ceil),
    "trunc": as_int,
    "isqrt": _integer_root,
    "sqrt": _checked_function("sqrt", lambda x: x >= 0),
    "log": _logarithm,
    "log2": _checked_function("log2", lambda x: x > 0),
    "log10": _checked_function("log10", lambda x: x > 0),
    "log1p": _checked_function("log1p", lambda x: x > -1),
    "acos": _checked_function("acos", lambda x: abs(x) <= 1, "arccos"),
    "asin": _checked_function("asin", lambda x: abs(x) <= 1, "arcsin"),
    "acosh": _checked_function("acosh", lambda x: x >= 1, "arccosh"),
    "atanh": _checked_function("atanh", lambda x: abs(x) < 1, "arctanh"),
    "pow": _power,
    "fmod": _remainder,
    "gcd": _joining_function("gcd", 0),
    "lcm": _joining_function("lcm", 1),
}
_FUNCTIONS |= {
    name: _checked_function(name, F.isfinite) for name in ("sin", "cos", "tan")
}
_FUNCTIONS |= {
    name: _checked_function(name) for name in ("exp", "exp2", "expm1", "sinh", "cosh")
}
_FUNCTIONS["lgamma"] = _checked_function("lgamma", of="special.gammaln")
_NAMES_IN_GRAPHC = {
    **{name: name for name in ("isfinite", "isinf", "isnan")},
    **{name: name for name in ("hypot", "tanh", "copysign", "degrees", "radians")},
    **{"atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "fabs": "absolute"},
    **{"erf": "special.erf", "erfc": "special.erfc", "cbrt": "cbrt"},
}
_FUNCTIONS |= {name: _total_function(of) for name, of in _NAMES_IN_GRAPHC.items()}
MATH_FUNCTIONS = {name: _math_function(name, f) for name, f in _FUNCTIONS.items()}
MATH_FUNCTIONS["comb"] = _FunctionOfUser(math.comb, _binomial)


def _extreme_function(
    wins: Callable[[Value, Value], Value],
) -> Callable[..., Value | None]:
    """`max` or `min`: the first number that no other number wins over.

    For sizes of arguments, Python compares, which is a decision by these sizes. Numbers
    of two classes are left to Python too, since the result has the class of one of
    them.
    """

    def computes(*numbers: object) -> Value | None:
        values = [number for number in numbers if isinstance(number, Value)]
        if len(numbers) < 2 or all(map(_is_of_axes, values)):
            return None
        if len({*map(_class_of, numbers)}) > 1:
            return None
        best, *others = map(as_value, numbers)
        for other in others:
            best = F.where(wins(other, best), other, best)
        return best

    return computes


def _is_of_axes(number: Value) -> bool:
    """Whether a number is computed exactly from the sizes of arguments."""
    sizes = known_sizes(number)
    size = None if sizes is None else sizes[()]
    return isinstance(size, int) or (
        isinstance(size, Dim) and all(s.origin is None for s in size.symbols)
    )


def _class_of(number: object) -> type:
    return number_class(number) if isinstance(number, Value) else type(number)


BUILTINS = {
    "max": _FunctionOfUser(max, _extreme_function(operator.gt)),
    "min": _FunctionOfUser(min, _extreme_function(operator.lt)),
}
CLASSES = {"int": NumberClass(int, as_int), "float": NumberClass(float, _as_float)}
