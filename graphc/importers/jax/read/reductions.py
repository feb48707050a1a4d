"""Rules of reductions, including cumulative ones, and of windows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import ONE_DEVICE, PRIMITIVES
from graphc.importers.jax.read.structural import slice_of_axes
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast, number_constant
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal, maximum
from graphc.ir.types import BOOL, DType, product
from graphc.ops.common.monoids import Element, least, most
from graphc.ops.nn.pool import put_at, take_at
from graphc.transform.derivatives.vectorize import vmap

ReduceFunction = Callable[..., Value]


def _extreme_rule(
    function: ReduceFunction, name: str, neutral: Callable[[DType], Element]
) -> ReduceFunction:
    """Return a rule for a maximum or minimum.

    Complex numbers use the bare op, since JAX ignores NaN in imaginary parts. For no
    elements, JAX gives the real part of the `neutral` element.
    """

    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        if any(equal(x.type.shape[axis], 0) for axis in axes):
            shape = tuple(map(F.size_value, eqn.result.shape))
            return F.full(shape, np.real(neutral(x.dtype)), x.dtype)
        if x.dtype.kind == "c" and axes:
            extreme: Value = OPS[name](x, axes=axes, keepdims=False)
            return extreme
        return function(x, axis=axes) if axes else x

    return rule


PRIMITIVES.define("reduce_max")(_extreme_rule(F.max, "max", least))
PRIMITIVES.define("reduce_min")(_extreme_rule(F.min, "min", most))


def _rule_keeping_dtype(function: ReduceFunction) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        return function(x, axis=axes, dtype=x.dtype) if axes else x

    return rule


PRIMITIVES.define("reduce_sum")(_rule_keeping_dtype(F.sum))
PRIMITIVES.define("reduce_prod")(_rule_keeping_dtype(F.prod))


def _collective_rule(name: str) -> Callable[..., list[Value]]:
    """Return a rule for a collective under `vmap`: its axes are those of arrays."""

    def rule(eqn: Equation, *inputs: Value) -> list[Value]:
        if not all(isinstance(axis, int) for axis in eqn.params["axes"]):
            raise Unsupported(f"{eqn.eqn.primitive.name}: {ONE_DEVICE}")
        eqn.require("axis_index_groups", None)
        reduce: ReduceFunction = PRIMITIVES.find(name)
        return [reduce(eqn, x) for x in inputs]

    return rule


PRIMITIVES.define("psum")(_collective_rule("reduce_sum"))
PRIMITIVES.define("pmax")(_collective_rule("reduce_max"))
PRIMITIVES.define("pmin")(_collective_rule("reduce_min"))


def _is_odd(x: Value, axis: tuple[int, ...]) -> Value:
    return F.not_equal(F.sum(x, axis=axis, dtype="int32") & 1, 0)


def _bitwise_rule(function: ReduceFunction) -> ReduceFunction:
    """Return a rule that reduces bools, or each bit of integers."""

    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        if not axes or x.dtype == BOOL:
            return function(x, axis=axes) if axes else x
        places = cast(F.arange(8 * x.dtype.itemsize), x.dtype)
        bits = F.right_shift(F.expand_dims(x, -1), places) & number_constant(1, x.dtype)
        which = function(F.not_equal(bits, number_constant(0, x.dtype)), axis=axes)
        return F.sum(F.left_shift(cast(which, x.dtype), places), axis=-1, dtype=x.dtype)

    return rule


PRIMITIVES.define("reduce_and")(_bitwise_rule(F.all))
PRIMITIVES.define("reduce_or")(_bitwise_rule(F.any))
PRIMITIVES.define("reduce_xor")(_bitwise_rule(_is_odd))


def _joining_function(eqn: Equation) -> Callable[..., list[Value]]:
    """Return the function by which an equation joins elements, mapped over arrays."""

    def of_elements(*elements: Value) -> list[Value]:
        return eqn.body(eqn.params["jaxpr"], elements)

    def join(*arrays: Value) -> list[Value]:
        function = of_elements
        for _ in range(arrays[0].type.rank):
            function = vmap(function)
        return function(*arrays)

    return join


def _spread(start: Value, shape: Sequence[Size]) -> Value:
    return F.broadcast_to(start, tuple(shape)) if shape else start


@PRIMITIVES.define("reduce")
def _reduce(eqn: Equation, *inputs: Value) -> list[Value]:
    """Join the elements of one or several arrays by a function, one after another."""
    count, join = len(eqn.results), _joining_function(eqn)
    axes = tuple(eqn.params["dimensions"])
    shape = eqn.result.shape
    rows = []
    for x in inputs[:count]:
        others = [i for i in range(x.type.rank) if i not in axes]
        length = product([x.type.shape[axis] for axis in axes])
        front = F.transpose(x, (*axes, *others))
        rows.append(F.reshape(front, (length, *shape)) if len(axes) != 1 else front)

    def step(carry: list[Value], row: list[Value]) -> tuple[list[Value], None]:
        return join(*carry, *row), None

    start = [_spread(v, shape) for v in inputs[count:]]
    ends: list[Value] = F.scan(step, start, rows)[0]
    return ends


def _position_rule(function: ReduceFunction) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        (axis,) = eqn.params["axes"]
        return cast(function(x, axis=axis), eqn.result.dtype)

    return rule


PRIMITIVES.define("argmax")(_position_rule(F.argmax))
PRIMITIVES.define("argmin")(_position_rule(F.argmin))


def _cumulative_rule(
    function: ReduceFunction, keeps_dtype: bool = False
) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        if x.dtype.kind == "c" and function in (F.cummax, F.cummin):
            raise Unsupported("cummax, cummin: JAX passes over NaN in complex numbers")
        options = {"dtype": x.dtype} if keeps_dtype else {}
        return function(x, axis, reverse=reverse, **options)

    return rule


PRIMITIVES.define("cumsum")(_cumulative_rule(F.cumsum, keeps_dtype=True))
PRIMITIVES.define("cumprod")(_cumulative_rule(F.cumprod, keeps_dtype=True))
PRIMITIVES.define("cummax")(_cumulative_rule(F.cummax))
PRIMITIVES.define("cummin")(_cumulative_rule(F.cummin))
PRIMITIVES.define("cumlogsumexp")(_cumulative_rule(F.cumlogsumexp))


UNDILATED = "window_dimensions", "window_strides", "padding"
OF_WINDOWS = *UNDILATED, "window_dilation"


def _window_params(eqn: Equation, x: Value) -> dict[str, Any]:
    """The params of windows over the last axes; windows of earlier axes do nothing."""
    rank = x.type.rank
    eqn.require("base_dilation", (1,) * rank)
    window = eqn.shape("window_dimensions")
    stride = eqn.shape("window_strides")
    pads = eqn.shapes("padding")
    dilated = "window_dilation" in eqn.params
    dilation = eqn.shape("window_dilation") if dilated else (1,) * rank
    plain = [_is_plain(window[i], stride[i], *pads[i]) for i in range(rank)]
    first = plain.index(False) if False in plain else rank - 1
    low, high = zip(*pads[first:], strict=True)
    sizes_by_name = {"window": window, "stride": stride, "dilation": dilation}
    params = {name: sizes[first:] for name, sizes in sizes_by_name.items()}
    return params | {"padding": "", "low": low, "high": high}


PLAIN = (1, 1, 0, 0)


def _is_plain(*window: Size) -> bool:
    """Whether a window, its stride and its padding leave an axis unchanged."""
    return all(equal(n, plain) for n, plain in zip(window, PLAIN, strict=True))


def _pool_rule(op: str) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        reduced: Value = OPS[op](x, **_window_params(eqn, x))
        return reduced

    return rule


PRIMITIVES.define("reduce_window_max", sizes=OF_WINDOWS)(_pool_rule("max_pool"))
PRIMITIVES.define("reduce_window_min", sizes=OF_WINDOWS)(_pool_rule("min_pool"))
PRIMITIVES.define("reduce_window_sum", sizes=OF_WINDOWS)(_pool_rule("sum_pool"))

_POSITIONS = {"ge": "max_pool_positions", "le": "min_pool_positions"}


def _selected_positions(eqn: Equation, x: Value) -> tuple[Value, int]:
    """The position each window selects, and the number of last axes it spans."""
    name = eqn.params["select_prim"].name
    params = _window_params(eqn, x)
    return OPS[_POSITIONS[name]](x, **params), len(params["window"])


@PRIMITIVES.define("select_and_scatter_add", sizes=UNDILATED)
def _select_and_scatter_add(eqn: Equation, source: Value, x: Value) -> Value:
    """Add the elements of `source` where the windows of `x` have their extremes."""
    return put_at(source, x, *_selected_positions(eqn, x))


@PRIMITIVES.define("select_and_gather_add", sizes=OF_WINDOWS)
def _select_and_gather_add(eqn: Equation, source: Value, x: Value) -> Value:
    """Read the elements of `source` where the windows of `x` have their extremes."""
    return take_at(source, *_selected_positions(eqn, x))


MOST_POINTS = 128  # in a window whose elements are joined one by one


@PRIMITIVES.define("reduce_window", sizes=OF_WINDOWS)
def _reduce_window(eqn: Equation, *inputs: Value) -> list[Value]:
    """Join the elements of each window by a function, for one or several arrays."""
    rank, count = inputs[0].type.rank, len(eqn.results)
    eqn.require("base_dilation", (1,) * rank)
    eqn.require("consts", ())
    window, pads = eqn.shape("window_dimensions"), eqn.shapes("padding")
    points = product(window)
    if not isinstance(points, int) or points > MOST_POINTS:
        problem = f"a function joins windows of at most {MOST_POINTS} elements here"
        raise Unsupported(f"reduce_window: {problem}")
    starts, join = inputs[count:], _joining_function(eqn)
    padded = [_padded_by(x, pads, v) for x, v in zip(inputs, starts, strict=False)]
    steps = eqn.shape("window_strides"), eqn.shape("window_dilation")
    shape = eqn.result.shape
    results = [_spread(v, shape) for v in starts]
    for point in np.ndindex(*map(int, window)):  # type: ignore[arg-type]
        elements = [_elements_at(x, point, shape, *steps) for x in padded]
        results = join(*results, *elements)
    return results


def _padded_by(x: Value, pads: Sequence[tuple[Size, ...]], start: Value) -> Value:
    """Pad an array with the start value, which changes no result."""
    if all(equal(n, 0) for pair in pads for n in pair):
        return x
    widths = [tuple(map(F.size_value, pair)) for pair in pads]
    return F.pad(x, widths, constant_values=start)


def _elements_at(
    x: Value,
    point: Sequence[int],
    shape: Sequence[Size],
    strides: Sequence[Size],
    dilations: Sequence[Size],
) -> Value:
    """The element at one point of each window."""
    starts = [at * by for at, by in zip(point, dilations, strict=True)]
    steps = zip(starts, shape, strides, strict=True)
    limits = [maximum(a + (n - 1) * step + 1, a) for a, n, step in steps]
    return slice_of_axes(x, starts, limits, strides)


PRIMITIVES.refuse("there is no op for it here", "select_and_scatter")
