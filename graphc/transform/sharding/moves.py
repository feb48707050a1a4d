"""Operands that devices move before an op, so that each has what its part needs.

Devices work on parts along an axis of a mesh one way at a time. Where operands would be
parted in two ways, as rows and as columns of one size, the way that moves the fewest
bytes is taken; other operands are gathered, or laid along that way. An operand that
lies along an axis which no rule parts is gathered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim
from graphc.transform.sharding.by_hand import MeshAxes, is_multiple
from graphc.transform.sharding.combining import PlaceOf
from graphc.transform.sharding.joining import joined_axes, parted_axes
from graphc.transform.sharding.layout import MeshLayout, comparable_size, whole_axes
from graphc.transform.sharding.neighbours import shift_of


@dataclass(frozen=True)
class Claim:
    """An axis of an operand, and the axis of a result that its parts make.

    The parts are joined where `makes` is None.
    """

    operand: int
    axis: int
    makes: int | None


def claims(layout: MeshLayout, node: Node) -> Iterator[Claim]:
    """Yield the axes of operands that devices may have parts of."""
    for result in node.outputs:
        for axis in range(result.type.rank):
            for operand, along in enumerate(_operand_axes(layout, node, result, axis)):
                if along is not None:
                    yield Claim(operand, along, axis)
    for operand, axes in enumerate(joined_axes(node)):
        yield from (Claim(operand, axis, None) for axis in axes)


def _operand_axes(
    layout: MeshLayout, node: Node, result: Value, axis: int
) -> Iterable[int | None]:
    parted = parted_axes(node, axis, result)
    shift = None if parted else shift_of(layout, node, axis)
    return parted or ([] if shift is None else shift.axes)


def find_moves(
    layout: MeshLayout, node: Node, place: PlaceOf, is_made: Callable[[Value], bool]
) -> dict[Value, MeshAxes]:
    """The operands that are moved before a node, and where they lie then.

    Operands that `is_made` cost nothing: each device makes what it needs of them.
    """
    parts: dict[tuple[int, int], int | None] = {}
    for claim in claims(layout, node):
        parts.setdefault((claim.operand, claim.axis), claim.makes)
    ways: dict[str, list[int | None]] = {}
    for operand, value in enumerate(node.inputs):
        for axis, name in enumerate(place(value)):
            if name is not None and (operand, axis) in parts:
                makes = parts[operand, axis]
                ways.setdefault(name, [])
                if makes not in ways[name]:
                    ways[name].append(makes)
    mover = _Mover(layout, node, place, is_made, parts)
    chosen = {
        n: min(targets, key=mover.cost_function(n)) for n, targets in ways.items()
    }
    return mover.places(chosen)


def is_crossed(node: Node, place: PlaceOf) -> bool:
    """Whether an elementwise op takes rows and columns along one axis of the mesh."""
    places = [place(v) for v in node.inputs]
    parts = {(a - len(axes), n) for axes in places for a, n in enumerate(axes) if n}
    return node.primitive.elementwise and len(parts) > len({n for _, n in parts})


def is_summed_first(
    node: Node, place: PlaceOf, is_made: Callable[[Value], bool]
) -> bool:
    """Whether XLA may part a product of several arrays with a mask, and sum its parts.

    XLA does so even though the other arrays are gathered.
    """
    masks = [v for v in node.inputs if any(place(v)) and is_made(v)]
    return node.primitive is OP.einsum and len(node.inputs) > 2 and bool(masks)


@dataclass(frozen=True)
class _Mover:
    layout: MeshLayout
    node: Node
    place: PlaceOf
    is_made: Callable[[Value], bool]
    parts: Mapping[tuple[int, int], int | None]

    def cost_function(self, name: str) -> Callable[[int | None], int]:
        """Return a function that counts the bytes moved for a way along a mesh axis."""

        def bytes_moved(makes: int | None) -> int:
            places = self.places({name: makes}, only=name)
            moves = [(v, p) for v, p in places.items() if not self.is_made(v)]
            joined = [] if makes is not None else self.node.outputs
            moves += [(v, whole_axes(v)) for v in joined]
            return sum(comparable_size(self.layout.local_bytes(v, p)) for v, p in moves)

        return bytes_moved

    def places(
        self, ways: Mapping[str, int | None], only: str | None = None
    ) -> dict[Value, MeshAxes]:
        """The places of operands such that each axis of the mesh is used in one way."""
        places: dict[Value, MeshAxes] = {}
        for operand, value in enumerate(self.node.inputs):
            before = places.get(value, self.place(value))
            after = list(before)
            for axis, name in enumerate(before):
                if name is None or only not in (None, name):
                    continue
                way = ways.get(name, -1)
                if self.parts.get((operand, axis), -2) != way:
                    after[axis] = None
                    self._lay_along(operand, name, way, after)
            if tuple(after) != before:
                places[value] = tuple(after)
        return places

    def _lay_along(
        self, operand: int, name: str, way: int | None, axes: list[str | None]
    ) -> None:
        """Lay an operand along the axis of the mesh in the given way, if possible."""
        count, devices = self.layout.mesh.size(name), self.layout.devices
        for axis, size in enumerate(self.node.inputs[operand].type.shape):
            alike = way is not None and self.parts.get((operand, axis), -2) == way
            even = isinstance(size, Dim) and is_multiple(size, count, devices)
            if axes[axis] is None and alike and even:
                axes[axis] = name
                return
