"""Ops along a spread axis that devices do on their parts, and then combine.

A running sum is the sum within each part, after the totals of the parts before; the
largest elements are among the largest of each part; sorted parts exchange elements with
one other part at a time. No device has the whole array, which XLA would gather.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Dim, Size, minimum
from graphc.ir.types import is_float, same_size
from graphc.ops.indexing.parse import is_adjacent
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import (
    MeshLayout,
    comparable_size,
    whole_axes,
    with_whole_axes,
)
from graphc.transform.sharding.merging import rounds


@dataclass(frozen=True)
class Combined:
    """A node that devices do on parts along the axes `names` of the mesh.

    `bytes` are those of the messages of one device, which are all of one `kind`. Of
    these, `for_places` are sent only if the places of elements are read.
    """

    node: Node
    names: tuple[str, ...]
    inputs: Mapping[Value, MeshAxes]
    outputs: Mapping[Value, MeshAxes]
    kind: str
    bytes: Size
    for_places: Size = 0

    def bytes_read(self, is_read: Callable[[Value], bool]) -> Size:
        """The bytes that are sent for results that something reads."""
        places = self.node.outputs[-1]
        return self.bytes - (0 if is_read(places) else self.for_places)


@dataclass(frozen=True)
class Exchange:
    """The messages by which devices combine: their kind, and the elements of each.

    `elements` counts elements along the axis, of `itemsize` bytes for each place on
    other axes. Results are `whole` if each device has all of them. `place_size` bytes
    of each element tell its place, for a result that may be left unread.
    """

    kind: str
    elements: Size
    itemsize: int
    whole: bool = False
    place_size: int = 0


# For these, XLA ignores NaN where it joins results of several devices.
EXTREMES = OP.max, OP.max_from, OP.peak, OP.min, OP.min_from
_BY_XLA = OP.argmax, OP.argmin  # which XLA combines as the rule does
PlaceOf = Callable[[Value], MeshAxes]
ExchangeOf = Callable[[Node, int, Size], Exchange]
COMBINED: RuleTable[ExchangeOf] = RuleTable(
    "messages by which devices combine, for a number of them and elements of each"
)


@COMBINED.of(OP.cumsum, OP.cumprod, OP.cummax, OP.cummin, OP.cumlogsumexp)
def _of_running(node: Node, devices: int, size: Size) -> Exchange:
    return Exchange("all-gather", devices, node.inputs[0].dtype.itemsize)


@COMBINED.of(OP.recurrence)
def _of_recurrence(node: Node, devices: int, size: Size) -> Exchange:
    """Devices send the last state, and the product of all factors."""
    return Exchange("all-gather", devices, 2 * node.inputs[0].dtype.itemsize)


@COMBINED.of(OP.top_k)
def _of_top_k(node: Node, devices: int, size: Size) -> Exchange:
    """Devices send the largest elements of each part, and where they are."""
    count = minimum(node.params["k"], size)
    itemsize, place_size = (v.dtype.itemsize for v in node.outputs)
    size = itemsize + place_size
    return Exchange("all-gather", devices * count, size, True, place_size)


@COMBINED.of(OP.argmax, OP.argmin)
def _of_extreme(node: Node, devices: int, size: Size) -> Exchange:
    """Devices send the extreme of each part, and where it is."""
    itemsize = node.inputs[0].dtype.itemsize + node.outputs[0].dtype.itemsize
    return Exchange("all-gather", devices, itemsize, whole=True)


@COMBINED.of(OP.sort, OP.argsort)
def _of_sort(node: Node, devices: int, size: Size) -> Exchange:
    """Each round sends all elements of a part, and for argsort their places."""
    itemsize = node.inputs[0].dtype.itemsize
    if node.primitive is OP.argsort:
        itemsize += node.outputs[0].dtype.itemsize
    count = len(list(rounds(devices)))
    return Exchange("collective-permute", count * size, itemsize)


def combination(
    layout: MeshLayout, node: Node, place_of: PlaceOf | None = None
) -> Combined | None:
    """The way in which devices combine a node; None where there is no need or rule.

    `place_of` tells where values lie in a body, since sizes do not tell that there. In
    a body no rule is printed, but XLA combines some ops in the same way.
    """
    if node.primitive in EXTREMES:
        return _combined_extremes(layout, node)
    if node.primitive is OP.gather:
        return _combined_picks(layout, node)
    if node.primitive is OP.basic_index:
        return _combined_cut(layout, node)
    rule = COMBINED.find(node.primitive)
    if rule is None or node.inputs[0].dtype.kind == "c":  # XLA has no order of these
        return None
    x, axis = node.inputs[0], node.params["axis"]
    by_xla = node.primitive in _BY_XLA and not layout.is_spread(x)
    place = place_of(x) if place_of and by_xla else layout.of(x)
    name = None if place is None else place[axis]
    if place is None or name is None or layout.mesh.size(name) == 1:
        return None
    devices = layout.mesh.size(name)
    exchange = rule(node, devices, x.type.shape[axis] // devices)
    sizes = layout.local_shape(x, place)
    others = prod([n for a, n in enumerate(sizes) if a != axis])
    after = list(place)
    if exchange.whole:
        keeps = node.outputs[0].type.rank == len(place)
        after[axis : axis + 1] = [None] * keeps
    return Combined(
        node,
        (name,),
        dict.fromkeys(node.inputs, place),
        dict.fromkeys(node.outputs, tuple(after)),
        exchange.kind,
        exchange.elements * exchange.itemsize * others,
        exchange.elements * exchange.place_size * others,
    )


def _combined_extremes(layout: MeshLayout, node: Node) -> Combined | None:
    """Extremes of floats, which each device gathers from all others: this keeps NaN."""
    x, (result,) = node.inputs[0], node.outputs
    place = layout.of(x)
    if place is None or not is_float(x.dtype):
        return None
    axes = (node.params["axis"],) if node.primitive is OP.peak else node.params["axes"]
    names = [place[a] for a in axes]
    spread = tuple([n for n in names if n is not None and layout.mesh.size(n) > 1])
    if not spread:
        return None
    keeps = result.type.rank == x.type.rank
    after = with_whole_axes(place, axes)
    after = tuple([p for a, p in enumerate(after) if keeps or a not in axes])
    size = prod(layout.local_shape(result, after)) * result.dtype.itemsize
    starts = [v for v in node.inputs[1:] if not v.node.primitive.inline]
    inputs: dict[Value, MeshAxes] = {x: place, **dict.fromkeys(starts, ())}
    devices = prod(map(layout.mesh.size, spread))
    outputs = {result: after}
    return Combined(node, spread, inputs, outputs, "all-gather", devices * size)


def _combined_picks(layout: MeshLayout, node: Node) -> Combined | None:
    """Elements anywhere along one axis, each given by the device that has it.

    None where gathering that axis moves fewer bytes, or devices have parts of the
    indices.
    """
    x, *indices = node.inputs
    axes, (result,) = node.params["axes"], node.outputs
    place = layout.of(x)
    if place is None or any(any(layout.of(i) or ()) for i in indices):
        return None
    spread = [a for a in axes if place[a] is not None]
    if len(spread) != 1 or layout.mesh.size(place[spread[0]] or "") == 1:
        return None
    at = axes[0] if is_adjacent(axes) else 0
    points: list[str | None] = [None] * max(i.type.rank for i in indices)
    other_axes = [name for a, name in enumerate(place) if a not in axes]
    after = (*other_axes[:at], *points, *other_axes[at:])
    size = layout.local_bytes(result, after)
    gathered = layout.local_bytes(x, with_whole_axes(place, spread))
    if comparable_size(size) > comparable_size(gathered):
        return None
    inputs: dict[Value, MeshAxes] = {x: place}
    inputs |= {i: whole_axes(i) for i in indices if not i.node.primitive.inline}
    name = place[spread[0]] or ""
    return Combined(node, (name,), inputs, {result: after}, "all-reduce", size)


def _combined_cut(layout: MeshLayout, node: Node) -> Combined | None:
    """A fixed number of rows along one axis, each given by the device that has it."""
    (x,), (result,) = node.inputs, node.outputs
    place, before, after = layout.of(x), x.type.shape, result.type.shape
    if place is None or set(node.params["kinds"]) != {"s"}:
        return None
    cut = [a for a, n in enumerate(after) if not same_size(n, before[a])]
    name = place[cut[0]] if len(cut) == 1 else None
    if name is None or layout.mesh.size(name) == 1 or isinstance(after[cut[0]], Dim):
        return None
    whole = with_whole_axes(place, cut)
    size = layout.local_bytes(result, whole)
    return Combined(node, (name,), {x: place}, {result: whole}, "all-reduce", size)


def is_cut(node: Node) -> bool:
    """Whether a node takes only some rows along an axis."""
    if node.primitive is not OP.basic_index:
        return False
    kinds, (x,), (result,) = node.params["kinds"], node.inputs, node.outputs
    before = zip([k for k in kinds if k != "n"], x.type.shape, strict=False)
    after = zip([k for k in kinds if k != "i"], result.type.shape, strict=False)
    sizes = [[n for kind, n in pairs if kind == "s"] for pairs in (before, after)]
    return not all(same_size(n, m) for n, m in zip(*sizes, strict=True))
