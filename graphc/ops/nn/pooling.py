"""Pooling (`gt.nn`): the largest, smallest, sum or mean of each window."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, PadsLike, ShapeLike
from graphc.ir.graph.build import as_strong_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BOOL, INT64, is_integer
from graphc.ops.common.broadcasting import common_dtype
from graphc.ops.nn.activations import as_real, as_weak_real, widened
from graphc.ops.nn.pool import MAX_POOL, MIN_POOL, SUM_POOL
from graphc.ops.nn.windows import pads, sizes


def _pool(
    primitive: Primitive,
    name: str,
    value: Value,
    window: Any,
    stride: Any,
    padding: object,
    dilation: Any,
) -> Value:
    """Pool the last axes: as many as `window` has sizes, all but two for one size."""
    rank, op_name = value.type.rank, f"nn.{name}"
    count = len(window) if isinstance(window, (tuple, list)) else rank - 2
    if not 1 <= count <= rank:
        problem = "needs (batch, channels, *spatial), or a window size per last axis"
        raise graph_error(problem, op=op_name, got=f"{value.type}, window {window}")
    points = sizes(window, count, "window", op_name)
    named, low, high = pads(padding, count, op_name)
    result: Value = primitive(
        value,
        window=points,
        stride=points if stride is None else sizes(stride, count, "stride", op_name),
        dilation=sizes(dilation, count, "dilation", op_name),
        padding=named,
        low=low,
        high=high,
    )
    return result


def _numbers(x: ArrayLike, name: str) -> Value:
    """Return `x` with bools as int64. Raises GraphError where it is complex."""
    value = as_strong_value(x)
    if value.dtype == BOOL:
        return cast(value, INT64)
    return value if is_integer(value.dtype) else as_real(value, name)


def _declare_pool(name: str, pooled: Callable[..., Value], doc: str) -> None:
    """Declare the public function of one kind of pooling, with the text `doc`."""

    @public(name=f"nn.{name}", doc=doc)
    def function(
        x: ArrayLike,
        window: ShapeLike,
        stride: ShapeLike | None = None,
        padding: PadsLike = "VALID",
        dilation: ShapeLike = 1,
    ) -> Value:
        value = _numbers(x, name)
        return pooled(name, value, window, stride, padding, dilation)


def _sum_windows(name: str, value: Value, *options: object) -> Value:
    """Sum every window, adding floats of half precision in float32."""
    work = value if is_integer(value.dtype) else widened(value, name)[0]
    return cast(_pool(SUM_POOL, name, work, *options), value.dtype)


_declare_pool(
    "max_pool",
    partial(_pool, MAX_POOL),
    """The largest element of every window.

    `window` is a size per last axis, or one size for all axes but the first two, as of
    (batch, channels, *spatial). It moves by itself unless a stride is given. Paddings
    are those of `conv`; what they add is -inf, for integers the least number.
    """,
)
_declare_pool(
    "min_pool",
    partial(_pool, MIN_POOL),
    "The smallest element of every window, with the arguments of `max_pool`.",
)
_declare_pool(
    "sum_pool",
    _sum_windows,
    "The sum of every window, with the arguments of `max_pool`; padding adds 0.",
)


@public(name="nn.avg_pool")
def avg_pool(
    x: ArrayLike,
    window: ShapeLike,
    stride: ShapeLike | None = None,
    padding: PadsLike = "VALID",
    count_include_pad: bool = True,
    dilation: ShapeLike = 1,
) -> Value:
    """The mean of every window, with the arguments of `max_pool`.

    Padding counts as zeros, or not at all without `count_include_pad`.
    Integers are averaged in float64.
    """
    value, dtype = widened(x, "avg_pool")
    options = (window, stride, padding, dilation)
    total = _sum_windows("avg_pool", value, *options)
    axes = len(window) if isinstance(window, (tuple, list)) else value.type.rank - 2
    if not count_include_pad:
        ones = F.ones(value.shape[value.type.rank - axes :], value.dtype)
        points = window if isinstance(window, (tuple, list)) else (window,) * axes
        return cast(total / _sum_windows("avg_pool", ones, points, *options[1:]), dtype)
    count: Size = 1
    for n in sizes(window, axes, "window", "nn.avg_pool"):
        count = count * n
    return cast(total / size_value(count), dtype)


@public(name="nn.lp_pool")
def lp_pool(
    x: ArrayLike,
    p: ArrayLike,
    window: ShapeLike,
    stride: ShapeLike | None = None,
    padding: PadsLike = "VALID",
    dilation: ShapeLike = 1,
) -> Value:
    """(sum |x|^p)^(1 / p) over every window, with the arguments of `max_pool`."""
    value, dtype = widened(x, "lp_pool")
    if isinstance(p, (int, float)) and not 0 < p < np.inf:
        hint = "for infinity: max_pool(abs(x), ...)"
        problem = "p must be positive and finite"
        raise graph_error(problem, op="nn.lp_pool", got=f"p = {p}", hint=hint)
    p = as_weak_real(p, "lp_pool")
    powers = F.power(F.absolute(value), p)
    total = _sum_windows("lp_pool", powers, window, stride, padding, dilation)
    return cast(F.power(total, 1.0 / p), common_dtype([F.zeros((), dtype), p]))
