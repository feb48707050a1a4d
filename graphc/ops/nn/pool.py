"""Pooling (`gt.nn.max_pool` ...): a window moved over the last axes of an array."""

from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from graphc.ir.graph.build import Shape, as_value, cast, size_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.graph.op import Array, Primitive, Printing, type_error
from graphc.ir.namespace import F
from graphc.ir.params.exactness import limits
from graphc.ir.params.kinds import Param
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import (
    BOOL,
    INT64,
    DType,
    JaxArray,
    NDArray,
    TensorType,
    is_integer,
    product,
)
from graphc.ops.common.axes import at_axis, with_size
from graphc.ops.common.batching import batch_last_axes
from graphc.ops.common.monoids import Element, least, most, zero
from graphc.ops.common.padded_reads import is_known
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.common.spread import may_lose_nan
from graphc.ops.nn.windows import (
    Pads,
    aligned,
    covered_points,
    named_pads,
    output_sizes,
    padding_text,
    steps_are_known,
    true_low,
    window_pads,
)


def _pooling_rule(
    x: Array,
    *,
    window: Shape,
    stride: Shape,
    dilation: Shape,
    padding: Pads,
    low: Shape,
    high: Shape,
) -> TensorType:
    """Infer the type of a pool: one element per window over the last axes."""
    if x.dtype == BOOL or x.dtype.kind == "c":
        raise type_error("needs real numbers")
    batch = x.type.rank - len(window)
    shape = x.type.shape
    fits = output_sizes(shape[batch:], window, stride, dilation, padding, low, high)
    return x.type.like((*shape[:batch], *fits))


def pool_numpy(
    x: Any,
    how: Callable[..., NDArray],
    fill: NDArray,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
) -> NDArray:
    """Printed into NumPy programs: windows reduced axis by axis, point by point."""
    batch = x.ndim - len(window)
    for i, (k, s, d) in enumerate(zip(window, stride, dilation, strict=True)):
        axis, wide, n = batch + i, (k - 1) * d + 1, x.shape[batch + i]
        named = isinstance(padding, str)
        low, high = window_pads(n, wide, s, padding) if named else padding[i]
        before = (slice(None),) * axis
        if low or high:
            width = max(low, 0), max(high, 0)
            widths: Any = [width if a == axis else (0, 0) for a in range(x.ndim)]
            x = np.pad(x, widths, constant_values=fill)
            stop = max(x.shape[axis] - max(-high, 0), 0)
            x = x[(*before, slice(max(-low, 0), stop))]
        fits = max((x.shape[axis] - wide) // s + 1, 0)
        parts = [x[(*before, slice(j * d, j * d + fits * s, s))] for j in range(k)]
        parts = [part[(*before, slice(fits))] for part in parts]
        x = parts[0].copy()
        for part in parts[1:]:
            how(x, part, out=x)
    return x


def pool_jax(
    jax: ModuleType,
    x: JaxArray,
    start: JaxArray,
    how: Callable[[JaxArray, JaxArray], JaxArray],
    is_ahead: Callable[[JaxArray, JaxArray], JaxArray],
    *sizes: object,
    **dilation: object,
) -> JaxArray:
    """Printed into programs: the extremes of windows, NaN where an element is NaN.

    On CPUs, XLA passes over NaN in large arrays where it knows that `how` is an
    extreme, so a choice is reduced there. JAX has no derivative of the choice.
    """

    def of(choose: Callable[[JaxArray, JaxArray], JaxArray], x: JaxArray) -> JaxArray:
        return jax.lax.reduce_window(x, start, choose, *sizes, **dilation)

    def known(x: JaxArray) -> JaxArray:
        return of(how, x)

    def choice(a: JaxArray, b: JaxArray) -> JaxArray:
        return jax.numpy.where(is_ahead(a, b) | (a != a), a, b)

    chosen = jax.custom_jvp(lambda x: of(choice, x))
    chosen.defjvp(lambda x, t: (chosen(*x), jax.jvp(known, x, t)[1]))
    return jax.lax.platform_dependent(x, cpu=chosen, default=known)


def _fill(how: str, dtype: DType) -> str:
    """Return the element that padding holds, as the text of a scalar of `dtype`."""
    if how == "add":
        number = "0"
    elif is_integer(dtype):
        number = str(limits(dtype)[0 if how == "max" else 1])
    else:
        number = "-np.inf" if how == "max" else "np.inf"
    if dtype.name == "bfloat16":
        return f'np.asarray({number}, "bfloat16")[()]'
    return f"np.{dtype.name}({number})"


def _declare_pooling(name: str, how: str, ufunc: str) -> Primitive:
    def numpy(p: Printing) -> str:
        fill = _fill(how, p.node.inputs[0].dtype)
        sizes = [p.code(p.node.params[k]) for k in ("window", "stride", "dilation")]
        arguments = [p.inputs[0], f"np.{ufunc}", fill, *sizes, padding_text(p)]
        return p.call(pool_numpy, *arguments)

    def jax(p: Printing) -> str:
        params, x = p.node.params, p.node.inputs[0]
        batch = x.type.rank - len(params["window"])
        sizes = {k: p.code((1,) * batch + params[k]) for k in ("window", "stride")}
        arguments = [p.inputs[0], _fill(how, x.dtype), f"jax.lax.{how}"]
        if is_choice := how != "add" and may_lose_nan(p):
            arguments.append(f"jax.lax.{'gt' if how == 'max' else 'lt'}")
        arguments += [*sizes.values(), padding_text(p, batch)]
        if not all(map(is_one, params["dilation"])):
            arguments.append(
                f"window_dilation={p.code((1,) * batch + params['dilation'])}"
            )
        if is_choice:
            return p.call(pool_jax, "jax", *arguments)
        return f"jax.lax.reduce_window({', '.join(arguments)})"

    primitive = Primitive(name, _pooling_rule)
    word = {"max": "largest", "min": "smallest"}.get(how, "sum")
    primitive.__doc__ = f"The {word} of every window over the last axes."
    return primitive.emit(numpy=numpy, jax=jax)


_max_pool = _declare_pooling("max_pool", "max", "maximum")
_min_pool = _declare_pooling("min_pool", "min", "minimum")
_sum_pool = _declare_pooling("sum_pool", "add", "add")
_sum_pool.linear = True
MAX_POOL, MIN_POOL, SUM_POOL = _max_pool, _min_pool, _sum_pool


@wraps(_pooling_rule, assigned=())
def _position_rule(x: Array, **params: Any) -> TensorType:
    """The flat position of the extreme of each window over the last axes.

    Of equal extremes the first one counts; NaN counts as an extreme, and the first NaN
    wins. A window that lies in the padding alone gets the number of elements.
    """
    result = _pooling_rule(x, **params)
    return result.like(dtype=INT64)


def positions_numpy(
    x: NDArray,
    larger: Callable[..., NDArray],
    window: Sequence[int],
    stride: Any,
    dilation: Sequence[int],
    padding: Any,
) -> NDArray:
    """Printed into NumPy programs: the positions of the extremes, point by point."""
    batch = x.ndim - len(window)
    shape, total = x.shape[batch:], int(np.prod(x.shape[batch:]))
    places = []
    for i, (k, s, d) in enumerate(zip(window, stride, dilation, strict=True)):
        wide, n = (k - 1) * d + 1, shape[i]
        pair = padding if isinstance(padding, str) else padding[i]
        if isinstance(padding, str):
            pair = window_pads(n, wide, s, padding)
        # Pyright still takes the pair for a string.
        fits = max((n + sum(pair) - wide) // s + 1, 0)  # pyright: ignore[reportCallIssue, reportArgumentType]
        places.append(np.arange(fits)[:, None] * s + np.arange(k) * d - pair[0])
    rows = x.reshape(*x.shape[:batch], total)
    out = [len(p) for p in places]
    best = np.full((*x.shape[:batch], *out), total)
    most = np.zeros(best.shape, x.dtype)
    for point in np.ndindex(*window):
        grids = np.ix_(*[p[:, j] for p, j in zip(places, point, strict=True)])
        pairs = list(zip(grids, shape, strict=True))
        held = np.logical_and.reduce(
            np.broadcast_arrays(*[(p >= 0) & (p < n) for p, n in pairs])
        )
        inside = [p.clip(0, max(n - 1, 0)) for p, n in pairs]
        flat = np.ravel_multi_index(inside, shape) if total else 0
        new = rows[..., flat] if total else most
        wins = larger(new, most) | ((new != new) & (most == most)) | (best == total)
        wins = wins & held
        best, most = np.where(wins, flat, best), np.where(wins, new, most)
    return best


def positions_jax(
    jax: ModuleType,
    x: JaxArray,
    larger: Callable[..., JaxArray],
    start: JaxArray,
    axes: int,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> JaxArray:
    """Printed into JAX programs: the positions of the extremes, by reducing pairs."""
    jnp = jax.numpy
    shape = x.shape[x.ndim - axes :]
    total = int(np.prod(shape))
    numbers = jnp.broadcast_to(jnp.arange(total, dtype="int64").reshape(shape), x.shape)

    def better(
        a: tuple[JaxArray, JaxArray], b: tuple[JaxArray, JaxArray]
    ) -> tuple[JaxArray, JaxArray]:
        (x, i), (y, j) = a, b
        first = larger(x, y) | ((x != x) & (y == y))
        tied = (x == y) | ((x != x) & (y != y))
        keep = first | (tied & (i < j))
        return jnp.where(keep, x, y), jnp.where(keep, i, j)

    begin = (start, jnp.asarray(total, "int64"))
    return jax.lax.reduce_window(
        (x, numbers), begin, better, window, stride, padding, window_dilation=dilation
    )[1]


def _declare_positions(name: str, how: str, pool: Primitive) -> Primitive:
    larger = {"max": "greater", "min": "less"}[how]

    def numpy(p: Printing) -> str:
        sizes = [p.code(p.node.params[k]) for k in ("window", "stride", "dilation")]
        arguments = [p.inputs[0], f"np.{larger}", *sizes, padding_text(p)]
        return p.call(positions_numpy, *arguments)

    def jax(p: Printing) -> str:
        params, x = p.node.params, p.node.inputs[0]
        batch = x.type.rank - len(params["window"])
        arguments = [p.inputs[0], f"jnp.{larger}", _fill(how, x.dtype)]
        arguments.append(str(len(params["window"])))
        for key in ("window", "stride", "dilation"):
            arguments.append(p.code((1,) * batch + params[key]))
        arguments.append(padding_text(p, batch))
        return p.call(positions_jax, "jax", *arguments)

    primitive = Primitive(name, _position_rule)
    primitive.__doc__ = _position_rule.__doc__
    primitive.emit(numpy=numpy, jax=jax).no_gradient("its results are integers")

    @pool.vjp
    def _(g: Value, x: Value, **params: Any) -> tuple[Value]:
        return (put_at(g, x, primitive(x, **params), len(params["window"])),)

    return primitive


def put_at(g: Value, x: Value, places: Value, axes: int) -> Value:
    """Return zeros like `x` with `g` added at `places`.

    `places` are flat positions over the last `axes` axes of `x`; what is added at the
    position behind the last one, which stands for padding alone, is dropped.
    """
    batch, at = x.type.shape[: x.type.rank - axes], x.type.rank - axes
    rows, points = product(batch), product(x.type.shape[at:])
    windows = product(g.type.shape[at:])
    zeros = F.zeros((rows, points + 1), g.dtype)  # last column: windows of padding only
    row = F.expand_dims(F.arange(size_value(rows)), 1)
    place, share = (F.reshape(v, (rows, windows)) for v in (places, g))
    inside = (True, True)
    sums = F._scatter(zeros, share, row, place, axes=(0, 1), how="add", inside=inside)
    return F.reshape(F._part(sums, 1, 0, points), x.type.shape)


def take_at(x: Value, places: Value, axes: int) -> Value:
    """Return the elements of `x` at `places`, and 0 behind the last position.

    `places` are flat positions over the last `axes` axes of `x`.
    """
    batch, points = x.type.shape[:-axes], product(x.type.shape[-axes:])
    windows = product(places.type.shape[-axes:])
    flat = F.reshape(x, (*batch, points))
    flat = F.concatenate([flat, F.zeros((*batch, 1), x.dtype)], -1)
    at = F.reshape(places, (*batch, windows))
    return F.reshape(F.take_along_axis(flat, at, -1), places.type.shape)


_max_positions = _declare_positions("max_pool_positions", "max", _max_pool)
_min_positions = _declare_positions("min_pool_positions", "min", _min_pool)
for _primitive in (_max_pool, _min_pool, _sum_pool, _max_positions, _min_positions):
    batch_last_axes(_primitive)


def _declare_padding(primitive: Primitive, fill: Callable[[DType], Element]) -> None:
    @primitive.padding
    def _(pad: Padding, x: PaddedValue, **params: Param) -> Value | None:
        call = _align(pad, x, fill(x.value.dtype), params)
        return None if call is None else primitive(call[0], **call[1])


def _align(
    pad: Padding, x: PaddedValue, fill: Element, params: Params
) -> tuple[Value, Params] | None:
    if not steps_are_known(pad, "window", "stride", "dilation"):
        return None
    count = len(params["window"])
    value = pad.filled(x, range(x.type.rank - count, x.type.rank), fill)
    wide = tuple(map(covered_points, params["window"], params["dilation"]))
    return aligned(pad, x, value, fill, wide, params)


_declare_padding(_sum_pool, zero)
_declare_padding(_max_pool, least)
_declare_padding(_min_pool, most)


def _declare_position_padding(
    primitive: Primitive, fill: Callable[[DType], Element]
) -> None:
    """Declare the mask rule, with padding behind the elements so that they win ties.

    Where elements are moved, padding stands before them and wins ties. A window in
    which it does has only elements that tie, so its first true element is the answer.
    """

    @primitive.padding
    def _(pad: Padding, x: PaddedValue, **params: Any) -> Value | None:
        call = _align(pad, x, fill(x.value.dtype), params)
        if call is None:
            return None
        first = x.type.rank - len(params["window"])
        stored, true = call[0].type.shape[first:], x.type.shape[first:]
        wide = tuple(map(covered_points, params["window"], params["dilation"]))
        places = primitive(call[0], **call[1])
        return _renumber(pad, places, stored, true, true_low(pad, true, wide))


def _renumber(
    pad: Padding, places: Value, stored: Shape, true: Shape, low: Sequence[Size]
) -> Value:
    """Convert flat positions at capacities to flat positions among the true elements.

    The windows of an axis begin `low` elements before it. Where `low` may not be known
    when the program is compiled, the elements are stored from place `low` on.
    """
    starts = [0 if is_known(pad, a) else _length(pad, a) for a in low]
    number, is_true = _number_points(pad, _coordinates(places, stored, starts), true)
    is_true = F.logical_and(is_true, places < size_value(product(stored)))
    none = cast(pad.length(product(true)), INT64)
    if not all(is_known(pad, a) for a in low):
        first, exists = _number_points(pad, _first_points(pad, low, true, places), true)
        none = F.where(exists, first, none)
    return F.where(is_true, number, none)


def _length(pad: Padding, size: Size) -> Value:
    return cast(pad.length(size), INT64)


def _coordinates(
    places: Value, shape: Sequence[Size], starts: Sequence[Value | int]
) -> list[Value]:
    """The coordinates of flat positions on each axis, counted from `starts`."""
    points: list[Value] = []
    for size, start in zip(reversed(shape), reversed(starts), strict=True):
        points.insert(0, places % size_value(size) - start)
        places = places // size_value(size)
    return points


def _number_points(
    pad: Padding, points: Sequence[Value], shape: Sequence[Size]
) -> tuple[Value, Value]:
    """Return the flat positions of `points`, and whether they are true elements."""
    number, inside = cast(as_value(0), INT64), as_value(True)
    for at, n in zip(points, shape, strict=True):
        number = number * _length(pad, n) + at
        inside = F.logical_and(inside, F.logical_and(at >= 0, at < _length(pad, n)))
    return number, inside


def _first_points(
    pad: Padding, low: Sequence[Size], true: Shape, places: Value
) -> list[Value]:
    """The first position inside each axis that each window covers; its size if none."""
    params, axis = pad.node.params, places.type.rank - len(low)
    points = []
    for i, (a, n) in enumerate(zip(low, true, strict=True)):
        window, step, dilation = (
            size_value(params[name][i]) for name in ("window", "stride", "dilation")
        )
        windows = F.arange(size_value(places.type.shape[axis + i]), dtype="int64")
        begin = windows * step - _length(pad, a)
        skipped = F.maximum(-(begin // dilation), 0)
        at = F.where(skipped < window, begin + skipped * dilation, _length(pad, n))
        points.append(F.expand_dims(at, tuple(range(1, len(low) - i))))
    return points


_declare_position_padding(_max_positions, least)
_declare_position_padding(_min_positions, most)


@_sum_pool.vjp
def _(
    g: Value,
    x: Value,
    *,
    window: Shape,
    stride: Shape,
    dilation: Shape,
    padding: str,
    low: Shape,
    high: Shape,
) -> tuple[Value]:
    # The cotangent of an element is the sum of `g` over the windows that contain it:
    # a sum pool again, over `g` with its points apart by the strides.
    at = x.type.rank - len(window)
    shape, wide = x.type.shape[at:], tuple(map(covered_points, window, dilation))
    if padding:
        low, _ = named_pads(padding, shape, wide, stride)
    spaced, before, after = g, [], []
    for i, (n, w, s, a) in enumerate(zip(shape, wide, stride, low, strict=True)):
        spaced = _zeros_between(spaced, at + i, s)
        before.append(w - 1 - a)
        after.append(n - spaced.type.shape[at + i] + a)
    of_x = _sum_pool(
        spaced,
        window=window,
        stride=(1,) * len(window),
        dilation=dilation,
        padding="",
        low=tuple(before),
        high=tuple(after),
    )
    return (F.specify_shape(of_x, x.type.shape),)


def _zeros_between(x: Value, axis: int, step: Size) -> Value:
    """Put step - 1 zeros between the points of an axis."""
    if is_one(step):
        return x
    n = dims.maximum(0, (x.type.shape[axis] - 1) * step + 1)
    every = slice(None, None, size_value(step))
    zeros = F.zeros(with_size(x.type.shape, axis, n), x.dtype)
    return zeros.at[at_axis(axis, every)].add(x)
