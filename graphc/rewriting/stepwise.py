"""Values computed inside of a loop, row by row, instead of whole behind it.

A `Wanted` collects the rows of some axis of some values that a new body shall compute,
down to rows that it has and to sequences that it must be given.
"""

import heapq
from collections.abc import Container, Iterable, Mapping

from graphc.errors import standing_at
from graphc.ir.dims import Size, equal
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.walk import operands
from graphc.rewriting.rows import row, source
from graphc.rewriting.sizes import is_one

Place = tuple[Value, int]  # a value, and the axis that its rows are of
LIGHT = ("broadcast_to", "full", "expand_dims", "squeeze", "transpose", "specify_shape")


class Uses:
    """Which nodes of a graph need each value."""

    def __init__(self, nodes: Iterable[Node], outputs: Iterable[Value]) -> None:
        self._users: dict[Value, list[Node]] = {}
        self._outputs = set(outputs)
        for node in nodes:
            for value in operands(node):
                self._users.setdefault(value, []).append(node)

    def are_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether nothing but these nodes needs a value."""
        users = self._users.get(value, [])
        return value not in self._outputs and all(n in nodes for n in users)


class Wanted:
    """The rows that a body shall compute.

    `has`: values of which the body has the rows of the first axis. `made`: nodes known
    to be made row by row. Whatever else is elementwise is, where nothing else uses it.
    """

    def __init__(
        self, uses: Uses, has: Iterable[Value] = (), made: Iterable[Node] = ()
    ) -> None:
        self._uses = uses
        self._has = set(has)
        self._made = set(made)
        self.order: list[Place] = []  # what is computed, after what it is made of
        self._given: dict[Place, Value] = {}  # rows of the first axis of sequences
        self._fixed: dict[Place, Value] = {}  # the same for all rows

    @property
    def sequences(self) -> list[Value]:
        """What the body must be given row by row."""
        return list(dict.fromkeys(self._given.values()))

    @property
    def nodes(self) -> list[Node]:
        """The nodes that become nodes of the body."""
        return list(dict.fromkeys(v.node for v, _ in self.order))

    def collect(self, places: Iterable[Place], ends: Iterable[Node]) -> None:
        """Find what is needed for these rows, which nodes `ends` use."""
        inside = set(ends)
        found: dict[Place, None] = dict.fromkeys(places)
        heap = [(-v.node.serial, i, v, a) for i, (v, a) in enumerate(found)]
        heapq.heapify(heap)
        while heap:  # after all that uses it
            _, _, value, axis = heapq.heappop(heap)
            for place in self._needed(value, axis, inside):
                if place not in found:
                    found[place] = None
                    x, a = place
                    heapq.heappush(heap, (-x.node.serial, len(found), x, a))
        self.order.reverse()

    def _needed(self, value: Value, axis: int, inside: set[Node]) -> list[Place]:
        """What a row is made of."""
        node = value.node
        if value in self._has:
            return []
        if is_one(value.type.shape[axis]):
            self._fixed[value, axis] = F.squeeze(value, axis)
            return []
        sources = source(node, axis)
        if sources is None or not (node in self._made or self._only(value, inside)):
            self._given[value, axis] = F.moveaxis(value, axis, 0) if axis else value
            return []
        inside.add(node)
        self.order.append((value, axis))
        pairs = zip(node.inputs, sources, strict=True)
        return [(x, a) for x, a in pairs if a is not None]

    def _only(self, value: Value, inside: set[Node]) -> bool:
        """Whether a value that stands for itself is better made row by row."""
        node = value.node
        if node.primitive.name in LIGHT:
            return True
        return node.primitive.elementwise and self._uses.are_among(value, inside)

    def computed(self, row_of: Mapping[Value, Value]) -> dict[Place, Value]:
        """The rows, of rows of what the body has and of `sequences`."""
        rows: dict[Place, Value] = dict(self._fixed)
        rows |= {place: row_of[value] for place, value in self._given.items()}
        rows |= {(value, 0): row_of[value] for value in self._has}
        for value, axis in self.order:
            node = value.node
            sources = source(node, axis)
            assert sources is not None
            pairs = zip(node.inputs, sources, strict=True)
            inputs = [x if a is None else rows[x, a] for x, a in pairs]
            with standing_at(node.place.plain):
                rows[value, axis] = row(node, axis, inputs)
        return rows


def fits(value: Value, axis: int, length: Size) -> bool:
    """Whether a value has a row for each step, or one for all."""
    n = value.type.shape[axis]
    return is_one(n) or equal(n, length) is not False
