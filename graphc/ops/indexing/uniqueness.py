"""Whether index arrays name an element twice, as far as their nodes tell."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, is_one, less_equal, may_be_one
from graphc.ir.types import NDArray, is_integer

AxisIndex = tuple[Value, Size]  # an index array, and the size of its axis


class _Spread(NamedTuple):
    """Distinct integers: their largest distance, and the largest one.

    The largest is None where some may be negative. Sums and multiples `may_wrap`
    around, to negative numbers or to the same ones, unless an axis is known to be long
    enough.
    """

    most: Size
    last: Size | None = None
    may_wrap: bool = False

    @property
    def is_from_start(self) -> bool:
        """Whether none is negative."""
        return self.last is not None and not self.may_wrap

    def fits(self, n: Size) -> bool:
        """Whether no two are the same place of an axis, counted from either end."""
        return self.is_from_start or less_equal(self.most + 1, n) is True

    def is_inside(self, n: Size) -> bool:
        """Whether all are known to be places of an axis, counted from its start."""
        return self.last is not None and less_equal(self.last + 1, n) is True


def is_without_repeats(indices: Sequence[Value], sizes: Sequence[Size]) -> bool:
    """Whether index arrays for axes of these sizes are known to repeat no element."""
    if all(i.type.rank == 0 for i in indices):
        return True
    if _are_all_of_nonzero(indices):
        return True
    pairs = [(_kept_inside(i, n), n) for i, n in zip(indices, sizes, strict=True)]
    return _any_distinct(pairs) or _axis_by_axis(pairs)


def are_distinct_points(
    indices: Value, sizes: Mapping[int, Size], *, is_clipped: bool = False
) -> bool:
    """Whether points, whose positions the last axis of `indices` holds, are distinct.

    They must differ in the columns that have `sizes` of axes. As in a scatter of JAX, a
    position that is negative or too large names no element, or if it `is_clipped` the
    nearest one.
    """
    columns = columns_of(indices)
    pairs = [(_before_wrapping(columns[i], n), n) for i, n in sizes.items()]
    if is_clipped:
        pairs = [(index, n) for index, n in pairs if _is_inside(index, n)]
    arrays = [index for index, _ in pairs]
    return _cover(arrays, indices.type.shape[:-1]) and is_without_repeats(
        arrays, [n for _, n in pairs]
    )


def _is_inside(index: Value, n: Size) -> bool:
    """Whether distinct integers are known to be places from the start of an axis."""
    spread = _spread_of(index)
    return spread is not None and spread.is_inside(n)


def columns_of(indices: Value) -> list[Value]:
    """The positions of all points along each indexed axis.

    They are not repeated along axes that they are broadcast to.
    """
    last, node = indices.type.rank - 1, indices.node
    parts: Sequence[Value] = (indices,)
    if node.primitive is OP.concatenate and node.params["axis"] == last:
        parts = node.inputs
    if all(is_one(part.type.shape[last]) for part in parts):
        return [_without_last_axis(part) for part in parts]
    count = indices.type.shape[last]
    assert isinstance(count, int)
    return [F.take(indices, i, axis=-1) for i in range(count)]


def _without_last_axis(x: Value) -> Value:
    """`x` without its last axis, of size 1, before it is broadcast along others."""
    last, node = x.type.rank - 1, x.node
    if node.primitive is OP.broadcast_to and node.inputs[0].type.rank == last + 1:
        return _without_last_axis(node.inputs[0])
    if node.primitive is OP.expand_dims and last in node.params["axes"]:
        others = tuple(a for a in node.params["axes"] if a != last)
        return F.expand_dims(node.inputs[0], others) if others else node.inputs[0]
    return F.squeeze(x, (last,))


def _before_wrapping(index: Value, n: Size) -> Value:
    """An index before JAX adds `n` to what is negative, and before it is broadcast."""
    node = index.node
    if node.primitive is OP.broadcast_to:
        return _before_wrapping(node.inputs[0], n)
    if node.primitive is OP.expand_dims:
        return F.expand_dims(_before_wrapping(node.inputs[0], n), node.params["axes"])
    if node.primitive is OP.where:
        negative, wrapped, plain = node.inputs
        wraps = _are(wrapped, OP.add, plain, n) or _are_from_zero(plain)
        if wraps and _are(negative, OP.less, plain, 0):
            return plain
    return index


def _are(value: Value, primitive: Primitive, x: Value, size: Size) -> bool:
    """Whether a value is `primitive` of `x` and a scalar that holds this size."""
    if value.node.primitive is not primitive or value.node.inputs[0] is not x:
        return False
    known = known_sizes(value.node.inputs[1])
    return known is not None and not known.ndim and equal(known.item(), size) is True


def _cover(arrays: Sequence[Value], points: Sequence[Size]) -> bool:
    """Whether index arrays that are broadcast have all of these axes."""
    for axis in range(-len(points), 0):
        sizes = [x.type.shape[axis] for x in arrays if x.type.rank >= -axis]
        if not any(equal(points[axis], n) is True for n in sizes):
            return False
    return True


def _are_from_zero(value: Value) -> bool:
    """Whether the integers of an array are known to be distinct, and not negative."""
    spread = _spread_of(value)
    return spread is not None and spread.is_from_start


def _are_all_of_nonzero(indices: Sequence[Value]) -> bool:
    """Whether index arrays are those of the elements that are not 0, for all axes."""
    node = indices[0].node
    return node.primitive is OP.nonzero and {*indices} >= {*node.outputs}


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
            return spread_along[0], _Spread(spread_along[1].most)
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
        most = (length - 1) * step
        is_from_start = isinstance(start, int) and start >= 0
        return _Spread(most, start + most if is_from_start else None)
    if node.primitive is OP.argsort and value.type.rank == 1:
        return _Spread(value.type.shape[0] - 1, value.type.shape[0] - 1)
    if _is_each_once(node):
        return _spread_of(node.inputs[0])
    if node.primitive is OP.gather:
        x, *indices = node.inputs
        sizes = [x.type.shape[a] for a in node.params["axes"]]
        return _spread_of(x) if is_without_repeats(indices, sizes) else None
    if node.primitive in (OP.add, OP.multiply) and value.dtype.itemsize >= 4:
        pairs = ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))
        for x, y in pairs:
            spread = None if _axes(y) else _spread_of(x)
            if spread is not None:
                moved = _add_number if node.primitive is OP.add else _multiply_by
                return moved(spread, literal_of(y))
    return None


def _add_number(spread: _Spread, by: NDArray | None) -> _Spread:
    """The spread of integers plus a number, which may be unknown."""
    if spread.last is None or by is None or by.item() < 0:
        return _Spread(spread.most)
    return _Spread(spread.most, spread.last + int(by.item()), may_wrap=True)


def _multiply_by(spread: _Spread, by: NDArray | None) -> _Spread | None:
    """The spread of integers times a number, which must be known."""
    if by is None or by.item() <= 0:
        return None
    times = int(by.item())
    last = None if spread.last is None else spread.last * times
    return _Spread(spread.most * times, last, may_wrap=True)


def _is_each_once(node: Node) -> bool:
    """Whether the elements are those of the first input, each at most once."""
    moving = (OP.reshape, OP.expand_dims, OP.squeeze, OP.transpose, OP.basic_index)
    if node.primitive is OP.convert:  # short integers wrap around
        dtype = node.outputs[0].dtype
        return is_integer(dtype) and dtype.itemsize >= 4
    return node.primitive in (*moving, OP.dynamic_slice)


def _literal_spread(array: NDArray) -> _Spread | None:
    flat = array.ravel()
    if not flat.size or np.unique(flat).size < flat.size:
        return None
    least, last = int(flat.min()), int(flat.max())
    return _Spread(last - least, last if least >= 0 else None)
