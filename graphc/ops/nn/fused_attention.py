"""Attention as one op, which accelerators have kernels for; rewrites make it."""

from itertools import pairwise
from types import ModuleType

import numpy as np

from graphc.ir.graph.op import Array, Printing, op, type_error
from graphc.ir.types import BOOL, JaxArray, NDArray, TensorType, is_float, same_size


@op()
def _fused_attention(
    q: Array,
    k: Array,
    v: Array,
    *added: Array,
    scale: float,
    bias: bool = False,
    mask: bool = False,
    most: int = 0,
) -> TensorType:
    """softmax(scale q k + bias) v, of (batch, rows, heads, width) each, in one dtype.

    Heads of q are a multiple of those of k. `bias` and `mask` tell which of the two
    follow, each (batch, heads, rows of q, rows of k) or 1 along an axis; logits are
    -0.7 times the largest float32 where a mask is False. Where all logits have more
    than `most` bytes, they are made for some rows of q at a time; 0: never.
    """
    types = [x.type for x in (q, k, v)]
    if {t.rank for t in types} != {4} or len({t.dtype for t in types}) > 1:
        raise type_error("query, key and value are of rank 4 and of one dtype")
    pairs = [(a.shape[i], b.shape[i]) for a, b in pairwise(types) for i in (0, 3)]
    pairs += [(types[1].shape[i], types[2].shape[i]) for i in (1, 2)]
    if not all(same_size(a, b) for a, b in pairs):
        raise type_error("query, key and value differ in batch, width or rows")
    if len(added) != bias + mask or any(x.type.rank != 4 for x in added):
        raise type_error("bias and mask are of rank 4")
    if (bias and not is_float(added[0].dtype)) or (mask and added[-1].dtype != BOOL):
        raise type_error("a bias is of floats, a mask of bools")
    return q.type.like()


def attention_numpy(
    q: NDArray,
    k: NDArray,
    v: NDArray,
    scale: float,
    bias: NDArray | None = None,
    mask: NDArray | None = None,
) -> NDArray:
    """Printed into NumPy programs."""
    wide = np.promote_types(q.dtype, "float32")
    each = q.shape[2] // max(k.shape[2], 1)
    k, v = np.repeat(k, each, 2), np.repeat(v, each, 2)
    logits = np.einsum("btnh,bsnh->bnts", q.astype(wide), k.astype(wide)) * scale
    if bias is not None:
        logits = (logits + bias).astype(wide)
    if mask is not None:
        logits = np.where(mask, logits, wide.type(-0.7 * np.finfo("float32").max))
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
    """Attention; where all logits have more than `most` bytes, of some rows of `q`.

    NVIDIA's kernel for half precision makes no logits.
    """
    device, width = jax.devices()[0], q.shape[3]
    nvidia = device.device_kind.startswith("NVIDIA")
    half = q.dtype.itemsize == 2 and (bias is None or bias.dtype == q.dtype)
    fits = width % 8 == 0 and width <= 128
    if nvidia and half and fits and float(device.compute_capability) >= 8:
        pairs = q.shape[1], k.shape[1]
        bias, mask = (
            x if x is None else jax.numpy.broadcast_to(x, (*x.shape[:2], *pairs))
            for x in (bias, mask)
        )
        return jax.nn.dot_product_attention(
            q, k, v, bias, mask, scale=scale, implementation="cudnn"
        )
    each = 4 * q.shape[0] * q.shape[2] * k.shape[1]
    if not most or q.shape[1] * each <= most:
        return jax.nn.dot_product_attention(q, k, v, bias, mask, scale=scale)

    def by_row(x: JaxArray | None) -> JaxArray | None:
        if x is None or x.shape[2] == 1:
            return None
        return jax.numpy.moveaxis(x, 2, 0)[..., None, :]

    def row(parts: tuple[JaxArray, ...]) -> JaxArray:
        one, *row_parts = parts
        pairs = zip((bias, mask), row_parts, strict=True)
        operands = [whole if part is None else part for whole, part in pairs]
        return jax.nn.dot_product_attention(one, k, v, *operands, scale=scale)

    parts = jax.numpy.moveaxis(q, 1, 0)[:, :, None], by_row(bias), by_row(mask)
    rows = jax.lax.map(row, parts, batch_size=max(most // each, 1))
    return jax.numpy.moveaxis(rows[:, :, 0], 0, 1)


def _added(p: Printing) -> dict[str, str]:
    """The operands after the first three, by their names."""
    names = [name for name in ("bias", "mask") if p.node.params[name]]
    return dict(zip(names, p.inputs[3:], strict=True))


def _print_numpy(p: Printing) -> str:
    arguments = [*p.inputs[:3], repr(p.node.params["scale"])]
    arguments += [f"{name}={text}" for name, text in _added(p).items()]
    return f"{p.helper(attention_numpy)}({', '.join(arguments)})"


def _print_jax(p: Printing) -> str:
    added, scale = _added(p), repr(p.node.params["scale"])
    most = p.node.params["most"]
    if most or p.node.inputs[0].dtype.itemsize == 2:
        both = [added.get(name, "None") for name in ("bias", "mask")]
        arguments = ["jax", str(most), *p.inputs[:3], scale, *both]
        return f"{p.helper(attention_jax)}({', '.join(arguments)})"
    named = [f"{name}={text}" for name, text in added.items()]
    arguments = [*p.inputs[:3], *named, f"scale={scale}"]
    return f"jax.nn.dot_product_attention({', '.join(arguments)})"


FUSED_ATTENTION = _fused_attention
_fused_attention.rounding = "many"
_fused_attention.emit(numpy=_print_numpy, jax=_print_jax)
_MADE_LATE = "rewrites make it of what has been differentiated, mapped and padded"
_fused_attention.no_gradient(_MADE_LATE)
_fused_attention.no_batch(_MADE_LATE)
_fused_attention.no_padding(_MADE_LATE)
