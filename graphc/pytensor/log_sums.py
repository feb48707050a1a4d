"""Logarithms of sums of exponentials, converted so that nothing overflows.

PyTensor itself takes the largest exponent out of such a sum when it compiles. Its
rewrite is left out: a sum of no elements has no largest exponent, and the derivative in
the number taken out, which is 0, would be found term by term, with rounding errors.
"""

from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import is_float

PYTENSOR_REWRITE = "local_log_sum_exp"


def log(x: Value) -> Value:
    """log(x); `logsumexp` of the exponents where `x` is a sum of exponentials.

    As in PyTensor, it does not matter what else the exponentials are used for.
    """
    has_new_axes = x.node.primitive is OP.expand_dims  # those summed over, or others
    total = _before_cast(x.node.inputs[0] if has_new_axes else x)
    exponents = _summed_exponents(total)
    if exponents is None:
        return F.log(x)
    axes, keepdims = total.node.params["axes"], total.node.params["keepdims"]
    if _is_shifted(exponents, axes):
        return F.log(x)
    result = F.nn.logsumexp(F.astype(exponents, total.dtype), axes, keepdims=keepdims)
    result = F.astype(result, x.dtype)
    return F.expand_dims(result, x.node.params["axes"]) if has_new_axes else result


def _summed_exponents(total: Value) -> Value | None:
    """The `x` of sum(exp(x)), or None."""
    if total.node.primitive is not OP.sum or not is_float(total.dtype):
        return None
    terms = _before_cast(total.node.inputs[0])
    is_exp = terms.node.primitive is OP.exp and is_float(terms.dtype)
    return terms.node.inputs[0] if is_exp else None


def _is_shifted(exponents: Value, axes: object) -> bool:
    """Whether the largest exponent of each sum has been taken out by hand.

    The largest of another array, or along other axes, may be far from the exponents.
    """
    if exponents.node.primitive is not OP.subtract:
        return False
    numbers, peak = exponents.node.inputs
    if peak.node.primitive is not OP.expand_dims or peak.node.params["axes"] != axes:
        return False
    largest = peak.node.inputs[0].node
    if largest.primitive is not OP.max or largest.params["axes"] != axes:
        return False
    return largest.inputs[0] is numbers


def _before_cast(x: Value) -> Value:
    """The operand of a cast: PyTensor adds numbers of 32 bits up in 64 bits."""
    return x.node.inputs[0] if x.node.primitive is OP.convert else x
