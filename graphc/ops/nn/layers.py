"""Neural networks (`gt.nn`): normalisation, one-hot codes, dropout, attention.

Half precision is computed in float32. Weights are promoted with the array. Statistics
are computed in two passes, as in NumPy.
"""

import math
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike, SizeLike
from graphc.ir.graph.build import (
    as_size,
    as_strong_value,
    cast,
    check_shape,
    normal_axes,
    normal_axis,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import equal
from graphc.ir.types import BOOL, DType, dtype_of, is_integer, same_size
from graphc.ops.common.axes import AxisArgument, along_axis, other_axes, with_rank
from graphc.ops.common.broadcasting import common_dtype, promoted, with_room
from graphc.ops.nn.activations import as_real, as_weak_real, widened

_MASKED = -0.7 * float(np.finfo("float32").max)  # a logit that is not attended to


@public(name="nn.one_hot")
def one_hot(
    x: ArrayLike, num_classes: SizeLike, dtype: DTypeLike | None = None, axis: int = -1
) -> Value:
    """1 along a new axis at the class that each integer names, 0 elsewhere.

    `num_classes` may be an integer scalar. An integer outside 0 .. num_classes - 1
    gives zeros. The dtype is the default float unless one is given.
    """
    value = as_strong_value(x)
    if not is_integer(value.dtype):
        got = str(value.type)
        raise graph_error("needs integer classes", op="nn.one_hot", got=got)
    (n,) = check_shape((as_size(num_classes, "the number of classes"),), "nn.one_hot")
    rank = value.type.rank + 1
    at = normal_axis(axis, rank, "nn.one_hot")
    result_dtype = config.float if dtype is None else dtype_of(dtype)
    value = with_room(value, (*value.type.shape, n), result_dtype, "nn.one_hot")
    hot = F.equal(F.expand_dims(value, at), along_axis(F.arange(n), at, rank))
    return cast(hot, result_dtype)


@public(name="nn.standardize")
def standardize(
    x: ArrayLike,
    axis: AxisArgument = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon), with statistics of x along `axis`.

    `mean` and `variance` replace these statistics if they are given. Only elements
    where the mask `where` holds count for them.
    """
    value, dtype = _in_common_dtype("standardize", x, mean, variance, epsilon)
    centre, spread = (
        None if v is None else cast(as_weak_real(v, "standardize"), value.dtype)
        for v in (mean, variance)
    )
    small = cast(as_weak_real(epsilon, "standardize"), value.dtype)
    axes = normal_axes(axis, value.type.rank, "nn.standardize")
    chosen = True if where is None else where
    if centre is None:
        centre = F.mean(value, axes, keepdims=True, where=chosen)
    centred = value - centre
    if spread is None:
        spread = F.mean(centred * centred, axes, keepdims=True, where=chosen)
    return cast(centred / F.sqrt(spread + small), dtype)


def _in_common_dtype(
    name: str, x: ArrayLike, *others: ArrayLike | None
) -> tuple[Value, DType]:
    """The array in the dtype to compute in, and the common dtype for the result."""
    numbers = [as_weak_real(v, name) for v in others if v is not None]
    dtype = common_dtype([as_real(x, name), *numbers])
    return widened(cast(as_real(x, name), dtype), name)[0], dtype


def _expand(vector: ArrayLike, axes: tuple[int, ...], x: Value, name: str) -> Value:
    """An array over these axes of `x`, expanded to broadcast against `x`."""
    value = cast(as_real(vector, name), x.dtype)
    sizes = tuple(x.type.shape[a] for a in axes)
    pairs = zip(value.type.shape, sizes, strict=False)
    if value.type.rank != len(axes) or any(equal(n, m) is False for n, m in pairs):
        shape = ", ".join(map(str, sizes))
        raise graph_error(
            f"needs an array over the axes {axes} of x, that is, of shape ({shape})",
            op=f"nn.{name}",
            got=str(value.type),
        )
    return F.expand_dims(value, other_axes(x.type.rank, axes))


def _affine(
    x: Value,
    dtype: DType,
    axes: tuple[int, ...],
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    name: str,
) -> Value:
    """weight x + bias, both of them arrays over `axes`, cast to `dtype`."""
    if weight is not None:
        x = x * _expand(weight, axes, x, name)
    if bias is not None:
        x = x + _expand(bias, axes, x, name)
    return cast(x, dtype)


@public(name="nn.layer_norm")
def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    axis: int | tuple[int, ...] = -1,
    epsilon: float = 1e-5,
) -> Value:
    """`x` standardised over `axis`, times `weight`, plus `bias`: arrays over `axis`."""
    value, dtype = _in_common_dtype("layer_norm", x, weight, bias)
    axes = normal_axes(axis, value.type.rank, "nn.layer_norm")
    result = standardize(value, axes, epsilon=epsilon)
    return _affine(result, dtype, axes, weight, bias, "layer_norm")


@public(name="nn.rms_norm")
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    axis: int | tuple[int, ...] = -1,
    epsilon: float = 1e-6,
) -> Value:
    """x over the root of its mean square along `axis`, times `weight`."""
    value, dtype = _in_common_dtype("rms_norm", x, weight)
    axes = normal_axes(axis, value.type.rank, "nn.rms_norm")
    square = F.mean(value * value, axes, keepdims=True)
    result = value / F.sqrt(square + epsilon)
    return _affine(result, dtype, axes, weight, None, "rms_norm")


@public(name="nn.batch_norm")
def batch_norm(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Value:
    """`x` standardised per channel, which is the index along `axis`.

    All other arrays are vectors over the channels. In training, leave out `mean` and
    `variance`: then the statistics are those of the batch (which `gt.mean(x, axes)` and
    `gt.var(x, axes)` give for a running average).
    """
    value, dtype = _in_common_dtype("batch_norm", x, mean, variance, weight, bias)
    rank = value.type.rank
    channel = (normal_axis(axis, rank, "nn.batch_norm"),)
    axes = other_axes(rank, channel)
    statistics = [
        None if v is None else _expand(v, channel, value, "batch_norm")
        for v in (mean, variance)
    ]
    result = standardize(value, axes, statistics[0], statistics[1], epsilon=epsilon)
    return _affine(result, dtype, channel, weight, bias, "batch_norm")


@public(name="nn.group_norm")
def group_norm(
    x: ArrayLike,
    groups: SizeLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Value:
    """`x` standardised per element of axis 0 and group of neighbouring channels.

    The channels are the index along `axis`, whose size `groups` must divide; `weight`
    and `bias` are vectors over it. With as many groups as channels, this is instance
    norm.
    """
    value, dtype = _in_common_dtype("group_norm", x, weight, bias)
    rank = value.type.rank
    channel = normal_axis(axis, rank, "nn.group_norm")
    if channel == 0:
        raise graph_error("axis 0 is the batch", op="nn.group_norm", got=f"axis {axis}")
    shape: list[Any] = list(value.shape)
    n, count = value.type.shape[channel], as_size(groups, "the number of groups")
    if isinstance(n, int) and isinstance(count, int) and (count < 1 or n % count):
        problem = f"{n} channels cannot be split into {count} groups"
        raise graph_error(problem, op="nn.group_norm", got=str(value.type))
    shape[channel : channel + 1] = [count, n // count]
    axes = tuple(a for a in range(1, rank + 1) if a != channel)
    split = standardize(F.reshape(value, shape), axes, epsilon=epsilon)
    result = F.reshape(split, value.shape)
    return _affine(result, dtype, (channel,), weight, bias, "group_norm")


@public(name="nn.dropout")
def dropout(x: ArrayLike, rate: ArrayLike, key: ArrayLike) -> Value:
    """Set each element to 0 with probability `rate`, else to x / (1 - rate).

    `key` is a key of `gt.random`; the draw is `gt.random.bernoulli(key, 1 - rate)`.
    """
    value = as_real(x, "dropout")
    if isinstance(rate, (int, float)):
        if not 0 <= rate <= 1:
            problem = "the rate must be from 0 to 1"
            raise graph_error(problem, op="nn.dropout", got=f"{rate}")
        chance: Any = 1.0 - rate
        divisor: Any = chance or 1.0  # by which a gradient divides too
    else:
        chance = 1.0 - as_weak_real(rate, "dropout")
        divisor = F.where(F.equal(chance, 0.0), 1.0, chance)
    keep = F.random.bernoulli(key, chance, value.shape)
    return F.where(keep, value / divisor, 0.0)


@public(name="nn.dot_product_attention")
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Any = None,
) -> Value:
    """softmax(scale query key + bias) value, as `jax.nn.dot_product_attention`.

    `query` is (batch, T, N heads, H), `key` and `value` (batch, S, K heads, H), all
    with or all without the batch axis; K divides N. `bias` and the bool `mask`
    broadcast to (batch, N, T, S); lengths are vectors over the batch. A row that may
    attend to nothing gets the mean of `value`; a row beyond `query_seq_lengths` gets
    zeros.
    """
    arrays = [as_real(a, "dot_product_attention") for a in (query, key, value)]
    arrays = promoted(*arrays)
    batched = _check_attention(arrays)
    q, k, v = (a if batched else F.expand_dims(a, 0) for a in arrays)
    heads = k.shape[2]
    per_key = as_size(q.shape[2]) // as_size(heads)
    q = F.reshape(q, (q.shape[0], q.shape[1], heads, per_key, q.shape[3]))
    q, k, v = F.transpose(q, (0, 2, 3, 1, 4)), _by_head(k), _by_head(v)
    logits = _logits(q, k, scale)
    if bias is not None:
        logits = logits + _per_head(bias, heads, per_key, "bias")
    allowed = _may_attend(logits, is_causal, local_window_size)
    if mask is not None:
        allowed.append(_per_head(mask, heads, per_key, "mask"))
    inside = []
    for lengths, axis in ((query_seq_lengths, -2), (key_value_seq_lengths, -1)):
        if lengths is not None:
            inside.append(_is_within_length(lengths, logits.shape[axis], axis))
    for part in (*allowed, *inside):
        logits = F.where(part, logits, _MASKED)
    weights = cast(F.nn.softmax(logits), k.dtype)
    result = F.matmul(weights, v)
    if query_seq_lengths is not None:
        result = F.where(inside[0], result, 0.0)
    result = F.transpose(result, (0, 3, 1, 2, 4))
    return F.reshape(result, (*arrays[0].shape[:-1], v.shape[-1]))


def _check_attention(arrays: list[Value]) -> bool:
    """Whether there is a batch axis; raises GraphError if ranks or heads do not fit."""
    ranks = {a.type.rank for a in arrays}
    if len(ranks) > 1 or ranks - {3, 4}:
        raise graph_error(
            "needs query, key and value of rank 4, or of rank 3 without a batch",
            op="nn.dot_product_attention",
            got=", ".join(str(a.type) for a in arrays),
        )
    heads, shared = (a.type.shape[-2] for a in arrays[:2])
    if equal(shared, 0) or equal(heads % shared, 0) is False:
        raise graph_error(
            f"the heads of key, {shared}, must divide those of query, {heads}",
            op="nn.dot_product_attention",
        )
    return 4 in ranks


def _by_head(x: Value) -> Value:
    """Turn (batch, S, K, H) into (batch, K, 1, S, H)."""
    return F.expand_dims(F.transpose(x, (0, 2, 1, 3)), 2)


def _logits(q: Value, k: Value, scale: ArrayLike | None) -> Value:
    """The scaled products, (batch, K, N / K, T, S), in float32 or wider."""
    if scale is None:
        width = q.type.shape[-1]
        root = F.sqrt(F.astype(q.shape[-1], "float64"))
        scale = 1 / math.sqrt(width) if isinstance(width, int) and width else 1 / root
    work = widened(q, "dot_product_attention")[0].dtype
    products = F.matmul(cast(q, work), cast(k, work).mT)
    return products * cast(as_weak_real(scale, "dot_product_attention"), work)


def _per_head(x: ArrayLike, heads: Any, per_key: Any, what: str) -> Value:
    """A bias or mask over (batch, N, T, S), with N split into K and N / K."""
    value = as_strong_value(x)
    if (what == "mask" and value.dtype != BOOL) or value.type.rank > 4:
        raise graph_error(
            f"the {what} must broadcast to (batch, heads, T, S); a mask must be bool",
            op="nn.dot_product_attention",
            got=str(value.type),
        )
    value = with_rank(value, 4)
    if same_size(value.type.shape[1], 1):
        return F.expand_dims(value, 1)
    batch, _, rows, columns = value.shape
    return F.reshape(value, (batch, heads, per_key, rows, columns))


def _may_attend(logits: Value, is_causal: bool, window: ShapeLike) -> list[Value]:
    """The conditions, by position, under which a row may attend to a column."""
    rows = F.expand_dims(F.arange(logits.shape[-2]), 1)
    columns = F.arange(logits.shape[-1])
    conditions = [columns <= rows] if is_causal else []
    if window is not None:
        sides = window if isinstance(window, (tuple, list)) else (window, window)
        if len(sides) != 2:
            problem = "needs a window, or a pair (left, right)"
            got = f"{len(sides)} numbers"
            raise graph_error(problem, op="nn.dot_product_attention", got=got)
        left, right = sides
        conditions += [columns >= rows - left, columns <= rows + right]
    return conditions


def _is_within_length(lengths: ArrayLike, n: SizeLike, axis: int) -> Value:
    """Whether positions along `axis` of the logits are within each entry's length."""
    value = as_strong_value(lengths)
    if value.type.rank != 1 or not is_integer(value.dtype):
        raise graph_error(
            "sequence lengths must be an integer vector over the batch",
            op="nn.dot_product_attention",
            got=str(value.type),
        )
    positions = F.expand_dims(F.arange(n), 1) if axis == -2 else F.arange(n)
    return positions < F.expand_dims(value, (1, 2, 3, 4))
