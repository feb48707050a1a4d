"""`take` and `take_along_axis`: indexing along one axis, by name."""

from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_value, normal_axis, strong
from graphc.ir.graph import Value
from graphc.ir.namespace import F, public
from graphc.ops.indexing.parse import FULL


@public(method=True)
def take(x: Any, indices: Any, /, axis: int | None = None) -> Value:
    """The elements at integer positions along `axis`, as `numpy.take`."""
    value = strong(as_value(x))
    if axis is None:
        value, axis = F.ravel(value), 0
    before = (FULL,) * normal_axis(axis, value.type.rank, "take")
    none = isinstance(indices, (list, tuple)) and not indices
    return F.getitem(value, (*before, [] if none else as_value(indices)))


@public()
def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Value:
    """One element per row along `axis`, as `numpy.take_along_axis`."""
    value, index = strong(as_value(x)), strong(as_value(indices))
    if value.type.rank != index.type.rank:
        raise graph_error(
            "needs as many axes in the indices as in the array",
            op="take_along_axis",
            got=f"{value.type}, {index.type}",
        )
    chosen = normal_axis(axis, value.type.rank, "take_along_axis")
    places: list[Any] = []
    for a in range(value.type.rank):
        if a == chosen:
            places.append(index)
            continue
        others = tuple(b for b in range(value.type.rank) if b != a)
        places.append(F.expand_dims(F.arange(value.shape[a]), others))
    return F.getitem(value, tuple(places))
