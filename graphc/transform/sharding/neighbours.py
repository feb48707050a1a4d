"""Ops whose rows are those of an operand, some places further.

A slice leaves the first rows out, padding and a joined array put some before them, a
written slice lies somewhere in an array. Each device needs a few rows of its
neighbours, which XLA sends, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
from graphc.transform.sharding.layout import MeshLayout


@dataclass(frozen=True)
class Shift:
    """A row of the result is that of the input `operand` which is `start` further.

    Operands that lie as the result does have their rows where it has them: `axes` are
    those of all operands.
    """

    operand: int
    axes: Sequence[int | None]
    start: int


SHIFTED: RuleTable[Callable[[MeshLayout, Node, int], Shift | None]] = RuleTable(
    "rows of a result that are rows of an operand, some places further"
)


def shift_of(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """The shift along an axis of the result; None where there is none.

    Sizes that are no multiples of the devices are spread too, if they vary with those.
    """
    rule = SHIFTED.find(node.primitive)
    result = node.outputs[0]
    shift = None if rule is None else rule(layout, node, axis)
    return shift if shift and isinstance(result.type.shape[axis], Dim) else None


def rows_sent(
    layout: MeshLayout, name: str, sizes: tuple[Size, Size], start: int
) -> Size:
    """The rows that a device takes of its neighbours, of both sides.

    `sizes` are the rows of all devices along an axis of the mesh, of an operand and of
    the result.
    """
    devices = layout.mesh.size(name)
    spread = [symbol for symbol, axis in layout.axes.items() if axis == name]
    parts = {symbol: Symbol(symbol.name) for symbol in spread}
    multiples = {s: devices * symbol_dim(part) for s, part in parts.items()}
    old, new = [ceil_div(_with(n, multiples), devices) for n in sizes]
    places = {1, devices - 1}
    left = [(old - new) * i - start for i in places]
    right = [(new - old) * i + start for i in places]
    rows = maximum(0, *left) + maximum(0, *right)
    return _with(rows, {part: symbol_dim(s) // devices for s, part in parts.items()})


def _with(size: Size, sizes: Mapping[Symbol, Size]) -> Size:
    return substitute(size, sizes) if isinstance(size, Dim) else size


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
    if step not in (None, 1) or not isinstance(first, int) or first < 0:
        return None
    return Shift(0, [operand_axis], first)


@SHIFTED.of(OP.pad)
def _of_pad(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    low = node.params["low"][axis]
    return Shift(0, [axis, None], -low) if isinstance(low, int) else None


@SHIFTED.of(OP.concatenate)
def _of_joined(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """Of one array that is spread, with few rows of others around it."""
    if axis != node.params["axis"]:
        return None
    varying = [i for i, v in enumerate(node.inputs) if _varies(v, axis)]
    before = [v.type.shape[axis] for v in node.inputs[: varying[0]]] if varying else []
    if len(varying) != 1 or layout.of(node.inputs[varying[0]]) is None:
        return None
    axes = [axis if i == varying[0] else None for i in range(len(node.inputs))]
    return Shift(varying[0], axes, -sum(n for n in before if isinstance(n, int)))


def _varies(value: Value, axis: int) -> bool:
    return isinstance(value.type.shape[axis], Dim)


@SHIFTED.of(OP.slice_update)
def _of_written(layout: MeshLayout, node: Node, axis: int) -> Shift | None:
    """Of an update with all rows of the slice, where only one axis is sliced."""
    written = written_slice(node)
    if written is None or written[0] != axis:
        return None
    return Shift(1, [axis, axis], -written[1])


def written_slice(node: Node) -> tuple[int, int] | None:
    """The one axis along which not all is written, and the first place on it."""
    x, update = node.inputs
    params = {name: p for name, p in node.params.items() if name != "how"}
    region: Value = BASIC_INDEX(x, **params)
    shapes = region.type.shape, update.type.shape
    if set(params["kinds"]) - {"s"} or len(shapes[0]) != len(shapes[1]):
        return None
    if not all(map(same_size, *shapes)):
        return None
    sliced = [a for a, n in enumerate(shapes[0]) if not same_size(n, x.type.shape[a])]
    starts = [params["starts"][a] or 0 for a in sliced]
    steps = [step for step in params["steps"] if step not in (None, 1)]
    if len(sliced) != 1 or steps or not isinstance(starts[0], int) or starts[0] < 0:
        return None
    return sliced[0], starts[0]
