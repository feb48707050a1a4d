"""The padding of an axis that is reduced."""

from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ops.common.monoids import Monoid
from graphc.ops.common.padding import PaddedValue, Padding


def filled_to_reduce(
    pad: Padding, x: PaddedValue, axes: tuple[int, ...], monoid: Monoid
) -> Value:
    """`x` with what changes no result in the padding of `axes`.

    This is the neutral element. But of NaN and another complex number XLA takes the
    second one as the extreme: there, the last element comes again and again.
    """
    dtype = x.value.dtype
    filled = pad.filled(x, axes, monoid.neutral(dtype))
    if not (monoid.ordered and dtype.kind == "c"):
        return filled
    for axis in x.ragged(axes):
        size = x.type.shape[axis]
        place = F.maximum(pad.length(size) - 1, 0)
        end = F._gather(filled, F.reshape(place, (1,)), axes=(axis,), inside=(True,))
        inside = pad.mask(size, axis, x.type.rank)
        filled = F.where(inside | F.equal(pad.length(size), 0), filled, end)
    return filled
