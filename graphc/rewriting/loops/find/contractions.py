"""Contractions: products that sum over an axis of both factors, and parts of them."""

from collections.abc import Callable, Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import equal, is_one
from graphc.ir.types import product
from graphc.rewriting.loops.find.access import reapply
from graphc.rewriting.loops.find.axis_rules import is_large_product

ContractedAxes = Callable[[Node], list[tuple[int, int]]]
CONTRACTIONS: RuleTable[ContractedAxes] = RuleTable("contracted axes")


def contracted_axes(node: Node) -> list[tuple[int, int]]:
    """The pairs of axes that a product contracts; none if the node is no product."""
    rule = CONTRACTIONS.find(node.primitive)
    return rule(node) if rule else []


@CONTRACTIONS.of(OP.matmul)
def _matmul_axes(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, max(y.type.rank - 2, 0))]


@CONTRACTIONS.of(OP.vecdot)
def _vecdot_axes(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, y.type.rank - 1)]


@CONTRACTIONS.of(OP.tensordot)
def _tensordot_axes(node: Node) -> list[tuple[int, int]]:
    return list(zip(*node.params["axes"], strict=True))


PRODUCTS = (OP.matmul, OP.tensordot, OP.vecdot)


def is_fast_in_parts(node: Node, i: int) -> bool:
    """Whether a product per position of a contracted axis is as fast as all at once.

    This is so where no element is read more than once, as for a matrix and a vector.
    """
    x, y = node.inputs
    pairs = contracted_axes(node)
    if _is_batched(node):
        return _reads_once(node)
    if any(v.type.rank == len(pairs) for v in (x, y)):
        return True
    sizes = [x.type.shape[a] for a, _ in pairs]
    return is_large_product(product(sizes[:i] + sizes[i + 1 :]))


def _is_batched(node: Node) -> bool:
    """Whether a product has axes that both factors share without contracting them."""
    matrices = node.primitive is OP.matmul
    is_stack = max(x.type.rank for x in node.inputs) > 2
    return node.primitive is OP.vecdot or (matrices and is_stack)


def _reads_once(node: Node) -> bool:
    """Whether a batched product multiplies a vector and a matrix in each batch."""
    x, y = node.inputs
    matrix_axes = 1 if node.primitive is OP.vecdot else 2
    if x.type.rank != y.type.rank:
        return False
    outer = zip(x.type.shape[:-matrix_axes], y.type.shape[:-matrix_axes], strict=True)
    if not all(equal(a, b) is True for a, b in outer):
        return False
    return matrix_axes == 1 or is_one(x.type.shape[-2]) or is_one(y.type.shape[-1])


def product_of_parts(node: Node, i: int, parts: Sequence[Value], tiled: bool) -> Value:
    """Multiply one part of each factor, along the i-th pair of contracted axes."""
    if tiled:
        return reapply(node, parts)
    pairs = contracted_axes(node)
    if _is_batched(node):
        tiles = zip(parts, pairs[i], strict=True)
        return reapply(node, [F.expand_dims(x, axis) for x, axis in tiles])
    other_pairs = pairs[:i] + pairs[i + 1 :]
    sides = (tuple(p[k] - (p[k] > pairs[i][k]) for p in other_pairs) for k in (0, 1))
    x, y = parts
    return F.tensordot(x, y, axes=tuple(sides))
