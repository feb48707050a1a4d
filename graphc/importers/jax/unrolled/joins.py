"""Arrays that a trace joins: some at a time, as JAX does, or one in each step."""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from graphc.importers.jax.unrolled.records import IndexItem, IndexItems
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size

CHUNK = 16  # arrays that JAX joins at a time


def joined_further(nodes: Iterable[Node], uses: Counter[Value]) -> set[Value]:
    """The joined arrays whose only use is that more is joined, along the same axis."""
    joins = Counter(
        v
        for node in nodes
        if node.primitive is OP.concatenate
        for v in node.inputs
        if v.node.primitive is OP.concatenate
        and v.node.params["axis"] == node.params["axis"]
    )
    return {v for v, count in joins.items() if uses[v] == count}


def joined_by(
    node: Node, passing: AbstractSet[Value]
) -> tuple[Primitive, tuple[Value, ...]]:
    """The primitive that joins arrays at once, and all arrays that a node joins.

    JAX joins sixteen arrays at a time, then what that gives, and so on. Arrays that are
    only `passing` are replaced by their parts.
    """
    axis, joins = node.params["axis"], (OP.stack, OP.concatenate)
    if node.primitive is OP.stack:
        return OP.stack, node.inputs
    nested = {
        v: joined_by(v.node, passing)
        for v in node.inputs
        if v.node.primitive in joins
        and v.node.params["axis"] == axis
        and v not in passing
    }
    primitives = {primitive for primitive, _ in nested.values()}
    primitive = OP.stack if primitives == {OP.stack} else OP.concatenate
    parts = list[tuple[Value, ...]]()
    for v in node.inputs:
        alone = v.node.primitive is OP.expand_dims and v.node.params["axes"] == (axis,)
        if v in nested:
            parts.append(nested[v][1])
        else:
            parts.append(v.node.inputs if alone and primitive is OP.stack else (v,))
    if len(primitives) != 1 or not _are_chunks(list(map(len, parts))):
        return OP.concatenate, _all_parts(node.inputs, passing)
    return primitive, tuple(chain.from_iterable(parts))


def _all_parts(
    inputs: Sequence[Value], passing: AbstractSet[Value]
) -> tuple[Value, ...]:
    parts, remaining = list[Value](), list(reversed(inputs))
    while remaining:
        v = remaining.pop()
        if v in passing:
            remaining += reversed(v.node.inputs)
        else:
            parts.append(v)
    return tuple(parts)


def _are_chunks(counts: Sequence[int]) -> bool:
    """Whether arrays are joined as JAX does it: so many at a time, but at the end."""
    *full, last = counts
    is_full = bool(full) and set(full) == {full[0]} and last <= full[0]
    return is_full and full[0] in (CHUNK, CHUNK**2, CHUNK**3)


def _is_whole(item: IndexItem, n: Size) -> bool:
    """Whether a slice has all elements of an axis of n."""
    return item.kind == "s" and item.length == n and item.step in (None, 1)


def joined_element(array: Value, items: IndexItems) -> Value | None:
    """The value that was joined to an array as the row that an index reads."""
    if not items or items[0].kind != "i" or items[0].start is None:
        return None
    others = zip(items[1:], array.type.shape[1:], strict=False)
    if not all(_is_whole(item, n) for item, n in others):
        return None
    place = items[0].start.start
    while array.node.primitive is OP.concatenate and array.node.params["axis"] == 0:
        for part in array.node.inputs:
            length = part.type.shape[0]
            if not isinstance(place, int) or not isinstance(length, int):
                return None
            if place < length:
                break
            place -= length
        array = part
    units = OP.expand_dims, OP.reshape, OP.stack
    node = array.node
    if node.primitive not in units or array.type.shape[0] != 1 or len(node.inputs) != 1:
        return None
    return node.inputs[0]
