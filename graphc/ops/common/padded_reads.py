"""Mask rules of ops that move the elements of an axis by its true size."""

from graphc.ir.build import as_value, cast
from graphc.ir.dims import Size, equal, less_equal
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import INT32
from graphc.ops.common.padding import Padding


def number(pad: Padding, size: Size) -> Value:
    """A true size as int32."""
    return cast(pad.length(size), INT32)


def is_known(pad: Padding, size: Size) -> bool:
    """Whether a size has nothing to do with those that are padded."""
    return all(equal(n, size) is True for n in (pad.exact(size), pad.stored(size)))


def places(size: Size) -> Value:
    """0, 1, 2 ... as int32."""
    found: Value = F.arange(F.size_value(size), dtype="int32")
    return found


def nonempty(x: Value, axis: int) -> Value:
    """With an element more where there may be none: one can be read at least."""
    if less_equal(1, x.type.shape[axis]) is True:
        return x
    found: Value = F.pad(x, [(0, int(a == axis)) for a in range(x.type.rank)])
    return found


def read(x: Value, axis: int, at: Value) -> Value:
    """The elements at these places of an axis; outside of it, any."""
    found: Value = F._gather(nonempty(x, axis), at, axes=(axis,), inside=(False,))
    return found


def moved(
    pad: Padding, x: Value, axis: int, n: Size, start: Value, size: Size, fill: Value
) -> Value:
    """The `n` elements of an axis from `start` on, in `size` that else hold `fill`."""
    at = places(size) - start
    inside = F.logical_and(at >= 0, at < number(pad, n))
    inside = F.expand_dims(inside, tuple(range(1, x.type.rank - axis)))
    found: Value = F.where(inside, read(x, axis, at), as_value(fill))
    return found
