"""The iteration that each position along an axis belongs to, after slices and flips."""

from collections.abc import Sequence
from typing import NamedTuple

from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal
from graphc.ir.types import INT32, same_size
from graphc.rewriting.loops.find.access import (
    Slice,
    Tile,
    WrittenPositions,
    reapply,
    slice_of,
    written_positions,
)
from graphc.rewriting.loops.find.axis_rules import operand_axes

FARTHEST = 16  # iterations that a slice may read back


class View(NamedTuple):
    """Position j along an axis of `size` belongs to iteration `start + step * j`.

    `declared` is the start as declared; it equals `start` unless there are no
    positions.
    """

    axis: int
    start: Size
    step: int
    size: Size
    declared: Size

    @classmethod
    def whole(cls, length: Size) -> "View":
        """The view of a ys output: one position per iteration."""
        return cls(0, 0, 1, length, 0)

    def along(self, axis: int) -> "View":
        """The same view along another axis."""
        return self._replace(axis=axis)

    def matches(self, other: "View") -> bool:
        """Whether the positions of both views surely belong to the same iterations."""
        same = self.step == other.step and same_size(self.start, other.start)
        return same and equal(self.size, other.size) is True

    def covers(self, length: Size) -> bool:
        """Whether each position provably belongs to the iteration of its number."""
        return self.matches(View.whole(length))

    def _iterations(self) -> tuple[Size, Size]:
        """Return start and stop of the iterations that the positions belong to."""
        first = self.start if self.step > 0 else self.start - self.size + 1
        return first, first + self.size

    def is_part(self, length: Size) -> bool:
        """Whether the iterations are provably adjacent and in range, either way."""
        if self.covers(length):
            return True
        first, end = self._iterations()
        inside = less_equal(0, first) is True and less_equal(end, length) is True
        return abs(self.step) == 1 and inside

    def select_rows(self, rows: Value, length: Size) -> Value:
        """Select the positions of this view from `rows`, all iterations on axis 0."""
        if self.covers(length):
            return rows
        rows_of_view: Value = F._part(rows, 0, *self._iterations())
        return F.flip(rows_of_view, 0) if self.step < 0 else rows_of_view

    def lag_behind(self, other: "View", reverse: bool) -> int | None:
        """Return by how many iterations a position lags the same one of `other`.

        None if the position comes first, lags too many iterations, or the lag is
        unknown.
        """
        if self.axis != other.axis or self.step != other.step:
            return None
        if equal(self.size, other.size) is not True:
            return None
        later, earlier = (other, self) if reverse else (self, other)
        apart = later.declared - earlier.declared
        if same_size(self.start, other.start):
            apart = 0
        return apart if isinstance(apart, int) and 0 <= apart <= FARTHEST else None

    def view_of_slice(self, part: Slice, size: Size) -> "View":
        """Return the view of a slice of this axis that has `size` elements."""
        start, declared = (s + self.step * f for s, f in self._pair_starts(part))
        return View(self.axis, start, self.step * part.step, size, declared)

    def view_before_slice(self, part: Slice, size: Size) -> "View | None":
        """Return the view of an axis of `size` whose slice `part` has this view.

        None unless the slice steps as far as this view does.
        """
        if abs(self.step) != abs(part.step):
            return None
        step = self.step // part.step
        start, declared = (s - step * f for s, f in self._pair_starts(part))
        return View(part.axis, start, step, size, declared)

    def _pair_starts(self, part: Slice) -> list[tuple[Size, Size]]:
        return [(self.start, part.first), (self.declared, part.declared)]

    def position(self, place: Value) -> Value:
        """Return the position that belongs to iteration `place`, if there is one."""
        offset = F.subtract(place, _number(self.start))
        return offset if self.step == 1 else F.floor_divide(offset, self.step)

    def has_position(self, place: Value, length: Size) -> Value | None:
        """Whether a position belongs to iteration `place`; None if one always does."""
        if self.covers(length):
            return None
        position = self.position(place)
        tests = [position >= 0, position < _number(self.size)]
        if abs(self.step) > 1:
            apart = F.subtract(place, _number(self.start))
            tests.append(F.equal(F.remainder(apart, abs(self.step)), 0))
        holds = tests[0]
        for test in tests[1:]:
            holds = F.logical_and(holds, test)
        return holds

    def align_rows(self, value: Value, length: Size) -> Value:
        """Return the slice of a value for each iteration, zeros where it has none.

        The step must be 1 or -1.
        """
        rows: Value = F.moveaxis(value, self.axis, 0) if self.axis else value
        if self.covers(length):
            return rows
        if self.step < 0:
            rows = F.flip(rows, 0)
        first, end = self._iterations()
        if not self.is_part(length):
            bounds = dims.maximum(0, -first), self.size - dims.maximum(end - length, 0)
            rows = F._part(rows, 0, *bounds)
        before, after = dims.maximum(first, 0), dims.maximum(length - end, 0)
        no_padding = ((0, 0),) * (rows.type.rank - 1)
        if same_size(before, 0) and same_size(after, 0):
            return rows
        widths = ((size_value(before), size_value(after)), *no_padding)
        return F.pad(rows, widths)


def _number(size: Size) -> Value:
    return cast(as_value(size_value(size)), INT32)


ALL = View(-1, 0, 0, 0, 0)  # the view of a value that each iteration reads as a whole


class Stream(NamedTuple):
    """The axis along which a loop goes, slice by slice or in tiles.

    If `backwards`, the last position comes first.
    """

    length: Size
    tiled: bool = False
    backwards: bool = False

    @property
    def whole(self) -> View:
        """The view of an axis whose positions are those of the stream."""
        return View.whole(self.length)

    @property
    def one(self) -> Tile | None:
        """The extent of a reduced part: a tile keeps its axis, with one position."""
        return Tile(1) if self.tiled else None


def view_of_result(
    node: Node, x: Value, view: View, axis: int, tiled: bool = False
) -> View | None:
    """The view of an axis of a result, derived from the view of its input `x`."""
    if node.primitive is OP.slice_update and not tiled:
        same = x is node.inputs[0] and view.axis == axis
        return view if same else None
    axes = operand_axes(node, axis, tiled)
    if axes is not None:
        pairs = zip(node.inputs, axes, strict=True)
        same = any(v is x and a == view.axis for v, a in pairs)
        return view.along(axis) if same else None
    part = None if tiled else slice_of(node, axis)
    if part is None or part.axis != view.axis:
        return None
    return view.view_of_slice(part, node.outputs[0].type.shape[axis]).along(axis)


def operand_views(
    node: Node, view: View, tiled: bool = False
) -> "list[View | None] | None":
    """Return, per input, the view of the positions that a result's positions read.

    The view is None for an input that all positions share. The list is None if the
    views are unknown, and for tiles also if the input has other positions.
    """
    if node.primitive is OP.slice_update and not tiled:
        return _views_of_write(node, view)
    axes = operand_axes(node, view.axis, tiled)
    if axes is not None:
        return [None if a is None else view.along(a) for a in axes]
    if tiled:
        return None
    part = slice_of(node, view.axis)
    if part is None:
        return None
    before = view.view_before_slice(part, node.inputs[0].type.shape[part.axis])
    return None if before is None else [before]


def _views_of_write(node: Node, view: View) -> "list[View | None] | None":
    write = written_positions(node, view.axis)
    if write is None or node.params["how"] not in ("add", "set"):
        return None
    if write.axis is None:
        return [view, None]
    return [view, _written_view(write, view).along(write.axis)]


def _written_view(write: WrittenPositions, view: View) -> View:
    """The view of the positions that an update writes."""
    if write.at is not None:
        starts = view.start, view.declared
        start, declared = (s + view.step * write.at for s in starts)
        return View(0, start, 1, 1, declared)
    return view if write.part is None else view.view_of_slice(write.part, write.size)


def update_slice(
    node: Node, view: View, rows: Sequence[Value], place: Value, length: Size
) -> Value:
    """Compute a slice of the result of a slice_update from slices of its inputs."""
    write = written_positions(node, view.axis)
    assert write is not None
    old, new = rows
    if write.items["kinds"]:
        update = reapply(node, rows, **write.items)
    elif node.params["how"] == "add":
        update = F.add(old, new)
    else:
        update = F.broadcast_to(new, old.type.shape)
    is_written = _written_view(write, view).has_position(place, length)
    return update if is_written is None else F.where(is_written, update, old)


def can_be_sliced(value: Value, view: View, length: Size) -> bool:
    """Whether a value can have a slice for each position of a view."""
    n = value.type.shape[view.axis]
    if is_one(n):
        return True
    if equal(n, view.size) is False:
        return False
    if abs(view.step) == 1:
        return True
    return view_of_sliced_input(value.node, view, length) is not None


def view_of_sliced_input(node: Node, view: View, length: Size) -> View | None:
    """The view of a slice's input, if its positions are the iterations in order."""
    if node.primitive is not OP.basic_index or slice_of(node, view.axis) is None:
        return None
    views = operand_views(node, view)
    before = views[0] if views else None
    covers = before is not None and before.covers(length)
    return before if covers else None
