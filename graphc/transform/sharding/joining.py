"""Axes whose parts devices work on separately, and axes over which they join results.

Loops that take arrays part by part have such rules, for tiles. Here are the rules of
ops that are not tiled, and of sums over an axis.
"""

from collections.abc import Callable, Container, Iterable, Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Dim, Size, equal
from graphc.ir.sizes.polynomials import polynomial
from graphc.ir.types import product, same_size
from graphc.ops.common.monoids import MONOIDS
from graphc.ops.indexing.counting_indices import (
    axes_after,
    counting_distance,
    end_distance,
    gather_axes,
)
from graphc.ops.indexing.parse import is_adjacent
from graphc.rewriting.loops.find.axis_rules import axes_from_end, operand_axes
from graphc.rewriting.loops.find.contractions import PRODUCTS, contracted_axes
from graphc.transform.sharding.combining import PlaceOf
from graphc.transform.sharding.sent import Unforeseen

OperandAxis = Sequence[int | None]
AxesOfOperands = Sequence[Iterable[int]]
PARTED: RuleTable[Callable[[Node, int], OperandAxis | None]] = RuleTable(
    "axes of operands that parts along an axis of the result are made of"
)
JOINED: RuleTable[Callable[[Node], AxesOfOperands]] = RuleTable(
    "axes of operands over which results of parts are joined"
)


# The number of matrix axes, in ops that take matrices one by one along the other axes.
STACKED: RuleTable[int] = RuleTable("axes of what is stacked")
for _primitive in (
    *(OP.det, OP.slogdet, OP.eig, OP.eigh, OP.eigvals, OP.qr, OP.svd, OP.pinv),
    *(OP.lu_factor, OP.cofactors, OP.expm, OP.sqrtm, OP.schur),
):
    STACKED.define(_primitive, 2)
MATRICES = *STACKED.rules, OP.cholesky, OP.solve_triangular, OP.solve, OP.inv

# Loops within elementwise ops, and draws by rejection, go on until no element of any
# device needs another step: the bytes of the messages that tell, one for each loop.
AGREED: RuleTable[int] = RuleTable("bytes that tell whether loops go on")
for _primitive, _loops in (
    *((OP.gammainc, 2), (OP.gammaincc, 2), (OP.betainc, 1), (OP.gcd, 1), (OP.lcm, 1)),
    *((OP.jax_gammainc, 2), (OP.jax_gammaincc, 2)),
    *((OP.gammaincinv, 5), (OP.gammainccinv, 5), (OP.betaincinv, 3)),
    *((OP.random_gamma, 2), (OP.random_loggamma, 2), (OP.random_chisquare, 2)),
    *((OP.random_t, 2), (OP.random_dirichlet, 2)),
    *((OP.random_beta, 4), (OP.random_f, 4)),
):
    AGREED.define(_primitive, _loops)


def parted_axes(node: Node, axis: int, result: Value) -> OperandAxis | None:
    """For each operand, the axis whose parts make the parts along `axis` of a result.

    None for an operand that all parts share; None instead of a list where no axis does
    so.
    """
    if node.primitive.elementwise:
        return axes_from_end(node.inputs, result.type.rank - axis)
    cores = STACKED.find(node.primitive)
    if cores is not None:
        ranks = [v.type.rank - cores for v in node.inputs]
        return [axis] if axis < min(ranks) else None
    rule = PARTED.find(node.primitive)
    return operand_axes(node, axis, tiled=True) if rule is None else rule(node, axis)


def joined_axes(node: Node) -> AxesOfOperands:
    """For each operand, the axes over which results of parts are joined."""
    rule = JOINED.find(node.primitive)
    return () if rule is None else rule(node)


@JOINED.of(*MONOIDS.rules)
def _of_reduction(node: Node) -> AxesOfOperands:
    return [node.params["axes"]]


@JOINED.of(OP.basic_index)
def _of_items(node: Node) -> AxesOfOperands:
    """One device has the element along such an axis; the others have zeros."""
    axes = [k for k in node.params["kinds"] if k != "n"]
    return [[a for a, kind in enumerate(axes) if kind == "i"]]


@JOINED.of(OP.count_nonzero)
def _of_all(node: Node) -> AxesOfOperands:
    return [range(node.inputs[0].type.rank)]


@JOINED.of(*PRODUCTS)
def _of_product(node: Node) -> AxesOfOperands:
    return list(zip(*contracted_axes(node), strict=True))


@PARTED.of(OP.reshape)
def _parts_of_reshape(node: Node, axis: int) -> OperandAxis | None:
    """Rows that are joined, or parted, stay in the order of devices."""
    before, after = node.inputs[0].type.shape, node.outputs[0].type.shape
    for old, size in enumerate(before):
        alike = equal(product(before[:old]), product(after[:axis])) is True
        if alike and _are_in_order(size, after[axis]):
            return [old]
    return None


def _are_in_order(n: Size, m: Size) -> bool:
    """Whether two symbolic sizes are the same, or multiples of one symbol."""
    if not isinstance(n, Dim) or not isinstance(m, Dim):
        return False
    if same_size(n, m):
        return True
    terms = [*polynomial(n).items(), *polynomial(m).items()]
    return bool(set.intersection(*(set(monomial) for monomial, _ in terms)))


@PARTED.of(OP.repeat)
def _parts_of_repeat(node: Node, axis: int) -> OperandAxis:
    return [axis]


@PARTED.of(OP.einsum)
def _parts_of_einsum(node: Node, axis: int) -> OperandAxis:
    inputs, output = _labels(node)
    letter = output[axis]
    return [labels.index(letter) if letter in labels else None for labels in inputs]


@JOINED.of(OP.einsum)
def _of_einsum(node: Node) -> AxesOfOperands:
    """The summed axes of two operands; with more, products may be summed first."""
    inputs, output = _labels(node)
    if len(inputs) > 2:
        return []
    return [[a for a, x in enumerate(labels) if x not in output] for labels in inputs]


def _labels(node: Node) -> tuple[list[str], str]:
    inputs, output = node.params["subscripts"].split("->")
    return inputs.split(","), output


@PARTED.of(OP.conv)
def _parts_of_conv(node: Node, axis: int) -> OperandAxis | None:
    """Parts of images, or of kernels where each takes all channels."""
    if axis == 0:
        return [0, None]
    return [None, 0] if axis == 1 and _takes_all_channels(node) else None


@JOINED.of(OP.conv)
def _of_conv(node: Node) -> AxesOfOperands:
    return [[1], [1]] if _takes_all_channels(node) else []


def _takes_all_channels(node: Node) -> bool:
    return same_size(node.params["groups"], 1)


@PARTED.of(OP.gather)
def _parts_of_gather(node: Node, axis: int) -> OperandAxis:
    x, *indices = node.inputs
    counted = gather_axes(node, axis)
    if counted is not None:
        return [counted[0], *axes_from_end(indices, end_distance(node, axis))]
    axes = node.params["axes"]
    start, points = _axes_of_points(axes, indices)
    if start <= axis < start + points:
        return [None, *axes_from_end(indices, start + points - axis)]
    return [
        _axes_left(x, axes)[axis - points * (axis >= start)],
        *[None] * len(indices),
    ]


@PARTED.of(OP.scatter)
def _parts_of_scatter(node: Node, axis: int) -> OperandAxis | None:
    x, update, *indices = node.inputs
    axes = node.params["axes"]
    if axis in axes:
        behind = counting_distance(node, axis) if is_adjacent(axes) else None
        if behind is None:  # each device writes what is in its part
            return [axis, *[None] * (len(indices) + 1)]
        updates = axes_from_end([update], behind + axes_after(node))
        return [axis, *updates, *axes_from_end(indices, behind)]
    start, points = _axes_of_points(axes, indices)
    left = _axes_left(x, axes).index(axis)
    behind = len(_axes_left(x, axes)) - left + points * (left < start)
    return [axis, *axes_from_end([update], behind), *[None] * len(indices)]


@JOINED.of(OP.scatter)
def _of_scatter(node: Node) -> AxesOfOperands:
    """The axes of added updates and of their places, of which devices have parts."""
    x, update, *indices = node.inputs
    if node.params["how"] != "add":
        return []
    start, points = _axes_of_points(node.params["axes"], indices)
    first = (
        update.type.rank - (len(_axes_left(x, node.params["axes"])) - start) - points
    )
    places = range(max(first, 0), max(first + points, 0))
    return [[], places, *(range(i.type.rank) for i in indices)]


@PARTED.of(OP.segment)
def _parts_of_segment(node: Node, axis: int) -> OperandAxis | None:
    return [axis, None, None] if axis else None


@JOINED.of(OP.segment)
def _of_segment(node: Node) -> AxesOfOperands:
    return [[0], [0], []] if node.params["how"] == "add" else []


@PARTED.of(OP.pad)
def _parts_of_pad(node: Node, axis: int) -> OperandAxis | None:
    widths = node.params["low"][axis], node.params["high"][axis]
    return [axis, None] if all(same_size(n, 0) for n in widths) else None


@PARTED.of(OP.max_pool, OP.min_pool, OP.sum_pool)
def _parts_of_pool(node: Node, axis: int) -> OperandAxis | None:
    """Parts of images and channels: windows are over the last axes."""
    before = node.inputs[0].type.rank - len(node.params["window"])
    return [axis] if axis < before else None


@PARTED.of(OP.cholesky, OP.inv, OP.solve, OP.solve_triangular, OP.svdvals, OP.eigvalsh)
def _parts_of_matrices(node: Node, axis: int) -> OperandAxis | None:
    """Parts of stacked matrices, each of which one device has."""
    behind = node.outputs[0].type.rank - axis
    values = node.primitive in (OP.svdvals, OP.eigvalsh)
    if behind <= 2 - values:
        return None
    axes = axes_from_end(node.inputs, behind + values)
    return None if None in axes else axes  # JAX makes one system of several


@PARTED.of(OP.searchsorted)
def _parts_of_searchsorted(node: Node, axis: int) -> OperandAxis:
    return [None, axis]


def _axes_of_points(axes: tuple[int, ...], indices: Sequence[Value]) -> tuple[int, int]:
    """The first axis of a result that index arrays make, and how many they make."""
    return axes[0] if is_adjacent(axes) else 0, max(i.type.rank for i in indices)


def _axes_left(x: Value, axes: Sequence[int]) -> list[int]:
    return [a for a in range(x.type.rank) if a not in axes]


def shared_axis(
    node: Node,
    of_operands: Sequence[int | None],
    place: PlaceOf,
    is_made: Callable[[Value], bool],
) -> str | None:
    """The axis of the mesh along which the operands of an axis lie.

    Values that are made of nothing lie as the others do. Raises Unforeseen where the
    operands lie along several axes of the mesh.
    """
    pairs = [(v, a) for v, a in zip(node.inputs, of_operands, strict=False)]
    along = [
        (v, a) for v, a in pairs if a is not None and not same_size(v.type.shape[a], 1)
    ]
    others = [(v, a) for v, a in along if not is_made(v)]
    names = {place(v)[a] for v, a in others or along} - {None}
    if len(names) > 1:
        raise Unforeseen
    return next(iter(names), None)


def joined_names(
    node: Node, parted: Sequence[Container[int]], place: PlaceOf
) -> set[str]:
    """The axes of the mesh over which results of parts are joined.

    Parts of operands along the axes that are `parted` make parts of results instead.
    """
    summed = [set(axes) for axes in joined_axes(node)]
    summed += [set()] * (len(node.inputs) - len(summed))
    joined: set[str] = set()
    for value, parts, reduced in zip(node.inputs, parted, summed, strict=True):
        for axis, name in enumerate(place(value)):
            if name is not None and axis not in parts:
                if axis not in reduced:
                    raise Unforeseen
                joined.add(name)
    return joined
