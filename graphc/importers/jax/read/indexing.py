"""Rules of gathers, scatters and slices that start at positions in data.

All of them are read as advanced indexing: every axis that is not taken whole gets an
array of positions. These arrays broadcast over the axes of the given indices, which
come first, and then over one axis per window. Elements are read or written with the
indexed axes moved to the front, so that NumPy's rule for placing the new axes plays no
part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode

from graphc.importers.jax.read.calls import struct_of
from graphc.importers.jax.read.jaxprs import open_jaxpr
from graphc.importers.jax.read.reader import KEY_WORDS, Equation, known_size
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.structural import slice_of_axes, with_axes_appended
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import as_value, cast, number_constant
from graphc.ir.graph.nodes import Value, known_sizes, origins
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.ir.types import BOOL, INT64, DType, JaxArray, is_inexact
from graphc.ops.arrays.integer_ranges import bound_of_positions
from graphc.ops.common.axes import along_axis, inverse_order
from graphc.ops.indexing.uniqueness import are_distinct_points, columns_of

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr

CLIP, PROMISED = GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS
DROPPED = GatherScatterMode.FILL_OR_DROP
OfElements = Callable[..., Sequence[JaxArray]]


@dataclass(frozen=True)
class Places:
    """The positions of the elements that a gather reads or a scatter writes.

    `axes` are the indexed axes, and `arrays` their positions, of rank `points +
    len(windows)`. The points form a grid of this `shape`; their axes come first.
    `windows` are the axes that also have an axis in the arrays, after the points.
    `held` tells for each point whether it is inside; None if that is known.
    """

    axes: tuple[int, ...]
    arrays: tuple[Value, ...]
    shape: tuple[Size, ...]
    windows: tuple[int, ...]
    held: Value | None

    @property
    def points(self) -> int:
        """The number of axes of the points."""
        return len(self.shape)

    @property
    def rank(self) -> int:
        """The number of axes that the arrays broadcast to."""
        return self.points + len(self.windows)

    def front(self, rank: int) -> tuple[int, ...]:
        """The order of an array's axes that puts the indexed ones in front."""
        return (*self.axes, *self.unindexed(rank))

    def unindexed(self, rank: int) -> tuple[int, ...]:
        """The axes that have no index."""
        return tuple(a for a in range(rank) if a not in self.axes)


class Indexing:
    """The dimension numbers of a gather or scatter, under common names."""

    def __init__(
        self,
        x: Value,
        indices: Value,
        sizes: Sequence[Size],
        numbers: Any,
        dropped: Any,
    ) -> None:
        self.x: Value = x
        self.indices: Value = indices
        self.sizes: Sequence[Size] = sizes
        self.starts: tuple[int, ...] = tuple(numbers[0])
        self.batching: tuple[int, ...] = tuple(numbers[1])
        self.along: tuple[int, ...] = tuple(numbers[2])
        self.dropped: set[int] = {*dropped, *self.batching}
        self.shape: tuple[Size, ...] = indices.type.shape[:-1]
        self.points: int = len(self.shape)

    @property
    def window_axes(self) -> tuple[int, ...]:
        """The axes of the array that windows have too."""
        return tuple(a for a in range(self.x.type.rank) if a not in self.dropped)

    def is_whole(self, axis: int, mode: object) -> bool:
        """Whether all of an axis is taken, whatever its index says.

        If windows that stick out are dropped, an index of 1 would drop the whole axis.
        """
        if axis in self.dropped or (mode is DROPPED and axis in self.starts):
            return False
        return bool(equal(self.sizes[axis], self.x.type.shape[axis]))

    def start(self, axis: int) -> Value:
        """The index along an axis, for each point."""
        if axis in self.batching:
            at = self.along[self.batching.index(axis)]
            positions = F.arange(F.size_value(self.indices.type.shape[at]))
            return along_axis(positions, at, self.points)
        if axis not in self.starts:
            return cast(as_value(0), INT64)
        return columns_of(self.indices)[self.starts.index(axis)]

    def known(self) -> list[Size] | None:
        """The starts of a single point if they are known as sizes, else None.

        The window must also be known to lie inside.
        """
        known_starts = known_sizes(self.indices) if not self.points else None
        if known_starts is None or self.batching:
            return None
        starts = [0] * self.x.type.rank
        for axis, start in zip(self.starts, known_starts, strict=True):
            starts[axis] = start
        for n, start, size in zip(self.x.type.shape, starts, self.sizes, strict=True):
            if not (less_equal(0, start) and less_equal(start + size, n)):
                return None
        return [*starts]

    def places(self, mode: object) -> Places:
        """All positions, with starts clipped so that the windows fit."""
        n = self.x.type.shape
        axes = [a for a in range(len(n)) if not self.is_whole(a, mode)]
        windows = tuple(a for a in axes if a not in self.dropped)
        rank, arrays, held = self.points + len(windows), [], []
        for axis in axes:
            start, size = self.start(axis), self.sizes[axis]
            if axis in self.starts and not _starts_inside(start, size, n[axis]):
                signed = start.dtype.kind == "i"
                wide = cast(start, INT64) if signed else _widened(start)
                start = _clipped(wide, n[axis] - size)
                held.append(F.equal(wide, start))
            if axis in windows:
                at = self.points + windows.index(axis)
                steps = F.arange(F.size_value(size), dtype="int64")
                start = with_axes_appended(start, rank) + along_axis(steps, at, rank)
            else:
                start = with_axes_appended(start, rank)
            arrays.append(start)
        inside = reduce(F.logical_and, held) if held and mode is DROPPED else None
        return Places(tuple(axes), tuple(arrays), self.shape, windows, inside)


def _starts_inside(start: Value, size: Size, n: Size) -> bool:
    """Whether windows that start at these positions are known to be inside an axis."""
    bound = bound_of_positions(start)
    return bound is not None and less_equal(bound - 1 + size, n) is True


def _widened(index: Value) -> Value:
    """Widen an index, if needed, to a dtype that can hold the size of an axis."""
    return cast(index, INT64) if index.dtype.itemsize < 4 else index


def _clipped(index: Value, last: Size) -> Value:
    """An index, moved to the nearest of the positions from 0 to `last`."""
    lowest, highest = number_constant(0, index.dtype), cast(as_value(last), index.dtype)
    return F.clip(index, lowest, highest)


@PRIMITIVES.define("gather", sizes=("slice_sizes",))
def _gather(eqn: Equation, x: Value, indices: Value) -> Value:
    """Read windows of an array at given positions."""
    numbers = eqn.params["dimension_numbers"]
    sizes, offsets = eqn.shape("slice_sizes"), numbers.offset_dims
    if eqn.takes_keys:
        sizes, offsets = (*sizes, KEY_WORDS), (*offsets, eqn.result.rank - 1)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    dropped = numbers.collapsed_slice_dims
    indexing = Indexing(
        x, indices, sizes, (numbers.start_index_map, *batching), dropped
    )
    mode, known = eqn.params["mode"], indexing.known()
    if known is not None:
        limits = [start + size for start, size in zip(known, sizes, strict=True)]
        windows = slice_of_axes(x, known, limits, [1] * x.type.rank)
        return F.squeeze(windows, tuple(dropped))
    # `x[i]` promises that i is inside; if it is not, JAX reads the nearest element.
    places = indexing.places(CLIP if mode is PROMISED else mode)
    windows = _read_places(x, places)
    held, missing = places.held, windows
    if mode is PROMISED and eqn.reader.differentiates and is_inexact(x.dtype):
        # JAX lets no gradient flow there, either.
        held, missing = indexing.places(DROPPED).held, F.stop_gradient(windows)
    elif held is not None:
        missing = _fill_element(windows.dtype, eqn.params["fill_value"])
    if held is not None:
        windows = F.where(with_axes_appended(held, windows.type.rank), windows, missing)
    return F.transpose(windows, _axes_of_result(indexing, places, offsets, x.type.rank))


def _read_places(x: Value, places: Places) -> Value:
    """Read elements; their axes are those of points, then windows, then the others."""
    if not places.axes:
        return F.broadcast_to(x, (*places.shape, *x.type.shape)) if places.shape else x
    ordered = F.transpose(x, places.front(x.type.rank))
    front, arrays = tuple(range(len(places.axes))), _broadcast_places(places)
    return F._gather(ordered, *arrays, axes=front, inside=(True,) * len(front))


def _broadcast_places(places: Places) -> list[Value]:
    """The arrays of positions, broadcast so that together they cover every point.

    The first is extended to all axes if the others leave a point axis out.
    """
    first, *others = places.arrays
    missing = places.rank - max(v.type.rank for v in places.arrays)
    first = F.expand_dims(first, tuple(range(missing)))
    grids = [v for v in (first, *others) if v.type.rank == places.rank]
    for axis, n in enumerate(places.shape):
        if not any(equal(v.type.shape[axis], n) for v in grids):
            behind = first.type.shape[places.points :] or [1] * len(places.windows)
            first = F.broadcast_to(first, (*places.shape, *behind))
            break
    return [first, *others]


def _fill_element(dtype: DType, fill: object) -> Value:
    """The element read at a position outside: NaN, an extreme integer, or True."""
    if fill is None and is_inexact(dtype):
        fill = float("nan")
    elif fill is None and dtype != BOOL:
        limits = np.iinfo(dtype)
        fill = limits.max if dtype.kind == "u" else limits.min
    return as_value(np.asarray(True if fill is None else fill, dtype))


def _axes_of_result(
    indexing: Indexing, places: Places, offsets: Sequence[int], rank: int
) -> tuple[int, ...]:
    """The position of each axis of the result in the array that was read."""
    after = [*places.windows, *places.unindexed(rank)]  # axes of x, after the points
    windows = [after.index(a) + places.points for a in indexing.window_axes]
    total = places.points + len(windows)
    points = iter(range(places.points))
    source_axes = dict(zip(offsets, windows, strict=True))
    return tuple(
        source_axes[i] if i in source_axes else next(points) for i in range(total)
    )


@PRIMITIVES.define("dynamic_slice", sizes=("slice_sizes",))
def _dynamic_slice(eqn: Equation, x: Value, *starts: Value) -> Value:
    """A window of an array, moved inside if it sticks out."""
    sizes = eqn.shape("slice_sizes")
    starts = starts[: x.type.rank]
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if not equal(size, x.type.shape[axis]):
            x = _window_of(x, start, axis, size)
    return x


def _window_of(x: Value, start: Value, axis: int, size: Size) -> Value:
    known, n = known_size(start), x.type.shape[axis]
    if known is not None and _is_inside(known, size, n):
        starts: list[Size] = [0] * x.type.rank
        limits = [*x.type.shape]
        starts[axis], limits[axis] = known, known + size
        return slice_of_axes(x, starts, limits, [1] * x.type.rank)
    if isinstance(size, int):
        if start.dtype.kind != "u" and bound_of_positions(start) is None:
            start = F.maximum(start, number_constant(0, start.dtype))
        return OPS["dynamic_slice"](x, start, axis=axis, length=size)
    return F.take(x, _window_positions(start, size, n), axis=axis)


def _start_if_inside(
    starts: Sequence[Value], sizes: Sequence[Size], shape: Sequence[Size]
) -> list[Size] | None:
    """The start of a window if sizes alone tell that it is inside, else None."""
    first: list[Size] = []
    for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)):
        known = 0 if equal(size, n) else known_size(starts[axis])
        if known is None or origins(known) or not _is_inside(known, size, n):
            return None
        first.append(known)
    return first


def _is_inside(start: Size, size: Size, n: Size) -> bool:
    """Whether a window is known to lie inside an axis of size `n`."""
    return bool(less_equal(0, start) and less_equal(start + size, n))


def _window_positions(start: Value, size: Size, n: Size) -> Value:
    """The positions along an axis of a window that is moved inside."""
    first = F.clip(cast(start, INT64), 0, F.size_value(n - size))
    return first + F.arange(F.size_value(size), dtype="int64")


@PRIMITIVES.define("dynamic_update_slice")
def _dynamic_update_slice(eqn: Equation, x: Value, v: Value, *starts: Value) -> Value:
    """An array in which one window is overwritten."""
    sizes, shape = v.type.shape, x.type.shape
    axes = [a for a in range(x.type.rank) if not equal(sizes[a], shape[a])]
    if not axes:
        return v
    single = [a for a in axes if equal(sizes[a], 1)] if len(axes) == 1 else []
    if single:
        (axis,) = axes
        at = _clipped(_widened(starts[axis]), shape[axis] - 1)
        row = F.squeeze(v, (axis,))
        return F._scatter(x, row, at, axes=(axis,), how="set", inside=(True,))
    first = _start_if_inside(starts, sizes, shape)
    if first is not None:
        return _written_part(x, v, first, sizes, (), "set")
    arrays = [
        along_axis(_window_positions(starts[a], sizes[a], shape[a]), i, len(axes))
        for i, a in enumerate(axes)
    ]
    places = Places(tuple(axes), tuple(arrays), (), tuple(axes), None)
    return _write_places(x, F.transpose(v, places.front(x.type.rank)), places, "set")


def _write_places(x: Value, v: Value, places: Places, how: str) -> Value:
    """`x` with `v` written at `places`; the axes of `v` are as in `_read_places`."""
    order = places.front(x.type.rank)
    arrays = _broadcast_places(places)
    if places.held is not None:  # points not held are written past the end: nowhere
        out = F.size_value(x.type.shape[places.axes[0]])
        held = with_axes_appended(places.held, places.rank)
        arrays[0] = F.where(held, cast(arrays[0], INT64), out)
    inside = tuple(i > 0 or places.held is None for i in range(len(arrays)))
    front = tuple(range(len(places.axes)))
    ordered = F.transpose(x, order)
    written = F._scatter(ordered, v, *arrays, axes=front, how=how, inside=inside)
    return F.transpose(written, inverse_order(order))


def _scatter_rule(how: str) -> Callable[..., Value]:
    def rule(eqn: Equation, x: Value, indices: Value, v: Value) -> Value:
        if how == "set" and not _is_second(eqn.params["update_jaxpr"]):
            return _with_applied(eqn, x, indices, v)
        numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
        dropped, windows = numbers.inserted_window_dims, numbers.update_window_dims
        windows = (*windows, v.type.rank - 1) if eqn.takes_keys else windows
        batching = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
        taken = {*dropped, *numbers.operand_batching_dims}
        window_axes = [a for a in range(x.type.rank) if a not in taken]
        sizes: list[Size] = [1] * x.type.rank
        for axis, at in zip(window_axes, windows, strict=True):
            sizes[axis] = v.type.shape[at]
        starts = numbers.scatter_dims_to_operand_dims
        indexing = Indexing(x, indices, sizes, (starts, *batching), dropped)
        known = indexing.known()
        if known is not None:
            return _written_part(x, v, known, sizes, dropped, how)
        # The gradient of `x[i]` makes the same promise; if i is outside, JAX writes
        # nothing.
        places = indexing.places(DROPPED if mode is PROMISED else mode)
        if not places.axes:
            raise Unsupported("scatter: it writes the whole array many times")
        order = _axes_of_result(indexing, places, windows, x.type.rank)
        return _write_places(x, F.transpose(v, inverse_order(order)), places, how)

    return rule


def _with_applied(eqn: Equation, x: Value, indices: Value, like: Value) -> Value:
    """Apply a function to the elements of `x` at the windows that `indices` start.

    It is applied as often as an element is named. `like` has the shape of all windows.
    """
    params = eqn.params
    once = params["unique_indices"] or _is_each_named_once(eqn, x, indices)
    inner, consts = open_jaxpr(params["update_jaxpr"])
    function = partial(jax.core.eval_jaxpr, inner, consts or params["update_consts"])
    by = _applied_once if once else _applied_often
    structs = [struct_of(atom.aval) for atom in eqn.eqn.invars]
    program = jax.make_jaxpr(partial(by, eqn, function))(*structs)
    return eqn.body(program, [x, indices, like])[0]


def _applied_once(
    eqn: Equation, function: OfElements, x: JaxArray, indices: JaxArray, v: JaxArray
) -> JaxArray:
    """Apply a function to elements in separate windows, which are shaped as `v`."""
    to, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    numbers = lax.GatherDimensionNumbers(
        *(to.update_window_dims, to.inserted_window_dims),
        *(to.scatter_dims_to_operand_dims, to.operand_batching_dims),
        to.scatter_indices_batching_dims,
    )
    dropped = {*to.inserted_window_dims, *to.operand_batching_dims}
    windows = iter(v.shape[axis] for axis in to.update_window_dims)
    sizes = [1 if axis in dropped else next(windows) for axis in range(x.ndim)]
    old = lax.gather(x, indices, numbers, sizes, mode=mode)
    new = _of_each(function, v.ndim)(old, v)[0]
    return lax.scatter(x, indices, new, to, unique_indices=True, mode=mode)


def _applied_often(
    eqn: Equation, function: OfElements, x: JaxArray, indices: JaxArray, v: JaxArray
) -> JaxArray:
    """Apply a function to each element as often as windows, shaped as `v`, name it."""
    none, ones = jnp.zeros(x.shape, "int32"), jnp.ones(v.shape, "int32")
    to, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    times = lax.scatter_add(none, indices, ones, to, mode=mode)
    each = _of_each(function, x.ndim)

    def step(state: list[JaxArray]) -> list[JaxArray]:
        done, y = state
        return [done + 1, jnp.where(done < times, each(y, y)[0], y)]

    most = jnp.max(times, initial=0)
    return lax.while_loop(lambda state: state[0] < most, step, [jnp.int32(0), x])[1]


def _of_each(function: OfElements, rank: int) -> OfElements:
    for _ in range(rank):
        function = jax.vmap(function)
    return function


def _is_each_named_once(eqn: Equation, x: Value, indices: Value) -> bool:
    """Whether no element of `x` is known to be in two windows.

    Windows that differ along an axis where they have one element do not overlap.
    Positions outside name nothing, unless they are clipped.
    """
    if all(map(is_one, indices.type.shape[:-1])):
        return True
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    if numbers.operand_batching_dims:
        return False
    sizes = {
        column: x.type.shape[axis]
        for column, axis in enumerate(numbers.scatter_dims_to_operand_dims)
        if axis in numbers.inserted_window_dims
    }
    return are_distinct_points(indices, sizes, is_clipped=mode is CLIP)


def _is_second(jaxpr: "Jaxpr | ClosedJaxpr") -> bool:
    """Whether a jaxpr of an old and a new element returns the new one."""
    if jaxpr is None:
        return True
    inner, _ = open_jaxpr(jaxpr)
    return not inner.eqns and inner.outvars[0] is inner.invars[1]


def _written_part(
    x: Value,
    v: Value,
    starts: Sequence[Size],
    sizes: Sequence[Size],
    dropped: Sequence[int],
    how: str,
) -> Value:
    """Write one window of `x` whose position is known."""
    items = [*map(_item_of_window, starts, sizes, x.type.shape)]
    new = F.expand_dims(v, tuple(dropped))
    return getattr(x.at[tuple(items)], how)(new) if items else new


def _item_of_window(start: Size, size: Size, n: Size) -> slice:
    """The slice of a window along an axis of size `n`."""
    if equal(size, n):
        return slice(None)
    return slice(F.size_value(start), F.size_value(start + size))


for _name, _how in {
    "scatter": "set",
    "scatter-add": "add",
    "scatter-mul": "multiply",
    "scatter-min": "min",
    "scatter-max": "max",
}.items():
    PRIMITIVES.define(_name)(_scatter_rule(_how))


@PRIMITIVES.define("scatter-sub")
def _scatter_sub(eqn: Equation, x: Value, indices: Value, v: Value) -> Value:
    """Add the negative, which is right for all integers, since they wrap around."""
    added: Value = PRIMITIVES.find("scatter-add")(eqn, x, indices, F.negative(v))
    return added
