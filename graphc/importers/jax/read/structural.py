"""Rules of primitives that make arrays or rearrange their elements."""

from collections.abc import Sequence
from typing import Any

from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, maximum
from graphc.ir.types import INT32, INT64


@PRIMITIVES.define("dim_as_value", sizes=("dim",))
def _dim_as_value(eqn: Equation) -> Value:
    """Return a size as a value."""
    number = as_value(F.size_value(eqn.size("dim")))
    return cast(number, eqn.result.dtype)


@PRIMITIVES.define("broadcast_in_dim", sizes=("shape",))
def _broadcast_in_dim(eqn: Equation, x: Value, *_: Value) -> Value:
    """Axis i of `x` becomes axis `broadcast_dimensions[i]`; the others are new."""
    shape = eqn.result.shape
    input_axes = [int(i) for i in eqn.params["broadcast_dimensions"]]
    input_axes += range(
        len(shape) - x.type.rank + len(input_axes), len(shape)
    )  # words of keys
    if not x.type.rank and not all(equal(n, 1) for n in shape):
        return F.broadcast_to(x, shape)
    new = tuple(i for i in range(len(shape)) if i not in input_axes)
    return F.broadcast_to(F.expand_dims(x, new), shape)


@PRIMITIVES.define("reshape", sizes=("new_sizes",))
def _reshape(eqn: Equation, x: Value, *_: Value) -> Value:
    """Reshape an array whose elements are taken in a given order of the axes."""
    if eqn.params["dimensions"] is not None:
        x = F.transpose(x, eqn.params["dimensions"])
    shape = eqn.result.shape
    ones = [i for i, n in enumerate(x.type.shape) if equal(n, 1)]
    other_sizes = [n for i, n in enumerate(x.type.shape) if i not in ones]
    places = [i for i, n in enumerate(shape) if not equal(n, 1)]
    if _are_equal(other_sizes, [shape[i] for i in places]):  # but for axes of size 1
        new = tuple(i for i in range(len(shape)) if i not in places)
        return F.expand_dims(F.squeeze(x, tuple(ones)), new)
    return F.reshape(x, shape)


def with_axes_appended(x: Value, rank: int) -> Value:
    """`x` with axes of size 1 appended, up to `rank`; a scalar stays a scalar."""
    return F.expand_dims(x, tuple(range(x.type.rank, rank))) if x.type.rank else x


def _are_equal(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(equal(n, m) for n, m in zip(a, b, strict=True))


@PRIMITIVES.define("transpose")
def _transpose(eqn: Equation, x: Value) -> Value:
    """Reorder the axes; the words of keys stay last."""
    order = [*map(int, eqn.params["permutation"])]
    return F.transpose(x, (*order, *range(len(order), x.type.rank)))


@PRIMITIVES.define("squeeze")
def _squeeze(eqn: Equation, x: Value) -> Value:
    """Remove some axes of size 1."""
    return F.squeeze(x, tuple(eqn.params["dimensions"]))


@PRIMITIVES.define("rev")
def _rev(eqn: Equation, x: Value) -> Value:
    """Reverse the order along some axes."""
    return F.flip(x, tuple(eqn.params["dimensions"]))


@PRIMITIVES.define("empty2")
def _empty(eqn: Equation, *_: Value) -> Value:
    """An array whose elements are never read."""
    return F.zeros(tuple(map(F.size_value, eqn.result.shape)), eqn.result.dtype)


@PRIMITIVES.define("iota", sizes=("shape",))
def _iota(eqn: Equation, *_: Value) -> Value:
    """The position along one axis, for each element."""
    type, axis = eqn.result, eqn.params["dimension"]
    counted = type.dtype if type.dtype in (INT32, INT64) else INT64
    n = F.size_value(type.shape[axis])
    positions = cast(F.arange(n, dtype=counted), type.dtype)
    new = tuple(i for i in range(type.rank) if i != axis)
    return F.broadcast_to(F.expand_dims(positions, new), type.shape)


@PRIMITIVES.define("slice", sizes=("start_indices", "limit_indices", "strides"))
def _slice(eqn: Equation, x: Value) -> Value:
    """A slice along each axis, with constant bounds."""
    starts = eqn.shape("start_indices")
    limits = eqn.shape("limit_indices")
    steps = eqn.shape("strides") or (1,) * len(starts)
    return slice_of_axes(x, starts, limits, steps)


def slice_of_axes(
    x: Value, starts: Sequence[Size], limits: Sequence[Size], steps: Sequence[Size]
) -> Value:
    """A slice along the first axes; an axis that is taken whole stays as it is."""
    items: list[Any] = [slice(None)] * x.type.rank
    bounds = zip(x.type.shape, starts, limits, steps, strict=False)
    cut = []
    for i, (n, start, limit, step) in enumerate(bounds):
        if not (equal(start, 0) and equal(limit, n) and equal(step, 1)):
            items[i] = _slice_of(start, limit, step)
            cut.append(i)
    return x[tuple(items)] if cut else x


def _slice_of(start: Size, limit: Size, step: Size) -> object:
    """Bounds counted from the start: in JAX none is negative, but sizes here may be."""
    bounds = maximum(start, 0), maximum(limit, 0), step
    return slice(*map(F.size_value, bounds))


@PRIMITIVES.define("split", sizes=("sizes",))
def _split(eqn: Equation, x: Value) -> list[Value]:
    """Split one axis into consecutive parts."""
    axis, parts, at = eqn.params["axis"], [], 0
    ones, zeros = [1] * x.type.rank, [0] * x.type.rank
    for size in eqn.shape("sizes"):
        starts: list[Size] = [*zeros]
        limits = [*x.type.shape]
        starts[axis], limits[axis] = at, at + size
        parts.append(slice_of_axes(x, starts, limits, ones))
        at = at + size  # type: ignore[assignment]
    return parts


@PRIMITIVES.define("concatenate")
def _concatenate(eqn: Equation, *arrays: Value) -> Value:
    """Join the arrays along an axis."""
    return F.concatenate(arrays, eqn.params["dimension"])


@PRIMITIVES.define("stack")
def _stack(eqn: Equation, *arrays: Value) -> Value:
    """Join the arrays along a new axis."""
    return F.stack(arrays, eqn.params["axis"])


@PRIMITIVES.define("unstack")
def _unstack(eqn: Equation, x: Value) -> list[Value]:
    """The slices along one axis, each without that axis."""
    axis = eqn.params["axis"]
    return [F.take(x, i, axis=axis) for i in range(len(eqn.results))]


@PRIMITIVES.define("tile", sizes=("reps",))
def _tile(eqn: Equation, x: Value) -> Value:
    """Repeat the array along each axis."""
    return F.tile(x, tuple(map(F.size_value, eqn.shape("reps"))))


@PRIMITIVES.define("pad", sizes=("padding_config",))
def _pad(eqn: Equation, x: Value, fill: Value) -> Value:
    """Put `fill` around an array and between its elements; negative widths crop it."""
    config = eqn.shapes("padding_config")
    for axis, (_, _, between) in enumerate(config):
        x = x if equal(between, 0) else _spread(x, fill, axis, between)
    around = [(F.size_value(low), F.size_value(high)) for low, high, _ in config]
    return F.pad(x, around, constant_values=fill)


def _spread(x: Value, fill: Value, axis: int, between: Size) -> Value:
    """Put `between` elements `fill` between any two elements along an axis."""
    shape = [*x.type.shape]
    shape[axis] = maximum((shape[axis] - 1) * (between + 1) + 1, 0)
    every = slice(None, None, F.size_value(between + 1))
    wide = F.broadcast_to(fill, tuple(shape))
    return wide.at[(slice(None),) * axis + (every,)].set(x)


@PRIMITIVES.define("dce_sink")
def _dce_sink(eqn: Equation, *_: Value) -> Sequence[Value]:
    """No results: the primitive only makes JAX keep the computation of a value."""
    return ()
