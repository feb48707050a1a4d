"""Rules for known integers: object arrays of sizes in, an object array out.

A rule gives None, as a whole or for one element, if its result is not known before the
call. See `Primitive.sizes`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.types import NDArray
from graphc.ops.common.broadcasting import Ufunc

KnownSizes = Any  # an object array of sizes, or a single one


def by_item(function: Callable[..., object], count: int) -> Callable[..., KnownSizes]:
    """A rule that applies a function of `count` sizes element by element."""
    return np.frompyfunc(function, count, 1)


minima: Callable[..., KnownSizes] = by_item(dims.minimum, 2)
maxima: Callable[..., KnownSizes] = by_item(dims.maximum, 2)


def as_numbers(sizes: KnownSizes) -> NDArray | None:
    """The sizes as an array of int64; None if one is symbolic or too large."""
    array = np.asarray(sizes, dtype=object)
    if not all(type(n) is int and -(2**63) <= n < 2**63 for n in array.flat):
        return None
    return array.astype("int64")


def by_numpy(function: Callable[..., object]) -> Callable[..., KnownSizes]:
    """A rule that applies a NumPy function if all sizes are numbers."""

    def rule(*sizes: KnownSizes, **params: Param) -> KnownSizes:
        arrays = [as_numbers(n) for n in sizes]
        if any(n is None for n in arrays):
            return None
        return np.asarray(function(*arrays, **params)).astype(object)

    return rule


def by_fold(function: Ufunc) -> Callable[..., KnownSizes]:
    """A rule for the reduction by a function of two sizes."""

    def rule(x: KnownSizes, *, axes: Sequence[int], keepdims: bool) -> KnownSizes:
        if 0 in [x.shape[axis] for axis in axes]:
            return None
        for axis in sorted(axes, reverse=True):
            x = np.asarray(function.reduce(x, axis=axis, keepdims=keepdims), object)
        return x

    return rule


def by_scan(function: Ufunc) -> Callable[..., KnownSizes]:
    """A rule for the cumulative form of a function of two sizes."""
    return lambda x, axis: function.accumulate(x, axis=axis)


def _known_places(
    x: KnownSizes, indices: Sequence[KnownSizes], axes: Sequence[int]
) -> tuple[object, ...] | None:
    """The index for known positions; None if one is unknown or out of bounds."""
    items: list[Any] = [slice(None)] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        positions, n = as_numbers(index), x.shape[axis]
        if positions is None or not np.all((-n <= positions) & (positions < n)):
            return None
        items[axis] = positions
    return tuple(items)


def gathered_sizes(
    x: KnownSizes, *indices: KnownSizes, axes: Sequence[int], inside: ArrayLike
) -> KnownSizes:
    """The rule of a read at known positions."""
    places = _known_places(x, indices, axes)
    return None if places is None else x[places]


def repeated_sizes(
    x: KnownSizes, counts: KnownSizes, *, total: int, axis: int
) -> KnownSizes:
    """The rule of repeats by known counts."""
    known_counts = as_numbers(counts)
    if known_counts is None or known_counts.min(initial=0) < 0:
        return None
    return np.repeat(x, known_counts, axis)


def scattered_sizes(
    x: KnownSizes,
    v: KnownSizes,
    *indices: KnownSizes,
    axes: Sequence[int],
    how: str,
    inside: Value,
) -> KnownSizes:
    """The rule of a write at known positions."""
    places = _known_places(x, indices, axes)
    if places is None or how != "set":
        return None
    new = x.copy()
    new[places] = v[()]
    return new


def is_symbolic(items: Sequence[object]) -> bool:
    """Whether a bound of a slice is symbolic."""
    return any(isinstance(bound, dims.Dim) for bound in items)
