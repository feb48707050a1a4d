"""Fused consumers: values and reductions of the ys of a scan, slice by slice."""

from collections.abc import Iterable, Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import equal, less_equal
from graphc.rewriting.loops.find.access import picked_position
from graphc.rewriting.loops.find.affine_reads import Stream, View, can_be_sliced
from graphc.rewriting.loops.find.axis_rules import REDUCTIONS
from graphc.rewriting.loops.find.inactive import InactiveSteps
from graphc.rewriting.loops.find.producers import PartPlace, UsersOf
from graphc.rewriting.loops.find.scan_view import Loop
from graphc.rewriting.loops.fuse.picks import fold_of_pick
from graphc.rewriting.loops.fuse.stream_reductions import StreamReduction
from graphc.rewriting.loops.fuse.streamed_values import Streamed

SHRINKING = {*REDUCTIONS, OP.argmax, OP.argmin}


def condition_of_check(node: Node) -> Value:
    """Return the condition of a check, as it was before it was reduced with `all`."""
    flag = node.inputs[1]
    while flag.node.primitive is OP.all and not flag.node.params["axes"]:
        flag = flag.node.inputs[0]
    return flag


class Consumers(Streamed):
    """The values that are computed from the ys of a scan, slice by slice."""

    def __init__(self, loop: Loop, uses: UsersOf) -> None:
        super().__init__(Stream(loop.length, backwards=loop.reverse), uses)
        self._loop = loop
        self._dependent: set[Node] = {loop.node}
        # Values that need only the final carries, and no slices.
        trip_count = loop.after_carries[: loop.stops]
        self._final_values: set[Value] = {*loop.final_carries, *trip_count}
        self.views |= dict.fromkeys(loop.stacked, self.stream.whole)
        self.inactive: InactiveSteps = InactiveSteps(loop)
        for node in uses.each_after(loop.node.outputs, lambda node: True):
            self._visit(node)

    def _visit(self, node: Node) -> None:
        self._dependent.add(node)
        dependencies = (v for v in operands(node) if v.node in self._dependent)
        if all(v in self._final_values for v in dependencies):
            self._final_values.update(node.outputs)
        if any(v.node in self._dependent for v in node.demands):
            return
        mask = self.inactive.record_mask(node)
        if mask is not None:
            self.views[node.outputs[0]] = mask
            return
        counts = self.inactive.are_neutral(node)
        reduction = self._reduction_of(node) if counts else None
        if reduction is not None:
            self.reductions[node] = reduction
            return
        view = self._view_of(node)
        if view is not None:
            self.views[node.outputs[0]] = view
            self.inactive.visit(node, view)
            return
        for rescaled in self._rescaled:
            rescaled.visit(node)
            if len(node.inputs) < 2:
                continue
            view = rescaled.view(node.inputs[1])
            if view is not None and self.inactive.passes_second(node, view.declared):
                rescaled.pass_on(node, node.inputs[1])
                self.inactive.visit(node, view)

    def _fold_of_pick(self, node: Node, view: View) -> StreamReduction | None:
        """Return the fold of a node that picks one slice, if few slices are picked.

        A slice that surely comes last needs no comparison of positions.
        """
        position = picked_position(node, view.axis)
        if position is None:
            return None
        last = 0 if self._loop.reverse else self._loop.length - 1
        surely = equal(view.start + view.step * position, last) is True
        latest = surely and not self._loop.stops
        if latest:
            return fold_of_pick(node, view, self.stream, last=True)
        return super()._fold_of_pick(node, view)

    def _have_parts(self, node: Node, views: Sequence[View | None]) -> bool:
        return super()._have_parts(node, views) or self._is_checked(node, views)

    def is_part(self, value: Value, view: View | None) -> bool:
        """Whether a value has slices with this view, or one for all iterations.

        Slices of a few iterations earlier count too.
        """
        if value.node in self._dependent:
            return view is not None and self.own_place((value, view)) is not None
        return view is None or can_be_sliced(value, view, self._loop.length)

    def own_place(self, place: PartPlace) -> tuple[PartPlace, int] | None:
        """Return where slices of a value are computed, and how many steps earlier."""
        value, view = place
        known = self.views.get(value)
        if known is None:
            return None
        lag = view.lag_behind(known, self._loop.reverse)
        return None if lag is None else ((value, known), lag)

    def _is_checked(self, node: Node, views: Sequence[View | None]) -> bool:
        """Whether a node is a check whose condition is available after the scan."""
        if node.primitive is not OP.assert_:
            return False
        is_available = condition_of_check(node) in self._final_values
        return is_available and self.is_part(node.inputs[0], views[0])

    def ys_of(self, values: Iterable[Value]) -> set[Value]:
        """Return the ys that values are computed from, slice by slice."""
        stack, seen = list(values), set(values)
        while stack:
            value = stack.pop()
            if value.node is not self._loop.node:
                new = {x for x in value.node.inputs if x in self.views} - seen
                seen |= new
                stack += new
        return {v for v in seen if v.node is self._loop.node}

    def depends(self, value: Value) -> bool:
        """Whether a value depends on the scan."""
        return value.node in self._dependent

    @property
    def nodes(self) -> set[Node]:
        """The nodes that are computed slice by slice, or that reduce such slices."""
        rows = {v.node for v in self.views if v.node is not self._loop.node}
        return rows.union(self.reductions, self._rescaled_nodes())

    def live_out_values(self) -> list[Value]:
        """Return the live-out values: the sliced values that nodes outside need."""
        inside = self.nodes
        values = [v for v in self.views if not self.uses.are_among(v, inside)]
        for rescaled in self._rescaled:
            values += rescaled.live_out_slices(inside)
        return list(dict.fromkeys(values))

    def is_small(self, value: Value) -> bool:
        """Whether a value is smaller than the ys that it is reduced from."""
        node = value.node
        view = self.views[value]
        if node is self._loop.node or not view.is_part(self._loop.length):
            return False
        if not self.inactive.are_zero(value):
            return False
        sliced_inputs = [x for x in node.inputs if x in self.views]
        if node.primitive in SHRINKING:
            return True
        size = value.type.size
        lesser = (less_equal(size, x.type.size) is True for x in sliced_inputs)
        return all(lesser) and all(map(self.is_small, sliced_inputs))
