"""Rows put between others, written so that XLA sees that devices send few rows."""

from collections.abc import Callable, Sequence
from types import ModuleType

from graphc.ir.types import JaxArray


def rows_joined(jnp: ModuleType, arrays: Sequence[JaxArray], axis: int) -> JaxArray:
    """Printed into programs: arrays one after the other, of which few rows are moved.

    Of several arrays side by side XLA gathers all; each of them with room around it is
    sent from neighbour to neighbour.
    """
    count = sum(x.shape[axis] for x in arrays)
    places = jnp.arange(count).reshape([-1] + [1] * (arrays[0].ndim - axis - 1))
    moved, starts, stop = [], [], 0
    for x in arrays:
        starts.append(stop)
        stop += x.shape[axis]
        widths = [(0, 0)] * x.ndim
        widths[axis] = (starts[-1], count - stop)
        moved.append(jnp.pad(x, widths))
    joined = moved[0]
    for start, x in zip(starts[1:], moved[1:]):  # noqa: B905
        joined = jnp.where(places < start, joined, x)
    return joined


def rows_written(
    jnp: ModuleType,
    x: JaxArray,
    rows: JaxArray,
    start: int,
    stop: int,
    axis: int,
    merge: Callable[[JaxArray, JaxArray], JaxArray],
) -> JaxArray:
    """Printed into programs: the array with rows merged into it, from `start` on.

    For a slice that is written to, XLA gathers both.
    """
    part = [stop - start if a == axis else n for a, n in enumerate(x.shape)]
    rows = jnp.broadcast_to(rows, part)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (start, x.shape[axis] - stop)
    places = jnp.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - axis - 1))
    inside = (places >= start) & (places < stop)
    return jnp.where(inside, merge(x, jnp.pad(rows, widths).astype(x.dtype)), x)
