"""Outer-product temporaries: values much larger than the operands they come from.

`x[:, None] - y[None]` has an element for each pair of an element of x and one of y;
so has `q @ k.T` for pairs of rows. Elementwise functions of such values are as large.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, is_one
from graphc.ir.types import product
from graphc.rewriting.loops.find.axis_rules import operand_axes
from graphc.rewriting.loops.find.contractions import PRODUCTS, contracted_axes
from graphc.rewriting.loops.fuse.folds import reduces_axis
from graphc.rewriting.loops.fuse.picks import is_pick
from graphc.rewriting.match.sizes import varies

TIMES_LARGER = 8  # least ratio to its operands, where sizes are known; for all devices


class Pairs(NamedTuple):
    """The axes of an outer-product temporary, those of one side and of the other.

    `sure`: the value is provably large, whatever the symbolic sizes are.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    sure: bool

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of both sides."""
        return self.rows + self.columns


Large = dict[Value, Pairs]


def large_outer_products(nodes: Iterable[Node], least: int) -> Large:
    """Find the outer-product temporaries that may have at least `least` bytes."""
    outer: Large = {}
    for node in nodes:
        if len(node.outputs) != 1 or node.outputs[0].type.rank < 2:
            continue
        pairs = _pairs(node, outer)
        if pairs is not None and not _is_below(node.outputs[0], least):
            outer[node.outputs[0]] = pairs
    return outer


def _is_below(value: Value, least: int) -> bool:
    nbytes = value.type.nbytes
    return isinstance(nbytes, int) and nbytes < least


def _pairs(node: Node, outer: Large) -> Pairs | None:
    several = [i for i, x in enumerate(node.inputs) if x in outer]
    for i in several:
        pairs = _result_axes(node, i, outer[node.inputs[i]])
        if pairs is not None:
            return pairs
    if several:
        return None
    if node.primitive in PRODUCTS:
        return _pairs_of_product(node)
    return _pairs_of_elementwise(node) if node.primitive.elementwise else None


def _result_axes(node: Node, i: int, pairs: Pairs) -> Pairs | None:
    """Return the axes of a result that keeps both sides of its i-th input, or None."""
    sides: tuple[list[int], list[int]] = ([], [])
    for axis in range(node.outputs[0].type.rank):
        input_axes = operand_axes(node, axis, tiled=True)
        if input_axes is None:
            continue
        sides[0].extend([axis] * (input_axes[i] in pairs.rows))
        sides[1].extend([axis] * (input_axes[i] in pairs.columns))
    if not all(sides):
        return None
    return Pairs(tuple(sides[0]), tuple(sides[1]), pairs.sure)


def _pairs_of_product(node: Node) -> Pairs | None:
    shape = node.outputs[0].type.shape
    sides: tuple[list[int], list[int]] = ([], [])
    for axis, n in enumerate(shape):
        input_axes = operand_axes(node, axis, tiled=True)
        if input_axes is not None and not is_one(n):
            varying = [
                a is not None and not is_one(x.type.shape[a])
                for x, a in zip(node.inputs, input_axes, strict=True)
            ]
            if varying[0] != varying[1]:
                sides[varying[1]].append(axis)
    summed = product([node.inputs[0].type.shape[a] for a, _ in contracted_axes(node)])
    larger = [_is_larger(product([shape[a] for a in s]), summed) for s in sides]
    if not all(sides) or False in larger:
        return None
    return Pairs(tuple(sides[0]), tuple(sides[1]), all(larger))


def _is_larger(n: Size, summed: Size) -> bool | None:
    """Whether a product is much larger than a factor that has `summed` in place of `n`.

    None if the sizes do not tell.
    """
    if isinstance(n, int):
        return isinstance(summed, int) and n >= summed * TIMES_LARGER // 2
    if isinstance(summed, int):
        return True
    return False if equal(n, summed) is True else None


def _pairs_of_elementwise(node: Node) -> Pairs | None:
    shape = node.outputs[0].type.shape
    if len(node.inputs) < 2:
        return None
    varying = [_varying_axes(x, len(shape)) for x in node.inputs]
    all_axes = frozenset().union(*varying)
    for axes in varying:
        missing = product([shape[a] for a in all_axes - axes])
        if isinstance(missing, int) and missing < TIMES_LARGER:
            return None
    for a, b in permutations(varying, 2):
        if a - b and b - a:
            return Pairs(tuple(sorted(a - b)), tuple(sorted(b - a)), True)
    return None


def _varying_axes(x: Value, rank: int) -> frozenset[int]:
    """Return the axes along which a value may vary, once it is broadcast to `rank`."""
    while x.node.primitive is OP.broadcast_to:
        x = x.node.inputs[0]
    return frozenset(a for a in range(rank) if varies(x, rank, a))


def whole_values(nodes: Sequence[Node], graph: Graph, large: Large) -> set[Value]:
    """Return the large values that must materialise for nodes or outputs as a whole."""
    whole = {v for v in graph.outputs if v in large}
    for node in reversed(nodes):
        for i, x in _large_operands(node, large):
            out = node.outputs[0] if node.outputs else None
            is_gone = all(x is not v for v in node.demands) and out not in whole
            if is_gone and out in large:
                continue
            if not is_gone or not _may_reduce_by_tile(node, i, large[x]):
                whole.add(x)
    return whole


def _large_operands(node: Node, large: Large) -> Iterator[tuple[int, Value]]:
    return ((i, x) for i, x in enumerate(operands(node)) if x in large)


def _may_reduce_by_tile(node: Node, i: int, pairs: Pairs) -> bool:
    """Whether a node that makes a large value smaller may do so tile by tile."""
    if len(node.outputs) != 1:
        return False
    if reduces_axis(node, i, pairs.axes):
        return True
    if not i and any(is_pick(node, axis) for axis in pairs.axes):
        return True
    input_axes = [
        operand_axes(node, a, tiled=True) for a in range(node.outputs[0].type.rank)
    ]
    return any(f is not None and f[i] in pairs.axes for f in input_axes)


def component_of(large: Large) -> dict[Value, Value]:
    """Map each large value to a representative of its connected component."""
    parent: dict[Value, Value] = {}

    def root_of(value: Value) -> Value:
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    for value in large:
        parent[value] = value
        for x in value.node.inputs:
            if x in large:
                parent[root_of(x)] = root_of(value)
    return {value: root_of(value) for value in large}
