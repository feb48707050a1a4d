"""Rules for logarithms of sums of exponentials from PyTensor, applied before gradients.

PyTensor takes the largest exponent out of a sum, so that nothing overflows. The result
is the same whichever number is taken out, so its derivative in that number is 0. Found
term by term, this 0 is a sum over all elements: it leaves rounding errors, and ties
must be known.
"""

from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import is_float
from graphc.rewriting.engine.rule import Rules, rewrite
from graphc.rewriting.match.pattern import p, v
from graphc.rewriting.match.sizes import Axes

_TERMS = p.where(p.isinf(v.peak), p.exp(v.peak), p.exp(p.subtract(v.x, v.peak)))
_SUM = p.sum(_TERMS, axes=v.axes, keepdims=False)


@rewrite(p.add(v.largest, p.log(_SUM)), exact=False)
def log_sum(x: Value, largest: Value, peak: Value, axes: Axes) -> Value | None:
    """Replace max(x) + log(sum(exp(x - max(x)))) by `logsumexp`."""
    if _largest(x, peak, axes) is not largest:
        return None
    return F.nn.logsumexp(x, axis=axes)


@rewrite(p.add(v.peak, p.log(p.expand_dims(_SUM, axes=v.axes))), exact=False)
def log_sum_with_axes(x: Value, peak: Value, axes: Axes) -> Value | None:
    """Replace the sum of `log_sum` where the axes summed over are kept with size 1."""
    if _largest(x, peak, axes) is None:
        return None
    return F.nn.logsumexp(x, axis=axes, keepdims=True)


def _largest(x: Value, peak: Value, axes: Axes) -> Value | None:
    """The largest elements along `axes`, if `peak` is them with axes added, or None."""
    if not is_float(x.dtype) or peak.node.primitive is not OP.expand_dims:
        return None
    largest = peak.node.inputs[0]
    node = largest.node
    same = node.primitive is OP.max and node.inputs == (x,)
    return largest if same and node.params["axes"] == axes else None


LOG_SUMS = Rules((log_sum, log_sum_with_axes))
