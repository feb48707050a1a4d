"""Ops that need axes whole on each device, which JAX then gathers.

XLA cannot part these ops along such an axis: it fails, or ends the process. All other
ops XLA parts, or gathers by itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from graphc.control.scan import SCAN, scan_inputs
from graphc.ir.graph.bodies import has_bodies, with_inner_nodes
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import symbols_in
from graphc.ops.indexing.counting_indices import gather_axes
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import MeshLayout, whole_axes, with_whole_axes
from graphc.transform.sharding.neighbours import shift_of

# The axes, of the inputs and the results alike, that are to be whole.
WHOLE: RuleTable[Callable[[Node], Iterable[int]]] = RuleTable("axes that stay whole")
WHOLE.define(OP.fft, lambda node: node.params["axes"])
WHOLE.define(OP.top_k, lambda node: [node.params["axis"]])
WholeAxes = Iterable[Iterable[int]]
# For each input, the axes that are to be whole: the results lie as other inputs do.
OPERANDS: RuleTable[Callable[[MeshLayout, Node], WholeAxes]] = RuleTable(
    "axes of operands that stay whole"
)
_GATHERED_BY_XLA = (OP.top_k,)  # XLA copes with it: inputs that lie open are left


@OPERANDS.of(OP.gather)
def _of_gather(layout: MeshLayout, node: Node) -> WholeAxes:
    """The axes along which any element may be read, from any device."""
    counted = [gather_axes(node, axis) for axis in range(node.outputs[0].type.rank)]
    row_axes = {along[0] for along in counted if along is not None}
    return [[a for a in node.params["axes"] if a not in row_axes]]


@OPERANDS.of(OP.searchsorted, OP.nonzero)
def _of_first(layout: MeshLayout, node: Node) -> WholeAxes:
    return [range(node.inputs[0].type.rank)]


@OPERANDS.of(OP.concatenate)
def _of_concatenate(layout: MeshLayout, node: Node) -> WholeAxes:
    """The joined axis of several spread arrays; few rows around one array are sent."""
    axis = node.params["axis"]
    if shift_of(layout, node, axis) is not None:
        return []
    return [[axis] for _ in node.inputs]


@OPERANDS.of(SCAN)
def _of_scan(layout: MeshLayout, node: Node) -> WholeAxes:
    """Each device takes all steps, and keeps its rows of the results."""
    parts = scan_inputs(node.inputs, node.params)
    return [*[()] * len(parts.first), *[(0,)] * len(parts.rows)]


@OPERANDS.of(OP.matmul)
def _of_matmul(layout: MeshLayout, node: Node) -> WholeAxes:
    """The columns, where rows lie along the same axis of the mesh."""
    x, y = (layout.of(v) for v in node.inputs)
    if x is None or y is None or min(len(x), len(y)) < 2:
        return []
    alike = y[-1] is not None and x[-2] == y[-1]
    return [(), (len(y) - 1,) if alike else ()]


@dataclass(frozen=True)
class Gathered:
    """A node, and where its inputs and results lie so that it has them whole.

    The `sent` inputs are those that devices have parts of before. Other inputs and the
    results are given too, since later nodes may ask for parts of the results.
    """

    node: Node
    inputs: Mapping[Value, MeshAxes]
    outputs: Mapping[Value, MeshAxes]
    sent: tuple[Value, ...]

    @property
    def is_apart(self) -> bool:
        """Whether devices do the node on all they have, or on parts along other axes.

        XLA does not part these ops along any axis. A body is left to XLA.
        """
        return not has_bodies(self.node)


def needed_whole(layout: MeshLayout, node: Node) -> Gathered | None:
    """The arrays that a node needs whole; None where it may be parted along all axes.

    A node with such an op in a body needs all of its arrays whole.
    """
    rule = WHOLE.find(node.primitive)
    if rule is not None:
        axes = set(rule(node))
        is_open = any(layout.of(v) is None for v in node.inputs)
        if is_open and node.primitive in _GATHERED_BY_XLA:
            return None
    elif has_bodies(node) and any(
        n.primitive in WHOLE for n in with_inner_nodes([node])
    ):
        values = *node.inputs, *node.outputs
        axes = {a for v in values for a in range(v.type.rank)}
    else:
        return None
    inputs = {v: _place_without(layout, v, axes) for v in node.inputs if v.type.rank}
    outputs = {v: _place_without(layout, v, axes) for v in node.outputs if v.type.rank}
    sent = tuple([v for v in inputs if _spread_axes(layout, v) & axes])
    return Gathered(node, inputs, outputs, sent)


def _spread_axes(layout: MeshLayout, value: Value) -> set[int]:
    """The axes whose elements may be spread over devices."""
    return {
        axis
        for axis, size in enumerate(value.type.shape)
        if not layout.axes.keys().isdisjoint(symbols_in(size))
    }


def _place_without(layout: MeshLayout, value: Value, axes: set[int]) -> MeshAxes:
    """The place of a value with these axes whole."""
    return with_whole_axes(layout.of(value) or whole_axes(value), axes)


def uneven_operands(layout: MeshLayout, node: Node) -> list[Value]:
    """Rows to be added up that devices may not share evenly.

    XLA ends the process where it spreads some of these; along one of several axes of a
    mesh, it adds some rows more than once.
    """
    if node.primitive not in (OP.scatter, OP.segment):
        return []
    several = len([n for n in layout.mesh.sizes if n > 1]) > 1
    rows = {*(node.inputs if node.primitive is OP.segment else node.inputs[1:])}
    arrays = [v for v in node.inputs if v.node.inputs and v.type.rank]
    uneven = [v for v in arrays if not any(layout.of(v) or ())]
    return [v for v in uneven if layout.is_spread(v) or (several and v in rows)]


def whole_operands(layout: MeshLayout, node: Node) -> dict[Value, MeshAxes]:
    """The inputs with spread axes that the node needs whole, and where they lie then.

    JAX decides about inputs that lie open.
    """
    rule = OPERANDS.find(node.primitive)
    if rule is None:
        return {v: whole_axes(v) for v in uneven_operands(layout, node)}
    places: dict[Value, MeshAxes] = {}
    for value, axes in zip(node.inputs, rule(layout, node), strict=False):
        before = layout.of(value)
        if before is not None and any(before[a] is not None for a in axes):
            places[value] = with_whole_axes(before, {*axes})
    return places
