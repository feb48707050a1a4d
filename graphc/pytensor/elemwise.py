"""Elementwise Ops and their scalar functions."""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.graph.basic import Constant

import graphc.tensor as gt
from graphc.ir.graph.build import constant, literal_of
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import less_equal
from graphc.ir.types import BOOL, dtype_of, is_inexact, is_integer
from graphc.pytensor.convert import convert_graph
from graphc.pytensor.log_sums import log
from graphc.pytensor.registry import ConvertOp, convert_op, rule
from graphc.transform.derivatives.recomputed_values import stored_once

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

special = gt.special


@rule("Elemwise")
def _(op: "Op", node: "Apply", *inputs: Value) -> object:
    return convert_op(op.scalar_op, node, *_with_scalars(node, inputs))


def _with_scalars(node: "Apply", inputs: Sequence[Value]) -> Sequence[Value]:
    """Turn constants of one element into scalars where there is an array beside them.

    PyTensor stretches a number to the rank of the arrays; the rules of graphc know what
    to do about a power of 2, but not about one of `[[2]]`.
    """
    numbers = [_number(v) for v in node.inputs]
    if all(number is not None for number in numbers):
        return inputs
    pairs = zip(inputs, numbers, strict=True)
    return [x if number is None else number for x, number in pairs]


def _number(v: object) -> Value | None:
    """The scalar in a constant of one element; None for anything else."""
    if not isinstance(v, Constant) or set(v.type.shape) - {1}:
        return None
    return constant(np.asarray(v.data, v.type.dtype).reshape(()))


@rule("DimShuffle")
def _(op: "Op", node: "Apply", x: Value) -> object:
    order = [a for a in op.new_order if a != "x"]
    dropped = [a for a in range(x.ndim) if a not in order]
    kept_axes = [a for a in range(x.ndim) if a in order]
    x = gt.squeeze(x, tuple(dropped))
    x = gt.transpose(x, [kept_axes.index(a) for a in order])
    return gt.expand_dims(x, tuple(i for i, a in enumerate(op.new_order) if a == "x"))


def to_float(x: Value, dtype: str) -> Value:
    """Cast a real `x` to a float `dtype`, and an exact `x` to a complex one."""
    target = dtype_of(dtype)
    if target.kind == "f" and x.dtype.kind != "c" and x.dtype != target:
        return gt.astype(x, dtype)
    if is_inexact(target) and not is_inexact(x.dtype):
        return gt.astype(x, dtype)
    return x


def elementwise(function: Callable[..., object]) -> ConvertOp:
    """Return the conversion of a scalar Op to a function of arrays."""

    def convert(op: "Op", node: "Apply", *inputs: Value) -> object:
        dtype = node.outputs[0].type.dtype
        return function(*[to_float(x, dtype) for x in inputs])

    return convert


def _variadic(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *inputs: reduce(function, inputs)


def _round_half_away(x: Value) -> Value:
    return gt.copysign(gt.floor(gt.abs(x) + 0.5), x)


def truth(x: Value) -> Value:
    """Whether each element is true, as PyTensor takes numbers for conditions."""
    return x if x.dtype == BOOL else x != 0


def _upper_gamma(k: Value, x: Value) -> Value:
    return special.gammaincc(k, x) * special.gamma(k)


def _lower_gamma(k: Value, x: Value) -> Value:
    return special.gammainc(k, x) * special.gamma(k)


def _second(x: Value, y: Value) -> Value:
    """`y` in the shape of both; rules recognise an array that is full of a number."""
    return gt.full_like(x, y) if y.ndim == 0 else gt.broadcast_arrays(x, y)[1]


def _clip(x: Value, low: Value, high: Value) -> Value:
    """Clip as PyTensor does where `low` is above `high`: to `low` first."""
    return gt.where(x < low, low, gt.where(x > high, high, x))


def _int_div(x: Value, y: Value) -> Value:
    """The floor of `x / y`, which is 0 for a size `y` of 0, as it is for data."""
    return x // gt.maximum(y, 1) * gt.minimum(y, 1) if _may_be_zero(y) else x // y


def _mod(x: Value, y: Value) -> Value:
    """`x % y`, which is 0 for a size `y` of 0, as in `pt.roll` of an empty array."""
    return x % gt.maximum(y, 1) if _may_be_zero(y) else x % y


def _may_be_zero(divisor: Value) -> bool:
    """Whether a divisor is a size that may be zero, but is never below it."""
    sizes = known_sizes(divisor) if is_integer(divisor.dtype) else None
    if sizes is None or sizes.ndim:
        return False
    size = sizes.item()
    return less_equal(0, size) is True and less_equal(1, size) is not True


FUNCTIONS: dict[str, Callable[..., Any]] = {  # by the name of the class
    "LT": operator.lt,
    "GT": operator.gt,
    "LE": operator.le,
    "GE": operator.ge,
    "EQ": gt.equal,
    "NEQ": gt.not_equal,
    "IsNan": gt.isnan,
    "IsInf": gt.isinf,
    "OR": _variadic(gt.bitwise_or),
    "XOR": _variadic(gt.bitwise_xor),
    "AND": _variadic(gt.bitwise_and),
    "Invert": gt.bitwise_invert,
    "Maximum": gt.maximum,
    "Minimum": gt.minimum,
    "ScalarMaximum": gt.maximum,
    "ScalarMinimum": gt.minimum,
    "Add": _variadic(operator.add),
    "Sub": operator.sub,
    "TrueDiv": operator.truediv,
    "IntDiv": _int_div,
    "Mod": _mod,
    "Pow": gt.power,
    "Clip": _clip,
    "Second": _second,
    "Identity": lambda x: x,
    "Abs": gt.abs,
    "Sign": gt.sign,
    "Sgn": gt.sign,
    "Ceil": gt.ceil,
    "Floor": gt.floor,
    "Trunc": gt.trunc,
    "RoundHalfToEven": gt.round,
    "RoundHalfAwayFromZero": _round_half_away,
    "Neg": gt.negative,
    "Reciprocal": gt.reciprocal,
    "Log": log,
    "Log2": gt.log2,
    "Log10": gt.log10,
    "Log1p": gt.log1p,
    "Exp": gt.exp,
    "Exp2": gt.exp2,
    "Expm1": gt.expm1,
    "Sqr": gt.square,
    "Sqrt": gt.sqrt,
    "Deg2Rad": gt.deg2rad,
    "Rad2Deg": gt.rad2deg,
    "Cos": gt.cos,
    "ArcCos": gt.arccos,
    "Sin": gt.sin,
    "ArcSin": gt.arcsin,
    "Tan": gt.tan,
    "ArcTan": gt.arctan,
    "ArcTan2": gt.arctan2,
    "Cosh": gt.cosh,
    "ArcCosh": gt.arccosh,
    "Sinh": gt.sinh,
    "ArcSinh": gt.arcsinh,
    "Tanh": gt.tanh,
    "ArcTanh": gt.arctanh,
    "Conj": gt.conj,
    "Erf": special.erf,
    "Erfc": special.erfc,
    "Erfcx": special.erfcx,
    "Erfinv": special.erfinv,
    "Erfcinv": special.erfcinv,
    "Owens_t": special.owens_t,
    "Gamma": special.gamma,
    "GammaLn": special.gammaln,
    "Psi": special.digamma,
    "TriGamma": lambda x: special.polygamma(1, x),
    "GammaInc": special.gammainc,
    "GammaIncC": special.gammaincc,
    "GammaIncInv": special.gammaincinv,
    "GammaIncCInv": special.gammainccinv,
    "GammaU": _upper_gamma,
    "GammaL": _lower_gamma,
    "Jv": special.jv,
    "J1": special.j1,
    "J0": special.j0,
    "Iv": special.iv,
    "I1": special.i1,
    "I0": special.i0,
    "I0e": special.i0e,
    "I1e": special.i1e,
    "Ive": special.ive,
    "Kve": special.kve,
    "Sigmoid": special.expit,
    "Softplus": gt.nn.softplus,
    "Log1mexp": lambda x: gt.nn.log1mexp(-x),
    "BetaInc": special.betainc,
    "BetaIncInv": special.betaincinv,
    "Hyp2F1": special.hyp2f1,
    "XlogX": lambda x: special.xlogy(x, x),
    "XlogY0": special.xlogy,
}
for _name, _function in FUNCTIONS.items():
    rule(_name)(elementwise(_function))


# PyTensor's gradients multiply by conditions, or choose 0 by them: each condition is
# computed once.


@rule("Mul")
def _(op: "Op", node: "Apply", *inputs: Value) -> object:
    dtype = node.outputs[0].type.dtype
    factors = [stored_once(x) if x.dtype == BOOL else x for x in inputs]
    product: Value = reduce(operator.mul, [to_float(x, dtype) for x in factors])
    return product


@rule("Switch")
def _(op: "Op", node: "Apply", condition: Value, x: Value, y: Value) -> object:
    dtype = node.outputs[0].type.dtype
    chosen = truth(condition)
    if _is_zero(x) or _is_zero(y):
        chosen = stored_once(chosen)
    return gt.where(chosen, to_float(x, dtype), to_float(y, dtype))


def _is_zero(value: Value) -> bool:
    """Whether a value is the number 0, of any rank."""
    while value.node.primitive is OP.expand_dims:
        value = value.node.inputs[0]
    array = literal_of(value)
    return array is not None and not array.any()


@rule("PolyGamma")
def _(op: "Op", node: "Apply", order: Value, x: Value) -> object:
    x = to_float(x, node.outputs[0].type.dtype)
    return special.polygamma(gt.astype(order, "int64"), x)


@rule("Cast")
def _(op: "Op", node: "Apply", x: Value) -> object:
    return gt.astype(x, node.outputs[0].type.dtype)


@rule("Complex", "ComplexFromPolar")
def _(op: "Op", node: "Apply", x: Value, y: Value) -> object:
    """Compute in the dtype of the parts of the result."""
    part = "float32" if node.outputs[0].type.dtype == "complex64" else "float64"
    x, y = gt.broadcast_arrays(gt.astype(x, part), gt.astype(y, part))
    if type(op).__name__ == "Complex":
        return F._from_parts(x, y)
    return F._from_parts(x * gt.cos(y), x * gt.sin(y))


rule("Real")(lambda op, node, x: gt.real(x))
rule("Imag")(lambda op, node, x: gt.imag(x))
rule("Angle")(lambda op, node, x: gt.angle(x))


@rule("Composite")
def _(op: "Op", node: "Apply", *inputs: Value) -> object:
    return convert_graph(op.fgraph.outputs, op.fgraph.inputs, inputs)


@rule("ScalarLoop")
def _(op: "Op", node: "Apply", steps: Value, *inputs: Value) -> object:
    """Run each element for its own number of steps; it then waits for the others.

    If the loop has a condition to stop, whether it has held is an output too; it counts
    as held where there are no steps.
    """
    inner, count = op.fgraph, len(op.outputs) - op.is_while
    limit, *wide = gt.broadcast_arrays(steps, *inputs)
    start, fixed = wide[:count], wide[count:]

    def going(state: Sequence[Value]) -> Value:
        return gt.any(state[1])

    def step(state: Sequence[Value]) -> object:
        i, active, carry = state
        results = convert_graph(inner.outputs, inner.inputs, [*carry[:count], *fixed])
        after = [gt.where(active, a, b) for a, b in zip(results, carry, strict=True)]
        more = active & (i + 1 < limit)
        return i + 1, (more & ~results[count] if op.is_while else more), after

    none = [gt.ones(limit.shape, "bool")] if op.is_while else []
    zero = gt.astype(gt.asarray(0), "int64")
    return gt.while_loop(going, step, (zero, limit > 0, [*start, *none]))[2]
