"""Writes to a part of an array of what is read at other places of it, in JAX's texts.

On CPUs, XLA (of JAX 0.10 to 0.12) may write such a part where the array lies, while it
still reads from there: of `y.at[1:].set(y[:-1])[None]`, where y is computed, all rows
are the first (openxla/xla, issue 49176). Such updates are printed as the parts of the
array joined, of which none is written over; in stencils that is no slower.
"""

from types import ModuleType

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import JaxArray
from graphc.ops.indexing.parse import FULL_ITEM, BasicItem, SliceBound, forwards

_STEPS = 256  # nodes that are looked at, between an array and what is written to it
_RELAID = OP.reshape, OP.expand_dims, OP.squeeze  # XLA does nothing for these
_Bounds = tuple[Size, Size]


def reads_other_places(write: Node) -> bool:
    """Whether a write to a slice takes elements that it writes over, at other places.

    An element that is computed of itself alone is no such element. Where it takes long
    to find out, the answer is that it does.
    """
    if _is_of_all(write) or not _is_of_whole_steps(write):
        return False
    x, update = write.inputs
    stored = _stored(x)
    arrays, first = {x, stored}, stored.node.serial
    stack = [(update, True)]  # and whether elements are at their places so far
    seen = set(stack)
    while stack:
        value, in_place = stack.pop()
        node = value.node
        if value in arrays or len(seen) > _STEPS:
            return True
        if node.serial < first:  # it was there before the array was
            continue
        if node.primitive is OP.basic_index and node.inputs[0] is x:
            if not _is_harmless(node, write, in_place):
                return True
            continue
        for operand, in_its_place in _operands(node):
            step = operand, in_place and in_its_place
            if step not in seen:
                seen.add(step)
                stack.append(step)
    return False


def _stored(x: Value) -> Value:
    """The array whose memory an array has."""
    while x.node.primitive in _RELAID:
        x = x.node.inputs[0]
    return x


def _operands(node: Node) -> list[tuple[Value, bool]]:
    """The operands of a node, and whether their elements stay at their places."""
    if node.primitive is OP.slice_update:
        x, update = node.inputs
        return [(x, True), (update, _is_of_all(node))]
    stay = bool(node.primitive.elementwise)
    return [(operand, stay) for operand in node.inputs]


def _is_of_all(node: Node) -> bool:
    """Whether a slice is the whole array, as it is."""
    return not _items(node)


def _is_of_whole_steps(node: Node) -> bool:
    """Whether a slice leaves nothing out between its ends; others are scattered."""
    return all(step is None or equal(step, 1) is True for step in node.params["steps"])


def _is_harmless(read: Node, write: Node, in_place: bool) -> bool:
    """Whether a slice that is read is that which is written, or another altogether."""
    if in_place and _is_same(read, write):
        return True
    pairs = zip(_bounds(read), _bounds(write), strict=True)
    return any(
        less_equal(a_stop, b_start) is True or less_equal(b_stop, a_start) is True
        for (a_start, a_stop), (b_start, b_stop) in pairs
    )


def _is_same(a: Node, b: Node) -> bool:
    """Whether two slices of arrays of one shape are told in the same way."""
    ours, theirs = _items(a), _items(b)
    return len(ours) == len(theirs) and all(
        k == other_k and all(map(_are_equal, bounds, other_bounds))
        for (k, *bounds), (other_k, *other_bounds) in zip(ours, theirs, strict=True)
    )


def _items(node: Node) -> list[BasicItem]:
    """The items of a slice, without whole axes at the end."""
    names = "kinds", "starts", "stops", "steps"
    items = list(zip(*(node.params[name] for name in names), strict=True))
    while items and items[-1] == FULL_ITEM:
        items.pop()
    return items


def _are_equal(a: SliceBound, b: SliceBound) -> bool:
    return a is b or (a is not None and b is not None and equal(a, b) is True)


def _bounds(node: Node) -> list[_Bounds]:
    """Where a slice begins and ends at the most, of each axis of the array."""
    sizes = iter(node.inputs[0].type.shape)
    bounds = [
        _of_item(kind, start, stop, step, next(sizes))
        for kind, start, stop, step in _items(node)
        if kind != "n"
    ]
    return bounds + [(0, size) for size in sizes]


def _of_item(
    kind: str, start: SliceBound, stop: SliceBound, step: SliceBound, size: Size
) -> _Bounds:
    if kind == "s" and (step is None or less_equal(1, step) is True):
        return forwards(start, stop, size)
    if kind == "i" and start is not None:
        if less_equal(0, start) is True:
            return start, start + 1
        if less_equal(start, -1) is True:
            return size + start, size + start + 1
    return 0, size


def joined_jax(
    jnp: ModuleType, x: JaxArray, v: JaxArray, items: object, how: str
) -> JaxArray:
    """Printed into JAX programs for writes of what is read at other places of `x`."""
    part = x[items]
    names = {"min": "minimum", "max": "maximum", "add": "add", "multiply": "multiply"}
    new = v if how == "set" else getattr(jnp, names[how])(part, v)
    new = jnp.broadcast_to(new, part.shape).astype(x.dtype)
    listed = items if type(items) is tuple else (items,)
    axes = [item for item in listed if item is not None and item is not ...]
    axes += [slice(None)] * (x.ndim - len(axes))
    ranges = []
    for item, size in zip(axes, x.shape, strict=True):
        if type(item) is not slice:
            start = item % size
            item = slice(start, start + 1)
        start, stop, _ = item.indices(size)
        ranges.append((start, max(start, stop)))
    new = new.reshape([stop - start for start, stop in ranges])
    for axis in reversed(range(x.ndim)):
        start, stop = ranges[axis]
        within = x[tuple(slice(*bounds) for bounds in ranges[:axis])]
        before = within[(slice(None),) * axis + (slice(None, start),)]
        after = within[(slice(None),) * axis + (slice(stop, None),)]
        parts = [part for part in (before, new, after) if part.shape[axis]]
        new = jnp.concatenate(parts or [new], axis)
    return new
