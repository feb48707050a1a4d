"""Padded axes of results that a node only takes at one size, which is a number.

An array of counts for `minlength=5` meets five weights: it has five elements, or the
call is an error. So its first five elements are what the node needs, and no program
need know the true size.
"""

from collections.abc import Sequence

from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim, Size, maximum
from graphc.ir.types import TensorType, same_size
from graphc.ops.common.padding import PaddedValue

RequiredNumbers = Sequence[tuple[Size, int]]


def numbers_required(node: Node) -> RequiredNumbers:
    """The sizes that a node's guards require to be numbers, with these."""
    numbers: list[tuple[Size, int]] = []
    for guard in node.guards:
        if guard.relation != "==" or isinstance(guard.steps, Dim):
            continue
        for size, other in (guard.sides, guard.sides[::-1]):
            if isinstance(size, Dim) and isinstance(other, int):
                numbers.append((size, other))
    return numbers


def cut_to_numbers(x: PaddedValue, numbers: RequiredNumbers) -> PaddedValue:
    """Cut those padded axes whose true sizes must be numbers."""
    value, shape, axes = x.value, list(x.type.shape), set(x.axes)
    for axis in sorted(x.axes):
        for size, number in numbers:
            if same_size(size, shape[axis]):
                value = _first(value, axis, number)
                shape[axis] = number
                axes.discard(axis)
    return PaddedValue(value, TensorType(x.type.dtype, tuple(shape)), frozenset(axes))


def _first(x: Value, axis: int, count: int) -> Value:
    """The first elements along an axis, which has fewer only where the call fails."""
    lacking = as_value(F.size_value(maximum(0, count - x.type.shape[axis])))
    widths = [(0, lacking if a == axis else 0) for a in range(x.type.rank)]
    return F._part(F.pad(x, widths), axis, 0, count)
