"""Loops that a model runs step by step: their steps are steps of the file."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from graphc_serving.kinds import NDArray, Shape, Shaped
from graphc_serving.steps import Formula, Step, StepError, StepValue, Walk, zeros

OneStep = Callable[[Sequence[StepValue]], list[Shaped]]


class Loop(NamedTuple):
    """A loop: the numbers of the values that it takes, and the steps of its body.

    The body takes the carries, one row of each of the `rows`, the `captures` and the
    `integers`. It gives the carries, whether to stop if there is a `going`, and the
    values to be `stacked`, of these dtypes and shapes. There are `length` steps at
    most, or as many as `counted` says; without either, the loop goes on until it stops.
    """

    carries: tuple[int, ...]
    rows: tuple[int, ...]
    captures: tuple[int, ...]
    integers: tuple[Formula, ...]
    length: Formula | None
    reverse: bool
    counted: int | None
    going: int | None
    name: str  # of the number of steps
    stacked: tuple[tuple[str, tuple[Formula, ...]], ...]
    body: tuple[Step, ...]
    results: tuple[int, ...]


class LoopValues(NamedTuple):
    """The values that a loop is given in a call."""

    carries: list[Shaped]
    rows: list[Shaped]
    captures: list[StepValue]
    length: int | None
    counted: Shaped | None
    going: Shaped | None
    shapes: list[Shape]


def values_for(loop: Loop, walk: Walk) -> LoopValues:
    """Collect the values for a loop."""
    flags = loop.counted, loop.going
    count, going = (None if i is None else walk.array(i) for i in flags)
    captures: list[StepValue] = list(map(walk.array, loop.captures))
    captures += walk.formulas(loop.integers)
    length = None if loop.length is None else walk.formula(loop.length)
    shapes = [walk.formulas(sizes) for _, sizes in loop.stacked]
    carries, rows = (list(map(walk.array, part)) for part in (loop.carries, loop.rows))
    return LoopValues(carries, rows, captures, length, count, going, shapes)


def run(loop: Loop, values: LoopValues, one: OneStep) -> list[Shaped]:
    """Run the steps; return the final carries, a count of steps, and the stacked rows.

    There is a count only if the loop may stop early.
    """
    stops, split = loop.going is not None, len(loop.carries)
    stacked: list[list[Shaped]] = [[] for _ in loop.stacked]
    going = not stops or bool(np.asarray(values.going))
    carries, limit = values.carries, _limit(values)
    given_rows, done = list(map(np.asarray, values.rows)), 0
    while going and (limit is None or done < limit):
        i = limit - 1 - done if loop.reverse and limit is not None else done
        results = one([*carries, *(x[i] for x in given_rows), *values.captures])
        if [x.shape for x in results[:split]] != [x.shape for x in carries]:
            raise StepError("a loop carries an array of another shape")
        going = not (stops and bool(np.asarray(results[split])))
        for rows, row in zip(stacked, results[split + stops :], strict=True):
            rows.append(row)
        carries = results[:split]
        done += 1
    dtypes = [dtype for dtype, _ in loop.stacked]
    parts = zip(stacked, dtypes, values.shapes, strict=True)
    ys = [_together(loop, values, limit, *part) for part in parts]
    return [*carries, *[np.int32(done)] * stops, *ys]


def _limit(values: LoopValues) -> int | None:
    """The most steps; raise StepError where rows are missing for them."""
    limit = values.length if values.counted is None else int(np.asarray(values.counted))
    rooms = [x.shape[0] for x in values.rows]
    rooms += [] if values.length is None else [values.length]
    if rooms and (limit is None or limit > min(rooms)):
        raise StepError("a loop has more steps than rows")
    return limit


def _together(
    loop: Loop,
    values: LoopValues,
    limit: int | None,
    rows: list[Shaped],
    dtype: str,
    shape: Shape,
) -> NDArray:
    """Join the rows in one array, with zeros for the steps that were left out."""
    count = len(rows) if values.length is None else values.length
    joined = zeros((count, *shape), np.dtype(dtype))
    for k, row in enumerate(rows):
        if tuple(row.shape) != shape:
            raise StepError("a loop stacks an array of another shape")
        joined[limit - 1 - k if loop.reverse and limit is not None else k] = row
    return joined
