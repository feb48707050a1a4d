"""Fused producers: values computed inside a loop, part by part, instead of before it.

`Producers` compute parts of some values in a new body. They begin with parts that the
body has, and with those of sequences, or tiles of arrays, that the loop reads.
"""

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from graphc.errors import standing_at
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import is_one
from graphc.rewriting.loops.find.access import Tile, part_shape
from graphc.rewriting.loops.find.affine_reads import (
    ALL,
    Stream,
    View,
    can_be_sliced,
    operand_views,
    update_slice,
    view_of_sliced_input,
)
from graphc.rewriting.loops.find.axis_rules import build_part, is_placed_tile
from graphc.rewriting.match.sizes import with_guards

PartPlace = tuple[Value, View]  # a value, and the view of its parts
OwnPlace = Callable[[PartPlace], tuple[PartPlace, int] | None]
Resolve = Callable[[Value], Value]  # the replacement of a value of the graph
LIGHT = frozenset({
    *(OP.broadcast_to, OP.full, OP.expand_dims, OP.squeeze, OP.transpose),
    OP.specify_shape,
})  # fmt: skip


class UsersOf:
    """The nodes of a graph that use each value."""

    def __init__(self, nodes: Iterable[Node], graph: Graph) -> None:
        self._users: dict[Value, list[Node]] = {}
        self._outputs = set(graph.outputs)
        for node in nodes:
            for value in operands(node):
                self._users.setdefault(value, []).append(node)

    def of(self, value: Value) -> list[Node]:
        """The nodes that use a value."""
        return self._users.get(value, [])

    def each_after(
        self, values: Iterable[Value], goes_on: Callable[[Node], bool]
    ) -> Iterator[Node]:
        """Yield the users of values in order, each once, and users of their results.

        Once a node has been yielded, `goes_on` tells whether its users follow too.
        """
        heap = [(n.serial, n) for v in values for n in self.of(v)]
        heapq.heapify(heap)
        seen: set[Node] = set()
        while heap:
            _, node = heapq.heappop(heap)
            if node in seen:
                continue
            seen.add(node)
            yield node
            if goes_on(node):
                for user in (n for v in node.outputs for n in self.of(v)):
                    heapq.heappush(heap, (user.serial, user))

    def are_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether a value is used by `nodes` only, and is no output of the graph."""
        users = self._users.get(value, [])
        return value not in self._outputs and all(n in nodes for n in users)

    def is_cheap_to_clone(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether cloning a value into the loop is cheaper than materialising it."""
        node = value.node
        if node.primitive in LIGHT:
            return True
        return node.primitive.elementwise and self.are_among(value, nodes)

    def is_sparse_fill(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether a value is a fill with elements written into it, for `nodes` only."""
        node = value.node
        if node.primitive not in (OP.scatter, OP.slice_update):
            return False
        fill = node.inputs[0].node.primitive is OP.full
        return fill and self.are_among(value, nodes)


def _visit_after_users(
    places: Iterable[PartPlace], needed: Callable[[PartPlace], list[PartPlace | None]]
) -> None:
    """Visit `places` and all places they need, each after the places that need it."""
    visited: dict[PartPlace, None] = dict.fromkeys(places)
    heap = [(-p[0].node.serial, i, p) for i, p in enumerate(visited)]
    heapq.heapify(heap)
    while heap:
        for place in needed(heapq.heappop(heap)[-1]):
            if place is not None and place not in visited:
                visited[place] = None
                heapq.heappush(heap, (-place[0].node.serial, len(visited), place))


def _same_value(value: Value) -> Value:
    return value


class Producers:
    """The parts that the body of a loop along `stream` is to compute.

    `has` are the values whose parts the body has. `cloned` tells whether a value is
    computed part by part whatever else uses it; other values are if that is cheaper.
    `own_place` tells where a slice is computed, and how many iterations earlier: the
    loop carries it that long.
    """

    def __init__(
        self,
        stream: Stream,
        uses: UsersOf,
        cloned: Callable[[Value], bool],
        has: Container[Value] = frozenset(),
        own_place: OwnPlace = lambda place: None,
    ) -> None:
        self._stream = stream
        self._uses = uses
        self._cloned = cloned
        self._has = has
        self.recomputed: list[PartPlace] = []  # computed, each after its operands
        self._parents: dict[PartPlace, list[PartPlace | None]] = {}
        self.available_parts: dict[PartPlace, Value] = {}  # places of values in `has`
        self.inputs: dict[PartPlace, Value] = {}  # what the loop reads for a place
        self._fixed: dict[PartPlace, Value] = {}  # the same for all parts
        self._own_place = own_place
        self._earlier: dict[PartPlace, tuple[PartPlace, int]] = {}
        self.is_possible: bool = True

    @property
    def sequences(self) -> list[Value]:
        """The sequences that the loop must read."""
        return list(dict.fromkeys(self.inputs.values()))

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are cloned into the body."""
        return list(dict.fromkeys(v.node for v, _ in self.recomputed))

    def with_guards(self, value: Value) -> Value:
        """Return a value with the size checks of the cloned nodes."""
        for node in self.nodes:
            value = with_guards(value, node)
        return value

    def outside_values(self) -> list[Value]:
        """The values from outside the loop that the parts are computed from."""
        values = [v for v, _ in [*self.inputs, *self._fixed]]
        for place in self.recomputed:
            parents = zip(place[0].node.inputs, self._parents[place], strict=True)
            values += [x for x, of in parents if of is None]
        return values

    @property
    def placed(self) -> bool:
        """Whether the body needs the number of the iteration, or of a position."""
        if self._stream.tiled:
            return any(is_placed_tile(v.node, view.axis) for v, view in self.recomputed)
        return any(node.primitive is OP.slice_update for node in self.nodes)

    @property
    def _slices_to_carry(self) -> dict[PartPlace, int]:
        """How many slices to carry for each place that later iterations read."""
        counts: dict[PartPlace, int] = {}
        for place, lag in self._earlier.values():
            counts[place] = max(lag, counts.get(place, 0))
        return counts

    def initial_slices(self) -> list[Value]:
        """The init of the carried slices: zeros before the first iteration."""
        zeros = []
        for (value, view), count in self._slices_to_carry.items():
            shape = part_shape(value.type.shape, view.axis, None)
            zeros += [F.zeros(shape, value.dtype)] * count
        return zeros

    def next_slices(
        self, remembered: Sequence[Value], rows: Mapping[PartPlace, Value]
    ) -> list[Value]:
        """The slices carried after an iteration, the latest of each place first."""
        earlier, carried = iter(remembered), list[Value]()
        for place, count in self._slices_to_carry.items():
            carried += [rows[place], *[next(earlier) for _ in range(count)][:-1]]
        return carried

    def collect(self, places: Iterable[PartPlace], ends: Iterable[Node]) -> None:
        """Collect the producers of the parts at `places`, used by the nodes `ends`."""
        inside = set(ends)
        _visit_after_users(places, lambda place: self._places_needed(place, inside))
        self.recomputed.reverse()

    def _places_needed(
        self, place: PartPlace, inside: set[Node]
    ) -> list[PartPlace | None]:
        """The places that the part at a place is computed from."""
        value, view = place
        own_place = self._own_place(place)
        if own_place is not None and own_place[1] and not _is_moved(value.node, view):
            self._earlier[place] = own_place
            return [own_place[0]]
        if value in self._has:
            self.available_parts[place] = value
            return []
        if view is ALL:
            self._fixed[place] = value
            return []
        if own_place is None and is_one(value.type.shape[view.axis]):
            tiled = self._stream.tiled
            self._fixed[place] = value if tiled else F.squeeze(value, view.axis)
            return []
        views = self._operand_views(value, view, inside)
        if views is None:
            self._add_input(place)
            return []
        pairs = zip(value.node.inputs, views, strict=True)
        places = [None if v is None else (x, v) for x, v in pairs]
        inside.add(value.node)
        self.recomputed.append(place)
        self._parents[place] = places
        return places

    def _add_input(self, place: PartPlace) -> None:
        (value, view), length = place, self._stream.length
        if self._stream.tiled:
            self.inputs[place] = value
            return
        self.is_possible = self.is_possible and can_be_sliced(value, view, length)
        if self.is_possible:
            self.inputs[place] = view.align_rows(value, length)

    def _operand_views(
        self, value: Value, view: View, inside: set[Node]
    ) -> list[View | None] | None:
        """The views of a value's operands; None if its node is not to be cloned."""
        node, tiled = value.node, self._stream.tiled
        cloned = self._cloned(value) or self._uses.is_cheap_to_clone(value, inside)
        if cloned or (tiled and self._uses.is_sparse_fill(value, inside)):
            return operand_views(node, view, tiled)
        if tiled:
            return None
        before = view_of_sliced_input(node, view, self._stream.length)
        return None if before is None else [before]

    def _earlier_slices(self, remembered: Sequence[Value]) -> dict[PartPlace, Value]:
        """Look up the slices of earlier iterations in the carries."""
        starts, start = dict[PartPlace, int](), 0
        for place, count in self._slices_to_carry.items():
            starts[place] = start
            start += count
        pairs = self._earlier.items()
        return {place: remembered[starts[at] + b - 1] for place, (at, b) in pairs}

    def compute_slices(
        self,
        row_of: Mapping[Value, Value],
        number: Value,
        remembered: Sequence[Value] = (),
    ) -> dict[PartPlace, Value]:
        """Compute the slices at an iteration, from slices of `has` and `sequences`."""
        known = {**self.available_parts, **self.inputs}
        read = {place: row_of[value] for place, value in known.items()}
        return self.compute_parts({**self._earlier_slices(remembered), **read}, number)

    def compute_parts(
        self,
        parts: Mapping[PartPlace, Value],
        number: Value | None = None,
        tile: Tile | None = None,
        known: Resolve = _same_value,
    ) -> dict[PartPlace, Value]:
        """Compute all parts, slices or tiles, from those that the body has and reads.

        `known` maps a value that all parts share to its replacement.
        """
        part_at = {place: known(value) for place, value in self._fixed.items()}
        part_at |= parts
        for place in self.recomputed:
            view, node = place[1], place[0].node
            pairs = zip(node.inputs, self._parents[place], strict=True)
            inputs = [known(x) if of is None else part_at[of] for x, of in pairs]
            with standing_at(node.place.plain):
                if number is not None and node.primitive is OP.slice_update:
                    length = self._stream.length
                    part_at[place] = update_slice(node, view, inputs, number, length)
                else:
                    part_at[place] = build_part(node, view.axis, inputs, tile)
        return part_at


def _is_moved(node: Node, view: View) -> bool:
    """Whether a slice of a result is a slice of the input, or a part of one."""
    sliced = node.primitive is OP.basic_index and operand_views(node, view) is not None
    return sliced or node.primitive in LIGHT
