"""Reductions over a tiled axis: each tile is reduced, and combined with a carry.

Sums are associated in another order, and sums of halves accumulate in single precision.
"""

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np

from graphc.ir.build import as_value, cast
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.types import DType, dtype_of, is_float
from graphc.ops.common.monoids import MONOIDS, Monoid
from graphc.rewriting.loops.access import same_op
from graphc.rewriting.sizes import is_wide

ContractedAxes = Callable[[Node], list[tuple[int, int]]]
CONTRACTIONS: RuleTable[ContractedAxes] = RuleTable("contracted axes")


class Joined(NamedTuple):
    """The tiled axes that a node reduces, None for inputs that all tiles share.

    `reduced` reduces tiles, and `join` combines the result with the carry.
    """

    node: Node
    axes: list[int | None]
    first: Value  # the element of the init
    reduced: Callable[[Sequence[Value]], Value]
    join: Callable[[Value, Value], Value]

    def start(self, known: Callable[[Value], Value]) -> Value:
        """The init, where `known` maps a value to its replacement."""
        found: Value = F.full(self.node.outputs[0].type.shape, known(self.first))
        return found

    @property
    def end(self) -> Callable[[Value], Value]:
        """Project the final carry to the result."""
        dtype = self.node.outputs[0].dtype
        return lambda carry: cast(carry, dtype)


OperandAxes = list[int | None]


def joined(node: Node, axes: OperandAxes) -> Joined | None:
    """The reduction of a node over these axes of its inputs, some of which may be None.

    None if it reduces none of them.
    """
    monoid = MONOIDS.find(node.primitive)
    if node.primitive in CONTRACTIONS:
        return _product(node, axes)
    if node.primitive in _OF_ALL:
        return _of_all(node, axes[0])
    if monoid is None or axes[0] not in node.params["axes"]:
        return None
    if node.inputs[0].dtype.kind == "c" and not monoid.widened:
        return None
    return _reduction(node, axes, monoid)


def _reduction(node: Node, axes: OperandAxes, monoid: Monoid) -> Joined:
    dtype = node.outputs[0].dtype
    from_number = _STARTED.get(node.primitive)
    wide = _wide(dtype) if monoid.widened else dtype
    number = as_value(np.asarray(monoid.neutral(dtype)).astype(wide))
    first = node.inputs[1] if len(node.inputs) > 1 else number
    params = {k: node.params[k] for k in ("axes", "keepdims")}

    def reduced(blocks: Sequence[Value]) -> Value:
        """Reduce a tile, which may be empty."""
        x = blocks[0]
        if from_number is not None:
            made: Value = from_number(x, number, **params)
            return made
        return node.primitive(cast(x, wide) if wide is not dtype else x, **params)

    rest: OperandAxes = [None] * (len(node.inputs) - 1)
    return Joined(node, [axes[0], *rest], first, reduced, getattr(F, monoid.join))


def _of_all(node: Node, axis: int | None) -> Joined | None:
    """A sum over all elements, of a function of each."""
    dtype = node.outputs[0].dtype
    if axis is None or _wide(dtype) is not dtype:
        return None

    def reduced(blocks: Sequence[Value]) -> Value:
        return node.primitive(blocks[0])

    return Joined(node, [axis], _zero(dtype), reduced, F.add)


def _product(node: Node, axes: OperandAxes) -> Joined | None:
    """A product that contracts an axis of both factors."""
    out = node.outputs[0]
    if not is_wide(out.dtype):
        return None
    for pair in contracted(node):
        if any(a == b for a, b in zip(axes, pair, strict=True) if a is not None):
            zero = _zero(out.dtype)
            return Joined(node, list(pair), zero, lambda b: same_op(node, b), F.add)
    return None


def _zero(dtype: DType) -> Value:
    return as_value(np.zeros((), dtype))


def contracted(node: Node) -> list[tuple[int, int]]:
    """The pairs of axes that a product contracts."""
    return CONTRACTIONS.rules[node.primitive](node)


def reduces(node: Node, i: int, axes: Container[int]) -> bool:
    """Whether a node reduces one of these axes of an input."""
    if node.primitive in CONTRACTIONS:
        return any(pair[i] in axes for pair in contracted(node))
    if i or node.primitive in _OF_ALL:
        return not i
    return node.primitive in MONOIDS and any(a in axes for a in node.params["axes"])


def _of_matmul(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, max(y.type.rank - 2, 0))]


def _of_vecdot(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, y.type.rank - 1)]


def _of_tensordot(node: Node) -> list[tuple[int, int]]:
    return list(zip(*node.params["axes"], strict=True))


def _wide(dtype: DType) -> DType:
    """The dtype that accumulates sums of tiles."""
    return dtype_of("float32") if is_float(dtype) and dtype.itemsize < 4 else dtype


CONTRACTIONS.of(OP.matmul)(_of_matmul)
CONTRACTIONS.of(OP.vecdot)(_of_vecdot)
CONTRACTIONS.of(OP.tensordot)(_of_tensordot)
_OF_ALL = (OP.sum_of_squares, OP.count_nonzero)
_STARTED = {  # of tiles that may be empty
    **dict.fromkeys((OP.max, OP.max_from), OP.max_from),
    **dict.fromkeys((OP.min, OP.min_from), OP.min_from),
}
