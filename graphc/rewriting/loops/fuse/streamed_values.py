"""Streamed values: values that a loop computes part by part, and their reductions.

One analysis tells how a node reduces the streamed axis, both for slices of the ys of a
scan and for tiles of large values.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice, product

from graphc.ir.graph.nodes import Node, Value
from graphc.rewriting.loops.find.access import picked_position
from graphc.rewriting.loops.find.affine_reads import (
    Stream,
    View,
    operand_views,
    view_of_result,
)
from graphc.rewriting.loops.find.contractions import contracted_axes, is_fast_in_parts
from graphc.rewriting.loops.find.producers import UsersOf
from graphc.rewriting.loops.fuse.folds import fold_of, fold_of_product
from graphc.rewriting.loops.fuse.online_softmax import Shifts
from graphc.rewriting.loops.fuse.picks import fold_of_pick, is_pick
from graphc.rewriting.loops.fuse.stream_reductions import StreamReduction
from graphc.rewriting.loops.fuse.welford import Centring
from graphc.rewriting.match.sizes import is_wide

MOST_SLICES = 3  # slices of one array that a loop picks one by one


class Streamed(ABC):
    """The values with a part for each iteration, and reductions of these parts."""

    def __init__(self, stream: Stream, uses: UsersOf) -> None:
        self.stream: Stream = stream
        self.uses: UsersOf = uses
        self.views: dict[Value, View] = {}
        self.reductions: dict[Node, StreamReduction] = {}
        self._rescaled = Shifts(self), Centring(self)
        self._many_slices: dict[tuple[Value, int], bool] = {}

    @abstractmethod
    def depends(self, value: Value) -> bool:
        """Whether a value depends on the parts."""

    @abstractmethod
    def is_part(self, value: Value, view: View | None) -> bool:
        """Whether parts of a value with this view can be had; None: all of it."""

    def _reduction_of(self, node: Node) -> StreamReduction | None:
        """The reduction by which the loop computes a node, if it has one."""
        reduction = self._fold_of(node) or self._fold_of_product(node)
        for rescaled in self._rescaled:
            reduction = reduction or rescaled.reduction_of(node)
        return reduction

    def _fold_of(self, node: Node) -> StreamReduction | None:
        """The fold of a node that reduces its first operand along the streamed axis."""
        view = self.views.get(node.inputs[0]) if node.inputs else None
        if view is None or any(map(self.depends, node.inputs[1:])):
            return None
        if is_pick(node, view.axis):
            return self._fold_of_pick(node, view)
        return fold_of(node, view, self.stream)

    def _fold_of_pick(self, node: Node, view: View) -> StreamReduction | None:
        """Return the fold of a node that picks elements at some positions.

        There is none where many slices of one array are picked: together they are as
        large as the array, and the loop would carry and compare each of them.
        """
        one = picked_position(node, view.axis) is not None
        if one and self._has_many_slices(node.inputs[0], view.axis):
            return None
        return fold_of_pick(node, view, self.stream)

    def _has_many_slices(self, value: Value, axis: int) -> bool:
        """Whether more than `MOST_SLICES` nodes each pick a slice of a value."""
        has_many = self._many_slices.get((value, axis))
        if has_many is None:
            users = (u for u in self.uses.of(value) if u.inputs[0] is value)
            slices = (u for u in users if picked_position(u, axis) is not None)
            has_many = len(list(islice(slices, MOST_SLICES + 1))) > MOST_SLICES
            self._many_slices[value, axis] = has_many
        return has_many

    def _fold_of_product(self, node: Node) -> StreamReduction | None:
        """Return the fold of a product that contracts the streamed axis, or None."""
        if not is_wide(node.outputs[0].dtype):
            return None
        for i, axes in enumerate(contracted_axes(node)):
            known = [self.views.get(x) for x in node.inputs]
            for view, axis in zip(known, axes, strict=True):
                if view is None or view.axis != axis:
                    continue
                if not (self.stream.tiled or is_fast_in_parts(node, i)):
                    continue
                views = (view.along(axes[0]), view.along(axes[1]))
                if all(map(self.is_part, node.inputs, views)):
                    return fold_of_product(node, i, views, self.stream)
        return None

    def _view_of(self, node: Node) -> View | None:
        """Return the view of a result that is computed part by part, or None.

        A part is available as soon as the last of the parts that it reads.
        """
        tiled, axes = self.stream.tiled, range(node.outputs[0].type.rank)
        for axis, x in product(axes, node.inputs):
            known = self.views.get(x)
            if known is None:
                continue
            view = view_of_result(node, x, known, axis, tiled)
            if view is None:
                continue
            views = operand_views(node, view, tiled)
            if views is not None and self._have_parts(node, views):
                return view
        return None

    def _have_parts(self, node: Node, views: Sequence[View | None]) -> bool:
        """Whether all operands of a node can be had part by part, with these views."""
        return all(map(self.is_part, node.inputs, views))

    @property
    def rescales(self) -> bool:
        """Whether a reduction has an accumulator that is rescaled."""
        read = (node.inputs[0] for node in self.reductions)
        return any(x in rescaled for x in read for rescaled in self._rescaled)

    def _rescaled_nodes(self) -> set[Node]:
        """The nodes that compute rescaled values."""
        return set[Node]().union(*(r.nodes for r in self._rescaled))
