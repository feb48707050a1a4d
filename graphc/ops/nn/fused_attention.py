"""Attention as one op, for which accelerators have kernels; rewrites make it."""

import math
from itertools import pairwise

import numpy as np

from graphc.ir.graph.op import Array, Printing, op, type_error
from graphc.ir.types import BOOL, TensorType, is_float, same_size
from graphc.ops.nn.attention_kernels import (
    attention_jax,
    attention_numpy,
    hiding_attention_jax,
)

# The logit of a key that JAX hides.
HIDDEN = -0.7 * float(np.finfo("float32").max)


@op()
def _fused_attention(
    q: Array,
    k: Array,
    v: Array,
    *added: Array,
    scale: float,
    bias: bool = False,
    mask: bool = False,
    lengths: bool = False,
    count: bool = False,
    causal: bool = False,
    hidden: float = HIDDEN,
    most: int = 0,
) -> TensorType:
    """softmax(scale q k + bias) v, of (batch, rows, heads, width) each, in one dtype.

    The heads of q are a multiple of those of k. `bias`, `mask`, `lengths` and `count`
    tell which of these four operands follow. Bias and mask are (batch, heads, rows of
    q, rows of k), or 1 along an axis; lengths are (batch,). Logits are `hidden` where a
    mask is False, for keys behind a length and, if `causal`, where a key follows its
    query. Only the first `count` keys have weights; the result of no keys is 0. If all
    logits take more than `most` bytes, they are made for some rows of q at a time; 0
    means never.
    """
    types = [x.type for x in (q, k, v)]
    if {t.rank for t in types} != {4} or len({t.dtype for t in types}) > 1:
        raise type_error("query, key and value must be of rank 4 and of one dtype")
    pairs = [(a.shape[i], b.shape[i]) for a, b in pairwise(types) for i in (0, 3)]
    pairs += [(types[1].shape[i], types[2].shape[i]) for i in (1, 2)]
    if not all(same_size(a, b) for a, b in pairs):
        raise type_error("query, key and value differ in batch, width or rows")
    ranks = [4] * (bias + mask) + [1] * lengths + [0] * count
    if [x.type.rank for x in added] != ranks:
        raise type_error("bias and mask must be of rank 4, lengths of 1, a count of 0")
    if bias and not is_float(added[0].dtype):
        raise type_error("a bias must have a float dtype")
    if mask and added[bias].dtype != BOOL:
        raise type_error("a mask must be bool")
    return q.type.like()


_ADDED = "bias", "mask", "lengths", "count"


def _added(p: Printing) -> dict[str, str]:
    """The operands after the first three, by their names."""
    names = [name for name in _ADDED if p.node.params[name]]
    return dict(zip(names, p.inputs[3:], strict=True))


def _number_text(number: float) -> str:
    return repr(number) if math.isfinite(number) else "-np.inf"


def _print_numpy(p: Printing) -> str:
    params = p.node.params
    arguments = [*p.inputs[:3], repr(params["scale"]), _number_text(params["hidden"])]
    arguments += [f"{name}={text}" for name, text in _added(p).items()]
    arguments += ["causal=True"] * bool(params["causal"])
    return p.call(attention_numpy, *arguments)


def _print_jax(p: Printing) -> str:
    added, params = _added(p), p.node.params
    scale, most = repr(params["scale"]), params["most"]
    half = p.node.inputs[0].dtype.itemsize == 2
    hides = any(params[name] for name in ("lengths", "count", "causal"))
    hides = hides or params["hidden"] != HIDDEN or (half and params["mask"])
    if not (half or most or hides):
        named = [f"{name}={text}" for name, text in added.items()]
        arguments = [*p.inputs[:3], *named, f"scale={scale}"]
        return f"jax.nn.dot_product_attention({', '.join(arguments)})"
    function = hiding_attention_jax if hides else attention_jax
    arguments = ["jax", str(most), *p.inputs[:3], scale]
    arguments += [added.get(name, "None") for name in _ADDED[: 4 if hides else 2]]
    if hides:
        arguments += [repr(params["causal"]), _number_text(params["hidden"])]
    return p.call(function, *arguments)


FUSED_ATTENTION = _fused_attention
_fused_attention.rounding = "many"
_fused_attention.emit(numpy=_print_numpy, jax=_print_jax)
_MADE_LATE = "rewrites make it only after gradients, batching and padding"
_fused_attention.no_gradient(_MADE_LATE)
_fused_attention.no_batch(_MADE_LATE)
_fused_attention.no_padding(_MADE_LATE)
