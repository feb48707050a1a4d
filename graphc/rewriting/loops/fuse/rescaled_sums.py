"""Rescaled accumulators: sums of slices whose factors are available after the loop.

A sum of `x - max(x)` needs a value that is known only after the last slice, so the loop
accumulates another sum and corrects it at the end. Factors that all slices share are
multiplied in after the loop. Online softmax and Welford's algorithm are the two forms
of such sums.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from graphc.ir.graph.build import literal_of, size_value
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive, rebuild
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import is_one
from graphc.ir.types import is_float, same_shape
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.loops.find.access import Tile, items_of, without_axis
from graphc.rewriting.loops.find.affine_reads import Stream, View, operand_views
from graphc.rewriting.loops.find.axis_rules import build_part, operand_axes
from graphc.rewriting.loops.find.producers import PartPlace, UsersOf
from graphc.rewriting.loops.fuse.stream_reductions import StreamReduction
from graphc.rewriting.match.sizes import at_most


class Stepwise(Protocol):
    """The facts about the values that a loop computes part by part."""

    stream: Stream
    views: dict[Value, View]
    uses: UsersOf

    def is_part(self, value: Value, view: View | None) -> bool:
        """Whether parts of a value with this view are available; None: all of it."""
        ...


class Factor(NamedTuple):
    """A node that has multiplied, divided or moved the axes of a value.

    `at` is the number of the value among the inputs, and `axis` the sliced axis of the
    result. The other input is sliced too (`other`), or available after the loop
    (`fixed`).
    """

    node: Node
    at: int
    axis: int
    other: PartPlace | None = None
    fixed: tuple[Value, View | None] | None = None


OtherOf = Callable[[Factor], Value | None]


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A function of the slices `x`, times the factors of `path`, seen as `view`."""

    x: PartPlace
    view: View
    path: tuple[Factor, ...] = ()


Form = TypeVar("Form", bound=Scaled)


class Sums(ABC, Generic[Form]):
    """The values of one form whose sums over the slices a loop accumulates."""

    LINEAR: Mapping[Primitive, int]  # how many leading inputs an op is linear in

    def __init__(self, known: Stepwise) -> None:
        self._known = known
        self._forms: dict[Value, Form] = {}

    def _all_forms(self) -> Iterable[tuple[Value, Form]]:
        """All values found, with their forms."""
        return self._forms.items()

    @property
    def nodes(self) -> set[Node]:
        """The nodes that compute the values found."""
        return {v.node for v, _ in self._all_forms()}

    def live_out_slices(self, inside: Container[Node]) -> list[Value]:
        """Return the slices `x` that the forms of live-out values need."""
        uses = self._known.uses
        return [s.x[0] for v, s in self._all_forms() if not uses.are_among(v, inside)]

    def __contains__(self, value: Value) -> bool:
        return value in self._forms

    @abstractmethod
    def visit(self, node: Node) -> None:
        """Record a node that is not computed slice by slice."""

    def _form_of_result(self, node: Node) -> Form | None:
        """Return the form of a result if the node applies a factor to a value found."""
        inputs = self.LINEAR.get(node.primitive, int(only_moves(node)))
        for at, value in enumerate(node.inputs[:inputs]):
            known = self._forms.get(value)
            if known is None:
                continue
            factor = factor_of(self._known, node, at, known.view)
            if factor is not None and self._may_take_factor(factor):
                view = known.view.along(factor.axis)
                return replace(known, view=view, path=(*known.path, factor))
        return None

    def _masked_form(self, node: Node) -> tuple[Form | None, PartPlace | None]:
        """Recognise `where(mask, value, 0)`; return the form of value, and the mask.

        Both are None if the node is nothing of the kind, or the mask is not sliced.
        """
        if node.primitive is not OP.where:
            return None, None
        mask, value, zero = node.inputs
        known, none = self._forms.get(value), literal_of(zero)
        if known is None or none is None or none.any():
            return None, None
        views = operand_views(node, known.view)
        seen = views[0] if views else None
        fits = same_shape(value.type.shape, node.outputs[0].type.shape)
        if not fits or seen is None or not self._known.is_part(mask, seen):
            return None, None
        return known, (mask, seen)

    def _may_take_factor(self, factor: Factor) -> bool:
        """Whether a factor may be multiplied in."""
        return True

    def view(self, value: Value) -> View | None:
        """Return the view of the slices of a value found, or None for another value."""
        return self._forms[value].view if value in self._forms else None

    def pass_on(self, node: Node, value: Value) -> None:
        """Record a node that passes on `value` for each iteration."""
        self._forms[node.outputs[0]] = self._forms[value]

    def reduction_of(self, node: Node) -> StreamReduction | None:
        """Return the reduction by which the loop computes a sum of a value found."""
        known = self._forms.get(node.inputs[0]) if node.inputs else None
        if known is None or node.primitive is not OP.sum:
            return None
        over_rows = known.view.axis in node.params["axes"]
        return self._reduction_of_sum(node, known) if over_rows else None

    @abstractmethod
    def _reduction_of_sum(self, node: Node, known: Form) -> StreamReduction:
        """The reduction of a sum."""


def match_difference(
    known: Stepwise, node: Node, at: int
) -> tuple[PartPlace, View] | None:
    """Return the slices at one side of a difference, and the view of the difference.

    None if the other side is not the same for all slices.
    """
    x, other = node.inputs[at], node.inputs[1 - at]
    view, out = known.views.get(x), node.outputs[0]
    wide = is_float(x.dtype) and x.dtype.itemsize >= 4
    if view is None or not wide or not same_shape(x.type.shape, out.type.shape):
        return None
    views = operand_views(node, view)
    if not views or not is_fixed(other, views[1 - at]):
        return None
    return (x, view), view


def is_fixed(value: Value, view: View | None) -> bool:
    """Whether a value is the same for all slices."""
    return view is None or is_one(value.type.shape[view.axis])


def factor_of(known: Stepwise, node: Node, at: int, view: View) -> Factor | None:
    """Return the factor that a node applies to its input number `at`, or None."""
    axis = _result_axis_of(node, at, view.axis)
    if axis is None or len(node.inputs) == 1:
        return None if axis is None else Factor(node, at, axis)
    value, other = node.inputs[at], node.inputs[1 - at]
    if node.outputs[0].type.rank != value.type.rank:
        return None
    views = operand_views(node, view.along(axis))
    assert views is not None
    seen = views[1 - at]
    if is_fixed(other, seen):
        return Factor(node, at, axis, fixed=(other, seen))
    if seen is None or not known.is_part(other, seen):
        return None
    return Factor(node, at, axis, other=(other, seen))


def _result_axis_of(node: Node, at: int, axis: int) -> int | None:
    """Return the axis of a result that an axis of an input becomes."""
    for result_axis in range(node.outputs[0].type.rank):
        input_axes = operand_axes(node, result_axis)
        if input_axes is not None and input_axes[at] == axis:
            return result_axis
    return None


def only_moves(node: Node) -> bool:
    """Whether a node only inserts axes of size 1, or changes their order."""
    if node.primitive is OP.basic_index:
        return all(item[0] == "n" or item == FULL_ITEM for item in items_of(node))
    return node.primitive in (OP.expand_dims, OP.transpose)


def apply_factors(
    path: tuple[Factor, ...], value: Value, other_of: OtherOf, tile: Tile | None = None
) -> Value:
    """Apply the factors of a path to a part, skipping those that `other_of` lacks.

    `other_of` returns the other input of a factor. The part is a slice, or a tile.
    """
    for factor in path:
        node = factor.node
        if len(node.inputs) == 1:
            value = build_part(node, factor.axis, [value], tile)
            continue
        other = other_of(factor)
        if other is not None:
            pair = (value, other) if factor.at == 0 else (other, value)
            value = rebuild(node, pair, node.params).outputs[0]
    return value


def shared_factors(known: Callable[[Value], Value]) -> OtherOf:
    """Return a function that looks up the factors that all slices share."""

    def other_of(factor: Factor) -> Value | None:
        if factor.fixed is None:
            return None
        value, seen = factor.fixed
        return shared_slice(known(value), seen)

    return other_of


def shared_slice(value: Value, view: View | None) -> Value:
    """Return the one slice of a value that all iterations share."""
    return value if view is None else F.squeeze(value, view.axis)


def complete_sum(node: Node, view: View, total: Value) -> Value:
    """Complete a sum from the sum over the slices; it is 0 if there are no slices."""
    axes = without_axis(node.params["axes"], view.axis)
    keepdims = node.params["keepdims"]
    result = node.primitive(total, axes=axes, keepdims=keepdims) if axes else total
    return whole_or_zero(F.expand_dims(result, view.axis) if keepdims else result, view)


def whole_or_zero(total: Value, view: View) -> Value:
    """Return a sum over slices, or 0 if there are none, as factors may then be NaN."""
    if at_most(1, view.size):
        return total
    return F.where(F.greater(size_value(view.size), 0), total, 0)
