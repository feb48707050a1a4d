"""The functions by which programs compute attention, printed into them."""

import functools
from collections.abc import Callable
from types import ModuleType

import numpy as np

from graphc.ir.types import JaxArray, NDArray


def attention_numpy(
    q: NDArray,
    k: NDArray,
    v: NDArray,
    scale: float,
    hidden: float,
    bias: NDArray | None = None,
    mask: NDArray | None = None,
    lengths: NDArray | None = None,
    count: NDArray | None = None,
    causal: bool = False,
) -> NDArray:
    """Printed into NumPy programs."""
    wide = np.promote_types(q.dtype, "float32")
    each = q.shape[2] // max(k.shape[2], 1)
    k, v = np.repeat(k, each, 2), np.repeat(v, each, 2)
    logits = np.einsum("btnh,bsnh->bnts", q.astype(wide), k.astype(wide)) * scale
    if bias is not None:
        logits = (logits + bias).astype(wide)
    if mask is not None:
        logits = np.where(mask, logits, wide.type(hidden))
    if lengths is not None:
        shown = np.arange(k.shape[1]) < lengths[:, None, None, None]
        logits = np.where(shown, logits, wide.type(hidden))
    if causal:
        shown = np.tri(*logits.shape[2:]) > 0
        logits = np.where(shown, logits, wide.type(hidden))
    if count is not None:
        logits, v = logits[..., : int(count)], v[:, : int(count)]
    weights = np.exp(logits - np.max(logits, -1, keepdims=True, initial=-np.inf))
    weights = weights / np.sum(weights, -1, keepdims=True)
    return np.einsum("bnts,bsnh->btnh", weights.astype(v.dtype), v)


def attention_jax(
    jax: ModuleType,
    most: int,
    q: JaxArray,
    k: JaxArray,
    v: JaxArray,
    scale: float,
    bias: JaxArray | None,
    mask: JaxArray | None,
) -> JaxArray:
    """Attention in float32, or in half precision with nothing hidden.

    NVIDIA's kernel for half precision makes no logits.
    """
    if mask is None and has_kernel_jax(jax, q, k, bias):
        bias = of_all_pairs_jax(jax, q, k, bias)
        return jax.nn.dot_product_attention(
            q, k, v, bias, scale=scale, implementation="cudnn"
        )

    def attend(
        rows: JaxArray, bias: JaxArray | None, mask: JaxArray | None, _: JaxArray
    ) -> JaxArray:
        return jax.nn.dot_product_attention(rows, k, v, bias, mask, scale=scale)

    return rows_at_a_time_jax(jax, most, attend, q, k.shape[1], bias, mask)


def hiding_attention_jax(
    jax: ModuleType,
    most: int,
    q: JaxArray,
    k: JaxArray,
    v: JaxArray,
    scale: float,
    bias: JaxArray | None,
    mask: JaxArray | None,
    lengths: JaxArray | None,
    count: JaxArray | None,
    causal: bool,
    hidden: float,
) -> JaxArray:
    """Attention in half precision that hides keys, or those behind the first `count`.

    NVIDIA's kernel adds a number of its own to hidden logits. It is used if the logits
    are so small that this makes no difference, and if each row sees a key that is not
    hidden by its place.
    """
    jnp = jax.numpy
    if count is not None:  # values stored behind them may be NaN
        first = (jnp.arange(k.shape[1]) < count)[:, None, None]
        k, v = (jnp.where(first, x, jnp.zeros((), x.dtype)) for x in (k, v))
    places = lengths, count, causal, hidden
    attend = functools.partial(attend_rows_jax, jax, k, v, scale, *places)
    has_kernel = has_kernel_jax(jax, q, k, bias)
    if q.dtype == "float16" and mask is not None and hidden > -np.inf:
        has_kernel = False  # it gives a row that sees no key unequal weights
    # Both branches of a condition take memory, though one is rarely taken.
    most = most // 32 if has_kernel else most
    as_written = functools.partial(
        rows_at_a_time_jax, jax, most, attend, q, k.shape[1], bias, mask
    )

    def kernel() -> JaxArray:
        pairs = [of_all_pairs_jax(jax, q, k, x) for x in (bias, mask)]
        counts = [x for x in (lengths, count) if x is not None]
        seen = functools.reduce(jnp.minimum, counts) if counts else None
        if seen is not None:
            seen = jnp.full(q.shape[0], jnp.clip(seen, 0, k.shape[1]), "int32")
        options = {"is_causal": causal, "key_value_seq_lengths": seen}
        return jax.nn.dot_product_attention(
            q, k, v, *pairs, scale=scale, implementation="cudnn", **options
        )

    if not has_kernel:
        result = as_written()
    elif bias is None and mask is None and lengths is None and not causal:
        result = kernel()
    else:
        # The kernel adds -2**15 or -2**41, which leaves no digit of logits so small.
        most_logit = min(-hidden / 2 - 100, 1e4 if q.dtype == "float16" else 1e5)
        small = logits_within_jax(jax, q, k, scale, bias, most_logit)
        if lengths is not None:
            small = jnp.logical_and(small, jnp.all(lengths > 0))
        result = jax.lax.cond(small, kernel, as_written)
    return result if count is None else jnp.where(count > 0, result, 0)


def has_kernel_jax(
    jax: ModuleType, q: JaxArray, k: JaxArray, bias: JaxArray | None
) -> bool:
    """Whether the device has NVIDIA's kernel for operands of these dtypes and sizes."""
    device, width = jax.devices()[0], q.shape[3]
    half = q.dtype.itemsize == 2 and (bias is None or bias.dtype == q.dtype)
    fits = width % 8 == 0 and 0 < width <= 128 and q.size > 0 and k.size > 0
    if not (half and fits and device.device_kind.startswith("NVIDIA")):
        return False
    return float(device.compute_capability) >= 8


def of_all_pairs_jax(
    jax: ModuleType, q: JaxArray, k: JaxArray, x: JaxArray | None
) -> JaxArray | None:
    """A bias or a mask with all rows of queries and keys, as the kernel requires."""
    if x is None:
        return None
    return jax.numpy.broadcast_to(x, (*x.shape[:2], q.shape[1], k.shape[1]))


def logits_within_jax(
    jax: ModuleType,
    q: JaxArray,
    k: JaxArray,
    scale: float,
    bias: JaxArray | None,
    bound: float,
) -> JaxArray:
    """Whether all logits are sure to be smaller than `bound`; False if one is NaN.

    The product of two vectors is at most that of their lengths (Cauchy and Schwarz).
    """
    jnp, wide = jax.numpy, "float32"
    squares = [jnp.max(jnp.sum(jnp.square(x.astype(wide)), -1)) for x in (q, k)]
    largest = abs(scale) * jnp.sqrt(squares[0]) * jnp.sqrt(squares[1])
    if bias is not None:
        largest = largest + jnp.max(jnp.abs(bias)).astype(wide)
    return largest < bound


def attend_rows_jax(
    jax: ModuleType,
    k: JaxArray,
    v: JaxArray,
    scale: float,
    lengths: JaxArray | None,
    count: JaxArray | None,
    causal: bool,
    hidden: float,
    rows: JaxArray,
    bias: JaxArray | None,
    mask: JaxArray | None,
    numbers: JaxArray,
) -> JaxArray:
    """Compute attention as defined, for some rows of queries with these numbers."""
    jnp, wide = jax.numpy, "float32"
    batch, length, heads, width = rows.shape
    parts = rows.reshape(batch, length, k.shape[2], heads // k.shape[2], width)
    logits = jnp.einsum("btkgh,bskh->bkgts", parts, k, preferred_element_type=wide)
    groups = logits.shape[:3]
    logits = scale * logits.reshape(batch, heads, length, k.shape[1])
    logits = logits if bias is None else (logits + bias).astype(wide)
    logits = logits if mask is None else jnp.where(mask, logits, hidden)
    keys = jnp.arange(k.shape[1])
    if lengths is not None:
        logits = jnp.where(keys < lengths[:, None, None, None], logits, hidden)
    if causal:
        logits = jnp.where(keys <= numbers[:, None], logits, hidden)
    if count is not None:
        logits = jnp.where(keys < count, logits, -jnp.inf)
    weights = jax.nn.softmax(logits, -1).astype(v.dtype)
    weights = weights.reshape(*groups, length, k.shape[1])
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(rows.shape)


def rows_at_a_time_jax(
    jax: ModuleType,
    most: int,
    attend: Callable[..., JaxArray],
    q: JaxArray,
    keys: int,
    bias: JaxArray | None,
    mask: JaxArray | None,
) -> JaxArray:
    """Apply `attend` to all queries, or to some at a time: logits have `most` bytes."""
    jnp = jax.numpy
    numbers = jnp.arange(q.shape[1])
    each = 4 * q.shape[0] * q.shape[2] * keys
    if not most or q.shape[1] * each <= most:
        return attend(q, bias, mask, numbers)

    def by_row(x: JaxArray | None) -> JaxArray | None:
        if x is None or x.shape[2] == 1:
            return None
        return jnp.moveaxis(x, 2, 0)[..., None, :]

    def row(parts: tuple[JaxArray, ...]) -> JaxArray:
        one, number, *row_parts = parts
        pairs = zip((bias, mask), row_parts, strict=True)
        added = [whole if part is None else part for whole, part in pairs]
        return attend(one, *added, number[None])

    queries = jnp.moveaxis(q, 1, 0)[:, :, None]
    parts = queries, numbers, by_row(bias), by_row(mask)
    results = jax.lax.map(row, parts, batch_size=max(most // each, 1))
    return jnp.moveaxis(results[:, :, 0], 0, 1)
