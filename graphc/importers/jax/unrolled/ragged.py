"""Values of a loop whose shapes differ between its steps, as rows of one array.

A step pads such a value with zeros to the largest shape. Later records, such as those
of a gradient, read the part of each row that is not padding.
"""

from collections.abc import Sequence

import numpy as np

from graphc.errors import SourceLocation
from graphc.importers.jax.unrolled.params import split_params
from graphc.importers.jax.unrolled.reading import Records
from graphc.importers.jax.unrolled.records import (
    FilledArray,
    IndexItem,
    Moving,
    PartRead,
    RecordedStep,
    ValueRef,
)
from graphc.ir.sizes.dims import Size
from graphc.ops.indexing.scatter import SLICE_UPDATE


def are_evenly_spaced(shapes: Sequence[tuple[Size, ...]]) -> bool:
    """Whether each size grows by the same number from one step to the next."""
    sizes = np.array(shapes, int)
    return not np.diff(sizes, 2, axis=0).any()


def padded(
    value: int,
    shapes: Sequence[tuple[Size, ...]],
    records: Records,
    place: SourceLocation,
) -> RecordedStep:
    """The step that pads a value, of these shapes in all steps, to the largest one."""
    sizes, type = np.array(shapes, int), records.types[value]
    largest = sizes.max(axis=0).tolist()
    zero = records.table(np.zeros((), type.dtype), type.weak)
    zeros = FilledArray(zero, tuple([Moving(n, (0,)) for n in largest]))
    ends = zip(sizes[0].tolist(), (sizes[1] - sizes[0]).tolist(), strict=True)
    items = [
        IndexItem("s", Moving(0, (0,)), Moving(n, (distance,)), None)
        for n, distance in ends
    ]
    form, _ = split_params({"how": "set"})
    whole = type.like(largest)
    return RecordedStep(
        SLICE_UPDATE,
        form,
        (),
        (zeros, ValueRef(value)),
        (records.new_value(whole),),
        (whole,),
        place,
        tuple(items),
    )


def part_of_row(stack: int, step: int, shape: tuple[Size, ...]) -> PartRead:
    """The part of a row that has a value of this shape, before zeros."""
    row = IndexItem("i", Moving(step), None, None)
    sizes = [n for n in shape if isinstance(n, int)]
    parts = [IndexItem("s", Moving(0), Moving(n), None, n) for n in sizes]
    return PartRead(ValueRef(stack), (row, *parts))
