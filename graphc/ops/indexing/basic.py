"""Slices and constant integers: the part of an index that needs no arrays."""

from collections.abc import Iterable
from typing import Any

from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.op import Array, Printing, op, views_of_inputs
from graphc.ir.namespace import F, enroll
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import TensorType
from graphc.ops.common.batching import Batched
from graphc.ops.common.known_integers import KnownSizes, is_symbolic
from graphc.ops.indexing.parse import (
    FULL_ITEM,
    BasicItem,
    Bounds,
    Kinds,
    SliceBound,
    require_within,
    slice_length,
)


@op()
def _basic_index(
    x: Array, *, kinds: Kinds, starts: Bounds, stops: Bounds, steps: Bounds
) -> TensorType:
    """`x[...]`; each item is a slice ("s"), a static integer ("i") or None ("n")."""
    shape: list[Size] = []
    axis = 0
    for kind, start, stop, step in zip(kinds, starts, stops, steps, strict=True):
        if kind == "n":
            shape.append(1)
            continue
        n = x.type.shape[axis]
        axis += 1
        if kind == "i":
            assert start is not None
            require_within(start, n)
        else:
            shape.append(slice_length(start, stop, 1 if step is None else step, n))
    return x.type.like([*shape, *x.type.shape[axis:]])


def subscript(p: Printing) -> str:
    """The items of a basic index as the text between brackets."""
    return ", ".join(_item_text(p, *item) for item in items_of(p.node)) or "..."


def items_of(node: Node) -> list[BasicItem]:
    """The items of a basic index, or of a write to one."""
    params = node.params
    return list(
        zip(
            *(params[name] for name in ("kinds", "starts", "stops", "steps")),
            strict=True,
        )
    )


def _item_text(
    p: Printing, kind: str, start: SliceBound, stop: SliceBound, step: SliceBound
) -> str:
    if kind == "n":
        return "None"
    if kind == "i":
        return p.code(start)
    texts = ["" if b is None else p.code(b) for b in (start, stop)]
    return ":".join(texts) + ("" if step is None else f":{p.code(step)}")


def _views(node: Node) -> Iterable[tuple[Value, Value]]:
    """Slices give views; an integer for each axis gives a scalar."""
    scalar = node.inputs[0].type.rank and not node.outputs[0].type.rank
    return () if scalar else views_of_inputs(node)


_basic_index.rounding = "none"
_basic_index.emit(lambda p: f"{p.inputs[0]}[{subscript(p)}]")
_basic_index.views = _views


def static_items(
    items: tuple[tuple[object, ...], ...],
) -> tuple[int | slice | None, ...]:
    """The items as Python's, to index an object array of sizes; bounds are numbers."""
    numeric_items: list[Any] = []
    for kind, start, stop, step in items:
        numeric_items.append(
            None if kind == "n" else start if kind == "i" else slice(start, stop, step)
        )
    return tuple(numeric_items)


def _sizes_of_index(
    x: KnownSizes, *, kinds: str, starts: Bounds, stops: Bounds, steps: Bounds
) -> KnownSizes:
    if is_symbolic((*starts, *stops, *steps)):
        return None
    return x[static_items(tuple(zip(kinds, starts, stops, steps, strict=True)))]


_basic_index.sizes = _sizes_of_index
_basic_index.linear = True
BASIC_INDEX = _basic_index


def basic(value: Value, items: tuple[BasicItem, ...]) -> Value:
    """Apply the basic items of an index to `value`."""
    while items and items[-1] == FULL_ITEM:
        items = items[:-1]
    if not items:
        return value
    kinds, starts, stops, steps = zip(*items, strict=True)
    part = _basic_index(
        value, kinds="".join(kinds), starts=starts, stops=stops, steps=steps
    )
    return part if part.type.rank or part.sizes is None else _as_size(part)


def _as_size(number: Value) -> Value:
    """An element of known integers; the size itself if only axes determine it."""
    assert number.sizes is not None
    size: Any = number.sizes[()]
    if isinstance(size, Dim) and any(s.origin is not None for s in size.symbols):
        return number
    return cast(as_value(size_value(size)), number.dtype)


@_basic_index.vjp
def _(g: Value, x: Value, **items: Param) -> tuple[Value]:
    parts = list(zip(*items.values(), strict=True))
    if not all(map(_is_whole, parts)):
        return (F._slice_update(F.zeros_like(x), g, how="add", **items),)
    # Nothing is left out: remove new axes, and reverse what was reversed.
    new = tuple(i for i, part in enumerate(parts) if part[0] == "n")
    return (basic(F.squeeze(g, new), tuple(p for p in parts if p[0] != "n")),)


@_basic_index.batch
def _(n: Size, batched: Batched, x: Value, **items: Param) -> Value:
    return _basic_index(x, **after_batch(items))


def _is_whole(item: BasicItem) -> bool:
    """Whether an item takes all of its axis, or makes a new one."""
    kind, start, stop, step = item
    turned = isinstance(step, int) and step == -1
    return kind == "n" or (start is stop is None and (step is None or turned))


def after_batch(items: Params) -> dict[str, object]:
    """The items of a basic index, after a slice that takes the whole batch."""
    first: dict[str, Any] = {"kinds": "s"}
    return {name: first.get(name, (None,)) + item for name, item in items.items()}


def axis_part(x: Value, axis: int, start: Size, stop: Size) -> Value:
    """`x[..., start:stop, ...]` along one axis, for the rules of other ops."""
    return basic(x, (FULL_ITEM,) * axis + (("s", start, stop, None),))


enroll(axis_part, "_part")
