"""Whether index arrays name an element twice, as far as their nodes tell."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, is_one, less_equal, may_be_one
from graphc.ir.types import NDArray

AxisIndex = tuple[Value, Size]  # an index array, and the size of its axis


class _Spread(NamedTuple):
    """Distinct integers: whether none is negative, and their largest distance."""

    counts_from_start: bool
    most: Size

    def fits(self, n: Size) -> bool:
        """Whether no two are the same place of an axis, counted from either end."""
        return self.counts_from_start or less_equal(self.most + 1, n) is True


def is_without_repeats(indices: Sequence[Value], sizes: Sequence[Size]) -> bool:
    """Whether index arrays for axes of these sizes are known to repeat no element."""
    if all(i.type.rank == 0 for i in indices):
        return True
    nodes = {i.node for i in indices}
    if len(nodes) == 1 and nodes.pop().primitive is OP.nonzero:
        return True
    pairs = [(_kept_inside(i, n), n) for i, n in zip(indices, sizes, strict=True)]
    return _any_distinct(pairs) or _axis_by_axis(pairs)


def _kept_inside(index: Value, n: Size) -> Value:
    """An index array without positions beyond the axis, where nothing is written."""
    if index.node.primitive is OP.where:
        _, positions, beyond = index.node.inputs
        sizes = known_sizes(beyond)
        alike = positions.type.rank == index.type.rank
        if alike and sizes is not None and not sizes.ndim:
            return positions if less_equal(n, sizes.item()) is True else index
    return index


def _any_distinct(pairs: Iterable[AxisIndex]) -> bool:
    """Whether one array alone, with no integer twice, makes all elements distinct."""
    pairs = list(pairs)
    points = set[int]().union(*(_axes(i) for i, _ in pairs))
    for index, n in pairs:
        spread = _spread_of(index)
        if spread is not None and spread.fits(n) and points <= _axes(index):
            return True
    return False


def _axis_by_axis(pairs: list[AxisIndex]) -> bool:
    """Whether, along each axis of the points, some array never repeats itself.

    The array may also change along other axes for which this is already known.
    """
    points = set[int]().union(*(_axes(i) for i, _ in pairs))
    known: set[int] = set()
    for _ in pairs:
        for index, n in pairs:
            candidate = _distinct_axis(index)
            if candidate is None:
                continue
            axis, spread = candidate
            if spread.fits(n) and _axes(index) <= known | {axis}:
                known.add(axis)
    return points <= known


def _axes(value: Value) -> set[int]:
    """The axes that are not of size 1, counted from the last one as -1."""
    shape = value.type.shape
    return {a - len(shape) for a, n in enumerate(shape) if not is_one(n)}


def _distinct_axis(value: Value) -> tuple[int, _Spread] | None:
    """An axis along which no integer repeats at any place of the others; the spread."""
    spread, axes = _spread_of(value), _axes(value)
    if any(map(may_be_one, value.type.shape)):
        return None  # stretched, it repeats itself
    if spread is not None and len(axes) == 1:
        return axes.pop(), spread
    if value.node.primitive is not OP.add:
        return None
    a, b = value.node.inputs
    for x, y in ((a, b), (b, a)):
        spread_along = _distinct_axis(x)
        if spread_along is not None and spread_along[0] not in _axes(y):
            return spread_along[0], _Spread(False, spread_along[1].most)
    return None


def _spread_of(value: Value) -> _Spread | None:
    """The spread of an array that is known to have no integer twice, else None."""
    node, literal = value.node, literal_of(value)
    if literal is not None:
        return _literal_spread(literal)
    if node.primitive is OP.iota:
        start, step, length = (node.params[k] for k in ("start", "step", "length"))
        if not (isinstance(step, int) and step > 0):
            return None
        return _Spread(isinstance(start, int) and start >= 0, (length - 1) * step)
    if _is_each_once(node):
        return _spread_of(node.inputs[0])
    if node.primitive is OP.gather:
        x, *indices = node.inputs
        sizes = [x.type.shape[a] for a in node.params["axes"]]
        return _spread_of(x) if is_without_repeats(indices, sizes) else None
    if node.primitive is OP.add:
        pairs = ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))
        for x, y in pairs:
            spread = None if _axes(y) else _spread_of(x)
            if spread is not None:
                return _Spread(False, spread.most)
    return None


def _is_each_once(node: Node) -> bool:
    """Whether the elements are those of the first input, each at most once."""
    moving = (OP.reshape, OP.expand_dims, OP.squeeze, OP.transpose, OP.basic_index)
    return node.primitive in (*moving, OP.convert, OP.dynamic_slice)


def _literal_spread(array: NDArray) -> _Spread | None:
    flat = array.ravel()
    if not flat.size or np.unique(flat).size < flat.size:
        return None
    return _Spread(int(flat.min()) >= 0, int(flat.max()) - int(flat.min()))
