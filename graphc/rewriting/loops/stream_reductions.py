"""Stream reductions: init, step and projection of the carries of a loop.

A loop reduces slices one by one, or tiles of several positions. For either a reduction
says where its parts are, and how the carries change with each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.dims import Size, equal
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.types import product
from graphc.rewriting.loops.access import same_op
from graphc.rewriting.loops.affine_reads import View
from graphc.rewriting.loops.folds import Carry, Running
from graphc.rewriting.loops.producers import SlicePlace
from graphc.rewriting.loops.slice_rules import is_large
from graphc.rewriting.sizes import is_one

ContractedAxes = Callable[[Node], list[tuple[int, int]]]
CONTRACTIONS: RuleTable[ContractedAxes] = RuleTable("contracted axes")
PartsRead = Mapping[SlicePlace, Value]  # slices, or tiles, which keep their axis
Resolve = Callable[[Value], Value]  # the replacement of a value of the graph
Start = Callable[[Resolve], Carry]
ReductionStep = Callable[[Carry, PartsRead, Value], Carry]
End = Callable[[Carry, Resolve], Value]


@dataclass(frozen=True)
class StreamReduction:
    """A reduction of the parts at `places`: slices of them, or tiles.

    `start` is the init, from replacements of values from before the loop. `step` takes
    the carries, the parts, and the number of the iteration, or the first position of a
    tile; `placed`: it uses the number. `end` projects the final carries to the result,
    from replacements of values after the loop. `needs`: values that `start` reads.
    """

    places: list[SlicePlace]
    start: Start
    step: ReductionStep
    end: End
    placed: bool = False
    needs: Sequence[Value] = ()


def of_rows(node: Node, run: Running, view: View, length: Size) -> StreamReduction:
    """The reduction of one value, slice by slice."""
    place = node.inputs[0], view

    def step(carry: Carry, rows: PartsRead, number: Value) -> Carry:
        after = run.step(carry, rows[place], view.position(number))
        return counted(after, carry, view.holds(number, length))

    placed = run.placed or not view.covers(length)
    return StreamReduction(
        [place], lambda _: run.start, step, lambda carry, _: run.end(carry), placed
    )


def counted(after: Carry, before: Carry, held: Value | None) -> Carry:
    """The carries after an iteration; those before it where `held` is false."""
    if held is None:
        return after
    return [F.where(held, a, b) for a, b in zip(after, before, strict=True)]


def contracted(node: Node) -> list[tuple[int, int]]:
    """The pairs of axes that a product contracts; none if the node is no product."""
    rule = CONTRACTIONS.find(node.primitive)
    return rule(node) if rule else []


def _of_matmul(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, max(y.type.rank - 2, 0))]


def _of_vecdot(node: Node) -> list[tuple[int, int]]:
    x, y = node.inputs
    return [(x.type.rank - 1, y.type.rank - 1)]


def _of_tensordot(node: Node) -> list[tuple[int, int]]:
    return list(zip(*node.params["axes"], strict=True))


CONTRACTIONS.of(OP.matmul)(_of_matmul)
CONTRACTIONS.of(OP.vecdot)(_of_vecdot)
CONTRACTIONS.of(OP.tensordot)(_of_tensordot)
PRODUCTS = (OP.matmul, OP.tensordot, OP.vecdot)


def stays_large(node: Node, i: int) -> bool:
    """Whether a product per position of a contracted axis is as fast as all at once.

    It is where no element is read more than once, as for a matrix and a vector.
    """
    x, y = node.inputs
    pairs = contracted(node)
    if _is_batched(node):
        return _reads_once(node)
    if any(v.type.rank == len(pairs) for v in (x, y)):
        return True
    sizes = [x.type.shape[a] for a, _ in pairs]
    return is_large(product(sizes[:i] + sizes[i + 1 :]))


def _is_batched(node: Node) -> bool:
    """Whether a product has axes that both factors share and it does not contract."""
    matrices = node.primitive is OP.matmul
    many = max(x.type.rank for x in node.inputs) > 2
    return node.primitive is OP.vecdot or (matrices and many)


def _reads_once(node: Node) -> bool:
    """Whether a batched product is one of a vector and a matrix in each batch."""
    x, y = node.inputs
    own = 1 if node.primitive is OP.vecdot else 2
    if x.type.rank != y.type.rank:
        return False
    outer = zip(x.type.shape[:-own], y.type.shape[:-own], strict=True)
    if not all(equal(a, b) is True for a, b in outer):
        return False
    return own == 1 or is_one(x.type.shape[-2]) or is_one(y.type.shape[-1])


def of_product(
    node: Node, i: int, views: tuple[View, View], size: Size
) -> StreamReduction:
    """The reduction of a product that sums over slices, along its i-th pair of axes."""
    x, y = zip(node.inputs, views, strict=True)

    def step(carry: Carry, rows: PartsRead, number: Value) -> Carry:
        found = product_of_slices(node, i, [rows[x], rows[y]])
        return counted([F.add(carry[0], found)], carry, views[0].holds(number, size))

    type = node.outputs[0].type
    placed = not views[0].covers(size)
    return StreamReduction(
        [x, y],
        lambda _: [F.zeros(type.shape, type.dtype)],
        step,
        lambda carry, _: carry[0],
        placed,
    )


def product_of_slices(node: Node, i: int, slices: Sequence[Value]) -> Value:
    """The product of one slice of each factor, along the i-th pair of axes."""
    pairs = contracted(node)
    if _is_batched(node):
        tiles = zip(slices, pairs[i], strict=True)
        return same_op(node, [F.expand_dims(x, axis) for x, axis in tiles])
    rest = pairs[:i] + pairs[i + 1 :]
    sides = (tuple(p[k] - (p[k] > pairs[i][k]) for p in rest) for k in (0, 1))
    x, y = slices
    found: Value = F.tensordot(x, y, axes=tuple(sides))
    return found
