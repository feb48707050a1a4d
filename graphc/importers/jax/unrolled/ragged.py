"""Values of a loop whose shapes differ between its steps, as arrays of one shape.

Such a value is padded with zeros to the largest shape. In the steps that follow, and in
later records, as those of a gradient, the part that is not padding is read.
"""

from collections.abc import Sequence

import numpy as np

from graphc.errors import SourceLocation
from graphc.importers.jax.unrolled.params import split_params
from graphc.importers.jax.unrolled.reading import Records
from graphc.importers.jax.unrolled.records import (
    FilledArray,
    IndexItem,
    IndexItems,
    Moving,
    PartRead,
    RecordedStep,
    StepOperand,
    ValueRef,
)
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ops.indexing.scatter import SLICE_UPDATE


def are_evenly_spaced(shapes: Sequence[Sequence[Size]]) -> bool:
    """Whether each size grows by the same number from one step to the next."""
    return not np.diff(np.array(shapes, int), 2, axis=0).any()


def largest_of(shapes: Sequence[Sequence[Size]]) -> tuple[int, ...]:
    """The shape that holds arrays of all these shapes."""
    return tuple(np.array(shapes, int).max(axis=0).tolist())


def padded(
    operand: StepOperand,
    shapes: Sequence[Sequence[Size]],
    largest: Sequence[Size],
    records: Records,
    place: SourceLocation,
) -> RecordedStep:
    """The step that pads an array to the `largest` shape.

    It has these shapes in the steps of a loop, or one outside of loops.
    """
    type, sizes = records.type_of(operand), np.array(shapes, int)
    distances = np.diff(sizes, axis=0)[:1].T.tolist()
    steady = (0,) * len(distances[0]) if distances else ()
    zero = records.table(np.zeros((), type.dtype), type.weak)
    zeros = FilledArray(zero, tuple([Moving(n, steady) for n in largest]))
    items = [
        IndexItem("s", Moving(0, steady), Moving(n, tuple(distance)), None)
        for n, distance in zip(sizes[0].tolist(), distances, strict=True)
    ]
    form, _ = split_params({"how": "set"})
    whole = type.like(tuple(largest))
    return RecordedStep(
        SLICE_UPDATE,
        form,
        (),
        (zeros, operand),
        (records.new_value(whole),),
        (whole,),
        place,
        tuple(items),
    )


def part_of_row(stack: int, step: int, shape: Sequence[Size]) -> PartRead:
    """The part of a row that has a value of this shape, before zeros."""
    row = IndexItem("i", Moving(step), None, None)
    return PartRead(ValueRef(stack), (row, *_slices_of(shape, 0)))


def part_of(whole: PartRead, items: IndexItems, depth: int) -> PartRead:
    """The part with these items of a row, or of its part, if none goes backwards."""
    rows = tuple([item for item in whole.items if item.kind == "i"])
    stops = [item.stop for item in whole.items[len(rows) :]]
    if not stops:
        return PartRead(whole.source, rows + items)
    shape = [stop.start for stop in stops if stop is not None]
    part = part_before_zeros(items, shape, depth)
    assert part is not None
    return PartRead(whole.source, (*rows, *part))


def part_before_zeros(
    items: IndexItems, shape: Sequence[Size], depth: int
) -> IndexItems | None:
    """The items that read from a padded array what `items` read from one of this shape.

    They stand within so many loops. Returns None for slices that go backwards, or
    begin behind the end.
    """
    whole = _slices_of(shape, depth)
    bounded, axis = list[IndexItem](), 0
    for item in items:
        before = _before_end(item, whole[axis]) if item.kind == "s" else item
        if before is None:
            return None
        axis += item.kind != "n"
        bounded.append(before)
    return (*bounded, *whole[axis:])


def _before_end(item: IndexItem, whole: IndexItem) -> IndexItem | None:
    """A slice that ends where the axis does, of which `whole` has all elements."""
    if (item.step or 1) < 0 or whole.stop is None:
        return None
    if item.moves:  # and has all elements between its bounds
        return item
    stop, size = item.stop, whole.stop
    if stop is None or dims.less_equal(size.start, stop.start):
        stop = size
    if item.start is not None and not dims.less_equal(item.start.start, stop.start):
        return None
    return item._replace(stop=stop)


def _slices_of(shape: Sequence[Size], depth: int) -> list[IndexItem]:
    """The slices of all elements of an array, within so many loops."""
    steady = (0,) * depth
    sizes = [n for n in shape if isinstance(n, int)]
    return [
        IndexItem("s", Moving(0, steady), Moving(n, steady), None, n) for n in sizes
    ]
