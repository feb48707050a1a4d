"""Mask rules: how to rebuild a node whose axes are stored at a capacity.

An axis of true size n is stored at a capacity of at least n: its elements first, then
padding. The rule of a primitive (`Primitive.padding`) rebuilds the node on such inputs.
It says what the padding must hold for the result to be right, and may say what the
padding of the result holds. Rules are about values only: gradients are graphs, and are
padded like any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.build import as_value, cast, literal_of
from graphc.ir.graph.nodes import Guard, Node, Value
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Size
from graphc.ir.sizes.ranges import SizeRange
from graphc.ir.types import INT32, DType, NDArray, TensorType, is_inexact
from graphc.ops.common.axes import along_axis
from graphc.ops.common.monoids import Element, most

Fill = Mapping[int, Element]  # by axis: the element all of its padding holds
CapacityOf = Callable[[Size], Size]
# By primitive: the function that computes a result's element from one of each input.
ELEMENTS: RuleTable[Callable[..., Any]] = RuleTable("elements on the host")


@dataclass(frozen=True, eq=False)
class PaddedValue:
    """A value with padded axes.

    `type` is the type of the unpadded value, with true sizes. `axes` are the axes
    stored at a capacity. `fill` gives the element in the padding along an axis, if it
    is known, at true positions of the other axes. If several axes have the same
    element, the padding behind more than one of them holds it too.
    """

    value: Value
    type: TensorType
    axes: frozenset[int] = frozenset()
    fill: Fill = field(default_factory=dict)

    def ragged(self, axes: Iterable[int]) -> list[int]:
        """The padded axes among `axes`."""
        return [a for a in axes if a in self.axes]


Rebuilt = Value | PaddedValue | tuple[Value | PaddedValue, ...] | None


class NotPadded(Exception):
    """Raised by a rule whose node needs true sizes, with the reason: it falls back."""


Bodies = Callable[[BodyCall, Sequence[PaddedValue]], list[PaddedValue]]
Branches = Callable[
    ["Padding", BodyCall, Sequence[PaddedValue]], tuple[list[Value], tuple[int, ...]]
]


class Padding:
    """The tools of a rule that rebuilds `node`.

    `stored` gives the capacity of a true size. `exact` gives the true size in terms of
    sizes known in the padded graph. `range_of` gives, in the same terms, the range that
    the integers of an unpadded value lie in wherever it is computed. `body` rebuilds a
    graph inside the node on other inputs and returns its outputs; if an op in that
    graph has no rule for them, the node has none.
    """

    def __init__(
        self,
        node: Node,
        stored: CapacityOf,
        exact: CapacityOf,
        range_of: Callable[[Value], SizeRange],
        body: Bodies,
        branch: Branches,
    ) -> None:
        self.node = node
        self.stored = stored
        self.exact = exact
        self.range_of = range_of
        self.body = body
        self._branch = branch
        self.prices: list[str] = []
        self.needs: list[Guard] = []

    def branch(
        self, call: BodyCall, inputs: Sequence[PaddedValue]
    ) -> tuple[list[Value], tuple[int, ...]]:
        """Rebuild a branch like `body`, with outputs at the capacities of the node's.

        The numbers returned are those of the guards that the branch needs, which need
        not hold if it is not taken.
        """
        return self._branch(self, call, inputs)

    def costs(self, price: str) -> None:
        """State that the rule does much more work than its node at true sizes."""
        self.prices.append(price)

    def requires(self, guard: Guard) -> None:
        """State a guard on true sizes that the node itself does not have.

        The node on true sizes raises if the guard fails; the rule's result would not.
        """
        self.needs.append(guard)

    def length(self, size: Size) -> Value:
        """A true size as a number, known when the program runs."""
        return as_value(F.size_value(self.exact(size)))

    @cached_property
    def out(self) -> tuple[Size, ...]:
        """The true sizes of the first result."""
        return self.node.outputs[0].type.shape

    def positions(self, size: Size) -> Value:
        """0, 1, 2 ... along an axis of this true size."""
        return F.arange(self.stored(size), dtype="int32")

    def mask(self, size: Size, axis: int, rank: int) -> Value:
        """True at the elements of `axis`, shaped to broadcast against `rank` axes."""
        inside = self.positions(size) < cast(self.length(size), INT32)
        return along_axis(inside, axis, rank)

    def filled(self, x: PaddedValue, axes: Iterable[int], number: ArrayLike) -> Value:
        """The stored value with `number` in the padding of these axes."""
        fill = np.asarray(number).astype(x.value.dtype)
        wrong = [a for a in x.ragged(axes) if not _is_number(x.fill.get(a), fill)]
        if not wrong:
            return x.value
        if x.value.node.primitive is OP.transpose:  # one mask, if that is filled too
            order, turned = x.value.node.params["axes"], x.value.node.inputs[0]
            shape = [x.type.shape[order.index(a)] for a in range(len(order))]
            axes = sorted(order[a] for a in wrong)
            before = PaddedValue(turned, x.type.like(shape), frozenset(axes))
            return F.transpose(self.filled(before, axes, number), order)
        return F.where(self.inside(x, wrong), x.value, as_value(fill))

    def inside(self, x: PaddedValue, axes: Iterable[int]) -> Value:
        """True where a position lies within the true sizes of all of `axes`."""
        rank = x.type.rank
        mask: Value | None = None
        for axis in axes:
            one = self.mask(x.type.shape[axis], axis, rank)
            mask = one if mask is None else F.logical_and(mask, one)
        return as_value(True) if mask is None else mask

    def result(self, value: Value, fill: Fill, index: int = 0) -> "PaddedValue":
        """A result of the node whose padding holds the elements of `fill`."""
        return PaddedValue(value, self.node.outputs[index].type, fill=dict(fill))


def _is_number(padding: Element | None, fill: NDArray) -> bool:
    """Whether padding holds this very number, bit by bit but for the sign of zeros."""
    if padding is None:
        return False
    if bool(padding == fill):
        return True
    return np.asarray(padding).astype(fill.dtype).tobytes() == fill.tobytes()


def _are_same(one: Sequence[Element | None], other: Sequence[Element | None]) -> bool:
    """Whether two lists have the same elements; None (not known) matches only None."""
    pairs = zip(one, other, strict=True)
    return all(
        a is b or (b is not None and _is_number(a, np.asarray(b))) for a, b in pairs
    )


def zeros_along(axes: Iterable[int], dtype: DType) -> Fill:
    """The fill where the padding along each of the axes holds zeros."""
    zero: Element = dtype.type(0)
    return dict.fromkeys(axes, zero)


def kept(fill: Fill, axes: tuple[int, ...], keepdims: bool) -> dict[int, Element]:
    """The fill of a reduction over `axes`, by axis of its result."""
    order = sorted(set(fill) - set(axes))
    if keepdims:
        return {a: fill[a] for a in order}
    return {a - sum(b < a for b in axes): fill[a] for a in order}


def elementwise(
    pad: Padding, inputs: Sequence[PaddedValue]
) -> PaddedValue | tuple[Value, ...]:
    """The rule of an op each of whose elements depends on one element of each input."""
    node = pad.node
    value = node.primitive(*(r.value for r in inputs), **node.params)
    if isinstance(value, tuple):
        return value
    rank = value.type.rank
    fill: dict[int, Element] = {}
    numbers: dict[int, list[Element | None]] = {}
    for axis in sorted({a + rank - r.type.rank for r in inputs for a in r.axes}):
        numbers[axis] = [_fill_at(r, axis - rank) for r in inputs]
        number = _computed_fill(node, numbers[axis])
        if number is None:
            continue
        alike = [a for a in fill if _are_same([fill[a]], [number])]
        if all(_are_same(numbers[a], numbers[axis]) for a in alike):
            fill[axis] = number
    return pad.result(value, fill)


def _fill_at(x: PaddedValue, axis: int) -> Element | None:
    """The element of `x` in the padding of an axis that is counted from the end."""
    literal = literal_of(x.value)
    if literal is not None and literal.ndim == 0:
        return literal[()]
    return x.fill.get(axis + x.type.rank)


def _computed_fill(node: Node, numbers: Sequence[Element | None]) -> Element | None:
    """The element that a node computes from the padding; None if it is not known."""
    dtype = node.outputs[0].dtype
    if node.primitive.chooses and numbers[0] is not None:
        chosen = numbers[1] if numbers[0] else numbers[2]
        return None if chosen is None else dtype.type(chosen)
    if any(n is None for n in numbers):
        return None
    function = ELEMENTS.find(node.primitive)
    if function is None:
        return None
    types = [v.dtype.type for v in node.inputs]
    with np.errstate(all="ignore"):
        element = function(*(t(n) for t, n in zip(types, numbers, strict=True)))
    return dtype.type(element)


def constant_fill(x: Value, rank: int) -> dict[int, Element]:
    """The fill of a literal scalar broadcast to `rank` axes; empty for other values."""
    literal = literal_of(x)
    if literal is None or literal.ndim:
        return {}
    return dict.fromkeys(range(rank), literal[()])



def last_number(dtype: DType) -> Element:
    """The number that sorts last in ascending order, where NaN comes last."""
    if dtype.kind == "c":
        return complex(np.nan, np.nan)
    return np.nan if is_inexact(dtype) else most(dtype)


def first_values(
    pad: Padding, *values: PaddedValue, count: int, **params: Param
) -> tuple[PaddedValue, ...]:
    """The rule of an op whose results are its first `count` inputs."""
    first = enumerate(values[:count])
    return tuple(pad.result(x.value, x.fill, index=i) for i, x in first)
