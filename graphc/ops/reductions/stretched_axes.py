"""Undo broadcasting along axes that may or may not have been stretched."""

from types import ModuleType

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import PRIMITIVES, Array, Printing, op, type_error
from graphc.ir.graph.replay import SETTLING
from graphc.ir.namespace import enroll
from graphc.ir.sizes.dims import Size
from graphc.ir.types import ConcreteArray, TensorType
from graphc.ops.common.batching import Batched
from graphc.ops.common.broadcasting import (
    HowReduced,
    may_stretch,
    reduced_to,
    require_stretchable,
)


@op()
def _unstretched(g: Array, *, shape: tuple[Size, ...], how: HowReduced) -> TensorType:
    """The reduction of `g` over the axes that have size 1 in `shape`."""
    if len(shape) != g.type.rank:
        raise type_error("needs a size for each axis")
    for n, m in zip(shape, g.type.shape, strict=True):
        require_stretchable(n, m, "an axis is no part of the result")
    return g.type.like(shape)


def unstretched(
    xp: ModuleType, g: ConcreteArray, shape: tuple[int, ...], how: str
) -> ConcreteArray:
    """Printed into programs."""
    pairs = enumerate(zip(shape, g.shape))  # noqa: B905
    axes = tuple([i for i, (n, m) in pairs if n == 1 and m != 1])
    if how == "any":
        return xp.any(g, axis=axes, keepdims=True)
    return xp.sum(g, axis=axes, keepdims=True, dtype=g.dtype)


def _print(p: Printing) -> str:
    shape, how = (p.code(p.node.params[name]) for name in ("shape", "how"))
    return p.call(unstretched, p.xp, p.inputs[0], shape, how)


_unstretched.emit(_print)
_unstretched.linear = True
_unstretched.no_padding("programs have sums over the axes that stretch instead")
enroll(_unstretched, "_unstretched")


@_unstretched.vjp
def _(d: Value, g: Value, *, shape: tuple[Size, ...], how: HowReduced) -> tuple[Value]:
    from_one: Value = PRIMITIVES["broadcast_to"](d, shape=g.type.shape)
    return (from_one,)


@_unstretched.batch
def _(
    n: Size, batched: Batched, g: Value, *, shape: tuple[Size, ...], how: HowReduced
) -> Value:
    result: Value = _unstretched(g, shape=(n, *shape), how=how)
    return result


@SETTLING.of(_unstretched)
def _simplify(node: Node) -> Node:
    """Return a plain reduction, or no reduction at all, once the axes are known."""
    (g,), shape = node.inputs, node.params["shape"]
    if may_stretch(shape, g.type.shape):
        return node
    reduction = reduced_to(node.params["how"], g, shape)
    if reduction is not g:
        return reduction.node
    return PRIMITIVES["specify_shape"].bind((g,), {"shape": shape, "kind": "shape"})
