"""Derivatives of samples by differences, and angles without their jumps."""

from typing import Any, NamedTuple

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    normal_axes,
    normal_axis,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import BOOL, is_integer
from graphc.ops.common.axes import AxisArgument, at_axis
from graphc.ops.common.broadcasting import as_inexact


class _SpacedSamples(NamedTuple):
    """Samples along one axis, and the gaps between them: a scalar, or a vector."""

    samples: Value
    axis: int
    gaps: Value

    def part(self, start: int | None, stop: int | None) -> Value:
        """The samples from `start` to `stop` along the axis."""
        samples: Value = self.samples[at_axis(self.axis, slice(start, stop))]
        return samples

    def gap(self, start: int | None, stop: int | None) -> Value:
        """The gaps from `start` to `stop`, in a shape that multiplies samples."""
        if self.gaps.type.rank == 0:
            return self.gaps
        after = tuple(range(1, self.samples.type.rank - self.axis))
        gaps: Value = F.expand_dims(self.gaps[start:stop], after)
        return gaps


@public()
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: AxisArgument = None, edge_order: int = 1
) -> Any:
    """The derivative of samples along each axis, as `numpy.gradient`.

    `varargs` are the distances between samples, or the vectors of their coordinates:
    one for all axes, or one for each; 1 where none is given. Inner samples take the
    differences of their neighbours, the ends formulas of order `edge_order`. The result
    is a value for one axis, else a tuple. Raises GraphError where an axis has fewer
    than `edge_order` + 1 samples.
    """
    value = as_strong_value(f)
    if value.dtype == BOOL:
        raise graph_error("needs numbers", op="gradient", got=str(value.type))
    if edge_order not in (1, 2):
        problem = "the order at the ends must be 1 or 2"
        raise graph_error(problem, op="gradient", got=repr(edge_order))
    value = as_inexact(value)
    axes = normal_axes(axis, value.type.rank, "gradient")
    if isinstance(axis, (tuple, list)):  # in the order given, as the distances are
        axes = tuple(normal_axis(a, value.type.rank, "gradient") for a in axis)
    spacings = _per_axis([as_value(s) for s in varargs or (1,)], len(axes))
    derivatives = [
        cast(
            _derivative(_pair_with_gaps(value, a, s, edge_order), edge_order),
            value.dtype,
        )
        for a, s in zip(axes, spacings, strict=True)
    ]
    return derivatives[0] if len(derivatives) == 1 else tuple(derivatives)


def _per_axis(spacings: list[Value], count: int) -> list[Value]:
    """One spacing per axis; a single scalar serves all axes."""
    if len(spacings) == 1 and not spacings[0].type.rank:
        return spacings * count
    if len(spacings) != count:
        problem = "needs one distance for all axes, or one spacing for each"
        got = f"{len(spacings)} for {count}"
        raise graph_error(problem, op="gradient", got=got)
    return spacings


def _pair_with_gaps(
    value: Value, axis: int, distances: Value, edge_order: int
) -> _SpacedSamples:
    """Pair the samples along an axis with their gaps; check that there are enough."""
    n = value.type.shape[axis]
    reason = "an axis has fewer samples than edge_order + 1"
    value = F._at_most(edge_order + 1, n, reason, value, "gradient")
    if distances.type.rank > 1:
        problem = "distances are scalars, or vectors of coordinates"
        raise graph_error(problem, op="gradient", got=str(distances.type))
    if distances.type.rank == 0:
        return _SpacedSamples(value, axis, distances)
    points = as_inexact(distances)
    return _SpacedSamples(value, axis, F.diff(F.specify_shape(points, (n,))))


def _derivative(along: _SpacedSamples, edge_order: int) -> Value:
    ends = _first_order_ends if edge_order == 1 else _second_order_ends
    first, last = ends(along)
    return F.concatenate([first, _inner_slopes(along), last], axis=along.axis)


def _inner_slopes(along: _SpacedSamples) -> Value:
    """Second-order differences at samples that have a neighbour on either side."""
    before, here, after = along.part(None, -2), along.part(1, -1), along.part(2, None)
    if along.gaps.type.rank == 0:
        return (after - before) / (2.0 * along.gaps)
    left, right = along.gap(None, -1), along.gap(1, None)
    both = left + right
    slope = after * (left / (right * both)) - before * (right / (left * both))
    return slope + here * ((right - left) / (left * right))


def _first_order_ends(along: _SpacedSamples) -> tuple[Value, Value]:
    start, stop = along.part(None, 2), along.part(-2, None)
    first = F.diff(start, axis=along.axis) / along.gap(None, 1)
    return first, F.diff(stop, axis=along.axis) / along.gap(-1, None)


def _second_order_ends(along: _SpacedSamples) -> tuple[Value, Value]:
    """The derivatives at both ends, of parabolas through the three nearest samples."""
    uniform = along.gaps.type.rank == 0
    start = along.part(None, 1), along.part(1, 2), along.part(2, 3)
    stop = along.part(-1, None), along.part(-2, -1), along.part(-3, -2)
    near, far = along.gap(None, 1), along.gap(None if uniform else 1, 2)
    first = _end_slope(*start, near, far)
    near, far = along.gap(-1, None), along.gap(-2, None if uniform else -1)
    return first, -_end_slope(*stop, near, far)


def _end_slope(
    end: Value, next_to_it: Value, third: Value, near: Value, far: Value
) -> Value:
    """The slope at the end of three samples, towards the other two."""
    both = near + far
    slope = next_to_it * (both / (near * far)) - third * (near / (far * both))
    return slope - end * ((near + both) / (near * both))


@public()
def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: int = -1,
    *,
    period: ArrayLike = 2 * np.pi,
) -> Value:
    """Angles with whole periods added, so that each is close to the one before it.

    A step of more than half of `period` (and of more than `discont`, if that is given)
    becomes the smallest step that leads to the same angle, as in `numpy.unwrap`.
    """
    value = as_strong_value(p)
    at = normal_axis(axis, value.type.rank, "unwrap")
    step = F.diff(value, axis=at)
    whole = as_value(period)
    exact = is_integer((step + whole).dtype)
    half = whole // 2 if exact else whole / 2
    least = half if discont is None else discont
    turned = (step + half) % whole - half
    # Half a period is equally far in either direction: such a step keeps its own.
    halfway = F.logical_and(F.equal(turned, -half), step > 0)
    if exact:
        halfway = F.logical_and(halfway, F.equal(whole % 2, 0))
    change = F.where(halfway, half, turned) - step
    change = F.where(F.absolute(step) < least, 0, change)
    start = cast(value[at_axis(at, slice(None, 1))], change.dtype)
    later = value[at_axis(at, slice(1, None))] + F.cumsum(change, axis=at)
    return F.concatenate([start, cast(later, change.dtype)], axis=at)
