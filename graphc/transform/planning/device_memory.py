"""The bytes of arguments and results that a device holds while a segment runs."""

from collections.abc import Callable, Iterable
from math import prod

from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Size
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import MeshLayout


def bytes_held(
    inputs: Iterable[Value],
    outputs: Iterable[Value],
    resolve: Callable[[Value], Value],
    layout: MeshLayout | None,
    place: Callable[[Value], MeshAxes | None],
) -> Size:
    """The bytes on each device, in terms of stored sizes.

    An array whose place JAX decides counts as whole. Arrays that XLA makes on the way
    come on top: only its compiler knows them.
    """
    arguments, results = (dict.fromkeys(map(resolve, vs)) for vs in (inputs, outputs))
    values = [*arguments, *results]
    if layout is None:
        return sum(v.type.size * v.dtype.itemsize for v in values)
    return sum(_bytes(v, layout, place(v)) for v in values)


def _bytes(value: Value, layout: MeshLayout, axes: MeshAxes | None) -> Size:
    if axes is None:
        return value.type.size * value.dtype.itemsize
    return prod(layout.local_shape(value, axes)) * value.dtype.itemsize
