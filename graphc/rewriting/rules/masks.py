"""Selected elements that are reduced, or written back, need not be selected.

`x[mask]`, and `x[:n]` where n is computed, have a size that depends on data: it is
read, and everything after it is compiled for it. Where only elementwise ops, and
reductions of other axes, stand between the selection and a reduction, the same is
computed on all elements, and those not selected count nothing: `sum(log(x[mask]))`
becomes `sum(where(mask, log(x), 0))`.
A bound that is known from arguments saves work, however long the array is, and costs no
read: the policies of sizes decide whether it is compiled for or masked.
`where` keeps out any NaN that elements not selected give, also in gradients, which are
rewritten alike. Sums are added up in another order.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from graphc.analysis.binding_time import is_known_on_host
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Node, Params, Value, origins
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, is_one
from graphc.ir.types import is_inexact
from graphc.ops.common.monoids import MONOIDS
from graphc.ops.effects.assertions import asserted
from graphc.ops.effects.barriers import PINNED
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.engine.rule import IsKept, Rule, Rules, rewrite
from graphc.rewriting.loops.find.access import items_of, same_item
from graphc.rewriting.match.pattern import CountUses, p, v
from graphc.rewriting.match.sizes import with_guards

BEHIND = (
    *(OP.sum, OP.prod, OP.any, OP.all, OP.max, OP.min, OP.expand_dims, OP.squeeze),
)
TURNED = ("s", None, None, -1)
MOST_OPS = 40  # between a selection and the reduction


@dataclass(frozen=True)
class Selection:
    """A selection along the first axes of arrays; `shape` has their sizes."""

    mask: Value
    shape: tuple[Size, ...]  # of the axes to select from
    count: Size
    turned: bool = False  # the last element first

    @property
    def rank(self) -> int:
        """The number of axes that become one."""
        return len(self.shape)

    def spread(self, rank: int) -> Value:
        """Return the mask with axes of size 1 after its own, up to `rank` axes."""
        other_axes = tuple(range(self.rank, rank))
        return F.expand_dims(self.mask, other_axes) if other_axes else self.mask


Taken = tuple[Selection, Value]  # and the array to select from


def _selection_of(node: Node) -> Taken | None:
    """The selection that a node makes: `x[mask]`, `x[a:b]`, or `x[a:b][::-1]`."""
    selection = _selection_by_mask(node) or _selection_by_slice(node)
    if selection is not None:
        return selection, node.inputs[0]
    if node.primitive is not OP.basic_index:
        return None
    (x,) = node.inputs
    before = _selection_by_slice(x.node)
    if before is None:
        return None
    source = x.node.inputs[0]
    if _is_flip(node):
        return replace(before, turned=True), source
    return _selection_of_cut(node, before.count, source)


def _selection_of_cut(node: Node, count: Size, source: Value) -> Taken | None:
    """Return the selection of a node that slices the first `count` items of a source.

    Slices of one array that drop as many elements share one slice of the whole array.
    """
    (before, *others), first = items_of(node), items_of(node.inputs[0].node)[0]
    start, end = (0 if bound is None else bound for bound in before[1:3])
    from_start = first[1] is None or dims.equal(first[1], 0) is True
    fits = before[3] is None and set(others) <= {FULL_ITEM} and from_start
    known = isinstance(start, int) and isinstance(end, int)
    if before[0] != "s" or not fits or not known or start < 0:
        return None
    if before[2] is not None and end >= 0:
        return None
    n, less = source.type.shape[0], start - end
    whole_size, many = (dims.maximum(0, size - less) for size in (n, count))
    part = basic(source, (("s", start, before[2], None),))
    mask = F.arange(size_value(whole_size)) < size_value(many)
    return Selection(mask, (whole_size,), many), part


def _is_flip(node: Node) -> bool:
    """Whether an index reverses the first axis, and does nothing else."""
    first, *others = items_of(node)
    return same_item(first, TURNED) and set(others) <= {FULL_ITEM}


def _selection_by_mask(node: Node) -> Selection | None:
    """The selection of `x[mask]`, by the positions where the mask is true."""
    if node.primitive is not OP.gather or not all(node.params["inside"]):
        return None
    return _mask_of_positions(node.inputs[1:], node.params["axes"])


def _mask_of_positions(
    indices: tuple[Value, ...], axes: tuple[int, ...]
) -> "Selection | None":
    source = indices[0].node
    if source.primitive is not OP.nonzero or indices != source.outputs:
        return None
    if axes != tuple(range(len(axes))):
        return None
    (mask,) = source.inputs
    return Selection(mask, mask.type.shape, source.params["count"])


def _selection_by_slice(node: Node) -> Selection | None:
    """Return the selection of `x[a:b]`, if a bound is computed on the device."""
    if node.primitive is not OP.basic_index:
        return None
    return _by_bounds(node.inputs[0], node.params, node.outputs[0].type.shape)


def _by_bounds(x: Value, params: Params, shape: tuple[Size, ...]) -> Selection | None:
    kinds, steps = params["kinds"], params["steps"]
    if kinds[:1] != "s" or set(kinds) != {"s"} or any(s is not None for s in steps):
        return None
    bounds = list(zip(params["starts"], params["stops"], strict=True))
    if any(b != (None, None) for b in bounds[1:]) or not _is_read(bounds[0]):
        return None
    n = x.type.shape[0]
    first, last = (None if b is None else dims.clip(b, n) for b in bounds[0])
    index = F.arange(size_value(n))
    mask = _is_between(index, first, last)
    return Selection(mask, (n,), shape[0])


_ARE_TRACED = ContextVar("whether integers of arguments are traced", default=False)


@contextmanager
def integers_as_traced() -> Generator[None]:
    """Take no integer of an argument as known on the host, within this context.

    This is so in programs that users jit themselves.
    """
    token = _ARE_TRACED.set(True)
    try:
        yield
    finally:
        _ARE_TRACED.reset(token)


def _is_read(bounds: tuple[Size | None, Size | None]) -> bool:
    """Whether the size of a slice would be read from the device."""
    integers = [v for b in bounds if b is not None for v in origins(b)]
    if _ARE_TRACED.get():
        return bool(integers)
    return not all(map(is_known_on_host, integers))


def _is_between(index: Value, first: Size | None, last: Size | None) -> Value:
    below = None if last is None else index < size_value(last)
    above = None
    if first is not None and (last is None or not dims.equal(first, 0)):
        above = index >= size_value(first)
    if below is None or above is None:
        only_bound = above if below is None else below
        assert only_bound is not None
        return only_bound
    return F.logical_and(above, below)


def _selection_above(value: Value) -> Selection | None:
    """Return the selection above elementwise ops: the first one met, or None."""
    size = value.type.shape[0] if value.type.rank else None
    if not isinstance(size, Dim) or not origins(size):
        return None
    stack, seen = [value.node], {value.node}
    while stack and len(seen) <= MOST_OPS:
        node = stack.pop()
        selected = _selection_of(node)
        if selected is not None and dims.equal(selected[0].count, size) is True:
            return selected[0]
        for x in node.inputs:
            if x.node not in seen and x.type.rank and x.type.shape[0] is size:
                seen.add(x.node)
                stack.append(x.node)
    return None


class _Unselected:
    """Values with a selected first axis, rebuilt on all elements."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._made: dict[Value, Value] = {}

    def whole(self, value: Value) -> Value | None:
        """Return the value on all elements; None if it depends on other ops."""
        order = self._values_to_rebuild(value)
        if order is None:
            return None
        for each in order:
            result = self._rebuild(each)
            if result is None:
                return None
            self._made[each] = result
        return self._made[value]

    def are_kept(self, value: Value, is_kept: IsKept) -> bool:
        """Whether some of the selected values that make up a value are outputs too.

        Then they are selected in any case.
        """
        return any(map(is_kept, self._values_to_rebuild(value) or ()))

    def node_taking(self, value: Value) -> Node | None:
        """Return a node that takes such elements out of an array, in their order."""
        order = self._values_to_rebuild(value) or ()
        sources = [v.node for v in order if self._source(v) is not None]
        takes = (n for n in sources if _selection_by_mask(n) or _selection_by_slice(n))
        return next(takes, None)

    def is_of_elements(self, value: Value) -> bool:
        """Whether a value is made by functions of selected elements alone."""
        order = self._values_to_rebuild(value) or ()
        computed = [v for v in order if self._source(v) is None and self._selects(v)]
        return bool(order) and all(v.node.primitive.elementwise for v in computed)

    def _selects(self, value: Value) -> bool:
        """Whether the first axis of a value is the selected one."""
        shape, count = value.type.shape, self._selection.count
        if not shape:
            return False
        return shape[0] is count or dims.equal(shape[0], count) is True

    def _values_to_rebuild(self, value: Value) -> list[Value] | None:
        """Return the values to rebuild, operands first; None if they are too many."""
        seen: dict[Value, None] = {}
        stack = [value]
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen[each] = None
            if len(seen) > MOST_OPS:
                return None
            if self._source(each) is None:
                stack += [x for x in each.node.inputs if self._selects(x)]
        return sorted(seen, key=lambda x: x.node.serial)

    def _source(self, value: Value) -> Value | None:
        """Return the array from which this selection makes a value, or None."""
        selected = _selection_of(value.node)
        if selected is None:
            return None
        (selection, x), whole = selected, self._selection
        alike = selection.rank == whole.rank and selection.turned == whole.turned
        return x if alike and selection.mask is whole.mask else None

    def _rebuild(self, value: Value) -> Value | None:
        source = self._source(value)
        if source is not None:
            return source
        if not self._selects(value):
            return self._thin(value)
        node = value.node
        if node.primitive is OP.broadcast_to:
            return self._broadcast(node)
        if node.primitive is OP.full:
            shape = (*self._selection.shape, *value.type.shape[1:])
            return F.full(shape, node.inputs[0])
        if node.primitive in BEHIND:
            return self._rebuild_behind(node)
        keeps_elements = node.primitive.elementwise or node.primitive is OP.assert_
        if not keeps_elements or len(node.outputs) > 1:
            return None
        if node.primitive is PINNED:  # others would see what was computed for them
            return None
        return self._elementwise(node, value.type.rank)

    def _rebuild_behind(self, node: Node) -> Value | None:
        """Rebuild an op on axes behind the selected one; None if it is on that too."""
        if 0 in node.params["axes"]:
            return None
        more = self._selection.rank - 1
        axes = tuple(a + more for a in node.params["axes"])
        x = self._made[node.inputs[0]]
        return node.primitive(x, **{**node.params, "axes": axes})

    def _elementwise(self, node: Node, rank: int) -> Value | None:
        inputs = []
        for x in node.inputs:
            if self._selects(x) and x.type.rank != rank:
                return None
            operand = self._made[x] if self._selects(x) else self._thin(x, rank)
            if operand is None:
                return None
            inputs.append(operand)
        return node.primitive(*inputs, **node.params)

    def _broadcast(self, node: Node) -> Value | None:
        (x,) = node.inputs
        shape = node.outputs[0].type.shape
        if self._selects(x):
            inner: Value | None = self._made[x] if x.type.rank == len(shape) else None
        else:
            inner = self._thin(x, len(shape))
        if inner is None:
            return None
        return F.broadcast_to(inner, (*self._selection.shape, *shape[1:]))

    def _thin(self, value: Value, rank: int | None = None) -> Value | None:
        """Return a value that lacks the selected axis, or has one of size 1 there.

        Such an axis becomes as many as the mask has. None if the shape of the value
        depends on the selection in another way.
        """
        count = self._selection.count
        if any(isinstance(n, Dim) and n is count for n in value.type.shape):
            return None
        along = value.type.shape[0] if value.type.rank == rank else 1
        if not is_one(along):  # a guard makes it equal to the count
            return None
        if rank is None or value.type.rank < rank or self._selection.rank == 1:
            return value
        more = self._selection.rank - 1
        return F.expand_dims(value, tuple(range(more)))


def _on_all(selection: Selection | None, x: Value, is_kept: IsKept) -> Value | None:
    """Return a value on all elements; None where the selected ones are outputs too."""
    if selection is None:
        return None
    unselecting = _Unselected(selection)
    return None if unselecting.are_kept(x, is_kept) else unselecting.whole(x)


def _neutral_element(name: str, x: Value) -> Value | None:
    """Return the neutral element of a reduction of `x`, or None."""
    monoid = MONOIDS.rules[PRIMITIVES[name]]
    if monoid.ordered and (not is_inexact(x.dtype) or x.dtype.kind == "c"):
        return None
    return cast(as_value(monoid.neutral(x.dtype)), x.dtype)


def _reduction_rule(name: str) -> Rule:
    """Make the rule that reduces all elements, with those not selected as neutral."""
    root = getattr(p, name)
    inputs = (v.x, v.start) if name.endswith("_from") else (v.x,)

    def replace(
        y: Value, x: Value, axes: tuple[int, ...], keepdims: bool, is_kept: IsKept
    ) -> Value | None:
        if 0 not in axes or not x.type.rank:
            return None
        selection = _selection_above(x)
        fill = None if selection is None else _neutral_element(name, x)
        whole = None if fill is None else _on_all(selection, x, is_kept)
        if selection is None or fill is None or whole is None:
            return None
        masked = F.where(selection.spread(whole.type.rank), whole, fill)
        more = selection.rank - 1
        over = (*range(selection.rank), *(a + more for a in axes if a))
        other_inputs = y.node.inputs[1:]
        result: Value = y.node.primitive(
            masked, *other_inputs, axes=over, keepdims=keepdims
        )
        return F.squeeze(result, tuple(range(more))) if keepdims and more else result

    replace.__doc__ = f"{name} of selected elements: a masked {name} of all elements."
    pattern = v.y(root(*inputs, axes=v.axes, keepdims=v.keepdims))
    return rewrite(pattern, exact=False, name=f"{name}_of_selected")(replace)


def _total_rule(name: str) -> Rule:
    """Make the rule for a sum over all elements of something that is 0 for 0."""
    root = getattr(p, name)

    def replace(y: Value, x: Value, is_kept: IsKept) -> Value | None:
        selection = _selection_above(x)
        whole = _on_all(selection, x, is_kept)
        if selection is None or whole is None:
            return None
        mask = selection.spread(whole.type.rank)
        return y.node.primitive(F.where(mask, whole, cast(as_value(0), x.dtype)))

    replace.__doc__ = f"{name} of selected elements: a masked {name} of all elements."
    return rewrite(v.y(root(v.x)), exact=False, name=f"{name}_of_selected")(replace)


def _extreme_rule(name: str) -> Rule:
    """Make the rule for the extreme of selected elements, which tests for one."""

    def replace(
        y: Value, x: Value, axes: tuple[int, ...], keepdims: bool, is_kept: IsKept
    ) -> Value | None:
        selection = _selection_above(x) if 0 in axes else None
        start = None if selection is None else _neutral_element(name, x)
        if selection is None or start is None:
            return None
        if _on_all(selection, x, is_kept) is None:
            return None
        from_start: Callable[..., Value] = getattr(F, name)
        result = from_start(x, axis=axes, keepdims=keepdims, initial=start)
        result = with_guards(result, y.node, but_for=x.type.shape[0])
        message = f"{name}: axis 0 has no element to reduce: none is selected"
        return asserted(result, F.any(selection.mask), message, "shape")

    replace.__doc__ = f"{name} of selected elements, after a test that there is one."
    pattern = v.y(getattr(p, name)(v.x, axes=v.axes, keepdims=v.keepdims))
    called = f"{name}_of_selected"
    return rewrite(pattern, exact=True, checks=True, name=called)(replace)


@rewrite(v.y(p.scatter(v.x, v.w, v.i)), exact=True)
def write_to_selected(
    y: Value, x: Value, w: Value, uses: CountUses, is_kept: IsKept
) -> Value | None:
    """x.at[mask].set(f(z[mask])) is where(mask, f(z), x), and likewise for add."""
    node = y.node
    if not all(node.params["inside"]) or uses(w) > 1 or is_kept(w):
        return None  # `w` is made at its true size anyway, as others use it
    selection = _mask_of_positions(node.inputs[2:], node.params["axes"])
    return _write(selection, x, w, node.params["how"])


@rewrite(v.y(p.slice_update(v.x, v.w)), exact=True)
def write_to_slice(
    y: Value, x: Value, w: Value, uses: CountUses, is_kept: IsKept
) -> Value | None:
    """x.at[:n].set(f(z[:n])) is where(arange < n, f(z), x), and likewise for add."""
    params = y.node.params
    if uses(w) > 1 or is_kept(w):
        return None  # `w` is made at its true size anyway, as others use it
    selection = _by_bounds(x, params, w.type.shape) if w.type.rank else None
    return _write(selection, x, w, params["how"])


def _write(selection: Selection | None, x: Value, w: Value, how: str) -> Value | None:
    alike = selection is not None and w.type.rank == x.type.rank - selection.rank + 1
    if selection is None or not alike or not w.type.rank:
        return None
    if dims.equal(w.type.shape[0], selection.count) is not True:
        return None
    whole = _Unselected(selection).whole(w)
    combine = {"set": lambda a, b: b, "add": F.add, "multiply": F.multiply}.get(how)
    if whole is None or combine is None:
        return None
    mask = selection.spread(x.type.rank)
    return F.where(mask, combine(x, F.broadcast_to(whole, x.type.shape)), x)


@rewrite(v.y(p.pinned(v.x)), exact=True)
def pinned_of_selected(y: Value, x: Value, is_kept: IsKept) -> Value | None:
    """Pinned functions of selected elements are computed on all, and then selected.

    So reductions of them, and whatever else uses them, see the same numbers.
    """
    selection = _selection_above(x)
    if selection is None or is_kept(y):
        return None
    unselecting = _Unselected(selection)
    taking = unselecting.node_taking(x)
    if taking is None or not unselecting.is_of_elements(x):
        return None
    whole = None if unselecting.are_kept(x, is_kept) else unselecting.whole(x)
    if whole is None or whole.type.rank != taking.inputs[0].type.rank:
        return None
    pinned = PINNED(whole)
    return taking.primitive(pinned, *taking.inputs[1:], **taking.params)


MASKS = Rules(
    (
        pinned_of_selected,
        *map(_reduction_rule, ("sum", "prod", "any", "all", "max_from", "min_from")),
        *map(_total_rule, ("sum_of_squares", "count_nonzero")),
        *map(_extreme_rule, ("max", "min")),
        write_to_selected,
        write_to_slice,
    )
)
