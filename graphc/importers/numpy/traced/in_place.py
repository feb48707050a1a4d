"""Methods of traced arrays that write or sort, and `x.flat`, a view of all elements.

As in NumPy, indexing `x.flat` gives copies, and the numbers that are written through it
are repeated until there are enough.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphc.importers.numpy.traced.arrays import (
    TracedArray,
    as_traced,
    call_on_arrays,
    compute_contents,
    content_of,
)
from graphc.importers.numpy.traced.memory import (
    Content,
    indexed,
    is_symbolic,
    require_real,
)
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F


class FlatElements(TracedArray):
    """`x.flat`: the elements in order, through which the array can be written."""

    __slots__ = ()

    def __getitem__(self, index: object) -> Any:
        return as_traced(indexed(self.content, content_of(index)))

    def __setitem__(self, index: object, new: object) -> None:
        index = content_of(index)
        require_real("flat", self.dtype, new)
        replaced = indexed(self.content, index)
        self.memory.write(index, repeated(content_of(new), replaced))


def repeated(numbers: Content, replaced: Content) -> Content:
    """Repeat `numbers` until there are as many as elements to be replaced.

    Where `numbers` is empty, nothing changes.
    """
    if isinstance(numbers, (list, tuple)):
        numbers = F.asarray(numbers) if is_symbolic(numbers) else np.asarray(numbers)
    if not np.ndim(numbers):
        return numbers
    enough = compute_contents(np.resize, (numbers, np.shape(replaced)), {})
    count = numbers.size
    if is_symbolic(count):
        return F.where(as_value(count) > 0, enough, replaced)
    return enough if count else replaced


def _flat(array: TracedArray) -> FlatElements:
    """A flat view of an array, which can be written."""
    return FlatElements(array.memory.rearranged(lambda content: content.reshape(-1)))


def _write_flat(array: TracedArray, new: object) -> None:
    _flat(array)[...] = new


def put(
    array: TracedArray, indices: object, values: object, mode: str = "raise"
) -> None:
    """`np.put`: write elements by their positions in the flat array."""
    elements = _flat(array)
    places, count = content_of(indices), elements.content.size
    if isinstance(places, (list, tuple)):
        places = np.asarray(places) if not is_symbolic(places) else F.asarray(places)
    if not isinstance(count, int):
        places = _require_some(places, count)
    if mode == "wrap":
        places = places % count
    elif mode == "clip":
        places = np.clip(places, 0, count - 1)
    elements[places] = values


def _require_some(places: Content, count: Value) -> Value:
    """Make calls raise IndexError for positions in an empty array."""
    fit = (count > 0) | (as_value(places).size == 0)
    message = "numpy.put: cannot replace elements of an empty array"
    return F.assert_(fit, message, as_value(places), IndexError)


def elements_with_places(array: Any) -> Iterator[tuple[tuple[int, ...], object]]:
    """`np.ndenumerate`: yield each index and the element there at that moment."""
    for index in np.ndindex(*map(int, array.shape)):
        yield index, array[index]


def _sort(array: TracedArray, axis: int = -1, **options: object) -> None:
    array.memory.write(..., content_of(call_on_arrays(np.sort, (array, axis), options)))


def _argsort(array: TracedArray, axis: int = -1, **options: object) -> object:
    return call_on_arrays(np.argsort, (array, axis), options)


def _partition(
    array: TracedArray, kth: object, axis: int = -1, **options: object
) -> None:
    partitioned = call_on_arrays(np.partition, (array, kth, axis), options)
    array.memory.write(..., content_of(partitioned))


def _fill(array: TracedArray, value: object) -> None:
    array[...] = value


def _squeeze(array: TracedArray, axis: object = None) -> object:
    return call_on_arrays(np.squeeze, (array, axis), {})


_METHODS: dict[str, object] = {
    "squeeze": _squeeze,
    "argsort": _argsort,
    "fill": _fill,
    "flat": property(_flat, _write_flat),
    "partition": _partition,
    "put": put,
    "sort": _sort,
}
for _name, _method in _METHODS.items():
    setattr(TracedArray, _name, _method)
