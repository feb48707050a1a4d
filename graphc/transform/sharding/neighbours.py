"""Ops whose rows are the rows of an operand, shifted by some places.

A slice leaves out the first rows, padding and concatenation put rows before them, and a
written slice lies somewhere in an array. Each device needs a few rows of its
neighbours, which XLA sends, and nothing else.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    ceil_div,
    maximum,
    substitute,
    symbol_dim,
)
from graphc.ir.types import same_size
from graphc.ops.indexing.basic import BASIC_INDEX
from graphc.transform.sharding.combining import PlaceOf
from graphc.transform.sharding.layout import MeshLayout, comparable_size
from graphc.transform.sharding.sent import Unforeseen


@dataclass(frozen=True)
class Shift:
    """A shift: row i of a result is made of rows of input `operand` from a place on.

    The place is `start + i * stride`, and there are `window` rows. `axes` are the axes
    of all operands along which they lie as the result does; None for other operands.
    """

    operand: int
    axes: Sequence[int | None]
    start: int
    stride: int = 1
    window: int = 1


SHIFTED: RuleTable[Callable[[MeshLayout, Node, int], Shift | None]] = RuleTable(
    "rows of a result that are rows of an operand, some places further"
)


def shift_of(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """The shift along an axis of the result; None where there is none.

    A symbolic size is spread even if it is not a multiple of the number of devices.
    """
    rule = SHIFTED.find(node.primitive)
    result = node.outputs[0]
    shift = None if rule is None else rule(layout, node, axis)
    return shift if shift and isinstance(result.type.shape[axis], Dim) else None


def rows_sent(
    layout: MeshLayout, name: str, before: Size, after: Size, shift: Shift
) -> Size:
    """The rows that a device takes from its neighbours on both sides.

    `before` and `after` are the rows of the operand and of the result on all devices
    along an axis of the mesh. Raises Unforeseen where the two differ by more than a few
    rows: then rows come from devices that are ever farther away, and XLA decides how.
    """
    devices, start, stride = layout.mesh.size(name), shift.start, shift.stride
    spread = [symbol for symbol, axis in layout.axes.items() if axis == name]
    parts = {symbol: Symbol(symbol.name) for symbol in spread}
    multiples = {s: devices * symbol_dim(part) for s, part in parts.items()}
    old, new = [ceil_div(substitute(n, multiples), devices) for n in (before, after)]
    farther = old - new * stride  # for each device
    if isinstance(farther, Dim) and abs(comparable_size(farther)) > stride:
        raise Unforeseen
    last = (new - 1) * stride + shift.window  # of the rows of the first device
    missing_before = [(old - new * stride) * i - start for i in {1, devices - 1}]
    missing_after = [
        (new * stride - old) * i + start + last - old for i in {0, devices - 2}
    ]
    rows = maximum(0, *missing_before) + maximum(0, *missing_after)
    return substitute(
        rows, {part: symbol_dim(s) // devices for s, part in parts.items()}
    )


@SHIFTED.of(OP.basic_index)
def _of_slice(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    kinds = node.params["kinds"]
    at = [i for i, kind in enumerate(kinds) if kind != "i"]
    if axis >= len(at) or kinds[at[axis]] != "s":
        return None
    item = at[axis]
    start, step = (node.params[name][item] for name in ("starts", "steps"))
    operand_axis = sum(kind != "n" for kind in kinds[:item])
    first = 0 if start is None else start
    stride = 1 if step is None else step
    if not isinstance(stride, int) or not isinstance(first, int):
        return None
    return Shift(0, [operand_axis], first, stride) if stride > 0 <= first else None


@SHIFTED.of(OP.pad)
def _of_pad(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    low = node.params["low"][axis]
    return Shift(0, [axis, None], -low) if isinstance(low, int) else None


@SHIFTED.of(OP.max_pool, OP.min_pool, OP.sum_pool)
def _of_pool(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    at = axis - node.inputs[0].type.rank + len(node.params["window"])
    size = node.params["window"][at] if at >= 0 else 0
    return _of_windows(node, at, size, [axis]) if at >= 0 else None


@SHIFTED.of(OP.conv)
def _of_conv(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """The shift for strides of one row over all channels; else XLA gathers all rows."""
    if axis < 2 or {node.params[n][axis - 2] for n in ("spread", "stride")} != {1}:
        return None
    if not same_size(node.params["groups"], 1):
        return None
    size = node.inputs[1].type.shape[axis]
    return _of_windows(node, axis - 2, size, [axis, None])


def _of_windows(
    node: Node, at: int, size: Size, axes: Sequence[int | None]
) -> Shift | None:
    """The shift of windows of fixed sizes along the spatial axis `at`."""
    names = "low", "stride", "dilation"
    low, stride, dilation = [node.params[name][at] for name in names]
    if not all(isinstance(n, int) for n in (low, stride, dilation, size)):
        return None
    window, named = (size - 1) * dilation + 1, node.params["padding"]
    if named and stride != 1:
        return None
    if named:
        low = (window - 1) // 2 if named == "SAME" else window // 2
    return Shift(0, axes, -low, stride, window)


@SHIFTED.of(OP.concatenate)
def _of_joined(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """The shift of the one array that is spread, with few rows of others around it."""
    if axis != node.params["axis"]:
        return None
    varying = [i for i, v in enumerate(node.inputs) if _has_varying_size(v, axis)]
    before = [v.type.shape[axis] for v in node.inputs[: varying[0]]] if varying else []
    if len(varying) != 1 or not layout.nearly_even_place(node.inputs[varying[0]])[axis]:
        return None
    axes = [axis if i == varying[0] else None for i in range(len(node.inputs))]
    return Shift(varying[0], axes, -sum(n for n in before if isinstance(n, int)))


def _has_varying_size(value: Value, axis: int) -> bool:
    return isinstance(value.type.shape[axis], Dim)


@SHIFTED.of(OP.slice_update)
def _of_written(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """The shift of an update with all rows of the slice, or with one row for all."""
    written, update = written_slice(node), node.inputs[1].type
    if written is None or written.axis != axis:
        return None
    at = axis - node.inputs[0].type.rank + update.rank
    alike = at >= 0 and same_size(update.shape[at], written.length)
    return Shift(1, [axis, at if alike else None], -written.start)


class WrittenSlice(NamedTuple):
    """The one axis on which not all is written, the first place, and the row count."""

    axis: int
    start: int
    length: Size


def written_slice(node: Node) -> WrittenSlice | None:
    """The consecutive rows that a node writes to; None where it writes others."""
    x = node.inputs[0]
    params = {name: p for name, p in node.params.items() if name != "how"}
    if set(params["kinds"]) - {"s"} or set(params["steps"]) - {None, 1}:
        return None
    region: Value = BASIC_INDEX(x, **params)
    pairs = enumerate(zip(region.type.shape, x.type.shape, strict=True))
    sliced = [axis for axis, (n, m) in pairs if not same_size(n, m)]
    starts = [params["starts"][a] for a in sliced]
    starts = [0 if start is None else start for start in starts]
    if len(sliced) != 1 or not isinstance(starts[0], int) or starts[0] < 0:
        return None
    return WrittenSlice(sliced[0], starts[0], region.type.shape[sliced[0]])


def bytes_sent(
    layout: MeshLayout, node: Node, axis: int, shift: Shift, place_of: PlaceOf
) -> Size | None:
    """The bytes of neighbours' rows that a device takes for a result; None if none."""
    operand = node.inputs[shift.operand]
    operand_axis, places = shift.axes[shift.operand], place_of(operand)
    name = None if operand_axis is None else places[operand_axis]
    if operand_axis is None or name is None:
        return None
    after = node.outputs[0].type.shape[axis]
    before = operand.type.shape[operand_axis]
    rows = rows_sent(layout, name, before, after, shift)
    sizes = layout.local_shape(operand, places)
    others = prod([n for a, n in enumerate(sizes) if a != operand_axis])
    return None if same_size(rows, 0) else rows * others * operand.dtype.itemsize


def is_put_among_spread(layout: MeshLayout, node: Node) -> bool:
    """Whether a node puts computed rows among more rows along a spread axis."""
    if not any(v.node.inputs for v in node.inputs):
        return False
    rows = node.inputs[node.primitive is OP.slice_update].type.shape
    [result] = node.outputs
    names = reversed(layout.nearly_even_place(result))
    sizes = zip(names, reversed(rows), reversed(result.type.shape), strict=False)
    return any(name and isinstance(m - n, Dim) for name, n, m in sizes)


def is_shifted(layout: MeshLayout, node: Node, values: Container[Value]) -> bool:
    """Whether a node shifts rows of any of `values`, which devices could share."""
    return any(node.inputs[s.operand] in values for _, s in _shifts(layout, node))


def is_resized(layout: MeshLayout, node: Node, values: Container[Value]) -> bool:
    """Whether a node shifts rows of `values` to more or fewer rows in all.

    Devices then have other rows than before.
    """
    sizes = [
        (node.inputs[s.operand].type.shape[s.axes[s.operand] or 0], size)
        for size, s in _shifts(layout, node)
        if node.inputs[s.operand] in values
    ]
    return any(not same_size(before, after) for before, after in sizes)


def _shifts(layout: MeshLayout, node: Node) -> Iterator[tuple[Size, Shift]]:
    """Yield shifts along axes that devices could share, with the rows of results."""
    for value in node.outputs:
        for axis, name in enumerate(layout.nearly_even_place(value)):
            shift = shift_of(layout, node, axis) if name else None
            if shift is not None:
                yield value.type.shape[axis], shift
