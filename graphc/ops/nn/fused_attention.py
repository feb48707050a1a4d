"""Attention as one op, which accelerators have kernels for; rewrites make it."""

from itertools import pairwise
from typing import Any

import numpy as np

from graphc.ir.op import Array, Printing, op, type_error
from graphc.ir.types import TensorType, same_size


@op()
def _fused_attention(q: Array, k: Array, v: Array, *, scale: float) -> TensorType:
    """softmax(scale q k) v, of (batch, rows, 1, width) each, in one dtype."""
    types = [x.type for x in (q, k, v)]
    if {t.rank for t in types} != {4} or len({t.dtype for t in types}) > 1:
        raise type_error("query, key and value are of rank 4 and of one dtype")
    pairs = [(a.shape[i], b.shape[i]) for a, b in pairwise(types) for i in (0, 3)]
    pairs.append((types[1].shape[1], types[2].shape[1]))
    if not all(same_size(a, b) for a, b in pairs):
        raise type_error("query, key and value differ in batch, width or rows")
    return q.type.like()


def attention_numpy(q: Any, k: Any, v: Any, scale: Any) -> Any:
    """Printed into NumPy programs."""
    wide = np.promote_types(q.dtype, "float32")
    logits = np.einsum("btnh,bsnh->bnts", q.astype(wide), k.astype(wide)) * scale
    weights = np.exp(logits - np.max(logits, -1, keepdims=True))
    weights = weights / np.sum(weights, -1, keepdims=True)
    return np.einsum("bnts,bsnh->btnh", weights.astype(v.dtype), v)


def _print_numpy(p: Printing) -> str:
    given = ", ".join(p.inputs)
    return f"{p.helper(attention_numpy)}({given}, {p.node.params['scale']!r})"


def _print_jax(p: Printing) -> str:
    given = ", ".join(p.inputs)
    return f"jax.nn.dot_product_attention({given}, scale={p.node.params['scale']!r})"


FUSED_ATTENTION = _fused_attention
_fused_attention.rounding = "many"
_fused_attention.emit(numpy=_print_numpy, jax=_print_jax)
_MADE_LATE = "rewrites make it of what has been differentiated, mapped and padded"
_fused_attention.no_gradient(_MADE_LATE)
_fused_attention.no_batch(_MADE_LATE)
_fused_attention.no_padding(_MADE_LATE)
