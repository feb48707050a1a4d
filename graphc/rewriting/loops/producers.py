"""Values computed inside of a loop, row by row, instead of whole behind it.

A `Wanted` collects the rows of some values that a new body shall compute, down to rows
that it has and to sequences that it must be given.
"""

import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from graphc.errors import standing_at
from graphc.ir.dims import Size
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.walk import operands
from graphc.rewriting.loops.affine_reads import View, parents, updated, usable, whole_of
from graphc.rewriting.loops.slice_rules import row
from graphc.rewriting.sizes import guarded, is_one

Place = tuple[Value, View]  # a value, and what its rows are of
P = TypeVar("P", bound=tuple[Value, Any])
LIGHT = ("broadcast_to", "full", "expand_dims", "squeeze", "transpose", "specify_shape")


class Uses:
    """Which nodes of a graph need each value."""

    def __init__(self, nodes: Iterable[Node], graph: Graph) -> None:
        self._users: dict[Value, list[Node]] = {}
        self._outputs = set(graph.outputs)
        for node in nodes:
            for value in operands(node):
                self._users.setdefault(value, []).append(node)

    def of(self, value: Value) -> list[Node]:
        """The nodes that need a value."""
        return self._users.get(value, [])

    def are_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether nothing but these nodes needs a value."""
        users = self._users.get(value, [])
        return value not in self._outputs and all(n in nodes for n in users)

    def is_better_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether a value that stands for itself is better made part by part there."""
        node = value.node
        if node.primitive.name in LIGHT:
            return True
        return node.primitive.elementwise and self.are_among(value, nodes)


def after_users(places: Iterable[P], needed: Callable[[P], list[P | None]]) -> None:
    """Ask what places need, and what that needs, each after all that uses it."""
    found: dict[P, None] = dict.fromkeys(places)
    heap = [(-p[0].node.serial, i, p) for i, p in enumerate(found)]
    heapq.heapify(heap)
    while heap:
        for place in needed(heapq.heappop(heap)[-1]):
            if place is not None and place not in found:
                found[place] = None
                heapq.heappush(heap, (-place[0].node.serial, len(found), place))


class Wanted:
    """The rows that a body of a loop of `length` steps shall compute.

    `has`: values of which the body has the rows. `made`: nodes known to be made row by
    row. Whatever else is elementwise is, where nothing else uses it. `own_place` tells
    where a row is made, and how many steps before: it is kept for so many.
    """

    def __init__(
        self,
        length: Size,
        uses: Uses,
        has: Iterable[Value] = (),
        made: Iterable[Node] = (),
        own_place: Callable[[Place], tuple[Place, int] | None] = lambda place: None,
    ) -> None:
        self._length = length
        self._uses = uses
        self._has = set(has)
        self._made = set(made)
        self._order: list[Place] = []  # what is computed, after what it is made of
        self._parents: dict[Place, list[Place | None]] = {}
        self._own: dict[Place, Value] = {}  # rows that the body has
        self._given: dict[Place, Value] = {}  # rows of sequences
        self._fixed: dict[Place, Value] = {}  # the same for all rows
        self._own_place = own_place
        self._earlier: dict[Place, tuple[Place, int]] = {}
        self.possible = True

    @property
    def sequences(self) -> list[Value]:
        """What the body must be given row by row."""
        return list(dict.fromkeys(self._given.values()))

    @property
    def nodes(self) -> list[Node]:
        """The nodes that become nodes of the body."""
        return list(dict.fromkeys(v.node for v, _ in self._order))

    def guarded(self, value: Value) -> Value:
        """A value, where sizes fit as those nodes needed them to."""
        for node in self.nodes:
            value = guarded(value, node)
        return value

    @property
    def placed(self) -> bool:
        """Whether the number of the step is asked for."""
        return any(node.primitive.name == "slice_update" for node in self.nodes)

    @property
    def _kept(self) -> dict[Place, int]:
        """How many rows are kept of what is needed some steps later."""
        found: dict[Place, int] = {}
        for place, behind in self._earlier.values():
            found[place] = max(behind, found.get(place, 0))
        return found

    def first_kept(self) -> list[Value]:
        """What stands for rows before the first step."""
        found = []
        for (value, view), count in self._kept.items():
            shape = value.type.shape
            shape = shape[: view.axis] + shape[view.axis + 1 :]
            found += [F.zeros(shape, value.dtype)] * count
        return found

    def next_kept(
        self, kept: Sequence[Value], rows: Mapping[Place, Value]
    ) -> list[Value]:
        """The rows kept behind a step, the latest of each place first."""
        rest, found = iter(kept), list[Value]()
        for place, count in self._kept.items():
            found += [rows[place], *[next(rest) for _ in range(count)][:-1]]
        return found

    def collect(self, places: Iterable[Place], ends: Iterable[Node]) -> None:
        """Find what is needed for these rows, which nodes `ends` use."""
        inside = set(ends)
        after_users(places, lambda place: self._needed(place, inside))
        self._order.reverse()

    def _needed(self, place: Place, inside: set[Node]) -> list[Place | None]:
        """What a row is made of."""
        value, view = place
        own = self._own_place(place)
        if own is not None and own[1] and not _is_moved(value.node, view):
            self._earlier[place] = own
            return [own[0]]
        if value in self._has:
            self._own[place] = value
            return []
        if own is None and is_one(value.type.shape[view.axis]):
            self._fixed[place] = F.squeeze(value, view.axis)
            return []
        views = self._views(value, view, inside)
        if views is None:
            self._give(place)
            return []
        pairs = zip(value.node.inputs, views, strict=True)
        needed = [None if v is None else (x, v) for x, v in pairs]
        inside.add(value.node)
        self._order.append(place)
        self._parents[place] = needed
        return needed

    def _give(self, place: Place) -> None:
        value, view = place
        self.possible = self.possible and usable(value, view, self._length)
        if self.possible:
            self._given[place] = view.aligned(value, self._length)

    def _views(
        self, value: Value, view: View, inside: set[Node]
    ) -> list[View | None] | None:
        """What the inputs of a value are seen as; None where it is no node of ours."""
        node = value.node
        if node not in self._made and not self._uses.is_better_among(value, inside):
            before = whole_of(node, view, self._length)
            return None if before is None else [before]
        return parents(node, view)

    def _of_kept(self, kept: Sequence[Value]) -> dict[Place, Value]:
        """The rows that are of steps before."""
        starts, start = dict[Place, int](), 0
        for place, count in self._kept.items():
            starts[place] = start
            start += count
        pairs = self._earlier.items()
        return {place: kept[starts[own] + b - 1] for place, (own, b) in pairs}

    def computed(
        self,
        row_of: Mapping[Value, Value],
        number: Value,
        kept: Sequence[Value] = (),
    ) -> dict[Place, Value]:
        """The rows, of rows of what the body has and of `sequences`, at some step."""
        rows: dict[Place, Value] = {**self._fixed, **self._of_kept(kept)}
        known = {**self._own, **self._given}
        rows |= {place: row_of[value] for place, value in known.items()}
        for place in self._order:
            view, node = place[1], place[0].node
            pairs = zip(node.inputs, self._parents[place], strict=True)
            inputs = [x if of is None else rows[of] for x, of in pairs]
            with standing_at(node.place.plain):
                if node.primitive.name == "slice_update":
                    rows[place] = updated(node, view, inputs, number, self._length)
                else:
                    rows[place] = row(node, view.axis, inputs)
        return rows


def _is_moved(node: Node, view: View) -> bool:
    """Whether a row of what a node gives is one of its input, if less of that."""
    sliced = node.primitive.name == "basic_index" and parents(node, view) is not None
    return sliced or node.primitive.name in LIGHT
