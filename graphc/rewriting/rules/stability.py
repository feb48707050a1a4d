"""Forms that keep their accuracy where the written ones lose it.

Results differ by rounding where the written form is accurate. Where the written form
overflows, underflows or cancels, and so gives 0, an infinity or NaN, the new form gives
the number itself.
"""

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import is_float, same_shape
from graphc.rewriting.engine.rule import IsKept, Rules, rewrite
from graphc.rewriting.match.pattern import CountUses, once, p, v
from graphc.rewriting.match.sizes import Axes


def _is_float_of(x: Value, y: Value) -> bool:
    """Whether `x` has real floats, and the shape of a result."""
    return is_float(x.dtype) and same_shape(x.type.shape, y.type.shape)


@rewrite(v.y(p.log(once(p.add(1, v.x)))), exact=False)
def log_one_plus(x: Value, y: Value) -> Value | None:
    """log(1 + x) where x is small."""
    return F.log1p(x) if _is_float_of(x, y) else None


@rewrite(v.y(p.log(once(p.subtract(1, v.x)))), exact=False)
def log_one_minus(x: Value, y: Value) -> Value | None:
    """log(1 - x) where x is small."""
    return F.log1p(-x) if _is_float_of(x, y) else None


@rewrite(v.y(p.subtract(once(p.exp(v.x)), 1)), exact=False)
def exp_minus_one(x: Value, y: Value) -> Value | None:
    """exp(x) - 1 where x is small."""
    return F.expm1(x) if _is_float_of(x, y) else None


@rewrite(p.log(once(p.expit(v.x))), exact=False)
def log_of_sigmoid(x: Value) -> Value | None:
    """log(sigmoid(x)) far below zero."""
    return -F.logaddexp(-x, 0) if is_float(x.dtype) else None


@rewrite(p.log1p(once(p.exp(v.x))), exact=False)
def log_one_plus_exp(x: Value) -> Value | None:
    """log(1 + exp(x)), softplus, where exp(x) overflows; that of -|x| never does."""
    safe = x.node.primitive is OP.negative and _is_absolute(x.node.inputs[0])
    return F.logaddexp(x, 0) if is_float(x.dtype) and not safe else None


def _is_absolute(x: Value) -> bool:
    return x.node.primitive is OP.absolute


@rewrite(v.y(p.logaddexp(v.x, 0)), exact=False)
def log_add_exp_of_zero(x: Value, y: Value) -> Value | None:
    """softplus without the tests for infinities that two free sides need."""
    if not _is_float_of(x, y) or x.dtype != y.dtype:
        return None
    return F.maximum(x, 0) + F.log1p(F.exp(-F.absolute(x)))


@rewrite(v.y(p.subtract(1, once(p.expit(v.x)))), exact=False)
def one_minus_sigmoid(x: Value, y: Value) -> Value | None:
    """1 - sigmoid(x) is sigmoid(-x), where that is near 0."""
    return F.special.expit(-x) if _is_float_of(x, y) else None


@rewrite(
    p.log(once(p.sum(once(p.exp(v.x)), axes=v.axes, keepdims=v.keepdims))), exact=False
)
def log_of_sum_of_exp(x: Value, axes: Axes, keepdims: bool) -> Value | None:
    """log(sum(exp(x))) where exp(x) overflows, or all of it underflows."""
    if not is_float(x.dtype) or not axes or _is_shifted(x):
        return None
    return F.nn.logsumexp(x, axis=axes, keepdims=keepdims)


_EXP = v.e(p.exp(v.x))


@rewrite(
    v.y(p.true_divide(_EXP, p.sum(v.e, axes=v.axes, keepdims=v.keepdims))),
    exact=False,
    finite=True,
)
def written_softmax(
    y: Value,
    x: Value,
    e: Value,
    axes: Axes,
    keepdims: bool,
    uses: CountUses,
    is_kept: IsKept,
) -> Value | None:
    """exp(x) / sum(exp(x)) where exp(x) overflows, or all of it underflows."""
    if uses(e) > 2 or is_kept(e):
        return None  # exp(x) would be computed all the same
    whole = len(axes) == x.type.rank  # a number stretches without kept axes
    if not is_float(x.dtype) or not axes or not (keepdims or whole):
        return None
    return None if _is_shifted(x) else F.nn.softmax(x, axis=axes)


def _is_shifted(x: Value) -> bool:
    """Whether the largest element has been subtracted, as stable forms do."""
    if x.node.primitive is not OP.subtract:
        return False
    peak = x.node.inputs[1]
    while peak.node.primitive in (OP.where, OP.stop_gradient, OP.expand_dims):
        chosen = peak.node.primitive is OP.where
        peak = _general_branch(peak) if chosen else peak.node.inputs[0]
    return peak.node.primitive in (OP.max, OP.max_from)


def _general_branch(choice: Value) -> Value:
    """Return the branch of a `where` that is not a constant for infinite peaks."""
    _, one, other = choice.node.inputs
    return other if literal_of(one) is not None else one


@rewrite(
    p.log(once(p.true_divide(p.exp(v.s), v.total(p.sum(p.exp(v.s)))))), exact=False
)
def log_of_softmax(s: Value, total: Value) -> Value | None:
    """log(softmax(x)) where softmax(x) underflows; s is x less its maximum."""
    return s - F.log(total) if is_float(s.dtype) else None


STABILITY = Rules(
    (
        log_one_plus,
        log_one_minus,
        exp_minus_one,
        log_of_sigmoid,
        log_one_plus_exp,
        log_add_exp_of_zero,
        one_minus_sigmoid,
        log_of_sum_of_exp,
        written_softmax,
        log_of_softmax,
    )
)
