"""Rules of products and convolutions."""

import string
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision

from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import is_inexact


def _require_default(eqn: Equation, *inputs: Value) -> None:
    """Raise Unsupported for a product in another precision or dtype than usual.

    CPUs have only one precision; elsewhere the usual one is what JAX is set to.
    """
    if not _is_on_cpu():
        _require_usual_precision(eqn)
    if any(v.dtype != eqn.result.dtype for v in inputs):
        name = eqn.eqn.primitive.name
        raise Unsupported(f"{name}: its result has another dtype than its arguments")


def _require_usual_precision(eqn: Equation) -> None:
    config: Any = jax.config
    usual = _precision_set_to(config.jax_default_matmul_precision)
    precision = _precision_of_both(eqn.params["precision"])
    if precision != usual:
        raise Unsupported(
            f"{eqn.eqn.primitive.name}: its precision is {precision}, and that of "
            f"programs is {usual}, which "
            'jax.config.update("jax_default_matmul_precision", "highest") sets, for '
            "example"
        )


def _precision_of_both(precision: object) -> object:
    """The precision of both operands, which JAX may give twice or not at all."""
    if isinstance(precision, tuple) and len(set(precision)) == 1:
        return precision[0]
    return Precision.DEFAULT if precision is None else precision


@lru_cache(16)
def _precision_set_to(setting: str | None) -> object:
    """The precision that products have under this setting of JAX."""
    del setting  # JAX reads it itself
    row = np.ones(1, "float32")
    (eqn,) = jax.make_jaxpr(jax.lax.dot)(row, row).eqns
    return _precision_of_both(eqn.params["precision"])


def _is_on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _widened(eqn: Equation, *inputs: Value) -> list[Value]:
    """Convert the inputs to the result's dtype if it can represent all their numbers.

    CPUs multiply in that dtype; other devices can multiply narrow numbers.
    """
    dtype = eqn.result.dtype
    holds_all = all(jnp.promote_types(v.dtype, dtype) == dtype for v in inputs)
    holds_all &= any(is_inexact(v.dtype) for v in inputs) == is_inexact(dtype)
    return [cast(v, dtype) for v in inputs] if holds_all and _is_on_cpu() else [*inputs]


@PRIMITIVES.define("dot_general")
def _dot_general(eqn: Equation, x: Value, y: Value) -> Value:
    """Sum products over pairs of axes, for each element of the other axes."""
    x, y = _widened(eqn, x, y)
    _require_default(eqn, x, y)
    (mine, theirs), (many, others) = eqn.params["dimension_numbers"]
    mine, theirs, many, others = map(tuple, (mine, theirs, many, others))
    if not many:
        if x.type.rank == y.type.rank == 2 and (mine, theirs) == ((1,), (0,)):
            return F.matmul(x, y)
        return F.tensordot(x, y, (mine, theirs)) if mine else _outer(x, y)
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in range(x.type.rank)]
    right = [next(letters) for _ in range(y.type.rank)]
    for a, b in zip((*many, *mine), (*others, *theirs), strict=True):
        right[b] = left[a]
    batch = [left[a] for a in many]
    rows = [c for a, c in enumerate(left) if a not in (*many, *mine)]
    columns = [c for b, c in enumerate(right) if b not in (*others, *theirs)]
    text = f"{''.join(left)},{''.join(right)}->{''.join(batch + rows + columns)}"
    return F.einsum(text, x, y)


def _outer(x: Value, y: Value) -> Value:
    """Multiply each element of one array by each element of the other."""
    new = tuple(range(x.type.rank, x.type.rank + y.type.rank))
    return F.multiply(F.expand_dims(x, new), y)


_OF_CONVOLUTIONS = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation"),
    *("feature_group_count", "batch_group_count"),
)


@PRIMITIVES.define("conv_general_dilated", sizes=_OF_CONVOLUTIONS)
def _conv(eqn: Equation, x: Value, kernel: Value) -> Value:
    """Convolve an array with a kernel over its spatial axes."""
    _require_default(eqn, x, kernel)
    numbers = eqn.params["dimension_numbers"]
    moved = F.transpose(x, numbers.lhs_spec)
    turned = F.transpose(kernel, numbers.rhs_spec)
    params, of_batch = _conv_params(eqn), eqn.size("batch_group_count")
    if not equal(of_batch, 1):  # each group has channels of its own
        moved, params["groups"] = _batch_as_channels(moved, of_batch), of_batch
    convolved = OPS["conv"](moved, turned, **params)
    order = numbers.out_spec
    return F.transpose(convolved, tuple(order.index(i) for i in range(len(order))))


def _batch_as_channels(x: Value, groups: Size) -> Value:
    """Turn groups of examples into groups of channels."""
    batch, channels, *points = x.type.shape
    split = F.reshape(x, (groups, batch // groups, channels, *points))
    joined = F.swapaxes(split, 0, 1)
    merged: Value = F.reshape(joined, (batch // groups, groups * channels, *points))
    return merged


def _conv_params(eqn: Equation) -> dict[str, object]:
    pads = eqn.shapes("padding")
    return {
        "stride": eqn.shape("window_strides"),
        "padding": "",
        "low": tuple(low for low, _ in pads),
        "high": tuple(high for _, high in pads),
        "spread": eqn.shape("lhs_dilation"),
        "dilation": eqn.shape("rhs_dilation"),
        "groups": eqn.size("feature_group_count"),
    }


PRIMITIVES.refuse("there is no op for it here", "ragged_dot_general", "scaled_matmul")
