"""Rules of reductions, running ones included, and of windows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import ONE_DEVICE, PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import BOOL, DType
from graphc.ops.common.monoids import Element, least, most

ReduceFunction = Callable[..., Value]


def _reduction(function: ReduceFunction, **options: object) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        return function(x, axis=axes, **options) if axes else x

    return rule


def _extreme(
    function: ReduceFunction, name: str, neutral: Callable[[DType], Element]
) -> ReduceFunction:
    """Of complex numbers the op alone: JAX passes over NaN in imaginary parts.

    Of no elements, JAX gives the real part of what is `neutral`.
    """

    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        if any(equal(x.type.shape[axis], 0) for axis in axes):
            shape = tuple(map(F.size_value, eqn.result.shape))
            return F.full(shape, np.real(neutral(x.dtype)), x.dtype)
        if x.dtype.kind == "c" and axes:
            extreme: Value = OPS[name](x, axes=axes, keepdims=False)
            return extreme
        return _reduction(function)(eqn, x)

    return rule


PRIMITIVES.define("reduce_max")(_extreme(F.max, "max", least))
PRIMITIVES.define("reduce_min")(_extreme(F.min, "min", most))


def _of_same_dtype(function: ReduceFunction) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        axes = tuple(eqn.params["axes"])
        return function(x, axis=axes, dtype=x.dtype) if axes else x

    return rule


PRIMITIVES.define("reduce_sum")(_of_same_dtype(F.sum))
PRIMITIVES.define("reduce_prod")(_of_same_dtype(F.prod))


def _over_examples(name: str) -> Callable[..., list[Value]]:
    """A collective as `vmap` leaves it: its axes are those of arrays, not of a mesh."""

    def rule(eqn: Equation, *inputs: Value) -> list[Value]:
        if not all(isinstance(axis, int) for axis in eqn.params["axes"]):
            raise Unsupported(f"{eqn.eqn.primitive.name}: {ONE_DEVICE}")
        eqn.require("axis_index_groups", None)
        reduce: ReduceFunction = PRIMITIVES.find(name)
        return [reduce(eqn, x) for x in inputs]

    return rule


PRIMITIVES.define("psum")(_over_examples("reduce_sum"))
PRIMITIVES.define("pmax")(_over_examples("reduce_max"))
PRIMITIVES.define("pmin")(_over_examples("reduce_min"))


def _of_bools(function: ReduceFunction) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        if x.dtype != BOOL:
            raise Unsupported(f"{eqn.eqn.primitive.name}: of bits there is no op here")
        axes = tuple(eqn.params["axes"])
        return function(x, axis=axes) if axes else x

    return rule


PRIMITIVES.define("reduce_and")(_of_bools(F.all))
PRIMITIVES.define("reduce_or")(_of_bools(F.any))


def _position(function: ReduceFunction) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        (axis,) = eqn.params["axes"]
        return cast(function(x, axis=axis), eqn.result.dtype)

    return rule


PRIMITIVES.define("argmax")(_position(F.argmax))
PRIMITIVES.define("argmin")(_position(F.argmin))


def _running(function: ReduceFunction, **options: object) -> ReduceFunction:
    def rule(eqn: Equation, x: Value) -> Value:
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        if x.dtype.kind == "c" and function in (F.cummax, F.cummin):
            raise Unsupported("cummax, cummin: JAX passes over NaN in complex numbers")
        dtype_options = {name: x.dtype for name in options}
        return function(x, axis, reverse=reverse, **dtype_options)

    return rule


PRIMITIVES.define("cumsum")(_running(F.cumsum, dtype=True))
PRIMITIVES.define("cumprod")(_running(F.cumprod, dtype=True))
PRIMITIVES.define("cummax")(_running(F.cummax))
PRIMITIVES.define("cummin")(_running(F.cummin))
PRIMITIVES.define("cumlogsumexp")(_running(F.cumlogsumexp))


def _window(op: str) -> ReduceFunction:
    """A rule of windows: over the last axes, after axes whose windows have size 1."""

    def rule(eqn: Equation, x: Value) -> Value:
        rank = x.type.rank
        eqn.require("base_dilation", (1,) * rank)
        window = eqn.shape("window_dimensions")
        stride = eqn.shape("window_strides")
        pads = eqn.shapes("padding")
        dilation = eqn.shape("window_dilation")
        plain = [_is_plain(window[i], stride[i], *pads[i]) for i in range(rank)]
        first = plain.index(False) if False in plain else rank - 1
        sizes_by_name = {"window": window, "stride": stride, "dilation": dilation}
        window_params: dict[str, Any] = {
            k: sizes[first:] for k, sizes in sizes_by_name.items()
        }
        window_params["low"], window_params["high"] = zip(*pads[first:], strict=True)
        reduced: Value = OPS[op](x, padding="", **window_params)
        return reduced

    return rule


def _is_plain(*window: Size) -> bool:
    """Whether a window, its stride and what is added before and after do nothing."""
    return all(equal(n, plain) for n, plain in zip(window, PLAIN, strict=True))


PLAIN = (1, 1, 0, 0)
OF_WINDOWS = "window_dimensions", "window_strides", "window_dilation", "padding"
PRIMITIVES.define("reduce_window_max", sizes=OF_WINDOWS)(_window("max_pool"))
PRIMITIVES.define("reduce_window_min", sizes=OF_WINDOWS)(_window("min_pool"))
PRIMITIVES.define("reduce_window_sum", sizes=OF_WINDOWS)(_window("sum_pool"))

PRIMITIVES.refuse(
    "there is no op for it here",
    *("reduce", "reduce_xor", "reduce_window", "select_and_scatter"),
    *("select_and_scatter_add", "select_and_gather_add", "approx_top_k"),
)
