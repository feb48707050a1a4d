"""The padding of axes that are reduced, and NaN in complex extremes."""

from collections.abc import Sequence

from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ops.common.axes import along_axis, with_size
from graphc.ops.common.monoids import Monoid
from graphc.ops.common.padding import PaddedValue, Padding


def filled_to_reduce(
    pad: Padding, x: PaddedValue, axes: tuple[int, ...], monoid: Monoid
) -> Value:
    """Fill the padding of `axes` in `x` with an element that changes no result.

    This is the neutral element, except for extremes of complex numbers: of NaN and
    another number XLA takes the second one, so there the last element is repeated.
    """
    dtype = x.value.dtype
    filled = pad.filled(x, axes, monoid.neutral(dtype))
    if not (monoid.ordered and dtype.kind == "c"):
        return filled
    rank = x.type.rank
    for axis in x.ragged(axes):
        size = x.type.shape[axis]
        at_end = F.equal(pad.positions(size), pad.length(size) - 1)
        at_end = along_axis(at_end, axis, rank)
        end = F.sum(F.where(at_end, filled, 0), axis=axis, keepdims=True)
        inside = pad.mask(size, axis, rank)
        filled = F.where(inside | F.equal(pad.length(size), 0), filled, end)
    return filled


def extreme_of_complex(
    plain: Primitive,
    start: Primitive,
    value: Value,
    initial: Value | None,
    axes: Sequence[int],
    keepdims: bool,
) -> Value:
    """The extreme of complex numbers, or the first number that has a NaN part.

    XLA passes over a NaN in the imaginary part. `plain` reduces the elements alone,
    `start` from `initial`.
    """
    for axis in sorted(axes, reverse=True):
        if initial is None:
            extreme = plain(value, axes=(axis,), keepdims=True)
        else:
            extreme = start(value, initial, axes=(axis,), keepdims=True)
            first = F.broadcast_to(initial, with_size(value.type.shape, axis, 1))
            value = F.concatenate([first, value], axis=axis)
        place = F.argmax(F.isnan(value), axis=axis, keepdims=True)
        number = F.take_along_axis(value, place, axis=axis)
        value = F.where(F.isnan(number), number, extreme)
    return value if keepdims else F.squeeze(value, axis=tuple(axes))
