"""Recognise softmaxes, and masks that hide later keys or what lies behind an end."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import is_one
from graphc.ir.types import BOOL, is_float, same_size
from graphc.ops.common.axes import with_rank


class Softmax(NamedTuple):
    """A softmax along the last axis of the logits that `shown` marks, or of all."""

    logits: Value
    shown: Value | None = None


def softmax_of(value: Value) -> Softmax | None:
    """Recognise a softmax, which may be padded, with 0 behind what is shown."""
    value = unconverted(value)
    shown = _mask_of(value)
    weights = _before_hiding(value, 0.0, shown)
    if weights is None or unconverted(weights).node.primitive is not OP.true_divide:
        return None
    exps, total = unconverted(weights).node.inputs
    exps, summed = unconverted(exps), _reduced_operand(total, (OP.sum,), _AS_IT_IS)
    added = None if summed is None else _before_hiding(summed, 0.0, shown)
    if added is None or unconverted(added) is not exps:
        return None
    if exps.node.primitive is not OP.exp:
        return None
    shifted = unconverted(exps.node.inputs[0])
    if shifted.node.primitive is not OP.subtract:
        return None
    logits, peak = shifted.node.inputs
    largest = _reduced_operand(peak, (OP.max, OP.max_from), _AS_A_SHIFT)
    if largest is None or _before_hiding(largest, -math.inf, shown) is not logits:
        return None
    return Softmax(logits, shown)


# The steps after a reduction that keep its results, and those that may change them
# where all logits are infinite.
_AS_IT_IS = OP.convert, OP.expand_dims
_AS_A_SHIFT = *_AS_IT_IS, OP.stop_gradient, OP.where, OP.maximum


def _mask_of(value: Value) -> Value | None:
    """Return the mask of a padded value: of the elements there are on the last axis."""
    mask = value.node.inputs[0] if value.node.primitive is OP.where else None
    return None if mask is None or shown_count(mask) is None else mask


def _before_hiding(value: Value, hidden: float, shown: Value | None) -> Value | None:
    """Return a value before `hidden` replaced all that is not `shown`, or None.

    If everything is shown, that is the value itself.
    """
    if shown is None:
        return value
    if value.node.primitive is not OP.where:
        return None
    mask, inside, other = value.node.inputs
    return inside if mask is shown and number_of(other) == hidden else None


def unconverted(value: Value) -> Value:
    """Return a value before its conversion from one float to another, if any."""
    node = value.node
    if node.primitive is OP.convert and is_float(node.inputs[0].dtype):
        return node.inputs[0]
    return value


def number_of(value: Value) -> float | None:
    """The float that a constant of rank 0 stands for."""
    literal = literal_of(value)
    if literal is None or literal.ndim or not is_float(literal.dtype):
        return None
    return float(literal)


def _reduced_operand(
    value: Value, reductions: Sequence[Primitive], steps: Sequence[Primitive]
) -> Value | None:
    """Return the operand of a reduction over the last axis, which is kept or put back.

    Some of the `steps` may follow the reduction: it may stand in a `where`, for where
    it is not finite, and in a maximum with -inf.
    """
    rank = value.type.rank
    while value.node.primitive in steps:
        node = value.node
        if node.primitive is OP.expand_dims and node.params["axes"] != (rank - 1,):
            return None
        at = 1 if node.primitive is OP.where else 0
        if node.primitive is OP.maximum:
            numbers = [number_of(x) for x in node.inputs]
            if -math.inf not in numbers:
                return None
            at = 1 - numbers.index(-math.inf)
        value = node.inputs[at]
    node = value.node
    if node.primitive not in reductions:
        return None
    if node.primitive is OP.max_from and number_of(node.inputs[1]) != -math.inf:
        return None
    operand = node.inputs[0]
    last = operand.type.rank == rank and node.params["axes"] == (rank - 1,)
    return operand if last else None


def shown_count(mask: Value) -> Value | None:
    """Return how many first elements of the last axis a mask shows, or None.

    All other axes of the mask have size 1.
    """
    *others, last = mask.type.shape or (1,)
    if not all(map(is_one, others)) or is_one(last):
        return None
    node = _without_leading_ones(mask).node
    if node.primitive is not OP.less or not _is_position(node.inputs[0], 1):
        return None
    count = node.inputs[1]
    return None if count.type.rank else count


def shown_lengths(mask: Value, shows: bool) -> Value | None:
    """Return the lengths up to which `mask` shows the elements of its last axis.

    Along the last axis the lengths have size 1; their other axes are those of the mask,
    which `shows` elements by True or by False. None if the mask has another form.
    """
    expanded = list[tuple[int, ...]]()
    node = mask.node
    while node.primitive is OP.expand_dims:
        expanded.append(node.params["axes"])
        node = node.inputs[0].node
    at = _SHORTER.get((node.primitive, shows))
    if at is None or is_one(mask.type.shape[-1]):
        return None
    if not _is_position(node.inputs[at], 1):
        return None
    lengths, rank = node.inputs[1 - at], node.outputs[0].type.rank
    if lengths.dtype.kind != "i" or lengths.node.primitive is OP.constant:
        return None
    lengths = with_rank(lengths, rank)
    if not rank or not is_one(lengths.type.shape[-1]):
        return None
    for axes in reversed(expanded):
        lengths = F.expand_dims(lengths, axes)
    return lengths if is_one(lengths.type.shape[-1]) else None


# By comparison, and the bool for elements before the end: which operand is the place.
_SHORTER = {
    (OP.less, True): 0,
    (OP.greater, True): 1,
    (OP.greater_equal, False): 0,
    (OP.less_equal, False): 1,
}


def is_causal(mask: Value, shows: bool) -> bool:
    """Whether a mask hides the keys, along the last axis, that follow their query.

    The mask `shows` keys by True or by False. Queries are along the axis before the
    last.
    """
    mask = _without_leading_ones(mask)
    while (condition := _condition(mask)) is not None:
        mask = _without_leading_ones(condition)
    shown, at = {
        OP.greater_equal: (True, 0),
        OP.less_equal: (True, 1),
        OP.less: (False, 0),
        OP.greater: (False, 1),
    }.get(mask.node.primitive, (not shows, 0))
    if shown is not shows or mask.type.rank < 2:
        return False
    query, key = mask.node.inputs[at], mask.node.inputs[1 - at]
    rows, keys = mask.type.shape[-2:]
    if is_one(rows) or not same_size(rows, keys):
        return False
    return _is_position(query, 2) and _is_position(key, 1)


def _condition(mask: Value) -> Value | None:
    """The bools of where(bools, True, False), as of `jnp.tril`, and of `gt.tri` > 0."""
    node = mask.node
    if node.primitive is OP.where:
        condition, *both = node.inputs
        return condition if [literal_of(x) for x in both] == [True, False] else None
    if (
        node.primitive is not OP.greater
        or node.inputs[0].node.primitive is not OP.convert
    ):
        return None
    (operand,), limit = node.inputs[0].node.inputs, literal_of(node.inputs[1])
    return (
        operand if operand.dtype == BOOL and limit is not None and limit == 0 else None
    )


def _without_leading_ones(value: Value) -> Value:
    """Return a value before axes of size 1 were put in front."""
    while value.node.primitive is OP.expand_dims:
        axes = value.node.params["axes"]
        if axes != tuple(range(len(axes))):
            break
        value = value.node.inputs[0]
    return value


def _is_position(value: Value, axis: int) -> bool:
    """Whether a value is the position along the axis that is `axis` from the end."""
    shape = value.type.shape
    others = (n for a, n in enumerate(shape) if a != len(shape) - axis)
    if len(shape) < axis or not all(map(is_one, others)):
        return False
    node = value.node
    while node.primitive in (OP.convert, OP.expand_dims):
        if node.outputs[0].dtype.kind != "i" or node.outputs[0].dtype.itemsize < 4:
            return False
        node = node.inputs[0].node
    params = node.params
    counts = node.primitive is OP.iota and node.outputs[0].dtype.kind == "i"
    return counts and (params["start"], params["step"]) == (0, 1)
