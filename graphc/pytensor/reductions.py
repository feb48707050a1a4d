"""Reductions, products and softmax."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import graphc.tensor as gt
from graphc.ir.graph.nodes import Value
from graphc.ir.types import BOOL, INT64
from graphc.pytensor.elemwise import truth
from graphc.pytensor.registry import NotConverted, as_stated, rule

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op


def axes_of(op: "Op", x: Value) -> tuple[int, ...]:
    """The axes that an Op reduces; None means all."""
    return tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)


def _cast_to_add(op: "Op", node: "Apply", x: Value) -> Value:
    """Cast the input to the dtype in which PyTensor adds up."""
    dtype = getattr(op, "acc_dtype", None) or node.outputs[0].type.dtype
    return as_stated(x, dtype)


REDUCTIONS: dict[str, Callable[..., Any]] = {  # by the name of the scalar Op
    "Add": lambda x, axis: gt.sum(x, axis=axis, dtype=x.dtype),
    "Mul": lambda x, axis: gt.prod(x, axis=axis, dtype=x.dtype),
    "Maximum": lambda x, axis: gt.max(x, axis=axis),
    "Minimum": lambda x, axis: gt.min(x, axis=axis),
    "ScalarMaximum": lambda x, axis: gt.max(x, axis=axis),
    "ScalarMinimum": lambda x, axis: gt.min(x, axis=axis),
    "MulWithoutZeros": lambda x, axis: gt.prod(
        gt.where(x == 0, gt.ones_like(x), x), axis=axis, dtype=x.dtype
    ),
}

LOGICAL: dict[str, Callable[..., Any]] = {  # of bools
    "AND": lambda x, axis: gt.all(x, axis=axis),
    "OR": lambda x, axis: gt.any(x, axis=axis),
    "XOR": lambda x, axis: gt.count_nonzero(x, axis=axis) % 2 == 1,
}


@rule("CAReduce")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    name, axes = type(op.scalar_op).__name__, axes_of(op, x)
    if name in LOGICAL and x.dtype == BOOL:
        return LOGICAL[name](x, axes) if axes else x
    if getattr(op, "initial", False):  # of Max and Min, newer than the others
        reduce = gt.max if type(op).__name__ == "Max" else gt.min
        return reduce(x, axis=axes, initial=op.initial_value(x.dtype.name))
    if name not in REDUCTIONS:
        raise NotConverted(f"there is no reduction by {op.scalar_op}")
    numbers = _cast_to_add(op, node, x)
    if not axes:
        return x
    of_all = len(axes) == x.ndim
    if name == "Add" and of_all and x.dtype == BOOL and numbers.dtype == INT64:
        return gt.count_nonzero(x)  # to PyTensor, the number of selected elements
    return REDUCTIONS[name](numbers, axes)


@rule("All", "Any")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    reduce = gt.all if type(op).__name__ == "All" else gt.any
    return reduce(truth(x), axis=axes_of(op, x))


@rule("Argmax")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    """Find the position among all elements of the reduced axes, in their order."""
    axes = axes_of(op, x)
    other_axes = [a for a in range(x.ndim) if a not in axes]
    turned = gt.transpose(x, [*other_axes, *axes])
    flat = gt.reshape(turned, [*(x.shape[a] for a in other_axes), -1])
    return gt.argmax(flat, axis=-1)


@rule("Dot", "Dot22", "BatchedDot")
def _(op: "Op", node: "Apply", x: Value, y: Value) -> Value:
    dtype = node.outputs[0].type.dtype
    return gt.matmul(as_stated(x, dtype), as_stated(y, dtype))


rule("Dot22Scalar")(lambda op, node, x, y, a: a * gt.matmul(x, y))
rule("Gemv")(lambda op, node, y, a, x, v, b: b * y + a * gt.matmul(x, v))
rule("Gemm")(lambda op, node, z, a, x, y, b: b * z + a * gt.matmul(x, y))
rule("Ger")(lambda op, node, z, a, x, y: z + a * gt.outer(x, y))
rule("Softmax")(lambda op, node, x: gt.special.softmax(x, axis=op.axis))
rule("LogSoftmax")(lambda op, node, x: gt.special.log_softmax(x, axis=op.axis))


@rule("SoftmaxGrad")
def _(op: "Op", node: "Apply", dy: Value, y: Value) -> Value:
    both = dy * y
    return both - gt.sum(both, axis=op.axis, keepdims=True) * y
