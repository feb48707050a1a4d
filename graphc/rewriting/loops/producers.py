"""Fused producers: values computed inside a loop, slice by slice, instead of before it.

A `Wanted` collects the computation of slices of some values in a new body, down to
slices that the body has and to sequences that the loop must read.
"""

import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from graphc.errors import standing_at
from graphc.ir.dims import Size
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.walk import operands
from graphc.rewriting.loops.affine_reads import View, parents, updated, usable, whole_of
from graphc.rewriting.loops.slice_rules import row
from graphc.rewriting.sizes import guarded, is_one

SlicePlace = tuple[Value, View]  # a value, and the view of its slices
P = TypeVar("P", bound=tuple[Value, Any])
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

    def are_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether no other nodes than these use a value."""
        users = self._users.get(value, [])
        return value not in self._outputs and all(n in nodes for n in users)

    def is_better_among(self, value: Value, nodes: Container[Node]) -> bool:
        """Whether cloning a value into the loop is cheaper than materialising it."""
        node = value.node
        if node.primitive in LIGHT:
            return True
        return node.primitive.elementwise and self.are_among(value, nodes)


def after_users(places: Iterable[P], needed: Callable[[P], list[P | None]]) -> None:
    """Visit places and all that they need, each after the places that need it."""
    found: dict[P, None] = dict.fromkeys(places)
    heap = [(-p[0].node.serial, i, p) for i, p in enumerate(found)]
    heapq.heapify(heap)
    while heap:
        for place in needed(heapq.heappop(heap)[-1]):
            if place is not None and place not in found:
                found[place] = None
                heapq.heappush(heap, (-place[0].node.serial, len(found), place))


class Wanted:
    """The slices that the body of a loop of `length` iterations shall compute.

    `has`: values whose slices the body has. `made`: nodes that are known to be sliced;
    other elementwise nodes are too, if nothing else uses them. `own_place` tells where
    a slice is computed, and how many iterations before: it is carried for so long.
    """

    def __init__(
        self,
        length: Size,
        uses: UsersOf,
        has: Iterable[Value] = (),
        made: Iterable[Node] = (),
        own_place: Callable[
            [SlicePlace], tuple[SlicePlace, int] | None
        ] = lambda place: None,
    ) -> None:
        self._length = length
        self._uses = uses
        self._has = set(has)
        self._made = set(made)
        self._order: list[SlicePlace] = []  # computed places, each after its operands
        self._parents: dict[SlicePlace, list[SlicePlace | None]] = {}
        self._own: dict[SlicePlace, Value] = {}  # slices that the body has
        self._given: dict[SlicePlace, Value] = {}  # slices of sequences
        self._fixed: dict[SlicePlace, Value] = {}  # the same for all slices
        self._own_place = own_place
        self._earlier: dict[SlicePlace, tuple[SlicePlace, int]] = {}
        self.possible = True

    @property
    def sequences(self) -> list[Value]:
        """The sequences that the loop must read."""
        return list(dict.fromkeys(self._given.values()))

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are cloned into the body."""
        return list(dict.fromkeys(v.node for v, _ in self._order))

    def guarded(self, value: Value) -> Value:
        """A value with the size checks of those nodes."""
        for node in self.nodes:
            value = guarded(value, node)
        return value

    @property
    def placed(self) -> bool:
        """Whether the body needs the number of the iteration."""
        return any(node.primitive is OP.slice_update for node in self.nodes)

    @property
    def _kept(self) -> dict[SlicePlace, int]:
        """The number of slices to carry of each place that later iterations read."""
        found: dict[SlicePlace, int] = {}
        for place, behind in self._earlier.values():
            found[place] = max(behind, found.get(place, 0))
        return found

    def first_kept(self) -> list[Value]:
        """The init of the carried slices: zeros before the first iteration."""
        found = []
        for (value, view), count in self._kept.items():
            shape = value.type.shape
            shape = shape[: view.axis] + shape[view.axis + 1 :]
            found += [F.zeros(shape, value.dtype)] * count
        return found

    def next_kept(
        self, kept: Sequence[Value], rows: Mapping[SlicePlace, Value]
    ) -> list[Value]:
        """The slices carried after an iteration, the latest of each place first."""
        rest, found = iter(kept), list[Value]()
        for place, count in self._kept.items():
            found += [rows[place], *[next(rest) for _ in range(count)][:-1]]
        return found

    def collect(self, places: Iterable[SlicePlace], ends: Iterable[Node]) -> None:
        """Collect the producers of these slices, which nodes `ends` use."""
        inside = set(ends)
        after_users(places, lambda place: self._needed(place, inside))
        self._order.reverse()

    def _needed(self, place: SlicePlace, inside: set[Node]) -> list[SlicePlace | None]:
        """The places that the slice at a place is computed from."""
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

    def _give(self, place: SlicePlace) -> None:
        value, view = place
        self.possible = self.possible and usable(value, view, self._length)
        if self.possible:
            self._given[place] = view.aligned(value, self._length)

    def _views(
        self, value: Value, view: View, inside: set[Node]
    ) -> list[View | None] | None:
        """The views of a value's operands; None if its node is not to be cloned."""
        node = value.node
        if node not in self._made and not self._uses.is_better_among(value, inside):
            before = whole_of(node, view, self._length)
            return None if before is None else [before]
        return parents(node, view)

    def _of_kept(self, kept: Sequence[Value]) -> dict[SlicePlace, Value]:
        """The slices of iterations before, from the carries."""
        starts, start = dict[SlicePlace, int](), 0
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
    ) -> dict[SlicePlace, Value]:
        """The slices at an iteration, from slices of `has` and of `sequences`."""
        rows: dict[SlicePlace, Value] = {**self._fixed, **self._of_kept(kept)}
        known = {**self._own, **self._given}
        rows |= {place: row_of[value] for place, value in known.items()}
        for place in self._order:
            view, node = place[1], place[0].node
            pairs = zip(node.inputs, self._parents[place], strict=True)
            inputs = [x if of is None else rows[of] for x, of in pairs]
            with standing_at(node.place.plain):
                if node.primitive is OP.slice_update:
                    rows[place] = updated(node, view, inputs, number, self._length)
                else:
                    rows[place] = row(node, view.axis, inputs)
        return rows


def _is_moved(node: Node, view: View) -> bool:
    """Whether a slice of a result is a slice of the input, or a part of one."""
    sliced = node.primitive is OP.basic_index and parents(node, view) is not None
    return sliced or node.primitive in LIGHT
