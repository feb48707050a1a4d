"""What is multiplied into values that are made of rows and of something known late.

A sum of rows less something that is known at the end only, as of `x - max(x)`, is made
step by step in another way; what is the same for all rows is multiplied in at the end.
`shifted` and `centred` have two forms of such values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from graphc.ir.build import size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.op import rebuild
from graphc.ir.types import is_float, same_shape
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.loops.access import items_of
from graphc.rewriting.loops.affine_reads import View, parents
from graphc.rewriting.loops.producers import Place, Uses
from graphc.rewriting.loops.slice_rules import row, source
from graphc.rewriting.loops.stream_reductions import Task
from graphc.rewriting.sizes import at_most, is_one


class Stepwise(Protocol):
    """What is known of the values that depend on a scan."""

    views: dict[Value, View]
    uses: Uses

    def depends(self, value: Value) -> bool:
        """Whether a value depends on the scan."""

    def is_row(self, value: Value, view: View | None) -> bool:
        """Whether a value is made row by row, and seen like this."""


class Factor(NamedTuple):
    """A node that has multiplied, divided or reshaped a value.

    `at` says where that stands among the inputs, and `axis` along which axis of the
    result the rows come. The other input comes row by row too, or is known at the end.
    """

    node: Node
    at: int
    axis: int
    other: Place | None = None
    fixed: tuple[Value, View | None] | None = None


Beside = Callable[[Factor], Value | None]


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """What is made of rows `x`, times what has been multiplied in; seen as `view`."""

    x: Place
    view: View
    path: tuple[Factor, ...] = ()


Form = TypeVar("Form", bound=Scaled)


class Sums(ABC, Generic[Form]):
    """Values of one form, of which sums over the rows are made step by step."""

    LINEAR: Mapping[str, int]  # in so many inputs

    def __init__(self, known: Stepwise, length: Size) -> None:
        self._known = known
        self._length = length
        self._found: dict[Value, Form] = {}

    def _pairs(self) -> Iterable[tuple[Value, Form]]:
        """All that is known."""
        return self._found.items()

    @property
    def nodes(self) -> set[Node]:
        """The nodes that have made them."""
        return {v.node for v, _ in self._pairs()}

    def shown(self, inside: Container[Node]) -> list[Value]:
        """What comes row by row in those that something else needs."""
        uses = self._known.uses
        return [s.x[0] for v, s in self._pairs() if not uses.are_among(v, inside)]

    @abstractmethod
    def visit(self, node: Node) -> None:
        """Take note of a node that is not made row by row."""

    def _onward(self, node: Node) -> Form | None:
        """What a node makes of one of them; None where it is no factor."""
        inputs = self.LINEAR.get(node.primitive.name, int(only_expands(node)))
        for at, value in enumerate(node.inputs[:inputs]):
            known = self._found.get(value)
            if known is None:
                continue
            factor = factor_of(self._known, node, at, known.view)
            if factor is not None and self._takes(factor):
                view = known.view.along(factor.axis)
                return replace(known, view=view, path=(*known.path, factor))
        return None

    def _takes(self, factor: Factor) -> bool:
        """Whether a factor may be multiplied in."""
        return True

    def view(self, value: Value) -> View | None:
        """How the rows are seen that a value is made of, if it is one of those."""
        return self._found[value].view if value in self._found else None

    def hide(self, node: Node, value: Value) -> None:
        """Take note of a node that gives a value that is known, for each step."""
        self._found[node.outputs[0]] = self._found[value]

    def task(self, node: Node) -> Task | None:
        """How a sum of them over the rows is made, step by step."""
        known = self._found.get(node.inputs[0]) if node.inputs else None
        if known is None or node.primitive.name != "sum":
            return None
        over_rows = known.view.axis in node.params["axes"]
        return self._task(node, known) if over_rows else None

    @abstractmethod
    def _task(self, node: Node, known: Form) -> Task:
        """That of a node of sum."""


def difference(known: Stepwise, node: Node, at: int) -> tuple[Place, View] | None:
    """The rows of a difference at one of its sides, and how that is seen.

    None where the other side is not the same for all of them.
    """
    x, other = node.inputs[at], node.inputs[1 - at]
    view, out = known.views.get(x), node.outputs[0]
    wide = is_float(x.dtype) and x.dtype.itemsize >= 4
    if view is None or not wide or not same_shape(x.type.shape, out.type.shape):
        return None
    found = parents(node, view)
    if not found or not is_fixed(other, found[1 - at]):
        return None
    return (x, view), view


def is_fixed(value: Value, view: View | None) -> bool:
    """Whether a value is the same for all rows."""
    return view is None or is_one(value.type.shape[view.axis])


def factor_of(known: Stepwise, node: Node, at: int, view: View) -> Factor | None:
    """What a node does to the value at one of its inputs; None where it is none."""
    axis = _axis_of(node, at, view.axis)
    if axis is None or len(node.inputs) == 1:
        return None if axis is None else Factor(node, at, axis)
    value, other = node.inputs[at], node.inputs[1 - at]
    if node.outputs[0].type.rank != value.type.rank:
        return None
    found = parents(node, view.along(axis))
    assert found is not None
    seen = found[1 - at]
    if is_fixed(other, seen):
        return Factor(node, at, axis, fixed=(other, seen))
    if seen is None or not known.is_row(other, seen):
        return None
    return Factor(node, at, axis, other=(other, seen))


def _axis_of(node: Node, at: int, axis: int) -> int | None:
    """The axis of a result that an axis of an input becomes."""
    for made in range(node.outputs[0].type.rank):
        found = source(node, made)
        if found is not None and found[at] == axis:
            return made
    return None


def only_expands(node: Node) -> bool:
    """Whether all that a node does is to put in axes of one element."""
    if node.primitive.name == "basic_index":
        return all(item[0] == "n" or item == FULL_ITEM for item in items_of(node))
    return node.primitive.name == "expand_dims"


def walked(path: tuple[Factor, ...], value: Value, beside: Beside) -> Value:
    """A row with those factors that are given."""
    for factor in path:
        node = factor.node
        if len(node.inputs) == 1:
            value = row(node, factor.axis, [value])
            continue
        other = beside(factor)
        if other is not None:
            pair = (value, other) if factor.at == 0 else (other, value)
            value = rebuild(node, pair, node.params).outputs[0]
    return value


def with_fixed(known: Callable[[Value], Value]) -> Beside:
    """The factors that are the same for all rows."""

    def beside(factor: Factor) -> Value | None:
        if factor.fixed is None:
            return None
        value, seen = factor.fixed
        return row_of(known(value), seen)

    return beside


def row_of(value: Value, view: View | None) -> Value:
    """What is the same for all rows, as a row."""
    found: Value = value if view is None else F.squeeze(value, view.axis)
    return found


def row_shape(value: Value, axis: int) -> tuple[Size, ...]:
    """The shape of a row."""
    shape = value.type.shape
    return shape[:axis] + shape[axis + 1 :]


def summed(node: Node, view: View, total: Value) -> Value:
    """What a node of sum gives, of the sum over the rows; 0 of none."""
    axes = tuple(a - (a > view.axis) for a in node.params["axes"] if a != view.axis)
    keepdims = node.params["keepdims"]
    made = node.primitive(total, axes=axes, keepdims=keepdims) if axes else total
    whole: Value = F.expand_dims(made, view.axis) if keepdims else made
    if at_most(1, view.size):
        return whole
    some = F.greater(size_value(view.size), 0)
    whole = F.where(some, whole, 0)  # where what is known at the end may be NaN
    return whole
